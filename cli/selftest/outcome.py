"""What a check found: it passed, it failed, or this machine does not have what it needs."""

import dataclasses
import enum


class Verdict(enum.StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_AVAILABLE = "not available"


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


def row_of(platform: str, versions: str, tried: str, checks: list[Check]) -> Row:
    """A row that counts checks, with the details of those that did not pass."""
    verdicts = [check.verdict for check in checks]
    details = [
        f"{check.name}: {check.detail}" for check in checks if check.verdict is not Verdict.PASSED
    ]
    return Row(
        platform,
        versions,
        verdicts.count(Verdict.PASSED),
        verdicts.count(Verdict.FAILED),
        tried,
        "; ".join(details),
    )
