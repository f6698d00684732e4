"""NICs that wait for absent pages by themselves: PCIe ATS and PRI over the range of each cost that
no source gives (rivals-ats), and blocks that find no room while their pages come (rivals-ring)."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from pagewire.cli.experiments.part_transfers import LATENCY_NOTE
from pagewire.cli.kit.numbers import size_text
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.lab import Lab
from pagewire.run.settings.platform import Costs
from pagewire.run.settings.platform import load as load_platform

RANGES: Mapping[str, tuple[int, int]] = {
    "ats_message_ns": (150, 1_000),
    "ats_wakeup_ns": (2_000, 30_000),
    "ats_entry_ns": (100, 2_000),
    "ats_response_ns": (100, 2_000),
    "ats_lookup_ns": (3, 100),
}
"""Assumed costs: the least and the most that we believe."""


def ats(options: Options) -> Result:
    """Latency with every destination page absent, by one cost at the ends of its range."""
    sizes = options.pick([4 << 10, 64 << 10], [4 << 10, 64 << 10, 1 << 20])
    cases: dict[str, Mapping[str, int]] = {"all as assumed": {}}
    cases |= {
        f"{name.removesuffix('_ns')} {value} ns": {name: value}
        for name, ends in RANGES.items()
        for value in ends
    }
    for which, end in (("least", 0), ("most", 1)):
        cases[f"all at the {which}"] = {name: ends[end] for name, ends in RANGES.items()}
    found = options.points.measure(
        {
            label: partial(_with_costs, options, label, costs, sizes)
            for label, costs in cases.items()
        }
    )
    rows = list(found.values())
    return Result(
        columns=[
            Column("costs", "costs"),
            *(Column(f"us_{size}", f"{size_text(size)}, absent", "us", 1) for size in sizes),
            Column("resident_us", f"{size_text(sizes[0])}, resident", "us", 1),
        ],
        rows=rows,
        panels=[
            Panel.over_bytes(
                "size",
                "latency (us)",
                [
                    Series(row["costs"], sizes, [row[f"us_{size}"] for size in sizes])
                    for row in rows
                    if row["costs"].startswith("all ")
                ],
            )
        ],
        notes=f"""
            Writes under memory strategy ats, every page of the destination absent. In each row one
            assumed cost is at an end of its range, the others are the platform's; the last two rows
            have all of them there.

            {LATENCY_NOTE}
        """,
        varied={"run.memory": "ats", "costs.ats_*": "ends of their ranges"},
    )


def _with_costs(
    options: Options, label: str, costs: Mapping[str, int], sizes: list[int]
) -> dict[str, Any]:
    settings = options.settings()
    platform = load_platform(settings.run.platform)
    changed = dataclasses.replace(platform, costs=Costs({**platform.costs.as_dict(), **costs}))
    with Lab(settings=settings, memory="ats", platform=changed, max_size=max(sizes)) as lab:
        times_us = {f"us_{size}": lab.write(size, absent="all").latency_us for size in sizes}
        return {"costs": label, **times_us, "resident_us": lab.write(sizes[0]).latency_us}


ROOM = {"ats": "ats.buffer_blocks", "backup-ring": "odp.backup_blocks"}
"""By memory strategy: the setting that says how many blocks wait for their pages."""


def ring(options: Options) -> Result:
    """Latency of a long write to absent pages, by the room for blocks that wait."""
    num_bytes = options.pick(256 << 10, 1 << 20, 4 << 20)
    rooms = [0, 1, 4, 16, 64]
    found = options.points.measure(
        {f"room for {room}": partial(_with_room, options, room, num_bytes) for room in rooms}
    )
    rows = list(found.values())
    return Result(
        columns=[
            Column("room", "room", "blocks"),
            *(Column(f"us_{memory}", memory, "us", 1) for memory in ROOM),
            *(Column(f"dropped_{memory}", f"dropped, {memory}") for memory in ROOM),
        ],
        rows=rows,
        panels=[
            Panel(
                "blocks that the receiver can keep",
                "latency (us)",
                [Series.of(memory, rows, "room", f"us_{memory}") for memory in ROOM],
                log_y=True,
            )
        ],
        notes=f"""
            A write of {size_text(num_bytes)}, every page of the destination absent, window of 16
            blocks. A block without room is dropped, and its source sends it again at the timeout:
            with room for none this is the cold ring.

            {LATENCY_NOTE}
        """,
        varied={
            "run.memory": ", ".join(ROOM),
            **dict.fromkeys(ROOM.values(), ", ".join(map(str, rooms))),
            "firmware.window_blocks": "16",
        },
    )


def _with_room(options: Options, room: int, num_bytes: int) -> dict[str, Any]:
    row: dict[str, Any] = {"room": room}
    for memory, setting in ROOM.items():
        settings = options.settings("firmware.window_blocks=16", f"{setting}={room}")
        with Lab(settings=settings, memory=memory, max_size=num_bytes) as lab:
            outcome = lab.write(num_bytes, absent="all")
            row[f"us_{memory}"] = outcome.latency_us
            row[f"dropped_{memory}"] = outcome.counters["blocks_dropped"]
    return row
