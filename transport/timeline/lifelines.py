"""Blocks and page faults of a run, put together from what each rank has recorded.

An attempt is a block as its source sends it once; the next attempt of the same block is its
retransmission. A fault is a page that an attempt met absent, at either end. What happened to it
stands in several ranks' records: here they are joined by transaction number, sequence number and
time. Nothing is made up: what no record tells stays None.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pagewire.native import lib
from pagewire.transport.timeline.records import KINDS, Records


class Step(NamedTuple):
    """A record: its rank, its number there, its time."""

    rank: int
    row: int
    time_ns: int


@dataclasses.dataclass(slots=True)
class Attempt:
    """A block on its way, once."""

    source: int
    transaction_id: int
    sequence: int
    started: Step
    is_first: bool
    link: Step | None = None
    received: Step | None = None
    answers: list[Step] = dataclasses.field(default_factory=list)
    """NACK, ERR and timeout as the source's R5 sees them"""
    acked: Step | None = None
    nack_sent: Step | None = None
    err_sent: Step | None = None
    following: Attempt | None = None
    """the retransmission"""


@dataclasses.dataclass(slots=True)
class Fault:
    """A page that an attempt met absent."""

    rank: int
    page: int
    at_destination: bool
    attempt: Attempt
    found: Step
    tasklet: Step | None = None
    paged_in: Step | None = None
    resumed: Step | None = None

    def steps(self) -> list[Step]:
        """The lifeline in time order, the fault itself left out."""
        attempt, following = self.attempt, self.attempt.following
        found = [
            attempt.link,
            attempt.received,
            attempt.nack_sent,
            self.tasklet,
            self.paged_in,
            self.resumed,
            attempt.err_sent,
            *attempt.answers,
        ]
        if following is not None:
            found += [following.link, following.received]
        return sorted((each for each in found if each), key=lambda step: step.time_ns)

    @property
    def end_ns(self) -> int:
        """When the last thing that is known of it happened: as a rule its delivery."""
        return max([self.found.time_ns, *(step.time_ns for step in self.steps())])


class Job(NamedTuple):
    """One entry that the tasklet worked on."""

    start: Step
    end_ns: int
    page: int
    num_pages: int


class Story:
    """Attempts, faults and the tasklet's jobs of all ranks."""

    def __init__(self, ranks: Mapping[int, Records]) -> None:
        self.attempts: list[Attempt] = []
        self.faults: list[Fault] = []
        self.jobs: dict[int, list[Job]] = {rank: [] for rank in ranks}
        self._sent: dict[tuple[int, int, int], list[Attempt]] = {}
        self._source_faults: dict[int, collections.deque[Fault]] = {}
        for rank, records in ranks.items():
            _Source(self, rank).read(records)
        for sent in self._sent.values():
            sent.sort(key=lambda attempt: attempt.started.time_ns)
        for rank, records in ranks.items():
            _Destination(self, rank).read(records)

    def begun(self, attempt: Attempt) -> None:
        """An attempt leaves its source."""
        self.attempts.append(attempt)
        key = (attempt.source, attempt.transaction_id, attempt.sequence)
        self._sent.setdefault(key, []).append(attempt)

    def arrived(self, source: int, block: int, time_ns: int) -> Attempt | None:
        """The attempt that a block is that arrives then: the last one that had begun."""
        sent = self._sent.get((source, block & 0xFFFF, block >> 16 & 0xFFFF), [])
        count = bisect.bisect_right(sent, time_ns, key=lambda attempt: attempt.started.time_ns)
        return sent[count - 1] if count else None

    def note_source_fault(self, fault: Fault) -> None:
        """A fault at the source, which its driver will come to."""
        self.faults.append(fault)
        self._source_faults.setdefault(fault.rank, collections.deque()).append(fault)

    def next_source_fault(self, rank: int) -> Fault | None:
        """The faults noted, in the same order."""
        faults = self._source_faults.get(rank)
        return faults.popleft() if faults else None


class _Reader:
    """Reads one rank's records of the kinds that it has methods for, in their order."""

    kinds: Sequence[str] = ()

    def __init__(self, story: Story, rank: int) -> None:
        self.story = story
        self.rank = rank

    def read(self, records: Records) -> None:
        methods = {KINDS[name]: getattr(self, name.lower()) for name in self.kinds}
        numbers = records.of(*self.kinds)
        for begin in range(0, len(numbers), 65536):
            part = numbers[begin : begin + 65536]
            rows = records.rows[part].tolist()
            for number, (time_ns, kind, peer, a, b) in zip(part.tolist(), rows, strict=True):
                methods[kind](Step(self.rank, number, time_ns), peer, a, b)


class _Source(_Reader):
    """What the source of blocks records."""

    kinds = (
        "BLOCK_STARTED", "LINK", "ACK", "NACK", "ERR", "TIMEOUT", "TRANSITION", "FAULT_SOURCE",
    )  # fmt: skip

    def __init__(self, story: Story, rank: int) -> None:
        super().__init__(story, rank)
        self._current: dict[int, Attempt] = {}
        self._ended: set[int] = set()

    def block_started(self, step: Step, _peer: int, a: int, b: int) -> None:
        before = None if a in self._ended else self._current.get(a)
        self._ended.discard(a)
        attempt = Attempt(self.rank, a, b, step, before is None)
        if before is not None:
            before.following = attempt
        self._current[a] = attempt
        self.story.begun(attempt)

    def link(self, step: Step, _peer: int, _a: int, b: int) -> None:
        attempt = self._current.get(b & 0xFFFF)
        if attempt is not None:
            attempt.link = step

    def ack(self, step: Step, _peer: int, a: int, _b: int) -> None:
        attempt = self._current.get(a)
        if attempt is not None:
            attempt.acked = step

    def _answer(self, step: Step, _peer: int, a: int, _b: int) -> None:
        attempt = self._current.get(a)
        if attempt is not None:
            attempt.answers.append(step)

    nack = err = timeout = _answer

    def transition(self, _step: Step, _peer: int, a: int, b: int) -> None:
        if b >> 16 == lib.PW_TRANSACTION_FREE:
            self._ended.add(a & 0xFFFF)

    def fault_source(self, step: Step, _peer: int, a: int, b: int) -> None:
        attempt = self._current.get(b)
        if attempt is not None:
            self.story.note_source_fault(Fault(self.rank, a, False, attempt, step))


class _Destination(_Reader):
    """What the destination and either end's driver record."""

    kinds = (
        "RECEIVE_ENGINE", "FAULT_DESTINATION", "FAULT_SOURCE", "NACK_SENT", "ERR_SENT",
        "TASKLET_ENTRY", "PAGE_IN_DONE", "NETLINK_SENT", "PAGE_TOUCHED", "RESUME",
    )  # fmt: skip

    def __init__(self, story: Story, rank: int) -> None:
        super().__init__(story, rank)
        self._last: dict[tuple[int, int], Attempt] = {}
        self._of_attempt: dict[tuple[int, int], Fault] = {}
        self._open: list[Fault] = []
        self._latest: dict[int, Fault] = {}
        self._job: tuple[int, int] = (0, 0)

    def receive_engine(self, step: Step, peer: int, _a: int, b: int) -> None:
        attempt = self.story.arrived(peer, b, step.time_ns)
        if attempt is None:
            return
        if attempt.received is None:
            attempt.received = step
        self._last[peer, b & 0xFFFF] = attempt

    def fault_destination(self, step: Step, peer: int, a: int, b: int) -> None:
        attempt = self._last.get((peer, b))
        if attempt is None or (id(attempt), a) in self._of_attempt:
            return  # a further packet of the same page
        fault = Fault(self.rank, a, True, attempt, step)
        self._of_attempt[id(attempt), a] = fault
        self.story.faults.append(fault)
        self._begin(fault)

    def _begin(self, fault: Fault) -> None:
        self._open.append(fault)
        self._latest[fault.page] = fault

    def fault_source(self, _step: Step, _peer: int, _a: int, _b: int) -> None:
        fault = self.story.next_source_fault(self.rank)
        if fault is not None:
            self._begin(fault)

    def nack_sent(self, step: Step, peer: int, a: int, _b: int) -> None:
        attempt = self._last.get((peer, a))
        if attempt is not None:
            attempt.nack_sent = step

    def err_sent(self, step: Step, peer: int, a: int, b: int) -> None:
        attempt = self.story.arrived(peer, a | b << 16, step.time_ns)
        if attempt is not None:
            attempt.err_sent = step

    def tasklet_entry(self, step: Step, _peer: int, a: int, b: int) -> None:
        self.story.jobs[self.rank].append(Job(step, step.time_ns, a, b))
        self._job = (a, a + max(b, 1))
        for fault in self._open:
            if fault.page == a and fault.tasklet is None:
                fault.tasklet = step

    def _prolong(self, step: Step) -> None:
        jobs = self.story.jobs[self.rank]
        if jobs and step.time_ns > jobs[-1].end_ns:
            jobs[-1] = jobs[-1]._replace(end_ns=step.time_ns)

    def page_in_done(self, step: Step, _peer: int, _a: int, _b: int) -> None:
        self._prolong(step)
        self._close(self._job, step)

    def netlink_sent(self, step: Step, _peer: int, _a: int, _b: int) -> None:
        self._prolong(step)

    def page_touched(self, step: Step, _peer: int, a: int, _b: int) -> None:
        self._close((a, a + 1), step)

    def resume(self, step: Step, _peer: int, a: int, _b: int) -> None:
        fault = self._latest.get(a)
        if fault is not None:
            fault.resumed = step

    def _close(self, pages: tuple[int, int], step: Step) -> None:
        still: list[Fault] = []
        for fault in self._open:
            if pages[0] <= fault.page < pages[1]:
                fault.paged_in = step
            else:
                still.append(fault)
        self._open = still


def absences(faults: Sequence[Fault], rank: int) -> list[tuple[int, int]]:
    """Changes of the number of pages that a rank's faults wait for: time and +1 or -1."""
    changes: list[tuple[int, int]] = []
    since: dict[int, Any] = {}
    for fault in sorted(
        (each for each in faults if each.rank == rank), key=lambda each: each.found.time_ns
    ):
        if fault.paged_in is None or fault.paged_in.time_ns <= since.get(fault.page, -1):
            continue
        since[fault.page] = fault.paged_in.time_ns
        changes += [(fault.found.time_ns, 1), (fault.paged_in.time_ns, -1)]
    return sorted(changes)
