"""A panel on its way from its column of processes along a row, while the rank does other work.

`ring` is HPL's increasing 1-ring: each process hands on what it got to its right neighbour.
`binomial` is a tree: after d messages one after the other 2^d processes have the panel.
Requests only: who waits for a panel and forgets to poll holds back those behind it, as in HPL.
"""

from typing import Any

from pagewire.apps.pages import Rows
from pagewire.apps.team import Team
from pagewire.apps.timing import phase

_TAG = 1


class PanelBroadcast:
    """One message from `root` to all of a team. Creating it starts it; the buffer must stay, and on
    the root and after arrival keep its contents, until `wait_sent`."""

    def __init__(self, team: Team, buffer: Rows, *, root: int, kind: str) -> None:
        self._comm = team.comm
        self._request_type = team.mpi.Request
        self._buffer = buffer
        relative = (team.rank - root) % team.num_ranks
        before, after = neighbors(kind, relative, team.num_ranks)
        self._successors = [(root + each) % team.num_ranks for each in after]
        self._sends: list[Any] = []
        self._receive: Any = None
        if before is None:
            self._send_on()
        else:
            self._receive = self._comm.Irecv(buffer, (root + before) % team.num_ranks, _TAG)

    def poll(self) -> None:
        """Hand the panel on if it has come."""
        if self._receive is not None and self._receive.Test():
            self._send_on()

    @phase("broadcast")
    def wait_received(self) -> None:
        """Wait until the buffer holds the panel."""
        if self._receive is not None:
            self._receive.Wait()
            self._send_on()

    def wait_sent(self) -> None:
        """Wait until the buffer may be used again."""
        self.wait_received()
        self._request_type.Waitall(self._sends)
        self._sends = []

    def _send_on(self) -> None:
        self._receive = None
        self._sends = [self._comm.Isend(self._buffer, each, _TAG) for each in self._successors]


def neighbors(kind: str, relative: int, num_procs: int) -> tuple[int | None, list[int]]:
    """From whom a process receives (None: it is the root), and to whom it sends, in order; all
    counted from the root."""
    if kind == "ring":
        after = [relative + 1] if relative + 1 < num_procs else []
        return (relative - 1 if relative else None), after
    distance = 1
    while distance < num_procs and not relative & distance:
        distance *= 2
    before = relative - distance if relative else None
    after = []
    while distance > 1:
        # The nearer half of the tree is the smaller one: the largest goes first.
        distance //= 2
        if relative + distance < num_procs:
            after.append(relative + distance)
    return before, after
