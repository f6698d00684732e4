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
class Made:
    """An operation to be measured."""

    plain: Work
    facade: Work
    is_right: Callable[[], bool]
    """Are the data that both have moved?"""
    num_messages: int = 1
    """of each repetition, one behind the other"""


def _ping_pong(contest: Contest, num_bytes: int) -> Made:
    require(contest.num_ranks == 2, "the ping-pong needs 2 ranks")
    # Rank 0's bytes come back to it, so both ranks end up with them.
    buffer = np.full(num_bytes, 1 + contest.rank, np.uint8)

    def exchange(comm: Any, send: Any, recv: Any) -> Work:
        def by_first(times: int) -> None:
            for _ in range(times):
                send(comm, buffer, 1)
                recv(comm, buffer, 1)

        def by_second(times: int) -> None:
            for _ in range(times):
                recv(comm, buffer, 0)
                send(comm, buffer, 0)

        return by_first if contest.rank == 0 else by_second

    return Made(
        exchange(contest.plain, native(MPI.Comm, "Send"), native(MPI.Comm, "Recv")),
        exchange(contest.world, MPI.Comm.Send, MPI.Comm.Recv),
        lambda: bool((buffer == 1).all()),
        num_messages=2,
    )


def _rate(contest: Contest, num_bytes: int) -> Made:
    """A window of Isend against one of Irecv, Waitall, a short answer: it keeps the sender from
    running more than a window ahead."""
    require(contest.num_ranks == 2, "the message rate needs 2 ranks")
    names = ("Isend", "Irecv", "Send", "Recv")
    plain = {name: native(MPI.Comm, name) for name in names}
    plain["Waitall"] = native(MPI.Request, "Waitall")
    facade = {name: getattr(MPI.Comm, name) for name in names}
    facade["Waitall"] = MPI.Request.Waitall
    buffers = [np.full((_WINDOW, num_bytes), 1 + contest.rank, np.uint8) for _ in range(2)]
    return Made(
        _windows(contest, buffers[0], contest.plain, plain),
        _windows(contest, buffers[1], contest.world, facade),
        lambda: all(bool((buffer == 1).all()) for buffer in buffers),
        num_messages=_WINDOW,
    )


def _windows(contest: Contest, buffer: Any, comm: Any, methods: Mapping[str, Any]) -> Work:
    isend, irecv, waitall = methods["Isend"], methods["Irecv"], methods["Waitall"]
    send, recv = methods["Send"], methods["Recv"]
    answer = np.zeros(1, np.uint8)

    def windows(times: int) -> None:
        for _ in range(times):
            if contest.rank == 0:
                waitall([isend(comm, part, 1) for part in buffer])
                recv(comm, answer, 1)
            else:
                waitall([irecv(comm, part, 0) for part in buffer])
                send(comm, answer, 0)

    return windows


def _allreduce(contest: Contest, num_bytes: int) -> Made:
    mine = np.full(num_bytes // _DOUBLE_BYTES, contest.rank + 1.0)
    by_plain, by_facade = np.zeros_like(mine), np.zeros_like(mine)
    method = native(MPI.Comm, "Allreduce")

    def plain(times: int) -> None:
        for _ in range(times):
            method(contest.plain, mine, by_plain)

    def facade(times: int) -> None:
        for _ in range(times):
            contest.world.Allreduce(mine, by_facade)

    return Made(plain, facade, lambda: np.array_equal(by_plain, by_facade))


def _bcast(contest: Contest, num_bytes: int) -> Made:
    by_plain = np.full(num_bytes // _DOUBLE_BYTES, contest.rank + 1.0)
    by_facade = by_plain.copy()
    method = native(MPI.Comm, "Bcast")

    def plain(times: int) -> None:
        for i in range(times):
            method(contest.plain, by_plain, i % contest.num_ranks)

    def facade(times: int) -> None:
        for i in range(times):
            contest.world.Bcast(by_facade, i % contest.num_ranks)

    return Made(plain, facade, lambda: np.array_equal(by_plain, by_facade))


def _alltoall(contest: Contest, num_bytes: int) -> Made:
    num_doubles = num_bytes // _DOUBLE_BYTES * contest.num_ranks
    mine = np.arange(num_doubles) + contest.rank * float(num_doubles)
    by_plain, by_facade = np.zeros_like(mine), np.zeros_like(mine)
    method = native(MPI.Comm, "Alltoall")

    def plain(times: int) -> None:
        for _ in range(times):
            method(contest.plain, mine, by_plain)

    def facade(times: int) -> None:
        for _ in range(times):
            contest.world.Alltoall(mine, by_facade)

    return Made(plain, facade, lambda: np.array_equal(by_plain, by_facade))


_OPERATIONS: Mapping[str, Callable[[Contest, int], Made]] = {
    "ping-pong": _ping_pong,
    "rate": _rate,
    "Allreduce": _allreduce,
    "Bcast": _bcast,
    "Alltoall": _alltoall,
}


def _row(contest: Contest, operation: str, num_bytes: int) -> dict[str, Any]:
    made = _OPERATIONS[operation](contest, num_bytes)
    figures = contest.measure(made.plain, made.facade)
    require(made.is_right(), f"{operation} of {num_bytes} bytes: wrong data")
    return {
        "plain_s": figures.plain_s / made.num_messages,
        "ni_s": figures.facade_s / made.num_messages,
        "virtual_s": figures.virtual_s / made.num_messages,
        "blocks_per_s": figures.blocks_per_s,
        "packets_per_s": figures.packets_per_s,
    }


def measure(contest: Contest, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each work: an operation and its bytes."""
    return [_row(contest, operation, num_bytes) for operation, num_bytes in spec["works"]]


if __name__ == "__main__":
    raise SystemExit(run(measure))
