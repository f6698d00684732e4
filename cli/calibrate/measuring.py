"""`pagewire calibrate`: measure this host, print what was found, write a platform file."""

from __future__ import annotations

import datetime
import os
import platform as host_platform
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from pagewire.cli.calibrate import constants, host
from pagewire.cli.calibrate.samples import NOISY_SPREAD, Samples, size_text
from pagewire.cli.kit.output import console_of, plain_table
from pagewire.cli.launch import launch
from pagewire.native.settings import ConfigError
from pagewire.run.settings import platform, platform_file


def measure(base: str, output: str, *, is_quick: bool, folder: str) -> int:
    """base: platform whose values stay where a host cannot be asked; folder: empty, the system's
    for temporary files."""
    platform_file.check_path("--output", output)
    launch.check_writable("--output", output)
    before = platform.load(base)
    where = f"measured on {host_platform.node()}, {datetime.date.today().isoformat()}"
    place = folder or tempfile.gettempdir()
    if not os.path.isdir(place):
        raise ConfigError(f"--folder '{place}': there is no such folder")
    if not is_quick:
        print("pagewire: measuring, some 5 s", file=sys.stderr, flush=True)
    found = host.measure(host.QUICK if is_quick else host.NORMAL, place)
    measured = constants.of_host(found, where)
    show(found, measured, before)
    if output:
        kept = len(before.cost_origins) + len(before.table_origins) - len(measured.entries)
        quick = " With --quick: too short to mean anything." if is_quick else ""
        platform_file.write(
            output,
            base,
            measured.entries,
            description=f"{before.description}; memory and threads of {host_platform.node()}",
            comment=[
                f"Written by pagewire calibrate: {len(measured.entries)} costs {where}.{quick}",
                f"The other {kept} are those of {before.name}: a host has no such part.",
                *(f"Not measured: {text}" for text in found.missing),
            ],
        )
        print(f"pagewire: {output}", file=sys.stderr)
    return 0


def show(found: host.Found, measured: constants.Measured, before: platform.Platform) -> None:
    """Tables of the samples, and of the costs that come of them."""
    console = console_of()
    console.print(_samples_table(found))
    for name, line in measured.lines.items():
        console.print(
            f"{name}: {_time(line.fixed_ns)} a call and {_time(line.page_ns)} a page; the line "
            f"misses a size by at most {line.worst_error:.0%}",
            highlight=False,
        )
    console.print(_costs_table(measured.entries, before))
    doubtful = [each.title for each in found.samples if each.doubt]
    if doubtful:
        console.print(
            f"noisy (quartiles apart by more than {NOISY_SPREAD:.0%} of the median) or drifting: "
            f"{', '.join(doubtful)}. Other programs on this host do that; measure again when it is "
            "idle.",
            highlight=False,
        )
    for text in found.missing:
        console.print(f"not measured: {text}", highlight=False, markup=False)
    if found.cores[0] == found.cores[1]:
        console.print("one core: a wake-up takes the core from its sender, and says little")


def _samples_table(found: host.Found) -> Table:
    heads = ("samples", "median", "quartiles", "a page", "")
    table = plain_table("operation", *heads, title="this host")
    for each in found.samples:
        low, high = each.quartiles_ns
        table.add_row(
            each.title,
            str(len(each.ns)),
            _time(each.median_ns),
            f"{_time(low)} - {_time(high)}",
            _rate(each),
            each.doubt,
        )
    return table


def _costs_table(entries: Mapping[str, Mapping[str, Any]], before: platform.Platform) -> Table:
    table = plain_table("cost", "here", f"in {before.name}", title="costs")
    for name, entry in entries.items():
        section, _, key = name.partition(".")
        if section == "tables":
            now = [(size, cost) for size, cost in entry["points"]]
            old = [(size, before.tables[key].cost_ns(size)) for size, _ in now]
            table.add_row(name, _time_points(now), _time_points(old))
        else:
            table.add_row(name, _time(entry["value"]), _time(getattr(before.costs, f"{key}_ns")))
    return table


def _time_points(points: list[tuple[int, int]]) -> str:
    """The first point and the last."""
    ends = [points[0], points[-1]] if len(points) > 1 else points
    return " .. ".join(f"{size_text(size)}: {_time(cost)}" for size, cost in ends)


def _rate(each: Samples) -> str:
    """By page where there are several, by second for what moves bytes."""
    if each.name.startswith("copy"):
        return f"{each.num_bytes / max(each.median_ns, 1e-3):.2f} GB/s"
    return _time(each.median_ns * 4096 / each.num_bytes) if each.num_bytes > 4096 else ""


def _time(ns: float) -> str:
    if ns < 1e3:
        return f"{ns:.3g} ns" if ns < 100 else f"{ns:.0f} ns"
    return f"{ns / 1e3:.4g} us" if ns < 1e6 else f"{ns / 1e6:.4g} ms"
