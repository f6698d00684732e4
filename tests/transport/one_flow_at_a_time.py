"""A program in which one rank at a time sends to one other: what it sends, from where, and how is
drawn from a seed. Arguments: the seed, and the folder where each rank leaves its log of times.

Imported by nobody: tests/transport/test_equal_times.py runs it.
"""

import mmap
import os
import pathlib
import random
import sys
import time

import numpy as np
from mpi4py import MPI

from pagewire.transport import compute

NUM_STEPS = 16
SIZES = (1, 60, 64, 65, 200, 4000, 16384, 50001, 200000, 600000)
WAYS = ("send", "isend", "ssend", "object", "probe")
TOKEN, DATA = 1, 2

world = MPI.COMM_WORLD
rng = random.Random(int(sys.argv[1]))
log: list[tuple[object, ...]] = []


# Not from the heap: where that puts a thing hangs on how often a wait looked after signals, and a
# block is cut at addresses.
ARENA = mmap.mmap(-1, 32 << 20)
ARENA.madvise(mmap.MADV_NOHUGEPAGE)
arena = np.frombuffer(ARENA, "u1")
arena = arena[-arena.ctypes.data % (2 << 20) :]
used = 1 << 20


def buffer(kind: str, num_bytes: int, offset: int) -> np.ndarray:
    """With pages that are there; fresh, without; or where others lay before."""
    global used
    start = 0
    if kind != "empty":
        start, used = used, used + (1 << 20)
    whole = arena[start : start + num_bytes + offset]
    if kind == "zeros":
        whole[:] = 0
    return whole[offset:]


def send(way: str, target: int, data: np.ndarray) -> None:
    if way == "object":
        world.send({"numbers": list(range(data.nbytes % 777))}, target, DATA)
    elif way == "isend":
        world.Isend(data, target, DATA).Wait()
    elif way == "ssend":
        world.Ssend(data, target, DATA)
    else:
        world.Send(data, target, DATA)


def receive(way: str, source: int, data: np.ndarray) -> None:
    if way == "object":
        world.recv(None, source, DATA)
    else:
        if way == "probe":
            world.Probe(source, DATA)
        world.Recv(data, source, DATA)


steps = [
    (
        rng.sample(range(world.size), 2), rng.choice(WAYS), rng.choice(("zeros", "fresh", "empty")),
        rng.choice(SIZES), rng.choice((0, 1, 7, 4095)),
    )
    for _ in range(NUM_STEPS)
]  # fmt: skip
for idx, ((source, target), way, kind, num_bytes, offset) in enumerate(steps):
    if world.rank in (source, target):
        data = buffer(kind, num_bytes, offset)
        if world.rank == source:
            if idx % 3 == 0:
                time.sleep(1e-5)
            compute(flops=1e4)
            data[:] = idx + 1
            send(way, target, data)
        else:
            receive(way, source, data)
            assert way == "object" or (data == idx + 1).all()
        log.append((round(MPI.Wtime() * 1e9), idx, way, kind, data.ctypes.data % (2 << 20)))
    # The next source begins when this target has what it waited for.
    following = steps[idx + 1][0][0] if idx + 1 < len(steps) else target
    if following != target:
        if world.rank == target:
            world.Send(bytearray(1), following, TOKEN)
        elif world.rank == following:
            world.Recv(bytearray(1), target, TOKEN)
run = os.path.basename(os.environ["PAGEWIRE_LAUNCH_DIR"])
pathlib.Path(sys.argv[2], f"{world.rank}.{run}").write_text("\n".join(map(str, log)))
