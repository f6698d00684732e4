"""Runs the phases of a soak, prints a table of each, and says whether all was well."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pagewire.cli.checks.soak import verdict
from pagewire.cli.checks.soak.phases import PHASES, Phase
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.launch import launch, options
from pagewire.cli.launch.program import Program
from pagewire.native.settings import ConfigError, suggestion
from pagewire.run.report.report import write_json
from pagewire.run.settings import config
from pagewire.run.timeline import request

NUM_SAMPLES = 100
_BYTES_A_MEBIBYTE = 1 << 20

MAX_NODES = 16
_NOT_OF_NODES = ("run.json", "run.html", "run.quiet", "run.transport", "run.eager_limit")
"""Settings of processes, and of messages of MPI."""

_Found = tuple[list[dict[str, Any]], dict[str, Any]]
"""What each process sampled and counted itself, and the sums of the nodes' counters."""


class SoakError(Exception):
    """A phase could not be run to its end."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    num_ranks: int
    num_transfers: int
    minutes: float
    seed: int
    phases: Sequence[Phase]
    transport: str
    """empty: the nodes of one process"""


def parse(
    num_ranks: int,
    transfers: str,
    minutes: float,
    seed: int,
    names: Sequence[str],
    transport: str,
) -> Wanted:
    """Check it; raises ConfigError."""
    try:
        number = int(float(transfers))
    except (ValueError, OverflowError):
        raise ConfigError(f"--transfers {transfers}: must be a number, such as 1e6") from None
    if number < 1:
        raise ConfigError(f"--transfers {transfers}: must be 1 or more")
    if not minutes > 0:
        raise ConfigError(f"--minutes {minutes}: must be above 0")
    if num_ranks < 2:
        raise ConfigError(f"-n {num_ranks}: a soak needs 2 ranks or more")
    if not transport and num_ranks > MAX_NODES:
        raise ConfigError(
            f"-n {num_ranks}: one process has at most {MAX_NODES} nodes in a soak; take "
            "--transport facade for ranks of their own"
        )
    known = {phase.name: phase for phase in PHASES}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--phase: unknown phase '{name}'{suggestion(name, known)}: allowed are "
                f"{', '.join(known)}"
            )
    chosen = [phase for phase in PHASES if not names or phase.name in names]
    return Wanted(num_ranks, number, minutes, seed, chosen, transport)


def soak(wanted: Wanted, environ: Mapping[str, str], *, json_path: str, plot_path: str) -> int:
    """Run every phase; the exit code. Over a transport the ranks are processes, else the nodes are
    those of one process, which has no other ranks to wait for."""
    request.check_none(environ, "soak")
    for name, path in (("--json", json_path), ("--plot", plot_path)):
        launch.check_writable(name, path)
    console = Console(width=100)
    results = []
    for phase in wanted.phases:
        result = _run(phase, wanted, environ)
        _show(console, phase, result)
        results.append(result)
    if json_path:
        write_json(
            json_path,
            {
                "ranks": wanted.num_ranks,
                "transport": wanted.transport or "none",
                "seed": wanted.seed,
                "phases": results,
            },
            "soak",
        )
    if plot_path:
        _plot(results, pathlib.Path(plot_path))
    failed = [result["phase"] for result in results if result["complaints"]]
    number = sum(result["transfers"] for result in results)
    long = [result for result in results if result["judges_growth"]]
    is_judged = bool(long) and all(verdict.is_judged(result["per_rank"]) for result in long)
    if failed:
        console.print(f"soak failed in: {', '.join(failed)}; {number:,} transfers")
        return 1
    console.print(
        f"soak passed: {number:,} transfers on {wanted.num_ranks} ranks, no wrong byte, no hang; "
        + ("nothing grew" if is_judged else "too few to say whether anything grows")
    )
    return 0


def _run(phase: Phase, wanted: Wanted, environ: Mapping[str, str]) -> dict[str, Any]:
    number = max(int(wanted.num_transfers * phase.share), phase.least_transfers)
    spec = {
        "transfers": number,
        "samples": NUM_SAMPLES,
        "minutes": wanted.minutes,
        "seed": wanted.seed,
        "fault_fraction": phase.fault_fraction,
        "burst": phase.burst,
    }
    result: dict[str, Any] = {
        "phase": phase.name,
        "says": phase.says,
        "asked": number,
        "judges_growth": phase.share > 0,
        "transfers": 0,
        "per_rank": [],
        "counters": {},
    }
    start_s = time.monotonic()
    runs = _run_ranks if wanted.transport else _run_nodes
    try:
        per_rank, totals = runs(phase, spec, wanted.num_ranks, environ)
    except SoakError as error:
        result["complaints"] = [str(error)]
        return result
    finally:
        result["wall_s"] = time.monotonic() - start_s
    result["per_rank"] = per_rank
    result["transfers"] = sum(rank["transfers"] for rank in per_rank)
    result["counters"] = {name: totals[name] for name in verdict.COUNTERS}
    result["complaints"] = verdict.complaints(
        per_rank, totals, phase.must_wrap, num_nodes=wanted.num_ranks
    )
    return result


def _run_ranks(
    phase: Phase, spec: Mapping[str, Any], num_ranks: int, environ: Mapping[str, str]
) -> _Found:
    """As processes that a launch starts."""
    with guarded_folder("pagewire-soak-") as directory:
        report = os.path.join(directory, "report.json")
        outcome = launch.launch(
            num_ranks,
            Program("module", "pagewire.cli.checks.soak.rank", (directory, json.dumps(spec))),
            _environ(phase, environ, report),
        )
        if outcome.failure or outcome.exit_code:
            raise SoakError(outcome.failure or f"exit code {outcome.exit_code}")
        folder = pathlib.Path(directory)
        per_rank = [
            json.loads((folder / f"{rank}.json").read_text(encoding="utf-8"))
            for rank in range(num_ranks)
        ]
        totals = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))["totals"]
    return per_rank, totals


def _run_nodes(
    phase: Phase, spec: Mapping[str, Any], num_nodes: int, environ: Mapping[str, str]
) -> _Found:
    """As nodes of one process, which is one of its own: to be sampled, and to be ended."""
    given = {**phase.settings, **config.load(environ=environ).not_default()}
    settings = [f"{name}={text}" for name, text in given.items() if name not in _NOT_OF_NODES]
    command = [sys.executable, "-P", "-m", "pagewire.cli.checks.soak.nodes"]
    try:
        done = subprocess.run(
            [*command, str(num_nodes), json.dumps(spec), *settings],
            capture_output=True,
            text=True,
            check=False,
            timeout=spec["minutes"] * 60.0 + 120.0,  # a burst takes well below a minute
        )
    except subprocess.TimeoutExpired as error:
        raise SoakError(f"no end after {error.timeout:.0f} s: a hang") from None
    if done.returncode:
        said = done.stderr.strip() or f"the nodes ended with exit code {done.returncode}"
        raise SoakError(said)
    found = json.loads(done.stdout)
    return [found], found["counters"]


def _environ(phase: Phase, environ: Mapping[str, str], report: str) -> dict[str, str]:
    """The phase's settings below the user's."""
    texts = [f"{name}={value}" for name, value in phase.settings.items()]
    made = {**options.as_environment(texts), **environ}
    return {**made, "PAGEWIRE_RUN_QUIET": "true", "PAGEWIRE_RUN_JSON": report}


def _show(console: Console, phase: Phase, result: Mapping[str, Any]) -> None:
    wall_s = result["wall_s"]
    console.print(f"\n{phase.name}: {phase.says}")
    console.print(f"{result['transfers']:,} of {result['asked']:,} transfers in {wall_s:,.1f} s")
    counted = Table(title="all ranks", title_justify="left")
    counted.add_column("counter")
    counted.add_column("sum", justify="right")
    if result["per_rank"]:
        dropped = sum(rank["dropped_pages"] for rank in result["per_rank"])
        wrong = sum(rank["wrong"] for rank in result["per_rank"])
        counted.add_row("transfers with wrong bytes", f"{wrong:,}")
        counted.add_row("pages taken away before", f"{dropped:,}")
    for name, value in result["counters"].items():
        counted.add_row(name.replace("_", " "), f"{value:,}")
    console.print(counted)
    _show_growth(console, result["per_rank"])
    for complaint in result["complaints"]:
        console.print(f"not well: {complaint}")


def _show_growth(console: Console, per_rank: Sequence[Mapping[str, Any]]) -> None:
    grown = {name: verdict.growth(per_rank, name) for name in verdict.quantities(per_rank)}
    if not any(grown.values()):
        return
    table = Table(title="of the rank that grew most, medians", title_justify="left")
    for head in ("held", "third quarter", "last quarter", "change"):
        table.add_column(head, justify="left" if head == "held" else "right")
    for name, medians in grown.items():
        if medians is not None:
            values = (*medians, medians[1] - medians[0])
            table.add_row(name.replace("_", " "), *(f"{value:,.0f}" for value in values))
    console.print(table)


def _plot(results: Sequence[Mapping[str, Any]], path: pathlib.Path) -> None:
    from pagewire.cli.kit import plots
    from pagewire.cli.kit.result import Panel, Series

    panels = []
    for result in results:
        series = [
            Series(
                f"rank {rank}" if len(result["per_rank"]) > 1 else "process",
                [each["transfers"] for each in found["samples"]],
                [each["resident_bytes"] / _BYTES_A_MEBIBYTE for each in found["samples"]],
            )
            for rank, found in enumerate(result["per_rank"])
        ]
        panels.append(Panel("transfers", "resident memory (MiB)", series, title=result["phase"]))
    plots.draw("soak", panels, [path])
