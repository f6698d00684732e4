"""PART figures 9, 11 and 12: latency over size, by what is done about the destination's pages."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pagewire.cli.kit.numbers import deviation, mean, powers_of_two
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.lab import Lab, Outcome

LATENCY_NOTE = (
    "Latency: virtual time from the user's call, touch or pin included, to the completion at the "
    "initiator (last acknowledgement at the source's R5). Source resident; TLBs warm but for pages "
    "that were dropped; unpin not included."
)
STRATEGY_NOTE = (
    "Touch and pin are done to the destination; their costs are the platform file's tables, which "
    "are inputs from the papers: only the transfer behind them comes out of the mechanism."
)

ERRS_BY, ERRS_AFTER = ("library", "kernel"), ("run", "block", "page")
ERRS_NOTE = (
    "Who sends the ERR: the library's thread behind the tasklet, or the tasklet (kernel). What it "
    "waits for: the run, the block's pages, or the page that faulted. An ERR that leaves before "
    "its block's pages are in brings the block back too early: it faults again."
)

Lines = Mapping[str, tuple[str, Callable[[Lab, int], Outcome], tuple[str, ...]]]
"""Title, how a transfer of a size is done, and the settings, by key."""


def _with(strategy: str, *, absent: bool) -> Callable[[Lab, int], Outcome]:
    return lambda lab, num_bytes: lab.write(
        num_bytes, memory=strategy, absent="all" if absent else None
    )


def measure(
    options: Options, lines: Lines, sizes: Sequence[int], num_nodes: int = 2
) -> tuple[list[dict[str, float]], str]:
    """A row for each size, in us, and a note on the largest deviation between repetitions."""

    def times_us(once: Callable[[Lab, int], Outcome], settings: Sequence[str]) -> list[list[float]]:
        config = options.settings(*settings)
        lab = Lab(nodes=num_nodes, settings=config, memory="part", max_size=max(sizes))
        return [
            [once(lab, num_bytes).latency_ns / 1e3 for _ in range(options.repetitions)]
            for num_bytes in sizes
        ]

    keys = {title: key for key, (title, _, _) in lines.items()}
    found = options.points.measure(
        {title: partial(times_us, once, settings) for title, once, settings in lines.values()}
    )
    rows = [
        {"num_bytes": size, **{keys[title]: mean(times[idx]) for title, times in found.items()}}
        for idx, size in enumerate(sizes)
    ]
    largest = max((deviation(each) for times in found.values() for each in times), default=0.0)
    return rows, f"{options.repetitions} repetitions; largest standard deviation {largest:.3f} us."


def as_result(
    options: Options,
    lines: Lines,
    sizes: Sequence[int],
    *notes: str,
    num_nodes: int = 2,
    latency_note: str = LATENCY_NOTE,
) -> Result:
    """Measure, and lay out as one panel with a line for each key."""
    rows, deviation_note = measure(options, lines, sizes, num_nodes)
    lines = {key: line for key, line in lines.items() if key in rows[0]}
    titles = {key: title for key, (title, _, _) in lines.items()}
    return Result(
        columns=[SIZE, *(Column(key, title, "us") for key, title in titles.items())],
        rows=rows,
        panels=[Panel.over_bytes("transfer size", "latency (us)", Series.over_sizes(rows, titles))],
        notes=[*notes, latency_note, deviation_note],
        varied={title: ", ".join(each) for title, _, each in lines.values() if each},
    )


BY_STRATEGY: Lines = {
    "transfer": ("transfer only", _with("part", absent=False), ()),
    "touch_resident": ("touch resident", _with("pretouch", absent=False), ()),
    "touch_absent": ("touch absent", _with("pretouch", absent=True), ()),
    "pin_resident": ("pin resident", _with("pin", absent=False), ()),
    "pin_absent": ("pin absent", _with("pin", absent=True), ()),
}


def figure_9(options: Options) -> Result:
    """Writes without faults, alone and behind touch or pin."""
    sizes = powers_of_two(16, options.pick(64 << 10, 4 << 20))[:: options.pick(4, 1)]
    return as_result(options, BY_STRATEGY, sizes, STRATEGY_NOTE)


def errs(options: Options) -> Result:
    """Writes to a destination of which no page is there, by who sends ERRs and what they wait
    for."""
    policies = {"page": "PIO", "all": "PIA"}
    ways = {f"{by}_{after}": (by, after) for by in ERRS_BY for after in ERRS_AFTER}
    lines: Lines = {
        f"{policy}_{way}": (
            f"{title}, {by}, {after}",
            _with("part", absent=True),
            (f"run.policy={policy}", f"driver.err_by={by}", f"driver.err_after={after}"),
        )
        for policy, title in policies.items()
        for way, (by, after) in ways.items()
    }
    sizes = powers_of_two(4096, options.pick(64 << 10, 4 << 20))
    measured, deviation_note = measure(options, lines, sizes)
    rows = [
        {"policy": title, "num_bytes": row["num_bytes"]}
        | {way: row[f"{policy}_{way}"] for way in ways if f"{policy}_{way}" in row}
        for policy, title in policies.items()
        for row in measured
    ]
    found = {way: ", ".join(titles) for way, titles in ways.items() if all(way in r for r in rows)}
    return Result(
        columns=[
            Column("policy", "policy"),
            SIZE,
            *(Column(way, title, "us", 1) for way, title in found.items()),
        ],
        rows=rows,
        panels=[
            Panel.over_bytes(
                "transfer size",
                "latency (us)",
                Series.over_sizes([row for row in rows if row["policy"] == policy], found),
                title=policy,
            )
            for policy in policies.values()
        ],
        notes=[ERRS_NOTE, LATENCY_NOTE, deviation_note],
        varied={title: ", ".join(each) for title, _, each in lines.values()},
    )


def figure_11(options: Options) -> Result:
    """Writes of up to a page to an absent destination, by what sends the block again."""
    sizes = powers_of_two(16, 4096)[:: options.pick(4, 1)]
    lines: Lines = {
        key: (
            title,
            _with("part", absent=True),
            ("run.policy=page", f"run.err={err}", f"run.timeout={timeout}"),
        )
        for key, title, err, timeout in (
            ("err", "ERR", "true", "1ms"),
            ("timeout_100us", "timeout 100 us", "false", "100us"),
            ("timeout_1ms", "timeout 1 ms", "false", "1ms"),
        )
    }
    note = "ERR: the timer of 1 ms runs too, and never expires here."
    return as_result(options, lines, sizes, note)


def figure_12(options: Options) -> Result:
    """Writes of a page and more to a destination of which no page is there."""
    sizes = powers_of_two(4096, options.pick(64 << 10, 4 << 20))
    fault = _with("part", absent=True)
    lines: Lines = {
        **{key: line for key, line in BY_STRATEGY.items() if key != "pin_resident"},
        "pio": ("PIO (page)", fault, ("run.policy=page",)),
        "pi4": ("PI4 (block)", fault, ("run.policy=block",)),
        "pia": ("PIA (all)", fault, ("run.policy=all",)),
    }
    return as_result(options, lines, sizes, STRATEGY_NOTE)
