"""`pagewire compare`: one program under several memory strategies and settings, and the table of
the difference; with several runs of each, whether equal runs give equal figures.

Compute time between MPI calls is noise of this host, so by default the first run's is recorded and
replayed in the others: what is left is what the strategies do. Each rank hashes what it received by
RDMA, so that a strategy that loses bytes is seen. What has ended when a signal or a failure ends
the comparison is shown and written nevertheless, marked as incomplete.
"""

import dataclasses
import json
import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli.commands import compare_files, compare_table, repetitions, sweep
from pagewire.cli.commands.compare_options import COMPUTE, Wanted
from pagewire.cli.commands.compare_plan import (
    ALL,
    Choice,
    Run,
    check_number,
    choices,
    plan,
    references,
)
from pagewire.cli.kit import noise, progress
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.interrupts import Interrupted
from pagewire.cli.launch import launch, options
from pagewire.cli.launch.program import Program
from pagewire.native.output import write_file
from pagewire.native.settings import ConfigError
from pagewire.network import use
from pagewire.run.page import page
from pagewire.run.report.report import write_json
from pagewire.run.timeline import request

_MAX_NAMED = 8
"""Of missing runs, on the terminal; JSON names all."""


@dataclasses.dataclass(slots=True)
class _Comparison:
    """What is compared, and how its runs came to their end."""

    num_ranks: int
    chosen: Program
    wanted: Wanted
    refer_to: Mapping[Choice, Choice]
    """By row, the one that its ratios refer to."""
    needed: set[Choice]
    """Without a run of these there is no comparison."""
    runs: Sequence[Run]
    failures: dict[Choice, str] = dataclasses.field(default_factory=dict)
    """Rows that the table has no figures of."""
    interrupt: Interrupted | None = None
    exit_code: int = 0
    reason: str = ""
    """Of an end before the last run; empty: all have run."""

    def check_settings(self, environ: Mapping[str, str]) -> None:
        """Give each run its environment, and see which rows' settings are refused."""
        for each in self.runs:
            each.environ = dict(environ)
            options.apply(options.as_environment(each.assignments), each.environ)
            try:
                launch.check_settings(each.environ, self.chosen)
            except ConfigError as error:
                if each.choice in self.needed:
                    raise
                self.failures[each.choice] = str(error)

    def run_all(self, display: progress.Display) -> None:
        """Run one after the other, up to the first that is needed and fails, or a signal."""
        try:
            for idx, each in enumerate(self.runs):
                if each.choice in self.failures:
                    display.skip()
                    continue
                is_shown = not self.wanted.quiet_app and each.is_first
                what = f"{self.chosen.label} on {self.num_ranks} ranks, "
                display.begin(each.name, what=what, is_hidden=is_shown)
                output = None if is_shown else subprocess.DEVNULL
                group = request.Group(idx, each.choice.name)
                outcome = launch.launch(
                    self.num_ranks, self.chosen, each.environ, stdout=output, group=group
                )
                display.end()
                if outcome.failure and each.choice in self.needed:
                    progress.say(f"{outcome.failure}; comparison ended at {each.name}")
                    self.exit_code, self.reason = outcome.exit_code, outcome.failure
                    return
                if outcome.failure:
                    progress.say(f"{outcome.failure}; the comparison goes on without {each.name}")
                    self.failures[each.choice] = outcome.failure
                    continue
                each.document = _read_report(each.report, self.chosen)
                each.report.unlink()
        except Interrupted as interrupt:
            self.interrupt, self.reason = interrupt, interrupt.sentence

    def result(self) -> dict[str, Any]:
        """What the JSON file holds; rows without any run that has ended are left out."""
        entries: list[dict[str, Any]] = []
        documents: list[dict[str, Any]] = []
        by_choice: dict[Choice, dict[str, Any]] = {}
        for choice, reference in self.refer_to.items():
            named = {"name": choice.name, "sweep": dict(choice.point), "baseline": reference.name}
            own = {key: getattr(choice, key) for key in ("memory", "policy", "translation")}
            if choice in self.failures:
                entries.append({**named, **own, "failure": self.failures[choice]})
                continue
            found = [each.document for each in self.runs if each.choice == choice and each.counts]
            found = [document for document in found if document]
            if not found:
                continue
            documents.append(found[0])
            entry: dict[str, Any] = {**named, **found[0]["summary"]}
            first = documents[0]["summary"]["received_hashes"]
            entry["received_alike"] = [
                all(run["summary"]["received_hashes"][idx] == expected for run in found)
                for idx, expected in enumerate(first)
            ]
            if self.wanted.num_runs > 1:
                entry["repetitions"] = repetitions.of_reports(found)
            entries.append(entry)
            by_choice[choice] = entry
        for choice, entry in by_choice.items():
            entry["slowdown"] = _slowdown(entry, by_choice.get(self.refer_to[choice]))
        result: dict[str, Any] = {
            "program": self.chosen.label,
            "ranks": self.num_ranks,
            "compute": self.wanted.compute,
            "baseline": self.wanted.baseline or next(iter(self.refer_to)).name,
            "entries": entries,
            "settings": compare_table.common_settings(documents) if documents else {},
            "reports": documents,
        }
        if self.reason:
            planned = [each for each in self.runs if each.choice not in self.failures]
            missing = [each.name for each in planned if not each.document]
            result["incomplete"] = {
                "reason": self.reason,
                "planned_runs": len(planned),
                "missing_runs": missing,
            }
        return result


def compare(num_ranks: int, chosen: Program, environ: Mapping[str, str], wanted: Wanted) -> int:
    """Run, print the table, write files and picture; the exit code of the run that failed, or 0.

    Of `all` strategies each may fail but the first and those that ratios refer to: a host's limit
    refuses some, and the table says so. With several runs of each, the table has their means, and
    below it what equal runs differ in; 1 when they must be equal and are not. Raises Interrupted
    once what has ended is shown.
    """
    check(wanted)
    axes = sweep.parse(wanted.sweeps or ())
    environ = dict(environ)
    launch.choose_transport(environ, chosen)
    said = launch.choose_mpi(environ, chosen)
    base = launch.check_settings(environ, chosen)
    if said:
        progress.say(said)
    rows = choices(wanted.memory, wanted.policy, axes, base)
    check_number(len(rows), wanted.num_runs)
    refer_to = dict(zip(rows, references(rows, wanted.baseline), strict=True))
    # Without the recorded compute times, or without what ratios refer to, there is no comparison.
    needed = {rows[0], *refer_to.values()}
    if (wanted.memory or "").strip() != ALL:
        needed.update(rows)
    with guarded_folder("pagewire-compare-") as directory:
        trace_path = base.run.trace
        runs = plan(rows, wanted.compute, wanted.num_runs, directory, is_traced=bool(trace_path))
        comparison = _Comparison(num_ranks, chosen, wanted, refer_to, needed, runs)
        comparison.check_settings(environ)
        with (
            noise.beside(wanted.with_noise),
            progress.Display(len(runs), quiet=wanted.quiet) as display,
        ):
            comparison.run_all(display)
        if trace_path:
            parts = sorted(pathlib.Path(directory).glob("*.trace"))
            if parts:
                request.join(parts, trace_path)
    result = comparison.result()
    if result["entries"] and result["reports"]:
        _show(result, wanted)
    elif comparison.reason:
        progress.say("no run of the comparison had ended: nothing is shown or written")
    if comparison.interrupt is not None:
        raise comparison.interrupt
    if comparison.reason:
        return comparison.exit_code
    if wanted.must_be_equal and any(
        entry["repetitions"]["differences"] for entry in result["entries"] if "repetitions" in entry
    ):
        progress.say("equal runs differ")
        return 1
    return 0


def check(wanted: Wanted) -> None:
    """Refuse what can be seen before anything else; raises ConfigError."""
    if wanted.compute not in COMPUTE:
        raise ConfigError(f"--compute '{wanted.compute}': allowed is one of {', '.join(COMPUTE)}")
    check_number(1, wanted.num_runs)
    compare_table.chosen(wanted.columns)
    if wanted.must_be_equal and wanted.num_runs == 1:
        raise ConfigError("--equal needs runs to hold against each other: --runs 2 or more")
    for name in ("json", "csv", "plot", "html"):
        launch.check_writable(f"--{name}", getattr(wanted, f"{name}_path"))
    if wanted.plot_path:
        compare_files.check_picture(wanted.plot_path)


def _slowdown(entry: Mapping[str, Any], reference: Mapping[str, Any] | None) -> float | None:
    """Of mean virtual times; None while the reference has not run."""
    if reference is None:
        return None
    key = compare_table.TIME.key
    base_s = compare_table.mean_of(reference, key)
    return float(compare_table.mean_of(entry, key) / base_s - 1) if base_s else 0.0


def _show(result: Mapping[str, Any], wanted: Wanted) -> None:
    """Table and files."""
    entries = result["entries"]
    title = f"{result['program']}, {result['ranks']} ranks, compute {result['compute']}"
    if wanted.num_runs > 1:
        title += f", means of {wanted.num_runs} runs"
    if "incomplete" in result:
        left = result["incomplete"]
        missing, num_planned = left["missing_runs"], left["planned_runs"]
        title += f"; INCOMPLETE, {num_planned - len(missing)} of {num_planned} runs"
    compare_table.show(entries, title, compare_table.chosen(wanted.columns))
    if wanted.baseline:
        print(f"Slowdown: against the rows of {wanted.baseline}.")
    if wanted.num_runs > 1:
        repetitions.show(entries)
    ended = (page.name_of(entry) for entry in entries if "failure" not in entry)
    own = (each.get("links") for each in result["reports"])
    for line in use.crowded(zip(ended, own, strict=True)):
        print(line)
    if "incomplete" in result:
        _say_missing(missing)
    if wanted.json_path:
        write_json(wanted.json_path, result, "compare")
    if wanted.csv_path:
        write_file(wanted.csv_path, compare_files.as_csv(entries, result.get("incomplete")))
    if wanted.html_path:
        page.write(wanted.html_path, result)
    if wanted.plot_path:
        compare_files.draw(entries, title, wanted.plot_path)


def _say_missing(missing: Sequence[str]) -> None:
    counts = {name: missing.count(name) for name in missing}
    names = [f"{name} ({count} runs)" if count > 1 else name for name, count in counts.items()]
    more = f", and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    progress.say(f"missing: {'; '.join(names[:_MAX_NAMED])}{more}")


def _read_report(path: pathlib.Path, chosen: Program) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"program '{chosen.label}' left no report: it never used MPI, or ended without Finalize"
        ) from None
    return document
