"""`pagewire selftest`: tries this installation in seconds, or every platform that is here."""

import dataclasses
import os
import pathlib
import sys
import time
from collections.abc import Iterator

from pagewire.cli.checks.selftest import (
    host_checks,
    platforms,
    refusals,
    suites,
    versions,
)
from pagewire.cli.checks.selftest.outcome import (
    Check,
    Row,
    Verdict,
    markdown,
    print_checks,
    print_rows,
)
from pagewire.cli.checks.selftest.transports import TRANSPORTS, check
from pagewire.cli.kit import space
from pagewire.cli.kit.machine import of_machine
from pagewire.native.output import write_file
from pagewire.native.settings import ConfigError, suggestion
from pagewire.run.report.report import write_json
from pagewire.run.timeline import request

REFUSALS = "refusals"
"""Name of the rows of kernels and containers that refuse a call."""


def this_installation(json_path: str = "") -> int:
    """Print a line for each thing that was tried; 1 when one failed."""
    request.check_none(os.environ, "selftest")
    checks = host_checks.all_checks()
    if all(each.verdict is not Verdict.FAILED for each in checks):
        checks += [check(transport) for transport in TRANSPORTS]
    else:
        reason = "not tried: see above"
        checks += [Check(name, Verdict.NOT_AVAILABLE, reason) for name in TRANSPORTS]
    found = versions.of_environment()
    print(versions.text_of(found))
    print_checks(checks)
    failed = [each.name for each in checks if each.verdict is Verdict.FAILED]
    if json_path:
        made = [
            {"name": each.name, "verdict": str(each.verdict), "detail": each.detail}
            for each in checks
        ]
        machine = of_machine()
        document = {"versions": found, "machine": machine, "checks": made}
        write_json(json_path, document, "selftest")
    print(f"pagewire selftest: {'failed: ' + ', '.join(failed) if failed else 'ok'}")
    return 1 if failed else 0


def every_platform(cache: str, only: str, markdown_path: str) -> int:
    """Try the platforms, a line for each as it ends, then the table; 1 when something failed."""
    request.check_none(os.environ, "selftest")
    folder = pathlib.Path(cache).absolute() if cache else space.cache_folder("selftest")
    chosen = _chosen(only, [*platforms.all_platforms(folder), REFUSALS])
    _say(f"environments are made in {folder}, and kept; --cache names another folder")
    _say("tests: " + _tests())
    rows = []
    begun_s = time.monotonic()
    for made in _rows(folder, chosen):
        now_s = time.monotonic()
        row = dataclasses.replace(made, wall_time_s=now_s - begun_s)
        begun_s = now_s
        rows.append(row)
        counts = f"{row.num_passed} passed, {row.num_failed} failed, {row.wall_time_s:.0f} s"
        _say(f"{row.platform}: {counts}" + (f"; {row.missing}" if row.missing else ""))
    text = markdown(rows, of_machine())
    if markdown_path:
        write_file(markdown_path, text)
    print_rows(rows)
    return 1 if any(row.num_failed for row in rows) else 0


def _chosen(only: str, known: list[str]) -> list[str]:
    names = [name for name in only.split(",") if name]
    for name in names:
        if name not in known:
            hint = suggestion(name, known)
            raise ConfigError(f"--only {name}: allowed is of {', '.join(known)}{hint}")
    return names


def _rows(folder: pathlib.Path, chosen: list[str]) -> Iterator[Row]:
    yield from platforms.rows(folder, chosen)
    if not chosen or REFUSALS in chosen:
        yield from refusals.rows()


def _tests() -> str:
    root = suites.checkout()
    if root is None:
        return "none here (run in the source tree for them); the self test alone is run"
    return str(root)


def _say(text: str) -> None:
    print(f"pagewire selftest: {text}", file=sys.stderr, flush=True)
