"""MPI programs in Python as users write them; docs/programs.md lists what was run beside these."""

import sysconfig

import pytest
from cli_runs import BIN, ran, started
from native_programs import needs_mpicc, needs_provider

FUTURES = """
from mpi4py.futures import MPIPoolExecutor

def square(value):
    return value * value

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print(sum(pool.map(square, range(50))))
"""

BUCKETS = """
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
parts = [numpy.full(1 << 15, float(comm.rank + idx), "f") for idx in range(4)]
sums = [numpy.empty_like(part) for part in parts]
MPI.Request.Waitall([comm.Iallreduce(*pair) for pair in zip(parts, sums)])
if comm.rank == 0:
    print(sum(int(each.sum()) for each in sums) >> 15)
"""


@needs_provider
@pytest.mark.parametrize("transport", ["facade", "fabric"])
@pytest.mark.parametrize(
    ("text", "words", "printed"),
    [
        # Its workers look for tasks and sleep in turn.
        (FUTURES, ["-m", "mpi4py.futures"], sum(value * value for value in range(50))),
        # As Horovod averages gradients: 0 + 1 + 2, and three times each bucket's number.
        (BUCKETS, [], 4 * 3 + 3 * (0 + 1 + 2 + 3)),
    ],
)
def test_program_prints_what_it_does_without_the_ni(tmp_path, transport, text, words, printed):
    program = tmp_path / "program.py"
    program.write_text(text)
    done = ran("launch", "-n", "3", "-q", "--transport", transport, *words, str(program))
    assert done.stdout.split() == [str(printed)]


# As h5py and petsc4py: what they send does not pass by mpi4py's methods.
EXTENSION = """
#include <Python.h>
#include <mpi.h>
static struct PyModuleDef sums = {PyModuleDef_HEAD_INIT, .m_name = "sums", .m_size = -1};
PyMODINIT_FUNC PyInit_sums(void) { return PyModule_Create(&sums); }
int sum_of(MPI_Comm comm, int value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, comm);
    return value;
}
"""

SUMS = """
import ctypes
import sys
from mpi4py import MPI

sys.path.insert(0, {folder!r})
if {is_imported}:
    import sums
comm = MPI.COMM_WORLD
parts = comm.allgather(comm.rank)
comm.Barrier()
library = ctypes.PyDLL({folder!r} + "/sums.so")
total = library.sum_of(MPI._handleof(comm), comm.bcast(parts[-1], root=0))
if comm.rank == 0:
    print(total)
"""

NOT_CARRIED = "the NI does not carry what sums.so sends by MPI"


@pytest.fixture
def sums(tmp_path):
    """A program of an extension that calls MPI itself, imported or loaded by ctypes alone."""
    source = tmp_path / "sums.c"
    source.write_text(EXTENSION)
    include = f"-I{sysconfig.get_path('include')}"
    words = [include, "-shared", "-fPIC", str(source), "-o", str(tmp_path / "sums.so")]
    started([str(BIN / "mpicc"), *words], code=0)

    def write(is_imported):
        program = tmp_path / "program.py"
        program.write_text(SUMS.format(folder=str(tmp_path), is_imported=is_imported))
        return str(program)

    return write


@needs_mpicc
@pytest.mark.parametrize("is_imported", [True, False])
def test_an_extension_that_calls_mpi_itself_is_told_once_and_works(sums, is_imported):
    done = ran("launch", "-n", "3", "--err", sums(is_imported))
    assert done.stdout.split()[0] == "6"  # three times the last rank's number
    assert done.stderr.count(NOT_CARRIED) == 1


@needs_mpicc
@pytest.mark.parametrize("is_imported", [True, False])
def test_an_extension_that_calls_mpi_itself_ends_a_strict_run(sums, is_imported):
    done = ran("launch", "-n", "3", "-q", "--strict", sums(is_imported), code=1)
    assert f"NotCarriedError: run.strict: {NOT_CARRIED}" in done.stderr
    assert ("6" in done.stdout.split()) != is_imported  # ctypes is noticed at the end


SLOW_NUMPY = """
import time

typecodes, ndarray = {"All": ""}, list
until = time.process_time() + 0.5
while time.process_time() < until:
    pass
"""


def test_import_of_numpy_is_no_compute(tmp_path):
    """The facade may have loaded it already, when MPI started."""
    (tmp_path / "numpy.py").write_text(SLOW_NUMPY)
    program = tmp_path / "program.py"
    program.write_text(
        "from mpi4py import MPI\nbegan = MPI.Wtime()\nimport numpy\nprint(MPI.Wtime() - began)\n"
    )
    done = ran("launch", "-n", "1", "-q", str(program))
    assert 0 < float(done.stdout) < 0.25
