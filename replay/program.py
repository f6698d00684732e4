"""A rank's program as it is made: operations become records, each call one of MPI's.

Patterns, and imports of formats that have no records of their own, write by this. Memory has four
regions: what the program fills and sends, what it receives into again and again, what it receives
into once, and what the library combines reductions in.
"""

import abc
import contextlib
import functools
import itertools
import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from pagewire.native import lib
from pagewire.replay.records import (
    IGNORES,
    LONGEST,
    SYNCHRONOUS,
    Call,
    Compute,
    Done,
    End,
    Leave,
    Name,
    Pages,
    Receive,
    Record,
    Send,
    encode,
)

PAGE_BYTES = int(lib.PW_PAGE_BYTES)
_PRESENT = int(lib.PW_PAGE_PRESENT)
_FLUSH_BYTES = 1024

SENT, REUSED, FRESH, SCRATCH = range(4)
"""Regions."""

_LEAVE = encode(Leave())


class Buffer(NamedTuple):
    """A stretch of a rank's memory."""

    region: int
    offset: int
    num_bytes: int

    def part(self, offset: int, num_bytes: int) -> "Buffer":
        return Buffer(self.region, self.offset + offset, num_bytes)


# What is the same in each step of a program is encoded once.
@functools.lru_cache(maxsize=65536)
def _send(
    peer: int,
    context: int,
    tag: int,
    source: int,
    buffer: Buffer,
    flags: int,
    before: bytes,
    behind: bytes,
) -> bytes:
    record = Send(peer, context, tag, source, buffer.num_bytes, buffer.region, buffer.offset, flags)
    return before + encode(record) + behind


@functools.lru_cache(maxsize=65536)
def _receive(
    peer: int | None, context: int, tag: int | None, buffer: Buffer, before: bytes, behind: bytes
) -> bytes:
    record = Receive(
        peer, context, tag or 0, peer or 0, buffer.num_bytes, buffer.region, buffer.offset
    )
    if tag is None:
        record.flags, record.ignored = IGNORES, LONGEST - 1
    return before + encode(record) + behind


@functools.lru_cache(maxsize=65536)
def _done(distances: tuple[int, ...]) -> bytes:
    return b"".join([encode(Done(distance)) for distance in distances])


@functools.lru_cache(maxsize=4096)
def _compute(ns: int) -> bytes:
    return encode(Compute(ns))


class Buffers(abc.ABC):
    """Where the messages of one rank lie, for whoever knows only how long they are."""

    @abc.abstractmethod
    def filled(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer: ...

    @abc.abstractmethod
    def landing(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer: ...


class Kept:
    """Buffers by name, each as long as the longest message so far."""

    def __init__(self, region: int) -> None:
        self._region = region
        self._found: dict[Hashable, Buffer] = {}

    def take(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer:
        found = self._found.get(key)
        if found is None or found.num_bytes < num_bytes:
            found = self._found[key] = program.allot(num_bytes, self._region)
        return found if found.num_bytes == num_bytes else found.part(0, num_bytes)


class Reused(Buffers):
    """The same memory for each name, but for a share of receives, drawn from `seed`, which land in
    memory that nobody has touched."""

    def __init__(self, fresh: float = 0.0, seed: str = "") -> None:
        self._fresh = fresh
        self._draw = random.Random(seed).random
        self._sent, self._received = Kept(SENT), Kept(REUSED)

    def filled(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer:
        return self._sent.take(program, key, num_bytes)

    def landing(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer:
        if self._fresh and self._draw() < self._fresh:
            return program.allot(num_bytes, FRESH, is_touched=False)
        return self._received.take(program, key, num_bytes)


class New(Buffers):
    """New memory for each message: to send, filled; to receive, untouched."""

    def filled(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer:
        return program.allot(num_bytes, SENT)

    def landing(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer:
        return program.allot(num_bytes, FRESH, is_touched=False)


class Pool(Buffers):
    """So many buffers to send and as many to receive, in turn."""

    def __init__(self, count: int) -> None:
        self._sent, self._received = Kept(SENT), Kept(REUSED)
        self._next_sent, self._next_received = (itertools.cycle(range(count)) for _ in range(2))

    def filled(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer:
        return self._sent.take(program, next(self._next_sent), num_bytes)

    def landing(self, program: "Program", key: Hashable, num_bytes: int) -> Buffer:
        return self._received.take(program, next(self._next_received), num_bytes)


class Program:
    """What one rank of `size` does. Operations are numbers, which `wait` takes.

    put: takes bytes of whole records and how many these are. buffers: where messages lie.
    """

    def __init__(
        self, rank: int, size: int, put: Callable[[bytes, int], None], buffers: "Buffers"
    ) -> None:
        self.rank, self.size = rank, size
        self._put, self._buffers = put, buffers
        self._out = bytearray()
        self._num_records = 0
        self._num_operations = 0
        self._calls: dict[str, bytes] = {}
        self._allotted = [0] * 4
        self._scratch: dict[int, Buffer] = {}

    def record(self, record: Record) -> None:
        """Any record, as it is; one that begins an operation is counted by the caller's own."""
        self._add(encode(record))

    def _add(self, data: bytes, num_records: int = 1) -> None:
        self._out += data
        self._num_records += num_records
        if len(self._out) > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._out:
            self._put(bytes(self._out), self._num_records)
            self._out.clear()
            self._num_records = 0

    def end(self) -> None:
        """The program has ended."""
        self.record(End())
        self.flush()

    # ---- time

    def compute(self, ns: int) -> None:
        """Compute for so long, outside of calls."""
        if ns:
            self._add(_compute(ns))

    # ---- memory

    def allot(self, num_bytes: int, region: int, *, is_touched: bool = True) -> Buffer:
        """New memory, from a page's beginning on; is_touched: the program has written to it."""
        pages = -(-num_bytes // PAGE_BYTES)
        first = self._allotted[region]
        self._allotted[region] += pages
        if is_touched and pages:
            self.record(Pages(region, first, pages, _PRESENT))
        return Buffer(region, first * PAGE_BYTES, num_bytes)

    def filled(self, key: Hashable, num_bytes: int) -> Buffer:
        """A buffer to send: its pages are there, since the program has filled it. key: its name;
        what one name has is the same memory again, where buffers are used again."""
        return self._buffers.filled(self, key, num_bytes)

    def landing(self, key: Hashable, num_bytes: int) -> Buffer:
        """A buffer to receive into. One that is used again is touched from the start; the first
        touch of a new one is the NIC's."""
        return self._buffers.landing(self, key, num_bytes)

    def scratch(self, which: int, num_bytes: int, *, is_touched: bool) -> Buffer:
        """The library's own memory, one of several, which grows and is kept."""
        found = self._scratch.get(which)
        if found is None or found.num_bytes < num_bytes:
            found = self.allot(num_bytes, SCRATCH, is_touched=is_touched)
            self._scratch[which] = found
        return found.part(0, num_bytes)

    # ---- calls

    @contextlib.contextmanager
    def call(self, name: str) -> Iterator[None]:
        """An MPI call, around what it does."""
        self._add(self._call(name))
        yield
        self._add(_LEAVE)

    def _call(self, name: str) -> bytes:
        begun = self._calls.get(name)
        if begun is None:
            idx = len(self._calls)
            self.record(Name(idx, name))
            begun = self._calls[name] = encode(Call(idx))
        return begun

    # ---- messages, within a call

    def post(self, record: Receive) -> int:
        """A receive as it is."""
        self.record(record)
        return self._count_operation()

    def post_send(
        self,
        peer: int,
        buffer: Buffer,
        tag: int = 0,
        context: int = 0,
        *,
        is_synchronous: bool = False,
    ) -> int:
        flags = SYNCHRONOUS if is_synchronous else 0
        self._add(_send(peer, context, tag, self.rank, buffer, flags, b"", b""))
        return self._count_operation()

    def post_receive(
        self, peer: int | None, buffer: Buffer, tag: int | None = 0, context: int = 0
    ) -> int:
        """peer, tag: None for any."""
        self._add(_receive(peer, context, tag, buffer, b"", b""))
        return self._count_operation()

    def _count_operation(self) -> int:
        self._num_operations += 1
        return self._num_operations - 1

    def finish(self, operations: Sequence[int]) -> None:
        """Wait for them, one after the other."""
        last = self._num_operations - 1
        self._add(_done(tuple([last - each for each in operations])), len(operations))

    # ---- messages, each in a call of its own

    def isend(
        self, peer: int, buffer: Buffer, tag: int = 0, *, is_synchronous: bool = False
    ) -> int:
        call = self._call("MPI_Issend" if is_synchronous else "MPI_Isend")
        flags = SYNCHRONOUS if is_synchronous else 0
        self._add(_send(peer, 0, tag, self.rank, buffer, flags, call, _LEAVE), 3)
        return self._count_operation()

    def irecv(self, peer: int | None, buffer: Buffer, tag: int | None = 0) -> int:
        """peer, tag: None for any."""
        call = self._call("MPI_Irecv")
        self._add(_receive(peer, 0, tag, buffer, call, _LEAVE), 3)
        return self._count_operation()

    def wait(self, operation: int) -> None:
        with self.call("MPI_Wait"):
            self.finish([operation])

    def waitall(self, operations: Sequence[int]) -> None:
        with self.call("MPI_Waitall"):
            self.finish(operations)

    def send(
        self, peer: int, buffer: Buffer, tag: int = 0, *, is_synchronous: bool = False
    ) -> None:
        with self.call("MPI_Ssend" if is_synchronous else "MPI_Send"):
            self.finish([self.post_send(peer, buffer, tag, is_synchronous=is_synchronous)])

    def recv(self, peer: int | None, buffer: Buffer, tag: int | None = 0) -> None:
        with self.call("MPI_Recv"):
            self.finish([self.post_receive(peer, buffer, tag)])
