"""A part of a trace as a trace of its own: a phase, or some calls, of every rank.

A part must be whole: no message, operation or meeting may cross its ends, on any rank; else it is
refused with the reason. It begins with the pages as everything before it has left them: what the
program told of, the buffers of earlier messages, and the memory that peers have written or read,
which are present then. Registered memory is registered anew. The virtual times of the whole run,
and when its host let a node work, are of another beginning, and are left out.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterator

from pagewire.native import lib
from pagewire.replay.balance import Balance
from pagewire.replay.check import count_message
from pagewire.replay.records import (
    KEY_NEW,
    Call,
    Deregister,
    End,
    Enter,
    Get,
    Leave,
    Left,
    Meet,
    Name,
    Pages,
    Put,
    Receive,
    Record,
    Region,
    Register,
    Send,
    Take,
    TraceError,
    Unmap,
    number,
    zigzag,
)
from pagewire.replay.trace import KEYS, MATCHES, REGIONS, ROOMS, Reader, Writer
from pagewire.replay.walk import ONE_SIDED, KnownKeys, Room, Walk, describe_operation

_PAGE_BYTES = int(lib.PW_PAGE_BYTES)
_PRESENT = int(lib.PW_PAGE_PRESENT)


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """The n-th time that a rank is in a phase, from 1 on."""

    name: str
    occurrence: int = 1

    def __str__(self) -> str:
        nth = f", time {self.occurrence}" if self.occurrence > 1 else ""
        return f"phase '{self.name}'{nth}"


@dataclasses.dataclass(frozen=True, slots=True)
class Calls:
    """The outermost calls first ... end - 1 of each rank, and what is computed behind them."""

    first: int
    end: int

    def __str__(self) -> str:
        return f"calls {self.first}:{self.end}"


class _Finder:
    """Where a part begins and ends: whether the next record is the first of it, or behind it."""

    def __init__(self, part: Phase | Calls) -> None:
        self.part = part
        self.found = 0
        self._depth = 0

    def begins(self, record: Record, walk: Walk) -> bool:
        if isinstance(self.part, Calls):
            if isinstance(record, Call) and len(walk.open) == 1:
                self.found += 1
                return self.found == self.part.first + 1
            return False
        if isinstance(record, Region) and record.text == self.part.name:
            self.found += 1
            self._depth = len(walk.phases)
            return self.found == self.part.occurrence
        return False

    def ends_before(self, record: Record, walk: Walk) -> bool:
        """Asked of the records behind the first."""
        if isinstance(self.part, Calls) and isinstance(record, Call) and len(walk.open) == 1:
            self.found += 1
            return self.found == self.part.end + 1
        return isinstance(record, End)

    def ends_behind(self, record: Record, walk: Walk) -> bool:
        if isinstance(self.part, Calls):
            return False
        return isinstance(record, Left) and len(walk.phases) < self._depth

    @property
    def is_complete(self) -> bool:
        if isinstance(self.part, Calls):
            return self.found >= self.part.end
        return True


class _Pages:
    """How the pages are: the last word on each stretch, in the order of these words."""

    def __init__(self, bases: dict[int, int]) -> None:
        self._bases = bases
        self._own: set[int] = set()
        """Regions that are no peer's."""
        self._last: dict[tuple[int, int, int], Record] = {}

    def see(self, record: Record, room: Room | None) -> None:
        """room: where the message of a receive landed that brings its own memory."""
        self._own.add(getattr(record, "region", 0))
        if isinstance(record, (Pages, Unmap)):
            self._say(record)
        elif room and room.runs:
            num_pages = sum(count for count, _ in room.runs)
            first_page = self._in_region(room.region, room.offset) // _PAGE_BYTES
            self._say(Pages(room.region, first_page, num_pages, _PRESENT))
        elif isinstance(record, (Send, Receive, Take, Put, Get)) and record.num_bytes:
            self._use(record.region, record.offset, record.num_bytes)

    def reach(self, address: int, num_bytes: int) -> None:
        """A peer has used this memory, which is registered, and so in a region."""
        own = self._own & self._bases.keys()
        region = min(own, key=lambda each: abs(self._bases[each] - address), default=None)
        if region is not None:
            self._use(region, address - self._bases[region], num_bytes)

    def _in_region(self, region: int, offset: int) -> int:
        """From the beginning of the page that the region begins in."""
        return self._bases.get(region, 0) % _PAGE_BYTES + offset

    def _use(self, region: int, region_offset: int, num_bytes: int) -> None:
        offset = self._in_region(region, region_offset)
        first, last = offset // _PAGE_BYTES, (offset + num_bytes - 1) // _PAGE_BYTES
        self._say(Pages(region, first, last - first + 1, _PRESENT))

    def _say(self, record: Pages | Unmap) -> None:
        key = record.region, record.page, record.count
        self._last.pop(key, None)
        self._last[key] = record

    def told(self) -> list[Record]:
        return list(self._last.values())


class _RankCut:
    """One rank's part: its records, as they are read once more."""

    def __init__(
        self, reader: Reader, rank: int, part: Phase | Calls, reached: list[tuple[int, int]]
    ) -> None:
        """reached: address and bytes of what peers have used before the part."""
        self._reader, self.rank, self._part, self._reached = reader, rank, part, reached
        self._registrations: dict[int, int] = {}
        """New numbers of those in the part, by their old ones."""
        self._known_keys = KnownKeys()
        self.keys: list[int] = []
        """Those that the part's KEYS tell."""
        self.meets: dict[bool, collections.Counter[tuple[int, int]]] = {
            False: collections.Counter(),
            True: collections.Counter(),
        }
        """Meetings of (group, members), before and in the part."""
        self.matches = [0, 0]
        """Number of receives from any source before the part, and up to its end."""
        self.rooms: list[Room] = []

    def records(self, before: Balance, inside: Balance) -> Iterator[Record]:
        """Those of the part; what must hold before and in it is counted on the way."""
        walk = Walk(self._reader, self.rank)
        finder, pages = _Finder(self._part), _Pages(self._reader.regions(self.rank))
        is_inside = False
        for idx, record in walk:
            if not is_inside and finder.begins(record, walk):
                is_inside = True
                self._check_quiet(walk, idx, record, "begins")
                self.matches = [walk.num_wildcards] * 2
                yield from self._prelude(walk, pages, record)
            elif is_inside and finder.ends_before(record, walk):
                self._check_quiet(walk, idx, record, "ends")
                yield from self._close(walk)
                break
            count_message(walk, record, inside if is_inside else before)
            if isinstance(record, Meet):
                self.meets[is_inside][record.group, record.members] += 1
            if is_inside:
                if walk.room:
                    self.rooms.append(walk.room)
                yield self._renumber(record, walk)
                self.matches[1] = walk.num_wildcards
                if finder.ends_behind(record, walk):
                    self._check_quiet(walk, idx + 1, None, "ends")
                    yield from self._close(walk, is_behind=True)
                    break
            else:
                pages.see(record, walk.room)
        if not is_inside or not finder.is_complete:
            raise TraceError(self._not_there(finder))

    def _renumber(self, record: Record, walk: Walk) -> Record:
        numbers = self._registrations
        if isinstance(record, Register):
            numbers[walk.num_registrations - 1] = len(numbers)
            self._tell_key(walk.key)
        elif isinstance(record, (Put, Get)) and walk.key is not None:
            key = self._known_keys.number(record.peer, walk.key)
            if key == KEY_NEW:
                self._tell_key(walk.key)
            return dataclasses.replace(record, key=key)
        elif isinstance(record, Deregister) and record.registration in numbers:
            return Deregister(numbers[record.registration])
        return record

    def _tell_key(self, key: int | None) -> None:
        if key is not None:
            self.keys.append(key)

    def _not_there(self, finder: _Finder) -> str:
        if isinstance(self._part, Calls):
            return f"rank {self.rank} has {finder.found} calls, and no {self._part}"
        if finder.found:
            return f"rank {self.rank} is in phase '{self._part.name}' {finder.found} times only"
        return f"rank {self.rank} has no phase '{self._part.name}'"

    def _check_quiet(self, walk: Walk, idx: int, record: Record | None, verb: str) -> None:
        """Nothing is under way at this end of the part."""
        around = walk.open[:-1] if isinstance(record, Call) else walk.open
        if Call in around:  # an ENTER costs nothing, and can be begun once more
            raise TraceError(f"rank {self.rank}: the part {verb} within a call, at record {idx}")
        for begun, operation in walk.pending.values():
            if begun != idx:
                raise TraceError(
                    f"rank {self.rank}: {describe_operation(operation)} of record {begun} is under "
                    f"way where the part {verb}, at record {idx}"
                )

    def _prelude(self, walk: Walk, pages: _Pages, first: Record) -> Iterator[Record]:
        for idx, text in walk.names.items():
            yield Name(idx, text)
        outer = walk.phases[:-1] if isinstance(first, Region) else walk.phases
        yield from map(Region, outer)
        for address, num_bytes in self._reached:
            pages.reach(address, num_bytes)
        yield from pages.told()
        for old, (registered, key) in walk.registered.items():
            self._registrations[old] = len(self._registrations)
            self._tell_key(key)
            yield registered
        for _ in walk.open if isinstance(first, Region) else ():
            yield Enter()

    def _close(self, walk: Walk, *, is_behind: bool = False) -> Iterator[Record]:
        for _ in walk.open if is_behind else ():
            yield Leave()
        for _ in walk.phases:
            yield Left()
        yield End()


def cut(reader: Reader, part: Phase | Calls, out: str) -> None:
    """Write the part as a trace; raises TraceError when it is not whole, and then writes none."""
    meta = {**reader.meta(), "cut": str(part)}
    before, inside = Balance(), Balance()
    meets: dict[tuple[bool, int, int], list[tuple[int, int]]] = {}
    reached = _reached(reader, part)
    with Writer(out, reader.num_ranks, meta) as writer:
        for rank in range(reader.num_ranks):
            each = _RankCut(reader, rank, part, reached.get(rank, []))
            writer.write(rank, each.records(before, inside))
            for is_inside, counts in each.meets.items():
                for (group, members), count in counts.items():
                    meets.setdefault((is_inside, group, members), []).append((rank, count))
            for key in each.keys:
                writer.add(rank, KEYS, number(key), 1)
            _copy_matches(reader, writer, rank, *each.matches)
            for room in each.rooms:
                writer.add(rank, ROOMS, _encoded(room), 1)
            for region, base in reader.regions(rank).items():
                writer.add(rank, REGIONS, number(region) + number(base), 1)
            writer.end_rank(rank)
        _check_balance(before, f"before {part}")
        _check_balance(inside, f"in {part}")
        _check_meets(meets, part)


def _reached(reader: Reader, part: Phase | Calls) -> dict[int, list[tuple[int, int]]]:
    """By rank: address and bytes of its memory that peers have used before the part."""
    found: dict[int, list[tuple[int, int]]] = {}
    for rank in range(reader.num_ranks):
        bases, walk, finder = reader.regions(rank), Walk(reader, rank), _Finder(part)
        for _, record in walk:
            if finder.begins(record, walk):
                break
            if isinstance(record, ONE_SIDED):
                address = bases.get(record.remote_region, 0) + record.remote_offset
                found.setdefault(record.peer, []).append((address, record.num_bytes))
    return found


def _copy_matches(reader: Reader, writer: Writer, rank: int, begin: int, end: int) -> None:
    values = list(reader.numbers(rank, MATCHES))[2 * begin : 2 * end]
    for peer, source in zip(values[::2], values[1::2], strict=False):
        writer.add(rank, MATCHES, number(peer) + number(source), 1)


def _encoded(room: Room) -> bytes:
    numbers = [len(room.runs), room.region, zigzag(room.offset), *itertools.chain(*room.runs)]
    return b"".join(map(number, numbers))


def _check_balance(balance: Balance, where: str) -> None:
    for sentence in balance.unmatched():
        raise TraceError(f"{where}: {sentence}: a message crosses an end of the part")


def _check_meets(
    meets: dict[tuple[bool, int, int], list[tuple[int, int]]], part: Phase | Calls
) -> None:
    for (is_inside, group, members), counts in meets.items():
        times = {count for _, count in counts}
        if len(counts) != members or len(times) != 1:
            where = "in" if is_inside else "before"
            raise TraceError(
                f"{where} {part}: {len(counts)} of the {members} ranks of group {group} meet, "
                f"{min(times)} to {max(times)} times: a meeting crosses an end of the part"
            )
