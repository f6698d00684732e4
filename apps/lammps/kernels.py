"""Python face of `kernels.c`, which checks ranges.

There is no second version in Python to fall back on: tests compare with a brute-force sum.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.kernels import check, ffi, lib, pointer

_ERRORS = {lib.PW_LJ_ERR_INVALID: "invalid argument", lib.PW_LJ_ERR_INDEX: "bad index"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Bins over owned atoms and ghosts."""

    low: tuple[float, float, float]
    bin_width: tuple[float, float, float]
    num_bins: tuple[int, int, int]
    list_cutoff: float
    newton: bool


def sort_bins(
    grid: Grid,
    positions: NDArray[np.float64],
    *,
    bin_first: NDArray[np.int32],
    bin_atoms: NDArray[np.int32],
) -> None:
    """Sort the rows of positions (n, 3) by bin; bin_first: bins + 1, bin_atoms: n entries."""
    _check(
        lib.pw_lj_sort_bins(
            _c_grid(grid),
            _c_atoms(positions, len(positions)),
            _c_bins(grid, bin_first, bin_atoms, len(positions)),
        )
    )


def build_lists(
    grid: Grid,
    positions: NDArray[np.float64],
    ids: NDArray[np.int64],
    *,
    num_local: int,
    bin_first: NDArray[np.int32],
    bin_atoms: NDArray[np.int32],
    first: NDArray[np.int64],
    neighbors: NDArray[np.int32],
) -> int:
    """Fill first and neighbors; return the entries needed. More than len(neighbors): grow it and
    call again."""
    needed = lib.pw_lj_build_lists(
        _c_grid(grid),
        _c_atoms(positions, num_local, ids),
        _c_bins(grid, bin_first, bin_atoms, len(positions)),
        _c_lists(num_local, first, neighbors),
    )
    return _check(needed)


def compute_lj(
    positions: NDArray[np.float64],
    forces: NDArray[np.float64],
    *,
    num_local: int,
    first: NDArray[np.int64],
    neighbors: NDArray[np.int32],
    cutoff: float,
    energy_shift: float,
    newton: bool,
    with_energy: bool,
) -> tuple[float, float]:
    """Overwrite forces (n, 3); return this rank's shares of energy and virial."""
    options = ffi.new("pw_lj_options *")
    options.cutoff, options.energy_shift = cutoff, energy_shift
    options.newton, options.with_energy = newton, with_energy
    tally = ffi.new("pw_lj_tally *")
    _check(
        lib.pw_lj_compute(
            options,
            _c_atoms(positions, num_local),
            _c_lists(num_local, first, neighbors),
            pointer("double", forces, 3 * len(positions)),
            tally,
        )
    )
    return float(tally.energy), float(tally.virial)


def _c_grid(grid: Grid) -> Any:
    out = ffi.new("pw_lj_grid *")
    out.low, out.bin_width, out.num_bins = grid.low, grid.bin_width, grid.num_bins
    out.list_cutoff, out.newton = grid.list_cutoff, grid.newton
    return out


def _c_atoms(
    positions: NDArray[np.float64], num_local: int, ids: NDArray[np.int64] | None = None
) -> Any:
    num_all = len(positions)
    return _struct(
        "pw_lj_atoms",
        positions=pointer("double", positions, 3 * num_all),
        ids=ffi.NULL if ids is None else pointer("int64_t", ids, num_all),
        num_local=num_local,
        num_all=num_all,
    )


def _c_bins(grid: Grid, first: NDArray[np.int32], atoms: NDArray[np.int32], num_atoms: int) -> Any:
    return _struct(
        "pw_lj_bins",
        first=pointer("int32_t", first, int(np.prod(grid.num_bins)) + 1),
        atoms=pointer("int32_t", atoms, num_atoms),
    )


def _c_lists(num_local: int, first: NDArray[np.int64], neighbors: NDArray[np.int32]) -> Any:
    return _struct(
        "pw_lj_lists",
        first=pointer("int64_t", first, num_local + 1),
        neighbors=pointer("int32_t", neighbors, 0),
        capacity=len(neighbors),
    )


def _struct(name: str, **fields: Any) -> Any:
    """A structure of pointers into arrays that the caller keeps alive."""
    return ffi.new(f"{name} *", fields)


def _check(status: int) -> int:
    return check("Lennard-Jones", status, _ERRORS)
