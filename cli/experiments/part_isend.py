"""PART figure 16: how long Isend itself takes, with and without pre-touch of resident buffers."""

import random
from functools import partial

from pagewire.cli.experiments import two_ranks
from pagewire.cli.kit.numbers import deviation, mean, size_text
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series
from pagewire.native.settings import ConfigError

SMALLEST, NUM_SIZES = 100, 24
MEMORY = {"part": "without pre-touch (PART)", "pretouch": "with pre-touch"}


def figure_16(chosen: Options) -> Result:
    """Two ranks; rank 0 times Isend by MPI.Wtime, which is virtual."""
    limit = chosen.pick(64 << 10, 64 << 20, 512 << 20)
    draw = random.Random(1)
    sizes = sorted(draw.randint(SMALLEST, limit) for _ in range(chosen.pick(3, NUM_SIZES)))
    labels = {memory: f"Isend up to {max(sizes)} B, {memory}" for memory in MEMORY}
    found = chosen.points.measure(
        {label: partial(_run, chosen, memory, sizes) for memory, label in labels.items()}
    )
    times = {memory: found[label] for memory, label in labels.items() if label in found}
    rows: list[dict[str, float]] = [{"num_bytes": size} for size in sizes]
    for idx, row in enumerate(rows):
        for memory, by_size in times.items():
            row |= {memory: mean(by_size[idx]), f"{memory}_deviation": deviation(by_size[idx])}
        if len(times) == len(MEMORY):
            row["difference"] = row["pretouch"] - row["part"]
    series = [
        Series.of(name, rows, "num_bytes", memory, deviation=f"{memory}_deviation")
        for memory, name in MEMORY.items()
        if memory in times
    ]
    return Result(
        columns=[
            SIZE,
            Column("part", "without pre-touch", "us", 3),
            Column("part_deviation", "deviation", "us", 3),
            Column("pretouch", "with pre-touch", "us", 3),
            Column("pretouch_deviation", "deviation", "us", 3),
            Column("difference", "difference", "us", 3),
        ],
        rows=rows,
        panels=[Panel.over_bytes("message size", "duration of Isend (us)", series)],
        notes=f"""
            Duration of MPI.Comm.Isend alone, from call to return at rank 0, by MPI.Wtime (virtual);
            both ranks' buffers are resident; the receive is posted and the request completed
            outside of the measured time. {len(sizes)} sizes, drawn uniformly from {SMALLEST} B to
            {size_text(limit)} (--full: 512 MiB).

            Pre-touch costs come from the platform's table touch_resident (152 us for 4 MB; the last
            slope goes on above it); messages up to run.eager_limit are copied and never touched.

            {chosen.repetitions} repetitions.
        """,
        varied={"run.memory": ", ".join(MEMORY), "run.compute": "none"},
        numbers="MPI.Wtime of the emulated node around the call, from the platform's costs",
    )


def _run(chosen: Options, memory: str, sizes: list[int]) -> list[list[float]]:
    """Of each size, of each call."""
    cases = [(size, chosen.repetitions) for size in sizes]
    failure, times, _ = two_ranks.run(chosen, "isend", memory, cases, [f"run.memory={memory}"])
    if failure:
        raise ConfigError(f"part-fig16: the Isend program failed: {failure}")
    return times
