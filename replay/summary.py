"""What a trace has in it, in numbers: ranks, calls, messages, pages, and how dense it is."""

import collections
import dataclasses
import os
from typing import Any

from pagewire.native import lib
from pagewire.replay.records import (
    Call,
    Compute,
    Lost,
    Name,
    Pages,
    Region,
    Send,
)
from pagewire.replay.trace import ALL_RANKS, OPS, REGIONS, Reader
from pagewire.replay.walk import ONE_SIDED

_PRESENT = (int(lib.PW_PAGE_PRESENT), int(lib.PW_PAGE_WRITE_PROTECTED))


@dataclasses.dataclass(slots=True)
class Summary:
    """Sums over all ranks."""

    num_ranks: int
    file_bytes: int
    raw_bytes: int
    num_records: int = 0
    num_messages: int = 0
    message_bytes: int = 0
    num_one_sided: int = 0
    """Puts, gets and atomic operations."""
    one_sided_bytes: int = 0
    compute_ns: int = 0
    pages_touched: int = 0
    """By the program, as it left them before a message."""
    num_regions: int = 0
    end_ns: int | None = None
    """Virtual time at which the last rank ended, if the trace has times."""
    calls: dict[str, int] = dataclasses.field(default_factory=dict)
    lost: dict[str, int] = dataclasses.field(default_factory=dict)
    phases: dict[str, int] = dataclasses.field(default_factory=dict)
    meta: dict[str, Any] = dataclasses.field(default_factory=dict)
    cut: str = ""

    @property
    def num_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def bytes_per_call(self) -> float | None:
        return self.file_bytes / self.num_calls if self.num_calls else None


def summarize(reader: Reader) -> Summary:
    """Reads every record once."""
    found = Summary(
        num_ranks=reader.num_ranks,
        file_bytes=os.path.getsize(reader.path),
        raw_bytes=sum(chunk.raw_bytes for chunk in reader.chunks),
        num_records=sum(chunk.num_records for chunk in reader.chunks if chunk.kind == OPS),
        meta=reader.meta(),
        cut=reader.cut,
    )
    calls: collections.Counter[str] = collections.Counter()
    lost: collections.Counter[str] = collections.Counter()
    phases: collections.Counter[str] = collections.Counter()
    for rank in range(reader.num_ranks):
        _add_rank(reader, rank, found, calls, lost, phases)
    found.calls, found.lost = dict(calls.most_common()), dict(lost.most_common())
    found.phases = dict(phases)
    found.num_regions = sum(
        chunk.num_records
        for chunk in reader.chunks
        if chunk.kind == REGIONS and chunk.rank != ALL_RANKS
    )
    return found


def _add_rank(
    reader: Reader,
    rank: int,
    found: Summary,
    calls: collections.Counter[str],
    lost: collections.Counter[str],
    phases: collections.Counter[str],
) -> None:
    names: dict[int, str] = {}
    by_name: collections.Counter[int] = collections.Counter()
    for record in reader.records(rank):
        if isinstance(record, Call):
            by_name[record.name_idx] += 1
        elif isinstance(record, Send):
            found.num_messages += 1
            found.message_bytes += record.num_bytes
        elif isinstance(record, ONE_SIDED):
            found.num_one_sided += 1
            found.one_sided_bytes += record.num_bytes
        elif isinstance(record, Compute):
            found.compute_ns += record.ns
        elif isinstance(record, Pages):
            if record.state in _PRESENT:
                found.pages_touched += record.count
        elif isinstance(record, Name):
            names[record.idx] = record.text
        elif isinstance(record, Region):
            phases[record.text] += 1
        elif isinstance(record, Lost):
            lost[record.text] += 1
    for idx, count in by_name.items():
        calls[names.get(idx, f"name {idx}")] += count
    for now_ns in reader.times(rank):
        found.end_ns = max(found.end_ns or 0, now_ns)
