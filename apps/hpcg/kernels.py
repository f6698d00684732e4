"""Python face of `kernels.c`, which checks ranges when a matrix is built.

There is no second version in Python to fall back on: tests compare with a dense matrix.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.kernels import check, lib, pointer

Vector = NDArray[np.float64]

STENCIL = int(lib.PW_HPCG_STENCIL)
DIAGONAL = int(lib.PW_HPCG_DIAGONAL)

_ERRORS = {lib.PW_HPCG_ERR_INVALID: "invalid argument", lib.PW_HPCG_ERR_INDEX: "bad index"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SparseRows:
    """The rows of one rank, 27 slots each; made by `build_rows` only, which checks the columns."""

    num_rows: int
    num_columns: int
    """own points and ghosts"""
    num_nonzeros: int
    values: NDArray[np.float64]
    columns: NDArray[np.int32]
    """read-only, as the kernels trust it"""


def build_rows(column_map: NDArray[np.int32], num_columns: int) -> SparseRows:
    """The stencil's rows; column_map (nz + 2, ny + 2, nx + 2): the column of each point of the grid
    and of the shell around it, -1 where there is none."""
    nz, ny, nx = (n - 2 for n in column_map.shape)
    num_rows = nx * ny * nz
    values = np.empty((num_rows, STENCIL))
    columns = np.empty((num_rows, STENCIL), dtype=np.int32)
    num_nonzeros = _check(
        lib.pw_hpcg_fill_rows(
            nx, ny, nz, pointer("int32_t", column_map, column_map.size), num_columns,
            pointer("double", values, values.size), pointer("int32_t", columns, columns.size),
        )
    )  # fmt: skip
    columns.flags.writeable = False
    return SparseRows(
        num_rows=num_rows,
        num_columns=num_columns,
        num_nonzeros=num_nonzeros,
        values=values,
        columns=columns,
    )


def spmv(rows: SparseRows, x: Vector, y: Vector) -> None:
    """y = A x; x has num_columns entries or more, ghosts filled in, y num_rows or more."""
    _check(
        lib.pw_hpcg_spmv(
            rows.num_rows,
            *_matrix(rows),
            pointer("double", x, rows.num_columns),
            pointer("double", y, rows.num_rows),
        )
    )


def symgs(rows: SparseRows, r: Vector, x: Vector) -> None:
    """A sweep of Gauss-Seidel upwards and one downwards on A x = r; lengths as for `spmv`."""
    _check(
        lib.pw_hpcg_symgs(
            rows.num_rows,
            *_matrix(rows),
            pointer("double", r, rows.num_rows),
            pointer("double", x, rows.num_columns),
        )
    )


def dot(n: int, x: Vector, y: Vector) -> float:
    """Sum over the first n entries; its order depends on n alone (a BLAS' depends on threads)."""
    return float(lib.pw_hpcg_dot(n, pointer("double", x, n), pointer("double", y, n)))


def waxpby(n: int, alpha: float, x: Vector, beta: float, y: Vector, w: Vector) -> None:
    """w = alpha x + beta y in the first n entries; w may be x or y."""
    _check(
        lib.pw_hpcg_waxpby(
            n,
            alpha,
            pointer("double", x, n),
            beta,
            pointer("double", y, n),
            pointer("double", w, n),
        )
    )


def _matrix(rows: SparseRows) -> tuple[Any, Any]:
    """Values and columns as C sees them."""
    num_slots = rows.num_rows * STENCIL
    return pointer("double", rows.values, num_slots), pointer("int32_t", rows.columns, num_slots)


def _check(status: int) -> int:
    return check("conjugate-gradient", status, _ERRORS)
