"""The ranks together: collective decisions and sums whose bits depend on no MPI library.

A floating-point sum depends on its order and MPI does not fix one, so partial sums are gathered
and added in rank order here. Integer sums and maxima are exact in any order and left to MPI.
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
        self._part, self._parts = np.zeros(1), np.zeros(self.num_ranks)

    def gather_rows(self, row: ArrayLike) -> NDArray[np.float64]:
        """Every rank's row of doubles, by rank: shape (num_ranks, len(row))."""
        mine = np.ascontiguousarray(row, dtype=np.float64)
        rows = np.empty((self.num_ranks, mine.size))
        self.comm.Allgather(mine, rows)
        return rows

    def gather(self, mine: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Every rank's doubles, however many, one after the other at rank 0; None elsewhere."""
        counts = self.gather_rows([mine.size])[:, 0].astype(int)
        everything, into = None, None
        if self.rank == 0:
            everything = np.empty(counts.sum())
            starts = np.cumsum(counts) - counts
            into = [everything, counts.tolist(), starts.tolist(), self.mpi.DOUBLE]
        self.comm.Gatherv([mine, mine.size, self.mpi.DOUBLE], into, root=0)
        return everything

    def measured_rows(self, row: ArrayLike) -> NDArray[np.float64]:
        """At rank 0 every rank's row of doubles, by rank: shape (num_ranks, len(row)); elsewhere
        its own alone. 64 bytes a message: what is measured rides in envelopes and is no data.
        """
        mine = np.ascontiguousarray(row, dtype=np.float64)
        rows = np.tile(mine, (1 if self.rank else self.num_ranks, 1))
        for first in range(0, mine.size, 8):
            if self.rank:
                self.comm.Send(mine[first : first + 8], dest=0)
            for rank in range(1, len(rows)):
                self.comm.Recv(rows[rank, first : first + 8], source=rank)
        return rows

    def sum_in_order(self, values: ArrayLike) -> NDArray[np.float64]:
        """Element-wise sum over the ranks, added in rank order."""
        first, *others = self.gather_rows(values)
        total: NDArray[np.float64] = sum(others, first)
        return total

    def sum_scalar(self, part: float) -> float:
        """The same of one number, by buffers that are kept, as HPCG does it each iteration."""
        self._part[0] = part
        self.comm.Allgather(self._part, self._parts)
        total = 0.0
        for value in self._parts.tolist():
            total += value
        return total

    def sum_integers(self, *values: int) -> list[int]:
        """Element-wise sum over the ranks; it must fit 63 bits."""
        mine = np.array(values, dtype=np.int64)
        total = np.empty_like(mine)
        self.comm.Allreduce(mine, total, op=self.mpi.SUM)
        return [int(v) for v in total]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on some rank."""
        mine = np.array([int(flag)], dtype=np.int64)
        most = np.empty_like(mine)
        self.comm.Allreduce(mine, most, op=self.mpi.MAX)
        return bool(most[0])
