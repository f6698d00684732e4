"""The tracks of one rank: which records, spans and values stand on each, by what name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pagewire.native import lib
from pagewire.transport.settings.platform import Platform
from pagewire.transport.timeline.lifelines import Job, Story, absences
from pagewire.transport.timeline.perfetto_file import Flow, PerfettoFile
from pagewire.transport.timeline.records import KINDS, NO_CALL, Records

Span = tuple[int, int, str, Sequence[Flow]]
"""Start, end, name, arrows."""
_PACKET_BYTES = int(lib.PW_PACKET_BYTES)
_BANDWIDTH_POINTS = 2000
_ROWS_AT_ONCE = 65536
_KIND, _PEER, _B = 1, 2, 4
"""Columns of a record."""
_ANSWERS = {KINDS["NACK"]: "NACK", KINDS["ERR"]: "ERR", KINDS["TIMEOUT"]: "timeout"}


class RankTracks:
    """Writes one rank's tracks. `flows` are the arrows at each record, by its number."""

    def __init__(
        self,
        file: PerfettoFile,
        rank: int,
        records: Records,
        platform: Platform,
        flows: Mapping[int, Sequence[Flow]],
    ) -> None:
        self._file = file
        self._rank = rank
        self._records = records
        self._costs = platform.costs
        self._flows = flows
        self._process = file.process(rank)
        self._order = 0

    def write(self, story: Story, arrivals: Sequence[tuple[int, int, int, Flow]]) -> None:
        """All of them. arrivals: time, sender, bytes and arrow of each message that came here."""
        self._regions()
        self._calls()
        self._messages(arrivals)
        self._spans("Memory strategy", ("TOUCH", "PIN", "COPY"), _strategy_name)
        self._r5()
        self._answers()
        self._spans("Send engine", ("SEND_ENGINE",), _block_name)
        self._spans("Link", ("LINK",), _block_name)
        self._spans("Receive engine", ("RECEIVE_ENGINE",), _block_name)
        self._spans("SMMU walks", ("WALK",), lambda row: f"page {row[_B]:#x}")
        self._faults(story)
        self._interrupts()
        self._tasklet(story.jobs[self._rank])
        self._library_thread()
        self._counters(story)

    # -- spans

    def _lanes(self, name: str, spans: Iterable[Span]) -> None:
        """Spans in the order of their starts, on as many tracks as overlap."""
        waiting: list[tuple[int, int]] = []  # end and track
        tracks: list[int] = []
        self._order += 1
        for start_ns, end_ns, text, flows in spans:
            if waiting and waiting[0][0] <= start_ns:
                _, track = heapq.heappop(waiting)
            else:
                track = self._file.track(self._process, name, self._order)
                tracks.append(track)
            self._file.span(track, start_ns, end_ns, text, flows)
            heapq.heappush(waiting, (end_ns, track))

    def _at(self, number: int) -> Sequence[Flow]:
        return self._flows.get(number, ())

    def _spans(self, track: str, kinds: Sequence[str], name: Callable[[Any], str]) -> None:
        numbers, starts, ends = self._records.spans(*kinds)
        order = np.argsort(starts, kind="stable")
        self._lanes(track, self._named(numbers[order], starts[order], ends[order], name))

    def _named(
        self, numbers: Any, starts: Any, ends: Any, name: Callable[[Any], str]
    ) -> Iterator[Span]:
        for begin in range(0, len(numbers), _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            rows = self._records.rows[numbers[part]]
            columns = (numbers[part], starts[part], ends[part], rows)
            for number, start_ns, end_ns, row in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                yield start_ns, end_ns, name(row), self._at(number)

    def _r5(self) -> None:
        """Works that follow each other without a gap are one span."""
        _, starts, ends = self._records.spans("R5")
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        gaps = np.flatnonzero(starts[1:] > ends[:-1])
        begins = starts[np.concatenate(([0], gaps + 1))] if len(starts) else starts
        closes = ends[np.concatenate((gaps, [len(ends) - 1]))] if len(ends) else ends
        spans = zip(begins.tolist(), closes.tolist(), strict=True)
        self._lanes("R5", ((start_ns, end_ns, "work", ()) for start_ns, end_ns in spans))

    def _regions(self) -> None:
        """A track for each depth, the outermost first: those of one depth do not overlap."""
        names = self._records.region_names()
        numbers, starts, ends = self._records.spans("REGION")
        rows = self._records.rows[numbers]
        for depth in range(int(rows["peer"].max()) + 1 if len(rows) else 0):
            found = np.flatnonzero(rows["peer"] == depth)
            spans: list[Span] = [
                (int(starts[i]), int(ends[i]), names[int(rows["b"][i])].rpartition("/")[2], ())
                for i in found[np.argsort(starts[found], kind="stable")]
            ]
            self._lanes("Regions" if depth == 0 else f"Regions within, {depth}", spans)

    def _calls(self) -> None:
        names = self._records.call_names()
        idx, starts, ends = self._records.spans("CALL")
        spans: list[Span] = []
        now_ns = 0
        for i in np.argsort(starts, kind="stable"):
            start_ns, end_ns = int(starts[i]), int(ends[i])
            if start_ns > now_ns:
                spans.append((now_ns, start_ns, "program", ()))
            call = int(self._records.rows["b"][idx[i]])
            name = "RDMA library" if call == NO_CALL else names.get(call, f"call {call}")
            spans.append((start_ns, end_ns, name, ()))
            now_ns = max(now_ns, end_ns)
        self._lanes("Program and MPI calls", spans)

    def _messages(self, arrivals: Sequence[tuple[int, int, int, Flow]]) -> None:
        spans: list[Span] = [
            (time_ns, time_ns, f"{num_bytes} B from rank {sender}", (flow,))
            for time_ns, sender, num_bytes, flow in arrivals
        ]
        for i in self._records.of("MESSAGE_SENT"):
            row = self._records.rows[i]
            time_ns = int(row["time_ns"])
            spans.append((time_ns, time_ns, f"{row['b']} B to rank {row['peer']}", self._at(i)))
        self._lanes("Messages", sorted(spans, key=lambda span: span[0]))

    def _answers(self) -> None:
        spans: list[Span] = []
        for i in self._records.of("NACK", "ERR", "TIMEOUT"):
            row = self._records.rows[i]
            time_ns = int(row["time_ns"])
            code = f" {row['b']}" if row["kind"] == KINDS["NACK"] else ""
            name = f"{_ANSWERS[int(row['kind'])]}{code}: block {row['a']}"
            spans.append((time_ns, time_ns, name, self._at(i)))
        self._lanes("R5: NACK, ERR, timeout", sorted(spans, key=lambda span: span[0]))

    def _faults(self, story: Story) -> None:
        spans: list[Span] = []
        for fault in story.faults:
            if fault.rank != self._rank:
                continue
            attempt = fault.attempt
            side = f"of rank {attempt.source}" if fault.at_destination else "at the source"
            name = f"page {fault.page:#x}: block {attempt.transaction_id} {side}"
            spans.append((fault.found.time_ns, fault.end_ns, name, self._at(fault.found.row)))
        self._lanes("Page faults", sorted(spans, key=lambda span: span[:2]))
        sent: list[Span] = []
        for i in self._records.of("NACK_SENT"):
            row = self._records.rows[i]
            time_ns = int(row["time_ns"])
            name = f"NACK {row['b']} to rank {row['peer']}"
            sent.append((time_ns, time_ns, name, self._at(i)))
        self._lanes("NACKs sent", sorted(sent, key=lambda span: span[0]))

    def _interrupts(self) -> None:
        spans: list[Span] = []
        for i in self._records.of("HANDLER"):
            row = self._records.rows[i]
            start_ns = int(row["time_ns"])
            name = f"page {int(row['a']):#x}"
            spans.append((start_ns, start_ns + self._costs.handler_ns, name, ()))
        self._lanes("Interrupt handler", sorted(spans, key=lambda span: span[0]))

    def _tasklet(self, jobs: Sequence[Job]) -> None:
        spans: list[Span] = []
        for job in jobs:
            start = job.start
            name = f"page {job.page:#x}" + (f" + {job.num_pages - 1}" if job.num_pages > 1 else "")
            if not job.num_pages:
                name += ", known"
            spans.append((start.time_ns, job.end_ns, name, self._at(start.row)))
        self._lanes("Tasklet", sorted(spans, key=lambda span: span[0]))
        paged: list[Span] = []
        for i in self._records.of("PAGE_IN_DONE"):
            row = self._records.rows[i]
            time_ns = int(row["time_ns"])
            name = f"page {int(row['a']):#x}: {row['b']} were absent"
            paged.append((time_ns, time_ns, name, self._at(i)))
        self._lanes("Page-in done", sorted(paged, key=lambda span: span[0]))

    def _library_thread(self) -> None:
        spans: list[Span] = []
        for i in self._records.of("PAGE_TOUCHED", "TOUCH_SEGFAULT"):
            row = self._records.rows[i]
            time_ns = int(row["time_ns"])
            what = "touch" if row["kind"] == KINDS["PAGE_TOUCHED"] else "segmentation fault"
            spans.append((time_ns, time_ns, f"{what}: page {int(row['a']):#x}", self._at(i)))
        for i in self._records.of("ERR_SENT"):
            row = self._records.rows[i]
            end_ns = int(row["time_ns"])
            name = f"ERR: block {row['a']} of rank {row['peer']}"
            # The arrow leaves where the ERR does: at the end.
            spans.append((end_ns - self._costs.err_send_ns, end_ns, name, ()))
            spans.append((end_ns, end_ns, "ERR leaves", self._at(i)))
        self._lanes("Library thread", sorted(spans, key=lambda span: span[0]))

    # -- values

    def _values(self, name: str, unit: str, points: Sequence[tuple[int, int]]) -> None:
        self._order += 1
        if not points:
            return
        track = self._file.counter(self._process, name, unit, self._order)
        self._file.value(track, 0, 0)
        for idx, (time_ns, value) in enumerate(points):
            if idx + 1 == len(points) or points[idx + 1][0] > time_ns:  # one value a time
                self._file.value(track, time_ns, value)

    def _counters(self, story: Story) -> None:
        outstanding: list[tuple[int, int]] = []
        for attempt in story.attempts:
            if attempt.source != self._rank:
                continue
            if attempt.is_first:
                outstanding.append((attempt.started.time_ns, 1))
            if attempt.acked is not None:
                outstanding.append((attempt.acked.time_ns, -1))
        self._values("Outstanding blocks", "blocks", _sums(sorted(outstanding)))
        self._values("Absent pages", "pages", _sums(absences(story.faults, self._rank)))
        pinned = self._records.rows[self._records.of("PINNED")]
        self._values(
            "Pinned bytes", "bytes", [(int(row["time_ns"]), int(row["a"])) for row in pinned]
        )
        self._values("Bandwidth of the link", "bytes/s", self._bandwidth())

    def _bandwidth(self) -> list[tuple[int, int]]:
        idx, starts, ends = self._records.spans("LINK")
        if not len(idx):
            return []
        num_bytes = (self._records.rows["b"][idx] >> np.uint64(32)).astype(np.int64) * _PACKET_BYTES
        bin_ns = max(1000, int(ends.max()) // _BANDWIDTH_POINTS)
        sums = np.zeros(int(ends.max()) // bin_ns + 2, np.int64)
        np.add.at(sums, starts // bin_ns, num_bytes)
        return [(i * bin_ns, int(total) * 1_000_000_000 // bin_ns) for i, total in enumerate(sums)]


def _sums(changes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    total, points = 0, []
    for time_ns, change in changes:
        total += change
        points.append((time_ns, total))
    return points


def _strategy_name(row: Any) -> str:
    names = {KINDS["TOUCH"]: "touch", KINDS["PIN"]: "pin, unpin", KINDS["COPY"]: "copy"}
    return names[row[_KIND]]


def _block_name(row: Any) -> str:
    block = row[_B]
    again = f", attempt {(block >> 16 & 0xFFFF) + 1}" if block >> 16 & 0xFFFF else ""
    return f"block {block & 0xFFFF} with rank {row[_PEER]}{again}"
