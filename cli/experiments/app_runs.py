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


def _label(chosen: Options, app: App, num_ranks: int, memory: str, repetition: int) -> str:
    """Of the point that one run is."""
    return f"{_what(chosen, app, num_ranks)}, {memory}, {repetition + 1}"


def _what(chosen: Options, app: App, num_ranks: int) -> str:
    return f"{app.title(chosen)} on {num_ranks} ranks"


def _recording_label(chosen: Options, app: App, num_ranks: int) -> str:
    return f"{_what(chosen, app, num_ranks)}, compute times recorded"


def runs_of(
    chosen: Options, app: App, num_ranks: int, memories: Sequence[str], repetitions: int
) -> dict[str, list[Run]]:
    """The runs of each memory strategy on so many ranks; of a stopped experiment those that were
    finished."""
    if _is_to_be_recorded(chosen, app, num_ranks) and chosen.points.plan(
        [_recording_label(chosen, app, num_ranks)]
    ):
        _take_recording(chosen, app, num_ranks)
    found: dict[str, list[Run]] = {memory: [] for memory in memories}
    for memory in memories:
        for idx in range(repetitions):
            label = _label(chosen, app, num_ranks, memory, idx)
            if chosen.points.plan([label]):
                measure = partial(_measured, chosen, app, num_ranks, memory, idx)
                found[memory].append(Run(**chosen.points.take(label, measure)))
    return found


def plan(
    chosen: Options, app: App, ranks: Sequence[int], memories: Sequence[str], repetitions: int
) -> None:
    """Announce the points of all of them."""
    for num_ranks in ranks:
        labels = [
            _label(chosen, app, num_ranks, memory, idx)
            for memory in memories
            for idx in range(repetitions)
        ]
        if _is_to_be_recorded(chosen, app, num_ranks):
            labels.insert(0, _recording_label(chosen, app, num_ranks))
        chosen.points.plan(labels, app.work(chosen, num_ranks))


def _measured(*which: Any) -> dict[str, Any]:
    """One run, as a point holds it."""
    return dataclasses.asdict(run_once(*which))


def run_once(chosen: Options, app: App, num_ranks: int, memory: str, repetition: int) -> Run:
    """One run; raises ConfigError when the app is missing or fails.

    What an app computes between its MPI calls takes what it declares, or, when it declares nothing,
    what it took in a run before, which is recorded once for each number of ranks: so the strategies
    differ by what they do and not by this host's noise.
    """
    app.check(chosen)
    compute = ["run.compute=model"]
    if not app.declares_work:
        recorded = _take_recording(chosen, app, num_ranks)
        compute = ["run.compute=replay", f"run.compute_replay={recorded}"]
    one = (*_key(chosen, app, num_ranks), memory, repetition)
    if one not in _done:
        what = f"{_what(chosen, app, num_ranks)}, {memory}"
        _done[one] = _run(chosen, app, num_ranks, [f"run.memory={memory}", *compute], what)
    return _done[one]


def _key(chosen: Options, app: App, num_ranks: int) -> tuple[Any, ...]:
    return (_what(chosen, app, num_ranks), tuple(sorted(chosen.environ.items())))


def _is_to_be_recorded(chosen: Options, app: App, num_ranks: int) -> bool:
    return not app.declares_work and _key(chosen, app, num_ranks) not in _recorded


def _take_recording(chosen: Options, app: App, num_ranks: int) -> str:
    """Where the compute times of the app on so many ranks are: kept, or recorded now."""
    key = _key(chosen, app, num_ranks)
    if key not in _recorded:

        def record(folder: str) -> None:
            app.check(chosen)
            settings = ["run.compute=measured", f"run.compute_record={folder}/compute"]
            what = _recording_label(chosen, app, num_ranks)
            _run(chosen, app, num_ranks, [f"run.memory={RECORDED_UNDER}", *settings], what)

        folder = chosen.points.take_files(
            _recording_label(chosen, app, num_ranks),
            record,
            lambda: _folders.enter_context(guarded_folder("pagewire-recorded-")),
        )
        _recorded[key] = f"{folder}/compute"
    return _recorded[key]


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
