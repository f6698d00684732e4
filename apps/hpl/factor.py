"""The panel factorisation: recursive, right-looking, by one column of processes.

Each matrix column costs one exchange in which every process offers its largest element with that
row of the panel, and the process of the diagonal block adds the row that has to make way. All then
know the pivot row, so the diagonal block is built on all of them and its part of the work is
repeated rather than sent. HPL reduces the same message; here it is gathered and the choice (largest
value, then lowest row) made by everyone, so that it is no matter of MPI's order.
"""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpl.grid import Grid
from pagewire.apps.hpl.matrix import Matrix
from pagewire.apps.hpl.panel import Panel
from pagewire.apps.hpl.triangular import invert_diagonal_blocks, solve_unit_lower
from pagewire.apps.timing import Stopwatch, declare, phase

NBMIN = 16
"""Columns that are no longer halved."""

_HEAD = 2  # value, row: as doubles, exact for rows below 2^53


class PanelFactorization:
    """Factors panels of one matrix; `factor` is collective over the grid column of the panel."""

    def __init__(self, matrix: Matrix, grid: Grid, stopwatch: Stopwatch) -> None:
        self._matrix = matrix
        self._team = grid.column
        self._stopwatch = stopwatch
        self._rows = matrix.rows.global_indices().astype(np.float64)
        nb = min(matrix.options.nb, matrix.options.n)
        self._workspace = np.empty(nb * matrix.rows.num_local)
        self._offer = np.zeros(_HEAD + 2 * nb)
        self._offers = np.empty((self._team.num_ranks, _HEAD + 2 * nb))

    @phase("panel")
    def factor(self, panel: Panel) -> None:
        """Fill in the panel's message out of the matrix, and the matrix's diagonal block."""
        self._stopwatch.skip()
        w = panel.width
        first_column = self._matrix.columns.num_before(panel.first)
        block = self._matrix.values[panel.first_row :, first_column : first_column + w]
        # A matrix column is a row here, to search and scale it in one stretch of memory.
        columns = self._workspace[: block.size].reshape(w, len(block))
        columns[...] = block.T
        panel.zero_pivot[0] = 0
        self._factor_range(panel, columns, 0, w)
        num_top = panel.first_row_below - panel.first_row
        panel.l2[...] = columns[:, num_top:]
        if panel.holds_top:
            block[:w] = panel.l1
        self._stopwatch.stamp("rfact")

    def _factor_range(
        self, panel: Panel, columns: NDArray[np.float64], low: int, high: int
    ) -> None:
        if high - low <= NBMIN:
            for j in range(low, high):
                self._eliminate_column(panel, columns, j, high)
            return
        middle = (low + high) // 2
        self._factor_range(panel, columns, low, middle)
        left, right = slice(low, middle), slice(middle, high)
        corner = panel.l1[left, right]
        lower = panel.l1[left, left]
        solve_unit_lower(lower, invert_diagonal_blocks(lower), corner)
        rest = slice(middle if panel.holds_top else 0, None)
        columns[right, rest] -= corner.T @ columns[left, rest]
        k, n = middle - low, high - middle
        m = columns[right, rest].shape[1]
        declare(flops=2 * m * n * k + k * k * n, num_bytes=8 * m * (2 * n + k))
        self._factor_range(panel, columns, middle, high)

    def _eliminate_column(
        self, panel: Panel, columns: NDArray[np.float64], j: int, high: int
    ) -> None:
        """Find column j's pivot, swap the panel's rows, update the columns up to `high`."""
        done = j if panel.holds_top else 0
        mine = -1
        if done < columns.shape[1]:
            mine = done + int(np.abs(columns[j, done:]).argmax())
        pivot_row, old_row, pivot, is_here = self._exchange(panel, columns, j, mine)
        panel.l1[j] = pivot_row
        panel.pivots[j] = pivot
        if is_here:
            columns[:, mine] = old_row
        if panel.holds_top:
            columns[:, j] = pivot_row
            done += 1
        if pivot_row[j] == 0:
            # As HPL goes on too: all ranks learn of it with the panel and stop at the end.
            if panel.zero_pivot[0] == 0:
                panel.zero_pivot[0] = panel.first + j + 1
            return
        multipliers = columns[j, done:]
        multipliers /= pivot_row[j]
        if j + 1 < high:
            columns[j + 1 : high, done:] -= pivot_row[j + 1 : high, None] * multipliers
        # The few columns that are not halved any more stay in cache.
        m, n = len(multipliers), high - j - 1
        declare(flops=2 * m * n + m, num_bytes=8 * m)

    def _exchange(
        self, panel: Panel, columns: NDArray[np.float64], j: int, mine: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, bool]:
        """The pivot row, the row that makes way, the pivot's global row, whether it is held here.
        mine: the index of this process's candidate, -1 if it has no row left."""
        w = panel.width
        offer = self._offer[: _HEAD + 2 * w]
        head, candidate, old_row = np.split(offer, [_HEAD, _HEAD + w])
        head[:] = -1.0
        if mine >= 0:
            head[:] = abs(columns[j, mine]), self._rows[panel.first_row + mine]
            candidate[:] = columns[:, mine]
        if panel.holds_top:
            old_row[:] = columns[:, j]
        if self._team.num_ranks == 1:
            return candidate, old_row, head[1], True
        offers = self._offers.reshape(-1)[: self._team.num_ranks * len(offer)]
        offers = offers.reshape(self._team.num_ranks, len(offer))
        self._stopwatch.stamp("rfact")
        self._team.comm.Allgather(offer, offers)
        self._stopwatch.stamp("mxswp")
        best = max(range(len(offers)), key=lambda each: (offers[each, 0], -offers[each, 1]))
        winner, top = offers[best], offers[panel.owner_row]
        return winner[_HEAD : _HEAD + w], top[_HEAD + w :], winner[1], best == self._team.rank
