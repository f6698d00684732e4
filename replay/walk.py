"""A rank's records one after the other, with what they refer to: operations, matches, calls."""

import collections
import dataclasses
import itertools
from collections.abc import Iterator

from pagewire.native import lib
from pagewire.replay.records import (
    KEY_NEW,
    KEY_NONE,
    MULTI,
    TAKEN,
    UNSIZED,
    WAS_EAGER,
    Atomic,
    Call,
    Cancel,
    Deregister,
    Done,
    End,
    Enter,
    Found,
    Get,
    Leave,
    Left,
    Name,
    Part,
    Put,
    Receive,
    Record,
    Region,
    Register,
    Send,
    Take,
    Told,
    TraceError,
    unzigzag,
)
from pagewire.replay.trace import KEYS, MATCHES, ROOMS, Reader

_KEY_KNOWN, _KEYS_KNOWN = int(lib.PW_KEY_KNOWN), int(lib.PW_KEYS_KNOWN)

ONE_SIDED = (Put, Get, Atomic)
OPERATIONS = (Send, Receive, Found, Take, Part, *ONE_SIDED)
"""What begins one."""


class KnownKeys:
    """Keys of peers' memory that a rank has named, of which PUT and GET say which (PW_KEY_*)."""

    def __init__(self) -> None:
        self._known: collections.deque[tuple[int, int]] = collections.deque(maxlen=_KEYS_KNOWN)

    def find(self, number: int) -> int | None:
        """None: no such key was told."""
        ago = number - _KEY_KNOWN
        return self._known[-1 - ago][1] if 0 <= ago < len(self._known) else None

    def number(self, peer: int, key: int) -> int:
        """How a record says it; KEY_NEW: and it is known from now on."""
        for ago, known in enumerate(reversed(self._known)):
            if known == (peer, key):
                return _KEY_KNOWN + ago
        self._known.append((peer, key))
        return KEY_NEW


@dataclasses.dataclass(frozen=True, slots=True)
class Room:
    """Where a message has landed whose receive brought memory of its own."""

    region: int
    offset: int
    runs: tuple[tuple[int, int], ...]
    """Pages and how they were (PW_PAGE_*); none: it rode in its envelope, or none came."""


class Walk:
    """Iterate over it once: (number of the record, record).

    Behind each record: `pending`, the operations under way by their number; `meant`, the one that
    the record begins or names; `origin`: sender and source of what the RECEIVE so begun or named
    takes, None where nobody knows; `matched`: False when it is from any source and took none;
    `room`, of a RECEIVE or TAKE that has one in the trace;
    `names`, the calls and `phases` that are `open`, and what is `registered`, by its number, with
    its key; `key` of what a REGISTER, PUT or GET is about, None where the trace says none. What
    cannot be is told in `wrong`, a sentence each.
    """

    def __init__(self, reader: Reader, rank: int) -> None:
        self.rank = rank
        self.pending: dict[int, tuple[int, Record]] = {}
        self.meant: tuple[int, Record] | None = None
        self.origin: tuple[int, int] | None = None
        self.matched = True
        self.room: Room | None = None
        self.names: dict[int, str] = {}
        self.phases: list[str] = []
        self.registered: dict[int, tuple[Register, int | None]] = {}
        self.key: int | None = None
        self.num_registrations = 0
        self.num_operations = 0
        self.num_calls = 0
        self.num_wildcards = 0
        self.open: list[type[Record]] = []
        """CALLs and ENTERs that have not ended."""
        self.has_ended = False
        self.wrong: list[str] = []
        self._reader = reader
        self._matches = reader.numbers(rank, MATCHES)
        self._keys = reader.numbers(rank, KEYS)
        self._rooms = reader.numbers(rank, ROOMS)
        self._known_keys = KnownKeys()
        self._origins: dict[int, tuple[tuple[int, int] | None, bool]] = {}
        """Of receives under way."""

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        for idx, record in enumerate(self._reader.records(self.rank)):
            if self.has_ended:
                self._say(idx, record, "stands behind the END")
                return
            self._step(idx, record)
            yield idx, record

    def _step(self, idx: int, record: Record) -> None:
        self.meant = self.room = None
        if isinstance(record, OPERATIONS):
            self._begin(idx, record)
        elif isinstance(record, (Done, Told, Cancel)):
            self._finish(idx, record)
        elif isinstance(record, (Call, Enter)):
            self.open.append(type(record))
            if isinstance(record, Call):
                self.num_calls += 1
                if record.name_idx not in self.names:
                    self._say(idx, record, f"has name {record.name_idx}, which no NAME gives")
        elif isinstance(record, Leave):
            if self.open:
                self.open.pop()
            else:
                self._say(idx, record, "leaves no call")
        elif isinstance(record, Name):
            self.names[record.idx] = record.text
        elif isinstance(record, Region):
            self.phases.append(record.text)
        elif isinstance(record, Left):
            if self.phases:
                self.phases.pop()
            else:
                self._say(idx, record, "ends no phase")
        elif isinstance(record, Register):
            self.key = next(self._keys, None)
            self.registered[self.num_registrations] = record, self.key
            self.num_registrations += 1
        elif isinstance(record, Deregister):
            if self.registered.pop(record.registration, None) is None:
                self._say(idx, record, f"names registration {record.registration}: there is none")
        elif isinstance(record, End):
            self.has_ended = True

    def _begin(self, idx: int, record: Record) -> None:
        number = self.num_operations
        if isinstance(record, (Take, Part)):
            self._refer(idx, record, record.operation)
        else:
            self.meant = idx, record
        self.num_operations = number + 1
        if isinstance(record, (Receive, Take)) and record.flags & UNSIZED:
            self.room = self._next_room()
        if isinstance(record, Send):
            self._check_peer(idx, record, record.peer)
            if not record.flags & WAS_EAGER:
                self.pending[number] = idx, record
        elif isinstance(record, Receive):
            self.pending[number] = idx, record
            self.origin, self.matched = None, True
            if record.peer is not None:
                self.origin = record.peer, record.source
                self._check_peer(idx, record, record.peer)
            elif not record.flags & MULTI:
                self._match(idx, record)
            self._origins[number] = self.origin, self.matched
        elif isinstance(record, Found):
            self._check_peer(idx, record, record.peer)
            if record.flags & TAKEN:
                self.pending[number] = idx, record
        elif isinstance(record, (Part, *ONE_SIDED)):
            self._check_peer(idx, record, record.peer)
            self.pending[number] = idx, record
            if isinstance(record, (Put, Get)):
                self._find_key(idx, record)
        else:  # a TAKE is waited for as a receive is
            self.pending[number] = idx, record

    def _match(self, idx: int, record: Receive) -> None:
        """Whom a receive from any source took a message from."""
        self.num_wildcards += 1
        try:
            peer, source = next(self._matches), next(self._matches)
        except StopIteration:
            return
        self.matched = bool(peer)
        if peer:
            self.origin = peer - 1, source
            self._check_peer(idx, record, peer - 1)

    def _next_room(self) -> Room | None:
        place = tuple(itertools.islice(self._rooms, 3))
        if len(place) < 3:
            return None
        num_runs, region, offset = place
        numbers = list(itertools.islice(self._rooms, 2 * num_runs))
        return Room(region, unzigzag(offset), tuple(zip(numbers[::2], numbers[1::2], strict=False)))

    def _find_key(self, idx: int, record: Put | Get) -> None:
        self.key = None
        if record.key == KEY_NEW:
            self.key = next(self._keys, None)
            self._known_keys.number(record.peer, self.key or 0)
        elif record.key != KEY_NONE:
            self.key = self._known_keys.find(record.key)
            if self.key is None:
                self._say(idx, record, f"names key {record.key}, which was not told")

    def _finish(self, idx: int, record: Done | Told | Cancel) -> None:
        number = self._refer(idx, record, record.operation)
        if number is not None:
            self.pending.pop(number, None)
            self.origin, self.matched = self._origins.pop(number, (None, True))

    def _refer(self, idx: int, record: Record, back: int) -> int | None:
        """The number of the operation that a record names, which must be under way."""
        number = self.num_operations - 1 - back
        if number < 0:
            self._say(idx, record, f"names operation -{back + 1} of {self.num_operations}")
            return None
        self.meant = self.pending.get(number)
        if self.meant is None:
            self._say(idx, record, f"names operation {number}, which is not under way")
        if isinstance(record, Take):
            self.pending.pop(number, None)
        return number

    def _check_peer(self, idx: int, record: Record, peer: int) -> None:
        if peer >= self._reader.num_ranks:
            text = f"has peer {peer}, and the trace {self._reader.num_ranks} ranks"
            self._say(idx, record, text)

    def _say(self, idx: int, record: Record, text: str) -> None:
        name = type(record).__name__.upper()
        self.wrong.append(f"rank {self.rank}: record {idx}: {name} {text}")


def describe_operation(record: Record) -> str:
    """What an operation is, in a sentence about it."""
    if isinstance(record, Send):
        return f"SEND to rank {record.peer} ({record.num_bytes} bytes, tag {record.tag})"
    if isinstance(record, Receive):
        source = "any rank" if record.peer is None else f"rank {record.peer}"
        return f"RECEIVE from {source} ({record.num_bytes} bytes, tag {record.tag})"
    if isinstance(record, Found):
        return f"FOUND of rank {record.peer} (tag {record.tag})"
    if isinstance(record, Take):
        return f"TAKE ({record.num_bytes} bytes)"
    if isinstance(record, Part):
        return f"PART of rank {record.peer}"
    if isinstance(record, ONE_SIDED):
        name = type(record).__name__.upper()
        return f"{name} with rank {record.peer} ({record.num_bytes} bytes)"
    raise TraceError(f"{record} is no operation")
