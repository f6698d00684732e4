"""The ranks together: global sums whose bits depend on no MPI library, and collective decisions.

A floating-point sum depends on its order and MPI does not fix one, so partial sums are gathered
and added in rank order here.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Team:
    """One communicator and the module `mpi4py.MPI`, which is imported in `main` only."""

    def __init__(self, mpi: Any, comm: Any) -> None:
        self.mpi = mpi
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.num_ranks: int = comm.Get_size()
        # Kept, as a benchmark's scalar buffers are: three sums an iteration go through them.
        self._part = np.zeros(1)
        self._parts = np.zeros(self.num_ranks)

    def sum_in_order(self, part: float) -> float:
        """Sum over the ranks, added in rank order, alike on all."""
        self._part[0] = part
        self.comm.Allgather(self._part, self._parts)
        total = 0.0
        for value in self._parts.tolist():
            total += value
        return total

    def gather_rows(self, row: ArrayLike) -> NDArray[np.float64]:
        """Every rank's row of doubles, by rank: shape (num_ranks, len(row))."""
        mine = np.ascontiguousarray(row, dtype=np.float64)
        rows = np.empty((self.num_ranks, mine.size))
        self.comm.Allgather(mine, rows)
        return rows

    def sum_integer(self, value: int) -> int:
        """Sum over the ranks; it must fit 63 bits."""
        mine = np.array([value], dtype=np.int64)
        total = np.empty_like(mine)
        self.comm.Allreduce(mine, total, op=self.mpi.SUM)
        return int(total[0])

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on some rank."""
        mine = np.array([int(flag)], dtype=np.int64)
        most = np.empty_like(mine)
        self.comm.Allreduce(mine, most, op=self.mpi.MAX)
        return bool(most[0])
