"""R5 figures 5.11 and 5.12: a transfer that hits one timeout. And why transfers are cut into blocks."""

import math
from collections.abc import Sequence

from pagewire.cli.experiments.part_transfers import SIZE
from pagewire.cli.experiments.r5_bench import Bench
from pagewire.cli.experiments.r5_transfers import LATENCY_NOTE, ONE_HOP_NOTE
from pagewire.cli.experiments.result import (
    Column,
    Options,
    Panel,
    Result,
    Series,
    deviation,
    mean,
    powers_of_two,
)
from pagewire.native.settings import ConfigError

PACKET_BYTES = 256
TIMEOUT_SETTING = "run.timeout=20ms"
LOST_ONCE = "1:1:0:1"
LOSS_PER_PACKET = 1 / 1000
SEEDS_A_REPETITION = 20

ONE_LOSS_NOTE = (
    f"The first packet of each transfer is lost, once; {TIMEOUT_SETTING} as in the thesis's first "
    "versions: the block's timer expires and the block is sent again. Other blocks go on meanwhile, as "
    "far as the window lets them."
)


def _with_one_timeout(options: Options) -> list[dict[str, float]]:
    """Latency in ns of each size without loss and with one lost packet."""
    sizes = powers_of_two(16, options.pick(1 << 20, 64 << 20))[:: options.pick(8, 1)]
    bench = Bench(options.settings(TIMEOUT_SETTING), max(sizes))
    rows: list[dict[str, float]] = []
    for num_bytes in sizes:
        plain = bench.transfer(num_bytes)
        delayed = bench.transfer(num_bytes, losing=LOST_ONCE)
        rows.append(
            {
                "num_bytes": num_bytes,
                "plain": plain.notified_ns,
                "one_timeout": delayed.notified_ns,
                "timeouts": delayed.counters["timeouts"],
            }
        )
    return rows


def figure_5_11(options: Options) -> Result:
    """Latency of writes with one timeout of 20 ms."""
    rows = _with_one_timeout(options)
    for row in rows:
        row["more"] = (row["one_timeout"] - row["plain"]) / 1e3
        row["plain"], row["one_timeout"] = row["plain"] / 1e3, row["one_timeout"] / 1e3
    return _of_one_timeout(
        rows, "latency", "us", Column("more", "difference", "us", 3), LATENCY_NOTE
    )


def figure_5_12(options: Options) -> Result:
    """Throughput of writes with one timeout of 20 ms."""
    rows = _with_one_timeout(options)
    for row in rows:
        for key in ("plain", "one_timeout"):
            row[key] = row["num_bytes"] * 8 / row[key]
        row["share"] = 100 * row["one_timeout"] / row["plain"]
    return _of_one_timeout(
        rows,
        "throughput",
        "Gb/s",
        Column("share", "of that without", "%", 1),
        "Throughput: size over latency, one transfer at a time, every one of them with its timeout.",
    )


def _of_one_timeout(
    rows: Sequence[dict[str, float]], quantity: str, unit: str, compared: Column, note: str
) -> Result:
    decimals = 3 if unit == "us" else 6
    x = [row["num_bytes"] for row in rows]
    lines = {"plain": "no loss", "one_timeout": "one timeout of 20 ms"}
    return Result(
        columns=[
            SIZE,
            *(Column(key, title, unit, decimals) for key, title in lines.items()),
            compared,
            Column("timeouts", "timeouts"),
        ],
        rows=rows,
        panels=[
            Panel(
                "transfer size",
                f"{quantity} ({unit})",
                [Series(title, x, [row[key] for row in rows]) for key, title in lines.items()],
                log_x=True,
                log_y=True,
                x_is_bytes=True,
            )
        ],
        notes=[ONE_LOSS_NOTE, ONE_HOP_NOTE, note],
        varied={
            "run.timeout": "20ms",
            "faults.packet_loss": f"{LOST_ONCE}, anew for each transfer",
        },
    )


def expected_attempts(num_bytes: int) -> float:
    """How often num_bytes are sent until all their packets arrive in one attempt."""
    return (1 - LOSS_PER_PACKET) ** -math.ceil(num_bytes / PACKET_BYTES)


def unsegmented_ns(num_bytes: int, plain_ns: float, timeout_ns: int) -> float:
    """Mean latency if the whole transfer were the unit of retransmission.

    A lost attempt costs its timeout, which begins with the attempt, or when that has been sent if it
    takes longer, as a block's does.
    """
    attempt_ns = timeout_ns if plain_ns <= timeout_ns else plain_ns + timeout_ns
    return plain_ns + (expected_attempts(num_bytes) - 1) * attempt_ns


def livelock(options: Options) -> Result:
    """One packet of 1000 is lost: blocks of 16 KB are sent again, or whole transfers."""
    sizes = powers_of_two(16 << 10, 4 << 20)[:: options.pick(3, 1)]
    seeds = range(options.pick(5, SEEDS_A_REPETITION) * options.repetitions)
    bench = Bench(options.settings(), max(sizes))
    timeout_ns = bench.timeout_ns
    if timeout_ns is None:
        raise ConfigError(
            "run.timeout = none: nothing would send a lost packet's block again; set one"
        )
    rows: list[dict[str, float]] = []
    for num_bytes in sizes:
        plain_ns = bench.transfer(num_bytes).notified_ns
        outcomes = [bench.transfer(num_bytes, losing=f"1:1000:{seed}") for seed in seeds]
        times_us = [outcome.notified_ns / 1e3 for outcome in outcomes]
        rows.append(
            {
                "num_bytes": num_bytes,
                "plain": plain_ns / 1e3,
                "segmented": mean(times_us),
                "deviation": deviation(times_us),
                "resent": mean([each.counters["retransmitted_blocks"] for each in outcomes]),
                "unsegmented": unsegmented_ns(num_bytes, plain_ns, timeout_ns) / 1e3,
                "attempts": expected_attempts(num_bytes),
            }
        )
    x = [row["num_bytes"] for row in rows]

    def series(key: str, title: str, *, dashed: bool = False) -> Series:
        return Series(title, x, [row[key] for row in rows], dashed=dashed)

    return Result(
        columns=[
            SIZE,
            Column("plain", "no loss", "us", 1),
            Column("segmented", "blocks of 16 KB", "us", 1),
            Column("deviation", "deviation", "us", 1),
            Column("resent", "blocks sent again", "", 2),
            Column("unsegmented", "unsegmented (computed)", "us", 1),
            Column("attempts", "its attempts", "", 1),
        ],
        rows=rows,
        panels=[
            Panel(
                "transfer size",
                "latency (us)",
                [
                    series("segmented", "blocks of 16 KB are sent again"),
                    series("unsegmented", "whole transfer is sent again (computed)", dashed=True),
                    series("plain", "no loss"),
                ],
                log_x=True,
                log_y=True,
                x_is_bytes=True,
            ),
            Panel(
                "transfer size",
                "sent more than once (share of the data)",
                [
                    Series(
                        "blocks of 16 KB",
                        x,
                        [row["resent"] * (16 << 10) / row["num_bytes"] for row in rows],
                    ),
                    Series(
                        "whole transfer (computed)",
                        x,
                        [row["attempts"] - 1 for row in rows],
                        dashed=True,
                    ),
                ],
                log_x=True,
                log_y=True,
                x_is_bytes=True,
            ),
        ],
        notes=[
            (
                f"Every packet is lost with probability 1/1000 (faults.packet_loss, {len(seeds)} seeds: mean, "
                f"and standard deviation between transfers); timeout {timeout_ns / 1e6:g} ms."
            ),
            (
                "Unsegmented is arithmetic, not a mechanism of this machine: a transfer of n packets gets "
                "through at once with probability 0.999^n, else the whole of it is sent again after the "
                "timeout. At 1 MB that is one attempt in 60; at 4 MB it will not end: livelock."
            ),
            ONE_HOP_NOTE,
            LATENCY_NOTE,
        ],
        varied={"faults.packet_loss": "1:1000:SEED"},
    )
