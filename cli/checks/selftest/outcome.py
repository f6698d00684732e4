"""What a check found: it passed, it failed, or this machine does not have what it needs. The table
of platforms, for docs/results/platforms.md and for the terminal."""

import dataclasses
import datetime
import enum
from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from pagewire.cli.kit.output import console_of


class Verdict(enum.StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_AVAILABLE = "not available"


_MAX_DETAILS = 4
"""Of what did not pass under one name; the counts are of all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried."""

    name: str
    verdict: Verdict
    detail: str = ""
    """What was found; what it means and what helps, when it did not pass."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One platform of the table: what was tried there, and how much of it passed."""

    platform: str
    versions: str
    num_passed: int
    num_failed: int
    tried: str
    missing: str = ""
    """What is not available, with the reason; how it failed, when it did."""
    wall_time_s: float = 0.0
    """To make the row, without the environment when it was there already."""


def _some(details: list[str]) -> str:
    more = len(details) - _MAX_DETAILS
    return ", ".join(details[:_MAX_DETAILS]) + (f" and {more} more" if more > 0 else "")


def row_of(platform: str, versions: str, tried: str, checks: list[Check]) -> Row:
    """A row that counts checks, with the details of those that did not pass."""
    verdicts = [check.verdict for check in checks]
    grouped: dict[str, list[str]] = {}
    for check in checks:
        if check.verdict is not Verdict.PASSED:
            grouped.setdefault(check.name, []).append(check.detail)
    details = [f"{name}: {_some(found)}" for name, found in grouped.items()]
    return Row(
        platform,
        versions,
        verdicts.count(Verdict.PASSED),
        verdicts.count(Verdict.FAILED),
        tried,
        "; ".join(details),
    )


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
    shown = Table(*_HEADS)
    for row in rows:
        shown.add_row(*map(escape, _cells(row)))
    console_of(plain_width=200).print(shown)
