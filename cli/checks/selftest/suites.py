"""Runs tests of a checkout in an environment and counts them: the facade's MPI tests, the C
programs over the fabric."""

import os
import pathlib
import re
import tempfile
from collections.abc import Sequence

from pagewire.cli.checks.limited import run_limited
from pagewire.cli.checks.selftest.outcome import Check, Verdict
from pagewire.cli.checks.selftest.transports import reason_in
from pagewire.cli.checks.testing import FAILED, SUMMARY, files_of_mpi_tests
from pagewire.cli.launch.launch import rank_environment

RANKS = (1, 2, 4)
_LIMIT_S = 1800.0  # of one run; on an idle machine it takes two minutes
_FILE_LIMIT_S = 400.0
_COMPILING_S = 300.0
_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # Open MPI gives its ranks a terminal
_FLAGS = ("-D_GNU_SOURCE", "-O1", "-pthread")

# In runs of their own: they start processes, wait for such, take minutes, or 5 GB of memory.
_ALONE = frozenset({"pingpong_large", "threads", "spawn", "spawned", "large"})


def checkout() -> pathlib.Path | None:
    """The source tree with the tests, when there is one."""
    root = pathlib.Path(os.environ.get("PAGEWIRE_SOURCE") or os.getcwd()).resolve()
    return root if (root / "tests" / "c" / "transport" / "mpi").is_dir() else None


def mpi_tests(python: str, root: pathlib.Path, mpi: str, num_ranks: int) -> list[Check]:
    """The tests of tests/mpi over the facade, a check for each that rank 0 counts.

    File by file: one that ends the run or hangs, as some MPIs do by themselves, takes no other
    with it.
    """
    environ = {**os.environ, "PAGEWIRE_RUN_MPI": mpi, "PAGEWIRE_SOURCE": str(root)}
    command = [python, "-P", "-m", "pagewire", "test", "--ranks", str(num_ranks)]
    checks = []
    for path in files_of_mpi_tests(root):
        code, said = run_limited([*command, str(path)], environ=environ, limit_s=_FILE_LIMIT_S)
        checks += _counted(f"MPI tests, {num_ranks} ranks", code, said, path.name)
    return checks


def pytest_file(root: pathlib.Path, python: str, name: str) -> list[Check]:
    """A file of tests that starts its own ranks."""
    command = [python, "-P", "-m", "pagewire", "test", str(root / "tests" / name)]
    environ = {**os.environ, "PAGEWIRE_SOURCE": str(root)}
    code, said = run_limited(command, environ=environ, limit_s=_LIMIT_S)
    return _counted(name, code, said)


def _counted(name: str, code: int, said: str, file: str = "") -> list[Check]:
    """A check for each test that pytest's last line counts; of ranks, the first that speaks."""
    said = _COLOUR.sub("", said)
    summaries = SUMMARY.findall(said)
    where = f"{file}: " if file else ""
    died = where + (reason_in(said) or f"exit code {code}")
    if not summaries:
        return [Check(name, Verdict.FAILED, died)]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", summaries[0])}
    failed = list(dict.fromkeys(FAILED.findall(said)))
    checks = [Check(name, Verdict.PASSED)] * counts.get("passed", 0)
    checks += [Check(name, Verdict.FAILED, test) for test in failed]
    if code != 0 and not failed:
        checks.append(Check(name, Verdict.FAILED, died))
    if counts.get("skipped"):
        checks.append(Check(name, Verdict.NOT_AVAILABLE, f"{where}{counts['skipped']} skipped"))
    return checks


def fabric_programs(
    python: str, root: pathlib.Path, mpi: str, mpicc: str, mpiexec: str, num_ranks: int
) -> list[Check]:
    """The self-checking programs of tests/c/transport/mpi. One that fails on plain MPI as well is
    not counted against the fabric."""
    with tempfile.TemporaryDirectory(prefix="pagewire-selftest-") as folder:
        program = str(pathlib.Path(folder, "mpi_programs"))
        sources = sorted(
            str(path) for path in (root / "tests" / "c" / "transport" / "mpi").glob("*.c")
        )
        command = [mpicc, *_FLAGS, "-o", program, *sources]
        code, said = run_limited(command, limit_s=_COMPILING_S)
        if code != 0:
            return [Check("C programs", Verdict.NOT_AVAILABLE, f"{mpicc}: {_last_error(said)}")]
        environ = {**os.environ, "MPI_PROGRAMS_FOLDER": folder}
        launch = [python, "-P", "-m", "pagewire", "launch", "-n", str(num_ranks), "--quiet"]
        over_fabric = [*launch, "--mpi", mpi, "--", program]
        results = _run_names(over_fabric, environ, _names(sources))
        failed = [name for name, reason in results.items() if reason]
        alone = [mpiexec, "-n", str(num_ranks), program]
        plain = _run_names(alone, rank_environment(environ), failed) if failed else {}
    title = f"C programs, {num_ranks} ranks"
    return [_judge(title, name, reason, plain.get(name, "")) for name, reason in results.items()]


def _judge(title: str, name: str, reason: str, plain: str) -> Check:
    if not reason:
        return Check(title, Verdict.PASSED)
    if plain:
        return Check(title, Verdict.NOT_AVAILABLE, f"{name} fails on plain MPI too: {plain}")
    return Check(title, Verdict.FAILED, f"{name}: {reason}")


def _names(sources: Sequence[str]) -> list[str]:
    text = "".join(pathlib.Path(path).read_text(encoding="utf-8") for path in sources)
    found = re.findall(r"^CHECK_PROGRAM\((\w+)\)", text, re.MULTILINE)
    return [name for name in found if name not in _ALONE]


def _run_names(
    command: Sequence[str], environ: dict[str, str], names: Sequence[str]
) -> dict[str, str]:
    """By name, the reason why it failed, empty when it passed. One that ends the run is left out of
    the next."""
    results: dict[str, str] = {}
    left = list(names)
    while left:
        code, said = run_limited([*command, *left], environ=environ, limit_s=_LIMIT_S)
        passed = {line.removeprefix("ok ") for line in said.splitlines() if line.startswith("ok ")}
        results |= dict.fromkeys(passed & set(left), "")
        left = [name for name in left if name not in passed]
        if not left and code != 0:
            results["the end"] = reason_in(said) or f"exit code {code}"
        elif left:
            results[left.pop(0)] = reason_in(said) or f"exit code {code}"
    return results


def _last_error(said: str) -> str:
    lines = [line for line in said.splitlines() if "error" in line]
    return (lines or said.splitlines() or ["no output"])[0][:200]
