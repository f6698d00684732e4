"""PART tables 2 to 5: whole applications, pre-touch against PART."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli.experiments.app_runs import RECORDED_UNDER, Run, plan, runs_of
from pagewire.cli.experiments.apps import KINDS, App
from pagewire.cli.kit.numbers import deviation, mean
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.native.settings import ConfigError

RANKS = (1, 2, 4, 8, 16)
MEMORY = {"pretouch": "pre-touch", "part": "PART"}
_ORDER_NOTE = (
    "so this host's noise stays out; what still differs from run to run is the order in which "
    "frames of several peers reach a process, and so what MPI_Test answers."
)
_DECLARED_NOTE = (
    "run.compute = model: compute time is what the app declares (flops, bytes) at the platform's "
    f"rates, {_ORDER_NOTE}"
)
_RECORDED_NOTE = (
    "run.compute = replay: compute time is what one more run took on this host (its CPUs, not the "
    f"platform's; under {MEMORY[RECORDED_UNDER]}), recorded for each number of ranks, {_ORDER_NOTE}"
)


COUNT_NOTE = (
    "Sums over ranks. Calls: of MPI_Send and its kind, what the paper counts. Messages: with those "
    "inside of collectives. MiB = 2^20 B, KiB = 2^10 B: the paper's MB and KB, since its ratios "
    "come out with these alone."
)


def pretouch_against_part(options: Options, which: str) -> Result:
    """which: the app, of those that --app takes."""
    return _table(options, KINDS[options.app][which])


def fresh_workspace(options: Options) -> Result:
    """The HPL-like app with new memory for each panel; raises ConfigError for HPL itself."""
    if options.app != "mini":
        raise ConfigError(
            f"part-table3-fresh with --app {options.app}: HPL decides itself what memory it takes; "
            "the bundled app alone has the choice, so leave --app out"
        )
    app = KINDS["mini"]["hpl"]
    quick, usual, full = (f"{each} --workspace fresh" for each in app.sizes)
    return _table(options, dataclasses.replace(app, sizes=(quick, usual, full)))


def _table(options: Options, app: App) -> Result:
    rows = _rows(options, app)
    origin = "recorded on this host"
    if app.declares_work:
        origin = "declared by the app at the platform's rates"
    return Result(
        columns=[
            Column("ranks", "ranks"),
            Column("memory", "memory"),
            Column("time", "time", "ms", 3),
            Column("rate", app.rate_unit, "", 3),
            Column("run", "whole run", "ms", 3),
            Column("deviation", "dev.", "ms", 4),
            Column("handlers", "handler runs", "", 1),
            Column("errs", "ERRs", "", 1),
            Column("first_quarter", "first quarter", "%", 0),
            Column("last_quarter", "last quarter", "%", 0),
            Column("slowdown", "slowdown", "%", 2),
            Column("own_slowdown", "of time", "%", 2),
        ],
        rows=rows,
        panels=_panels(rows),
        notes=f"""
            {app.title(options)}; {app.size_note}

            time and rate: the app's own measured part, by its clock (virtual), as it prints them.
            whole run: virtual time from start to MPI_Finalize with set-up and checks, to the ns;
            deviation and slowdown are of this one. of time: the slowdown of the app's own time,
            which the paper gives. {options.repetitions} runs.

            first, last quarter: share of the handler invocations by quarter of the run's virtual
            time (start to MPI_Finalize), over all ranks.

            handler runs, ERRs: sums over ranks, mean over runs.

            {_spread(rows, options.repetitions)}
            {_DECLARED_NOTE if app.declares_work else _RECORDED_NOTE}
        """,
        varied={
            "run.memory": ", ".join(MEMORY),
            "run.compute": "model" if app.declares_work else "replay",
            **dict(each.split("=", 1) for each in app.settings),
        },
        numbers=f"virtual times of the engine; compute {origin}",
        title="" if app.declares_work else f"{app.name}: pre-touch against PART",
    )


def _rows(options: Options, app: App) -> list[dict[str, Any]]:
    """A row for each number of ranks and memory strategy, with the slowdown over the first."""
    rows: list[dict[str, Any]] = []
    numbers = options.pick((1, 2), RANKS)
    plan(options, app, numbers, list(MEMORY), options.repetitions)
    for num_ranks in numbers:
        base: dict[str, Any] = {}
        by_memory = runs_of(options, app, num_ranks, list(MEMORY), options.repetitions)
        for memory, name in MEMORY.items():
            runs = by_memory[memory]
            if not runs:
                continue
            rows.append({"ranks": num_ranks, "memory": name, **_row(runs)})
            base = base or rows[-1]
            rows[-1]["slowdown"] = 100 * (rows[-1]["run"] / base["run"] - 1)
            rows[-1]["own_slowdown"] = 100 * (rows[-1]["time"] / base["time"] - 1)
            rows[-1]["slowdown_deviation"] = 100 * rows[-1]["deviation"] / base["run"]
    return rows


def _panels(rows: Sequence[dict[str, Any]]) -> list[Panel]:
    part = [row for row in rows if row["memory"] == MEMORY["part"]]
    touched = [row for row in rows if row["memory"] == MEMORY["pretouch"]]
    times = [
        Series.of(MEMORY["pretouch"], touched, "ranks", "run", deviation="deviation"),
        Series.of(MEMORY["part"], part, "ranks", "run", deviation="deviation", dashed=True),
    ]
    slowdown = Series.of("slowdown", part, "ranks", "slowdown", deviation="slowdown_deviation")
    counts = [
        Series.of("handler invocations", part, "ranks", "handlers"),
        Series.of("ERRs", part, "ranks", "errs", dashed=True),
    ]
    return [
        Panel("ranks", "virtual time of the run (ms)", times, log_x=True, log_y=True, title="time"),
        Panel(
            "ranks",
            "slowdown of PART over pre-touch (%)",
            [slowdown],
            log_x=True,
            title="slowdown (bars: deviation of PART)",
        ),
        Panel("ranks", "count a run", counts, log_x=True, title="PART"),
    ]


def _row(runs: Sequence[Run]) -> dict[str, Any]:
    times = [run.virtual_s * 1e3 for run in runs]
    faults = sum(run.handlers for run in runs)
    return {
        "time": mean([run.time_s * 1e3 for run in runs]),
        "run": mean(times),
        "deviation": deviation(times),
        "spread": 100 * (max(times) - min(times)) / mean(times),
        "rate": mean([run.rate for run in runs]),
        "handlers": mean([run.handlers for run in runs]),
        "errs": mean([run.errs for run in runs]),
        "first_quarter": 100 * sum(run.quarters[0] for run in runs) / faults if faults else None,
        "last_quarter": 100 * sum(run.quarters[3] for run in runs) / faults if faults else None,
    }


def _spread(rows: Sequence[dict[str, Any]], repetitions: int) -> str:
    if repetitions < 2:
        return "One run of each: how far equal runs are apart is not known from it."
    largest = max(float(row["spread"]) for row in rows)
    return f"Largest spread (max - min) between equal runs: {largest:.4f} % of the time."


def _sends(options: Options, app: App, num_ranks: int, run: Run) -> dict[str, Any]:
    steps = app.num_steps(options, num_ranks)
    parts = steps * num_ranks if steps else 0
    return {
        "app": app.name,
        "ranks": num_ranks,
        **_counted("call", run.send_calls, run.send_call_bytes),
        **_counted("message", run.sends, run.sent_bytes),
        "calls_a_step": run.send_calls / parts if parts else None,
        "mib_a_step": run.send_call_bytes / parts / 2**20 if parts else None,
    }


def _counted(what: str, number: int, num_bytes: int) -> dict[str, float]:
    return {
        f"{what}s": number,
        f"{what}s_mib": num_bytes / 2**20,
        f"kib_a_{what}": num_bytes / number / 2**10 if number else 0.0,
    }


def table_5(options: Options) -> Result:
    """MPI sends of the three apps; those that are not installed are left out, with a note."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    apps = KINDS[options.app].values()
    there: list[App] = []
    numbers = options.pick((2,), RANKS[1:])
    for app in apps:
        try:
            app.check(options)
        except ConfigError as error:
            notes.append(f"{app.name} is left out: {error}.")
            continue
        there.append(app)
        plan(options, app, numbers, ["part"], 1)
        notes.append(f"{app.title(options)}; {app.size_note}")
    for app in there:
        for num_ranks in numbers:
            for run in runs_of(options, app, num_ranks, ["part"], 1)["part"]:
                rows.append(_sends(options, app, num_ranks, run))
    if not rows:
        raise ConfigError(
            "part-table5: none of the apps " + ", ".join(app.name for app in apps) + " is there"
        )
    compute = "model" if there[-1].declares_work else "replay"
    return Result(
        columns=[
            Column("app", "app"),
            Column("ranks", "ranks"),
            Column("calls", "MPI_Send calls"),
            Column("calls_mib", "sent", "MiB", 3),
            Column("kib_a_call", "a call", "KiB", 3),
            Column("messages", "messages"),
            Column("messages_mib", "sent", "MiB", 3),
            Column("kib_a_message", "a message", "KiB", 3),
            Column("calls_a_step", "calls a step and rank", "", 1),
            Column("mib_a_step", "sent a step and rank", "MiB", 3),
        ],
        rows=rows,
        panels=[
            _panel_of_apps(rows, "calls", "MPI_Send calls", "sends"),
            _panel_of_apps(rows, "kib_a_call", "bytes a call (KiB)", "size"),
        ],
        notes=[
            COUNT_NOTE,
            *notes,
        ],
        varied={"run.memory": "part", "run.compute": compute},
        numbers="counters of the ranks; one run, since counts do not vary",
    )


def _panel_of_apps(rows: Sequence[Mapping[str, Any]], key: str, label: str, title: str) -> Panel:
    """A line an app, over ranks."""
    lines = Series.by("app", rows, "ranks", key)
    return Panel("ranks", label, lines, log_x=True, log_y=True, title=title)
