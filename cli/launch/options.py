"""Options for settings that run, launch and compare share, without a command-line library.

Ranks read their settings from the environment, so options become variables there.
"""

import dataclasses
import os
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence

from pagewire.native.settings import ConfigError, suggestion
from pagewire.run.settings import config


@dataclasses.dataclass(frozen=True, slots=True)
class SettingOption:
    """An option that gives a setting of the section `run`, which has its name."""

    name: str
    help: str
    flags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """words that give a value each; without any, a value follows the option"""
    metavar: str | None = None
    completes: str = ""
    """what a shell offers behind it: choices (the setting's own), platforms, or nothing"""

    @property
    def option(self) -> str:
        """The word that a value follows."""
        return f"--{self.name.replace('_', '-')}"


_ALL = (
    SettingOption("memory", "memory strategy (run.memory)", completes="choices"),
    SettingOption("policy", "page-in policy (run.policy)", completes="choices"),
    SettingOption("timeout", "retransmission timeout, or none (run.timeout)"),
    SettingOption(
        "err",
        "request faulted blocks again when their pages are in (run.err)",
        {"--err": "true", "--no-err": "false"},
    ),
    SettingOption("eager_limit", "longest message that travels without RDMA (run.eager_limit)"),
    SettingOption("platform", "name or path of the platform file", completes="platforms"),
    SettingOption("compute", "measured, replay, model or none (run.compute)", completes="choices"),
    SettingOption(
        "strict", "end at the first call around the NI (run.strict)", {"--strict": "true"}
    ),
    SettingOption("quiet", "print no report (run.quiet)", {"--quiet": "true", "-q": "true"}),
    SettingOption(
        "transport",
        "facade or fabric: what puts the NI under PROGRAM (run.transport)",
        completes="choices",
    ),
    SettingOption("mpi", "auto, mpich, openmpi, or the path of an mpiexec (run.mpi)"),
    SettingOption("hosts", "hosts that the ranks are spread over (run.hosts)", metavar="H1,H2,..."),
    SettingOption(
        "mpiexec_options", "further options of mpiexec (run.mpiexec_options)", metavar="WORDS"
    ),
    SettingOption("json", "write the results to this file", metavar="FILE"),
    SettingOption("trace", "write a timeline for ui.perfetto.dev (run.trace)", metavar="FILE"),
    SettingOption(
        "record", "record what PROGRAM does, for pagewire replay (run.record)", metavar="FILE"
    ),
    SettingOption("html", "write the report as a page for a browser (run.html)", metavar="FILE"),
)
OPTIONS: Mapping[str, SettingOption] = {each.name: each for each in _ALL}

_WITH_VALUE = {each.option: f"run.{each.name}" for each in _ALL if not each.flags}
_FLAGS = {word: f"run.{each.name}={value}" for each in _ALL for word, value in each.flags.items()}


def parse(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Assignments, configuration file, and the words from the program on."""
    assignments: list[str] = []
    config_path = ""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "--"):
        word, equals, value = rest.pop(0).partition("=")
        if word in _FLAGS and not equals:
            assignments.append(_FLAGS[word])
            continue
        if word not in (*_WITH_VALUE, "--set", "--config"):
            known = [*_WITH_VALUE, *_FLAGS, "--set", "--config"]
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
            assignments.append(f"{_WITH_VALUE[word]}={value}")
    if rest[:1] == ["--"]:
        del rest[0]
    return assignments, config_path, rest


def separate_program(words: Sequence[str], with_value: Collection[str]) -> list[str]:
    """The words of launch or compare with `--` in front of the program, so that its own options
    and `-m` are left alone; a `--` of the user's own marks a command, and stays behind that one.

    with_value: the options that a value follows.
    """
    idx = 0
    while idx < len(words) and words[idx].startswith("-") and words[idx] not in ("-m", "--"):
        idx += 2 if words[idx] in with_value else 1
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
