"""Rows of kernels and containers that refuse a system call: the self test's program under each."""

import re
import sys
from collections.abc import Iterator

from pagewire.cli.checks.selftest.outcome import Check, Row, Verdict, row_of
from pagewire.cli.checks.selftest.refused_calls import CALLS
from pagewire.cli.checks.selftest.transports import TRANSPORTS, check

ERRORS = ("EPERM", "ENOSYS")
"""As a container refuses, and as a kernel that does not know the call."""

MADVISE_ERRORS = ("EPERM", "ENOSYS", "EINVAL")
"""An older kernel knows madvise, but not the advice."""

NEEDED = {
    "mincore": ("mincore", TRANSPORTS),
    "populate_read": ("MADV_POPULATE_READ", TRANSPORTS),
    "populate_write": ("MADV_POPULATE_WRITE", TRANSPORTS),
    "memfd_create": ("memfd_create", ("fabric",)),
}
"""Calls without which a transport does not start: how its sentence names them, and which."""

SAID_WITH_REMEDY = "allow it in the container's seccomp profile"


def errors_of(call: str) -> tuple[str, ...]:
    """With what the call gets refused."""
    return MADVISE_ERRORS if CALLS[call].only and CALLS[call].argument_idx == 2 else ERRORS


def under(words: list[str], transport: str, options: tuple[str, ...] = ()) -> Check:
    """The program under a filter (the words of refused_calls)."""
    module = "pagewire.cli.checks.selftest.refused_calls"
    before = [sys.executable, "-P", "-m", module, *words, "--"]
    return check(transport, before=before, options=options)


def is_expected(call: str, found: Check) -> bool:
    """It works, or where it cannot, a sentence names the call and the remedy."""
    named, transports = NEEDED.get(call, ("", ()))
    if found.name not in transports:
        return found.verdict is Verdict.PASSED
    return (
        found.verdict is Verdict.FAILED
        and named in found.detail
        and SAID_WITH_REMEDY in found.detail
    )


def rows() -> Iterator[Row]:
    """A row for each call, and one for a container."""
    for call in CALLS:
        found = [
            (f"{error}, {transport}", under([f"{call}={error}"], transport))
            for error in errors_of(call)
            for transport in TRANSPORTS
        ]
        yield _row(call, found)
    contained = [(transport, under(["container"], transport)) for transport in TRANSPORTS]
    yield row_of(
        "a container (Docker's default profile)",
        "",
        "self test's program, both transports",
        [Check(name, found.verdict, found.detail) for name, found in contained],
    )


def _short(check: Check) -> str:
    """The sentence alone, which is the same on every rank and either transport."""
    text = re.sub(r"^rank \d+ (?:raised \w+|failed): (?:node: )?", "", check.detail)
    text = re.sub(r"(?:: a system call of the host failed)?; every rank was ended$", "", text)
    where = "" if check.verdict is Verdict.NOT_AVAILABLE else f"{check.name}: "
    return where + text


def _row(call: str, found: list[tuple[str, Check]]) -> Row:
    """A sentence that was expected is neither passed nor failed: the call is not available."""
    checks = []
    for name, each in found:
        verdict = each.verdict
        if verdict is Verdict.FAILED and is_expected(call, each):
            verdict = Verdict.NOT_AVAILABLE
        checks.append(Check(name, verdict, each.detail))
    sentences = dict.fromkeys(
        _short(check) for check in checks if check.verdict is not Verdict.PASSED
    )
    verdicts = [check.verdict for check in checks]
    return Row(
        f"without {call}",
        "",
        verdicts.count(Verdict.PASSED),
        verdicts.count(Verdict.FAILED),
        f"refused with {', '.join(errors_of(call))}; both transports",
        "; ".join(sentences),
    )
