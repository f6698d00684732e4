"""The atoms of one rank: owned ones first, ghosts behind them, in arrays that grow and stay."""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.pages import fresh

GROWTH_FACTOR = 1.5


class Atoms:
    """Positions, velocities, forces and global ids. Rows [0, num_local) are owned, the next
    num_ghost are copies of other owners' atoms (velocities: owned rows only). A view of the arrays
    is valid until the next `reserve`."""

    def __init__(self) -> None:
        self.num_local = 0
        self.num_ghost = 0
        self.positions: NDArray[np.float64] = np.zeros((0, 3))
        self.velocities: NDArray[np.float64] = np.zeros((0, 3))
        self.forces: NDArray[np.float64] = np.zeros((0, 3))
        self.ids: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def num_all(self) -> int:
        return self.num_local + self.num_ghost

    def reserve(self, num_rows: int) -> None:
        """Make room for at least num_rows rows; rows in use keep their contents."""
        if num_rows <= len(self.ids):
            return
        capacity = max(num_rows, int(len(self.ids) * GROWTH_FACTOR))
        used = self.num_all
        for name in ("positions", "velocities", "forces", "ids"):
            old = getattr(self, name)
            new = fresh((capacity, *old.shape[1:]), old.dtype)
            new[:used] = old[:used]
            setattr(self, name, new)

    def append_local(
        self,
        ids: NDArray[np.int64],
        positions: NDArray[np.float64],
        velocities: NDArray[np.float64],
    ) -> None:
        """Add owned atoms; there must be no ghosts."""
        assert self.num_ghost == 0
        begin, end = self.num_local, self.num_local + len(ids)
        self.reserve(end)
        self.ids[begin:end] = ids
        self.positions[begin:end] = positions
        self.velocities[begin:end] = velocities
        self.num_local = end

    def keep_local(self, keep: NDArray[np.bool_]) -> None:
        """Drop the owned atoms where keep is False; the others keep their order."""
        n = self.num_local
        for array in (self.ids, self.positions, self.velocities):
            kept = array[:n][keep]
            array[: len(kept)] = kept
        self.num_local = int(np.count_nonzero(keep))
