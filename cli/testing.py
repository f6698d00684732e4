"""`pagewire test`: the C tests, the Python tests, and the MPI tests at several numbers of ranks.

The tests lie in the source tree: in PAGEWIRE_SOURCE (mpirun.sh sets it), else in the working
directory. With arguments, only pytest without MPI runs, with these arguments; with `--ranks N
[FILE...]` the MPI tests alone, at that number. A class of the user's is tested without the source
tree: by `--policy module:Class` alone a page-in policy, by `--scheduling` a scheduling policy, by
`--impairments` a planner, by `--memory` a memory strategy.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

from pagewire.cli import launch
from pagewire.cli.guard import guarded_folder
from pagewire.cli.interrupts import Interrupted
from pagewire.native.settings import ConfigError

RANKS = (1, 2, 4)
"""Numbers of ranks that the MPI tests run at."""

_MAX_AT_ONCE = 4
"""Files of Python tests: most of a file's time is spent in waiting for programs to start."""

_NO_TESTS_COLLECTED = 5
_PATIENCE_S = (0.5, 4.0)
"""With an interrupted command before a signal of our own, and then before it is killed."""
_EXTENSIONS = ("--policy", "--scheduling", "--impairments", "--memory")


def main(words: Sequence[str]) -> int:
    """Run the tests; 0 when all passed."""
    option, equals, value = words[0].partition("=") if words else ("", "", "")
    if option in _EXTENSIONS:
        given = [*([value] if equals else []), *words[1:]]
        if len(given) != 1:
            raise ConfigError(f"{option} takes one module:Class, and nothing else")
        from pagewire.cli import conformance

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


def _run_all(pytest: Sequence[str], root: pathlib.Path) -> dict[str, int]:
    """Exit codes by the name of what ran."""
    results = {
        "C": _run_c_tests(),
        "Python": _run([*pytest, str(root / "tests"), *_at_once()]),
    }
    files = files_of_mpi_tests(root)
    if files:
        for num_ranks in RANKS:
            results[f"MPI, {num_ranks} ranks"] = _run_mpi_tests(pytest, files, num_ranks)
    return results


def _at_once() -> list[str]:
    """pytest-xdist's options: as many files at a time as this process may use cores, by name (few
    slow tests in a file that comes last would keep one core waiting)."""
    num_files = min(len(os.sched_getaffinity(0)), _MAX_AT_ONCE)
    if num_files == 1:
        return []
    return ["-n", str(num_files), "--dist", "loadfile", "--no-loadscope-reorder"]


def _run_c_tests() -> int:
    """The C tests of the build that mpirun.sh made; nothing without one."""
    build = os.environ.get("PAGEWIRE_BUILD", "")
    if not build or not os.path.isdir(build):
        return 0
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    return _run([*meson, "test", "-C", build, "--print-errorlogs"])


def _run(command: Sequence[str], cwd: pathlib.Path | None = None) -> int:
    """Exit code of a command that, when this one is interrupted, may end what it has started."""
    with subprocess.Popen(command, cwd=cwd) as process:
        try:
            return process.wait()
        except Interrupted:
            # The first wait is for one that the terminal has interrupted too: not twice.
            for patience_s in _PATIENCE_S:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(patience_s)
                    break
                process.send_signal(signal.SIGINT)
            raise
        finally:
            process.kill()


def files_of_mpi_tests(root: pathlib.Path) -> list[pathlib.Path]:
    """Files of tests that need ranks."""
    found = sorted((root / "tests").rglob("test_*.py"))
    return [path for path in found if "pytest.mark.mpi" in path.read_text(encoding="utf-8")]


def _run_mpi_tests(pytest: Sequence[str], files: Sequence[pathlib.Path], num_ranks: int) -> int:
    print(f"pagewire test: MPI tests on {num_ranks} ranks", flush=True)
    with guarded_folder("pagewire-test-") as directory:
        command = [sys.executable, "-P", "-m", "pagewire.cli.testing_rank", directory, *pytest[4:]]
        command += ["--with-mpi", "-m", "mpi", *map(str, files)]
        environ = {**os.environ, "PAGEWIRE_RUN_QUIET": "true"}
        outcome = launch.launch_command(num_ranks, command, environ, program="tests")
        for path in sorted(pathlib.Path(directory).glob("*.failed")):
            print(f"--- rank {path.stem}", path.read_text(encoding="utf-8"), sep="\n")
        if outcome.failure and outcome.exit_code != _NO_TESTS_COLLECTED:
            print(f"pagewire test: {outcome.failure}")
    return 0 if outcome.exit_code == _NO_TESTS_COLLECTED else outcome.exit_code
