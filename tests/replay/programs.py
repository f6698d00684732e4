"""Traces that a test writes by hand, and programs that exchange something."""

import collections
from collections.abc import Iterable, Iterator
from typing import Any

from pagewire.native import lib
from pagewire.replay import records as r
from pagewire.replay.replay import Outcome, Replay, Settings
from pagewire.replay.trace import Writer

OPS, MATCHES = int(lib.PW_PWT_OPS), int(lib.PW_PWT_MATCHES)
TIMES, REGIONS = int(lib.PW_PWT_TIMES), int(lib.PW_PWT_REGIONS)
TURNS, KEYS = int(lib.PW_PWT_TURNS), int(lib.PW_PWT_KEYS)
ROOMS = int(lib.PW_PWT_ROOMS)
BLOCK_BYTES = 16384
ABSENT, PRESENT = int(lib.PW_PAGE_ABSENT), int(lib.PW_PAGE_PRESENT)
CONTEXT = 7


class HandMade:
    """A trace in memory (replay.replay.Trace): records of each rank, so many in a chunk."""

    def __init__(
        self,
        *ranks: Iterable[r.Record],
        settings: Any = None,
        chunk_records: int = 1000,
        **meta: Any,
    ) -> None:
        self.chunk_records = chunk_records
        self.num_ranks = len(ranks)
        self.chunks: dict[tuple[int, int], list[bytes]] = collections.defaultdict(list)
        self._meta = {"version": 1, "settings": settings or {}, **meta}
        for rank, made in enumerate(ranks):
            self.chunks[rank, OPS] = [r.encode(each) for each in made]

    def meta(self) -> dict[str, Any]:
        return self._meta

    def stream(self, rank: int, kind: int) -> Iterator[bytes]:
        made, size = self.chunks[rank, kind], self.chunk_records
        return (b"".join(made[first : first + size]) for first in range(0, len(made), size))

    def add(self, rank: int, kind: int, *numbers: int) -> None:
        """Numbers of another stream."""
        self.chunks[rank, kind] += [r.number(each) for each in numbers]

    def add_times(self, rank: int, *times_ns: int) -> None:
        """Of each LEAVE and the END."""
        self.chunks[rank, TIMES] = []
        before_ns = 0
        for time_ns in times_ns:
            self.add(rank, TIMES, r.zigzag(time_ns - before_ns))
            before_ns = time_ns


def call(name_idx: int, *inside: r.Record) -> list[r.Record]:
    """An MPI call."""
    return [r.Call(name_idx), *inside, r.Leave()]


def send(peer: int, num_bytes: int, *, tag: int = 0, region: int = 0, flags: int = 0) -> r.Send:
    return r.Send(peer, CONTEXT, tag, 0, num_bytes, region, 0, flags)


def receive(
    peer: int | None, num_bytes: int, *, tag: int = 0, region: int = 1, flags: int = 0
) -> r.Receive:
    ignored = 2**64 - 1 if flags & r.IGNORES else 0
    return r.Receive(peer, CONTEXT, tag, 0, num_bytes, region, 0, flags, ignored)


def present(region: int, num_bytes: int) -> r.Pages:
    return r.Pages(region, 0, -(-num_bytes // 4096), PRESENT)


def run(trace: HandMade, *assignments: str, **options: Any) -> tuple[list[int], Outcome]:
    """Clocks of all ranks at their end, and the rest."""
    with Replay(trace, Settings.of(trace.meta(), assignments), **options) as replay:
        difference = replay.run()
        assert difference is None, difference
        return [replay.time_ns(rank) for rank in range(trace.num_ranks)], replay.outcome()


def written(path, trace: HandMade) -> str:
    """A trace as a file."""
    with Writer(str(path), trace.num_ranks, trace.meta()) as writer:
        for rank in range(trace.num_ranks):
            for kind in (OPS, MATCHES, TIMES, REGIONS, TURNS, ROOMS):
                for each in trace.chunks[rank, kind]:
                    writer.add(rank, kind, each, 1)
    return str(path)


def halo(
    num_ranks: int, offsets: Iterable[int], *, num_bytes: int = BLOCK_BYTES, steps: int = 2
) -> HandMade:
    """Each rank with those that stand so far behind and before it, buffers of its own for each."""
    peers = [offset for each in offsets for offset in (each, -each)]
    ranks = []
    for rank in range(num_ranks):
        made: list[r.Record] = [r.Name(0, "Irecv"), r.Name(1, "Isend"), r.Name(2, "Waitall")]
        made += [present(idx, num_bytes) for idx in range(len(peers))]
        for _ in range(steps):
            made.append(r.Compute(10_000 + 100 * (rank % 7)))
            for idx, offset in enumerate(peers):
                region = len(peers) + idx
                tag = peers.index(-offset)
                made += call(
                    0, receive((rank + offset) % num_ranks, num_bytes, tag=tag, region=region)
                )
            for idx, offset in enumerate(peers):
                made += call(1, send((rank + offset) % num_ranks, num_bytes, tag=idx, region=idx))
            waits = 2 * len(peers) - 1
            made += call(2, *(r.Done(waits) for _ in range(2 * len(peers))))
            # operations keep their numbers: the latest is 0 in each
            made[-2 * len(peers) - 1 : -1] = [r.Done(waits - idx) for idx in range(2 * len(peers))]
        made.append(r.End())
        ranks.append(made)
    return HandMade(*ranks)
