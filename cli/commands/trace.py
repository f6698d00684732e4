"""`pagewire trace`: look at recorded programs, cut, join and change them."""

import collections
import contextlib
import dataclasses
import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import typer

from pagewire.cli.commands.application import app
from pagewire.cli.kit.output import console_of, plain_table
from pagewire.cli.kit.progress import say
from pagewire.native.settings import ConfigError
from pagewire.replay import records
from pagewire.replay.anonymise import anonymise as without_names
from pagewire.replay.check import check as check_trace
from pagewire.replay.cut import Calls, Phase
from pagewire.replay.cut import cut as cut_trace
from pagewire.replay.summary import Summary, summarize
from pagewire.replay.trace import Reader
from pagewire.replay.trace import merge as merge_parts

_SHOWN = 20
"""Sentences of one kind."""

trace_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Look at recorded programs, make some, cut, join and convert them.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(trace_app, name="trace")

File = Annotated[str, typer.Argument(metavar="FILE.pwt", show_default=False)]
Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE.pwt", help="the trace to write")
]


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Reader]:
    """A trace; of one that a kill has cut off a line says so."""
    with Reader(path) as reader:
        if reader.cut:
            say(reader.cut)
        yield reader


@trace_app.command()
def info(file: File) -> int:
    """Show what is in a trace: ranks, calls, messages, pages, what it lacks, bytes per call."""
    with _opened(file) as reader:
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
    return 0


def _figures(found: Summary) -> Iterator[tuple[str, str]]:
    yield "program", str(found.meta.get("program", "not said"))
    yield "ranks", f"{found.num_ranks:,}"
    yield "records", f"{found.num_records:,}"
    yield "MPI calls", f"{found.num_calls:,}"
    yield "messages", f"{found.num_messages:,}"
    yield "bytes sent", f"{found.message_bytes:,}"
    yield "computed (s)", f"{found.compute_ns / 1e9:,.6f}"
    yield "pages touched by the program", f"{found.pages_touched:,}"
    if found.end_ns is not None:
        yield "virtual time (s)", f"{found.end_ns / 1e9:,.9f}"
    yield "file (bytes)", f"{found.file_bytes:,}"
    yield "unpacked (bytes)", f"{found.raw_bytes:,}"
    if found.bytes_per_call is not None:
        yield "bytes per MPI call", f"{found.bytes_per_call:,.1f}"


@trace_app.command("print")
def print_records(
    file: File,
    rank: Annotated[int, typer.Option(help="only this one's; -1: every rank's")] = -1,
    first: Annotated[int, typer.Option("--from", help="number of the first record")] = 0,
    count: Annotated[int, typer.Option(help="so many records of a rank; -1: all")] = -1,
) -> int:
    """Print a record a line: rank, number, name, fields; at a LEAVE the virtual time."""
    with _opened(file) as reader, contextlib.suppress(BrokenPipeError):
        if not -1 <= rank < reader.num_ranks:
            raise ConfigError(f"--rank {rank}: the trace has ranks 0 to {reader.num_ranks - 1}")
        for each in range(reader.num_ranks) if rank < 0 else [rank]:
            _print_rank(reader, each, first, count)
        sys.stdout.flush()
        return 0
    # Whoever reads has enough; nothing is to be flushed when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


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
    if isinstance(record, (records.Call, records.Lost)):
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


@trace_app.command()
def check(file: File) -> int:
    """Look for what is wrong with a trace without running it; exit code 1 if something is.

    Damaged chunks, wrong numbers, messages that nobody receives or sends, operations that are never
    waited for.
    """
    with Reader(file) as reader:
        num_wrong = _say_some(check_trace(reader))
        num_records = sum(chunk.num_records for chunk in reader.chunks)
    if num_wrong:
        return 1
    print(f"{file}: ok: {reader.num_ranks} ranks, {num_records:,} records")
    return 0


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


@trace_app.command()
def cut(
    file: File,
    output: Output,
    phase: Annotated[
        str, typer.Option(metavar="NAME", help="a phase that the program has marked")
    ] = "",
    occurrence: Annotated[
        int, typer.Option(metavar="N", help="the N-th time that it is in the phase", min=1)
    ] = 1,
    calls: Annotated[
        str,
        typer.Option(metavar="A:B", help="the MPI calls A to B - 1 of each rank, counted from 0"),
    ] = "",
) -> int:
    """Make a trace of a part of one: a phase, or some calls of every rank.

    It is refused if a message, an operation or a meeting would be cut in two.
    """
    if bool(phase) == bool(calls):
        raise ConfigError("trace cut needs --phase NAME or --calls A:B, and not both")
    with _opened(file) as reader:
        cut_trace(reader, Phase(phase, occurrence) if phase else _parse_calls(calls), output)
    return 0


def _parse_calls(text: str) -> Calls:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        raise ConfigError(f"--calls {text}: allowed is A:B with A below B, as 100:200")
    return Calls(int(match[1]), int(match[2]))


@trace_app.command()
def merge(
    output: Annotated[str, typer.Argument(metavar="FILE.pwt", show_default=False)],
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", show_default=False)
    ] = None,
) -> int:
    """Make one trace of what each rank has written: of the PARTs, in the order of ranks, or of
    FILE.pwt.0, FILE.pwt.1 ...; a run that was killed leaves these.
    """
    found = parts or _parts_of(output)
    for sentence in merge_parts(found, output):
        say(sentence)
    return 0


def _parts_of(path: str) -> Sequence[str]:
    """FILE.0 to FILE.N-1; a gap is an error."""
    pattern = re.compile(re.escape(path) + r"\.(\d+)")
    names = glob.glob(glob.escape(path) + ".*")
    ranks = sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))
    if not ranks:
        raise ConfigError(f"there is no '{path}.0': name the parts behind the file to write")
    missing = [rank for rank, found in enumerate(ranks) if rank != found]
    if missing:
        raise ConfigError(f"there is no '{path}.{missing[0]}', and '{path}.{ranks[-1]}' is there")
    return [f"{path}.{rank}" for rank in ranks]


@trace_app.command()
def anonymise(file: File, output: Output) -> int:
    """Make a trace that may be given away: program, names of phases and addresses go."""
    with _opened(file) as reader:
        for sentence in without_names(reader, output):
            say(sentence)
    return 0
