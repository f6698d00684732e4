"""`pagewire test`: the C tests, the Python tests, and the MPI tests at several numbers of ranks.

The tests lie in the source tree: in PAGEWIRE_SOURCE (mpirun.sh sets it), else in the working
directory. With arguments, only pytest without MPI runs, with these arguments; with `--ranks N
[FILE...]` the MPI tests alone, at that number. `--repeat N` and `--beside M` before them do all
that N times, beside M processes that compute for ever: a line for each time. A class of the user's
is tested without the source tree: by `--policy module:Class` alone a page-in policy, by
`--scheduling` a scheduling policy, by `--impairments` a planner, by `--memory` a memory strategy.

An MPI test that fails on one rank ends the launch, since its peers wait for it; the files of tests
after it run in the next one.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from pagewire.cli.kit import noise
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.interrupts import Interrupted, held
from pagewire.cli.launch import launch
from pagewire.cli.launch.witness import STARTER
from pagewire.native.settings import ConfigError

RANKS = (1, 2, 4)
"""Numbers of ranks that the MPI tests run at."""

_MAX_AT_ONCE = 4
"""Files of Python tests: some of a file's time is spent in waiting for programs that end."""

_NO_TESTS_COLLECTED = 5
_PATIENCE_S = (0.5, 4.0)
"""With an interrupted command before a signal of our own, and then before it is killed."""
_EXTENSIONS = ("--policy", "--errs", "--scheduling", "--impairments", "--memory")

SUMMARY = re.compile(r"^.*\b\d+ (?:passed|failed|skipped|errors?).* in [\d.]+s.*$", re.MULTILINE)
"""pytest's last line."""

FAILED = re.compile(r"^(?:FAILED|ERROR) \S*?(\w+\.py::.+?)(?: - .*)?$", re.MULTILINE)
"""File and name of a test that failed."""

_FAILED_IN_C = re.compile(r"^ *\d+/\d+ (?:\S+:)?(\S+) +(?:FAIL|TIMEOUT|ERROR)\b", re.MULTILINE)
_PASSED_IN_C = re.compile(r"^Ok: +(\d+)", re.MULTILINE)


def main(words: Sequence[str]) -> int:
    """Run the tests; 0 when all passed."""
    parser = argparse.ArgumentParser("pagewire test", add_help=False, allow_abbrev=False)
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--beside", type=int, default=0)
    chosen, words = parser.parse_known_args(words)
    if chosen.repeat > 0 or chosen.beside > 0:
        return _repeat(max(chosen.repeat, 1), chosen.beside, words)
    option, equals, value = words[0].partition("=") if words else ("", "", "")
    if option in _EXTENSIONS:
        given = [*([value] if equals else []), *words[1:]]
        if len(given) != 1:
            raise ConfigError(f"{option} takes one module:Class, and nothing else")
        from pagewire.cli.checks import conformance

        return conformance.main(option, given[0])
    root = pathlib.Path(os.environ.get("PAGEWIRE_SOURCE") or os.getcwd()).resolve()
    if not (root / "tests").is_dir():
        raise ConfigError(f"no tests in '{root}': run in the source tree, or set PAGEWIRE_SOURCE")
    # From the root `import smmu` would load a second copy, so neither -m nor the cwd may add it.
    pytest = [sys.executable, "-P", "-m", "pytest", "-c", str(root / "pyproject.toml")]
    pytest += ["--rootdir", str(root), "-p", "no:cacheprovider"]
    if option == "--ranks":
        given = [*([value] if equals else []), *words[1:]]
        files = [pathlib.Path(name) for name in given[1:]] or files_of_mpi_tests(root)
        return _run_mpi_tests(pytest, files, launch.parse_ranks(given[0] if given else ""))
    if words:
        return _run([*pytest, *words], cwd=root)
    results = _run_all(pytest, root)
    failed = [name for name, code in results.items() if code]
    print(
        f"pagewire test: {', '.join(results)}: {'failed: ' + ', '.join(failed) if failed else 'ok'}"
    )
    return 1 if failed else 0


def _repeat(num_runs: int, num_beside: int, words: Sequence[str]) -> int:
    """Run the command with these words so often, a line for each run; 0 when all passed."""
    failed_runs = 0
    with noise.processes(["computing"] * num_beside):
        for run_idx in range(num_runs):
            begun_s = time.monotonic()
            with tempfile.TemporaryFile() as output:
                code = _run([sys.executable, "-P", "-m", "pagewire", "test", *words], output=output)
                output.seek(0)
                said = output.read().decode(errors="replace")
            failed_runs += code != 0
            print(said if code else "", end="")
            took_s = time.monotonic() - begun_s
            print(f"run {run_idx + 1}: {took_s:.0f} s, {_tally(said, code)}", flush=True)
    print(f"pagewire test: {num_runs - failed_runs} of {num_runs} runs passed")
    return 1 if failed_runs else 0


def _tally(said: str, code: int) -> str:
    """What a run's output counts, and the names of the tests that failed."""
    counts = collections.Counter({"passed": sum(map(int, _PASSED_IN_C.findall(said)))})
    for summary in SUMMARY.findall(said):
        for count, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", summary):
            counts[word.removesuffix("s")] += int(count)
    names = dict.fromkeys(_FAILED_IN_C.findall(said) + FAILED.findall(said))
    numbers = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    outcome = " ".join(["failed:", *names]) if code else "ok"
    return f"{numbers or 'no test'}: {outcome}"


def _run_all(pytest: Sequence[str], root: pathlib.Path) -> dict[str, int]:
    """Exit codes by the name of what ran."""
    # Beside each other: the C tests' longest ones wait for what must not come.
    with tempfile.TemporaryFile() as output, ThreadPoolExecutor(1) as pool:
        in_c = pool.submit(_run_c_tests, output)
        python = _run([*pytest, str(root / "tests"), *_at_once()])
        results = {"C": in_c.result(), "Python": python}
        output.seek(0)
        print(output.read().decode(errors="replace"), end="", flush=True)
    files = files_of_mpi_tests(root)
    if files:
        for num_ranks in RANKS:
            results[f"MPI, {num_ranks} ranks"] = _run_mpi_tests(pytest, files, num_ranks)
    return results


def _at_once() -> list[str]:
    """pytest-xdist's options: two files more at a time than this process may use cores, by name
    (few slow tests in a file that comes last would keep one core waiting)."""
    num_files = min(len(os.sched_getaffinity(0)) + 2, _MAX_AT_ONCE)
    made = ["-n", str(num_files), "--dist", "loadfile", "--no-loadscope-reorder"]
    # A test that kills its process fails with its name; pytest-xdist would wait for ever for the
    # rest of its file.
    return [*made, "--max-worker-restart=0"]


def _run_c_tests(output: IO[bytes]) -> int:
    """The C tests of the build that mpirun.sh made; nothing without one."""
    build = os.environ.get("PAGEWIRE_BUILD", "")
    if not build or not os.path.isdir(build):
        return 0
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    return _run([*meson, "test", "-C", build, "--print-errorlogs"], output=output)


def _run(
    command: Sequence[str], cwd: pathlib.Path | None = None, output: IO[bytes] | None = None
) -> int:
    """Exit code of a command that, when this one is interrupted, may end what it has started."""
    errors = subprocess.STDOUT if output else None
    process = None
    try:
        with held():
            process = subprocess.Popen(command, cwd=cwd, stdout=output, stderr=errors)
        return process.wait()
    except Interrupted:
        if process is not None:
            _let_end(process)
        raise
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _let_end(process: "subprocess.Popen[bytes]") -> None:
    """The first wait is for one that the terminal has interrupted too: not twice."""
    for patience_s in _PATIENCE_S:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            break
        process.send_signal(signal.SIGINT)


def files_of_mpi_tests(root: pathlib.Path) -> list[pathlib.Path]:
    """Files of tests that need ranks."""
    found = sorted((root / "tests").rglob("test_*.py"))
    return [path for path in found if "pytest.mark.mpi" in path.read_text(encoding="utf-8")]


def _run_mpi_tests(pytest: Sequence[str], files: Sequence[pathlib.Path], num_ranks: int) -> int:
    print(f"pagewire test: MPI tests on {num_ranks} ranks", flush=True)
    result, left = 0, list(files)
    while left:
        code, left = _launch_mpi_tests(pytest, left, num_ranks)
        result = result or code
    return result


def _launch_mpi_tests(
    pytest: Sequence[str], files: list[pathlib.Path], num_ranks: int
) -> tuple[int, list[pathlib.Path]]:
    """Exit code of one launch, and the files after the one whose test has ended it."""
    left: list[pathlib.Path] = []
    with guarded_folder("pagewire-test-") as directory:
        command = [STARTER, sys.executable, "-P", "-m", "pagewire.cli.checks.testing_rank"]
        command += [directory, *pytest[4:], "--with-mpi", "-m", "mpi", *map(str, files)]
        environ = {**os.environ, "PAGEWIRE_RUN_QUIET": "true"}
        outcome = launch.launch_command(num_ranks, command, environ, program="tests")
        for path in sorted(pathlib.Path(directory).glob("*.failed")):
            print(f"--- rank {path.stem}", path.read_text("utf-8"), sep="\n", flush=True)
        for path in sorted(pathlib.Path(directory).glob("*.file")):
            ended_by = pathlib.Path(path.read_text(encoding="utf-8")).name
            left = files[[file.name for file in files].index(ended_by) + 1 :]
    if outcome.exit_code == _NO_TESTS_COLLECTED:
        return 0, left
    if outcome.failure:
        print(f"pagewire test: {outcome.failure}", flush=True)  # the next launch writes too
    return outcome.exit_code, left
