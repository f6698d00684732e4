"""Row swaps of the trailing matrix, HPL's `long` variant: spread, then roll.

The process of the diagonal block spreads the rows that go down, one message to each process that
gets some; the rows that come up roll around a ring of all processes of the column, until each has
them all, which is the U that each needs for its own update.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpl.grid import Grid
from pagewire.apps.hpl.matrix import Matrix
from pagewire.apps.hpl.panel import Panel
from pagewire.apps.pages import MessageBuffer, Rows
from pagewire.apps.timing import phase

_SPREAD_TAG = 2
_ROLL_TAG = 3


class RowSwap:
    """Swaps rows of one matrix; `run` is collective over a grid column."""

    def __init__(self, matrix: Matrix, grid: Grid) -> None:
        self._values = matrix.values
        self._team = grid.column
        self._spread_buffer = MessageBuffer(fresh=matrix.options.fresh_buffers)
        self._roll_buffer = MessageBuffer(fresh=matrix.options.fresh_buffers)
        self._ordered = np.empty(0)

    def renew(self, num_doubles: int) -> None:
        """From here on work in new memory, of so many doubles each for rows that go down and that
        come up."""
        self._spread_buffer.renew(num_doubles)
        self._roll_buffer.renew(num_doubles)

    @phase("swap")
    def run(self, panel: Panel, first_column: int, end_column: int) -> NDArray[np.float64]:
        """Apply the panel's pivots to these local columns, below the diagonal block in place.
        Returns the block's rows as they should be, which is valid until the next call."""
        plan = panel.plan
        part = self._values[:, first_column:end_column]
        num_columns = part.shape[1]
        if num_columns == 0:
            return np.empty((panel.width, 0))
        rolling = self._roll_buffer.take(panel.width, num_columns)
        # Read before the spread, which overwrites these rows.
        mine = slice(*plan.up_starts[self._team.rank :][:2])
        rolling[mine] = part[plan.my_up_rows]
        self._spread(panel, part)
        self._roll(panel, rolling)
        if rolling.size > len(self._ordered):
            self._ordered = np.empty(rolling.size)
        ordered = self._ordered[: rolling.size].reshape(rolling.shape)
        ordered[plan.up_order] = rolling
        return ordered

    def _spread(self, panel: Panel, part: Rows) -> None:
        plan, comm, rank = panel.plan, self._team.comm, self._team.rank
        if not panel.holds_top:
            num = len(plan.my_down_rows)
            if num:
                arrived = self._spread_buffer.take(num, part.shape[1])
                comm.Recv(arrived, panel.owner_row, _SPREAD_TAG)
                part[plan.my_down_rows] = arrived
            return
        top = part[panel.first_row :]
        others = [
            (dest, places)
            for dest, places in enumerate(plan.down_places)
            if dest != rank and len(places)
        ]
        num = sum(len(places) for _, places in others)
        leaving = self._spread_buffer.take(num, part.shape[1]) if num else part[:0]
        requests: list[Any] = []
        begin = 0
        for dest, places in others:
            rows = leaving[begin : begin + len(places)]
            rows[...] = top[places]
            requests.append(comm.Isend(rows, dest, _SPREAD_TAG))
            begin += len(places)
        part[plan.my_down_rows] = top[plan.down_places[rank]]
        self._team.mpi.Request.Waitall(requests)

    def _roll(self, panel: Panel, rolling: Rows) -> None:
        starts, team = panel.plan.up_starts, self._team
        num = team.num_ranks
        for step in range(num - 1):
            out, into = (team.rank - step) % num, (team.rank - step - 1) % num
            outgoing = rolling[starts[out] : starts[out + 1]]
            incoming = rolling[starts[into] : starts[into + 1]]
            requests = []
            if incoming.size:
                requests.append(team.comm.Irecv(incoming, (team.rank - 1) % num, _ROLL_TAG))
            if outgoing.size:
                requests.append(team.comm.Isend(outgoing, (team.rank + 1) % num, _ROLL_TAG))
            team.mpi.Request.Waitall(requests)
