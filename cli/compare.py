"""`pagewire compare`: one program under several memory strategies, and the table of the difference;
with several runs of each, whether equal runs give equal figures.

Compute time between MPI calls is noise of this host, so by default the first run's is recorded and
replayed in the others: what is left is what the strategies do. Each rank hashes what it received by
RDMA, so that a strategy that loses bytes is seen.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pagewire.cli import compare_table, launch, noise, options, repetitions
from pagewire.cli.guard import guarded_folder
from pagewire.cli.program import Program
from pagewire.native.settings import ConfigError, allowed
from pagewire.transport.memory.built_in import REGISTRY
from pagewire.transport.node.report import write_json
from pagewire.transport.page import page
from pagewire.transport.settings import config
from pagewire.transport.timeline import request

COMPUTE = ("replay", "measured", "model", "none")
ALL = "all"
"""Of --memory: every strategy that comes with pagewire, and every unit."""
UNITS = ("mini", "static")
"""Of --memory: values of run.translation whose unit pins by itself and needs no strategy."""

MAX_RUNS = 10_000
"""Bound against a mistyped number."""


def compare(
    num_ranks: int,
    chosen: Program,
    environ: Mapping[str, str],
    *,
    memory: str,
    policy: str | None,
    compute: str,
    quiet_app: bool,
    json_path: str,
    plot_path: str = "",
    html_path: str = "",
    num_runs: int = 1,
    with_noise: bool = False,
    must_be_equal: bool = False,
) -> int:
    """Run, print the table, write JSON and picture; the exit code of the run that failed, or 0.

    Of `all` strategies each may fail but the first: a host's limit refuses some, and the table
    says so. With several runs of each strategy, what is shown is the first one's, and what equal
    runs differ in; 1 when they must be equal and are not.
    """
    if compute not in COMPUTE:
        raise ConfigError(f"--compute '{compute}': allowed is one of {', '.join(COMPUTE)}")
    if not 1 <= num_runs <= MAX_RUNS:
        raise ConfigError(f"--runs {num_runs}: allowed is 1 to {MAX_RUNS}")
    if must_be_equal and num_runs == 1:
        raise ConfigError("--equal needs runs to hold against each other: --runs 2 or more")
    launch.check_writable("--json", json_path)
    launch.check_writable("--plot", plot_path)
    launch.check_writable("--html", html_path)
    if plot_path:
        compare_table.check_picture(plot_path)
    environ = dict(environ)
    launch.choose_transport(environ, chosen)
    base = launch.check_settings(environ, chosen)
    trace_path = base.run.trace
    may_fail = memory.strip() == ALL
    choices = _choices(memory, policy, base)
    failures: dict[_Choice, str] = {}
    with guarded_folder("pagewire-compare-") as directory:
        plan = _plan(choices, compute, num_runs, directory, is_traced=bool(trace_path))
        for each in plan:
            each.environ = dict(environ)
            options.apply(options.as_environment(each.assignments), each.environ)
            try:
                launch.check_settings(each.environ, chosen)
            except ConfigError as error:
                if not may_fail or each.choice == choices[0]:
                    raise
                failures[each.choice] = str(error)
        with noise.beside(with_noise):
            for idx, each in enumerate(plan):
                if each.choice in failures:
                    continue
                _say(
                    f"run {idx + 1} of {len(plan)}: {chosen.label} on {num_ranks} ranks, "
                    f"{each.name}"
                )
                is_shown = not quiet_app and each.is_first
                output = None if is_shown else subprocess.DEVNULL
                group = request.Group(idx, each.choice_name)
                outcome = launch.launch(num_ranks, chosen, each.environ, stdout=output, group=group)
                if outcome.failure and (not may_fail or each.choice == choices[0]):
                    _say(f"{outcome.failure}; comparison ended at {each.name}")
                    return outcome.exit_code
                if outcome.failure:
                    _say(f"{outcome.failure}; the comparison goes on without {each.name}")
                    failures[each.choice] = outcome.failure
                    continue
                each.document = _read_report(each.report, chosen)
                each.report.unlink()
        if trace_path:
            request.join(sorted(pathlib.Path(directory).glob("*.trace")), trace_path)
    documents: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for choice in choices:
        if choice in failures:
            entries.append({**choice._asdict(), "failure": failures[choice]})
            continue
        runs = [each.document for each in plan if each.choice == choice and each.counts]
        documents.append(runs[0])
        entry: dict[str, Any] = runs[0]["summary"]
        entries.append(entry)
        _add_differences(entry, runs, documents[0]["summary"])
        if num_runs > 1:
            entry["repetitions"] = repetitions.of_reports(runs)
    title = f"{chosen.label}, {num_ranks} ranks, compute {compute}"
    compare_table.show(entries, title)
    if num_runs > 1:
        repetitions.show(entries)
    result = {
        "program": chosen.label,
        "ranks": num_ranks,
        "compute": compute,
        "entries": entries,
        "settings": _common_settings(documents),
        "reports": documents,
    }
    if json_path:
        write_json(json_path, result, "compare")
    if html_path:
        page.write(html_path, result)
    if plot_path:
        compare_table.draw(entries, title, plot_path)
    if must_be_equal and any(
        entry["repetitions"]["differences"] for entry in entries if "repetitions" in entry
    ):
        _say("equal runs differ")
        return 1
    return 0


class _Choice(NamedTuple):
    """What is compared: settings of section run."""

    memory: str
    policy: str
    translation: str


@dataclasses.dataclass(slots=True)
class _Run:
    """One run of the program."""

    choice: _Choice
    assignments: list[str]
    report: pathlib.Path
    is_first: bool
    counts: bool
    """Not one that was made for its compute times alone."""
    environ: dict[str, str] = dataclasses.field(default_factory=dict)
    document: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.choice_name if self.counts else f"{self.choice_name}, compute times recorded"

    @property
    def choice_name(self) -> str:
        """Of its row."""
        entry = self.choice._asdict()
        name = compare_table.row_name(entry)
        return f"{name}/{self.choice.policy}" if compare_table.has_policy(entry) else name


def _plan(
    choices: Sequence[_Choice], compute: str, num_runs: int, directory: str, *, is_traced: bool
) -> list[_Run]:
    """The runs in their order. The one whose compute times are recorded is itself not equal to
    those that replay them, so with several runs it is one of its own. Of several equal runs the
    first is traced."""
    record, replay = (f"run.compute_{verb}={directory}/compute" for verb in ("record", "replay"))
    recording = ["run.compute=measured", record]
    replaying = ["run.compute=replay", replay]
    wanted: list[tuple[_Choice, list[str], bool, bool]] = []

    def traces(idx: int, is_first: bool) -> list[str]:
        if not is_traced:
            return []
        return [f"run.trace={directory}/{idx:05}.trace" if is_first else "run.trace="]

    for choice in choices:
        for run in range(num_runs):
            times = [f"run.compute={compute}"]
            if compute == "replay":
                times = replaying
                if not wanted:
                    times = recording
                    if num_runs > 1:
                        wanted.append((choice, recording, False, False))
                        times = replaying
            wanted.append((choice, times, run == 0, True))
    return [
        _Run(
            choice,
            [
                *(f"run.{name}={text}" for name, text in choice._asdict().items()),
                f"run.json={directory}/{idx:05}.json",
                "run.html=",
                "run.hash_received=true",
                *traces(idx, is_first),
                *times,
            ],
            pathlib.Path(f"{directory}/{idx:05}.json"),
            is_first,
            counts,
        )
        for idx, (choice, times, is_first, counts) in enumerate(wanted)
    ]


def _add_differences(
    entry: dict[str, Any], runs: Sequence[Mapping[str, Any]], first: Mapping[str, Any]
) -> None:
    """What the runs of a strategy are against the first strategy's."""
    first_s = first["virtual_time_s"]
    entry["slowdown"] = entry["virtual_time_s"] / first_s - 1 if first_s else 0.0
    entry["received_alike"] = [
        all(run["summary"]["received_hashes"][idx] == expected for run in runs)
        for idx, expected in enumerate(first["received_hashes"])
    ]


def _choices(memory: str, policy: str | None, base: config.Config) -> list[_Choice]:
    """Strategies under the unit of the settings, and units; only part is run with each policy."""
    names = [each.strip() for each in memory.split(",") if each.strip()]
    if names == [ALL]:
        names = [name for name in REGISTRY.names() if REGISTRY.is_native(name)] + [*UNITS]
    policies = [each.strip() for each in (policy or base.run.policy).split(",") if each.strip()]
    if not names:
        raise ConfigError(
            f"--memory '{memory}': name at least {allowed(config.lookup('run.memory'))}, "
            f"{', '.join(UNITS)}, or all"
        )
    if not policies:
        raise ConfigError(
            f"--policy '{policy}': name at least {allowed(config.lookup('run.policy'))}"
        )
    unit = base.run.translation
    if unit != "smmu" and any(name in UNITS for name in names):
        raise ConfigError(
            f"--memory '{memory}' with run.translation = '{unit}': {' and '.join(UNITS)} in it "
            "name the unit; leave run.translation out"
        )
    strategies = [name for name in names if name not in UNITS]
    for name, texts in (("run.memory", strategies), ("run.policy", policies)):
        for text in texts:
            config.load([f"{name}={text}"], environ={})
    return [
        _Choice("part", policies[0], name) if name in UNITS else _Choice(name, page_in, unit)
        for name in names
        for page_in in (policies if name == "part" and unit == "smmu" else policies[:1])
    ]


def _read_report(path: pathlib.Path, chosen: Program) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"program '{chosen.label}' left no report: it never used MPI, or ended without Finalize"
        ) from None
    return document


def _common_settings(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Settings that every run had, without those that a run has of its own."""
    first: Mapping[str, str] = documents[0]["settings"]
    return {
        name: text
        for name, text in first.items()
        if all(document["settings"][name] == text for document in documents)
    }


def _say(text: str) -> None:
    print(f"pagewire: {text}", file=sys.stderr, flush=True)
