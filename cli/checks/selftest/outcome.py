"""What a check found: it passed, it failed, or this machine does not have what it needs."""

import dataclasses
import enum


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
