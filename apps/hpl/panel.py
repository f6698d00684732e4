"""A factored panel as it travels: one message of doubles, and what is derived from it once.

The message holds, as HPL's does, L2 (the multipliers below the diagonal block, column after
column), L1 (the diagonal block: U above, unit L below the diagonal), the pivot rows, and the
first pivot that was 0.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpl.broadcast import PanelBroadcast
from pagewire.apps.hpl.grid import Grid
from pagewire.apps.hpl.matrix import Matrix
from pagewire.apps.hpl.swap_plan import SwapPlan, plan_swaps
from pagewire.apps.hpl.triangular import invert_diagonal_blocks
from pagewire.apps.pages import MessageBuffer, Rows


class Panel:
    """Columns [first, first + width) of the matrix on this rank."""

    broadcast: PanelBroadcast
    """Since it was set off."""

    def __init__(self, matrix: Matrix, grid: Grid, idx: int, buffer: MessageBuffer) -> None:
        """Its contents are undefined until it is factored or received."""
        options = matrix.options
        self.first = idx * options.nb
        self.width = min(options.nb, options.n - self.first)
        self.end = self.first + self.width
        self.owner_row = matrix.rows.owner(self.first)
        self.owner_column = matrix.columns.owner(self.first)
        self.is_mine = grid.my_column == self.owner_column
        self.holds_top = grid.my_row == self.owner_row
        self.first_row = matrix.rows.num_before(self.first)
        """local index of the first row from the diagonal block on"""
        self.first_row_below = matrix.rows.num_before(self.end)
        """local index of the first row below the diagonal block"""
        w, m = self.width, matrix.rows.num_local - self.first_row_below
        self.message: Rows = buffer.take(1, w * m + w * w + w + 1)[0]
        l2, l1, self.pivots, self.zero_pivot = np.split(self.message, np.cumsum([w * m, w * w, w]))
        self.l2 = l2.reshape(w, m)
        """[j, i]: multiplier of local row first_row_below + i, column first + j"""
        self.l1 = l1.reshape(w, w)
        self._rows = matrix.rows

    @functools.cached_property
    def plan(self) -> SwapPlan:
        """Which rows go where; of a panel that is here."""
        return plan_swaps(self.pivots.astype(np.int64), self.first, self._rows)

    @functools.cached_property
    def inverses(self) -> list[NDArray[np.float64]]:
        """Of L1's diagonal blocks, for the forward substitution; of a panel that is here."""
        return invert_diagonal_blocks(self.l1)
