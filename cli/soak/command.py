"""Runs the phases of a soak, prints a table of each, and says whether all was well."""

import dataclasses
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pagewire.cli import launch, options
from pagewire.cli.program import Program
from pagewire.cli.soak import verdict
from pagewire.cli.soak.phases import PHASES, Phase
from pagewire.native.settings import ConfigError, suggestion
from pagewire.transport.node.report import write_json

NUM_SAMPLES = 100
_BYTES_A_MEBIBYTE = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    num_ranks: int
    num_transfers: int
    minutes: float
    seed: int
    phases: Sequence[Phase]


def parse(
    num_ranks: int, transfers: str, minutes: float, seed: int, names: Sequence[str]
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
    known = {phase.name: phase for phase in PHASES}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--phase: unknown phase '{name}'{suggestion(name, known)}: allowed are "
                f"{', '.join(known)}"
            )
    chosen = [phase for phase in PHASES if not names or phase.name in names]
    return Wanted(num_ranks, number, minutes, seed, chosen)


def soak(wanted: Wanted, environ: Mapping[str, str], *, json_path: str, plot_path: str) -> int:
    """Run every phase; the exit code."""
    for name, path in (("--json", json_path), ("--plot", plot_path)):
        launch.check_writable(name, path)
    console = Console()
    results = []
    for phase in wanted.phases:
        result = _run(phase, wanted, environ)
        _show(console, phase, result)
        results.append(result)
    if json_path:
        write_json(json_path, {"ranks": wanted.num_ranks, "seed": wanted.seed, "phases": results})
    if plot_path:
        _plot(results, pathlib.Path(plot_path))
    failed = [result["phase"] for result in results if result["complaints"]]
    number = sum(result["transfers"] for result in results)
    is_judged = all(verdict.is_judged(result["per_rank"]) for result in results)
    if failed:
        console.print(f"soak failed in: {', '.join(failed)}; {number:,} transfers")
        return 1
    console.print(
        f"soak passed: {number:,} transfers on {wanted.num_ranks} ranks, no wrong byte, no hang; "
        + ("nothing grew" if is_judged else "too few in a phase to say whether anything grows")
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
        "transfers": 0,
        "per_rank": [],
        "counters": {},
    }
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pagewire-soak-") as directory:
        report = os.path.join(directory, "report.json")
        outcome = launch.launch(
            wanted.num_ranks,
            Program("module", "pagewire.cli.soak.rank", (directory, json.dumps(spec))),
            _environ(phase, environ, report),
        )
        result["wall_s"] = time.monotonic() - start_s
        if outcome.failure or outcome.exit_code:
            result["complaints"] = [outcome.failure or f"exit code {outcome.exit_code}"]
            return result
        folder = pathlib.Path(directory)
        per_rank = [
            json.loads((folder / f"{rank}.json").read_text(encoding="utf-8"))
            for rank in range(wanted.num_ranks)
        ]
        totals = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))["totals"]
    result["per_rank"] = per_rank
    result["transfers"] = sum(rank["transfers"] for rank in per_rank)
    result["counters"] = {name: totals[name] for name in verdict.COUNTERS}
    result["impairments"] = totals["impairments"]
    result["complaints"] = verdict.complaints(per_rank, totals, phase.must_wrap)
    return result


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
    for name, each in grown.items():
        if each is not None:
            values = (each.before, each.after, each.change)
            table.add_row(name.replace("_", " "), *(f"{value:,.0f}" for value in values))
    console.print(table)


def _plot(results: Sequence[Mapping[str, Any]], path: pathlib.Path) -> None:
    from pagewire.cli.experiments import plots
    from pagewire.cli.experiments.result import Panel, Series

    panels = []
    for result in results:
        series = [
            Series(
                f"rank {rank}",
                [each["transfers"] for each in found["samples"]],
                [each["resident_bytes"] / _BYTES_A_MEBIBYTE for each in found["samples"]],
            )
            for rank, found in enumerate(result["per_rank"])
        ]
        panels.append(
            Panel(
                "transfers of the rank", "resident memory (MiB)", series, title=result["phase"]
            )
        )
    plots.draw("soak", panels, [path])
