"""What do the page faults of one job cost another one on the same machine?"""

from functools import partial
from typing import Any

from pagewire.cli.experiments.net_replays import (
    NUMBERS,
    add_slowdowns,
    bars_and_marks,
    replayed,
    settings_of,
    total,
)
from pagewire.cli.kit.result import Column, Options, Panel, Result
from pagewire.replay.made import Jobs
from pagewire.replay.patterns import Shape, Synthetic

PLACEMENTS = ("packed", "round-robin", "random:1")
NEIGHBOURS = {"none": None, "resident": 0.0, "faulting": 1.0}
"""Share of fresh pages of the other job's; None: it does nothing."""

HALO = "halo3d:6"
STEPS = 5
MORE_STEPS = 4
"""Times as many has the neighbour, so that it is there until the end."""


def net_neighbours(options: Options) -> Result:
    """Time of a job by its neighbour and by placement."""
    size = options.pick(8, 32, 512)
    found = options.points.measure(
        {
            f"{placement}, neighbour {neighbour}": partial(
                _row, options, size, placement, neighbour
            )
            for placement in PLACEMENTS
            for neighbour in NEIGHBOURS
        }
    )
    rows = list(found.values())
    add_slowdowns(rows, "placement", lambda row: row["neighbour"] == "none")
    return Result(
        columns=[
            Column("placement", "placement"),
            Column("neighbour", "neighbour"),
            Column("time_us", "time", "us", 1),
            Column("slowdown", "slowed by", "%", 1),
            Column("sent_again", "blocks sent again"),
        ],
        rows=rows,
        panels=[_panel(rows)],
        notes=f"""
            Two jobs of {size} ranks, each a cube whose ends are joined; every rank sends 64 KiB to
            6 neighbours and computes 20 us. The job that is timed has touched all of its memory; it
            goes {STEPS} steps, the neighbour {MORE_STEPS * STEPS}. Both run under part. Its pages:
            none (it does nothing), resident, or each receive into new ones.

            Packed jobs have boards of their own and do not meet. Scattered ones share the links
            between boards, and there a neighbour that faults costs less than one that does not:
            it waits for its pages more than it sends, blocks sent again included.
        """,
        varied={
            "network.model": "links",
            "network.placement": ", ".join(PLACEMENTS),
            "run.memory": "part",
        },
        numbers=NUMBERS,
    )


def _panel(rows: list[dict[str, Any]]) -> Panel:
    slowed = {
        neighbour: [row["slowdown"] for row in rows if row["neighbour"] == neighbour]
        for neighbour in ("resident", "faulting")
    }
    return bars_and_marks(
        "placement; pages of the neighbour",
        "slowed by (%)",
        [row["placement"] for row in rows],
        slowed,
    )


def _row(options: Options, size: int, placement: str, neighbour: str) -> dict[str, Any]:
    shape = Shape(num_bytes=64 << 10, steps=STEPS, compute_ns=20_000)
    fresh = NEIGHBOURS[neighbour]
    other = Shape(
        num_bytes=64 << 10, steps=MORE_STEPS * STEPS, compute_ns=20_000, fresh=fresh or 0.0
    )
    jobs = [Synthetic(HALO, size, each) for each in (shape, other)]
    trace = Jobs(jobs, only=0 if fresh is None else None)
    settings = settings_of(options, f"network.placement={placement}", "run.memory=part")
    outcome = replayed(trace, settings)
    return {
        "placement": placement,
        "neighbour": neighbour,
        "time_us": outcome.jobs_s[0] * 1e6,
        "sent_again": total(outcome, "retransmitted_blocks"),
    }
