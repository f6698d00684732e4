"""A trace that is made rank by rank when it is asked for, to be replayed or written; and copies of
a recorded one side by side.

Only the rank under way is in memory. Recorded times are left out: they are those of another run.
"""

import abc
from collections.abc import Iterable, Iterator
from typing import Any

from pagewire.replay.records import (
    Found,
    Meet,
    Part,
    Receive,
    Record,
    Send,
    TraceError,
    encode,
    number,
)
from pagewire.replay.trace import KEYS, MATCHES, OPS, REGIONS, Reader, Writer
from pagewire.replay.walk import ONE_SIDED

_CHUNK_BYTES = 32768
_NUMBERS = (MATCHES, REGIONS, KEYS)
MOST_RANKS = 1 << 20


class Made(abc.ABC):
    """A trace (replay.Trace) of records that a rank's `records` and `numbers` tell."""

    def __init__(self, num_ranks: int) -> None:
        if num_ranks > MOST_RANKS:
            raise TraceError(f"a trace of {num_ranks:,} ranks; allowed is up to {MOST_RANKS:,}")
        self.num_ranks = num_ranks

    @abc.abstractmethod
    def meta(self) -> dict[str, Any]:
        """What the run was."""

    @abc.abstractmethod
    def records(self, rank: int) -> Iterator[Record]:
        """What a rank does, in its order."""

    @abc.abstractmethod
    def numbers(self, rank: int, kind: int) -> Iterable[int]:
        """Those of MATCHES, REGIONS or KEYS."""

    def stream(self, rank: int, kind: int) -> Iterator[bytes]:
        """Raw bytes of a rank's stream, chunk by chunk."""
        chunk = bytearray()
        for each in self._encoded(rank, kind):
            chunk += each
            if len(chunk) > _CHUNK_BYTES:
                yield bytes(chunk)
                chunk.clear()
        if chunk:
            yield bytes(chunk)

    def write(self, path: str) -> int:
        """As a file; the number of its records."""
        total = 0
        with Writer(path, self.num_ranks, self.meta()) as writer:
            for rank in range(self.num_ranks):
                for kind in (OPS, *_NUMBERS):
                    for each in self._encoded(rank, kind):
                        writer.add(rank, kind, each, 1)
                        total += kind == OPS
                writer.end_rank(rank)
        return total

    def _encoded(self, rank: int, kind: int) -> Iterator[bytes]:
        if kind == OPS:
            return map(encode, self.records(rank))
        return map(number, self.numbers(rank, kind) if kind in _NUMBERS else ())


class Copies(Made):
    """A recorded run so many times: copy c has the ranks from c times its size on, and exchanges
    nothing with the others."""

    def __init__(self, reader: Reader, times: int) -> None:
        super().__init__(reader.num_ranks * times)
        self._reader, self._times = reader, times

    def meta(self) -> dict[str, Any]:
        meta = self._reader.meta()
        return {**meta, "num_ranks": self.num_ranks, "copies": self._times}

    def records(self, rank: int) -> Iterator[Record]:
        copy, own = divmod(rank, self._reader.num_ranks)
        first = rank - own
        for record in self._reader.records(own):
            if isinstance(record, (Send, Receive, Found, Part, *ONE_SIDED)):
                if record.peer is not None:
                    record.peer += first
            elif isinstance(record, Meet):
                record.group = record.group * self._times + copy  # no two are equal
            yield record

    def numbers(self, rank: int, kind: int) -> Iterator[int]:
        own = rank % self._reader.num_ranks
        for idx, value in enumerate(self._reader.numbers(own, kind)):
            is_peer = kind == MATCHES and idx % 2 == 0 and value  # 0: it took none
            yield value + rank - own if is_peer else value
