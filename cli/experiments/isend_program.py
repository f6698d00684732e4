"""The two ranks of part-fig16: rank 0 times Isend of each size and writes the durations as JSON."""

import json
import sys

import numpy as np

from pagewire.transport import MPI

PAGE_BYTES = 4096


def durations(num_bytes: int, repetitions: int) -> list[float]:
    """Seconds (virtual) that Isend takes at rank 0; nothing at rank 1. One warm-up before."""
    world = MPI.COMM_WORLD
    rank = world.Get_rank()
    # Page-aligned; ones, so that every page is written and resident.
    room = np.ones(num_bytes + PAGE_BYTES, np.uint8)
    start = -room.ctypes.data % PAGE_BYTES
    buffer = room[start : start + num_bytes]
    found: list[float] = []
    for _ in range(repetitions + 1):
        request = world.Irecv(buffer, 0) if rank == 1 else None
        world.Barrier()
        if rank == 0:
            start_s = MPI.Wtime()
            request = world.Isend(buffer, 1)
            found.append(MPI.Wtime() - start_s)
        assert request is not None
        request.Wait()
        world.Barrier()
    return found[1:]


def main() -> int:
    path, repetitions, *sizes = sys.argv[1:]
    times = {size: durations(int(size), int(repetitions)) for size in sizes}
    if MPI.COMM_WORLD.Get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(times, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
