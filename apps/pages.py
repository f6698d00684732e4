"""Arrays on pages that nobody has touched, as a C program's growing heap hands them out.

numpy's arrays come from a heap that the interpreter and numpy's temporaries have been through
before, so their pages are mostly resident; the programs that the apps stand for allocate their
communication buffers and atom arrays from fresh pages, which fault on first use. Contents are zero.
"""

import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def fresh(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A C-contiguous, writable array of zeros on anonymous pages of its own, page-aligned."""
    item = np.dtype(dtype)
    num_bytes = math.prod(shape) * item.itemsize
    if num_bytes == 0:
        return np.zeros(shape, item)
    return np.frombuffer(mmap.mmap(-1, num_bytes), item, math.prod(shape)).reshape(shape)
