"""The critical path through a replay: what the run's end waited for, back to its beginning, cut by
MPI call, buffer and part of the machine.

It begins at the end of the rank that ends last. As long as the CPU works, the path is there. Where
the CPU has waited for a message it goes on with what made the message late: its transfer, block by
block from the last one on, and then the CPU that has come later to it, the sender's or the
receiver's. All comes out of what the engine told of each block; each ns of the run is counted
once, so that the shares are the whole run.
"""

import collections
from collections.abc import Sequence
from typing import NamedTuple

from pagewire.native import lib
from pagewire.replay.replay import Replay, Settings, Trace
from pagewire.replay.told import (
    Attempt,
    Attempts,
    Blocks,
    Buffer,
    Node,
    Operation,
    Span,
    Spans,
    Told,
    Wait,
)

PARTS = (
    *("compute", "MPI calls", "wire", "queueing", "R5", "page walk", "page-in"),
    *("NACK, ERR, timeout", "pin", "copy"),
)
PROGRAM = "(program)"
"""Outside of MPI calls."""


class Piece(NamedTuple):
    """Of what some time of the path is."""

    call: str
    """MPI call of the rank that waits, or works."""
    part: str
    """Of PARTS."""
    rank: int
    buffer: Buffer | None
    """Of this rank; None: it is about no buffer."""


class Path(NamedTuple):
    """The whole."""

    run_ns: int
    pieces: dict[Piece, int]
    """How many ns."""
    ranks: list[int]
    """On which it is, from the run's end on."""


def found(
    trace: Trace, settings: Settings, *, matching: str = "recorded", touch: str = "start"
) -> Path:
    """Of one replay. Raises as `Replay` does, and ConfigError when it is too long."""
    with Replay(trace, settings, matching=matching, touch=touch) as replay:
        told = Told(replay)
        replay.run()
        ends = replay.times_ns()
        nodes = told.finish()
    return _Walk(nodes).path(ends)


class _Window:
    """Some of the path, all of which is for one call and buffer."""

    def __init__(
        self,
        pieces: collections.Counter[Piece],
        call: str,
        rank: int,
        buffer: Buffer | None,
        begin_ns: int,
    ) -> None:
        self._pieces = pieces
        self._name = call, rank, buffer
        self.begin_ns = begin_ns

    def paint(self, begin_ns: int, end_ns: int, rest: str, *some: tuple[str, Spans]) -> None:
        """This time is for the first part that has a span then; else for the rest."""
        left = [(max(begin_ns, self.begin_ns), end_ns)]
        for part, spans in some:
            free: list[Span] = []
            for begin, end in left:
                for first, last in spans.within(begin, end):
                    self._add(part, last - first)
                    free.append((begin, first))
                    begin = last
                free.append((begin, end))
            left = free
        for begin, end in left:
            self._add(rest, end - begin)

    def _add(self, part: str, ns: int) -> None:
        if ns > 0:
            call, rank, buffer = self._name
            self._pieces[Piece(call, part, rank, buffer)] += ns


class _Walk:
    """Along the path, against the time."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._pieces: collections.Counter[Piece] = collections.Counter()

    def path(self, ends: Sequence[int]) -> Path:
        """ends: when each rank's program was over."""
        run_ns = max(ends)
        rank, at_ns = ends.index(run_ns), run_ns
        ranks = [rank]
        while at_ns > 0:
            node = self._nodes[rank]
            wait = node.next_wait(at_ns)
            self._work(node, wait.end_ns if wait else 0, at_ns)
            if wait is None:
                break
            rank, at_ns = self._follow(node, wait)
            if rank != ranks[-1]:
                ranks.append(rank)
        return Path(run_ns, dict(self._pieces), ranks)

    def _window(self, call: str, node: Node, buffer: Buffer | None, begin_ns: int) -> _Window:
        return _Window(self._pieces, call, node.rank, buffer, begin_ns)

    # -- the CPU works

    def _work(self, node: Node, begin_ns: int, end_ns: int) -> None:
        at_ns = begin_ns
        for first, last, call in node.calls_within(begin_ns, end_ns):
            self._window(PROGRAM, node, None, at_ns).paint(at_ns, first, "compute")
            self._call(node, first, last, call)
            at_ns = last
        self._window(PROGRAM, node, None, at_ns).paint(at_ns, end_ns, "compute")

    def _call(self, node: Node, begin_ns: int, end_ns: int, call: str) -> None:
        """What the memory strategy does is for the buffer that is posted then."""
        at_ns, buffer = begin_ns, None
        for time_ns, posted in [*node.posts_within(begin_ns, end_ns), (end_ns, None)]:
            window = self._window(call, node, buffer, at_ns)
            window.paint(at_ns, time_ns, "MPI calls", *node.prepared.items())
            at_ns, buffer = time_ns, posted

    # -- the CPU waits

    def _follow(self, node: Node, wait: Wait) -> tuple[int, int]:
        """Count what it waited for; on which rank and when the path goes on."""
        operation = wait.operation
        if operation is None:
            last = [each.rank for each in self._nodes if wait.meeting in each.came_last]
            return last[0], wait.end_ns
        call = node.call_at(wait.begin_ns)
        window = self._window(call, node, operation.buffer, 0)
        if operation.kind == lib.PW_OPERATION_SEND:
            return self._sent(window, node, operation, wait.end_ns)
        if operation.kind in (lib.PW_OPERATION_RECEIVE, lib.PW_OPERATION_ARRIVED):
            return self._received(window, node, operation, wait.end_ns)
        window.begin_ns = operation.posted_ns
        peer = self._nodes[operation.peer]
        if operation.kind == lib.PW_OPERATION_READ:
            _Transfer(window, peer, node, node).walk(operation.stream, wait.end_ns)
        elif operation.kind == lib.PW_OPERATION_WRITE:
            write = _Transfer(window, node, peer, node, is_read=False)
            write.walk(operation.stream, wait.end_ns)
        else:  # an atomic operation: two messages, and the peer's NI
            window.paint(operation.posted_ns, wait.end_ns, "wire")
        return node.rank, operation.posted_ns

    def _received(
        self, window: _Window, node: Node, receive: Operation, end_ns: int
    ) -> tuple[int, int]:
        sender = self._nodes[receive.peer]
        window.begin_ns = max(receive.posted_ns, receive.arrival_ns)
        self._land(window, sender, node, receive, end_ns)
        if receive.posted_ns >= receive.arrival_ns:
            return node.rank, receive.posted_ns
        return sender.rank, self._message(window, sender, node, receive.arrival_ns)

    def _sent(self, window: _Window, node: Node, send: Operation, end_ns: int) -> tuple[int, int]:
        """A long message: over when its receiver has read it."""
        receiver = self._nodes[send.peer]
        arrival_ns = node.arrival_of(receiver.rank, send.posted_ns)
        receive = receiver.received.get((node.rank, arrival_ns or 0))
        if arrival_ns is None or receive is None:  # by a way of its own
            window.begin_ns = send.posted_ns
            window.paint(send.posted_ns, end_ns, "queueing", *node.prepared.items())
            return node.rank, send.posted_ns
        window.begin_ns = max(receive.posted_ns, arrival_ns)
        _Transfer(window, node, receiver, node).walk(receive.stream, end_ns)
        if receive.posted_ns > arrival_ns:
            return receiver.rank, receive.posted_ns
        return node.rank, self._message(window, node, receiver, arrival_ns)

    @staticmethod
    def _land(window: _Window, sender: Node, node: Node, receive: Operation, end_ns: int) -> None:
        if receive.stream:
            _Transfer(window, sender, node, node).walk(receive.stream, end_ns)
        else:  # it came with its envelope, and is copied
            window.paint(window.begin_ns, end_ns, "MPI calls")

    @staticmethod
    def _message(window: _Window, sender: Node, receiver: Node, arrival_ns: int) -> int:
        """An envelope on its way; when the sender's CPU began with it."""
        sent_ns = window.begin_ns = sender.sent[receiver.rank, arrival_ns]
        posted_ns, link_ns = sender.links[receiver.rank, arrival_ns]
        window.paint(sent_ns, posted_ns, "MPI calls")
        window.paint(posted_ns, link_ns, "queueing")
        window.paint(link_ns, arrival_ns, "wire")
        return sent_ns


class _Transfer:
    """The blocks of a transfer, from the last one back to the window's begin."""

    def __init__(
        self,
        window: _Window,
        source: Node,
        destination: Node,
        waiting: Node,
        *,
        is_read: bool = True,
    ) -> None:
        self._window, self._is_read = window, is_read
        self._source, self._destination, self._waiting = source, destination, waiting
        self._blocks: Blocks = source.blocks_to(destination)

    def walk(self, stream: int, end_ns: int) -> None:
        """Until end_ns."""
        begin_ns = self._window.begin_ns
        own = self._blocks.of(stream, begin_ns, end_ns)
        at_source = self._waiting is self._source
        over = [(each.over_ns(at_source), each) for each in own.all]
        over = [each for each in over if begin_ns < each[0] <= end_ns]
        if not over:
            self._request(begin_ns, end_ns)
            return
        at_ns, last = max(over, key=lambda each: each[0])
        self._rest(at_ns, end_ns, "wire")
        attempt: Attempt | None = last
        if at_source:
            at_ns = self._acknowledged(last, at_ns)
        while attempt is not None and at_ns > begin_ns:
            at_ns = self._way(attempt, at_ns)
            at_ns, attempt = self._cause(attempt, own, at_ns)
        if at_ns > begin_ns:
            self._request(begin_ns, at_ns)

    def _rest(self, begin_ns: int, end_ns: int, part: str) -> None:
        """What the R5 and the memory strategy leave over is for this part."""
        prepared = self._waiting.prepared.items()
        self._window.paint(begin_ns, end_ns, part, *prepared, ("R5", self._source.r5))

    def _request(self, begin_ns: int, end_ns: int) -> None:
        """Before the first block."""
        there_ns = end_ns
        if self._is_read:  # the destination's NI asks for them
            there_ns = min(begin_ns + self._blocks.way_ns, end_ns)
        self._rest(there_ns, end_ns, "queueing")
        self._rest(begin_ns, there_ns, "wire" if there_ns < end_ns else "queueing")

    def _acknowledged(self, attempt: Attempt, at_ns: int) -> int:
        """An acknowledgement on its way; when the block was there."""
        there_ns = min(attempt.there_ns or at_ns, at_ns)
        self._rest(there_ns, at_ns, "wire")
        return there_ns

    def _way(self, attempt: Attempt, at_ns: int) -> int:
        """A block from its start until at_ns; when it started."""
        window, receive = self._window, attempt.receive
        source, destination = self._source, self._destination
        if attempt.link and receive:
            begin_ns, end_ns = min(receive[0], at_ns), min(receive[1], at_ns)
            # A walk for the first page holds all that follows up by so much.
            held_ns = min(destination.walks.length_within(*receive), at_ns - end_ns)
            window.paint(at_ns - held_ns, at_ns, "page walk")
            window.paint(begin_ns, at_ns - held_ns, "wire", ("page-in", destination.unit_page_ins))
            at_ns = begin_ns - (receive[0] - attempt.link[0] - self._blocks.way_ns)
            window.paint(at_ns, begin_ns, "queueing")
        for span, part in ((attempt.link, "wire"), (attempt.engine, "queueing")):
            if span and span[0] < at_ns:
                window.paint(span[0], at_ns, part)
                at_ns = span[0]
        start_ns = min(attempt.start_ns, at_ns)
        delays = ("page-in", source.unit_page_ins), ("page walk", source.walks)
        window.paint(start_ns, at_ns, "queueing", *delays)
        return start_ns

    def _cause(self, attempt: Attempt, own: Attempts, at_ns: int) -> tuple[int, Attempt | None]:
        """Why it started then: since when it could, and the attempt that it waited for."""
        if attempt.before is not None:
            return self._resent(attempt.before, at_ns), attempt.before
        begun = own.begun_before(at_ns)
        if begun is None:
            return at_ns, None
        acked = own.acked_before(at_ns)
        ack_ns = acked.ack_ns if acked and acked.ack_ns and acked.start_ns < at_ns else 0
        self._rest(max(begun.start_ns, ack_ns), at_ns, "queueing")
        if acked is None or ack_ns <= begun.start_ns:
            return begun.start_ns, begun
        return self._acknowledged(acked, ack_ns), acked

    def _resent(self, before: Attempt, at_ns: int) -> int:
        """A block comes again: when the first attempt met what made that needed."""
        resent_ns = min(before.resent_ns or at_ns, at_ns)
        self._rest(resent_ns, at_ns, "queueing")
        faults = [each for each in before.faults if each[0] <= resent_ns]
        if not faults:
            lost_ns = min(before.receive[1] if before.receive else before.start_ns, resent_ns)
            self._window.paint(lost_ns, resent_ns, "NACK, ERR, timeout")
            return lost_ns
        fault_ns, is_at_source, _ = max(faults)
        node = self._source if is_at_source else self._destination
        there_ns = max(node.page_in_before(resent_ns), fault_ns)
        self._window.paint(there_ns, resent_ns, "NACK, ERR, timeout")
        self._window.paint(fault_ns, there_ns, "page-in")
        return fault_ns
