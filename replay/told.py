"""What the nodes of a replay told of themselves (native/trace.h), for a walk along the critical
path: who waited for what, and what became of each block."""

import bisect
import collections
import errno
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagewire.native import check, ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.replay.replay import Replay

RECORDS_MAX = 40_000_000
"""Of all nodes, 32 bytes each."""
_RECORDS_AT_ONCE = 512
_RECORD = np.dtype([("time", "<i8"), ("kind", "<u4"), ("peer", "<u4"), ("a", "<u8"), ("b", "<u8")])
_SIGN = 2**63
LIBRARY = "(library)"
"""A call that is none of MPI's."""

Span = tuple[int, int]


class Told:
    """Takes the records of all nodes of a replay, which has not run yet."""

    def __init__(self, replay: Replay, records_max: int = RECORDS_MAX) -> None:
        self._replay = replay
        self._left = self._max = records_max
        self._blocks: list[list[bytes]] = [[] for _ in range(replay.num_ranks)]
        self._take = ffi.callback(
            "int(void *, uint32_t, const pw_trace_record *, uint32_t)", self._taken
        )
        self._taker = ffi.new("pw_trace_taker *", {"take": self._take})
        for rank in range(replay.num_ranks):
            code = lib.pw_node_trace_give(replay.node(rank), self._taker, _RECORDS_AT_ONCE)
            check(code, f"records of rank {rank}")

    def _taken(self, _context: Any, node: int, records: Any, num_records: int) -> int:
        self._left -= num_records
        if self._left < 0:
            return errno.ENOSPC
        self._blocks[node].append(bytes(ffi.buffer(records, num_records * _RECORD.itemsize)))
        return 0

    def finish(self) -> list["Node"]:
        """Of each rank what it has told; raises ConfigError: it was too much."""
        made = []
        for rank in range(self._replay.num_ranks):
            code = lib.pw_node_trace_finish(self._replay.node(rank))
            if self._left < 0:
                raise ConfigError(
                    f"--path: the run has more than {self._max:,} events; cut a part of the trace "
                    "out (`pagewire trace cut`), and look at that"
                )
            check(code, f"records of rank {rank}")
            made.append(Node(rank, b"".join(self._blocks[rank])))
            self._blocks[rank] = []
        return made


class Spans:
    """Times that do not overlap, in order."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, end in sorted(spans):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def within(self, begin: int, end: int) -> Iterator[Span]:
        """What of them lies there."""
        for idx in range(bisect.bisect_right(self._ends, begin), len(self._begins)):
            if self._begins[idx] >= end:
                return
            yield max(begin, self._begins[idx]), min(end, self._ends[idx])

    def length_within(self, begin: int, end: int) -> int:
        return sum(last - first for first, last in self.within(begin, end))


class Buffer(NamedTuple):
    """Memory of a rank."""

    region: int
    offset: int
    num_bytes: int


class Operation(NamedTuple):
    """A message or a one-sided operation, as the CPU sees it."""

    kind: int
    """PW_OPERATION_*"""
    peer: int
    posted_ns: int
    complete_ns: int
    arrival_ns: int
    """Of its message's envelope."""
    stream: int
    """Of its transfer, where it has one by itself."""
    buffer: Buffer


class Wait(NamedTuple):
    """The CPU waits: for an operation, or (None) for the others of a meeting."""

    begin_ns: int
    end_ns: int
    operation: Operation | None
    meeting: tuple[int, int]
    """Group, and when it was over."""


class Attempt:
    """A block on its way, once."""

    __slots__ = (
        "ack_ns", "before", "engine", "faults", "link", "number", "receive", "resent_ns",
        "start_ns", "there_ns",
    )  # fmt: skip

    def __init__(self, number: int, start_ns: int, before: "Attempt | None") -> None:
        self.number = number
        """Transaction and sequence."""
        self.start_ns = start_ns
        self.before = before
        """Of the same block, in vain."""
        self.engine: Span | None = None
        self.link: Span | None = None
        self.receive: Span | None = None
        """At the destination."""
        self.faults: list[tuple[int, bool, int]] = []
        """Time, whether at the source, and page; again with each packet."""
        self.there_ns: int | None = None
        """All of it, at the destination, which acknowledges it."""
        self.ack_ns: int | None = None
        self.resent_ns: int | None = None
        """ERR or timeout that let it be sent again; None: its NACK alone did, and a pause."""

    def over_ns(self, at_source: bool) -> int:
        """When it was there, or the source knew; 0: it never was."""
        return (self.ack_ns if at_source else self.there_ns) or 0


class Node:
    """What one node told; what is needed of it is found when it is asked for."""

    def __init__(self, rank: int, records: bytes) -> None:
        self.rank = rank
        self._records: NDArray[Any] = np.frombuffer(records, _RECORD).copy()
        moved = self._of(lib.PW_TRACE_MOVED)
        self._records["time"][moved["a"].astype(np.int64)] = moved["time"]
        self.names = self._names()
        self._find_operations()
        self._find_cpu()
        self._blocks: dict[int, Blocks] = {}

    def _of(self, *kinds: int) -> NDArray[Any]:
        """Records of these kinds, in the order in which they were told."""
        records: NDArray[Any] = self._records[np.isin(self._records["kind"], kinds)]
        return records

    def spans(self, *kinds: int) -> Spans:
        found = self._of(*kinds)
        return Spans((time, time + length) for time, length in _rows(found, "time", "a"))

    def _names(self) -> dict[int, str]:
        pieces: dict[int, bytes] = collections.defaultdict(bytes)
        for record in self._of(lib.PW_TRACE_CALL_NAME):
            pieces[int(record["peer"])] += record["a"].tobytes() + record["b"].tobytes()
        return {idx: text.rstrip(b"\0").decode(errors="replace") for idx, text in pieces.items()}

    # -- the CPU

    def _find_operations(self) -> None:
        """Each is three records, told together."""
        found = self._of(lib.PW_TRACE_OPERATION, lib.PW_TRACE_STREAM, lib.PW_TRACE_BUFFER)
        kinds, times, peers, a, b = _lists(found, "kind", "time", "peer", "a", "b")
        self.operations: dict[int, Operation] = {}
        self.received: dict[tuple[int, int], Operation] = {}
        """By sender and arrival of the envelope."""
        self._buffer_times: list[int] = []
        self._buffers: list[Buffer] = []
        at = 0
        while at < len(kinds):
            if kinds[at] == lib.PW_TRACE_BUFFER:
                self._buffer_times.append(times[at])
                self._buffers.append(_buffer(peers[at], a[at], b[at]))
                at += 1
                continue
            told = at + 2
            made = Operation(
                kind=peers[at + 1],
                peer=peers[at],
                posted_ns=times[at],
                complete_ns=a[at],
                arrival_ns=b[at],
                stream=a[at + 1],
                buffer=_buffer(peers[told], a[told], b[told]),
            )
            self.operations[b[at + 1]] = made
            if made.kind == lib.PW_OPERATION_RECEIVE:
                self.received[made.peer, made.arrival_ns] = made
            at += 3

    def _find_cpu(self) -> None:
        calls = self._of(lib.PW_TRACE_CALL)
        self.calls: list[tuple[int, ...]] = sorted(_rows(calls, "time", "a", "b"))
        waits = []
        self.meetings: list[tuple[int, int]] = []
        """When each was over, and its group."""
        self.came_last: set[tuple[int, int]] = set()
        """Meetings that nobody was later at."""
        for record in self._of(lib.PW_TRACE_WAITED, lib.PW_TRACE_MET):
            begin, length = int(record["time"]), int(record["a"])
            is_met = record["kind"] == lib.PW_TRACE_MET
            meeting = (int(record["b"]), begin + length) if is_met else (0, 0)
            if is_met:
                self.meetings.append((begin + length, meeting[0]))
            operation = None if is_met else self.operations[int(record["b"])]
            if length:
                waits.append(Wait(begin, begin + length, operation, meeting))
            elif is_met:
                self.came_last.add(meeting)
        self.waits = sorted(waits, key=lambda each: each.end_ns)
        self._wait_ends = [each.end_ns for each in self.waits]
        self._num_waits = len(self.waits)
        self.prepared = {
            part: self.spans(kind)
            for part, kind in (
                ("page-in", lib.PW_TRACE_TOUCH),
                ("pin", lib.PW_TRACE_PIN),
                ("copy", lib.PW_TRACE_COPY),
            )
        }
        """What the memory strategy did."""
        self.r5 = self.spans(lib.PW_TRACE_R5)
        self.walks = self.spans(lib.PW_TRACE_WALK, lib.PW_TRACE_HELD)
        self.unit_page_ins = self.spans(lib.PW_TRACE_UNIT_PAGE_IN)
        self._find_page_ins()
        self._find_messages()

    def next_wait(self, time_ns: int) -> Wait | None:
        """The last one that was over then, and that was not given yet."""
        self._num_waits = bisect.bisect_right(self._wait_ends, time_ns, 0, self._num_waits)
        if not self._num_waits:
            return None
        self._num_waits -= 1
        return self.waits[self._num_waits]

    def posts_within(self, begin_ns: int, end_ns: int) -> Iterator[tuple[int, Buffer]]:
        """When the CPU began to post which buffer."""
        for idx in range(bisect.bisect_left(self._buffer_times, begin_ns), len(self._buffers)):
            if self._buffer_times[idx] >= end_ns:
                return
            yield self._buffer_times[idx], self._buffers[idx]

    def calls_within(self, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int, str]]:
        """Calls, as far as they lie there."""
        idx = max(bisect.bisect_right(self.calls, (begin_ns, 2**63, 0)) - 1, 0)
        for begin, length, call in itertools.islice(self.calls, idx, None):
            if begin >= end_ns:
                return
            if begin + length > begin_ns:
                name = self.names.get(call, LIBRARY)
                yield max(begin, begin_ns), min(begin + length, end_ns), name

    def call_at(self, time_ns: int) -> str:
        """Which MPI call the CPU was in."""
        idx = bisect.bisect_right(self.calls, (time_ns, 2**63, 0))
        if not idx or time_ns > self.calls[idx - 1][0] + self.calls[idx - 1][1]:
            return LIBRARY
        return self.names.get(self.calls[idx - 1][2], LIBRARY)

    # -- messages, pages

    def _find_messages(self) -> None:
        sent = self._of(lib.PW_TRACE_MESSAGE_SENT)
        self.sent: dict[tuple[int, int], int] = {}
        """When a message was sent, by receiver and arrival."""
        self.lengths: dict[tuple[int, int], int] = {}
        """Of them, in bytes."""
        self._sent_to: dict[int, list[Span]] = collections.defaultdict(list)
        for time, peer, arrival, num_bytes in _rows(sent, "time", "peer", "a", "b"):
            self.sent[peer, arrival] = time
            self.lengths[peer, arrival] = num_bytes
            self._sent_to[peer].append((time, arrival))
        for each in self._sent_to.values():
            each.sort()
        links = self._of(lib.PW_TRACE_MESSAGE_LINK)
        self.links: dict[tuple[int, int], Span] = {}
        """The same: when it was posted, and when the link took it."""
        for time, peer, length, posted in _rows(links, "time", "peer", "a", "b"):
            self.links[peer, time + length] = (posted, time)

    def arrival_of(self, peer: int, posted_ns: int) -> int | None:
        """Of the first message that was sent to it since then."""
        own = self._sent_to.get(peer, [])
        idx = bisect.bisect_left(own, (posted_ns, 0))
        return own[idx][1] if idx < len(own) else None

    def _find_page_ins(self) -> None:
        done = self._of(lib.PW_TRACE_PAGE_IN_DONE, lib.PW_TRACE_PAGE_TOUCHED)
        unit = self._of(lib.PW_TRACE_UNIT_PAGE_IN)
        found = [*_rows(done, "time", "b")]
        found += [
            (time + length, pages) for time, length, pages in _rows(unit, "time", "a", "peer")
        ]
        found.sort()
        self._page_ins = [time for time, _ in found]
        self._num_pages = [pages for _, pages in found]

    def page_in_before(self, time_ns: int) -> int:
        """When the last page came in until then."""
        idx = bisect.bisect_right(self._page_ins, time_ns)
        return self._page_ins[idx - 1] if idx else 0

    def num_pages_in(self, begin_ns: int, end_ns: int) -> int:
        """Pages that came in behind begin_ns, up to end_ns."""
        first, end = (bisect.bisect_right(self._page_ins, each) for each in (begin_ns, end_ns))
        return sum(self._num_pages[first:end])

    # -- blocks

    def blocks_to(self, destination: "Node") -> "Blocks":
        found = self._blocks.get(destination.rank)
        if found is None:
            found = self._blocks[destination.rank] = Blocks(self, destination)
        return found

    def sent_blocks(self) -> dict[int, list[tuple[int, ...]]]:
        """Records of blocks that this node is the source of, by their number."""
        return _by_number(
            self._of(
                *(lib.PW_TRACE_BLOCK_OF, lib.PW_TRACE_SEND_ENGINE, lib.PW_TRACE_LINK),
                *(lib.PW_TRACE_ACK, lib.PW_TRACE_ERR, lib.PW_TRACE_TIMEOUT),
                lib.PW_TRACE_FAULT_SOURCE,
            )
        )

    def received_blocks(self, source: int) -> dict[int, list[tuple[int, ...]]]:
        """The same at the destination."""
        found = self._of(
            lib.PW_TRACE_RECEIVE_ENGINE, lib.PW_TRACE_FAULT_DESTINATION, lib.PW_TRACE_ACK_SENT
        )
        return _by_number(found[found["peer"] == source])


class Attempts:
    """Of a transfer."""

    def __init__(self, own: Iterable[Attempt]) -> None:
        self.all = sorted(own, key=lambda each: each.start_ns)
        self._starts = [each.start_ns for each in self.all]
        self._acked = sorted(
            ((each.ack_ns, idx) for idx, each in enumerate(self.all) if each.ack_ns is not None)
        )

    def begun_before(self, time_ns: int) -> Attempt | None:
        """The last one."""
        idx = bisect.bisect_left(self._starts, time_ns)
        return self.all[idx - 1] if idx else None

    def acked_before(self, time_ns: int) -> Attempt | None:
        """Whose acknowledgement is the last one until then."""
        idx = bisect.bisect_right(self._acked, (time_ns, len(self.all)))
        return self.all[self._acked[idx - 1][1]] if idx else None


class Blocks:
    """Attempts of the blocks from one node to another, by the stream of their transfer."""

    def __init__(self, source: Node, destination: Node) -> None:
        self.by_stream: dict[int, list[Attempt]] = collections.defaultdict(list)
        arriving = destination.received_blocks(source.rank)
        for number, records in source.sent_blocks().items():
            attempts = self._send(records, destination.rank)
            _receive(attempts, arriving.get(number, []))
        ways = [
            attempt.receive[0] - attempt.link[0]
            for each in self.by_stream.values()
            for attempt in each
            if attempt.receive and attempt.link
        ]
        self.way_ns = min(ways, default=0)
        """From the beginning of a block on the link to that at the destination, at least."""

    def of(self, stream: int, begin_ns: int, end_ns: int) -> Attempts:
        """Of a transfer; where it has no stream by itself, all that were on their way then."""
        own = self.by_stream.get(stream)
        if own is not None:
            return Attempts(own)
        return Attempts(
            attempt
            for each in self.by_stream.values()
            for attempt in each
            if begin_ns <= attempt.start_ns < end_ns
        )

    def _send(self, records: Iterable[tuple[int, ...]], peer: int) -> list[Attempt]:
        made: list[Attempt] = []
        last: Attempt | None = None
        for time, kind, to, a, b in records:
            if kind == lib.PW_TRACE_BLOCK_OF:
                is_again = a >> 16 and last is not None
                last = Attempt(a, time, last if is_again else None) if to == peer else None
                if last is not None:
                    made.append(last)
                    self.by_stream[b].append(last)
            elif last is None:
                continue
            elif kind == lib.PW_TRACE_SEND_ENGINE:
                last.engine = time, time + a
            elif kind == lib.PW_TRACE_LINK:
                last.link = time, time + a
            elif kind == lib.PW_TRACE_FAULT_SOURCE:
                last.faults.append((time, True, a))
            elif kind == lib.PW_TRACE_ACK:
                last.ack_ns = time
            else:
                last.resent_ns = time
        return made


def _receive(attempts: list[Attempt], records: Iterable[tuple[int, ...]]) -> None:
    """Give each attempt of a number what the destination told of it."""
    starts = [attempt.start_ns for attempt in attempts]
    for time, kind, _peer, a, b in records:
        idx = bisect.bisect_right(starts, time) - 1
        if idx < 0:
            continue
        attempt = attempts[idx]
        if kind == lib.PW_TRACE_RECEIVE_ENGINE:
            if b >> 16 & 0xFFFF == attempt.number >> 16 & 0xFFFF:
                attempt.receive = time, time + a
        elif kind == lib.PW_TRACE_ACK_SENT:
            attempt.there_ns = time
        else:
            attempt.faults.append((time, False, a))


def _by_number(records: NDArray[Any]) -> dict[int, list[tuple[int, ...]]]:
    """Of records that name a transaction, in their order."""
    made: dict[int, list[tuple[int, ...]]] = collections.defaultdict(list)
    in_b = (
        *(lib.PW_TRACE_SEND_ENGINE, lib.PW_TRACE_LINK, lib.PW_TRACE_RECEIVE_ENGINE),
        *(lib.PW_TRACE_FAULT_SOURCE, lib.PW_TRACE_FAULT_DESTINATION),
    )
    for record in _rows(records, "time", "kind", "peer", "a", "b"):
        number = record[4] if record[1] in in_b else record[3]
        made[number & 0xFFFF].append(record)
    return made


def _buffer(region: int, offset: int, num_bytes: int) -> Buffer:
    return Buffer(region, offset - 2 * _SIGN if offset >= _SIGN else offset, num_bytes)


def _rows(records: NDArray[Any], *fields: str) -> Iterator[tuple[int, ...]]:
    return zip(*_lists(records, *fields), strict=True)


def _lists(records: NDArray[Any], *fields: str) -> list[list[int]]:
    return [records[field].tolist() for field in fields]
