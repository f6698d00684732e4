"""What the authors name as next steps: a timeout from distance and rate [R5 4.2, 4.4], a FIFO that
knows two blocks [PSI 5.2 (3)]. When and by whom the ERR is sent is part-err's."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments.part_transfers import LATENCY_NOTE
from pagewire.cli.kit.numbers import powers_of_two
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.lab import Lab
from pagewire.lab.transfer import all_pages

STEPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "published": ("as published", ()),
    "auto": ("timeout auto", ("firmware.timeout=auto",)),
    "turns": ("blocks in turns", ("ni.interleave=packet",)),
    "two": ("the same, FIFO knows two", ("ni.interleave=packet", "ni.fifo_remembers=2")),
}
"""Title and settings of each line."""
FIFO = ("turns", "two")
"""Whose entries in the FIFO are shown."""
ENDS = ("destination", "source")


def _column(options: Options, settings: Sequence[str], sizes: Sequence[int]) -> list[list[float]]:
    """By end and size: us, and entries that the FIFO took."""
    lab = Lab(settings=options.settings("run.policy=all", *settings), max_size=max(sizes))
    found = []
    for end in ENDS:
        for num_bytes in sizes:
            pages = all_pages(num_bytes)
            done = lab.write(
                num_bytes,
                absent=pages if end == "destination" else (),
                source_absent=pages if end == "source" else (),
            )
            found.append([done.latency_us, done.counters["fifo_pushed"]])
    return found


def part_next(options: Options) -> Result:
    """Latency with every page of one end absent, with each step and without."""
    sizes = powers_of_two(4096, options.pick(64 << 10, 4 << 20))
    rows: list[dict[str, Any]] = [
        {"end": end, "num_bytes": num_bytes} for end in ENDS for num_bytes in sizes
    ]
    measures = {title: partial(_column, options, each, sizes) for title, each in STEPS.values()}
    found = options.points.measure(measures)
    there = {key: title for key, (title, _) in STEPS.items() if title in found}
    for key, title in there.items():
        for row, (latency_us, num_entries) in zip(rows, found[title], strict=True):
            row[key] = latency_us
            if key in FIFO:
                row[f"{key}_entries"] = num_entries
    return Result(
        columns=[
            Column("end", "absent at"),
            SIZE,
            *(Column(key, title, "us", 1) for key, title in there.items()),
            *(Column(f"{key}_entries", f"entries, {there[key]}") for key in FIFO if key in there),
        ],
        rows=rows,
        panels=[_panel(rows, there, end) for end in ENDS],
        notes=f"""
            Policy all, timeout 1 ms where it is not auto. Every page of one end is absent.

            auto: a fault at the source is over sooner, and blocks go again before all pages of the
            destination are in. Blocks in turns arrive packet by packet: a FIFO that knows one block
            takes a page again and again, one that knows two takes it once.

            {LATENCY_NOTE}
        """,
        varied={"run.policy": "all", **{title: ", ".join(each) for title, each in STEPS.values()}},
    )


def _panel(rows: Sequence[dict[str, Any]], titles: Mapping[str, str], end: str) -> Panel:
    own = [row for row in rows if row["end"] == end]
    lines = Series.over_sizes(own, titles)
    return Panel.over_bytes("transfer size", "latency (us)", lines, title=f"absent at the {end}")
