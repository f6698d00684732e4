"""What does one slow node cost all others of a halo exchange?"""

from functools import partial
from typing import Any

from pagewire.cli.experiments.net_replays import (
    NUMBERS,
    add_slowdowns,
    bars_and_marks,
    replayed,
    settings_of,
    time_us,
)
from pagewire.cli.kit.result import Column, Options, Panel, Result
from pagewire.replay import slowed
from pagewire.replay.patterns import Shape, Synthetic

SLOW = 5
"""The rank."""

FACTORS = (2, 10)
FRESH = (0.0, 0.1)
STEPS = 5
COMPUTE_NS = 100_000
PARTS = (slowed.COMPUTE, "page-in", "R5")
"""What is slower: compute, or all costs of a part of the machine (replay/slowed.py)."""


def net_slow_node(options: Options) -> Result:
    """Time of a halo exchange by what is slower at one of its nodes, and how much."""
    side = options.pick(2, 4, 8)
    cases = {("nothing", 1): "nothing"} | {
        (part, factor): f"{part} by {factor}" for part in PARTS for factor in FACTORS
    }
    found = options.points.measure(
        {
            f"{label}, {fresh:.0%} fresh": partial(_row, options, side, fresh, *case)
            for fresh in FRESH
            for case, label in cases.items()
        }
    )
    rows = list(found.values())
    add_slowdowns(rows, "fresh", lambda row: row["part"] == "nothing")
    return Result(
        columns=[
            Column("fresh", "fresh"),
            Column("part", "slower"),
            Column("factor", "times"),
            Column("time_us", "time", "us", 1),
            Column("slowdown", "all slowed by", "%", 1),
            Column("first_us", "first rank ends", "us", 1),
            Column("own_us", "slow rank ends", "us", 1),
        ],
        rows=rows,
        panels=[_panel(rows, fresh) for fresh in FRESH],
        notes=f"""
            {side**3} ranks, a cube whose ends are joined on a torus of that shape; each sends 64
            KiB to 6 neighbours and computes {COMPUTE_NS // 1000} us, {STEPS} times; a share of the
            receives goes into memory that nobody has touched, under part. At rank {SLOW} one thing
            takes so many times as long.

            Where nobody faults, all others lose what the slow node computes more, in each step.
            Where a tenth of the receives faults, every rank waits for some page-in of a neighbour
            in each step, and what the slow node takes longer shows only beyond that.
        """,
        varied={
            "network.model": "links",
            "network.topology": "a torus of the ranks' cube",
            "run.memory": "part",
        },
        numbers=NUMBERS,
    )


def _panel(rows: list[dict[str, Any]], fresh: float) -> Panel:
    slow = [row for row in rows if row["fresh"] == fresh and row["factor"] in FACTORS]
    by_factor = {
        f"{factor} times as slow": [row["slowdown"] for row in slow if row["factor"] == factor]
        for factor in FACTORS
    }
    return bars_and_marks(
        "what is slower at one node",
        "all slowed by (%)",
        [row["part"] for row in slow],
        by_factor,
        f"{fresh:.0%} of the receives into fresh memory",
    )


def _row(options: Options, side: int, fresh: float, part: str, factor: int) -> dict[str, Any]:
    shape = Shape(num_bytes=64 << 10, steps=STEPS, compute_ns=COMPUTE_NS, fresh=fresh)
    settings = settings_of(
        options, f"network.topology=torus:{side}x{side}x{side}", "run.memory=part"
    )
    slow = settings
    for name in slowed.names(settings):
        if slowed.group_of(name) == part:
            slow, _ = slowed.slowed(slow, name, factor)
    outcome = replayed(Synthetic("halo3d:6", side**3, shape), settings, {SLOW: slow})
    ends = [each["virtual_time_ns"] / 1e3 for each in outcome.per_rank]
    return {
        "fresh": fresh,
        "part": part,
        "factor": factor,
        "time_us": time_us(outcome),
        "first_us": min(ends),
        "own_us": ends[SLOW],
    }
