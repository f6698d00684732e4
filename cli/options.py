"""Options for settings that run, launch and compare share, without a command-line library.

Ranks read their settings from the environment, so options become variables there.
"""

import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence

from pagewire.native.settings import ConfigError, suggestion
from pagewire.transport.settings import config

SETTING_OPTIONS: Mapping[str, str] = {
    "--memory": "run.memory",
    "--policy": "run.policy",
    "--timeout": "run.timeout",
    "--platform": "run.platform",
    "--compute": "run.compute",
    "--eager-limit": "run.eager_limit",
    "--json": "run.json",
    "--trace": "run.trace",
    "--html": "run.html",
    "--transport": "run.transport",
    "--mpi": "run.mpi",
    "--hosts": "run.hosts",
    "--mpiexec-options": "run.mpiexec_options",
}
"""Options that take the text of one setting."""

SETTING_FLAGS: Mapping[str, str] = {
    "--err": "run.err=true",
    "--no-err": "run.err=false",
    "--strict": "run.strict=true",
    "--quiet": "run.quiet=true",
    "-q": "run.quiet=true",
}
"""Options without a value."""

VALUE_OPTIONS = frozenset(
    {
        *(*SETTING_OPTIONS, "--set", "--config", "-n", "--ranks", "--runs", "--plot", "--csv"),
        *("--sweep", "--baseline"),
    }
)
"""Every option of run, launch and compare that takes a value."""


def parse(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Assignments, configuration file, and the words from the program on."""
    assignments: list[str] = []
    config_path = ""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "--"):
        word, equals, value = rest.pop(0).partition("=")
        if word in SETTING_FLAGS and not equals:
            assignments.append(SETTING_FLAGS[word])
            continue
        if word not in (*SETTING_OPTIONS, "--set", "--config"):
            known = [*SETTING_OPTIONS, *SETTING_FLAGS, "--set", "--config"]
            raise ConfigError(
                f"unknown option '{word}'{suggestion(word, known)}; known are {', '.join(known)}"
            )
        if not equals:
            if not rest:
                raise ConfigError(f"{word} needs a value")
            value = rest.pop(0)
        if word == "--set":
            assignments.append(value)
        elif word == "--config":
            config_path = value
        else:
            assignments.append(f"{SETTING_OPTIONS[word]}={value}")
    if rest[:1] == ["--"]:
        del rest[0]
    return assignments, config_path, rest


def separate_program(words: Sequence[str]) -> list[str]:
    """The words of launch or compare with `--` in front of the program, so that its own options
    and `-m` are left alone; a `--` of the user's own marks a command, and stays behind that one."""
    idx = 0
    while idx < len(words) and words[idx].startswith("-") and words[idx] not in ("-m", "--"):
        idx += 2 if words[idx] in VALUE_OPTIONS else 1
    if idx >= len(words):
        return list(words)
    return [*words[:idx], "--", *words[idx:]]


def as_environment(assignments: Iterable[str], config_path: str = "") -> dict[str, str]:
    """Variables that give the ranks these settings, as from the command line.

    Paths become absolute: a rank may run in another folder.
    """
    variables: dict[str, str] = {}
    for assignment in assignments:
        declaration, raw = config.split_assignment(assignment)
        if declaration.kind == "path" and raw:
            raw = os.path.abspath(raw)
        variables[declaration.environment] = raw
    if variables:
        variables["PAGEWIRE_COMMAND_LINE"] = ",".join(variables)
    if config_path:
        variables["PAGEWIRE_CONFIG"] = os.path.abspath(config_path)
    return variables


def apply(variables: Mapping[str, str], environ: MutableMapping[str, str]) -> None:
    """Put variables into an environment, keeping note of those that were there from a command
    line."""
    earlier = environ.get("PAGEWIRE_COMMAND_LINE", "")
    environ.update(variables)
    given = variables.get("PAGEWIRE_COMMAND_LINE", "")
    names = dict.fromkeys(name for name in f"{earlier},{given}".split(",") if name)
    if names:
        environ["PAGEWIRE_COMMAND_LINE"] = ",".join(names)
