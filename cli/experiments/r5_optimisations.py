"""R5 figures 5.9 and 5.10: what each optimisation of the firmware saves, by switching it off."""

from collections.abc import Callable, Sequence
from functools import partial

from pagewire.cli.experiments.part_transfers import SIZE
from pagewire.cli.experiments.r5_bench import Bench
from pagewire.cli.experiments.r5_transfers import (
    LATENCY_NOTE,
    ONE_HOP_NOTE,
    THROUGHPUT_NOTE,
    num_transfers,
)
from pagewire.cli.experiments.result import (
    Column,
    Options,
    Panel,
    Result,
    Series,
    powers_of_two,
)

SWITCHES = {
    "fast_path": "fast path (scratchpad word)",
    "bypass": "scheduler bypass",
    "ticket_queue": "ticket queue",
    "queue_counters": "queue counters",
}
"""Settings `firmware.NAME`, and what they are called here."""

NOTE = (
    "Each line switches off one of firmware.fast_path, bypass, ticket_queue, queue_counters, the "
    "last one all four; the default has all of them on."
)
SOURCE_NOTE = (
    "R5 3.3 gives as savings: fast path 200 ns, scheduler bypass 300 ns, ticket queue 200 ns. Here "
    "they come out of the steps that are left out and added: without bypass a transfer enters and "
    "leaves a queue (2 x 200 ns), with it the R5 looks whether the high queue is empty. That look "
    "(100 ns), the mailbox and the search for an id have their costs by these savings. None is "
    "given for the queue counters."
)


def variants() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Title and settings of each line, by key."""
    lines: dict[str, tuple[str, tuple[str, ...]]] = {"all_on": ("all on", ())}
    for name, title in SWITCHES.items():
        lines[name] = (f"no {title}", (f"firmware.{name}=false",))
    lines["all_off"] = ("all off", tuple(f"firmware.{name}=false" for name in SWITCHES))
    return lines


def _measure(
    options: Options, sizes: Sequence[int], once: Callable[[Bench, int], float]
) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = [{"num_bytes": num_bytes} for num_bytes in sizes]
    finished = options.points.plan(title for title, _ in variants().values())

    def line(settings: Sequence[str]) -> list[float]:
        bench = Bench(options.settings(*settings), max(sizes))
        return [once(bench, num_bytes) for num_bytes in sizes]

    for key, (title, settings) in variants().items():
        if title not in finished:
            continue
        found = options.points.take(title, partial(line, settings))
        for row, value in zip(rows, found, strict=True):
            row[key] = value
    return rows


def _result(
    rows: list[dict[str, float]],
    unit: str,
    *,
    panel: Panel,
    difference: Callable[[float, float], float],
    difference_label: str,
    notes: Sequence[str],
) -> Result:
    """The panel's lines, and beside it the difference of every variant to all on."""
    lines = {key: line for key, line in variants().items() if key in rows[0]}
    x = [row["num_bytes"] for row in rows]
    # Dashed, since its line lies on that of the fast path.
    measured = [
        Series.of(title, rows, "num_bytes", key, dashed=key == "ticket_queue")
        for key, (title, _) in lines.items()
    ]
    without = [
        Series(
            title,
            x,
            [difference(row[key], row["all_on"]) for row in rows],
            dashed=key == "ticket_queue",
        )
        for key, (title, _) in lines.items()
    ]
    return Result(
        columns=[SIZE, *(Column(key, title, unit, 3) for key, (title, _) in lines.items())],
        rows=rows,
        panels=[
            Panel(
                panel.x_label,
                panel.y_label,
                measured,
                log_x=True,
                log_y=panel.log_y,
                x_is_bytes=True,
            ),
            Panel("transfer size", difference_label, without, log_x=True, x_is_bytes=True),
        ],
        notes=[NOTE, SOURCE_NOTE, ONE_HOP_NOTE, *notes],
        varied={title: ", ".join(settings) for title, settings in lines.values() if settings},
    )


def figure_5_9(options: Options) -> Result:
    """Latency of writes of up to a block."""
    sizes = powers_of_two(16, 16 << 10)[:: options.pick(5, 1)]
    return _result(
        _measure(options, sizes, lambda bench, size: bench.transfer(size).notified_ns / 1e3),
        "us",
        panel=Panel("transfer size", "latency (us)", log_y=True),
        difference=lambda value, all_on: (value - all_on) * 1e3,
        difference_label="longer than with all on (ns)",
        notes=[LATENCY_NOTE],
    )


def figure_5_10(options: Options) -> Result:
    """Throughput of writes of 16 B to 4 MiB."""
    sizes = powers_of_two(16, 4 << 20)[:: options.pick(9, 1)]

    def rate(bench: Bench, size: int) -> float:
        return bench.stream_gbps(size, num_transfers=num_transfers(options, size))

    return _result(
        _measure(options, sizes, rate),
        "Gb/s",
        panel=Panel("transfer size", "throughput (Gb/s)", log_y=True),
        difference=lambda value, all_on: 100 * (value / all_on - 1),
        difference_label="against all on (%)",
        notes=[THROUGHPUT_NOTE],
    )
