"""Which memory strategy pays where: buffers used again and again (rivals-reuse), memory mapped
and freed between messages (rivals-churn), more memory in use than there is (rivals-memory)."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments import two_ranks
from pagewire.cli.kit.numbers import size_text
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.native.settings import ConfigError
from pagewire.node.strategies.built_in import REGISTRY

BOUND = "ideal"
"""What no machine does: shown, and never the best."""

UNITS = ("mini", "static")
"""Translation units that pin by themselves, in place of a strategy."""

BOUNDS = (BOUND, "static")
"""Never the best: static's pins were paid for when the program registered its memory."""


_VARIED = {"run.memory": "", "run.compute": "none", "run.policy": "all"}
_NUMBERS = "MPI.Wtime of the emulated node, from the platform's costs"

Case = tuple[int, int]
"""One measurement of the program: bytes, and how many of what it counts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Of one strategy: microseconds a message by case, and the run's totals."""

    times_us: list[float]
    totals: dict[str, Any]


def strategies() -> list[str]:
    """What is compared: strategies, and units that need none."""
    return [*(name for name in REGISTRY.names() if REGISTRY.is_native(name)), *UNITS]


def _measure(
    chosen: Options,
    kind: str,
    runs: Mapping[str, tuple[str, Sequence[Case]]],
    settings: Sequence[str] = (),
) -> dict[str, Outcome | None]:
    """Launches, each a point of the experiment, by their labels; None: the strategy was refused, or
    failed. runs: strategy and cases of each."""

    def once(memory: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
        chosen_by = [f"run.memory={memory}"]
        if memory in UNITS:
            chosen_by = ["run.memory=part", f"run.translation={memory}"]
        failure, times_us, totals = two_ranks.run(
            chosen, kind, memory, cases, [*chosen_by, "run.policy=all", *settings]
        )
        if failure:
            chosen.say(f"rivals-{kind}: {memory}: {failure}")
            return []
        return [{"times_us": times_us, "totals": totals}]

    found = chosen.points.measure({label: partial(once, *run) for label, run in runs.items()})
    return {label: Outcome(**each[0]) if each else None for label, each in found.items()}


def best(times_us: dict[str, float | None]) -> str:
    """The strategy that takes least; bounds take no part."""
    real = {
        name: time for name, time in times_us.items() if time is not None and name not in BOUNDS
    }
    if not real:
        raise ConfigError("rivals: every memory strategy was refused or failed")
    return min(real, key=lambda name: real[name])


_IN_TABLE = ("part", "pretouch", "pin-cache", "odp", BOUND)
"""Of the strategies, what the table of `reuse` has room for."""


def reuse(chosen: Options) -> Result:
    """Time a message over how often its buffers are used, by size."""
    sizes = chosen.pick([4 << 10, 1 << 20], [4 << 10, 64 << 10, 1 << 20, 4 << 20])
    counts = chosen.pick([1, 16], [1, 4, 16, 64], [1 << idx for idx in range(11)])
    cases = [(size, count) for size in sizes for count in counts]
    names = chosen.pick(["part", "pretouch", "pin", "pin-cache", BOUND], strategies())
    outcomes = _measure(chosen, "reuse", {name: (name, cases) for name in names})
    names = list(outcomes)
    rows: list[dict[str, Any]] = []
    for idx, (num_bytes, count) in enumerate(cases):
        times = {name: each.times_us[idx] if each else None for name, each in outcomes.items()}
        first = best(times)
        rows.append(
            {"num_bytes": num_bytes, "times": count, "best": first}
            | {"best_us": times[first], **times}
        )
    by_size = {size: [row for row in rows if row["num_bytes"] == size] for size in sizes}
    ended = [name for name, each in outcomes.items() if each]
    return Result(
        columns=[
            SIZE,
            Column("times", "times used"),
            Column("best", "best"),
            Column("best_us", "takes", "us", 1),
            *(Column(name, name, "us", 1, in_table=name in _IN_TABLE) for name in names),
        ],
        rows=rows,
        panels=_panels_by_size(by_size, ended),
        notes="""
            Time a message at rank 0, Send to a Recv, one answer of a byte at the end of each
            measurement; both ends' buffers are new, used so many times; the sender has written its
            own, nobody has touched the receiver's. What a strategy pins at its start (pin-all,
            bounce) is not in it. Files and picture have every strategy.

            ideal is what no machine does. static has all its tables on the NIC and pins when memory
            is registered, which costs nothing here. Neither is ever the best. mini pins at a miss,
            of a packet that is dropped and comes again by the timeout.
        """,
        varied=_VARIED | {"run.memory": ", ".join(names)},
        numbers=_NUMBERS,
    )


def _panels_by_size(
    by_size: Mapping[int, Sequence[dict[str, Any]]], ended: Sequence[str]
) -> list[Panel]:
    """Lines of each size, and a map of the strategies that take least."""
    uses = "times that a buffer is used"
    panels = [
        Panel(
            uses,
            "time a message (us)",
            [Series.of(name, rows, "times", name, dashed=name in BOUNDS) for name in ended],
            log_x=True,
            log_y=True,
            title=size_text(size),
        )
        for size, rows in by_size.items()
    ]
    best_of_all = Panel(
        uses,
        "message size",
        title="who takes least (ideal, static apart)",
        cells=[[row["best"] for row in rows] for rows in by_size.values()],
        cell_columns=[str(row["times"]) for row in next(iter(by_size.values()))],
        cell_rows=[size_text(size) for size in by_size],
    )
    return [*panels, best_of_all]


_CHURN_COUNTS = {
    "translation_faults": "faults",
    "strategy_misses": "misses",
    "strategy_invalidations": "mappings gone",
}


def churn(chosen: Options) -> Result:
    """Memory mapped and unmapped for each message: what is kept of a buffer is worth nothing."""
    sizes = chosen.pick([256 << 10], [16 << 10, 64 << 10, 256 << 10, 1 << 20])
    num_messages = chosen.pick(4, 32, 128)
    cases = [(size, num_messages) for size in sizes]
    names = chosen.pick(["part", "pin-cache", "mini", BOUND], strategies())
    outcomes = _measure(chosen, "churn", {name: (name, cases) for name in names})
    names = list(outcomes)
    rows = [
        {
            "memory": name,
            **{f"us_{size}": each.times_us[i] if each else None for i, size in enumerate(sizes)},
            **{key: each.totals.get(key) if each else None for key in _CHURN_COUNTS},
        }
        for name, each in outcomes.items()
    ]
    series = [
        Series(name, sizes, outcome.times_us, dashed=name in BOUNDS)
        for name, outcome in outcomes.items()
        if outcome
    ]
    return Result(
        columns=[
            Column("memory", "memory"),
            *(Column(f"us_{size}", size_text(size), "us", 1) for size in sizes),
            *(Column(key, title) for key, title in _CHURN_COUNTS.items()),
        ],
        rows=rows,
        panels=[Panel.over_bytes("message size", "time a message (us)", series)],
        notes=f"""
            {num_messages} messages of each size; each in memory that was just mapped and is
            unmapped after it, as allocators do with large blocks. The kernel gives the same
            addresses to new pages.
        """,
        varied=_VARIED | {"run.memory": ", ".join(names)},
        numbers=_NUMBERS,
    )


def memory(chosen: Options) -> Result:
    """Buffers in turn, fewer and more than there are frames (model backend)."""
    size = 256 << 10
    num_frames = chosen.pick(512, 2048, 8192)
    fractions = chosen.pick([0.5, 1.5], [0.5, 0.9, 1.25, 2.0])
    pages = size >> 12
    cases = [(size, max(1, int(num_frames * each) // pages)) for each in fractions]
    names = chosen.pick(["part", "pin", "pin-cache"], strategies())
    labels = {
        (name, fraction): f"{name}, {fraction:g} of the frames"
        for name in names
        for fraction in fractions
    }
    runs = {
        labels[name, fraction]: (name, [case])
        for name in names
        for fraction, case in zip(fractions, cases, strict=True)
    }
    outcomes = _measure(chosen, "memory", runs, _settings_of_frames(num_frames))
    names = [name for name in names if all(labels[name, each] in outcomes for each in fractions)]
    rows: list[dict[str, Any]] = []
    for name in names:
        rows.append({"memory": name})
        for fraction in fractions:
            outcome = outcomes[labels[name, fraction]]
            rows[-1][f"us_{fraction}"] = outcome.times_us[0] if outcome else None
        totals = outcome.totals if outcome else None  # of the last fraction
        rows[-1] |= {
            "major_faults": totals and totals["major_faults"] + totals["strategy_major_faults"],
            "evictions": totals and totals.get("strategy_evictions"),
            "pinned": totals and totals["pinned_peak_bytes"] / 1024**2,
        }
    return Result(
        columns=[
            Column("memory", "memory"),
            *(Column(f"us_{each}", f"{each:g} of the frames", "us", 1) for each in fractions),
            Column("major_faults", "major faults"),
            Column("evictions", "given up"),
            Column("pinned", "pinned peak", "MiB"),
        ],
        rows=rows,
        panels=[
            Panel(
                "memory in use / frames",
                "time a message (us)",
                _lines_over_fractions(rows, fractions),
                log_y=True,
            )
        ],
        notes=f"""
            Buffers of {size_text(size)} in turn, three rounds, of a model page table with
            {num_frames} frames a node; - is a strategy that was refused. Major faults, what was
            given up and what was pinned are those of the last column.

            pin-cache and utlb without a limit of their own: they give something up when no frame
            can be pinned. Half of the frames may be held by the peer (firehose), or in miNI's
            cache, which evicts nothing that it holds; static never evicts.
        """,
        varied={"run.memory": ", ".join(names), "memory_backend.backend": "model"},
        numbers=_NUMBERS,
    )


def _settings_of_frames(num_frames: int) -> tuple[str, ...]:
    """A model of so many frames, which are the only limit."""
    return (
        "memory_backend.backend=model",
        f"memory_backend.frame_limit_pages={num_frames}",
        "strategy.pin_cache_limit=none",
        "strategy.utlb_limit=none",
        # What peers hold, and what miNI's cache holds, is not evicted: less than all is promised.
        f"strategy.firehose_limit={num_frames // 2 * 4}KiB",
        f"strategy.firehose_victims={num_frames // 8 * 4}KiB",
        f"mini.vmh_entries={num_frames // 2}",
        "memory_backend.fault_fraction=1",
    )


def _lines_over_fractions(
    rows: Sequence[Mapping[str, Any]], fractions: Sequence[float]
) -> list[Series]:
    """Of each strategy, those that were not refused."""
    series = []
    for row in rows:
        x = [each for each in fractions if row[f"us_{each}"] is not None]
        if x:
            y = [row[f"us_{each}"] for each in x]
            series.append(Series(row["memory"], x, y, dashed=row["memory"] in BOUNDS))
    return series
