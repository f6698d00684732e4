"""PART figure 14: latency when each page of the destination is absent with some probability."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments.part_transfers import LATENCY_NOTE
from pagewire.cli.kit.numbers import deviation, mean, size_text
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.lab import Lab, Outcome
from pagewire.lab.buffer import PAGE_BYTES
from pagewire.lab.transfer import all_pages, random_pages
from pagewire.native.settings import ConfigError

POLICIES = {"page": "PIO", "all": "PIA"}
SIZES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
PERCENT = (0, 1, 5, 10, 20, 40, 80, 100)

PAGES_A_SEED = 64
"""A seed draws at least so many pages, by as many transfers as that takes: a single transfer of a
page would mostly be without fault at 1 %."""

Draw = Callable[[int, int, random.Random], list[int]]
"""The absent pages of a transfer of so many bytes at so many per cent."""


def _exact(num_bytes: int, percent: int, draw: random.Random) -> list[int]:
    """PART 6.1.1: s pages at probability f fault s f times, rounded down."""
    pages = all_pages(num_bytes)
    return sorted(draw.sample(pages, len(pages) * percent // 100))


def _independent(num_bytes: int, percent: int, draw: random.Random) -> list[int]:
    return random_pages(num_bytes, percent / 100, draw)


def _clustered(run_pages: int, num_bytes: int, percent: int, draw: random.Random) -> list[int]:
    """As many as exact, in runs of so many pages, the last one shorter; runs may touch."""
    pages = all_pages(num_bytes)
    num_absent = len(pages) * percent // 100
    runs = [run_pages] * (num_absent // run_pages)
    if num_absent % run_pages:
        runs.append(num_absent % run_pages)
    # The present pages stand between the runs: a place for each run among them, in order.
    places = sorted(draw.choices(range(len(pages) - num_absent + 1), k=len(runs)))
    absent: list[int] = []
    for place, length in zip(places, runs, strict=True):
        first = place + len(absent)
        absent += range(first, first + length)
    return absent


def _draw(how: str) -> Draw:
    """What --draw names; raises ConfigError."""
    name, _, run_pages = how.partition(":")
    if name == "clustered" and run_pages.isdecimal() and int(run_pages) > 0:
        return partial(_clustered, int(run_pages))
    if how not in _DRAWS:
        allowed = "exact, independent, or clustered:K with runs of K pages, e.g. clustered:4"
        raise ConfigError(f"--draw '{how}': allowed is one of {allowed}")
    return _DRAWS[how]


_DRAWS: Mapping[str, Draw] = {"exact": _exact, "independent": _independent}


def figure_14(options: Options) -> Result:
    """Fault probability x policy x size; one seed a repetition."""
    draw = _draw(options.draw)
    sizes = options.pick(SIZES[:3], SIZES)
    percents = options.pick((0, 20, 100), PERCENT)
    found = options.points.measure(
        {
            f"policy {name}": partial(_rows, options, policy, sizes, percents, draw)
            for policy, name in POLICIES.items()
        }
    )
    rows = [row for some in found.values() for row in some]
    return Result(
        columns=[
            Column("policy", "policy"),
            SIZE,
            Column("percent", "fault probability", "%"),
            Column("absent", "absent pages", "", 1),
            Column("latency", "latency", "us"),
            Column("deviation", "deviation", "us"),
            Column("slowdown", "slowdown", "x"),
            Column("handlers", "handler runs", "", 1),
        ],
        rows=rows,
        panels=[
            *(_panel(rows, name, "latency", "latency (us)") for name in POLICIES.values()),
            *(_panel(rows, name, "slowdown", "slowdown (x)") for name in POLICIES.values()),
        ],
        notes=f"""
            {options.repetitions} seeds; each draws absent pages of the destination (--draw
            {options.draw}), in as many transfers as it takes to draw from {PAGES_A_SEED} pages.
            exact: of s pages s x f rounded down are absent, so that without a whole page nothing
            faults [PART 6.1.1]; independent: each is by chance; clustered:K: as many as exact, in
            runs of K. Mean, and standard deviation between the seeds' means. Slowdown is against
            the same size and policy at 0 %.

            {LATENCY_NOTE}
        """,
        varied={"run.policy": "page, all", "--draw": options.draw},
    )


def _rows(
    options: Options, policy: str, sizes: Sequence[int], percents: Sequence[int], draw: Draw
) -> list[dict[str, Any]]:
    """Of one policy."""
    seeds = range(1, options.repetitions + 1)
    rows = []
    lab = Lab(settings=options.settings(), policy=policy, memory="part", max_size=max(sizes))
    for num_bytes in sizes:
        base_us = 0.0
        for percent in percents:
            by_seed = [_transfers(lab, num_bytes, percent, seed, draw) for seed in seeds]
            times = [mean([each.latency_ns / 1e3 for each in some]) for some in by_seed]
            outcomes = [each for some in by_seed for each in some]
            base_us = base_us or mean(times)
            rows.append(
                {
                    "policy": POLICIES[policy],
                    "num_bytes": num_bytes,
                    "percent": percent,
                    "absent": mean([each.absent_pages for each in outcomes]),
                    "latency": mean(times),
                    "deviation": deviation(times),
                    "slowdown": mean(times) / base_us,
                    "handlers": mean([each.counters["fault_interrupts"] for each in outcomes]),
                }
            )
    return rows


def _transfers(lab: Lab, num_bytes: int, percent: int, seed: int, draw: Draw) -> list[Outcome]:
    numbers = random.Random(seed)
    rounds = range(max(1, PAGES_A_SEED * PAGE_BYTES // num_bytes))
    return [lab.write(num_bytes, absent=draw(num_bytes, percent, numbers)) for _ in rounds]


def _panel(rows: Sequence[dict[str, Any]], policy: str, key: str, label: str) -> Panel:
    """A line a size."""
    part = [row | {"size": size_text(row["num_bytes"])} for row in rows if row["policy"] == policy]
    bars = "deviation" if key == "latency" else ""
    lines = Series.by("size", part, "percent", key, deviation=bars)
    return Panel("fault probability (%)", label, lines, log_y=True, title=policy)
