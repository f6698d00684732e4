"""`pagewire compare`: one program under several memory strategies, and the table of the difference;
with several runs of each, whether equal runs give equal figures.

Compute time between MPI calls is noise of this host, so by default the first run's is recorded and
replayed in the others: what is left is what the strategies do.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli import launch, noise, options, repetitions
from pagewire.cli.guard import guarded_folder
from pagewire.cli.program import Program
from pagewire.native.settings import ConfigError, allowed
from pagewire.transport.node.report import write_json
from pagewire.transport.settings import config

COMPUTE = ("replay", "measured", "model", "none")

COLUMNS = (
    ("faults", "translation_faults"),
    ("handler", "fault_interrupts"),
    ("ERRs", "err_messages"),
    ("NACKs", "nacks"),
    ("timeouts", "timeouts"),
    ("retransmitted blocks", "retransmitted_blocks"),
    ("pages paged in", "pages_paged_in"),
)
"""Heads of the table's counters, and their keys in an entry."""

MAX_RUNS = 10_000
"""Bound against a mistyped number."""

MAX_LINES = 12
"""Differing figures that the terminal shows of a strategy; JSON has all."""


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
    num_runs: int = 1,
    with_noise: bool = False,
    must_be_equal: bool = False,
) -> int:
    """Run, print the table, write JSON; returns the exit code of the run that failed, or 0.

    With several runs of each strategy, what is shown is the first one's, and what equal runs differ
    in; 1 when they must be equal and are not.
    """
    if compute not in COMPUTE:
        raise ConfigError(f"--compute '{compute}': allowed is one of {', '.join(COMPUTE)}")
    if not 1 <= num_runs <= MAX_RUNS:
        raise ConfigError(f"--runs {num_runs}: allowed is 1 to {MAX_RUNS}")
    if must_be_equal and num_runs == 1:
        raise ConfigError("--equal needs runs to hold against each other: --runs 2 or more")
    launch.check_writable("--json", json_path)
    environ = dict(environ)
    launch.choose_transport(environ, chosen)
    base = launch.check_settings(environ, chosen)
    choices = _choices(memory, policy, base.run.policy)
    with guarded_folder("pagewire-compare-") as directory:
        plan = _plan(choices, compute, num_runs, directory)
        for each in plan:
            each.environ = dict(environ)
            options.apply(options.as_environment(each.assignments), each.environ)
            launch.check_settings(each.environ, chosen)
        with noise.beside(with_noise):
            for idx, each in enumerate(plan):
                _say(
                    f"run {idx + 1} of {len(plan)}: {chosen.label} on {num_ranks} ranks, "
                    f"{each.name}"
                )
                is_shown = not quiet_app and each.is_first
                output = None if is_shown else subprocess.DEVNULL
                outcome = launch.launch(num_ranks, chosen, each.environ, stdout=output)
                if outcome.failure:
                    _say(f"{outcome.failure}; comparison ended at {each.name}")
                    return outcome.exit_code
                each.document = _read_report(each.report, chosen)
                each.report.unlink()
    by_choice = [
        [each.document for each in plan if each.choice == choice and each.counts]
        for choice in choices
    ]
    documents = [runs[0] for runs in by_choice]
    entries: list[dict[str, Any]] = [document["summary"] for document in documents]
    for entry, runs in zip(entries, by_choice, strict=True):
        first_s = entries[0]["virtual_time_s"]
        entry["slowdown"] = entry["virtual_time_s"] / first_s - 1 if first_s else 0.0
        if num_runs > 1:
            entry["repetitions"] = _repetitions(runs)
    _print_table(entries, chosen, num_ranks, compute)
    if num_runs > 1:
        _print_repetitions(entries)
    if json_path:
        result = {
            "program": chosen.label,
            "ranks": num_ranks,
            "compute": compute,
            "entries": entries,
            "settings": _common_settings(documents),
            "reports": documents,
        }
        write_json(json_path, result)
    if must_be_equal and any(entry["repetitions"]["differences"] for entry in entries):
        _say("equal runs differ")
        return 1
    return 0


@dataclasses.dataclass(slots=True)
class _Run:
    """One run of the program."""

    choice: tuple[str, str]
    """Memory strategy and page-in policy."""
    assignments: list[str]
    report: pathlib.Path
    is_first: bool
    counts: bool
    """Not one that was made for its compute times alone."""
    environ: dict[str, str] = dataclasses.field(default_factory=dict)
    document: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        strategy, page_in = self.choice
        name = f"{strategy}/{page_in}" if strategy == "part" else strategy
        return name if self.counts else f"{name}, compute times recorded"


def _plan(
    choices: Sequence[tuple[str, str]], compute: str, num_runs: int, directory: str
) -> list[_Run]:
    """The runs in their order. The one whose compute times are recorded is itself not equal to
    those that replay them, so with several runs it is one of its own."""
    record, replay = (f"run.compute_{verb}={directory}/compute" for verb in ("record", "replay"))
    recording = ["run.compute=measured", record]
    replaying = ["run.compute=replay", replay]
    wanted: list[tuple[tuple[str, str], list[str], bool, bool]] = []
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
                f"run.memory={choice[0]}",
                f"run.policy={choice[1]}",
                f"run.json={directory}/{idx:05}.json",
                *times,
            ],
            pathlib.Path(f"{directory}/{idx:05}.json"),
            is_first,
            counts,
        )
        for idx, (choice, times, is_first, counts) in enumerate(wanted)
    ]


def _choices(memory: str, policy: str | None, default_policy: str) -> list[tuple[str, str]]:
    """Pairs of memory strategy and page-in policy; only part is run with each policy."""
    strategies = [each.strip() for each in memory.split(",") if each.strip()]
    policies = [each.strip() for each in (policy or default_policy).split(",") if each.strip()]
    if not strategies:
        raise ConfigError(
            f"--memory '{memory}': name at least {allowed(config.lookup('run.memory'))}"
        )
    if not policies:
        raise ConfigError(
            f"--policy '{policy}': name at least {allowed(config.lookup('run.policy'))}"
        )
    for name, texts in (("run.memory", strategies), ("run.policy", policies)):
        for text in texts:
            config.load([f"{name}={text}"], environ={})
    return [
        (strategy, page_in)
        for strategy in strategies
        for page_in in (policies if strategy == "part" else policies[:1])
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


def _repetitions(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What equal runs have in common, and what not."""
    runs = [repetitions.figures(document) for document in documents]
    return {
        "runs": len(runs),
        "figures": len(runs[0]),
        "virtual_times_ns": [document["totals"]["virtual_time_ns"] for document in documents],
        "differences": [
            {**dataclasses.asdict(each), "spread": each.spread}
            for each in repetitions.differences(runs)
        ],
    }


def _print_repetitions(entries: Sequence[Mapping[str, Any]]) -> None:
    for entry in entries:
        name, found = f"{entry['memory']}, {entry['policy']}", entry["repetitions"]
        if not found["differences"]:
            print(f"{name}: {found['runs']} runs equal in all {found['figures']} figures")
            continue
        print(f"{name}: {found['runs']} runs differ in")
        for each in found["differences"][:MAX_LINES]:
            print(
                f"  {each['name']}: {each['smallest']:,} to {each['largest']:,} "
                f"({each['spread']:.4%}), another than in the first in {each['num_runs']} runs, "
                f"on {each['num_ranks']} ranks"
            )
        if len(found["differences"]) > MAX_LINES:
            print(f"  and {len(found['differences']) - MAX_LINES} more; --json has all")


def _print_table(
    entries: Sequence[Mapping[str, Any]], chosen: Program, num_ranks: int, compute: str
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    table = Table(title=f"{chosen.label}, {num_ranks} ranks, compute {compute}")
    table.add_column("memory")
    table.add_column("policy")
    heads = ["virtual time (s)", "slowdown", *(head for head, _ in COLUMNS), "wall time (s)"]
    for head in heads:
        table.add_column(head, justify="right")
    for idx, entry in enumerate(entries):
        table.add_row(
            entry["memory"],
            entry["policy"] if entry["memory"] == "part" else "",
            f"{entry['virtual_time_s']:.6f}",
            f"{entry['slowdown']:+.2%}" if idx else "",
            *(f"{entry[key]:,}" for _, key in COLUMNS),
            f"{entry['wall_time_s']:.2f}",
        )
    console.print(table)


def _say(text: str) -> None:
    print(f"pagewire: {text}", file=sys.stderr, flush=True)
