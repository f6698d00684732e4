"""Where does the time of a program go, and where do its pages fault? Its regions say.

Run it with `pagewire launch -n 2 --compute model examples/regions.py`, on plain MPI with `mpiexec
-n 2 python examples/regions.py`: there the regions do nothing.
"""

import mmap

import numpy as np
from mpi4py import MPI

from pagewire.transport import compute, region

NUM_STEPS = 4
HALO_BYTES = 256 * 1024

world = MPI.COMM_WORLD
after, before = (world.Get_rank() + 1) % world.Get_size(), (world.Get_rank() - 1) % world.Get_size()


def fresh(num_bytes: int) -> np.ndarray:
    """Memory whose pages nobody has touched."""
    return np.frombuffer(mmap.mmap(-1, num_bytes), np.uint8)


@region("halo")
def exchange(out: np.ndarray) -> np.ndarray:
    """Send to the next rank what comes from the one before."""
    into = fresh(HALO_BYTES)
    world.Sendrecv(out, after, 0, into, before)
    return into


halo = fresh(HALO_BYTES)
halo[:] = world.Get_rank()
for _ in range(NUM_STEPS):
    with region("step"):
        halo = exchange(halo)
        with region("work"):
            halo[:] += 1
            compute(num_bytes=2 * HALO_BYTES)
with region("check"):
    most = world.allreduce(int(halo.max()), MPI.MAX)
    assert most == world.Get_size() - 1 + NUM_STEPS
