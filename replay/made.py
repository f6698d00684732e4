"""A trace that is made rank by rank when it is asked for, to be replayed or written; and copies of
a recorded one side by side.

Only the rank under way is in memory. Recorded times are left out: they are those of another run.
"""

import abc
import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from pagewire.replay.records import (
    End,
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


class Told(Protocol):
    """A trace that tells its records and numbers: a file (replay.trace.Reader), or made here."""

    @property
    def num_ranks(self) -> int: ...

    def meta(self) -> dict[str, Any]: ...

    def records(self, rank: int) -> Iterator[Record]: ...

    def numbers(self, rank: int, kind: int) -> Iterable[int]: ...


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


class Jobs(Made):
    """Runs side by side: each has the ranks behind those of the one before, and exchanges
    nothing with the others."""

    def __init__(self, readers: Sequence[Told], *, only: int | None = None) -> None:
        """only: the number of the job that runs; the ranks of the others do nothing."""
        super().__init__(sum(reader.num_ranks for reader in readers))
        self._readers = readers
        self._only = only
        sizes = itertools.accumulate((reader.num_ranks for reader in readers), initial=0)
        self._firsts = list(sizes)[:-1]

    def meta(self) -> dict[str, Any]:
        """That of the first, whose settings count for all."""
        programs = [reader.meta().get("program") or "program" for reader in self._readers]
        jobs = [
            {"program": program, "first": first, "ranks": reader.num_ranks}
            for program, first, reader in zip(programs, self._firsts, self._readers, strict=True)
        ]
        first = self._readers[0].meta()
        return {**first, "num_ranks": self.num_ranks, "program": "jobs", "jobs": jobs}

    def records(self, rank: int) -> Iterator[Record]:
        job = self._job_of(rank)
        if self._only not in (None, job):
            yield End()
            return
        first, reader = self._firsts[job], self._readers[job]
        for record in reader.records(rank - first):
            if isinstance(record, (Send, Receive, Found, Part, *ONE_SIDED)):
                if record.peer is not None:
                    record.peer += first
            elif isinstance(record, Meet):
                record.group = record.group * len(self._readers) + job  # no two are equal
            yield record

    def numbers(self, rank: int, kind: int) -> Iterator[int]:
        job = self._job_of(rank)
        if self._only not in (None, job):
            return
        first = self._firsts[job]
        for idx, value in enumerate(self._readers[job].numbers(rank - first, kind)):
            is_peer = kind == MATCHES and idx % 2 == 0 and value  # 0: it took none
            yield value + first if is_peer else value

    def _job_of(self, rank: int) -> int:
        return bisect.bisect_right(self._firsts, rank) - 1


class Copies(Jobs):
    """A recorded run so many times."""

    def __init__(self, reader: Reader, times: int) -> None:
        super().__init__([reader] * times)
        self._times = times

    def meta(self) -> dict[str, Any]:
        meta = self._readers[0].meta()
        return {**meta, "num_ranks": self.num_ranks, "copies": self._times}
