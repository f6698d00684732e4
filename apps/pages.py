"""Arrays on pages that nobody has touched, as a C program's growing heap hands them out, and the
message buffers made of them.

numpy's arrays come from a heap that the interpreter and numpy's temporaries have been through
before, so their pages are mostly resident; the programs that the apps stand for allocate their
communication buffers and atom arrays from fresh pages, which fault on first use. Contents are zero.
"""

import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

GROWTH_FACTOR = 1.5
MIN_CAPACITY = 1024  # doubles

Rows = NDArray[np.float64]


class MessageBuffer:
    """A block of doubles that grows by a factor and is kept until it is renewed; or, if fresh, is
    made for each use.

    Either way new blocks stand on pages not touched before: kept ones fault once, fresh ones each
    time.
    """

    def __init__(self, *, fresh: bool) -> None:
        self.fresh = fresh
        self._block: Rows = np.empty(0)

    def take(self, num_rows: int, width: int) -> Rows:
        """An array (num_rows, width) of undefined contents, valid until the next `take`."""
        num = num_rows * width
        if self.fresh:
            return fresh((num_rows, width), np.float64)
        if num > len(self._block):
            capacity = max(num, int(len(self._block) * GROWTH_FACTOR), MIN_CAPACITY)
            self._block = fresh((capacity,), np.float64)
        return self._block[:num].reshape(num_rows, width)

    def renew(self, num_doubles: int = 0) -> None:
        """What is taken from here on stands on a new block, of so many doubles at least."""
        self._block = fresh((num_doubles,), np.float64)


def fresh(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A C-contiguous, writable array of zeros on private anonymous pages, page-aligned."""
    item = np.dtype(dtype)
    num_bytes = math.prod(shape) * item.itemsize
    if num_bytes == 0:
        return np.zeros(shape, item)
    pages = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, item, math.prod(shape)).reshape(shape)
