"""PART figure 16: how long Isend itself takes, with and without pre-touch of resident buffers."""

import json
import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial

from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.result import (
    Column,
    Options,
    Panel,
    Result,
    Series,
    deviation,
    mean,
)
from pagewire.cli.launch import launch, options, program
from pagewire.native.settings import ConfigError

SIZES = (100, *(1 << shift for shift in range(8, 30)))
MEMORY = ("part", "pretouch")


_NAMES = {"part": "without pre-touch (PART)", "pretouch": "with pre-touch"}


def figure_16(chosen: Options) -> Result:
    """Two ranks; rank 0 times Isend by MPI.Wtime, which is virtual."""
    limit = chosen.pick(64 << 10, 64 << 20, 512 << 20)
    sizes = [size for size in SIZES if size <= limit]
    sizes = sizes[::3] if chosen.quick else sizes
    labels = {memory: f"Isend up to {max(sizes)} B, {memory}" for memory in MEMORY}
    finished = chosen.points.plan(labels.values())
    times = {
        memory: chosen.points.take(label, partial(_run, chosen, memory, sizes))
        for memory, label in labels.items()
        if label in finished
    }
    rows = [_row(times, num_bytes) for num_bytes in sizes]
    series = [
        Series.of(name, rows, "num_bytes", memory, deviation=f"{memory}_deviation")
        for memory, name in _NAMES.items()
        if memory in times
    ]
    return Result(
        columns=[
            Column("num_bytes", "size", "B"),
            Column("part", "without pre-touch", "us", 3),
            Column("part_deviation", "deviation", "us", 3),
            Column("pretouch", "with pre-touch", "us", 3),
            Column("pretouch_deviation", "deviation", "us", 3),
            Column("difference", "difference", "us", 3),
        ],
        rows=rows,
        panels=[Panel.over_bytes("message size", "duration of Isend (us)", series)],
        notes=[
            (
                "Duration of MPI.Comm.Isend alone, from call to return at rank 0, by MPI.Wtime "
                "(virtual); both ranks' buffers are resident; the receive is posted and the "
                "request completed outside of the measured time."
            ),
            (
                "Pre-touch costs come from the platform's table touch_resident (152 us for 4 MB; "
                "the last slope goes on above it); messages up to run.eager_limit are copied and "
                "never touched."
            ),
            f"{chosen.repetitions} repetitions.",
        ],
        varied={"run.memory": ", ".join(MEMORY), "run.compute": "none"},
        numbers="MPI.Wtime of the emulated node around the call, from the platform's costs",
    )


def _row(times: Mapping[str, Mapping[str, Sequence[float]]], num_bytes: int) -> dict[str, float]:
    """Means of one size in us, of each strategy that ran."""
    row: dict[str, float] = {"num_bytes": num_bytes}
    for memory, by_size in times.items():
        durations = [round(seconds * 1e9) / 1e3 for seconds in by_size[str(num_bytes)]]
        row[memory] = mean(durations)
        row[f"{memory}_deviation"] = deviation(durations)
    if len(times) == len(MEMORY):
        row["difference"] = row["pretouch"] - row["part"]
    return row


def _run(chosen: Options, memory: str, sizes: list[int]) -> dict[str, list[float]]:
    with guarded_folder("pagewire-isend-") as folder:
        path = pathlib.Path(folder, "times.json")
        words = [str(path), str(chosen.repetitions), *map(str, sizes)]
        command = program.parse(["-m", "pagewire.cli.experiments.isend_program", *words])
        environ = dict(chosen.environ)
        settings = [f"run.memory={memory}", "run.compute=none", "run.quiet=true"]
        options.apply(options.as_environment(settings), environ)
        outcome = launch.launch(
            2,
            command,
            environ,
            stdout=subprocess.DEVNULL,
            group=chosen.group(environ, f"isend, {memory}"),
        )
        if outcome.failure:
            raise ConfigError(f"part-fig16: the Isend program failed: {outcome.failure}")
        times: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8"))
        return times
