"""Below which size is touching better than PART? [PART 5.1, 5.4]: strategy hybrid over its
threshold."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments.part_transfers import LATENCY_NOTE
from pagewire.cli.kit.numbers import mean, powers_of_two, size_text
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.lab import Lab
from pagewire.lab.transfer import all_pages

PAGES: Mapping[str, str] = {"none": "resident", "half": "half absent", "all": "all absent"}
ABSENT = {"none": slice(0), "half": slice(1, None, 2), "all": slice(None)}
"""Which pages of the destination."""


def part_hybrid(options: Options) -> Result:
    """Mean latency over sizes, by threshold and by the pages that are there."""
    sizes = powers_of_two(4096, options.pick(64 << 10, 8 << 20))
    thresholds = [0, *sizes[1:], 2 * sizes[-1]]
    found = options.points.measure(
        {
            f"touch below {size_text(each)}": partial(_row, options, each, sizes)
            for each in thresholds
        }
    )
    rows = list(found.values())
    best = {which: min(rows, key=lambda row: row[which])["below"] for which in PAGES if rows}
    return Result(
        columns=[
            Column("below", "touched below", "B"),
            *(Column(which, f"mean latency, {title}", "us", 1) for which, title in PAGES.items()),
        ],
        rows=rows,
        panels=[
            Panel.over_bytes(
                "strategy.touch_below",
                "mean latency (us)",
                [
                    Series.of(title, [row for row in rows if row["below"]], "below", which)
                    for which, title in PAGES.items()
                ],
            )
        ],
        notes=f"""
            Writes of {", ".join(map(size_text, sizes))} under memory strategy hybrid, policy all;
            the mean over these sizes. 0: nothing is touched (PART); above the largest: all is.

            Best threshold: {", ".join(f"{PAGES[key]} {size_text(best[key])}" for key in best)}. It
            holds for this platform, and for programs whose messages have these sizes equally often.

            {LATENCY_NOTE}
        """,
        varied={"run.memory": "hybrid", "run.policy": "all", "strategy.touch_below": "0 and sizes"},
    )


def _row(options: Options, below: int, sizes: Sequence[int]) -> dict[str, Any]:
    settings = options.settings(f"strategy.touch_below={below}B")
    lab = Lab(settings=settings, policy="all", memory="hybrid", max_size=max(sizes))
    row: dict[str, Any] = {"below": below}
    for which in PAGES:
        row[which] = mean(
            [lab.write(size, absent=all_pages(size)[ABSENT[which]]).latency_us for size in sizes]
        )
    return row
