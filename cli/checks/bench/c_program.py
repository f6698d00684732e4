"""Compiles the bench's C program, and runs it by plain MPICH and over the provider, in turns.

Plain MPICH talks through its own shared memory. Both are processes of their own that the same
mpiexec starts, so turns alternate and the quickest of each counts.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from pagewire.cli.checks.bench.group import (
    BenchError,
    Conditions,
    Times,
    Work,
    check_outcome,
    rank_environ,
)
from pagewire.cli.checks.bench.host import num_cores
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.launch import launch
from pagewire.cli.launch.program import Program

_SOURCES = pathlib.Path(__file__).parent / "programs"
_COMPILE_S = 120.0


_TURNS, _TURNS_QUICK = 3, 1
"""Runs of each kind."""
_ROUNDS, _ROUNDS_QUICK = ("5", "0.04"), ("1", "0.001")
"""In each run, and how long each takes in s."""


def measure(conditions: Conditions, num_ranks: int, works: Sequence[Work]) -> Mapping[Work, Times]:
    """Times of each work, of the quickest turns."""
    with _compiled() as path:
        turns = [
            tuple(_run(conditions, path, num_ranks, works, plain=plain) for plain in (True, False))
            for _ in range(_TURNS_QUICK if conditions.quick else _TURNS)
        ]
    found = {}
    for work in works:
        ni_s, virtual_s, switches, calls = map(
            min, zip(*(ni[work] for _, ni in turns), strict=True)
        )
        found[work] = Times(
            plain_s=min(plain[work][0] for plain, _ in turns),
            ni_s=ni_s,
            virtual_s=virtual_s,
            system_calls=calls if calls >= 0 else None,
            context_switches=switches,
        )
    return found


def find_compiler() -> str:
    """mpicc of the MPI whose mpiexec starts the ranks."""
    beside = os.path.join(os.path.dirname(launch.find_mpiexec()), "mpicc")
    if not os.access(beside, os.X_OK):
        raise BenchError(
            f"no compiler of MPI programs: there is no {beside}; pip install 'pagewire[mpi]' "
            "brings one"
        )
    return beside


@contextlib.contextmanager
def _compiled() -> Iterator[pathlib.Path]:
    """Path of the program, as long as the context lasts."""
    compiler = find_compiler()
    with guarded_folder("pagewire-bench-") as directory:
        path = pathlib.Path(directory, "bench")
        sources = [str(source) for source in sorted(_SOURCES.glob("*.c"))]
        command = [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O2", *sources, "-o", str(path)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_S, check=False
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or "nothing said").splitlines()[0]
            raise BenchError(
                f"{compiler} cannot compile the bench's C program ({said}); is there a C compiler? "
                "apt-get install gcc libc6-dev"
            )
        yield path


def _run(
    conditions: Conditions,
    path: pathlib.Path,
    num_ranks: int,
    works: Sequence[Work],
    *,
    plain: bool,
) -> Mapping[Work, tuple[float, ...]]:
    """Wall and virtual time of each work, in s; context switches and system calls (-1: unknown)."""
    rows = path.with_name("rows")
    words = [str(rows), *(_ROUNDS_QUICK if conditions.quick else _ROUNDS)]
    for operation, num_bytes in works:
        words += [operation, str(num_bytes)]
    run(conditions, num_ranks, str(path), words, plain=plain)
    found = {}
    for line in rows.read_text(encoding="ascii").splitlines():
        operation, num_bytes_text, *figures = line.split()
        found[operation, int(num_bytes_text)] = tuple(map(float, figures))
    return found


def run(
    conditions: Conditions,
    num_ranks: int,
    command: str,
    words: Sequence[str],
    *,
    plain: bool,
    output: pathlib.Path | None = None,
) -> None:
    """Run a native program by plain MPICH or over the provider; raises BenchError when it fails.

    With more ranks than cores MPICH gives the core away in waits only where threads may call it:
    else plain ranks spin for whole slices of the scheduler, and compare with nothing.
    """
    environ = rank_environ(conditions)
    if num_ranks > num_cores():
        environ["MPIR_CVAR_DEFAULT_THREAD_LEVEL"] = "MPI_THREAD_MULTIPLE"
    title = f"{os.path.basename(command)}, {'plain MPICH' if plain else 'over the provider'}"
    with open(output or os.devnull, "w", encoding="utf-8") as file:
        if plain:
            environ["PAGEWIRE_RUN_TRANSPORT"] = "facade"  # which leaves a native program alone
            environ["LD_LIBRARY_PATH"] = _library_path(environ)
            outcome = launch.launch_command(
                num_ranks, [command, *words], environ, program=title, stdout=file
            )
        else:
            chosen = Program("native", command, tuple(words))
            outcome = launch.launch(num_ranks, chosen, environ, stdout=file)
    check_outcome(outcome, title)


def _library_path(environ: Mapping[str, str]) -> str:
    """Where programs that were built elsewhere find this Python's MPICH."""
    own = os.path.join(sys.prefix, "lib")
    return os.pathsep.join(filter(None, (own, environ.get("LD_LIBRARY_PATH", ""))))
