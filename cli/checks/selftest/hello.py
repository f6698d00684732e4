"""The program of the self test: messages around a ring and two collectives, every byte checked.

Receive buffers are new mappings, so that the NI faults on them; what is sent comes from pages that
were never written too.
"""

import mmap

import numpy as np
from mpi4py import MPI

SIZES_BYTES = (1, 4097, 1 << 20)
SHIFT_BYTES = 24  # off the page's start
ROUNDS = 2


def _fresh(num_bytes: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Zeros of no page: a mapping that nothing has touched."""
    area = mmap.mmap(-1, num_bytes + SHIFT_BYTES)
    return np.frombuffer(area, np.uint8)[SHIFT_BYTES:]


def _pattern(rank: int, num_bytes: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return ((np.arange(num_bytes) * 31 + rank * 7 + 1) % 251).astype(np.uint8)


def _exchange(world: MPI.Intracomm, num_bytes: int) -> None:
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    received = _fresh(num_bytes)
    world.Sendrecv(_pattern(world.rank, num_bytes), right, recvbuf=received, source=left)
    if not np.array_equal(received, _pattern(left, num_bytes)):
        raise SystemExit(f"rank {world.rank}: wrong bytes in a message of {num_bytes}")
    received[:] = 1
    world.Sendrecv(_fresh(num_bytes), right, recvbuf=received, source=left)
    if received.any():
        raise SystemExit(f"rank {world.rank}: wrong bytes from pages that were never written")


def _collect(world: MPI.Intracomm, num_bytes: int) -> None:
    mine, total = np.full(num_bytes, world.rank + 1, np.uint8), _fresh(num_bytes)
    world.Allreduce(mine, total, op=MPI.MAX)
    if not (total == world.size).all():
        raise SystemExit(f"rank {world.rank}: wrong bytes in Allreduce of {num_bytes}")
    spread = _pattern(0, num_bytes) if world.rank == 0 else _fresh(num_bytes)
    world.Bcast(spread, root=0)
    if not np.array_equal(spread, _pattern(0, num_bytes)):
        raise SystemExit(f"rank {world.rank}: wrong bytes in Bcast of {num_bytes}")


def main() -> None:
    """Exchange all sizes; any wrong byte ends the run."""
    world = MPI.COMM_WORLD
    for _ in range(ROUNDS):
        for num_bytes in SIZES_BYTES:
            _exchange(world, num_bytes)
            _collect(world, num_bytes)
    # One write a rank: lines of several ranks must not mix.
    print(f"selftest: rank {world.rank} of {world.size} has the right bytes\n", end="", flush=True)


if __name__ == "__main__":
    main()
