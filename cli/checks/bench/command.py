"""`pagewire bench`: what the emulator costs on this host, everything in one run, side by side.

Machines are noisy: look at the ratios, which compare what was measured within the same run.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pagewire.cli.checks.bench import apps, engines, messages, network, replays, trace
from pagewire.cli.checks.bench.group import GOALS, BenchError, Conditions, Group, Rows
from pagewire.cli.checks.bench.host import num_cores, share_of_others, spent_s
from pagewire.cli.kit.output import console_of
from pagewire.cli.launch import launch
from pagewire.native.settings import ConfigError, suggestion
from pagewire.run.report.report import write_json
from pagewire.run.timeline import request

GROUPS: dict[str, Group] = {
    group.name: group
    for group in (
        engines.LOOKUPS,
        messages.PING_PONG,
        messages.SWEEP,
        engines.ENGINE,
        messages.COLLECTIVES,
        messages.RATE,
        messages.CALLS,
        messages.ONE_SIDED,
        engines.FAULTS,
        apps.GROUP,
        trace.GROUP,
        replays.GROUP,
        network.GROUP,
    )
}
"""By name, in the order of the tables."""

TRANSPORTS: Mapping[str, Mapping[str, Group]] = {
    transport: {name: group for name, group in GROUPS.items() if transport in group.transports}
    for transport in ("facade", "fabric")
}
"""The groups that each transport has."""


def choose(text: str, transport: str = "facade") -> list[Group]:
    """The groups that --only names; all that the transport has when it names none."""
    known = TRANSPORTS[transport]
    names = text.split(",") if text else list(known)
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--only: unknown group '{name}'{suggestion(name, known)}: allowed are "
                f"{', '.join(known)}, separated by commas"
            )
    return [group for name, group in known.items() if name in names]


def measure(groups: Sequence[Group], *, quick: bool, transport: str = "facade") -> dict[str, Any]:
    """Figures as JSON holds them: rows by the groups' keys, goals, and the host's state."""
    environ = {**os.environ, "PAGEWIRE_RUN_TRANSPORT": transport}
    settings = launch.check_settings(environ).not_default()
    took_s: dict[str, float] = {}
    others: dict[str, float] = {}
    rows: dict[str, Rows] = {}
    goals: Rows = []
    with _progress() as progress:
        task = progress.add_task(
            "", total=sum(group.num_steps(quick, transport) for group in groups)
        )
        begun = 0

        def begin_step(name: str) -> None:
            nonlocal begun
            progress.update(task, completed=begun, description=name, refresh=True)
            begun += 1

        conditions = Conditions(transport, quick, environ, begin_step)
        for group in groups:
            start_s, spent = time.monotonic(), spent_s()
            rows[group.key] = group.measure(conditions)
            took_s[group.key] = time.monotonic() - start_s
            others[group.key] = share_of_others(spent, spent_s())
            goals += [goal.row for goal in group.goals(rows[group.key])]
    host = {"cores": num_cores(), "took_s": took_s, "share_of_others": others}
    return {
        "quick": quick,
        "transport": transport,
        "host": host,
        "settings_not_default": settings,
        **rows,
        "goals": goals,
    }


def _progress() -> Progress:
    """A line on standard error if it is a terminal.

    Drawn when a step begins and not by a thread of its own, which would take part in what is
    measured and must not be there when the launcher forks.
    """
    console = Console(stderr=True)
    return Progress(
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        auto_refresh=False,
        disable=not console.is_terminal,
    )


def show(groups: Sequence[Group], figures: dict[str, Any], console: Console) -> None:
    """Tables of the figures."""
    for group in groups:
        for layout in group.layouts:
            console.print(layout.table(figures[group.key], figures["transport"]))
    if figures["goals"]:
        console.print(GOALS.table(figures["goals"]))
    host, settings = figures["host"], figures["settings_not_default"]
    total_s = sum(host["took_s"].values())
    others = max(host["share_of_others"].values())
    console.print(
        f"{host['cores']} cores, of which other programs took up to {others:.0%}; {total_s:.0f} s"
    )
    chosen = ", ".join(f"{name} = {value}" for name, value in settings.items()) or "none"
    console.print(f"settings that are not default: {chosen}")
    if figures["quick"]:
        console.print("measured with --quick: too short to mean anything")


def main(only: str, *, transport: str, json_path: str, quick: bool) -> int:
    """Measure, print tables, write JSON when asked; raises ConfigError."""
    if transport not in TRANSPORTS:
        raise ConfigError(f"--transport '{transport}': allowed is one of {', '.join(TRANSPORTS)}")
    groups = choose(only, transport)
    launch.check_writable("--json", json_path)
    request.check_none(os.environ, "bench")
    try:
        figures = measure(groups, quick=quick, transport=transport)
    except BenchError as error:
        print(f"pagewire: bench: {error}", file=sys.stderr)
        return 1
    show(groups, figures, console_of(plain_width=200))
    if json_path:
        write_json(json_path, figures, "bench")
    return 0
