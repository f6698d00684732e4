"""What `pagewire compare` runs, in its order: strategies and units, the product of swept settings,
each so many times; and the row that each row's ratio refers to."""

import dataclasses
import math
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from pagewire.cli.commands import compare_table, sweep
from pagewire.native.settings import ConfigError, allowed, parse_value, suggestion
from pagewire.node.strategies.built_in import REGISTRY
from pagewire.run.settings import config

ALL = "all"
"""Of --memory: every strategy that comes with pagewire, and every unit."""
UNITS = ("mini", "static")
"""Of --memory: values of run.translation whose unit pins by itself and needs no strategy."""
DEFAULT = "pretouch,part"
"""Strategies of a comparison that sweeps no setting."""

MAX_RUNS = 10_000
MAX_ROWS = 512
"""Bounds against a mistyped number."""


class Choice(NamedTuple):
    """What is compared: settings of section run, and a value of each swept setting."""

    memory: str
    policy: str
    translation: str
    point: sweep.Point = ()

    @property
    def strategy(self) -> str:
        """The strategy or unit, with the policy where that matters."""
        return compare_table.strategy_name(self._asdict())

    @property
    def name(self) -> str:
        """Of its row."""
        return ", ".join(each for each in (self.strategy, sweep.label(self.point)) if each)

    @property
    def assignments(self) -> list[str]:
        own = {name: text for name, text in self._asdict().items() if name != "point"}
        return [
            *(f"run.{name}={text}" for name, text in own.items()),
            *(f"{name}={text}" for name, text in self.point),
        ]


@dataclasses.dataclass(slots=True)
class Run:
    """One run of the program."""

    choice: Choice
    assignments: list[str]
    report: pathlib.Path
    is_first: bool
    counts: bool
    """Not one that was made for its compute times alone."""
    environ: dict[str, str] = dataclasses.field(default_factory=dict)
    document: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.choice.name if self.counts else f"{self.choice.name}, compute times recorded"


def choices(
    memory: str | None, policy: str | None, axes: Sequence[sweep.Axis], base: config.Config
) -> list[Choice]:
    """The rows: each strategy under each value of the axes. Raises ConfigError."""
    lists = {"run.memory": memory, "run.policy": policy}
    rest = []
    for axis in axes:
        if lists.get(axis.name):
            raise ConfigError(
                f"--sweep {axis.name} and {sweep.BY_OPTION[axis.name]} name one axis twice; leave "
                "one of them out"
            )
        if axis.name in lists:
            lists[axis.name] = ",".join(axis.texts)
            continue
        if base.sources.get(axis.name) == "command line":
            raise ConfigError(
                f"--sweep {axis.name} is also given a value of its own on the command line; leave "
                "one of them out"
            )
        rest.append(axis)
    chosen_memory = lists["run.memory"]
    if chosen_memory is None:
        chosen_memory = base.run.memory if axes else DEFAULT
    strategies = _strategies(chosen_memory, lists["run.policy"], base)
    num_rows = math.prod(len(axis.texts) for axis in rest) * len(strategies)
    if num_rows > MAX_ROWS:
        product = " x ".join(str(len(axis.texts)) for axis in rest)
        raise ConfigError(
            f"--sweep: {product} values with {len(strategies)} strategies make {num_rows:,} rows, "
            f"at most {MAX_ROWS}; take fewer values, or compare in several calls"
        )
    points = sweep.points(rest)
    return [each._replace(point=point) for each in strategies for point in points]


def check_number(num_rows: int, num_runs: int) -> None:
    """Refuse a comparison that never ends; raises ConfigError."""
    if not 1 <= num_runs <= MAX_RUNS:
        raise ConfigError(f"--runs {num_runs}: allowed is 1 to {MAX_RUNS}")
    if num_rows * num_runs > MAX_RUNS:
        raise ConfigError(
            f"--runs {num_runs} with {num_rows} rows makes {num_rows * num_runs:,} runs, at most "
            f"{MAX_RUNS:,}; take fewer"
        )


def _strategies(memory: str, policy: str | None, base: config.Config) -> list[Choice]:
    """Strategies under the unit of the settings, and units; only part is run with each policy."""
    names = [each.strip() for each in memory.split(",") if each.strip()]
    if names == [ALL]:
        names = [name for name in REGISTRY.names() if REGISTRY.is_native(name)] + [*UNITS]
    policies = [each.strip() for each in (policy or base.run.policy).split(",") if each.strip()]
    if not names:
        raise ConfigError(
            f"--memory '{memory}': name at least {allowed(config.lookup('run.memory'))}, "
            f"{', '.join(UNITS)}, or all"
        )
    if not policies:
        raise ConfigError(
            f"--policy '{policy}': name at least {allowed(config.lookup('run.policy'))}"
        )
    for option, texts in (("--memory", names), ("--policy", policies)):
        for text in texts:
            if texts.count(text) > 1:
                raise ConfigError(f"{option}: '{text}' stands there twice; leave one out")
    unit = base.run.translation
    if unit != "smmu" and any(name in UNITS for name in names):
        raise ConfigError(
            f"--memory '{memory}' with run.translation = '{unit}': {' and '.join(UNITS)} in it "
            "name the unit; leave run.translation out"
        )
    strategies = [name for name in names if name not in UNITS]
    for setting, texts in (("run.memory", strategies), ("run.policy", policies)):
        for text in texts:
            config.load([f"{setting}={text}"], environ={})
    return [
        Choice("part", policies[0], name) if name in UNITS else Choice(name, page_in, unit)
        for name in names
        for page_in in (policies if name == "part" and unit == "smmu" else policies[:1])
    ]


def references(rows: Sequence[Choice], spec: str) -> list[Choice]:
    """For each row the one that its ratio refers to: the row that has what `spec` says, and else
    the row's own values; without a spec the first row. Raises ConfigError."""
    if not spec.strip():
        return [rows[0]] * len(rows)
    wanted: dict[str, str] = {}
    for term in (each.strip() for each in spec.split(",")):
        name, value = _coordinate(rows, term, spec)
        if name in wanted:
            raise ConfigError(f"--baseline '{spec}': {name} stands there twice; leave one out")
        wanted[name] = value
    by_coordinates = {tuple(_coordinates(row).items()): row for row in rows}
    return [by_coordinates[tuple((_coordinates(row) | wanted).items())] for row in rows]


def _coordinates(row: Choice) -> dict[str, str]:
    return {"run.memory": row.strategy, **dict(row.point)}


def _coordinate(rows: Sequence[Choice], term: str, spec: str) -> tuple[str, str]:
    """The axis that a term of --baseline fixes, and its value there."""
    name, equals, text = (each.strip() for each in term.partition("="))
    swept = {each: [dict(row.point)[each] for row in rows] for each, _ in rows[0].point}
    if equals and name in swept:
        declaration = config.lookup(name)
        for value in swept[name]:
            if value == text or _is_same(name, value, text):
                return declaration.name, value
    elif not equals or name == "run.memory":
        wanted = text if equals else term
        found = dict.fromkeys(
            row.strategy for row in rows if wanted in (row.strategy, row.strategy.split("/")[0])
        )
        if len(found) == 1:
            return "run.memory", next(iter(found))
    strategies = list(dict.fromkeys(row.strategy for row in rows))
    choices = [
        *strategies,
        *(f"{name}={text}" for name, texts in swept.items() for text in dict.fromkeys(texts)),
    ]
    raise ConfigError(
        f"--baseline '{spec}': '{term}' names no row{suggestion(term, choices)}; choose of "
        f"{', '.join(choices)}, at most one of each setting, with commas between them"
    )


def _is_same(name: str, first: str, second: str) -> bool:
    declaration = config.lookup(name)
    try:
        return bool(parse_value(declaration, first) == parse_value(declaration, second))
    except ConfigError:
        return False


def plan(
    rows: Sequence[Choice], compute: str, num_runs: int, directory: str, *, is_traced: bool
) -> list[Run]:
    """The runs in their order. The one whose compute times are recorded is itself not equal to
    those that replay them, so with several runs it is one of its own. Of several equal runs the
    first is traced."""
    record, replay = (f"run.compute_{verb}={directory}/compute" for verb in ("record", "replay"))
    recording = ["run.compute=measured", record]
    replaying = ["run.compute=replay", replay]
    runs: list[Run] = []

    def add(choice: Choice, times: list[str], *, is_first: bool, counts: bool = True) -> None:
        name = f"{directory}/{len(runs):05}"
        report = pathlib.Path(f"{name}.json")
        own = [f"run.json={report}", "run.html=", "run.hash_received=true"]
        if is_traced:
            own.append(f"run.trace={name}.trace" if is_first else "run.trace=")
        runs.append(Run(choice, [*choice.assignments, *own, *times], report, is_first, counts))

    for choice in rows:
        for run in range(num_runs):
            times = [f"run.compute={compute}"]
            if compute == "replay":
                if not runs and num_runs > 1:
                    add(choice, recording, is_first=False, counts=False)
                times = replaying if runs else recording
            add(choice, times, is_first=run == 0)
    return runs
