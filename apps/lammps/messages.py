"""Rows of doubles between two ranks, and the buffers that they travel in.

As in the original the receive is posted first, then the blocking send is made, then the receive is
waited for; an empty message is not sent.
"""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.lammps.team import Team
from pagewire.apps.pages import fresh as fresh_pages

GROWTH_FACTOR = 1.5
MIN_CAPACITY = 1024  # doubles

_COUNT_TAG = 1
_DATA_TAG = 2

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


class Messenger:
    """Send to one rank while receiving from another (or the same, or oneself)."""

    def __init__(self, team: Team, *, fresh_buffers: bool) -> None:
        self.team = team
        self.fresh_buffers = fresh_buffers
        self.send_buffer = MessageBuffer(fresh=fresh_buffers)
        self.receive_buffer = MessageBuffer(fresh=fresh_buffers)

    def swap_count(self, count: int, *, dest: int, source: int) -> int:
        """Tell dest a count and return what source tells."""
        if dest == self.team.rank:
            return count
        mine = np.array([count], dtype=np.int64)
        theirs = np.empty_like(mine)
        self.team.comm.Sendrecv(mine, dest, _COUNT_TAG, theirs, source, _COUNT_TAG)
        return int(theirs[0])

    def swap_rows(self, rows: Rows, into: Rows, *, dest: int, source: int) -> None:
        """Send C-contiguous rows to dest, fill the C-contiguous `into` from source."""
        if dest == self.team.rank:
            into[...] = rows
            return
        comm = self.team.comm
        request = comm.Irecv(into, source, _DATA_TAG) if into.size else None
        if rows.size:
            comm.Send(rows, dest, _DATA_TAG)
        if request is not None:
            request.Wait()

    def swap_unknown(self, rows: Rows, *, dest: int, source: int) -> Rows:
        """The same when the receiver does not know how many rows come; they are valid until the
        receive buffer is taken again."""
        num = self.swap_count(len(rows), dest=dest, source=source)
        into = self.receive_buffer.take(num, rows.shape[1])
        self.swap_rows(rows, into, dest=dest, source=source)
        return into
