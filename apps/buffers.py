"""The buffers that messages of doubles travel in."""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.pages import fresh as fresh_pages

GROWTH_FACTOR = 1.5
MIN_CAPACITY = 1024  # doubles

Rows = NDArray[np.float64]


class MessageBuffer:
    """A block of doubles that grows by a factor and is kept; or, if fresh, is made for each use.

    Either way new blocks stand on pages not touched before: kept ones fault once, fresh ones each time.
    """

    def __init__(self, *, fresh: bool) -> None:
        self.fresh = fresh
        self._block: Rows = np.empty(0)

    def take(self, num_rows: int, width: int) -> Rows:
        """An array (num_rows, width) of undefined contents, valid until the next `take`."""
        num = num_rows * width
        if self.fresh:
            return fresh_pages((num_rows, width), np.float64)
        if num > len(self._block):
            capacity = max(num, int(len(self._block) * GROWTH_FACTOR), MIN_CAPACITY)
            self._block = fresh_pages((capacity,), np.float64)
        return self._block[:num].reshape(num_rows, width)
