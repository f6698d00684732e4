"""`pagewire compare`: one program under several memory strategies, and the table of the difference.

Compute time between MPI calls is noise of this host, so by default the first run's is recorded and
replayed in the others: what is left is what the strategies do.
"""

import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli import launch, options
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
) -> int:
    """Run, print the table, write JSON; returns the exit code of the run that failed, or 0."""
    if compute not in COMPUTE:
        raise ConfigError(f"--compute '{compute}': allowed is one of {', '.join(COMPUTE)}")
    launch.check_writable("--json", json_path)
    environ = dict(environ)
    launch.choose_transport(environ, chosen)
    base = launch.check_settings(environ, chosen)
    choices = _choices(memory, policy, base.run.policy)
    with guarded_folder("pagewire-compare-") as directory:
        environs = []
        for idx, choice in enumerate(choices):
            environs.append(_run_environ(environ, choice, compute, directory, idx))
            launch.check_settings(environs[-1], chosen)
        entries: list[dict[str, Any]] = []
        documents: list[dict[str, Any]] = []
        for idx, ((strategy, page_in), run_environ) in enumerate(
            zip(choices, environs, strict=True)
        ):
            name = f"{strategy}/{page_in}" if strategy == "part" else strategy
            _say(f"run {idx + 1} of {len(choices)}: {chosen.label} on {num_ranks} ranks, {name}")
            output = subprocess.DEVNULL if quiet_app else None
            outcome = launch.launch(num_ranks, chosen, run_environ, stdout=output)
            if outcome.failure:
                _say(f"{outcome.failure}; comparison ended at {name}")
                return outcome.exit_code
            document = _read_report(pathlib.Path(f"{directory}/{idx}.json"), chosen)
            documents.append(document)
            entries.append(document["summary"])
    for entry in entries:
        first_s = entries[0]["virtual_time_s"]
        entry["slowdown"] = entry["virtual_time_s"] / first_s - 1 if first_s else 0.0
    _print_table(entries, chosen, num_ranks, compute)
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
    return 0


def _run_environ(
    environ: Mapping[str, str], choice: tuple[str, str], compute: str, directory: str, idx: int
) -> dict[str, str]:
    """The environment of one run: its strategy and policy, and where it leaves its report."""
    strategy, page_in = choice
    assignments = [
        f"run.memory={strategy}",
        f"run.policy={page_in}",
        f"run.json={directory}/{idx}.json",
        *_compute(compute, idx, f"{directory}/compute"),
    ]
    run_environ = dict(environ)
    options.apply(options.as_environment(assignments), run_environ)
    return run_environ


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


def _compute(compute: str, idx: int, path: str) -> list[str]:
    if compute != "replay":
        return [f"run.compute={compute}"]
    if idx == 0:
        return ["run.compute=measured", f"run.compute_record={path}"]
    return ["run.compute=replay", f"run.compute_replay={path}"]


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
