"""What a trace has in common with formats of other tools: computing, messages, waiting.

Calls, pages, phases and the clock's readings are left behind; a receive that took something is from
the rank that it took it from. Time that passes within calls counts as computing.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pagewire.replay.formats.problems import Problems
from pagewire.replay.records import (
    LONGEST,
    MULTI,
    SYNCHRONOUS,
    WAS_EAGER,
    Cancel,
    Compute,
    Done,
    Found,
    Looks,
    Lost,
    Meet,
    Pages,
    Part,
    Pass,
    Receive,
    Record,
    Send,
    Sleep,
    Take,
    Told,
)
from pagewire.replay.trace import Reader
from pagewire.replay.walk import OPERATIONS, Walk


class Calc(NamedTuple):
    ns: int


class Sent(NamedTuple):
    """A message begins to be sent. Operations are counted from 0, with those received."""

    peer: int
    tag: int
    num_bytes: int
    is_synchronous: bool = False


class Received(NamedTuple):
    """A receive is posted; peer, tag: None for any."""

    peer: int | None
    tag: int | None
    num_bytes: int


class Waited(NamedTuple):
    operation: int


Operation = Calc | Sent | Received | Waited


class Tags:
    """One number for context and tag: the tags of the first context that comes stay."""

    _FIRST_OTHER = 1 << 30

    def __init__(self) -> None:
        self._context: int | None = None
        self._others: dict[tuple[int, int], int] = {}

    def number(self, context: int, tag: int) -> int:
        if self._context is None:
            self._context = context
        if context == self._context and tag < self._FIRST_OTHER:
            return tag
        return self._others.setdefault((context, tag), self._FIRST_OTHER + len(self._others))

    @property
    def num_others(self) -> int:
        """Tags that have another number."""
        return len(self._others)


class PlainRank:
    """One rank's operations; iterate once."""

    def __init__(self, reader: Reader, rank: int, tags: Tags, problems: Problems) -> None:
        self._reader, self._rank, self._tags, self._problems = reader, rank, tags, problems
        self._ns = 0
        """Computed since the last operation; tests in vain take some back."""
        self._num_operations = 0
        self._numbers: dict[int, int] = {}
        """Ours, of the trace's operations under way."""

    def __iter__(self) -> Iterator[Operation]:
        cancelled = self._cancelled()
        walk = Walk(self._reader, self._rank)
        for idx, record in walk:
            number = walk.num_operations - 1
            if isinstance(record, (Compute, Pass, Sleep, Looks)):
                self._ns += record.ns
            elif isinstance(record, Send):
                yield from self._send(number, record)
            elif isinstance(record, Receive):
                if number not in cancelled and self._can_receive(idx, record):
                    yield from self._receive(number, walk.origin, record)
            elif isinstance(record, Take):
                yield from self._take(idx, number, walk)
            elif isinstance(record, (Done, Told)):
                mine = self._numbers.pop(number - record.operation, None)
                if mine is not None:
                    yield from self._compute()
                    yield Waited(mine)
            else:
                self._tell(idx, record)
        yield from self._compute()

    def _cancelled(self) -> set[int]:
        found, num_operations = set(), 0
        for record in self._reader.records(self._rank):
            if isinstance(record, OPERATIONS):
                num_operations += 1
            elif isinstance(record, Cancel):
                found.add(num_operations - 1 - record.operation)
        return found

    def _compute(self) -> Iterator[Calc]:
        if self._ns > 0:
            yield Calc(self._ns)
            self._ns = 0

    def _begin(self, number: int) -> int:
        self._numbers[number] = self._num_operations
        self._num_operations += 1
        return self._num_operations - 1

    def _send(self, number: int, record: Send) -> Iterator[Operation]:
        yield from self._compute()
        mine = self._begin(number)
        tag = self._tags.number(record.context, record.tag)
        yield Sent(record.peer, tag, record.num_bytes, bool(record.flags & SYNCHRONOUS))
        if record.flags & WAS_EAGER:
            del self._numbers[number]
            yield Waited(mine)

    def _can_receive(self, idx: int, record: Receive) -> bool:
        if record.flags & MULTI:
            self._tell_problem("receives of several messages", idx)
        elif record.ignored not in (0, LONGEST - 1):
            self._tell_problem("receives that ignore some bits of the tag", idx)
        else:
            return True
        return False

    def _receive(
        self, number: int, origin: tuple[int, int] | None, record: Receive
    ) -> Iterator[Operation]:
        yield from self._compute()
        self._begin(number)
        tag = None if record.ignored else self._tags.number(record.context, record.tag)
        yield Received(origin[0] if origin else None, tag, record.num_bytes)

    def _take(self, idx: int, number: int, walk: Walk) -> Iterator[Operation]:
        record, found = walk.pending[number][1], walk.meant[1] if walk.meant else None
        if not isinstance(found, Found) or not isinstance(record, Take):
            self._tell_problem("TAKEs of what no FOUND tells of", idx)
            return
        yield from self._compute()
        self._begin(number)
        tag = self._tags.number(found.context, found.tag)
        yield Received(found.peer, tag, record.num_bytes)

    def _tell(self, idx: int, record: Record) -> None:
        if isinstance(record, Meet):
            self._tell_problem("meetings of clocks (MEET)", idx)
        elif isinstance(record, Lost):
            self._tell_problem(f"what was not recorded: {record.text}", idx)
        elif isinstance(record, Pages):
            self._problems.note("records of pages that the other format has no place for")
        elif isinstance(record, Part):
            pass  # its receive is told

    def _tell_problem(self, what: str, idx: int) -> None:
        self._problems.add(what, f"rank {self._rank} record {idx}")
