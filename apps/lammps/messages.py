"""Rows of doubles between two ranks.

As in the original the receive is posted first, then the blocking send is made, then the receive is
waited for; an empty message is not sent.
"""

import numpy as np

from pagewire.apps.pages import MessageBuffer, Rows
from pagewire.apps.team import Team

_COUNT_TAG = 1
_DATA_TAG = 2


class Messenger:
    """Send to one rank while receiving from another (or the same, or oneself)."""

    def __init__(self, team: Team, *, fresh_buffers: bool) -> None:
        self.team = team
        self.fresh_buffers = fresh_buffers
        self.send_buffer = MessageBuffer(fresh=fresh_buffers)
        self.receive_buffer = MessageBuffer(fresh=fresh_buffers)

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
        mine = np.array([len(rows)], dtype=np.int64)
        theirs = mine.copy()
        if dest != self.team.rank:
            self.team.comm.Sendrecv(mine, dest, _COUNT_TAG, theirs, source, _COUNT_TAG)
        into = self.receive_buffer.take(int(theirs[0]), rows.shape[1])
        self.swap_rows(rows, into, dest=dest, source=source)
        return into
