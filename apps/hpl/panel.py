"""A factored panel as it travels: one message of doubles, and what is derived from it once.

The message holds, as HPL's does, L2 (the multipliers below the diagonal block, column after
column), L1 (the diagonal block: U above, unit L below the diagonal), the pivot rows, and the
first pivot that was 0.
"""

import dataclasses
import functools

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpl.broadcast import PanelBroadcast
from pagewire.apps.hpl.grid import Grid
from pagewire.apps.hpl.layout import Axis
from pagewire.apps.hpl.matrix import Matrix
from pagewire.apps.hpl.triangular import invert_diagonal_blocks
from pagewire.apps.pages import MessageBuffer, Rows

Indices = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class SwapPlan:
    """What a panel's pivots, applied one after the other, come to: which row ends up where. The
    same on all processes of a column, but for the local indices. Processes by grid row.

    The rows that come up into the diagonal block are gathered on all processes of a column; the
    rows that they displace go down to where those came from. Only rows of the diagonal block go
    down: a row that came up stays up.
    """

    up_order: Indices
    """places in the diagonal block, grouped by the process that holds the row that comes up"""
    up_starts: Indices
    """where each process's group begins, and the end of the last"""
    my_up_rows: Indices
    """local indices of the rows held here that come up, in the order of the group"""
    down_places: list[Indices]
    """per process: places in the diagonal block whose rows go down to it"""
    my_down_rows: Indices
    """local indices where they go, on the process that they go to"""


def plan_swaps(pivots: Indices, first: int, rows: Axis) -> SwapPlan:
    """pivots: the global row that row first + j was swapped with, in order of j."""
    content: dict[int, int] = {}
    for place, pivot in enumerate(pivots.tolist(), first):
        here, there = content.get(place, place), content.get(pivot, pivot)
        content[place], content[pivot] = there, here
    end = first + len(pivots)
    came_up = np.array([content[place] for place in range(first, end)], np.int64)
    below = sorted(row for row in content if row >= end)
    gone_down = np.array([content[row] for row in below], np.int64) - first
    targets = np.array(below, np.int64)

    up_owners, down_owners = rows.owner(came_up), rows.owner(targets)
    order = np.argsort(up_owners, kind="stable")
    counts = np.bincount(up_owners, minlength=rows.num_procs)
    return SwapPlan(
        up_order=order,
        up_starts=np.concatenate([[0], np.cumsum(counts)]),
        my_up_rows=rows.local(came_up[up_owners == rows.coord]),
        down_places=[gone_down[down_owners == each] for each in range(rows.num_procs)],
        my_down_rows=rows.local(targets[down_owners == rows.coord]),
    )


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
