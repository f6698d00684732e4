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
from pagewire.replay.walk import ONE_SIDED, OPERATIONS, Walk


class Calc(NamedTuple):
    ns: int


class Sent(NamedTuple):
    """A message begins to be sent. Operations are counted from 0, with those received."""

    peer: int
    tag: int
    num_bytes: int
    is_synchronous: bool = False


class Received(NamedTuple):
    """A receive is posted; peer, tag: None for any. num_bytes: None where only the sender knows."""

    peer: int | None
    tag: int | None
    num_bytes: int | None


class Waited(NamedTuple):
    operation: int


Operation = Calc | Sent | Received | Waited


_EVERY_BIT = LONGEST - 1
MEETINGS = -1
"""The context of messages that stand for them."""


class Tags:
    """One number for context and tag: the tags of the first context that comes stay."""

    _FIRST_OTHER = 1 << 30

    def __init__(self) -> None:
        self._context: int | None = None
        self._others: dict[tuple[int, int], int] = {}

    def number(self, context: int, tag: int) -> int:
        if self._context is None and context != MEETINGS:
            self._context = context
        if context == self._context and tag < self._FIRST_OTHER:
            return tag
        return self._others.setdefault((context, tag), self._FIRST_OTHER + len(self._others))

    @property
    def num_others(self) -> int:
        """Tags that have another number."""
        return sum(context != MEETINGS for context, _ in self._others)


class Survey:
    """What has to be known of all ranks before one is read."""

    def __init__(self, reader: Reader) -> None:
        self.cancelled: list[set[int]] = []
        """By rank: numbers of the receives that were taken back."""
        self.groups: dict[int, list[int]] = {}
        """Ranks of each group that meets, in order."""
        self.masks: dict[int, int] = {}
        """By context: bits that every receive of one tag ignores, so that they are of no tag."""
        for rank in range(reader.num_ranks):
            cancelled, num_operations = set(), 0
            for record in reader.records(rank):
                if isinstance(record, OPERATIONS):
                    num_operations += 1
                    if isinstance(record, Receive) and record.ignored != _EVERY_BIT:
                        before = self.masks.get(record.context, _EVERY_BIT)
                        self.masks[record.context] = before & record.ignored
                elif isinstance(record, Cancel):
                    cancelled.add(num_operations - 1 - record.operation)
                elif isinstance(record, Meet):
                    members = self.groups.setdefault(record.group, [])
                    if members[-1:] != [rank]:
                        members.append(rank)
            self.cancelled.append(cancelled)


class PlainRank:
    """One rank's operations; iterate once. tags: of the whole trace."""

    def __init__(
        self, reader: Reader, rank: int, survey: Survey, tags: Tags, problems: Problems
    ) -> None:
        self._reader, self._rank, self._survey = reader, rank, survey
        self._tags, self._problems = tags, problems
        self._ns = 0
        """Computed since the last operation; tests in vain take some back."""
        self._num_operations = 0
        self._numbers: dict[int, int] = {}
        """Ours, of the trace's operations under way."""
        self._several: dict[int, Receive] = {}
        """Receives of several messages, by the trace's number."""

    def __iter__(self) -> Iterator[Operation]:
        cancelled = self._survey.cancelled[self._rank]
        walk = Walk(self._reader, self._rank)
        for idx, record in walk:
            number = walk.num_operations - 1
            if isinstance(record, (Compute, Pass, Sleep, Looks)):
                self._ns += record.ns
            elif isinstance(record, Send):
                yield from self._send(number, record)
            elif isinstance(record, Receive):
                if record.flags & MULTI:
                    self._several[number] = record
                elif number not in cancelled and walk.matched:
                    yield from self._receive(number, walk.origin, record)
            elif isinstance(record, Part):
                yield from self._part(number, record)
            elif isinstance(record, Take):
                yield from self._take(idx, number, walk)
            elif isinstance(record, (Done, Told)):
                mine = self._numbers.pop(number - record.operation, None)
                if mine is not None:
                    yield from self._compute()
                    yield Waited(mine)
            elif isinstance(record, Meet):
                yield from self._meet(idx, record)
            else:
                self._tell(idx, record)
        yield from self._compute()

    def _compute(self) -> Iterator[Calc]:
        if self._ns > 0:
            yield Calc(self._ns)
            self._ns = 0

    def _begin(self, number: int | None = None) -> int:
        """The number of a new operation; number: what the trace calls it."""
        if number is not None:
            self._numbers[number] = self._num_operations
        self._num_operations += 1
        return self._num_operations - 1

    def _send(self, number: int, record: Send) -> Iterator[Operation]:
        yield from self._compute()
        mine = self._begin(number)
        tag = self._tag(record.context, record.tag)
        yield Sent(record.peer, tag, record.num_bytes, bool(record.flags & SYNCHRONOUS))
        if record.flags & WAS_EAGER:
            del self._numbers[number]
            yield Waited(mine)

    def _tag(self, context: int, tag: int) -> int:
        return self._tags.number(context, tag & ~self._survey.masks.get(context, 0))

    def _tag_of(self, record: Receive) -> int | None:
        """None: any."""
        if record.ignored == self._survey.masks.get(record.context, 0):
            return self._tag(record.context, record.tag)
        if record.ignored != _EVERY_BIT:
            self._problems.note("receives that ignore a part of the tag, as of any tag")
        return None

    def _receive(
        self, number: int, origin: tuple[int, int] | None, record: Receive
    ) -> Iterator[Operation]:
        yield from self._compute()
        self._begin(number)
        yield Received(origin[0] if origin else None, self._tag_of(record), record.num_bytes)

    def _take(self, idx: int, number: int, walk: Walk) -> Iterator[Operation]:
        record, found = walk.pending[number][1], walk.meant[1] if walk.meant else None
        if not isinstance(found, Found) or not isinstance(record, Take):
            self._tell_problem("TAKEs of what no FOUND tells of", idx)
            return
        yield from self._compute()
        self._begin(number)
        yield Received(found.peer, self._tag(found.context, found.tag), record.num_bytes)

    def _part(self, number: int, record: Part) -> Iterator[Operation]:
        """A message that a receive of several took."""
        yield from self._compute()
        self._begin(number)
        receive = self._several[number - 1 - record.operation]
        yield Received(record.peer, self._tag_of(receive), None)

    def _meet(self, idx: int, record: Meet) -> Iterator[Operation]:
        """A dissemination barrier of empty messages: the nearest that others have."""
        ranks = self._survey.groups[record.group]
        if len(ranks) != record.members:
            self._tell_problem("meetings (MEET) of which some ranks have no record", idx)
            return
        self._problems.note("meetings of clocks (MEET), as barriers of empty messages")
        yield from self._compute()
        place, distance = ranks.index(self._rank), 1
        tag = self._tags.number(MEETINGS, record.group)
        while distance < len(ranks):
            before, after = (ranks[(place + way) % len(ranks)] for way in (-distance, distance))
            incoming, outgoing = self._begin(), self._begin()
            yield Received(before, tag, 0)
            yield Sent(after, tag, 0)
            yield Waited(outgoing)
            yield Waited(incoming)
            distance *= 2

    def _tell(self, idx: int, record: Record) -> None:
        if isinstance(record, Lost):
            self._tell_problem(f"what was not recorded: {record.text}", idx)
        elif isinstance(record, Pages):
            self._problems.note("records of pages that the other format has no place for")
        elif isinstance(record, ONE_SIDED):
            self._tell_problem("one-sided operations, which the other format has not", idx)

    def _tell_problem(self, what: str, idx: int) -> None:
        self._problems.add(what, f"rank {self._rank} record {idx}")
