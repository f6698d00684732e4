"""Back substitution with the factored matrix, HPL's residual test, and x in one place.

The right-hand side's updates stay where they are computed; a block's sum over the process columns
is formed in their order by the process that solves it. So no sum is MPI's.
"""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpl.grid import Grid
from pagewire.apps.hpl.matrix import Matrix
from pagewire.apps.hpl.triangular import solve_upper
from pagewire.apps.timing import declare, phase

Array = NDArray[np.float64]

EPSILON = 2.0**-53
"""Relative machine precision as HPL counts it."""

THRESHOLD = 16.0
_ROWS_AT_ONCE = 64


@phase("solve")
def back_substitute(matrix: Matrix, grid: Grid) -> Array:
    """x by the local columns of A, the same on all processes of a column. Collective."""
    n, nb = matrix.options.n, matrix.options.nb
    rows, columns = matrix.rows, matrix.columns
    x = np.zeros(matrix.num_unknowns)
    rhs = np.zeros(rows.num_local)
    if matrix.rhs_column is not None:
        rhs[:] = matrix.values[:, matrix.rhs_column]
    for first in reversed(range(0, n, nb)):
        end = min(first + nb, n)
        row, column = rows.owner(first), columns.owner(first)
        here = slice(rows.num_before(first), rows.num_before(end))
        unknowns = slice(columns.num_before(first), columns.num_before(end))
        part = x[unknowns]
        if grid.my_row == row:
            parts = np.empty((grid.num_columns, end - first)) if grid.my_column == column else None
            grid.row.comm.Gather(np.ascontiguousarray(rhs[here]), parts, root=column)
            if parts is not None:
                total = sum(parts[1:], parts[0])
                part[:] = solve_upper(matrix.values[here, unknowns], total)
                declare(flops=(end - first) ** 2, num_bytes=8 * (end - first) ** 2)
        if grid.my_column == column:
            grid.column.comm.Bcast(part, root=row)
            above = matrix.values[: here.start, unknowns]
            rhs[: here.start] -= above @ part
            declare(flops=2 * above.size, num_bytes=8 * above.size)
    return x


def scaled_residual(matrix: Matrix, grid: Grid, x: Array) -> float:
    """||Ax - b|| / (eps (||A|| ||x|| + ||b||) N) in infinity norms. Collective; `matrix` must hold
    [A | b] as generated."""
    m = matrix.rows.num_local
    sums = np.zeros((3, m))  # A x, sum of |A|, b
    for first in range(0, m, _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        local = matrix.values[part, : matrix.num_unknowns]
        sums[0, part] = local @ x
        sums[1, part] = np.abs(local).sum(axis=1)
    if matrix.rhs_column is not None:
        sums[2] = matrix.values[:, matrix.rhs_column]
    ax, sizes, b = grid.row.sum_in_order(sums.ravel()).reshape(3, m)
    mine = [np.abs(each).max(initial=0.0) for each in (ax - b, sizes, b, x)]
    difference, a_norm, b_norm, x_norm = grid.world.gather_rows(mine).max(axis=0).tolist()
    return float(difference / (EPSILON * (a_norm * x_norm + b_norm) * matrix.options.n))


def gather_solution(matrix: Matrix, grid: Grid, x: Array) -> Array | None:
    """The whole x on rank 0; None elsewhere. Collective."""
    if grid.my_row != 0:
        return None
    everything = grid.row.gather(x)
    if everything is None:
        return None
    solution = np.empty_like(everything)
    blocks = np.arange(matrix.options.n) // matrix.options.nb % grid.num_columns
    solution[np.argsort(blocks, kind="stable")] = everything
    return solution
