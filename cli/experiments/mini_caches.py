"""MINI figures 4.2 and 4.3, tables 4.5 to 4.7: eight kernels over caches of different shape."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments.mini_ratios import as_vmmc
from pagewire.cli.experiments.mini_streams import KERNELS, Kernel
from pagewire.cli.experiments.mini_svm import Run, run
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series

SIZES, LINES, WAYS = (8192, 16384, 32768), (8, 16, 64, 128), (2, 4, 8)
STREAM_NOTE = (
    "Page-level streams of kernels with the same communication, not SPLASH-2 itself: "
    "cli/experiments/mini_streams.py says what is alike and what is not."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """Of a VMH cache, in the thesis's sizes."""

    entries: int = 16384
    line_pages: int = 64
    ways: int = 4

    @property
    def label(self) -> str:
        return f"{self.entries} entries, {self.line_pages} pages a line, {self.ways} ways"

    def settings(self, shrink: int) -> tuple[str, ...]:
        """The cache shrinks with the data, by the square; lines and ways stay."""
        return (
            f"mini.vmh_entries={self.entries // shrink**2}",
            f"mini.vmh_line_pages={self.line_pages}",
            f"mini.vmh_ways={self.ways}",
        )


def _shrink(options: Options) -> int:
    return int(options.pick(4, 2, 1))


def _shapes(options: Options) -> list[Shape]:
    """All of them, or each quantity varied by itself; only shapes of which one set fits."""
    if options.quick:
        return [Shape(line_pages=line) for line in (8, 64)]
    if options.full:
        return [Shape(*each) for each in itertools.product(SIZES, LINES, WAYS)]
    varied = [
        *(Shape(entries=size) for size in SIZES),
        *(Shape(line_pages=line) for line in LINES),
        *(Shape(ways=ways) for ways in WAYS),
    ]
    return list(dict.fromkeys(varied))


def _kernels(options: Options) -> list[Kernel]:
    chosen = ("FFT", "Water-nsquared") if options.quick else tuple(KERNELS)
    return [KERNELS[name](_shrink(options)) for name in chosen]


def _run(options: Options, kernel: Kernel, unit: str, *assignments: str) -> Run:
    config = as_vmmc(
        options,
        f"run.translation={unit}",
        "run.memory=part",
        "memory_backend.backend=model",
        *assignments,
    )
    return run(config, kernel)


def _scale_note(options: Options) -> str:
    shrink = _shrink(options)
    if shrink == 1:
        return "The thesis's sizes."
    return (
        f"Data and caches are 1/{shrink**2} of the thesis's (--full: all of it), which the column "
        "of entries does not show; lines and ways are not scaled."
    )


def _sweep_row(options: Options, kernel: Kernel, shape: Shape) -> dict[str, Any]:
    done = _run(options, kernel, "mini", *shape.settings(_shrink(options)))
    lookups = max(done.lookups, 1)
    cold = {path: done.misses(f"cold_{path}") for path in ("send", "receive")}
    rest = {path: done.misses(f"misses_{path}") - cold[path] for path in cold}
    return {
        "kernel": kernel.name,
        "size": kernel.size,
        "entries": shape.entries,
        "line": shape.line_pages,
        "ways": shape.ways,
        **{f"cold_{path}": 100 * count / lookups for path, count in cold.items()},
        **{f"rest_{path}": 100 * count / lookups for path, count in rest.items()},
        "ratio": 100 * (sum(cold.values()) + sum(rest.values())) / lookups,
        "speedup": done.speedup,
    }


def _panels(rows: Sequence[dict[str, Any]], key: str, label: str) -> list[Panel]:
    """One for each quantity, over the default of the two others."""
    order, usual = list(KERNELS), Shape()
    default = {"entries": usual.entries, "line": usual.line_pages, "ways": usual.ways}
    panels = []
    for varied in default:
        title = "pages of a line" if varied == "line" else varied
        fixed = {name: value for name, value in default.items() if name != varied}
        chosen = [row for row in rows if fixed.items() <= row.items()]
        chosen.sort(key=lambda row: (order.index(row["kernel"]), row[varied]))
        panels.append(Panel(title, label, Series.by("kernel", chosen, varied, key), log_x=True))
    return panels


def _swept(options: Options, key: str, label: str, columns: Sequence[Column], note: str) -> Result:
    cases = {
        f"{kernel.name}, {shape.label}": (kernel, shape)
        for kernel in _kernels(options)
        for shape in _shapes(options)
    }
    measures = {label: partial(_sweep_row, options, *case) for label, case in cases.items()}
    rows = list(options.points.measure(measures).values())
    return Result(
        columns=[
            Column("kernel", "kernel"),
            Column("entries", "entries"),
            Column("line", "line", "pages"),
            Column("ways", "ways"),
            *columns,
            Column("ratio", "misses", "%", 3),
        ],
        rows=rows,
        panels=_panels(rows, key, label),
        notes=[STREAM_NOTE, _scale_note(options), note],
        varied={"run.translation": "mini", "mini.vmh_*": "see the rows"},
    )


def figure_4_2(options: Options) -> Result:
    """Miss ratio by path, cold and not cold."""
    columns = [
        Column("cold_send", "cold, send", "%", 3),
        Column("cold_receive", "cold, receive", "%", 3),
        Column("rest_send", "not cold, send", "%", 3),
        Column("rest_receive", "not cold, receive", "%", 3),
    ]
    note = (
        "Look-ups count the pages of each block that is sent or arrives, again when it is sent "
        "again; cold: the page was never in this NIC's cache before."
    )
    return _swept(options, "ratio", "misses of all look-ups (%)", columns, note)


def figure_4_3(options: Options) -> Result:
    """Speedup of four nodes of two processors against one processor."""
    note = (
        "Speedup: the kernel's flops at the platform's rate on one processor, over the time of "
        "four nodes of two processors with their accesses."
    )
    columns = [Column("speedup", "speedup")]
    return _swept(options, "speedup", "speedup of eight processors", columns, note)


def _against_base(options: Options, kernel: Kernel) -> dict[str, Any]:
    shape = Shape().settings(_shrink(options))
    base = _run(options, kernel, "static")
    costs = _run(options, kernel, "mini", *shape)
    measured = f"mini.miss_times={kernel.name.lower()}"  # the thesis's application of that name
    drawn = _run(options, kernel, "mini", *shape, measured)
    return {
        "kernel": kernel.name,
        "size": kernel.size,
        "base_ms": base.time_ns / 1e6,
        "mini_ms": costs.time_ns / 1e6,
        "slowdown": 100 * (costs.time_ns / base.time_ns - 1),
        "drawn": 100 * (drawn.time_ns / base.time_ns - 1),
        "speedup_base": base.speedup,
        "speedup": costs.speedup,
    }


def table_4_5(options: Options) -> Result:
    """Slowdown against the base system, misses in the time of costs and as measured."""
    kernels = {kernel.name: kernel for kernel in _kernels(options)}
    measures = {name: partial(_against_base, options, each) for name, each in kernels.items()}
    rows = list(options.points.measure(measures).values())
    names = [str(row["kernel"]) for row in rows]
    places = list(range(len(rows)))
    return Result(
        columns=[
            Column("kernel", "kernel"),
            Column("size", "size"),
            Column("base_ms", "base", "ms"),
            Column("mini_ms", "miNI", "ms"),
            Column("slowdown", "slowdown", "%"),
            Column("drawn", "slowdown, miss times as measured", "%"),
            Column("speedup_base", "speedup, base"),
            Column("speedup", "speedup, miNI"),
        ],
        rows=rows,
        panels=[
            Panel(
                ", ".join(f"{place} {name}" for place, name in zip(places, names, strict=True)),
                "slowdown (%)",
                [
                    Series("component costs", places, [float(row["slowdown"]) for row in rows]),
                    Series("miss times as measured", places, [float(row["drawn"]) for row in rows]),
                ],
            )
        ],
        notes=f"""
            {STREAM_NOTE}

            {_scale_note(options)}

            Base: run.translation = static, every page registered at the start. Miss times as
            measured: mini.miss_times draws from the thesis's tables 4.6 and 4.7, which are inputs
            there.
        """,
        varied={"run.translation": "static, mini", "mini.miss_times": "platform, by kernel"},
    )


BINS = {
    "10us": "0-10",
    "20us": "10-20",
    "50us": "20-50",
    "100us": "50-100",
    "200us": "100-200",
    "500us": "200-500",
    "longer": ">500",
}
"""Counters' names of a miss's times, and which us are in each."""


def _bin_counts(options: Options, kernel: Kernel, which: str) -> list[int]:
    done = _run(options, kernel, "mini", *Shape().settings(_shrink(options)))
    return [done.counters[f"miss_{which}_{name}"] for name in BINS]


def miss_times(options: Options, which: str, quantity: str) -> Result:
    """Per cent of the misses in each bin. which: `delays`, from interrupt to thread, or `works`."""
    rows: list[dict[str, Any]] = []
    measures = {each.name: partial(_bin_counts, options, each, which) for each in _kernels(options)}
    for kernel, counts in options.points.measure(measures).items():
        total = max(sum(counts), 1)
        shares = {name: 100 * count / total for name, count in zip(BINS, counts, strict=True)}
        rows.append({"kernel": kernel, "misses": sum(counts), **shares})
    return Result(
        columns=[
            Column("kernel", "kernel"),
            Column("misses", "misses"),
            *(Column(name, head, "%") for name, head in BINS.items()),
        ],
        rows=rows,
        panels=[
            Panel(
                f"{quantity} (us)",
                "misses (%)",
                categories=[str(row["kernel"]) for row in rows],
                stacks=[
                    (f"{head} us", [float(row[name]) for row in rows])
                    for name, head in BINS.items()
                ],
            )
        ],
        notes=f"""
            {STREAM_NOTE}

            {_scale_note(options)}

            Out of component costs (mini.miss_times = platform): the delay has the wait behind other
            misses in it, the work depends on how many pages of the line were pinned already. The
            thesis's own tables are in smmu/mini/mini.c, for mini.miss_times.
        """,
        varied={"run.translation": "mini"},
    )
