"""The ranks together, with the sum of one number that HPCG asks for three times an iteration."""

from typing import Any

import numpy as np

from pagewire.apps import team


class Team(team.Team):
    """Keeps the buffers of the sum, as a benchmark does."""

    def __init__(self, mpi: Any, comm: Any) -> None:
        super().__init__(mpi, comm)
        self._part = np.zeros(1)
        self._parts = np.zeros(self.num_ranks)

    def sum_scalar(self, part: float) -> float:
        """Sum over the ranks, added in rank order, alike on all."""
        self._part[0] = part
        self.comm.Allgather(self._part, self._parts)
        total = 0.0
        for value in self._parts.tolist():
            total += value
        return total
