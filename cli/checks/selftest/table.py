"""The table of platforms, for docs/results/platforms.md and for the terminal."""

import datetime
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from pagewire.cli.checks.selftest.outcome import Check, Row, Verdict

_HEADS = ("platform", "versions", "tried", "passed", "failed", "seconds", "not available, and why")


def markdown(rows: Sequence[Row], machine: Mapping[str, str]) -> str:
    """As a section of a document, with date and machine in front."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    facts = "; ".join(f"{name}: {text}" for name, text in machine.items())
    lines = [
        f"Made by `pagewire selftest --all` on {today}. {facts}.",
        "",
        "| " + " | ".join(_HEADS) + " |",
        "|" + "---|" * len(_HEADS),
    ]
    lines += ["| " + " | ".join(map(_cell, _cells(row))) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[str]:
    counts = [str(row.num_passed), str(row.num_failed), f"{row.wall_time_s:.0f}"]
    return [row.platform, row.versions, row.tried, *counts, row.missing]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()) or "-"


def print_checks(checks: Sequence[Check]) -> None:
    """A line a check, on the terminal."""
    width = max(len(check.name) for check in checks)
    words = {Verdict.PASSED: "ok", Verdict.FAILED: "FAILED", Verdict.NOT_AVAILABLE: "none"}
    for check in checks:
        print(f"{check.name.ljust(width)}  {words[check.verdict]:6}  {check.detail}".rstrip())


def print_rows(rows: Sequence[Row]) -> None:
    """The table on the terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    shown = Table(*_HEADS)
    for row in rows:
        shown.add_row(*(text.replace("[", "\\[") for text in _cells(row)))
    console.print(shown)
