"""`pagewire replay --costs`: where the time of a run went, by cost, and what each may grow to."""

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pagewire.cli.commands.replay_work import Item, Work
from pagewire.cli.kit import progress
from pagewire.native.settings import ConfigError
from pagewire.replay import slowed, tolerance
from pagewire.replay.replay import Settings
from pagewire.replay.tolerance import Answer, Ask, Request, Share

LOSS_MAX = 100.0
_REPLAYS_A_COST = 4
"""About so many, for the estimate."""
_SMALL = 5e-5
"""A share below it is not shown, when the cost may grow without end."""
_BENT = 5e-4
"""Shares by doubling and by halving that differ by more than this, and by a tenth, are marked."""
_WIDTH = 80


def chosen(asked: Any, settings: Settings) -> list[str]:
    """The costs that `asked`, the `Asked` of the command, names; raises ConfigError, as soon as
    anybody can know."""
    if not 0 < asked.loss <= LOSS_MAX:
        raise ConfigError(f"--loss {asked.loss}: allowed is above 0 and up to {LOSS_MAX:g} (%)")
    return slowed.chosen(asked.costs, settings)


def measure(
    file: str,
    assignments: Sequence[str],
    names: Sequence[str],
    settings: Settings,
    asked: Any,
    work: Work,
) -> dict[str, Any]:
    """What `pagewire replay --costs` finds of one row with these costs, as its JSON holds it."""
    loss = asked.loss / 100
    expected = _REPLAYS_A_COST * len(names)
    with _asking(file, assignments, asked.matching, work, expected) as (ask, done):
        run_ns = ask([()])[0].run_ns or 0
        costs = tolerance.shares(names, settings, run_ns, loss, ask)
        groups = tolerance.group_shares(costs, run_ns, loss, ask)
        curves = tolerance.curves(costs, run_ns, ask)
        return {
            "run_s": run_ns / 1e9,
            "loss": loss,
            "replays": len(done),
            "asked": len(names),
            "explained": sum(each.share for each in costs),
            "groups": [_entry(each) for each in groups],
            "costs": [_entry(each) for each in costs],
            "curves": {
                "factors": list(tolerance.CURVE),
                "groups": {name: [t / 1e9 for t in own] for name, own in curves.groups.items()},
                "checks": [
                    {"factors": dict(mix), "predicted_s": told / 1e9, "replayed_s": found / 1e9}
                    for mix, told, found in curves.checks
                ],
                "worst": curves.worst,
            },
        }


@contextlib.contextmanager
def _asking(
    file: str, assignments: Sequence[str], matching: str, work: Work, expected: int
) -> Iterator[tuple[Ask, list[Answer]]]:
    """What does replays, and what they all gave; a bar on a terminal."""
    do = functools.partial(_answer, file, matching)
    done: list[Answer] = []
    with progress.Display(expected, quiet=not sys.stderr.isatty()) as display:

        def ask(requests: Sequence[Request]) -> Sequence[Answer]:
            answers = []
            display.expect(max(expected, len(done) + len(requests)), expected)
            display.begin("costs")
            for found in work.map(do, [Item(list(assignments), each) for each in requests]):
                answers.append(Answer(*found))
                display.end()
                display.begin("costs")
            done.extend(answers)
            return answers

        yield ask, done


def _answer(file: str, matching: str, item: Item) -> Answer:
    return tolerance.replayed(file, item.assignments, matching, item.request)


def _entry(found: Share) -> dict[str, Any]:
    return {
        "name": found.name,
        "group": found.group,
        "value": found.value,
        "share": found.share,
        "share_up": found.up,
        "share_down": found.down,
        "tolerated_factor": None if found.tolerated >= tolerance.REACH else found.tolerated,
        "tolerated_value": found.tolerated_value,
    }


def show(costs: Mapping[str, Any]) -> None:
    """Print both tables, and what has no row in them."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    limit = f"loses {100 * costs['loss']:g} % at"
    shown = [each for each in costs["costs"] if _is_shown(each)]
    console.print(_table("part", costs["groups"], limit))
    console.print(_table("cost", shown, limit))
    hidden = costs["asked"] - len(shown)
    explained = 100 * costs["explained"]
    told = (
        f"Together {explained:.2f} % of the run's {costs['run_s']:.6f} s; {hidden} more costs "
        "change nothing worth a row."
    )
    console.print(told, highlight=False)
    if any(_is_bent(each) for each in shown):
        console.print("~: doubling and halving give it different shares.")


def _table(head: str, entries: Sequence[Mapping[str, Any]], limit: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(head)
    if head == "cost":
        table.add_column("value", justify="right")
    table.add_column("of the time", justify="right")
    table.add_column(limit, justify="right")
    for each in entries:
        tolerated = each["tolerated_value"]
        if each["tolerated_factor"] is None:
            tolerated = f"beyond x {tolerance.REACH:,.0f}"
        value = [each["value"]] if head == "cost" else []
        bent = "~ " if _is_bent(each) else ""
        table.add_row(each["name"], *value, f"{bent}{100 * each['share']:.2f} %", tolerated)
    return table


def _is_shown(each: Mapping[str, Any]) -> bool:
    return abs(each["share"]) >= _SMALL or each["tolerated_factor"] is not None


def _is_bent(each: Mapping[str, Any]) -> bool:
    apart = abs(each["share_up"] - each["share_down"])
    return bool(apart > max(_BENT, abs(each["share"]) / 10))
