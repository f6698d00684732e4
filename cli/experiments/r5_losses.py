"""R5 figures 5.11 and 5.12: what one timeout costs; and why segmentation keeps losses from a
livelock.

Losses are injected (docs/impairments.md) at the initiator's NI, in the measured transfer alone.
"""

from collections.abc import Sequence
from functools import partial

from pagewire.cli.experiments.r5_bench import Bench
from pagewire.cli.experiments.r5_transfers import BOTH, LATENCY, ONE_HOP_NOTE, THROUGHPUT, Quantity
from pagewire.cli.kit.numbers import deviation, mean, powers_of_two
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.native import EngineError, lib

TIMEOUT = "run.timeout=20ms"
FIRST_PACKET = "1:1:0:1"
"""The first packet that leaves gets lost, and no other."""

LOSS_NOTE = (
    "The first packet of the transfer gets lost, once: its block has no answer and is sent again "
    "when its timeout of 20 ms expires. The transfer's other blocks go on meanwhile, within what "
    "is left of its window."
)


_TITLES = {"clean": "no timeout", "lossy": "one timeout of 20 ms"}


def one_timeout(options: Options, quantities: Sequence[Quantity] = BOTH) -> Result:
    """Writes with one timeout; throughput is size over latency, and goes on to longer ones."""
    last = 4 << 20
    if THROUGHPUT in quantities:
        last = options.pick(4 << 20, 64 << 20, 512 << 20)
    sizes = powers_of_two(16, last)[:: options.pick(6, 1)]
    rows = options.points.take("writes with one timeout", partial(_measure_once, options, sizes))
    columns, panels = [SIZE], []
    for each in quantities:
        keys = {key + each.suffix: title for key, title in _TITLES.items()}
        decimals = 3 if each == LATENCY else 6
        columns += [Column(key, title, each.unit, decimals) for key, title in keys.items()]
        panels.append(each.panel(rows, [(key, title, False) for key, title in keys.items()]))
    return Result(
        columns=[*columns, Column("timeouts", "timeouts")],
        rows=rows,
        panels=panels,
        notes=[LOSS_NOTE, ONE_HOP_NOTE, LATENCY.note],
        varied={"run.timeout": "20ms", "impairments.packet_loss": f"none, {FIRST_PACKET}"},
    )


def _measure_once(options: Options, sizes: Sequence[int]) -> list[dict[str, float]]:
    bench = Bench(options.settings(TIMEOUT), max(sizes))
    rows: list[dict[str, float]] = []
    for num_bytes in sizes:
        clean = bench.transfer(num_bytes)
        lossy = bench.transfer(num_bytes, loss=FIRST_PACKET)
        rows.append(
            {
                "num_bytes": num_bytes,
                "clean": clean.notified_ns / 1e3,
                "lossy": lossy.notified_ns / 1e3,
                "clean_gbps": num_bytes * 8 / clean.notified_ns,
                "lossy_gbps": num_bytes * 8 / lossy.notified_ns,
                "timeouts": lossy.counters["timeouts"],
            }
        )
    return rows


PAYLOAD_BYTES = 1 << 20
LOSSES = (0, 10, 30, 100, 300, 1000)
"""Lost packets of a million."""
MAX_ATTEMPTS = 100_000
_MILLION = 1_000_000
_PACKETS = PAYLOAD_BYTES // int(lib.PW_PACKET_BYTES)
_BLOCKS = PAYLOAD_BYTES // int(lib.PW_BLOCK_BYTES)
UNITS = {"block": "blocks of 16 KiB", "whole": "unsegmented 1 MiB"}
"""What is sent again when a packet of it is lost."""
_PACKETS_OF = {"block": _PACKETS // _BLOCKS, "whole": _PACKETS}


def _segmented(bench: Bench, loss: str) -> tuple[int, float]:
    """Duration in ns, and data sent over payload, the firmware's way: blocks whose packets got
    lost are sent again at their timeouts."""
    times = bench.transfer(PAYLOAD_BYTES, loss=loss)
    return times.done_ns, 1 + times.counters["retransmitted_blocks"] / _BLOCKS


def _unsegmented(bench: Bench, loss: str, clean_ns: int, timeout_ns: int) -> tuple[int, float]:
    """The same when all of it is sent at once, and again a timeout after the end of each attempt
    that lost a packet."""
    duration_ns = 0
    bench.lose(loss)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        if bench.arrives_whole(PAYLOAD_BYTES, clean_ns + timeout_ns):
            bench.lose()
            return duration_ns + clean_ns, attempt
        duration_ns += clean_ns + timeout_ns
    raise EngineError(
        int(lib.PW_ERR_UNRECOVERABLE), f"1 MiB unsegmented: {MAX_ATTEMPTS} attempts in vain"
    )


def _measure(options: Options) -> list[tuple[str, int, list[list[tuple[int, float]]]]]:
    """By unit and loss: for each seed duration and data sent over payload of some payloads."""
    count, losses = options.pick(1, 5), options.pick((0, 1000), LOSSES)
    blocks = Bench(options.settings(), PAYLOAD_BYTES)
    # Nothing of the firmware's may send a block again, and no window may hold one back.
    config = options.settings("run.timeout=none", f"firmware.window_blocks={_BLOCKS}")
    whole = Bench(config, PAYLOAD_BYTES)
    clean_ns = whole.transfer(PAYLOAD_BYTES).done_ns
    timeout_ns = options.settings().run.timeout_ns or 0
    found: dict[tuple[str, int], list[list[tuple[int, float]]]] = {}
    for loss in losses:
        for seed in range(1, options.repetitions + 1 if loss else 2):
            seeds = [f"{loss}:{_MILLION}:{seed * count + i}" for i in range(count)]
            found.setdefault(("block", loss), []).append([_segmented(blocks, s) for s in seeds])
            found.setdefault(("whole", loss), []).append(
                [_unsegmented(whole, s, clean_ns, timeout_ns) for s in seeds]
            )
    return [(unit, loss, by_seed) for (unit, loss), by_seed in found.items()]


def livelock(options: Options) -> Result:
    """Goodput of 1 MiB over packet loss: failing blocks sent again, against all of it sent
    again."""
    rows: list[dict[str, float | str]] = []
    # Of two benches, whose state goes on from loss to loss: one point.
    for unit, loss, by_seed in options.points.take("every loss", partial(_measure, options)):
        gbps = [
            PAYLOAD_BYTES * 8 * len(some) / sum(duration_ns for duration_ns, _ in some)
            for some in by_seed
        ]
        sent = [mean([num_sent for _, num_sent in some]) for some in by_seed]
        rows.append(
            {
                "unit": UNITS[unit],
                "loss": 100 * loss / _MILLION,
                "gbps": mean(gbps),
                "gbps_deviation": deviation(gbps),
                "sent": mean(sent),
                "sent_deviation": deviation(sent),
                "expected": (1 - loss / _MILLION) ** -_PACKETS_OF[unit],
            }
        )
    lossy = [row for row in rows if row["loss"]]
    return Result(
        columns=[
            Column("unit", "sent again"),
            Column("loss", "packet loss", "%", 3),
            Column("gbps", "goodput", "Gb/s", 3),
            Column("gbps_deviation", "deviation", "Gb/s", 3),
            Column("sent", "sent / payload", "x"),
            Column("sent_deviation", "deviation", "x"),
            Column("expected", "expected: (1-p)^-packets", "x"),
        ],
        rows=rows,
        panels=[
            Panel(
                "packet loss (%)",
                label,
                Series.by("unit", lossy, "loss", key, deviation=f"{key}_deviation"),
                log_x=True,
                log_y=True,
            )
            for key, label in (("gbps", "goodput (Gb/s)"), ("sent", "data sent / payload (x)"))
        ],
        notes=f"""
            blocks of 16 KiB: a write of 1 MiB as the firmware does it; a block that lost a packet
            is sent again at its timeout (run.timeout).

            unsegmented 1 MiB: no mechanism of the machine, but what it avoids: the same write with
            all of its blocks outstanding and no timers; when one had no answer, the bench sends all
            of it again, run.timeout after the time at which it would have been complete.

            {options.repetitions} seeds, {options.pick(1, 5)} transfers each; mean, and standard
            deviation between the seeds' means. Expected: (1-p)^-64 and (1-p)^-4096 attempts.

            {ONE_HOP_NOTE}
        """,
        varied={
            "impairments.packet_loss": "0 to 0.1 %",
            "unsegmented": f"run.timeout=none, firmware.window_blocks={_BLOCKS}",
        },
    )
