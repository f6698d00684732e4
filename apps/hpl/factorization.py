"""The factorisation of the whole matrix, with a look-ahead of no or one panel.

Without look-ahead a panel is factored, sent, and all columns are updated. With it the columns of
the next panel are updated first, the next panel is factored and set off, and it travels while the
other columns are updated.
"""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.command import AppError
from pagewire.apps.hpl.broadcast import PanelBroadcast
from pagewire.apps.hpl.factor import PanelFactorization
from pagewire.apps.hpl.grid import Grid
from pagewire.apps.hpl.matrix import Matrix
from pagewire.apps.hpl.panel import Panel
from pagewire.apps.hpl.swap import RowSwap
from pagewire.apps.hpl.update import TrailingUpdate
from pagewire.apps.pages import MessageBuffer
from pagewire.apps.timing import Stopwatch


class Factorization:
    """PA = LU of one matrix, in place; b is transformed along. All of it is collective."""

    def __init__(self, matrix: Matrix, grid: Grid, stopwatch: Stopwatch) -> None:
        options = matrix.options
        self._matrix = matrix
        self._grid = grid
        self._stopwatch = stopwatch
        self._factorization = PanelFactorization(matrix, grid, stopwatch)
        self._swap = RowSwap(matrix, grid)
        self._update = TrailingUpdate(matrix)
        # A panel's buffer is in use until all below it in the ring have it.
        self._buffers = [
            MessageBuffer(fresh=options.fresh_buffers) for _ in range(options.depth + 1)
        ]
        self._is_fresh = options.workspace == "fresh"
        self._in_use: list[Panel | None] = [None] * len(self._buffers)
        self._num_panels = -(-options.n // options.nb)

    def run(self) -> None:
        """Factor. Raises AppError on all ranks when a pivot is 0."""
        zero_pivot = 0
        ahead: Panel | None = None
        for idx in range(self._num_panels):
            panel = ahead or self._start(idx)
            panel.broadcast.wait_received()
            self._stopwatch.stamp("bcast")
            zero_pivot = zero_pivot or int(panel.zero_pivot[0])
            ahead = self._advance(idx, panel)
        for panel_in_use in self._in_use:
            _finish(panel_in_use)
        self._stopwatch.stamp("bcast")
        if zero_pivot:
            raise AppError(
                f"the pivot of column {zero_pivot} is 0; allowed: another value. "
                f"Remedy: another --seed."
            )

    def _advance(self, idx: int, panel: Panel) -> Panel | None:
        """Update all columns by a panel; returns the next panel if it is on its way."""
        has_next = idx + 1 < self._num_panels
        begin = self._matrix.columns.num_before(panel.end)
        end = self._matrix.columns.num_local
        if self._is_fresh:
            self._swap.renew(panel.width * (end - begin))
        # Its columns are a part of their own also without look-ahead, for the same bits.
        middle = begin
        if has_next:
            next_end = min(panel.end + self._matrix.options.nb, self._matrix.options.n)
            middle = self._matrix.columns.num_before(next_end)
        if self._matrix.options.depth == 0 or not has_next:
            upper = self._swap_rows(panel, begin, end)
            self._eliminate(panel, upper[:, : middle - begin], begin, None)
            self._eliminate(panel, upper[:, middle - begin :], middle, None)
            return None
        self._eliminate(panel, self._swap_rows(panel, begin, middle), begin, None)
        ahead = self._start(idx + 1)
        self._eliminate(panel, self._swap_rows(panel, middle, end), middle, ahead.broadcast)
        return ahead

    def _start(self, idx: int) -> Panel:
        """Factor a panel where it is held and set it off."""
        slot = idx % len(self._buffers)
        _finish(self._in_use[slot])
        if self._is_fresh:
            self._buffers[slot].renew()
        panel = Panel(self._matrix, self._grid, idx, self._buffers[slot])
        self._in_use[slot] = panel
        self._stopwatch.stamp("bcast")
        if panel.is_mine:
            self._factorization.factor(panel)
        panel.broadcast = PanelBroadcast(
            self._grid.row, panel.message, root=panel.owner_column, kind=self._matrix.options.bcast
        )
        self._stopwatch.stamp("bcast")
        return panel

    def _swap_rows(self, panel: Panel, first_column: int, end_column: int) -> NDArray[np.float64]:
        upper = self._swap.run(panel, first_column, end_column)
        self._stopwatch.stamp("laswp")
        return upper

    def _eliminate(
        self,
        panel: Panel,
        upper: NDArray[np.float64],
        first_column: int,
        ahead: PanelBroadcast | None,
    ) -> None:
        self._update.run(panel, upper, first_column, ahead.poll if ahead else None)
        self._stopwatch.stamp("update")


def _finish(panel: Panel | None) -> None:
    if panel is not None:
        panel.broadcast.wait_sent()
