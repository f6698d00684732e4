"""Ping-pong of two ranks over size. Buffers are touched before: no transfer faults."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pagewire.cli.bench.ranks.in_turns import Contest, Work, require, run
from pagewire.transport import MPI
from pagewire.transport.node.patching import native

_WAYS = 2


def _work(send: Callable[[int], Any], recv: Callable[[int], Any], rank: int) -> Work:
    def exchange(times: int) -> None:
        if rank == 0:
            for _ in range(times):
                send(1)
                recv(1)
        else:
            for _ in range(times):
                recv(0)
                send(0)

    return exchange


def _row(contest: Contest, num_bytes: int) -> dict[str, Any]:
    world, plain, rank = contest.world, contest.plain, contest.rank
    # Rank 0's bytes come back to it, so both ranks end up with them.
    buffer = np.full(num_bytes, 1 + rank, np.uint8)
    plain_send, plain_recv = native(MPI.Comm, "Send"), native(MPI.Comm, "Recv")
    figures = contest.measure(
        _work(
            lambda peer: plain_send(plain, buffer, peer),
            lambda peer: plain_recv(plain, buffer, peer),
            rank,
        ),
        _work(lambda peer: world.Send(buffer, peer), lambda peer: world.Recv(buffer, peer), rank),
    )
    require(bool((buffer == 1).all()), f"ping-pong of {num_bytes} bytes: wrong data")
    plain_s, facade_s = figures.plain_s / _WAYS, figures.facade_s / _WAYS
    virtual_s = figures.virtual_s / _WAYS
    return {
        "num_bytes": num_bytes,
        "plain_s": plain_s,
        "facade_s": facade_s,
        "virtual_s": virtual_s,
        "latency_ratio": facade_s / plain_s,
        "bandwidth_ratio": plain_s / facade_s,
        "wall_per_virtual": facade_s / virtual_s,
        "plain_bytes_per_s": num_bytes / plain_s,
        "facade_bytes_per_s": num_bytes / facade_s,
        "blocks_per_s": figures.blocks_per_s,
        "packets_per_s": figures.packets_per_s,
    }


def measure(contest: Contest, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each size, times one way."""
    require(contest.num_ranks == 2, "the ping-pong needs 2 ranks")
    return [_row(contest, num_bytes) for num_bytes in spec["sizes_bytes"]]


if __name__ == "__main__":
    raise SystemExit(run(measure))
