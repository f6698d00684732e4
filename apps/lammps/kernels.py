"""Python face of `kernels.c`, which checks ranges.

There is no second version in Python to fall back on: tests compare with a brute-force sum.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.kernels import KernelError, ffi, lib, pointer

_ERRORS = {lib.PW_LJ_ERR_INVALID: "invalid argument", lib.PW_LJ_ERR_INDEX: "bad index"}


def grid(**fields: Any) -> Any:
    """Bins over owned atoms and ghosts: the fields of a pw_lj_grid."""
    return _struct("pw_lj_grid", **fields)


def build_lists(
    grid: Any,
    positions: NDArray[np.float64],
    ids: NDArray[np.int64],
    *,
    first: NDArray[np.int64],
    neighbors: NDArray[np.int32],
) -> int:
    """Fill first (owned atoms + 1) and neighbors; return the entries needed. More than
    len(neighbors): call again with a longer one."""
    lengths = math.prod(grid.num_bins) + 1, len(positions)
    bins = (pointer("int32_t", np.empty(num, dtype=np.int32), num) for num in lengths)
    atoms, lists = _c_atoms(positions, first, ids), _c_lists(first, neighbors)
    return _check(lib.pw_lj_build_lists(grid, atoms, *bins, lists))


def compute_lj(
    positions: NDArray[np.float64],
    forces: NDArray[np.float64],
    *,
    first: NDArray[np.int64],
    neighbors: NDArray[np.int32],
    **options: float,
) -> tuple[float, float]:
    """Overwrite forces (n, 3); return this rank's shares of energy and virial. options: the fields
    of a pw_lj_options."""
    tally = ffi.new("pw_lj_tally *")
    _check(
        lib.pw_lj_compute(
            _struct("pw_lj_options", **options),
            _c_atoms(positions, first),
            _c_lists(first, neighbors),
            pointer("double", forces, 3 * len(positions)),
            tally,
        )
    )
    return float(tally.energy), float(tally.virial)


def _c_atoms(
    positions: NDArray[np.float64],
    first: NDArray[np.int64],
    ids: NDArray[np.int64] | None = None,
) -> Any:
    num_all = len(positions)
    return _struct(
        "pw_lj_atoms",
        positions=pointer("double", positions, 3 * num_all),
        ids=ffi.NULL if ids is None else pointer("int64_t", ids, num_all),
        num_local=len(first) - 1,
        num_all=num_all,
    )


def _c_lists(first: NDArray[np.int64], neighbors: NDArray[np.int32]) -> Any:
    return _struct(
        "pw_lj_lists",
        first=pointer("int64_t", first, len(first)),
        neighbors=pointer("int32_t", neighbors, 0),
        capacity=len(neighbors),
    )


def _struct(name: str, **fields: Any) -> Any:
    """A structure of pointers into arrays that the caller keeps alive."""
    return ffi.new(f"{name} *", fields)


def _check(status: int) -> int:
    if status < 0:
        raise KernelError(f"Lennard-Jones kernel: {_ERRORS.get(status, status)}")
    return int(status)
