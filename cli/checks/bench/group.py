"""A group of figures of `pagewire bench`: how it is measured, shown, and held against limits.

Rows are flat dicts and hold every figure that a table shows, so that tables are made of what JSON
holds. Wall times are this host's and virtual times the emulated machine's, both in s.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.numbers import size_text
from pagewire.cli.launch import launch
from pagewire.cli.launch.program import Program
from pagewire.cli.launch.witness import STARTER

Row = dict[str, Any]
Rows = list[Row]

MPACKETS_PER_S = 25.0
"""The least that will do, of two engines and in a ping-pong, in millions."""


class BenchError(Exception):
    """Ranks that measure have failed."""


Work = tuple[str, int]
"""Name of an operation as the ranks know it, and its bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """Of one message, or of one collective, in s."""

    plain_s: float
    ni_s: float
    virtual_s: float
    """over the NI"""
    blocks_per_s: float = 0.0
    """that all ranks' engines emulated in a second of wall time; 0: nobody has counted"""
    packets_per_s: float = 0.0
    system_calls: float | None = None
    """of all ranks; None: this host does not tell"""
    context_switches: float = 0.0
    """of all ranks"""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    key: str
    """of the rows"""
    head: str
    decimals: int = 2
    factor: float = 1.0
    """from the row's unit to the head's"""
    only: str = ""
    """the transport that has it; empty: all"""

    def of(self, transport: str) -> "Column":
        """{} in key and head stands for the transport."""
        return dataclasses.replace(
            self, key=self.key.format(transport), head=self.head.format(transport)
        )

    def text(self, row: Row) -> str:
        """One cell."""
        value = row[self.key]
        if isinstance(value, str):
            return value
        if value is None:
            return "not measurable"
        if self.key == "num_bytes":
            return size_text(value)
        return f"{value * self.factor:,.{self.decimals}f}"


NUM_BYTES = Column("num_bytes", "size")


class Layout:
    """How rows become a table."""

    def __init__(self, title: str, *columns: Column) -> None:
        self.title = title
        self.columns = columns

    def table(self, rows: Sequence[Row], transport: str = "") -> Table:
        title = self.title + (" (C over libfabric)" if transport == "fabric" else "")
        table = Table(title=title, title_justify="left")
        columns = [each.of(transport) for each in self.columns if each.only in ("", transport)]
        for column in columns:
            is_text = bool(rows) and isinstance(rows[0][column.key], str)
            table.add_column(column.head, justify="left" if is_text else "right", no_wrap=True)
        for row in rows:
            table.add_row(*(column.text(row) for column in columns))
        return table


@dataclasses.dataclass(frozen=True, slots=True)
class Goal:
    """A figure that the project set itself."""

    what: str
    limit: float
    measured: float
    at_least: bool = dataclasses.field(default=False, kw_only=True)
    """the limit is the least that will do; else it is the most"""

    @property
    def reached(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    @property
    def row(self) -> Row:
        """As a row of the table of goals."""
        return {
            "goal": self.what,
            "limit": self.limit,
            "bound": "at least" if self.at_least else "at most",
            "measured": self.measured,
            "reached": "yes" if self.reached else "no",
        }


GOALS = Layout(
    "goals",
    Column("goal", "goal"),
    Column("bound", ""),
    Column("limit", "limit"),
    Column("measured", "measured"),
    Column("reached", "reached"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Conditions:
    """What a measurement is given."""

    transport: str
    """what carries the ranks' messages: facade, by Python's ranks, or fabric, by a C program's"""
    quick: bool
    """smallest sizes and few rounds: it tries the command, its figures mean little"""
    environ: Mapping[str, str]
    """holds the user's settings"""
    begin_step: Callable[[str], None]
    """takes the name of each step before it is done"""


class Group:
    """One group; `name` is what --only takes, `key` that of the rows in JSON.

    num_steps: how often `measure` begins a step, by whether it is quick, and the transport.
    transports: that it can measure.
    """

    def __init__(
        self,
        name: str,
        *layouts: Layout,
        measure: Callable[[Conditions], Rows],
        goals: Callable[[Rows], list[Goal]] = lambda rows: [],
        num_steps: Callable[[bool, str], int] = lambda quick, transport: 1,
        transports: Sequence[str] = ("facade",),
    ) -> None:
        self.name = name
        self.key = name.replace("-", "_")
        self.layouts = layouts
        self.measure = measure
        self.goals = goals
        self.num_steps = num_steps
        self.transports = transports


def measure_on_ranks(
    conditions: Conditions, num_ranks: int, module: str, spec: Mapping[str, Any]
) -> Rows:
    """Rows that a module of ranks/ measures on the NI and beside it, as its `measure` is told."""
    rows: Rows = run_module(conditions, num_ranks, module, json.dumps(spec))[0]
    return rows


def run_module(
    conditions: Conditions,
    num_ranks: int,
    module: str,
    *words: str,
    what: str = "",
    plain: bool = False,
    trace: str = "",
) -> tuple[Any, float]:
    """What rank 0 of a module of ranks/ writes as JSON to the file that its first word names, and
    wall time of the launch in s. plain: not on the NI."""
    with guarded_folder("pagewire-bench-") as directory:
        path = pathlib.Path(directory, "found.json")
        name, words = f"pagewire.cli.checks.bench.ranks.{module}", (str(path), *words)
        environ = {**rank_environ(conditions), "PAGEWIRE_RUN_TRACE": trace}
        start_s = time.perf_counter()
        if plain:
            command = [STARTER, sys.executable, "-P", "-m", name, *words]
            outcome = launch.launch_command(
                num_ranks, command, environ, program=module, stdout=subprocess.DEVNULL
            )
        else:
            chosen = Program("module", name, words)
            outcome = launch.launch(num_ranks, chosen, environ, stdout=subprocess.DEVNULL)
        launch_s = time.perf_counter() - start_s
        check_outcome(outcome, what or module)
        return json.loads(path.read_text(encoding="utf-8")), launch_s


def rank_environ(conditions: Conditions) -> dict[str, str]:
    """Environment of ranks that measure: the user's settings, and no reports."""
    return {
        **conditions.environ,
        "PAGEWIRE_RUN_QUIET": "true",
        "PAGEWIRE_RUN_JSON": "",
        "PAGEWIRE_RUN_TRACE": "",
    }


def check_outcome(outcome: launch.Outcome, what: str) -> None:
    """Raise when the ranks have failed."""
    if outcome.failure or outcome.exit_code:
        raise BenchError(f"{what}: {outcome.failure or f'exit code {outcome.exit_code}'}")
