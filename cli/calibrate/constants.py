"""Which cost of a platform file each measurement stands for; the entries of that file.

What the machine's own parts take (R5, NI, SMMU, link, interrupt handler, tasklet) no host has, and
so the base's stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli.calibrate.host import Found
from pagewire.cli.calibrate.samples import Line, Samples, line_through, rising
from pagewire.lab.buffer import PAGE_BYTES

_TABLES: Mapping[str, tuple[str, str]] = {
    "touch_resident": ("touch resident", "first byte of each resident page read and written"),
    "touch_absent": ("touch absent", "first byte of each absent anonymous page written"),
    "pin_resident": ("pin resident", "mlock of resident pages"),
    "pin_absent": ("pin absent", "mlock of absent anonymous pages"),
    "unpin": ("unpin", "munlock of resident pages"),
    "mmap": ("mmap", "mmap of anonymous memory"),
    "munmap": ("munmap", "munmap of resident anonymous memory"),
    "copy": ("copy cold", "memcpy of memory that was not used for 128 MiB of others"),
}
"""Table of the platform: the operation, and how it was measured."""
_POINTS = {"touch_absent_page": "touch_absent", "touch_resident_page": "touch_resident"}
"""Costs that are the first point of a table."""
_LINES = (
    (
        "page in",
        "page_in_fixed page_in_page",
        "madvise(MADV_POPULATE_WRITE) of absent pages, which is get_user_pages from a system call",
    ),
    ("pin absent", "miss_pin_fixed miss_pin_page", "mlock of absent pages"),
)
"""Costs of a call and of each page in it, by a line over sizes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """Entries of a platform file by "section.name", and the lines behind some of them."""

    entries: Mapping[str, Mapping[str, Any]]
    lines: Mapping[str, Line]
    """by the name of the operation"""


def of_host(found: Found, where: str) -> Measured:
    """where: "measured on HOST, DATE", which begins every source."""
    entries: dict[str, dict[str, Any]] = {}
    lines: dict[str, Line] = {}

    def add(name: str, ns: float, how: str, points: Sequence[Samples] = ()) -> None:
        source = f"{where}: {how}; {_quality(points)}" if points else f"{where}: {how}"
        value = max(1, round(ns))
        entries[f"costs.{name}"] = {"value": value, "unit": "ns", "source": source}

    for table, (operation, how) in _TABLES.items():
        points = found.of(operation)
        if not points:
            continue
        costs = rising([each.median_ns for each in points])
        entries[f"tables.{table}"] = {
            "size_unit": "B",
            "time_unit": "ns",
            "points": [[each.num_bytes, ns] for each, ns in zip(points, costs, strict=True)],
            "source": f"{where}: {how}; {_quality(points)}",
        }
    for name, table in _POINTS.items():
        if f"tables.{table}" in entries:
            first = entries[f"tables.{table}"]["points"][0]
            if first[0] == PAGE_BYTES:
                add(name, first[1], f"the first point of tables.{table}")
    for operation, names, how in _LINES:
        line = line_through(found.of(operation), PAGE_BYTES)
        if line is None:
            continue
        lines[operation] = line
        fit = f"{how}; line over sizes, off by at most {line.worst_error:.0%}"
        for name, ns in zip(names.split(), (line.fixed_ns, line.page_ns), strict=True):
            add(name, ns, fit)
    for name, operation, how in (
        ("clock_read", "clock", "clock_gettime(CLOCK_MONOTONIC)"),
        ("lookup", "look-up in a tree", "tfind among 2048 entries"),
        ("netlink", "netlink, send", "sendto of 32 B to a Netlink socket of this process"),
    ):
        for each in found.of(operation):
            add(name, each.median_ns, how, [each])
    sending, waiting = found.cores
    # The thread's word comes by Netlink.
    for each in [*found.of("netlink, wake-up"), *found.of("eventfd, wake-up")][:1]:
        how = f"{each.name} from the sender's return, cores {sending} and {waiting}"
        add("user_wakeup", each.median_ns, how, [each])
    cached, on_disk = found.of("file page, cached"), found.of("file page, on disk")
    if cached and on_disk and on_disk[0].median_ns > cached[0].median_ns:
        both = "touch of a file's page that is on the disk, less that of one in the page cache"
        apart_ns = on_disk[0].median_ns - cached[0].median_ns
        add("major_fault", apart_ns, both, [*on_disk, *cached])
    return Measured(entries, lines)


def _quality(points: Sequence[Samples]) -> str:
    """How far the samples of a source may be trusted."""
    doubts = sorted({each.doubt for each in points} - {""})
    spread = max(each.spread for each in points)
    least = min(len(each.ns) for each in points)
    text = f"median of {least} or more, quartiles apart by up to {spread:.0%}"
    return f"{text} ({', '.join(doubts)})" if doubts else text
