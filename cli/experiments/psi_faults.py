"""PSI figures 4.1 to 4.7: touch and pin, and page faults at either end of a loopback transfer, by
timeout and by the way to page in.

As in the thesis everything happens on one node: the R5 sends to its own node, so that both ends
share the SMMU's context bank, the interrupt handler and the tasklet. What differs: the platform is
the one that the user chose, by default the later prototype's, and its costs are the same for both
ways.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pagewire.cli.experiments.part_transfers import (
    BY_STRATEGY,
    STRATEGY_NOTE,
    Lines,
    as_result,
    measure,
)
from pagewire.cli.kit.numbers import powers_of_two
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.lab import Lab, Outcome
from pagewire.lab.transfer import all_pages


class Way(NamedTuple):
    """One of the thesis's two ways to page in."""

    title: str
    settings: tuple[str, ...]


WAYS: Mapping[str, Way] = {
    "touch_a_page": Way("Touch-A-Page", ("driver.page_in=touch-a-page", "run.policy=page")),
    "touch_ahead": Way("Touch-Ahead", ("driver.page_in=touch-ahead", "run.policy=block")),
}
MACHINE_SETTINGS = ("ni.interleave=packet", "driver.variant=psi")
"""Blocks that are issued together arrive packet by packet in turn, and the driver is the
thesis's."""
TIMEOUTS = {"1ms": "1 ms", "2.5ms": "2.5 ms", "25ms": "25 ms"}
DRAWN_TIMEOUT = "1 ms"
"""Where the lines of all timeouts would hide each other."""
BOTH = "both ends"
SIDES = {"destination": "destination", "source": "source", "both": BOTH}
WITH_SOURCE = {"source": "source only", "both": BOTH}
"""Where faults are in figures 4.5 and 4.6."""

MACHINE_NOTE = (
    "One node that sends to itself (R5 loopback): source and destination share context bank, "
    "handler and tasklet; a packet passes both halves of the NI and no hop, so the platform's hop "
    "latency plays no part. Two blocks that are issued together "
    "arrive packet by packet in turn (ni.interleave = packet)."
)
LATENCY_NOTE = (
    "Latency: virtual time from the user's call to the last acknowledgement at the source's R5. "
    "All pages of the faulting end are absent at the call; those of the other end are resident, "
    "with warm TLBs."
)
WAYS_NOTE = (
    "Touch-A-Page: one Netlink message and one touch for a fault (policy page). Touch-Ahead: "
    "get_user_pages on up to 4 pages (policy block). Faults at the destination end in an ERR; "
    "after one at the source only the timeout sends the block again. What a step of the thesis's "
    'driver costs is partly assumed (docs/machine.md, "Two drivers").'
)


def _sizes(options: Options) -> list[int]:
    return powers_of_two(16, 64 << 10)[:: options.pick(4, 1)]


def _varied(timeouts: Iterable[str]) -> dict[str, str]:
    varied = {way.title: ", ".join(way.settings) for way in WAYS.values()}
    return varied | {"run.timeout": ", ".join(timeouts)}


def _settings(way: Way, timeout: str) -> tuple[str, ...]:
    return (*MACHINE_SETTINGS, *way.settings, f"run.timeout={timeout}")


def _lab(options: Options, way: Way, timeout: str, sizes: Sequence[int]) -> Lab:
    config = options.settings(*_settings(way, timeout))
    return Lab(nodes=1, settings=config, memory="part", max_size=max(sizes))


def _transfer(lab: Lab, num_bytes: int, sides: str, source_step: int = 1) -> Outcome:
    """Absent: every page of the destination, every source_step-th one of the source."""
    pages = all_pages(num_bytes)
    return lab.write(
        num_bytes,
        source_absent=pages[::source_step] if sides in ("source", "both") else (),
        absent=pages if sides in ("destination", "both") else (),
    )


class _Line(NamedTuple):
    way: str
    what: str
    y: list[float]


def _merged(lines: Sequence[_Line], sizes: Sequence[int]) -> list[Series]:
    """Lines over timeouts; those that coincide become one, whose label names them all."""
    groups: dict[tuple[float, ...], list[_Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line.y), []).append(line)
    found = []
    for y, group in groups.items():
        ways = list(dict.fromkeys(line.way for line in group))
        timeouts = list(dict.fromkeys(line.what for line in group))
        way = ways[0] if len(ways) == 1 else "either way"
        found.append(Series(f"{way}, timeout {', '.join(timeouts)}", sizes, y))
    return found


def _paired(lines: Sequence[_Line], sizes: Sequence[int]) -> list[Series]:
    """Touch-Ahead is dashed, so that a line of Touch-A-Page below shows."""
    dashed = WAYS["touch_ahead"].title
    return [
        Series(f"{line.way}, {line.what}", sizes, line.y, dashed=line.way == dashed)
        for line in lines
    ]


def _by_end(lines: Sequence[_Line], sizes: Sequence[int]) -> list[Series]:
    """One line for both ways where they agree; both ends is dashed, so that the other shows
    below."""
    found = []
    for what in dict.fromkeys(line.what for line in lines):
        own = [line for line in lines if line.what == what]
        agree = all(line.y == own[0].y for line in own)
        found += [
            Series(
                f"{'either way' if agree else line.way}, {what}", sizes, line.y, dashed=what == BOTH
            )
            for line in (own[:1] if agree else own)
        ]
    return found


def latencies(options: Options, sides: str) -> Result:
    """A line for each way and timeout, and one without fault. sides: that fault, of SIDES."""
    sizes = _sizes(options)
    cases = list(itertools.product(WAYS, TIMEOUTS))
    lines: Lines = {
        "no_fault": (
            "no fault",
            partial(_transfer, sides="none"),
            _settings(WAYS["touch_ahead"], "1ms"),
        ),
        **{
            f"{name}_{timeout}": (
                f"{WAYS[name].title} {TIMEOUTS[timeout]}",
                partial(_transfer, sides=sides),
                _settings(WAYS[name], timeout),
            )
            for name, timeout in cases
        },
    }
    rows, deviation_note = measure(options, lines, sizes, num_nodes=1)
    drawn = [
        _Line(WAYS[name].title, TIMEOUTS[timeout], [row[f"{name}_{timeout}"] for row in rows])
        for name, timeout in cases
        if f"{name}_{timeout}" in rows[0]
    ]
    no_fault = Series.of("no fault", rows, "num_bytes", "no_fault", dashed=True)
    return Result(
        columns=[
            SIZE,
            *(Column(key, line[0], "us", 1) for key, line in lines.items() if key in rows[0]),
        ],
        rows=rows,
        panels=_latency_panels(drawn, no_fault),
        notes=[MACHINE_NOTE, LATENCY_NOTE, WAYS_NOTE, deviation_note],
        varied=_varied(TIMEOUTS.values()),
    )


def _latency_panels(lines: Sequence[_Line], without: Series) -> list[Panel]:
    """All lines; where they are too close to each other to be told apart, one timeout's besides."""
    sizes = [int(size) for size in without.x]
    axes = partial(Panel.over_bytes, "transfer size", "latency (us)")
    merged = [*_merged(lines, sizes), without]
    if len(merged) <= 1 + 2 * len(WAYS):
        return [axes(merged)]
    drawn = [line for line in lines if line.what == DRAWN_TIMEOUT]
    return [
        axes(merged, title="all timeouts"),
        axes(_paired(drawn, sizes), title=f"timeout {DRAWN_TIMEOUT} only"),
    ]


def figure_4_1(options: Options) -> Result:
    """Writes without faults, alone and behind touch or pin."""
    lines = {key: (title, once, MACHINE_SETTINGS) for key, (title, once, _) in BY_STRATEGY.items()}
    return as_result(options, lines, _sizes(options), MACHINE_NOTE, STRATEGY_NOTE, num_nodes=1)


def figure_4_5(options: Options) -> Result:
    """Latency with faults at the source only, beside both ends."""
    lines: Lines = {
        f"{sides}_{name}": (
            f"{what}, {way.title}",
            partial(_transfer, sides=sides),
            _settings(way, "1ms"),
        )
        for sides, what in WITH_SOURCE.items()
        for name, way in WAYS.items()
    }
    notes = MACHINE_NOTE, WAYS_NOTE
    return as_result(
        options, lines, _sizes(options), *notes, num_nodes=1, latency_note=LATENCY_NOTE
    )


STEPS = {1: "every page", 2: "every other page"}
"""Which pages of the source are absent in figure 4.6."""


def figure_4_6(options: Options) -> Result:
    """Timeouts of a transfer, with faults at the source only and at both ends."""
    sizes = powers_of_two(options.pick(16 << 10, 4096), 64 << 10)
    cases = list(itertools.product(STEPS, WITH_SOURCE))

    def rows_of(way: Way, timeout: str) -> list[dict[str, Any]]:
        lab = _lab(options, way, timeout, sizes)
        rows: list[dict[str, Any]] = [
            {"way": way.title, "timeout": TIMEOUTS[timeout], "num_bytes": size} for size in sizes
        ]
        for step, sides in cases:
            for row in rows:
                outcome = _transfer(lab, row["num_bytes"], sides, step)
                row[f"{sides}_{step}"] = outcome.counters["timeouts"]
        return rows

    measures = {
        f"{way.title} {text}": partial(rows_of, way, timeout)
        for way in WAYS.values()
        for timeout, text in TIMEOUTS.items()
    }
    by_label = options.points.measure(measures)
    drawn = [rows for rows in by_label.values() if rows[0]["timeout"] == DRAWN_TIMEOUT]
    return Result(
        columns=[
            Column("way", "way"),
            Column("timeout", "timeout"),
            SIZE,
            *(
                Column(f"{sides}_{step}", f"{WITH_SOURCE[sides]}, {STEPS[step]}")
                for step, sides in cases
            ),
        ],
        rows=[row for rows in by_label.values() for row in rows],
        panels=[
            Panel.over_bytes(
                "transfer size",
                "timeouts",
                _by_end(
                    [
                        _Line(rows[0]["way"], what, [row[f"{sides}_{step}"] for row in rows])
                        for rows in drawn
                        for sides, what in WITH_SOURCE.items()
                    ],
                    sizes,
                ),
                log_y=False,
                title=f"{pages} of the source absent",
            )
            for step, pages in STEPS.items()
        ],
        notes=f"""
            {MACHINE_NOTE}

            {WAYS_NOTE}

            Drawn for a timeout of {DRAWN_TIMEOUT}. Both ends: every page of the destination is
            absent too.

            An ERR can save a timeout only if some packet of the block could be read and reached the
            destination: not where every page of the source is absent.
        """,
        varied=_varied(TIMEOUTS.values()),
        numbers="counts of the engine's mechanism",
    )


def figure_4_7(options: Options) -> Result:
    """Driver time and handler invocations of one transfer."""
    sizes = _sizes(options)
    rows: list[dict[str, Any]] = [
        {"faults": text, "num_bytes": num_bytes} for text in SIDES.values() for num_bytes in sizes
    ]

    def counters_of(way: Way) -> list[list[int]]:
        """Driver time and handlers, for each row."""
        lab = _lab(options, way, "1ms", sizes)
        cases = itertools.product(SIDES, sizes)
        counters = [_transfer(lab, num_bytes, sides).counters for sides, num_bytes in cases]
        return [[each["page_in_ns"], each["fault_interrupts"]] for each in counters]

    found = options.points.measure({way.title: partial(counters_of, way) for way in WAYS.values()})
    ways = {name: way.title for name, way in WAYS.items() if way.title in found}
    columns = [Column("faults", "faults at"), SIZE]
    for name, title in ways.items():
        columns.append(Column(f"{name}_time", f"{title} driver", "us", 1))
        columns.append(Column(f"{name}_handlers", f"{title} handlers"))
        for row, (time_ns, count) in zip(rows, found[title], strict=True):
            row |= {f"{name}_time": time_ns / 1e3, f"{name}_handlers": count}

    def panel(key: str, label: str, title: str) -> Panel:
        lines = [
            _Line(way, what, [row[f"{name}_{key}"] for row in rows if row["faults"] == what])
            for name, way in ways.items()
            for what in SIDES.values()
        ]
        return Panel.over_bytes("transfer size", label, _paired(lines, sizes), title=title)

    return Result(
        columns=columns,
        rows=rows,
        panels=[
            panel("time", "driver time (us)", "driver time"),
            panel("handlers", "invocations of the handler", "handler invocations"),
        ],
        notes=f"""
            {MACHINE_NOTE}

            {WAYS_NOTE}

            Driver time: CPU time of handler and tasklet in one transfer of which all pages of the
            faulting end are absent. The user-space thread's wake-up and touch are not in it.

            Timeout 1 ms. Repetitions would agree to the ns.
        """,
        varied=_varied(["1 ms"]),
    )
