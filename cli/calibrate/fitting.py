"""`pagewire calibrate --against FILE`: fit, print what the table says and what it does not, write a
platform file."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.util
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from pagewire.cli.calibrate import parameters, points
from pagewire.cli.calibrate.fit import FACTOR_MAX, FACTOR_MIN, Fit, Group
from pagewire.cli.calibrate.fit import fit as fit_points
from pagewire.cli.calibrate.points import Point
from pagewire.cli.calibrate.solve import Array, sums
from pagewire.cli.kit.output import console_of, plain_table
from pagewire.cli.launch import launch
from pagewire.native.settings import ConfigError
from pagewire.run.settings import platform, platform_file
from pagewire.run.settings.config import Config

_FAR_OFF = 0.1
"""Deviation from which on the model is not the machine."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Groups by what the table says of them."""

    alone: list[int]
    together: list[int]
    too_weak: list[int]
    sums: list[Array]
    """of the groups that are determined only together: coefficients of their times"""


def fit(config: Config, path: str, output: str) -> int:
    """config: platform to begin at, and how the machine was set when it was measured."""
    platform_file.check_path("--output", output)
    launch.check_writable("--output", output)
    base = platform.load(config.run.platform)
    measured = points.read(path, config)
    if importlib.util.find_spec("scipy") is None:
        raise ConfigError(
            "--against solves by scipy, which is not installed: pip install 'pagewire[calibrate]'"
        )
    found = fit_points(base, measured, config)
    verdict = judge(found)
    show(found, verdict, measured, base)
    if output:
        where = f"fitted to {pathlib.Path(path).name}, {datetime.date.today().isoformat()}"
        changes = entries(found, verdict, where, base)
        platform_file.write(
            output,
            config.run.platform,
            changes,
            description=f"{base.description}; {where}",
            comment=[
                f"Written by pagewire calibrate: {len(changes)} costs {where}.",
                f"{len(measured)} points, missed by {found.deviation:.2%} in the mean.",
                f"They determine {found.directions.rank} sums of costs: `assumed` says which costs",
                f"they do not tell apart. The rest is that of {base.name}.",
            ],
        )
        print(f"pagewire: {output}", file=sys.stderr)
    return 0


def judge(found: Fit) -> Verdict:
    """What the table determines."""
    seen = found.directions
    every = range(len(found.groups))
    too_weak = [idx for idx in every if np.linalg.norm(seen.seen[:, idx]) < 0.05]
    alone = [idx for idx in every if seen.is_alone(idx)]
    together = [idx for idx in every if idx not in alone and idx not in too_weak]
    rows = sums(seen, together)
    in_no_sum = [idx for idx in together if not any(row[idx] for row in rows)]
    too_weak = sorted([*too_weak, *in_no_sum])
    together = [idx for idx in together if idx not in in_no_sum]
    now_ns = np.array([group.fitted_ns for group in found.groups])
    combined = []
    for row in rows:
        coefficients = np.divide(row, now_ns, out=np.zeros_like(row), where=now_ns > 0)
        first = next(idx for idx in together if coefficients[idx])
        combined.append(coefficients / coefficients[first])
    return Verdict(alone, together, too_weak, combined)


def entries(
    found: Fit, verdict: Verdict, where: str, base: platform.Platform
) -> dict[str, dict[str, Any]]:
    """The costs of a platform file that the table says something of."""
    changes: dict[str, dict[str, Any]] = {}
    for idx, group in enumerate(found.groups):
        if idx in verdict.too_weak:
            continue
        reasons = []
        if len(group.members) > 1:
            reasons.append(
                f"the points determine {sum_of(group)} alone; the parts are to each other as in "
                f"{base.name}"
            )
        if idx in verdict.together:
            reasons.append(
                "the points determine it only together with other costs; as near to "
                f"{base.name} as they allow"
            )
        if group.is_at_limit:
            reasons.append(f"at the limit of the fit, {FACTOR_MIN:g} to {FACTOR_MAX:g} times")
        for each in group.members:
            entry = {**parameters.entry(each, found.platform), "source": where}
            if reasons:
                entry["assumed"] = "; ".join(reasons)
            changes[each.name] = entry
    return changes


def show(found: Fit, verdict: Verdict, measured: Sequence[Point], base: platform.Platform) -> None:
    """What was found, and what cannot be."""
    console = console_of()

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    console.print(_points_table(found, measured, base))
    say(
        f"{len(measured)} points of {found.num_transfers} different transfers determine "
        f"{found.directions.rank} sums of costs. Root of the mean square of the errors: "
        f"{found.deviation:.2%}."
    )
    if found.num_free <= 0:
        say(
            "As many sums as points: the errors are small because they must be, and say nothing "
            "about how good the fit is. Measure more points."
        )
    if found.deviation > _FAR_OFF:
        say(
            f"Errors above {_FAR_OFF:.0%}: the machine does something that no costs of "
            f"{base.name} make up for. Look at the points that are worst, and at --policy, "
            "--timeout and the columns of the table before you use the costs."
        )
    if found.others:
        say(
            f"{1 + len(found.others)} fits from different beginnings are as good; +- is no less "
            "than what they differ by."
        )
    if verdict.alone:
        console.print(_alone_table(found, verdict, base))
    if verdict.sums:
        say("\nDetermined only as sums (what each cost in them is cannot be told apart):")
        for row in verdict.sums:
            say(f"  {_sum_line(found, row)}")
        for idx in verdict.together:
            if len(found.groups[idx].members) > 1:
                say(f"  where {_short(found.groups[idx])} = {sum_of(found.groups[idx])}")
    if verdict.too_weak:
        weak = ", ".join(sum_of(found.groups[idx]) for idx in verdict.too_weak)
        say(f"\nToo weak in these points, against their errors, and left as it was: {weak}")
    limited = [sum_of(group) for group in found.groups if group.is_at_limit]
    if limited:
        say(
            f"\nAt the limit of {FACTOR_MIN:g} to {FACTOR_MAX:g} times {base.name}: "
            f"{', '.join(limited)}"
        )
    unused = ", ".join(each.label for each in found.unused)
    say(f"\nNo point depends on these, they stay as in {base.name}: {unused}")


def _points_table(found: Fit, measured: Sequence[Point], base: platform.Platform) -> Table:
    heads = ("measured", f"in {base.name}", "fitted", "error")
    table = plain_table("transfer", *heads, title="points (us)")
    for point, before, after in zip(
        measured, found.base_latencies_ns, found.latencies_ns, strict=True
    ):
        table.add_row(
            str(point.transfer),
            *(f"{ns / 1e3:.3f}" for ns in (point.latency_ns, before, after)),
            f"{(after - point.latency_ns) / point.latency_ns:+.2%}",
        )
    return table


def _alone_table(found: Fit, verdict: Verdict, base: platform.Platform) -> Table:
    first = "cost, or sum of which the parts cannot be told apart"
    heads = (f"in {base.name}", "fitted", "+-")
    table = plain_table(first, *heads, title="determined by themselves (ns)")
    units = np.eye(len(found.groups))
    for group, unit in ((found.groups[idx], units[idx]) for idx in verdict.alone):
        table.add_row(
            sum_of(group), f"{group.base_ns:.0f}", f"{group.fitted_ns:.0f}", _doubt(found, unit)
        )
    return table


def _doubt(found: Fit, coefficients: Array) -> str:
    """How well a sum of the groups' times is known."""
    return f"{found.doubt_ns(coefficients):.0f}" if found.num_free > 0 else "?"


def _sum_line(found: Fit, row: Array) -> str:
    """The sum of a row of coefficients, and its value."""
    text, value = "", 0.0
    for idx, coefficient in enumerate(row):
        if not coefficient:
            continue
        group = found.groups[idx]
        value += coefficient * group.fitted_ns
        sign = ("- " if coefficient < 0 else "+ ") if text else ("-" if coefficient < 0 else "")
        text += f"{' ' if text else ''}{sign}{_times(abs(coefficient))}{_short(group)}"
    return f"{text} = {value:.0f} ns +- {_doubt(found, row)}"


def _short(group: Group) -> str:
    """A name of a sum in a sum."""
    first = group.members[0].label
    return first if len(group.members) == 1 else f"({first} + ...)"


def sum_of(group: Group) -> str:
    """The costs of a group as a sum."""
    return " + ".join(
        f"{_times(weight)}{each.label}"
        for weight, each in zip(group.weights, group.members, strict=True)
    )


def _times(weight: float) -> str:
    return "" if abs(weight - 1) < 0.01 else f"{weight:.3g} "
