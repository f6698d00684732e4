"""The rows of a matrix, and the Python face of `kernels.c`, which trusts their columns.

There is no second version in Python to fall back on: tests compare with a dense matrix.
"""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.kernels import KernelError, lib, pointer

Vector = NDArray[np.float64]

STENCIL = int(lib.PW_HPCG_STENCIL)
DIAGONAL = int(lib.PW_HPCG_DIAGONAL)


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
    around = np.lib.stride_tricks.sliding_window_view(column_map, (3, 3, 3)).reshape(-1, STENCIL)
    own = np.arange(len(around), dtype=np.int32)[:, None]
    if (around >= num_columns).any() or (around[:, DIAGONAL, None] != own).any():
        raise KernelError("conjugate-gradient rows: bad index")
    is_there = around >= 0
    values = np.where(is_there, -1.0, 0.0)
    values[:, DIAGONAL] = 26.0
    columns = np.where(is_there, around, own)
    columns.flags.writeable = False
    return SparseRows(
        num_rows=len(own),
        num_columns=num_columns,
        num_nonzeros=int(np.count_nonzero(is_there)),
        values=values,
        columns=columns,
    )


def spmv(rows: SparseRows, x: Vector, y: Vector) -> None:
    """y = A x; x has num_columns entries or more, ghosts filled in, y num_rows or more."""
    lib.pw_hpcg_spmv(*_matrix(rows), _doubles(x, rows.num_columns), _doubles(y, rows.num_rows))


def symgs(rows: SparseRows, r: Vector, x: Vector) -> None:
    """A sweep of Gauss-Seidel upwards and one downwards on A x = r; lengths as for `spmv`."""
    lib.pw_hpcg_symgs(*_matrix(rows), _doubles(r, rows.num_rows), _doubles(x, rows.num_columns))


def dot(n: int, x: Vector, y: Vector) -> float:
    """Sum over the first n entries; its order depends on n alone (a BLAS' depends on threads)."""
    return float(lib.pw_hpcg_dot(n, _doubles(x, n), _doubles(y, n)))


def _matrix(rows: SparseRows) -> tuple[int, Any, Any]:
    """Number of rows, values and columns as C sees them."""
    num_slots = rows.num_rows * STENCIL
    columns = pointer("int32_t", rows.columns, num_slots)
    return rows.num_rows, _doubles(rows.values, num_slots), columns


_doubles = partial(pointer, "double")
