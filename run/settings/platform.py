"""Costs of the emulated machine, read from a platform file.

A platform file (TOML) holds every cost of docs/machine.md, "Costs", with unit and source:
`[costs.NAME]` with value, unit, source and, where the sources leave it open, `assumed` with the
reason for the choice. Piecewise costs over size are `[tables.NAME]`. Nothing has a default: a file
and its base (platform_document.py) state all of them, or it is refused.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pagewire.native import ffi, lib
from pagewire.native.settings import ConfigError, suggestion
from pagewire.node.strategies.pages import TABLES
from pagewire.run.settings.platform_document import (
    FOLDER,
    SECTIONS,
    CostTable,
    Origin,
    check_keys,
    cost_name,
    names,
    parse_cost,
    read,
    tables,
    values,
    with_base,
)

__all__ = ["FOLDER", "CostTable", "Costs", "Origin", "Platform", "cost_name", "load", "names"]


class Costs:
    """Component costs in base units, by the field names of struct pw_costs.

    A new cost is a field there and a key in the platform files.
    """

    __slots__ = ("_values",)

    FIELDS = tuple(name for name, _ in ffi.typeof("pw_costs").fields)

    def __init__(self, values: Mapping[str, int]) -> None:
        """values: every field of FIELDS and no other."""
        if set(values) != set(self.FIELDS):
            differ = sorted(set(values) ^ set(self.FIELDS))
            raise ConfigError(f"costs and struct pw_costs differ in {', '.join(differ)}")
        self._values = MappingProxyType(dict(values))

    def __getattr__(self, name: str) -> int:
        if name == "_values" or name not in self._values:
            raise AttributeError(f"there is no cost '{name}'{suggestion(name, self.FIELDS)}")
        return self._values[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Costs) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def as_dict(self) -> dict[str, int]:
        """Every cost by field name, for the engine."""
        return dict(self._values)


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """What a rank computes with, for `compute = model`; one rank uses all cores of a node."""

    compute_mflops: int
    memory_mbps: int

    def duration_ns(self, flops: float, num_bytes: float) -> int:
        """Time of work that is bound by arithmetic or by memory, whichever takes longer."""
        return round(max(flops * 1e3 / self.compute_mflops, num_bytes * 8e3 / self.memory_mbps))


@dataclasses.dataclass(frozen=True, slots=True)
class Platform:
    """One emulated machine."""

    name: str
    description: str
    costs: Costs
    rates: Rates
    tables: Mapping[str, CostTable]
    cost_origins: Mapping[str, Origin]
    """By field name of Costs and Rates."""
    table_origins: Mapping[str, Origin]

    def table(self, name: str) -> CostTable:
        return self.tables[name]

    def assigned(self, assignments: Iterable[str]) -> "Platform":
        """The same machine but for `costs.NAME=9us` texts; raises ConfigError."""
        changed = dict(parse_assignment(each) for each in assignments)
        return dataclasses.replace(self, costs=Costs({**self.costs.as_dict(), **changed}))


def parse_assignment(text: str) -> tuple[str, int]:
    """Field of Costs and value, in its base unit, of `costs.NAME=9us`; raises ConfigError."""
    before, _, value = text.partition("=")
    name = before.strip()
    field = field_of(name)
    return field, parse_cost(name, field, value)


_FIELDS: Mapping[str, str] = {f"costs.{cost_name(field)}": field for field in Costs.FIELDS}


def field_of(name: str) -> str:
    """Field of Costs of `costs.NAME`; raises ConfigError."""
    if name not in _FIELDS:
        raise ConfigError(f"there is no cost '{name}'{suggestion(name, _FIELDS)}")
    return _FIELDS[name]


def load(name_or_path: str) -> Platform:
    """The platform of a bundled name or of a .toml file; raises ConfigError."""
    return _read_whole(name_or_path) if name_or_path.endswith(".toml") else _bundled(name_or_path)


def _read_whole(name_or_path: str) -> Platform:
    document, path = read(name_or_path)
    try:
        return parse(document, str(path))
    except ConfigError as error:
        raise ConfigError(f"platform file '{path}': {error}") from None


_bundled = functools.cache(_read_whole)
"""Nobody writes into these files, and a test makes thousands of nodes from one."""


def parse(document: Mapping[str, Any], path: str) -> Platform:
    """The platform of the TOML document of a file; raises ConfigError that names key and reason."""
    whole, stated = with_base(document, pathlib.Path(path))
    check_keys("", whole, ("description", *SECTIONS))
    cost_origins: dict[str, Origin] = {}
    table_origins: dict[str, Origin] = {}

    def numbers(section: str, names: tuple[str, ...]) -> dict[str, int]:
        return values(whole, section, names, stated, cost_origins)

    points_max = int(lib.PW_COST_POINTS_MAX)
    return Platform(
        name=pathlib.Path(path).stem,
        description=str(whole["description"]),
        costs=Costs(numbers("costs", Costs.FIELDS)),
        rates=Rates(**numbers("rates", _names_of(Rates))),
        tables=MappingProxyType(tables(whole, TABLES, stated, table_origins, points_max)),
        cost_origins=MappingProxyType(cost_origins),
        table_origins=MappingProxyType(table_origins),
    )


def _names_of(owner: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(owner))
