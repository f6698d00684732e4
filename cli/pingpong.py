"""Ping-pong of two ranks, plain mpi4py and facade in turns; run by `pagewire bench`, one file out.

Plain means the methods that the facade replaced, on a communicator of their own, in the same
processes: so both see the same machine at the same moment. Rounds alternate and the quickest round
of each counts, since noise only adds. Buffers are touched before: no transfer faults.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pagewire.transport import MPI
from pagewire.transport.facade.rank import here
from pagewire.transport.node.patching import native

SIZES_BYTES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
ROUNDS = 7
_ROUND_S = 0.06
"""Aimed length of a round; the number of repetitions follows from a first trial."""


def _exchange(send: Callable[..., Any], recv: Callable[..., Any], rank: int, times: int) -> float:
    start_s = time.perf_counter()
    if rank == 0:
        for _ in range(times):
            send(1)
            recv(1)
    else:
        for _ in range(times):
            recv(0)
            send(0)
    return (time.perf_counter() - start_s) / times / 2


def measure(num_bytes: int) -> dict[str, float]:
    """One-way times in s, wall of plain and facade and virtual of the facade, and engine rates."""
    world = MPI.COMM_WORLD
    plain = native(MPI.Comm, "Dup")(world)
    rank = world.Get_rank()
    buffer = np.ones(num_bytes, np.uint8)
    plain_send, plain_recv = native(MPI.Comm, "Send"), native(MPI.Comm, "Recv")
    bcast, barrier = native(MPI.Comm, "bcast"), native(MPI.Comm, "Barrier")

    def by_plain(times: int) -> float:
        return _exchange(
            lambda peer: plain_send(plain, buffer, peer),
            lambda peer: plain_recv(plain, buffer, peer),
            rank,
            times,
        )

    def by_facade(times: int) -> float:
        return _exchange(
            lambda peer: world.Send(buffer, peer),
            lambda peer: world.Recv(buffer, peer),
            rank,
            times,
        )

    by_plain(3)
    trial_s = bcast(plain, by_facade(3), 0)
    times = max(3, min(5000, int(_ROUND_S / trial_s / 2)))
    best = {"plain_s": float("inf"), "facade_s": float("inf")}
    virtual_s = float("inf")
    node, clock = here.node, here.clock
    for _ in range(ROUNDS):
        barrier(plain)
        best["plain_s"] = min(best["plain_s"], by_plain(times))
        barrier(plain)
        before = node.counters()
        compute_ns, now_ns = clock.compute_ns, clock.now_ns
        wall_s = by_facade(times)
        after = node.counters()
        # Python between the calls counts as compute: not part of the transfer.
        spent_ns = clock.now_ns - now_ns - (clock.compute_ns - compute_ns)
        virtual_s = min(virtual_s, spent_ns / times / 2 * 1e-9)
        if wall_s < best["facade_s"]:
            best["facade_s"] = wall_s
            total_s = wall_s * times * 2
            for name in ("blocks", "packets"):
                best[f"{name}_per_s"] = 2 * (after[name] - before[name]) / total_s  # both ranks
    best["virtual_s"] = virtual_s
    best["num_bytes"] = num_bytes
    plain.Free()
    return best


def main() -> int:
    if MPI.COMM_WORLD.Get_size() != 2:
        raise SystemExit("the ping-pong needs 2 ranks")
    rows = [measure(num_bytes) for num_bytes in SIZES_BYTES]
    if MPI.COMM_WORLD.Get_rank() == 0:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(rows, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
