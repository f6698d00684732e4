"""Which network does a halo exchange want, and what do page faults change?"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from pagewire.cli.experiments.net_replays import (
    NUMBERS,
    bars_and_marks,
    busiest,
    replayed,
    settings_of,
    time_us,
    total,
)
from pagewire.cli.kit.result import Column, Options, Panel, Result
from pagewire.replay.patterns import Shape, Synthetic

SIDES = (4, 6, 16)
"""Of the cube of nodes: quick, default, full."""

MEMORIES = ("pretouch", "part")
FRESH = (0.0, 0.1)


def topologies(side: int) -> Mapping[str, str]:
    """Of side ** 3 nodes, by title."""
    tree = f"fat-tree:3;{side},{side},{side};1,{side}"
    return {
        "torus": f"torus:{side}x{side}x{side}",
        "fat tree": f"{tree},{side};1,1,1",
        "fat tree, half": f"{tree},{side // 2};1,1,1",
        "the machine's own": "qfdb",
    }


def net_halo(options: Options) -> Result:
    """Time of a halo exchange by topology, share of fresh pages and memory strategy."""
    side = options.pick(*SIDES)
    nets = topologies(side)
    found = options.points.measure(
        {
            f"{title}, {fresh:.0%} fresh, {memory}": partial(
                _row, options, side, title, fresh, memory
            )
            for title in nets
            for fresh in FRESH
            for memory in MEMORIES
        }
    )
    rows = list(found.values())
    return Result(
        columns=[
            Column("topology", "topology"),
            Column("fresh", "fresh"),
            Column("memory", "memory"),
            Column("time_us", "time", "us", 1),
            Column("mean_busy", "links busy", "%", 1),
            Column("hottest_busy", "hottest", "%", 1),
            Column("longest_wait_us", "longest wait", "us", 1),
            Column("timeouts", "timeouts"),
        ],
        rows=rows,
        panels=[_panel(rows, fresh) for fresh in FRESH],
        notes=f"""
            {side**3:,} ranks in a cube whose ends are joined send 32 KiB to each of 6 neighbours
            and compute 50 us, 3 times; a share of the receives goes into memory that nobody has
            touched. Ranks stand in order. Busy is of the run's time; the hottest link's, of all.
            Half: half as many links at the top of the tree as at its bottom.

            On the torus each message has a link to itself, on the trees neighbours share some, and
            the machine's own has one way out of each board for four nodes. Fresh pages make the
            torus's run several times as long. On the machine's own they hardly show where that way
            is busy all the time, as with {SIDES[1] ** 3} ranks, and do where it is not, as with
            {SIDES[2] ** 3:,}: page-ins hide behind a crowded network.
        """,
        varied={
            "network.model": "links",
            "network.topology": ", ".join(nets.values()),
            "run.memory": ", ".join(MEMORIES),
        },
        numbers=NUMBERS,
    )


def _panel(rows: list[dict[str, Any]], fresh: float) -> Panel:
    shown = [row for row in rows if row["fresh"] == fresh]
    times = {
        memory: [row["time_us"] for row in shown if row["memory"] == memory] for memory in MEMORIES
    }
    return bars_and_marks(
        "topology",
        "time of the run (us)",
        [row["topology"] for row in shown],
        times,
        f"{fresh:.0%} of the receives into fresh memory",
    )


def _row(options: Options, side: int, title: str, fresh: float, memory: str) -> dict[str, Any]:
    shape = Shape(num_bytes=32 << 10, steps=3, compute_ns=50_000, fresh=fresh)
    settings = settings_of(
        options, f"network.topology={topologies(side)[title]}", f"run.memory={memory}"
    )
    outcome = replayed(Synthetic("halo3d:6", side**3, shape), settings)
    return {
        "topology": title,
        "fresh": fresh,
        "memory": memory,
        "time_us": time_us(outcome),
        **busiest(outcome),
        "timeouts": total(outcome, "timeouts"),
    }
