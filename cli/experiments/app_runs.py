"""Runs of the bundled apps under experiments: sizes, what their output says, what the report
says."""

import dataclasses
import json
import pathlib
import re
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from pagewire.cli import launch, options, program
from pagewire.cli.experiments.result import Options
from pagewire.native.settings import ConfigError

NUM_QUARTERS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class App:
    """A bundled app as the tables run it."""

    name: str
    quick: tuple[str, ...]
    default: tuple[str, ...]
    full: tuple[str, ...]
    size_note: str
    rate_unit: str
    read: Callable[[str], tuple[float, float]]
    """Time in s and rate out of its output; raises ValueError."""

    def arguments(self, chosen: Options) -> tuple[str, ...]:
        words: tuple[str, ...] = chosen.pick(self.quick, self.default, self.full)
        return words

    @property
    def is_installed(self) -> bool:
        return self.name in program.apps()


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """What one run gave."""

    time_s: float
    rate: float
    virtual_s: float
    handlers: int
    errs: int
    sends: int
    sent_bytes: int
    quarters: tuple[float, ...]
    """Handler invocations by quarter of the run's virtual time."""


def _number(pattern: str, text: str) -> tuple[float, ...]:
    found = re.search(pattern, text, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"no line like '{pattern}'")
    return tuple(float(group) for group in found.groups())


def _read_lammps(text: str) -> tuple[float, float]:
    (seconds,) = _number(r"^Loop time of (\S+) on", text)
    (rate,) = _number(r"(\S+) timesteps/s", text)
    return seconds, rate


def _read_hpl(text: str) -> tuple[float, float]:
    order, rate = _number(r"^W[RC]\S*\s+(\d+)(?:\s+\d+){3}\s+\S+\s+(\S+)\s*$", text)
    # HPL's time has two decimals, its rate four digits.
    return (2 / 3 * order + 3 / 2) * order**2 / 1e9 / rate, rate


def _read_hpcg(text: str) -> tuple[float, float]:
    (seconds,) = _number(r"^Benchmark Time Summary::Total=(\S+)", text)
    (rate,) = _number(r"GFLOP/s rating of=(\S+)", text)
    return seconds, rate


APPS: Mapping[str, App] = {
    app.name: app
    for app in (
        App(
            "lammps",
            quick=("--size", "6", "--steps", "10"),
            default=("--size", "12", "--steps", "60"),
            full=("--size", "40", "--steps", "100"),
            size_note="one melt for all ranks (4 atoms a cell, 6912 by default); the paper does "
            "not give its size, --full takes 256000 atoms.",
            rate_unit="timesteps/s",
            read=_read_lammps,
        ),
        App(
            "hpl",
            quick=("--N", "192", "--NB", "32"),
            default=("--N", "2048", "--NB", "128"),
            full=("--N", "16384", "--NB", "128"),
            size_note="one system for all ranks; --full is the paper's N = 16384.",
            rate_unit="GFLOP/s",
            read=_read_hpl,
        ),
        App(
            "hpcg",
            quick=("--size", "8", "--iterations", "3"),
            default=("--size", "16", "--iterations", "20"),
            full=("--size", "128", "--iterations", "50"),
            size_note="points of each rank in x, y and z; --full is the paper's 128^3 a rank.",
            rate_unit="GFLOP/s",
            read=_read_hpcg,
        ),
    )
}

_done: dict[tuple[Any, ...], Run] = {}
"""Runs of this process, so that part-table5 does not repeat what the other tables have run."""


def run_once(chosen: Options, app: App, num_ranks: int, memory: str, repetition: int) -> Run:
    """One run with compute = model; raises ConfigError when the app is missing or fails."""
    if not app.is_installed:
        raise ConfigError(f"this experiment needs the app '{app.name}', which is not installed")
    words = app.arguments(chosen)
    key = (app.name, words, num_ranks, memory, repetition, tuple(sorted(chosen.environ.items())))
    if key not in _done:
        what = f"{app.name} {' '.join(words)} on {num_ranks} ranks, {memory}"
        chosen.say(f"{what}, run {repetition + 1}")
        _done[key] = _run(chosen, app, words, num_ranks, memory, what)
    return _done[key]


def _run(
    chosen: Options, app: App, words: tuple[str, ...], num_ranks: int, memory: str, what: str
) -> Run:
    with tempfile.TemporaryDirectory(prefix="pagewire-experiment-") as folder:
        report, output = pathlib.Path(folder, "report.json"), pathlib.Path(folder, "output")
        environ = dict(chosen.environ)
        settings = [
            f"run.memory={memory}",
            "run.compute=model",
            "run.quiet=true",
            f"run.json={report}",
        ]
        options.apply(options.as_environment(settings), environ)
        with output.open("w") as file:
            outcome = launch.launch(
                num_ranks, program.parse([app.name, *words]), environ, stdout=file
            )
        if outcome.exit_code == launch.INTERRUPTED:
            raise KeyboardInterrupt
        if outcome.failure:
            raise ConfigError(f"{what}: {outcome.failure}")
        text = output.read_text(encoding="utf-8")
        try:
            seconds, rate = app.read(text)
        except ValueError as error:
            raise ConfigError(f"{what}: its output was not understood: {error}") from None
        document = json.loads(report.read_text(encoding="utf-8"))
    summary = document["summary"]
    return Run(
        time_s=seconds,
        rate=rate,
        virtual_s=summary["virtual_time_s"],
        handlers=summary["fault_interrupts"],
        errs=summary["err_messages"],
        sends=summary["mpi_sends"],
        sent_bytes=summary["mpi_bytes"],
        quarters=quarters(document["ranks"], summary["virtual_time_s"] * 1e9),
    )


def quarters(ranks: list[dict[str, Any]], end_ns: float) -> tuple[float, ...]:
    """Handler invocations of all ranks by quarter of the run; a bin that a border cuts is
    divided."""
    found = [0.0] * NUM_QUARTERS
    for rank in ranks:
        times = rank.get("interrupt_times", {})
        width_ns = times.get("bin_ns", 1)
        for idx, count in enumerate(times.get("bins", ())):
            if not count:
                continue
            begin, end = idx * width_ns, min((idx + 1) * width_ns, max(end_ns, idx * width_ns + 1))
            for quarter in range(NUM_QUARTERS):
                low, high = quarter * end_ns / 4, (quarter + 1) * end_ns / 4
                inside = max(0.0, min(end, high) - max(begin, low))
                found[quarter] += count * inside / (end - begin)
    return tuple(found)
