"""The trailing update by one panel: U = L1^-1 U, then A = A - L2 U, in strips of columns.

The strips are fixed, since the library may round a product's edge another way: bits must depend
neither on when a message comes nor on whether the next panel's columns were done ahead.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpl.matrix import Matrix
from pagewire.apps.hpl.panel import Panel
from pagewire.apps.hpl.triangular import solve_unit_lower
from pagewire.apps.timing import declare, phase

STRIP_COLUMNS = 256


class TrailingUpdate:
    """Updates local columns of one matrix."""

    def __init__(self, matrix: Matrix) -> None:
        self._values = matrix.values
        self._product = np.empty(matrix.rows.num_local * STRIP_COLUMNS)

    @phase("update")
    def run(
        self,
        panel: Panel,
        upper: NDArray[np.float64],
        first_column: int,
        poll: Callable[[], None] | None,
    ) -> None:
        """Update the columns from first_column on that `upper` (pivot rows, swapped) belongs to;
        `poll` is called between the strips."""
        num_columns = upper.shape[1]
        if num_columns == 0:
            return
        solve_unit_lower(panel.l1, panel.inverses, upper)
        declare(flops=panel.width**2 * num_columns, num_bytes=16 * upper.size)
        if panel.holds_top:
            top = slice(panel.first_row, panel.first_row + panel.width)
            self._values[top, first_column : first_column + num_columns] = upper
        m = panel.l2.shape[1]
        for begin in range(0, num_columns, STRIP_COLUMNS):
            if poll is not None:
                poll()
            strip = upper[:, begin : begin + STRIP_COLUMNS]
            n = strip.shape[1]
            product = self._product[: m * n].reshape(m, n)
            np.matmul(panel.l2.T, strip, out=product)
            column = first_column + begin
            self._values[panel.first_row_below :, column : column + n] -= product
            declare(
                flops=2 * m * n * panel.width, num_bytes=8 * (2 * m * n + panel.width * (m + n))
            )
