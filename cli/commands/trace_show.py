"""What `pagewire trace` prints of a trace: its figures, its records, and what is wrong with it."""

import collections
import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import Iterable, Iterator

from pagewire.cli.kit.output import console_of, plain_table
from pagewire.cli.kit.progress import say
from pagewire.native.settings import ConfigError
from pagewire.replay import records
from pagewire.replay.check import check
from pagewire.replay.summary import Summary, summarize
from pagewire.replay.trace import Reader

_SHOWN = 20
"""Sentences of one kind."""


@contextlib.contextmanager
def opened(path: str) -> Iterator[Reader]:
    """A trace; of one that a kill has cut off a line says so."""
    with Reader(path) as reader:
        if reader.cut:
            say(reader.cut)
        yield reader


def show_info(file: str) -> None:
    """Tables of what is in a trace."""
    with opened(file) as reader:
        found = summarize(reader)
    console = console_of()
    table = plain_table(file, "")
    for name, text in _figures(found):
        table.add_row(name, text)
    console.print(table)
    for title, counts in (
        ("call", found.calls),
        ("phase", found.phases),
        ("not recorded (LOST)", found.lost),
    ):
        if counts:
            table = plain_table(title, "times")
            for name, count in counts.items():
                table.add_row(name, f"{count:,}")
            console.print()
            console.print(table)


def _figures(found: Summary) -> Iterator[tuple[str, str]]:
    yield "program", " ".join(map(str, found.meta.get("program", ["not said"])))
    yield "ranks", f"{found.num_ranks:,}"
    yield "records", f"{found.num_records:,}"
    yield "MPI calls", f"{found.num_calls:,}"
    yield "messages", f"{found.num_messages:,}"
    yield "bytes sent", f"{found.message_bytes:,}"
    if found.num_one_sided:
        yield "one-sided operations", f"{found.num_one_sided:,}"
        yield "bytes put and got", f"{found.one_sided_bytes:,}"
    yield "computed (s)", f"{found.compute_ns / 1e9:,.6f}"
    yield "pages touched by the program", f"{found.pages_touched:,}"
    if found.end_ns is not None:
        yield "virtual time (s)", f"{found.end_ns / 1e9:,.9f}"
    yield "file (bytes)", f"{found.file_bytes:,}"
    yield "unpacked (bytes)", f"{found.raw_bytes:,}"
    if found.bytes_per_call is not None:
        yield "bytes per MPI call", f"{found.bytes_per_call:,.1f}"


def print_records(file: str, rank: int, first: int, count: int) -> None:
    """A record a line; rank, count: -1 for all."""
    with opened(file) as reader, contextlib.suppress(BrokenPipeError):
        if not -1 <= rank < reader.num_ranks:
            raise ConfigError(f"--rank {rank}: the trace has ranks 0 to {reader.num_ranks - 1}")
        for each in range(reader.num_ranks) if rank < 0 else [rank]:
            _print_rank(reader, each, first, count)
        sys.stdout.flush()
        return
    # Whoever reads has enough; nothing is to be flushed when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_rank(reader: Reader, rank: int, first: int, count: int) -> None:
    times = reader.times(rank)
    names: dict[int, str] = {}
    for idx, record in enumerate(reader.records(rank)):
        if 0 <= count <= idx - first:
            return
        if isinstance(record, records.Name):
            names[record.idx] = record.text
        now_ns = next(times, None) if isinstance(record, (records.Leave, records.End)) else None
        if idx >= first:
            print(rank, idx, text_of(record, names, now_ns))


def text_of(record: records.Record, names: dict[int, str], now_ns: int | None) -> str:
    """A record as a line."""
    parts = [type(record).__name__.upper()]
    if isinstance(record, records.Call):
        parts.append(names.get(record.name_idx, f"name {record.name_idx}"))
    else:
        for field in dataclasses.fields(record):
            value = getattr(record, field.name)
            if field.name == "flags":
                parts += records.flag_names(record)
            elif field.name not in ("ignored", "data") or value:
                shown = repr(value) if isinstance(value, str) else "any" if value is None else value
                parts.append(f"{field.name}={shown}")
    if now_ns is not None:
        parts.append(f"at {now_ns:,} ns")
    return " ".join(map(str, parts))


def show_check(file: str) -> int:
    """Sentences of what is wrong; how many."""
    with Reader(file) as reader:
        num_wrong = _say_some(check(reader))
        num_records = sum(chunk.num_records for chunk in reader.chunks)
    if not num_wrong:
        print(f"{file}: ok: {reader.num_ranks} ranks, {num_records:,} records")
    return num_wrong


def _say_some(sentences: Iterable[str]) -> int:
    """Print them, of those that differ in numbers only the first; how many there are."""
    counts: collections.Counter[str] = collections.Counter()
    for sentence in sentences:
        kind = re.sub(r"\d+", "0", sentence)
        counts[kind] += 1
        if counts[kind] <= _SHOWN:
            print(sentence)
    for count in counts.values():
        if count > _SHOWN:
            print(f"... and {count - _SHOWN:,} more of a kind of which {_SHOWN} are shown")
    return counts.total()
