"""Ping-pong, message rate and collectives, by plain MPI and by the NI. Buffers are touched before:
no transfer faults.

num_bytes is what a rank gives: the vector of doubles of Allreduce, Bcast's buffer, and in Alltoall
what goes to each single rank. Bcast's root goes round, so that no rank runs ahead of the others.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pagewire.cli.checks.bench.ranks.in_turns import Contest, Work, require, run
from pagewire.transport import MPI
from pagewire.transport.facade import native

_DOUBLE_BYTES = 8
_WINDOW = 64
"""Messages of the rate that are under way together."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Side:
    """Plain MPI or the NI."""

    comm: Any
    method: Callable[[Any, str], Any]
    """of a class by its name"""

    @property
    def rank(self) -> int:
        return int(self.comm.rank)

    @property
    def size(self) -> int:
        return int(self.comm.size)

    def methods(self, *names: str) -> list[Any]:
        return [self.method(MPI.Comm, name) for name in names]


_Made = tuple[Work, Callable[[], Any]]
"""An operation to be measured, and whether the data that it has moved are right."""


def _there_and_back(side: _Side, buffer: Any) -> Work:
    """Rank 0's bytes come back to it, so both ranks end up with them. buffer: as calls take it."""
    comm = side.comm
    send, recv = side.methods("Send", "Recv")

    def by_first(times: int) -> None:
        for _ in range(times):
            send(comm, buffer, 1)
            recv(comm, buffer, 1)

    def by_second(times: int) -> None:
        for _ in range(times):
            recv(comm, buffer, 0)
            send(comm, buffer, 0)

    return by_second if side.rank else by_first


def _ping_pong(side: _Side, num_bytes: int) -> _Made:
    buffer = np.full(num_bytes, 1 + side.rank, np.uint8)
    return _there_and_back(side, buffer), lambda: (buffer == 1).all()


def _written(of: Callable[[Any], Any]) -> Callable[[_Side, int], _Made]:
    """A ping-pong whose calls are given a buffer as `of` writes it."""

    def make(side: _Side, num_bytes: int) -> _Made:
        buffer = of(np.full(num_bytes // _DOUBLE_BYTES, side.rank + 1.0))
        memory = np.frombuffer(buffer[0] if isinstance(buffer, tuple) else buffer)
        return _there_and_back(side, buffer), lambda: (memory == 1).all()

    return make


def _objects(side: _Side, num_bytes: int) -> _Made:
    comm, partner = side.comm, 1 - side.rank
    send, recv = side.methods("send", "recv")
    held = [bytes(num_bytes) if side.rank else b"x" * num_bytes]

    def work(times: int) -> None:
        for _ in range(times):
            if partner:
                send(comm, held[0], partner)
            held[0] = recv(comm, None, partner)
            if not partner:
                send(comm, held[0], partner)

    return work, lambda: held[0] == b"x" * num_bytes


def _exchange(side: _Side, num_bytes: int) -> _Made:
    mine, comm, partner = np.full(num_bytes, side.rank, np.uint8), side.comm, 1 - side.rank
    theirs = np.full(num_bytes, 9, np.uint8)
    (sendrecv,) = side.methods("Sendrecv")

    def work(times: int) -> None:
        for _ in range(times):
            sendrecv(comm, mine, partner, 0, theirs, partner)

    return work, lambda: (theirs == partner).all()


def _allreduce_objects(side: _Side, _num_bytes: int) -> _Made:
    comm, sums = side.comm, [0]
    (allreduce,) = side.methods("allreduce")

    def work(times: int) -> None:
        for _ in range(times):
            sums[0] = allreduce(comm, side.rank + 1)

    return work, lambda: sums[0] == side.size * (side.size + 1) // 2


def _rooted(name: str) -> Callable[[_Side, int], _Made]:
    """Gather, Scatter or Reduce; the root goes round."""

    def make(side: _Side, num_bytes: int) -> _Made:
        comm, size = side.comm, side.size
        own, whole = np.ones(num_bytes // _DOUBLE_BYTES), np.ones(num_bytes // _DOUBLE_BYTES * size)
        into = np.zeros(own.size)
        given = {"Gather": (own, whole), "Scatter": (whole, into), "Reduce": (own, into)}[name]
        (method,) = side.methods(name)

        def work(times: int) -> None:
            for i in range(times):
                method(comm, *given, root=i % size)

        return work, lambda: set(given[1]) <= {0, 1, size}

    return make


def _rate(side: _Side, num_bytes: int) -> _Made:
    """A window of Isend against one of Irecv, Waitall, a short answer: it keeps the sender from
    running more than a window ahead."""
    comm, is_first = side.comm, side.rank == 0
    isend, irecv, send, recv = side.methods("Isend", "Irecv", "Send", "Recv")
    waitall = side.method(MPI.Request, "Waitall")
    buffer = np.full((_WINDOW, num_bytes), 1 + side.rank, np.uint8)
    answer = np.zeros(1, np.uint8)

    def windows(times: int) -> None:
        for _ in range(times):
            if is_first:
                waitall([isend(comm, part, 1) for part in buffer])
                recv(comm, answer, 1)
            else:
                waitall([irecv(comm, part, 0) for part in buffer])
                send(comm, answer, 0)

    return windows, lambda: (buffer == 1).all()


def _collective(name: str) -> Callable[[_Side, int], _Made]:
    """Allreduce or Alltoall, of as many doubles from each rank (in Alltoall to each)."""

    def make(side: _Side, num_bytes: int) -> _Made:
        num_doubles = num_bytes // _DOUBLE_BYTES
        due = np.full(num_doubles, side.size * (side.size + 1) / 2)
        if name == "Alltoall":
            due = np.repeat(np.arange(side.size) + 1.0, num_doubles)
        mine, into, comm = np.full(due.size, side.rank + 1.0), np.zeros(due.size), side.comm
        (method,) = side.methods(name)

        def work(times: int) -> None:
            for _ in range(times):
                method(comm, mine, into)

        return work, lambda: np.array_equal(into, due)

    return make


def _bcast(side: _Side, num_bytes: int) -> _Made:
    """The first root's data become everybody's."""
    buffer = np.full(num_bytes // _DOUBLE_BYTES, side.rank + 1.0)
    comm, size = side.comm, side.size
    (method,) = side.methods("Bcast")

    def work(times: int) -> None:
        for i in range(times):
            method(comm, buffer, i % size)

    return work, lambda: (buffer == 1).all()


_OPERATIONS: Mapping[str, tuple[Callable[[_Side, int], _Made], int, int]] = {
    "ping-pong": (_ping_pong, 2, 2),
    "rate": (_rate, _WINDOW, 2),
    "Allreduce": (_collective("Allreduce"), 1, 0),
    "Bcast": (_bcast, 1, 0),
    "Alltoall": (_collective("Alltoall"), 1, 0),
    "Send(array)": (_written(lambda array: array), 2, 2),
    "Send((array, type))": (_written(lambda array: (array, MPI.DOUBLE)), 2, 2),
    "Send((array, count, type))": (_written(lambda a: (a, a.size, MPI.DOUBLE)), 2, 2),
    "Send(bytearray)": (_written(lambda array: bytearray(array.tobytes())), 2, 2),
    "send(object)": (_objects, 2, 2),
    "Sendrecv(array)": (_exchange, 1, 2),
    "Gather(array)": (_rooted("Gather"), 1, 0),
    "Scatter(array)": (_rooted("Scatter"), 1, 0),
    "Reduce(array)": (_rooted("Reduce"), 1, 0),
    "Allreduce(array)": (_collective("Allreduce"), 1, 0),
    "allreduce(object)": (_allreduce_objects, 1, 0),
}
"""How each is made, its messages in a repetition (one behind the other), the ranks that it needs
(0: any number)."""


def _row(contest: Contest, operation: str, num_bytes: int) -> dict[str, Any]:
    make, num_messages, num_ranks = _OPERATIONS[operation]
    require(num_ranks in (0, contest.num_ranks), f"the {operation} needs {num_ranks} ranks")
    plain, is_plain_right = make(_Side(contest.plain, native), num_bytes)
    facade, is_facade_right = make(_Side(contest.world, getattr), num_bytes)
    times = contest.measure(plain, facade)
    is_right = bool(is_plain_right() and is_facade_right())
    require(is_right, f"{operation} of {num_bytes} bytes: wrong data")
    row = dataclasses.asdict(times)
    of_each = ("plain_s", "ni_s", "virtual_s", "system_calls", "context_switches")
    return row | {key: row[key] / num_messages for key in of_each if row[key] is not None}


def measure(contest: Contest, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each work: an operation and its bytes."""
    return [_row(contest, operation, num_bytes) for operation, num_bytes in spec["works"]]


if __name__ == "__main__":
    raise SystemExit(run(measure))
