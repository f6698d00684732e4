"""R5 figures 5.9 and 5.10: what each optimisation of the firmware saves, by switching it off."""

from collections.abc import Mapping, Sequence
from functools import partial

from pagewire.cli.experiments.r5_bench import Bench
from pagewire.cli.experiments.r5_transfers import (
    BOTH,
    LATENCY,
    ONE_HOP_NOTE,
    THROUGHPUT,
    Quantity,
    measure,
)
from pagewire.cli.kit.numbers import powers_of_two
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series

SWITCHES = {
    "fast_path": "fast path (scratchpad word)",
    "bypass": "scheduler bypass",
    "ticket_queue": "ticket queue",
    "queue_counters": "queue counters",
}
"""Settings `firmware.NAME`, and what they are called here."""

_DASHED = "no ticket queue"
"""Since its line lies on that of the fast path."""

NOTE = """
    Each line switches off one of firmware.fast_path, bypass, ticket_queue, queue_counters, the last
    one all four; the default has all of them on.

    R5 3.3 gives as savings: fast path 200 ns, scheduler bypass 300 ns, ticket queue 200 ns. Here
    they come out of the steps that are left out and added: without bypass a transfer enters and
    leaves a queue (2 x 200 ns), with it the R5 looks whether the high queue is empty. That look
    (100 ns), the mailbox and the search for an id have their costs by these savings. None is given
    for the queue counters.
"""


def variants() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Title and settings of each line, by key."""
    lines: dict[str, tuple[str, tuple[str, ...]]] = {"all_on": ("all on", ())}
    for name, title in SWITCHES.items():
        lines[name] = (f"no {title}", (f"firmware.{name}=false",))
    lines["all_off"] = ("all off", tuple(f"firmware.{name}=false" for name in SWITCHES))
    return lines


def optimisations(options: Options, quantities: Sequence[Quantity] = BOTH) -> Result:
    """Writes with each optimisation off: latency alone up to a block, else up to 4 MiB."""
    if THROUGHPUT in quantities:
        sizes = powers_of_two(16, 4 << 20)[:: options.pick(9, 1)]
    else:
        sizes = powers_of_two(16, 16 << 10)[:: options.pick(5, 1)]
    rows = _measure(options, sizes, quantities)
    lines = {
        key: line
        for key, line in variants().items()
        if quantities[0].key(key, quantities) in rows[0]
    }
    columns, panels = [SIZE], []
    for quantity in quantities:
        keys = {quantity.key(key, quantities): title for key, (title, _) in lines.items()}
        columns += [Column(key, title, quantity.unit, 3) for key, title in keys.items()]
        panels += _panels(quantity, rows, keys, all_on=quantity.key("all_on", quantities))
    return Result(
        columns=columns,
        rows=rows,
        panels=panels,
        notes="\n\n".join([NOTE, ONE_HOP_NOTE, *(each.note for each in quantities)]),
        varied={title: ", ".join(settings) for title, settings in lines.values() if settings},
    )


def _measure(
    options: Options, sizes: Sequence[int], quantities: Sequence[Quantity]
) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = [{"num_bytes": num_bytes} for num_bytes in sizes]

    def line(settings: Sequence[str]) -> list[list[float]]:
        bench = Bench(options.settings(*settings), max(sizes))
        return [
            [measure(options, bench, quantity, size) for size in sizes] for quantity in quantities
        ]

    keys = {title: key for key, (title, _) in variants().items()}
    measures = {title: partial(line, settings) for title, settings in variants().values()}
    for title, found in options.points.measure(measures).items():
        key = keys[title]
        for quantity, values in zip(quantities, found, strict=True):
            for row, value in zip(rows, values, strict=True):
                row[quantity.key(key, quantities)] = value
    return rows


def _panels(
    quantity: Quantity, rows: Sequence[Mapping[str, float]], keys: Mapping[str, str], *, all_on: str
) -> list[Panel]:
    """The quantity's lines, and beside it the difference of every variant to all on."""

    def difference(row: Mapping[str, float], key: str) -> float:
        if quantity == LATENCY:
            return (row[key] - row[all_on]) * 1e3
        return 100 * (row[key] / row[all_on] - 1)

    x = [row["num_bytes"] for row in rows]
    without = [
        Series(title, x, [difference(row, key) for row in rows], dashed=title == _DASHED)
        for key, title in keys.items()
    ]
    label = "longer than with all on (ns)" if quantity == LATENCY else "against all on (%)"
    return [
        quantity.panel(rows, [(key, title, title == _DASHED) for key, title in keys.items()]),
        Panel.over_bytes("transfer size", label, without, log_y=False),
    ]
