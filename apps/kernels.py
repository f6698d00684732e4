"""The compiled inner loops of the mini-apps: the only file of apps/ that imports their module.

Arrays are checked here (dtype, contiguity, length); ranges in C, or by who builds the arrays.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire._kernels import ffi, lib

__all__ = ["KernelError", "ffi", "lib", "pointer"]

_DTYPES = {"double": np.float64, "int64_t": np.int64, "int32_t": np.int32}


class KernelError(RuntimeError):
    """A kernel refused its arguments: a fault of this program, not of the user's input."""


def pointer(ctype: str, array: NDArray[Any], num_entries: int) -> Any:
    """The array's memory as C sees it. Keeps the array alive; raises KernelError if it does not
    fit."""
    if array.dtype != _DTYPES[ctype] or not array.flags.c_contiguous or array.size < num_entries:
        raise KernelError(
            f"array of {array.dtype}, {array.size} entries, contiguous {array.flags.c_contiguous}; "
            f"a kernel needs {ctype}, {num_entries} entries, contiguous"
        )
    return ffi.from_buffer(f"{ctype}[]", array)
