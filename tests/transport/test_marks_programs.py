"""The marking library before the real MPI: programs run as they do without it, and their calls
are told once each."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from cli_runs import started

import pagewire

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "c" / "transport" / "marks"
LIBRARY = pathlib.Path(pagewire.__file__).parent / "fabric" / "libpagewire-mpi.so"
BIN = pathlib.Path(sys.prefix) / "bin"

pytestmark = pytest.mark.skipif(
    not LIBRARY.is_file(), reason="built without libfabric's headers (libfabric-dev)"
)


def run(*command: object, preloaded: bool, num_ranks: int = 0) -> list[str]:
    """Lines of output, in order of text: ranks print when they like."""
    words = [str(word) for word in command]
    if preloaded:
        words = ["env", f"LD_PRELOAD={LIBRARY}", *words]
    if num_ranks:
        words = [str(BIN / "mpiexec"), "-n", str(num_ranks), *words]
    ended = started(words, code=0)
    assert ended.stderr == ""
    return sorted(ended.stdout.splitlines())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    built = tmp_path_factory.mktemp("marks") / "mpi_program"
    source = SOURCES / "mpi_program.c"
    subprocess.run(
        [BIN / "mpicc", "-D_GNU_SOURCE", "-I", ROOT, source, "-o", built, "-ldl"], check=True
    )
    return built


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_a_program_runs_as_without(program: pathlib.Path, num_ranks: int) -> None:
    plain = run(program, preloaded=False, num_ranks=num_ranks)
    assert len(plain) == num_ranks and "flag 1 rank error 1" in plain[0]
    assert run(program, preloaded=True, num_ranks=num_ranks) == plain


def test_each_call_of_the_program_is_told_once(program: pathlib.Path) -> None:
    lines = run(program, "told", preloaded=True, num_ranks=2)
    calls = (
        "Sendrecv/1 Irecv/0 Send/1 Wait/1 Allreduce/1 Allgather/1 Comm_split/1 Win_create/1 "
        "Win_fence/1 Put/0 Win_fence/1 Win_free/1 Comm_free/1 Request_get_status/2 Send/1"
    )
    assert [line for line in lines if " at " in line] == [
        f"{rank} at 42.000000000, 0 open: {calls}" for rank in range(2)
    ]


PYTHON_PROGRAM = """
from array import array
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = array("d", [0])
comm.Allreduce(array("d", [comm.rank + 1]), total)
line = f"{comm.rank} {total[0]} {comm.allgather(comm.rank)} {MPI.Wtime() > 0}\\n"
print(line, end="")  # in one piece: mpiexec joins what the ranks write
"""


def test_a_python_program_runs_as_without() -> None:
    plain = run(sys.executable, "-P", "-c", PYTHON_PROGRAM, preloaded=False, num_ranks=2)
    assert plain == [f"{rank} 3.0 [0, 1] True" for rank in range(2)]
    assert run(sys.executable, "-P", "-c", PYTHON_PROGRAM, preloaded=True, num_ranks=2) == plain


def test_a_program_without_mpi_runs_as_without() -> None:
    command = ("sh", "-c", "sleep 0.01; echo one; env | grep -c LD_PRELOAD=; true")
    assert run(*command, preloaded=False) == ["0", "one"]
    assert run(*command, preloaded=True) == ["1", "one"]


CALLER = """
int MPI_Barrier(long);
int main(void) { return MPI_Barrier(1); }
"""


def test_a_function_that_the_mpi_lacks_ends_the_process_with_a_sentence(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "caller.c").write_text(CALLER, encoding="utf-8")
    built = tmp_path / "caller"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, tmp_path / "caller.c", LIBRARY, "-o", built], check=True)
    ended = started([str(built)], code=127)
    assert "the program calls MPI_Barrier, which no MPI library of this process has" in ended.stderr


@pytest.mark.skipif(shutil.which("gfortran") is None, reason="there is no gfortran")
def test_a_fortran_program_runs_as_without(tmp_path: pathlib.Path) -> None:
    compiler = os.environ.get("CC", "cc").split()
    library = tmp_path / "libfake_mpi.so"
    built = tmp_path / "fortran_program"
    subprocess.run(
        [*compiler, "-D_GNU_SOURCE", "-shared", "-fPIC", SOURCES / "fake_mpi.c", "-o", library],
        check=True,
    )
    subprocess.run(
        ["gfortran", SOURCES / "fortran_program.f90", library, f"-Wl,-rpath,{tmp_path}"]
        + ["-o", built],
        check=True,
    )
    plain = run(built, preloaded=False)
    assert plain == ["open 17 9", "send 17", "time 123.5"]
    assert run(built, preloaded=True) == plain
