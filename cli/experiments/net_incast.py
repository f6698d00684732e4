"""What does an incast cost whose receiver has to page in? [R5 4.3: timeouts under congestion]"""

from functools import partial
from typing import Any

from pagewire.cli.experiments.net_replays import (
    NUMBERS,
    replayed,
    settings_of,
    time_us,
    total,
)
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.replay.patterns import Shape, Synthetic
from pagewire.replay.replay import ReplayError

MEMORIES = ("ideal", "pretouch", "pin", "odp", "part")
TIMEOUTS = {
    "1ms": ("run.timeout=1ms",),
    "10ms": ("run.timeout=10ms",),
    "none": ("run.timeout=none",),
    "measured": ("firmware.timeout=measured", "firmware.congestion=delay"),
}
"""The last one is measured, and the rate follows the delay."""
SHAPE = Shape(num_bytes=64 << 10, steps=2, fresh=1.0)
NO_END = "no end"


def net_incast(options: Options) -> Result:
    """Time of the run, by senders, memory strategy and timeout."""
    counts = options.pick([4, 8], [8, 16, 32, 64], [8, 64, 512])
    found = options.points.measure(
        {
            f"{count} senders, {memory}, timeout {timeout}": partial(
                _row, options, count, memory, timeout
            )
            for count in counts
            for memory in MEMORIES
            for timeout in TIMEOUTS
        }
    )
    rows = list(found.values())
    ended = [row for row in rows if row["time_us"] != NO_END]
    first, *others = TIMEOUTS
    lines = [(memory, first) for memory in MEMORIES]
    lines += [("part", timeout) for timeout in others]
    return Result(
        columns=[
            Column("senders", "senders"),
            Column("memory", "memory"),
            Column("timeout", "timeout"),
            Column("time_us", "time", "us", 1),
            Column("timeouts", "timeouts"),
            Column("faults", "packets that faulted"),
            Column("fifo_lost", "entries a full FIFO lost"),
        ],
        rows=rows,
        panels=[
            Panel(
                "senders",
                "time of the run (us)",
                [
                    Series.of(
                        f"{memory}, {timeout}",
                        [
                            row
                            for row in ended
                            if (row["memory"], row["timeout"]) == (memory, timeout)
                        ],
                        "senders",
                        "time_us",
                        dashed=timeout != first,
                    )
                    for memory, timeout in lines
                ],
                log_x=True,
                log_y=True,
            )
        ],
        notes=f"""
            Each rank but one sends two messages of 64 KiB to rank 0, a barrier behind each, into
            pages that nobody has touched. "{NO_END}": without a timeout a block is never sent again
            whose entry the full FIFO has lost and that no ERR asks for, and its run stands still.

            The driver brings pages in one after the other, so that part takes longest. With a
            short timeout blocks that wait for it are sent again only to fault again; with a long
            one, what the full FIFO has lost waits long. Neither is better at every number of
            senders. "measured": the timeout follows the round trips of blocks, and the rate of each
            sender their delay (firmware.congestion).
        """,
        varied={
            "network.model": "links",
            "run.memory": ", ".join(MEMORIES),
            "run.timeout": "1ms, 10ms, none",
            "firmware.timeout": "fixed, measured",
            "firmware.congestion": "none, delay",
        },
        numbers=NUMBERS,
    )


def _row(options: Options, count: int, memory: str, timeout: str) -> dict[str, Any]:
    trace = Synthetic("incast", count + 1, SHAPE)
    settings = settings_of(options, f"run.memory={memory}", *TIMEOUTS[timeout])
    row: dict[str, Any] = {"senders": count, "memory": memory, "timeout": timeout}
    try:
        outcome = replayed(trace, settings)
    except ReplayError:
        return row | dict.fromkeys(("time_us", "timeouts", "faults", "fifo_lost"), NO_END)
    return row | {
        "time_us": time_us(outcome),
        "timeouts": total(outcome, "timeouts"),
        "faults": total(outcome, "translation_faults_destination"),
        "fifo_lost": total(outcome, "fifo_lost"),
    }
