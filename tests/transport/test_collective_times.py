"""Collectives of contiguous memory and of memory with holes, of MPI's operations and of the user's,
exchange the same messages: virtual times are equal to the nanosecond."""

import json
import pathlib

import pytest
from cli_runs import ran

PROGRAM = """
import json, sys
import numpy as np
from mpi4py import MPI
from pagewire.transport.facade.rank import here

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
op = MPI.Op.Create(lambda a, b, t: np.add(
    np.frombuffer(a), np.frombuffer(b), np.frombuffer(b)), commute=True)
spread = MPI.DOUBLE.Create_resized(0, 16).Commit()
times = []

def timed(call, *arguments):
    world.Dup().Free()  # all clocks at the latest one's
    began_ns = here.clock.now_ns
    call(*arguments)
    return here.clock.now_ns - began_ns

def compare(name, call, contiguous, other, *more):
    times.append((name, timed(call, *contiguous, *more[:1]), timed(call, *other, *more[-1:])))

for count in (0, 1, 4):
    mine, whole = np.ones(2 * count * size), np.zeros(2 * count * size)
    send, receive = mine[:count], whole[:count]
    for root in range(size):
        compare(f"Bcast {count} {root}", world.Bcast, [send], [[mine, count, spread]], root)
        times.append((f"Reduce {count} {root}",
            timed(world.Reduce, send, receive, MPI.SUM, root),
            timed(world.Reduce, send, receive, op, root)))
    for array in (send, MPI.IN_PLACE):
        compare(f"Allreduce {count}", world.Allreduce, [array, receive], [array, receive],
            MPI.SUM, op)
    all_of = whole[: count * size]
    compare(f"Alltoall {count}", world.Alltoall, [mine[: count * size], all_of],
        [[mine, count, spread], all_of])
    compare(f"Allgather {count}", world.Allgather, [send, all_of],
        [[mine, count, spread], [whole, count, spread]])
    for root in range(size):
        compare(f"Gather {count} {root}", world.Gather, [send, all_of],
            [[mine, count, spread], [whole, count, spread]], root)
        compare(f"Scatter {count} {root}", world.Scatter, [all_of, receive],
            [[whole, count, spread], [mine, count, spread]], root)
with open(f"{sys.argv[1]}/{rank}", "w") as file:
    json.dump(times, file)
"""


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_times_are_equal(tmp_path: pathlib.Path, num_ranks: int) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    words = ["-q", "--set", "run.compute=none", str(path), str(tmp_path)]
    ran("launch", "-n", str(num_ranks), *words)
    for rank in range(num_ranks):
        for name, contiguous, other in json.loads((tmp_path / str(rank)).read_text()):
            assert contiguous == other, (rank, name)
            assert contiguous > 0
