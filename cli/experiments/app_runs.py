"""Runs of whole applications under experiments: what their output says, what the report says."""

import atexit
import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments.apps import App
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.result import Options
from pagewire.cli.launch import launch, options
from pagewire.native.settings import ConfigError

NUM_QUARTERS = 4

SEND_CALLS = frozenset(
    ("send", "isend", "ssend", "issend", "bsend", "ibsend", "rsend", "irsend", "sendrecv")
)
"""Calls that the paper counts as sends: one message each, with the program's bytes."""

RECORDED_UNDER = "pretouch"
"""Memory strategy of the run that records compute times: what the others are held against."""


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
    """of all messages, with those inside of collectives"""
    send_calls: int
    send_call_bytes: int
    """of the program's own calls of MPI_Send and its kind"""
    quarters: Sequence[float]
    """Handler invocations by quarter of the run's virtual time."""


_done: dict[tuple[Any, ...], Run] = {}
"""Runs of this process, so that part-table5 does not repeat what the other tables have run."""

_recorded: dict[tuple[Any, ...], str] = {}
"""Files of compute times of apps that do not declare their work."""

_folders = contextlib.ExitStack()
"""Of those files, as long as this process lives."""

atexit.register(_folders.close)


def _runs_by_point(
    app: App, num_ranks: int, memories: Sequence[str], repetitions: int
) -> dict[str, list[tuple[str, int]]]:
    """Memory strategy and repetition of the runs of each point.

    A point is a run; of an app that declares no work all that replay one recording of compute
    times, since a recording ends with the process.
    """
    runs = [(memory, idx) for memory in memories for idx in range(repetitions)]
    title = f"{app.name} on {num_ranks} ranks"
    if not app.declares_work:
        return {title: runs}
    return {f"{title}, {memory}, {idx + 1}": [(memory, idx)] for memory, idx in runs}


def runs_of(
    chosen: Options, app: App, num_ranks: int, memories: Sequence[str], repetitions: int
) -> dict[str, list[Run]]:
    """The runs of each memory strategy on so many ranks; of a stopped experiment those that were
    finished."""

    def take(runs: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
        return [dataclasses.asdict(run_once(chosen, app, num_ranks, *each)) for each in runs]

    found: dict[str, list[Run]] = {memory: [] for memory in memories}
    for label, runs in _runs_by_point(app, num_ranks, memories, repetitions).items():
        if chosen.points.plan([label]):
            taken = chosen.points.take(label, partial(take, runs))
            for (memory, _), values in zip(runs, taken, strict=True):
                found[memory].append(Run(**values))
    return found


def plan(
    chosen: Options, app: App, ranks: Sequence[int], memories: Sequence[str], repetitions: int
) -> None:
    """Announce the points of all of them."""
    for num_ranks in ranks:
        chosen.points.plan(_runs_by_point(app, num_ranks, memories, repetitions))


def run_once(chosen: Options, app: App, num_ranks: int, memory: str, repetition: int) -> Run:
    """One run; raises ConfigError when the app is missing or fails.

    What an app computes between its MPI calls takes what it declares, or, when it declares nothing,
    what it took in a run before, which is recorded once for each number of ranks: so the strategies
    differ by what they do and not by this host's noise.
    """
    app.check(chosen)
    words = app.arguments(chosen)
    key = (app.name, words, num_ranks, tuple(sorted(chosen.environ.items())))
    what = f"{app.title(words)} on {num_ranks} ranks"
    compute = ["run.compute=model"]
    if not app.declares_work:
        if key not in _recorded:
            folder = _folders.enter_context(guarded_folder("pagewire-recorded-"))
            recording = ["run.compute=measured", f"run.compute_record={folder}/compute"]
            _run(chosen, app, num_ranks, [f"run.memory={RECORDED_UNDER}", *recording], what)
            _recorded[key] = f"{folder}/compute"
        compute = ["run.compute=replay", f"run.compute_replay={_recorded[key]}"]
    one = (*key, memory, repetition)
    if one not in _done:
        _done[one] = _run(
            chosen, app, num_ranks, [f"run.memory={memory}", *compute], f"{what}, {memory}"
        )
    return _done[one]


def _run(chosen: Options, app: App, num_ranks: int, settings: list[str], what: str) -> Run:
    with guarded_folder("pagewire-experiment-") as name:
        folder = pathlib.Path(name)
        report, output = folder / "report.json", folder / "output"
        environ = dict(chosen.environ)
        texts = [*settings, *app.settings, "run.quiet=true", f"run.json={report}"]
        options.apply(options.as_environment(texts), environ)
        started = app.program(chosen, num_ranks, folder)
        launch.check_settings(environ, started)
        group = chosen.group(environ, what)
        with output.open("w") as file:
            outcome = launch.launch(num_ranks, started, environ, stdout=file, group=group)
        if outcome.failure:
            raise ConfigError(f"{what}: {outcome.failure}")
        try:
            seconds, rate = app.read(app.text(folder, output))
        except ValueError as error:
            raise ConfigError(f"{what}: its output was not understood: {error}") from None
        document = json.loads(report.read_text(encoding="utf-8"))
    summary = document["summary"]
    calls = document["totals"]["mpi_calls"]
    own = [calls[name] for name in calls if name.lower() in SEND_CALLS]
    return Run(
        time_s=seconds,
        rate=rate,
        virtual_s=summary["virtual_time_s"],
        handlers=summary["fault_interrupts"],
        errs=summary["err_messages"],
        sends=summary["mpi_sends"],
        sent_bytes=summary["mpi_bytes"],
        send_calls=sum(each["calls"] for each in own),
        send_call_bytes=sum(each["bytes"] for each in own),
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
