"""`pagewire replay --path`: the critical path through a run, by part of the machine, MPI call and
buffer."""

import collections
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pagewire.replay import path
from pagewire.replay.replay import Settings
from pagewire.replay.trace import Reader

_ROWS = 10
_MOST = 3
"""Parts that a row names."""
_SMALL = 5e-5
"""A share below it is not named."""
_WIDTH = 80


def measure(file: str, settings: Settings, matching: str, touch: str) -> dict[str, Any]:
    """Of one replay, as its JSON holds it. Raises as `path.found` does."""
    with Reader(file) as trace:
        found = path.found(trace, settings, matching=matching, touch=touch)
    return {
        "run_s": found.run_ns / 1e9,
        "ranks": found.ranks,
        "parts": _sums(found, "part"),
        "calls": _sums(found, "call"),
        "buffers": _sums(found, "rank", "buffer"),
        "pieces": [
            {**_named(piece._asdict()), "ns": ns}
            for piece, ns in sorted(found.pieces.items(), key=lambda item: -item[1])
        ],
    }


def _sums(found: path.Path, *fields: str) -> list[dict[str, Any]]:
    """The largest first, each cut by part; what is about no buffer is in no sum of buffers."""
    sums: dict[tuple[Any, ...], collections.Counter[str]]
    sums = collections.defaultdict(collections.Counter)
    for piece, ns in found.pieces.items():
        if "buffer" not in fields or piece.buffer is not None:
            sums[tuple(getattr(piece, field) for field in fields)][piece.part] += ns
    made = []
    for key, parts in sorted(sums.items(), key=lambda item: -item[1].total()):
        entry = _named(dict(zip(fields, key, strict=True)))
        entry["share"] = parts.total() / found.run_ns
        if "part" not in fields:
            entry["parts"] = {part: ns / found.run_ns for part, ns in parts.most_common()}
        made.append(entry)
    return made


def _named(entry: dict[str, Any]) -> dict[str, Any]:
    """With the members of a buffer in its place."""
    if entry.get("buffer") is not None:
        entry |= entry["buffer"]._asdict()
    entry.pop("buffer", None)
    return entry


def show(found: Mapping[str, Any]) -> None:
    """Print a table for each way to cut it."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    parts = Table(box=None, pad_edge=False, header_style="bold")
    parts.add_column("part")
    parts.add_column("of the path", justify="right")
    for each in found["parts"]:
        parts.add_row(each["part"], f"{100 * each['share']:.2f} %")
    console.print(parts)
    console.print(_table("MPI call", found["calls"], [each["call"] for each in found["calls"]]))
    if found["buffers"]:
        console.print(_table("buffer", found["buffers"], list(map(buffer_name, found["buffers"]))))
    told = (
        f"The critical path of {found['run_s']:.6f} s goes over {len(set(found['ranks']))} ranks "
        f"and from one to another {len(found['ranks']) - 1:,} times."
    )
    console.print(told, highlight=False)


def buffer_name(each: Mapping[str, Any]) -> str:
    """Of an entry of `buffers`."""
    return f"rank {each['rank']}: region {each['region']} {each['offset']:+,}"


def _table(head: str, entries: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (head, "of the path", "most of it"):
        table.add_column(name, justify="right" if name == "of the path" else "left")
    for each, name in list(zip(entries, names, strict=True))[:_ROWS]:
        named = [
            f"{part} {100 * share:.2f}"
            for part, share in list(each["parts"].items())[:_MOST]
            if share >= _SMALL
        ]
        table.add_row(name, f"{100 * each['share']:.2f} %", ", ".join(named))
    left = entries[_ROWS:]
    if left:
        share = sum(each["share"] for each in left)
        table.add_row(f"{len(left):,} more", f"{100 * share:.2f} %", "")
    return table
