"""MPI programs in Python as users write them; docs/programs.md lists what was run beside these."""

import pytest
from cli_runs import ran
from native_programs import needs_provider

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
