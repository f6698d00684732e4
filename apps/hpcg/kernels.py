"""Python face of `kernels.c`; the only file of this app that imports the compiled module.

Arrays are checked here (dtype, contiguity, length), ranges in C when a matrix is built. There is no
second version in Python to fall back on: tests compare with a dense matrix.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire._kernels import ffi, lib

Vector = NDArray[np.float64]

STENCIL = int(lib.PW_HPCG_STENCIL)
DIAGONAL = int(lib.PW_HPCG_DIAGONAL)

_DTYPES = {"double": np.float64, "int32_t": np.int32}


class KernelError(RuntimeError):
    """A kernel refused its arguments: a fault of this program, not of the user's input."""


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
            nx, ny, nz, _pointer("int32_t", column_map, column_map.size), num_columns,
            _pointer("double", values, values.size), _pointer("int32_t", columns, columns.size),
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
            _pointer("double", rows.values, rows.num_rows * STENCIL),
            _pointer("int32_t", rows.columns, rows.num_rows * STENCIL),
            _pointer("double", x, rows.num_columns),
            _pointer("double", y, rows.num_rows),
        )
    )


def symgs(rows: SparseRows, r: Vector, x: Vector) -> None:
    """A sweep of Gauss-Seidel upwards and one downwards on A x = r; lengths as for `spmv`."""
    _check(
        lib.pw_hpcg_symgs(
            rows.num_rows,
            _pointer("double", rows.values, rows.num_rows * STENCIL),
            _pointer("int32_t", rows.columns, rows.num_rows * STENCIL),
            _pointer("double", r, rows.num_rows),
            _pointer("double", x, rows.num_columns),
        )
    )


def dot(n: int, x: Vector, y: Vector) -> float:
    """Sum over the first n entries; its order depends on n alone (a BLAS' depends on threads)."""
    return float(lib.pw_hpcg_dot(n, _pointer("double", x, n), _pointer("double", y, n)))


def waxpby(n: int, alpha: float, x: Vector, beta: float, y: Vector, w: Vector) -> None:
    """w = alpha x + beta y in the first n entries; w may be x or y."""
    _check(
        lib.pw_hpcg_waxpby(
            n,
            alpha,
            _pointer("double", x, n),
            beta,
            _pointer("double", y, n),
            _pointer("double", w, n),
        )
    )


def _pointer(ctype: str, array: NDArray[Any], num_entries: int) -> Any:
    if array.dtype != _DTYPES[ctype] or not array.flags.c_contiguous or array.size < num_entries:
        raise KernelError(
            f"array of {array.dtype}, {array.size} entries, contiguous {array.flags.c_contiguous}; "
            f"a kernel needs {ctype}, {num_entries} entries, contiguous"
        )
    return ffi.from_buffer(f"{ctype}[]", array)


def _check(status: int) -> int:
    if status < 0:
        names = {lib.PW_HPCG_ERR_INVALID: "invalid argument", lib.PW_HPCG_ERR_INDEX: "bad index"}
        raise KernelError(f"conjugate-gradient kernel: {names.get(status, status)}")
    return int(status)
