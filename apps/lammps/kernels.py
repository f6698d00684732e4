"""Python face of `kernels.c`; the only file that imports the compiled module.

Arrays are checked here (dtype, contiguity, length), ranges in C. There is no second version in
Python to fall back on: tests compare with a brute-force sum.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire._kernels import ffi, lib

_DTYPES = {"double": np.float64, "int64_t": np.int64, "int32_t": np.int32}


class KernelError(RuntimeError):
    """A kernel refused its arguments: a fault of this program, not of the user's input."""


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
    num_all = len(positions)
    num_bins = int(np.prod(grid.num_bins))
    _check(
        lib.pw_lj_sort_bins(
            _c_grid(grid),
            _pointer("double", positions, 3 * num_all),
            num_all,
            _pointer("int32_t", bin_first, num_bins + 1),
            _pointer("int32_t", bin_atoms, num_all),
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
    num_all = len(positions)
    num_bins = int(np.prod(grid.num_bins))
    needed = lib.pw_lj_build_lists(
        _c_grid(grid),
        _pointer("double", positions, 3 * num_all),
        _pointer("int64_t", ids, num_all),
        num_local,
        num_all,
        _pointer("int32_t", bin_first, num_bins + 1),
        _pointer("int32_t", bin_atoms, num_all),
        _pointer("int64_t", first, num_local + 1),
        _pointer("int32_t", neighbors, 0),
        len(neighbors),
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
    num_all = len(positions)
    options = ffi.new("pw_lj_options *")
    options.cutoff, options.energy_shift = cutoff, energy_shift
    options.newton, options.with_energy = newton, with_energy
    tally = ffi.new("pw_lj_tally *")
    _check(
        lib.pw_lj_compute(
            options,
            _pointer("double", positions, 3 * num_all),
            num_local,
            num_all,
            _pointer("int64_t", first, num_local + 1),
            _pointer("int32_t", neighbors, 0),
            len(neighbors),
            _pointer("double", forces, 3 * num_all),
            tally,
        )
    )
    return float(tally.energy), float(tally.virial)


def _c_grid(grid: Grid) -> Any:
    out = ffi.new("pw_lj_grid *")
    out.low, out.bin_width, out.num_bins = grid.low, grid.bin_width, grid.num_bins
    out.list_cutoff, out.newton = grid.list_cutoff, grid.newton
    return out


def _pointer(ctype: str, array: NDArray[Any], num_entries: int) -> Any:
    if array.dtype != _DTYPES[ctype] or not array.flags.c_contiguous or array.size < num_entries:
        raise KernelError(
            f"array of {array.dtype}, {array.size} entries, contiguous {array.flags.c_contiguous}; "
            f"a kernel needs {ctype}, {num_entries} entries, contiguous"
        )
    return ffi.from_buffer(f"{ctype}[]", array)


def _check(status: int) -> int:
    if status < 0:
        names = {lib.PW_LJ_ERR_INVALID: "invalid argument", lib.PW_LJ_ERR_INDEX: "bad index"}
        raise KernelError(f"Lennard-Jones kernel: {names.get(status, status)}")
    return status
