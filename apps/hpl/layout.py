"""Who holds which rows and columns: blocks dealt out in turn, along each axis of the grid."""

import dataclasses
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Index = TypeVar("Index", int, NDArray[np.int64])
"""One, or several."""


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """One process's share of the rows (or columns), ascending, in blocks of `block_length`."""

    length: int
    block_length: int
    coord: int
    num_procs: int

    def owner(self, index: Index) -> Index:
        """The coordinate of the process that holds a global index."""
        return index // self.block_length % self.num_procs

    def local(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Local indices of global ones that are held here."""
        block = indices // self.block_length // self.num_procs
        return block * self.block_length + indices % self.block_length

    def num_before(self, index: int) -> int:
        """How many of the global indices below `index` are held here; 0 <= index <= length."""
        num_blocks, rest = divmod(index, self.block_length)
        rounds, extra = divmod(num_blocks, self.num_procs)
        num = rounds * self.block_length
        if extra > self.coord:
            num += self.block_length
        elif extra == self.coord:
            num += rest
        return num

    @property
    def num_local(self) -> int:
        return self.num_before(self.length)

    def global_indices(self) -> NDArray[np.int64]:
        """Global indices held here, by local index."""
        local = np.arange(self.num_local, dtype=np.int64)
        block, rest = np.divmod(local, self.block_length)
        return (block * self.num_procs + self.coord) * self.block_length + rest
