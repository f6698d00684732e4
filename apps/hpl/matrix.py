"""The random matrix [A | b], one element from its place alone, and the part of it held here.

Elements are uniform in [-0.5, 0.5), as HPL's. Element (i, j) is the (i + N j)-th value of a
splitmix64 stream (G. Steele, D. Lea, C. Flood, Fast Splittable Pseudorandom Number Generators,
OOPSLA 2014), which can be entered anywhere: so the matrix does not depend on its distribution.
"""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.command import InputError
from pagewire.apps.hpl.grid import Grid
from pagewire.apps.hpl.layout import Axis
from pagewire.apps.hpl.options import Options

Array = NDArray[np.float64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_ROWS_AT_ONCE = 64


def elements(n: int, seed: int, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Array:
    """The elements at global rows x columns; column n is b."""
    places = rows.astype(np.uint64)[:, None] + np.uint64(n) * columns.astype(np.uint64)
    # All of it wraps around modulo 2^64.
    z = (places + np.uint64(1)) * _GAMMA + _mixed(np.array([seed], np.uint64) * _GAMMA)
    return (_mixed(z) >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Matrix:
    """The blocks of [A | b] held here, as one C-contiguous array."""

    def __init__(self, options: Options, grid: Grid) -> None:
        """Collective; raises InputError on all ranks when the memory does not suffice on one."""
        self.options = options
        self.rows = Axis(options.n, options.nb, grid.my_row, grid.num_rows)
        self.columns = Axis(options.n + 1, options.nb, grid.my_column, grid.num_columns)
        shape = self.rows.num_local, self.columns.num_local
        failed = False
        try:
            self.values: Array = np.empty(shape)
        except MemoryError:
            failed = True
        if grid.world.any(failed):
            raise InputError(
                f"--N is {options.n}; allowed: what fits in memory, and "
                f"{8 * shape[0] * shape[1]} bytes on a rank do not. Remedy: a smaller --N, or "
                f"more nodes."
            )

    @property
    def rhs_column(self) -> int | None:
        """Local index of b, None where it is not held."""
        if self.columns.owner(self.options.n) != self.columns.coord:
            return None
        return self.columns.num_local - 1

    @property
    def num_unknowns(self) -> int:
        """How many columns of A itself are held here; they come first."""
        return self.columns.num_before(self.options.n)

    def generate(self) -> None:
        """Fill in the values, some rows at a time so that the intermediates stay in cache."""
        rows, columns = self.rows.global_indices(), self.columns.global_indices()
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            self.values[part] = elements(self.options.n, self.options.seed, rows[part], columns)
