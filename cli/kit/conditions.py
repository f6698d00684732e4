"""What a source says of a quantity, and whether ours is so: the table behind the experiments.

A condition is a sentence of a source as bounds. A number alone gets 5 % to each side, which is
ours. Nothing is fitted to one.
"""

import dataclasses
import functools
import operator
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from pagewire.run.report.report import write_json

Rows = Sequence[Mapping[str, Any]]

_WIDTH = 80


Ours = Callable[[Rows], float | None]
"""A quantity out of an experiment's rows; None: they do not have it."""


def at(key: str, **where: Any) -> Ours:
    """The number of a column, in the row in which those of `where` have these values."""

    def ours(rows: Rows) -> float | None:
        for row in rows:
            if all(row.get(name) == value for name, value in where.items()):
                value = row.get(key)
                return None if value is None else float(value)
        return None

    return ours


def _of_two(left: Ours, right: Ours, combine: Callable[[float, float], float]) -> Ours:
    def ours(rows: Rows) -> float | None:
        one, other = left(rows), right(rows)
        return None if one is None or other is None else combine(one, other)

    return ours


def ratio(upper: str, lower: str, **where: Any) -> Ours:
    """Of two columns of a row."""
    return _of_two(at(upper, **where), at(lower, **where), operator.truediv)


def difference(more: str, less: str, **where: Any) -> Ours:
    """Of two columns of a row."""
    return _of_two(at(more, **where), at(less, **where), operator.sub)


def total(*parts: Ours) -> Ours:
    """Of several numbers."""
    return functools.reduce(lambda left, right: _of_two(left, right, operator.add), parts)


class Bounds(NamedTuple):
    """What a quantity may be, ends included; None: without end."""

    low: float | None
    high: float | None
    unit: str = ""
    about: float | None = None
    """the source's own number, if it is one"""

    @property
    def text(self) -> str:
        if self.about is not None:
            text = f"about {self.about:g}"
        elif self.low is None or self.high is None:
            text = f"at most {self.high:g}" if self.low is None else f"at least {self.low:g}"
        elif self.low == self.high:
            text = f"{self.low:g}"
        else:
            text = f"{self.low:g} to {self.high:g}"
        return f"{text} {self.unit}".strip()

    def hold(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


ABOUT = 0.05
"""How far from a number ours may be: so much of it to each side."""


def about(number: float, unit: str = "") -> Bounds:
    """For a source that gives a number, and no bounds."""
    return Bounds(number * (1 - ABOUT), number * (1 + ABOUT), unit, number)


class Condition(NamedTuple):
    """Of a source, for a number of an experiment."""

    quantity: str
    bounds: Bounds
    source: str
    """where the sentence is, as [PART 5.1], with its words where the bounds are not its own"""
    ours: Ours


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """Of the table: a condition held against a result, or why there is none."""

    experiment: str
    quantity: str
    condition: str
    source: str = ""
    low: float | None = None
    high: float | None = None
    ours: float | None = None
    unit: str = ""
    holds: bool | None = None
    """None: nothing to hold"""

    @property
    def ours_text(self) -> str:
        if self.ours is None:
            return "-"
        digits = f"{self.ours:,.0f}" if abs(self.ours) >= 100 else f"{self.ours:.3g}"
        return f"{digits} {self.unit}".strip()


def lines_of(
    experiment: str, conditions: Sequence[Condition], rows: Rows, without: str
) -> list[Line]:
    """Of an experiment and its rows; without any condition one line, which says `without`."""
    if not conditions:
        return [Line(experiment, "", without)]
    found = []
    for quantity, bounds, source, of_rows in conditions:
        ours = of_rows(rows)
        found.append(
            Line(
                experiment,
                quantity,
                bounds.text,
                source,
                low=bounds.low,
                high=bounds.high,
                ours=ours,
                unit=bounds.unit,
                holds=None if ours is None else bounds.hold(ours),
            )
        )
    return found


HOLDS = {True: "yes", False: "NO", None: "-"}


def print_lines(lines: Sequence[Line]) -> None:
    """The table, 80 columns wide, and how many hold."""
    console = Console(width=_WIDTH)
    console.print("\nwhat the sources say, and ours", style="bold")
    table = Table(padding=(0, 1, 0, 0), pad_edge=False, box=None, header_style="bold")
    table.add_column("figure", no_wrap=True)
    table.add_column("quantity", overflow="fold", ratio=3)
    table.add_column("paper's condition", overflow="fold", ratio=3)
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("holds", no_wrap=True)
    for idx, each in enumerate(lines):
        repeated = idx > 0 and lines[idx - 1].experiment == each.experiment
        table.add_row(
            "" if repeated else each.experiment,
            each.quantity,
            f"{each.condition} {each.source}".strip(),
            each.ours_text,
            HOLDS[each.holds],
        )
    console.print(table, highlight=False, markup=False)
    counts = [sum(each.holds is value for each in lines) for value in (True, False, None)]
    console.print(
        f"{counts[0]} hold, {counts[1]} do{'es' * (counts[1] == 1)} not, "
        f"{counts[2]} without a condition or a number here",
        style="dim",
        highlight=False,
    )


def write(lines: Sequence[Line], folder: pathlib.Path) -> None:
    """All lines as a file in a folder; raises OutputError."""
    path = folder / "conditions.json"
    document = {"conditions": [dataclasses.asdict(each) for each in lines]}
    write_json(str(path), document, "conditions")
    print(f"pagewire: {path}", file=sys.stderr, flush=True)
