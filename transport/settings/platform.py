"""Costs of the emulated machine, read from a platform file.

A platform file (TOML) holds every cost of docs/machine.md, "Costs", with unit and source:
`[costs.NAME]` with value, unit, source and, where the sources leave it open, `assumed` with the
reason for the choice. Piecewise costs over size are `[tables.NAME]`. Nothing has a default: a file
states all of them or is refused.
"""

import bisect
import dataclasses
import itertools
import pathlib
import tomllib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pagewire.native import ffi, lib
from pagewire.native.settings import SIZE_UNITS, TIME_UNITS, ConfigError, suggestion
from pagewire.transport.memory.pages import TABLES

FOLDER = pathlib.Path(__file__).resolve().parent / "platforms"

_BASE_UNITS: Mapping[str, Mapping[str, float]] = {
    "_ns": TIME_UNITS,
    "_mbps": {"Mb/s": 1, "Gb/s": 1000},
    "_bytes": SIZE_UNITS,
    "_permille": {"permille": 1, "percent": 10},
    "_ps": {"ps": 1, "ns": 1000},
    "_clocks": {"clocks": 1},
    "_mflops": {"MFLOP/s": 1, "GFLOP/s": 1000},
}
"""Units of each suffix, as factors to the base unit that the suffix names."""

_CLOCK_UNITS = {"MHz": 1_000_000, "GHz": 1_000}
"""Frequencies that a period in ps may be given by: period = factor / value."""

_DIVISORS = ("_mbps", "_mflops", "_ps", "_permille")
"""Suffixes of what something is divided by, so that it is above 0. So is a cost without a suffix: a
count, of what its unit says."""


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
class Comparison:
    """RDMA that the kernel initiates, which experiments set beside the user's; the engine knows
    nothing of it. A platform need not have it."""

    kernel_start_ns: int
    kernel_rate_mbps: int

    def duration_ns(self, num_bytes: int) -> int:
        """From the user's call until the last byte has left."""
        return self.kernel_start_ns + round(num_bytes * 8e3 / self.kernel_rate_mbps)


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """What the platform file says of one cost or table."""

    value: str
    unit: str
    source: str
    assumed: str
    """Why this value, where the sources leave it open; empty when they give it."""


@dataclasses.dataclass(frozen=True, slots=True)
class CostTable:
    """A cost over size: linear between points, the first one's below, the last slope beyond."""

    sizes_bytes: tuple[int, ...]
    costs_ns: tuple[int, ...]

    def cost_ns(self, num_bytes: int) -> int:
        """Cost of one operation on num_bytes; nothing for zero bytes."""
        if num_bytes <= 0:
            return 0
        sizes, costs = self.sizes_bytes, self.costs_ns
        if num_bytes <= sizes[0] or len(sizes) == 1:
            return costs[0]
        right = min(bisect.bisect_left(sizes, num_bytes), len(sizes) - 1)
        left = right - 1
        rise = (costs[right] - costs[left]) * (num_bytes - sizes[left])
        return costs[left] + rise // (sizes[right] - sizes[left])


@dataclasses.dataclass(frozen=True, slots=True)
class Platform:
    """One emulated machine."""

    name: str
    description: str
    costs: Costs
    rates: Rates
    comparison: Comparison | None
    tables: Mapping[str, CostTable]
    cost_origins: Mapping[str, Origin]
    """By field name of Costs, Rates and Comparison."""
    table_origins: Mapping[str, Origin]

    def table(self, name: str) -> CostTable:
        return self.tables[name]


_LARGEST = 10**12
"""In a cost's own unit; the engine has limits of its own below it, and names what is beyond."""


def names() -> list[str]:
    """Platforms that come with pagewire."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name_or_path: str) -> Platform:
    """The platform of a bundled name or of a .toml file; raises ConfigError."""
    document, path = read(name_or_path)
    try:
        return parse(document, path.stem)
    except ConfigError as error:
        raise ConfigError(f"platform file '{path}': {error}") from None


def read(name_or_path: str) -> tuple[dict[str, Any], pathlib.Path]:
    """The TOML document of a bundled name or of a .toml file, not checked; raises ConfigError."""
    if name_or_path.endswith(".toml"):
        path = pathlib.Path(name_or_path)
    elif name_or_path in names():
        path = FOLDER / f"{name_or_path}.toml"
    else:
        raise ConfigError(
            f"unknown platform '{name_or_path}'{suggestion(name_or_path, names())}; "
            f"allowed is one of {', '.join(names())} or the path of a .toml file"
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")), path
    except OSError as error:
        raise ConfigError(f"platform file '{path}': {error.strerror}") from None
    except ValueError as error:  # of TOML, UTF-8, or a number of thousands of digits
        raise ConfigError(f"platform file '{path}': {error}") from None
    except RecursionError:
        raise ConfigError(f"platform file '{path}': its values are nested too deeply") from None


def parse(document: Mapping[str, Any], name: str) -> Platform:
    """The platform of a TOML document; raises ConfigError that names key and reason."""
    required = ("description", "costs", "rates", "tables")
    rest = {key: value for key, value in document.items() if key != "comparison"}
    _check_keys("", rest, required)
    tables = _table_of(document, "tables")
    _check_keys("tables.", tables, required=TABLES)
    cost_origins: dict[str, Origin] = {}
    costs = _values(document, "costs", Costs.FIELDS, cost_origins)
    rates = _values(document, "rates", _names_of(Rates), cost_origins)
    comparison = None
    if "comparison" in document:
        comparison = Comparison(
            **_values(document, "comparison", _names_of(Comparison), cost_origins)
        )
    parsed: dict[str, CostTable] = {}
    table_origins: dict[str, Origin] = {}
    for key in TABLES:
        keys = ("points", "size_unit", "time_unit", "source")
        entry = _entry(tables, "tables", key, keys)
        parsed[key] = _cost_table(f"tables.{key}", entry)
        unit = f"{entry['size_unit']}: {entry['time_unit']}"
        points = ", ".join(f"{size}: {cost}" for size, cost in entry["points"])
        table_origins[key] = _origin(f"tables.{key}", entry, points, unit)
    return Platform(
        name=name,
        description=str(document["description"]),
        costs=Costs(costs),
        rates=Rates(**rates),
        comparison=comparison,
        tables=MappingProxyType(parsed),
        cost_origins=MappingProxyType(cost_origins),
        table_origins=MappingProxyType(table_origins),
    )


def _names_of(owner: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(owner))


def _values(
    document: Mapping[str, Any], section: str, names: Iterable[str], origins: dict[str, Origin]
) -> dict[str, int]:
    """Values of a section by field name; where each comes from goes into `origins`."""
    fields = {cost_name(name): name for name in names}
    table = _table_of(document, section)
    _check_keys(f"{section}.", table, required=tuple(fields))
    values: dict[str, int] = {}
    for key, field in fields.items():
        entry = _entry(table, section, key, ("value", "unit", "source"))
        values[field] = _convert(f"{section}.{key}", field, entry["value"], entry["unit"])
        origins[field] = _origin(f"{section}.{key}", entry, f"{entry['value']}", entry["unit"])
    return values


def cost_name(field: str) -> str:
    """Key of a cost in the file: the field's name without the suffix of its unit."""
    suffix = _suffix(field)
    return field.removesuffix(suffix) if suffix else field


def _suffix(field: str) -> str:
    return next((suffix for suffix in _BASE_UNITS if field.endswith(suffix)), "")


def _check_keys(prefix: str, given: Mapping[str, Any], required: tuple[str, ...]) -> None:
    for key in given:
        if key not in required:
            raise ConfigError(
                f"unknown key '{prefix}{key}'{suggestion(key, required)}; "
                f"known are {', '.join(required)}"
            )
    missing = [f"{prefix}{key}" for key in required if key not in given]
    if missing:
        raise ConfigError(f"missing {', '.join(missing)}")


def _table_of(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = document[key]
    if not isinstance(table, dict):
        raise ConfigError(f"'{key}' must be a table")
    return table


def _entry(
    table: Mapping[str, Any], section: str, key: str, required: tuple[str, ...]
) -> Mapping[str, Any]:
    entry = table[key]
    if not isinstance(entry, dict):
        raise ConfigError(f"'{section}.{key}' must be a table with {', '.join(required)}")
    optional = {"assumed"}
    rest = {name: value for name, value in entry.items() if name not in optional}
    _check_keys(f"{section}.{key}.", rest, required)
    return entry


def _origin(where: str, entry: Mapping[str, Any], value: str, unit: str) -> Origin:
    for key in ("source", "assumed"):
        text = entry.get(key, "")
        if not isinstance(text, str) or (key in entry and not text.strip()):
            raise ConfigError(f"{where}.{key} must be a text that is not empty")
    return Origin(value, unit, entry["source"], entry.get("assumed", ""))


def _number(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{where} = {value!r}: expected a number")
    if not 0 <= value < 1e15:
        raise ConfigError(f"{where} = {value!r}: expected a number from 0 to 1e15")
    return value


def _convert(where: str, field: str, value: object, unit: object) -> int:
    number = _number(f"{where}.value", value)
    if not isinstance(unit, str) or not unit.strip():
        raise ConfigError(f"{where}.unit = {unit!r}: must be a text that is not empty")
    suffix = _suffix(field)
    if suffix == "_ps" and unit in _CLOCK_UNITS:
        if number == 0:
            raise ConfigError(f"{where}.value = {value!r}: a frequency is above 0")
        return round(_CLOCK_UNITS[unit] / number)
    units = _BASE_UNITS[suffix] if suffix else {unit: 1}
    if unit not in units:
        known = [*units, *(_CLOCK_UNITS if suffix == "_ps" else ())]
        raise ConfigError(f"{where}.unit = {unit!r}: allowed is one of {', '.join(known)}")
    base = number * units[unit]
    if abs(base - round(base)) > 1e-6:
        name = suffix.lstrip("_") or unit
        raise ConfigError(f"{where}.value = {value!r} {unit}: not a whole number of {name}")
    result = round(base)
    if result > _LARGEST:
        raise ConfigError(
            f"{where}.value = {value!r} {unit}: at most {_LARGEST:.0e} {suffix.lstrip('_') or unit}"
        )
    if result == 0 and (not suffix or suffix in _DIVISORS):
        raise ConfigError(f"{where}.value = {value!r}: must be above 0")
    return result


def _cost_table(where: str, entry: Mapping[str, Any]) -> CostTable:
    for key, units in (("size_unit", SIZE_UNITS), ("time_unit", TIME_UNITS)):
        if not isinstance(entry[key], str) or entry[key] not in units:
            raise ConfigError(
                f"{where}.{key} = {entry[key]!r}: allowed is one of {', '.join(units)}"
            )
    points = entry["points"]
    if not isinstance(points, list) or not points:
        raise ConfigError(f"{where}.points must be a list of [size, time]")
    if len(points) > lib.PW_COST_POINTS_MAX:
        raise ConfigError(
            f"{where}.points: {len(points)} are too many; at most {lib.PW_COST_POINTS_MAX}"
        )
    sizes: list[int] = []
    costs: list[int] = []
    for point in points:
        if not isinstance(point, list) or len(point) != 2:
            raise ConfigError(f"{where}.points: {point!r} is not [size, time]")
        size, cost = (_number(f"{where}.points", each) for each in point)
        sizes.append(round(size * SIZE_UNITS[entry["size_unit"]]))
        costs.append(round(cost * TIME_UNITS[entry["time_unit"]]))
    if any(left >= right for left, right in itertools.pairwise(sizes)):
        raise ConfigError(f"{where}.points: sizes must rise")
    if any(left > right for left, right in itertools.pairwise(costs)):
        raise ConfigError(f"{where}.points: times must not fall")
    return CostTable(tuple(sizes), tuple(costs))
