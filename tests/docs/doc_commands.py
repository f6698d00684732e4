"""Commands of documents, checked by the command line itself: everything up to the start of what
takes time is run, so that a word, a setting, a class or a file that does not exist is an error."""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

from doc_blocks import ROOT
from doc_folder import OPENMPI

from pagewire.cli.calibrate import fitting, measuring
from pagewire.cli.checks import testing
from pagewire.cli.checks.bench import command as bench
from pagewire.cli.checks.selftest import command as selftest
from pagewire.cli.checks.soak import command as soak
from pagewire.cli.checks.stress import command as stress
from pagewire.cli.commands import own_launcher, replay_work, sockets
from pagewire.cli.commands import run as one_rank
from pagewire.cli.experiments import run as experiments
from pagewire.cli.launch import fabric
from pagewire.cli.main import main

OTHERS = {"meson", "export"}
"""Programs that are not pagewire's, of which nothing is looked at."""

NEVER_RUN = {
    "pip ": "it would change this environment",
    "srun ": "it needs Slurm",
    "--install-completion": "it is for the reader's shell",
    "--show-completion": "it is for the reader's shell",
    "jupyter ": "it opens a browser",
    "--hosts": "tests/transport/test_fabric_hosts.py has hosts",
}
"""What a command has that no test runs, only checks, and why."""

_RANKS = re.compile(r"-n|-np|--oversubscribe")
_ASSIGNED = re.compile(r"[A-Z_]+=")


class StartsError(BaseException):
    """The command line found nothing to refuse, and would start now."""


def _start(*_: object, **__: object) -> None:
    raise StartsError


@contextlib.contextmanager
def _nothing_starts() -> Iterator[None]:
    """Whatever takes more than an instant raises StartsError in its place."""
    places: list[tuple[object, str]] = [
        (experiments, "_run"),
        (own_launcher, "report"),
        (stress, "main"),
        (soak, "soak"),
        (selftest, "this_installation"),
        (selftest, "every_platform"),
        (bench, "measure"),
        (fitting, "fit_points"),
        (measuring, "measure"),
        (testing, "_run"),
        (testing, "_run_all"),
        (one_rank, "_run"),
        (replay_work, "together"),
        (sockets, "_check"),  # the reader's programs need not be here
    ]
    with contextlib.ExitStack() as stack:
        for place, name in places:
            stack.enter_context(mock.patch.object(place, name, _start))
        stack.enter_context(mock.patch("pagewire.cli.launch.launch.launch", _start))
        stack.enter_context(mock.patch("pagewire.cli.checks.conformance.main", _start))
        # Else a command that becomes another program would take the tests' place.
        stack.enter_context(mock.patch("os.execv", _start))
        stack.enter_context(mock.patch.dict(os.environ))
        yield


def pagewire(words: Sequence[str]) -> tuple[bool, str]:
    """Whether `pagewire WORDS` is done, not only checked; and what it printed then."""
    if any(word.endswith("-completion") for word in words):
        helped = pagewire(["--help"])[1]
        assert all(word in helped for word in words), f"pagewire {shlex.join(words)}: not in --help"
        return False, ""
    printed, errors = io.StringIO(), io.StringIO()
    try:
        with (
            _nothing_starts(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(errors),
        ):
            code = main(words)
    except StartsError:
        return False, ""
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    assert code == 0, f"exit code {code}: {errors.getvalue()}"
    return True, printed.getvalue()


def of_mpirun(words: Sequence[str]) -> list[str]:
    """What mpirun.sh makes of its words for `pagewire`; nothing for what it does alone."""
    assert words, "./mpirun.sh without words prints its help"
    if words[0] == "fuzz":
        _check_fuzz(words[1:])
        return []
    if words[0] in ("build", "docs", "lint", "package"):
        return []
    if words[0] == "-np":
        return ["launch", "-n", *words[1:]]
    if words[0].startswith("-") and words[0] != "--version":
        return ["launch", *words]
    return list(words)


def _check_fuzz(words: Sequence[str]) -> None:
    """By tests/fuzz/run.py, up to where it builds."""
    specification = importlib.util.spec_from_file_location(
        "fuzz_run", ROOT / "tests" / "fuzz" / "run.py"
    )
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    with mock.patch.object(sys, "path", [*sys.path, str(ROOT / "tests" / "fuzz")]):
        specification.loader.exec_module(module)
    with (
        mock.patch.object(module, "build", _start),
        mock.patch.object(sys, "argv", ["fuzz", *words]),
        contextlib.suppress(StartsError),
    ):
        module.main()


def _extras(requirement: str) -> None:
    """Extras that a pip install of this project names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = re.fullmatch(r"(?:\.|pagewire)\[([\w,]+)\]", requirement)
    if found:
        unknown = set(found[1].split(",")) - set(project["optional-dependencies"])
        assert not unknown, f"pip install {requirement}: no extra {unknown}"


def is_run(command: str) -> bool:
    """Whether any test runs it."""
    return not any(each in command for each in NEVER_RUN)


def is_for_this_host(command: str) -> bool:
    """Whether what it is about was installed: another MPI, LAMMPS, the libfabric provider."""
    if "openmpi" in command and not OPENMPI.is_dir():
        return False
    if " lmp " in command and not shutil.which("lmp"):
        return False
    over_fabric = " -- " in command or "fabric" in command or "pagewire env" in command
    return not (over_fabric and fabric.missing())


def check(command: str) -> tuple[bool, str]:
    """One shell command in the working directory: whether it is done by now, and
    what it printed. What is not understood raises AssertionError; ConfigError is the command
    line's."""
    command = command.replace("\\\n", " ")
    inner = re.fullmatch(r'eval "\$\((.*)\)"', command.partition(" #")[0].strip())
    if inner:
        return check(inner[1])
    if " && " in command:
        for part in command.split(" && "):
            check(part)
        return False, ""
    words = shlex.split(command, comments=True)
    redirected = ""
    if len(words) > 2 and words[-2] == ">":
        redirected = words[-1]
        words = words[:-2]
    with mock.patch.dict(os.environ):
        while words and _ASSIGNED.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            os.environ[name] = value
        done, printed = _check_words(words, command)
    if redirected and done:
        pathlib.Path(redirected).write_text(printed, encoding="utf-8")
    return done, "" if redirected else printed


def _check_words(words: list[str], command: str) -> tuple[bool, str]:
    first, rest = words[0], words[1:]
    known: dict[str, Callable[[], tuple[bool, str]]] = {
        "./mpirun.sh": lambda: pagewire(of_mpirun(rest)) if of_mpirun(rest) else (False, ""),
        "pagewire": lambda: pagewire(rest),
    }
    if first in known:
        return known[first]()
    if first == "cd":
        os.chdir(rest[0])
        return True, ""
    if first == "python":
        if rest[0] == "-m":
            assert importlib.util.find_spec(rest[1]), f"{command}: no module {rest[1]}"
        else:
            assert pathlib.Path(rest[0]).is_file(), f"{command}: no file {rest[0]}"
        return False, ""
    if first in ("mpiexec", "srun"):
        rest = rest[1:] if rest[0].startswith("--mpi=") else rest
        assert _RANKS.fullmatch(rest[0]) and rest[1].isdecimal(), command
        _check_words(rest[2:], command)
        return False, ""
    if first.endswith("jupyter"):
        assert pathlib.Path(rest[-1]).is_file(), f"{command}: no file {rest[-1]}"
        return False, ""
    if first == "cc":
        assert pathlib.Path(rest[0]).is_file(), f"{command}: no file {rest[0]}"
        pathlib.Path(rest[rest.index("-o") + 1]).touch()
        return False, ""
    if first == "pip":
        assert rest[0] == "install", command
        _extras(rest[-1])
        return False, ""
    assert first in OTHERS or pathlib.Path(first).is_file() or shutil.which(first), (
        f"{command}: what is {first}?"
    )
    return False, ""
