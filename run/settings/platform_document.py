"""A platform file: what it says, with its base's, in base units.

`base` names the platform whose entries stand where the file has none: bundled, or a .toml file
beside it; a base may have one itself. `assumed` beside it says why they do, where the sources of
this machine leave them open. The standard library alone, because the build makes a C table of the
bundled files with it.
"""

import bisect
import dataclasses
import itertools
import pathlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pagewire.native.settings import QUANTITY, SIZE_UNITS, TIME_UNITS, ConfigError, suggestion

FOLDER = pathlib.Path(__file__).resolve().parent / "platforms"
SECTIONS = ("costs", "rates", "tables")
"""Tables of a platform file whose entries a base gives too."""

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


_LARGEST = 10**12
"""In a cost's own unit; the engine has limits of its own below it, and names what is beyond."""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """What the platform file says of one cost or table."""

    value: str
    unit: str
    source: str
    assumed: str
    """Why this value, where the sources leave it open; empty when they give it."""
    platform: str
    """Whose file says it: that of the platform itself, or of a base."""


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


def names() -> list[str]:
    """Platforms that come with pagewire."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_toml(what: str, path: str | pathlib.Path) -> dict[str, Any]:
    """The document of a TOML file; ConfigError says what is wrong with it. what: the file is."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{what} '{path}': {error.strerror}") from None
    except ValueError as error:  # of TOML, UTF-8, or a number of thousands of digits
        raise ConfigError(f"{what} '{path}': {error}") from None
    except RecursionError:
        raise ConfigError(f"{what} '{path}': its values are nested too deeply") from None


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
    return read_toml("platform file", path), path


def with_base(
    document: Mapping[str, Any], path: pathlib.Path, above: tuple[pathlib.Path, ...] = ()
) -> tuple[dict[str, Any], dict[str, str]]:
    """A platform's document with the entries of its base where it has none; and, by "section.name",
    the platform whose file states the entry. Raises ConfigError.

    path: of the document. above: the files that name this one as their base.
    """
    chain = (*above, path)
    whole, stated = dict(document), dict[str, str]()
    base = whole.pop("base", None)
    if base is not None:
        if not isinstance(base, str):
            raise ConfigError(f"base = {base!r}: expected the name or path of a platform")
        is_beside = base.endswith(".toml") and not pathlib.Path(base).is_absolute()
        below, base_path = read(str(path.parent / base) if is_beside else base)
        if base_path.resolve() in [each.resolve() for each in chain]:
            around = ", ".join(str(each) for each in (*chain, base_path))
            raise ConfigError(f"base = '{base}' leads back to this file: {around}")
        inherited, stated = with_base(below, base_path, chain)
        for section in SECTIONS:
            own = whole.get(section, {})
            if isinstance(own, dict) and section in inherited:
                taken = _assumed(table_of(inherited, section), base_path.stem, whole.get("assumed"))
                whole[section] = {**taken, **own}
        whole.pop("assumed", None)
    for section in SECTIONS:
        own = document.get(section)
        if isinstance(own, dict):
            stated |= {f"{section}.{name}": path.stem for name in own}
    return whole, stated


def _assumed(inherited: Mapping[str, Any], base: str, because: object) -> Mapping[str, Any]:
    """The entries of a base as those of a platform that only assumes them."""
    if because is None:
        return inherited
    if not isinstance(because, str) or not because.strip():
        raise ConfigError("assumed must be a text that is not empty")
    made = {}
    for name, entry in inherited.items():
        if isinstance(entry, dict):
            own = f"; {entry['assumed']}" if "assumed" in entry else ""
            entry = {**entry, "assumed": f"as {base}: {because}{own}"}
        made[name] = entry
    return made


def values(
    document: Mapping[str, Any],
    section: str,
    names: Iterable[str],
    stated: Mapping[str, str],
    origins: dict[str, Origin],
) -> dict[str, int]:
    """Values of a section by field name; where each comes from goes into `origins`.

    document, stated: of `with_base`.
    """
    fields = {cost_name(name): name for name in names}
    table = table_of(document, section)
    check_keys(f"{section}.", table, required=tuple(fields))
    found: dict[str, int] = {}
    for key, field in fields.items():
        entry = entry_of(table, section, key, ("value", "unit", "source"))
        where = f"{section}.{key}"
        found[field] = _convert(where, field, entry["value"], entry["unit"])
        origins[field] = origin_of(where, entry, (f"{entry['value']}", entry["unit"]), stated)
    return found


def cost_name(field: str) -> str:
    """Key of a cost in the file: the field's name without the suffix of its unit."""
    suffix = _suffix(field)
    return field.removesuffix(suffix) if suffix else field


def parse_cost(where: str, field: str, text: str) -> int:
    """The cost of a text such as `9us` or `12 Gb/s`, in the field's base unit, which a number alone
    is in; raises ConfigError."""
    match = QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{where} = {text!r}: expected a number and a unit")
    number, unit = match.groups()
    return _convert(where, field, float(number), unit or _base_unit(field) or field)


def show_cost(field: str, value: int) -> str:
    """The text of a cost, in the largest unit that it is at least 1 of."""
    factors = _BASE_UNITS.get(_suffix(field), {})
    fitting = {unit: factor for unit, factor in factors.items() if value >= factor}
    unit = max(fitting, key=fitting.__getitem__) if fitting else _base_unit(field)
    return f"{value / factors.get(unit, 1):,.4g} {unit}".rstrip()


def _base_unit(field: str) -> str:
    """Empty: of a count."""
    units = _BASE_UNITS.get(_suffix(field), {})
    return next((unit for unit, factor in units.items() if factor == 1), "")


def _suffix(field: str) -> str:
    return next((suffix for suffix in _BASE_UNITS if field.endswith(suffix)), "")


def check_keys(prefix: str, given: Mapping[str, Any], required: tuple[str, ...]) -> None:
    """Refuse keys beside `required`, and missing ones."""
    for key in given:
        if key not in required:
            raise ConfigError(
                f"unknown key '{prefix}{key}'{suggestion(key, required)}; "
                f"known are {', '.join(required)}"
            )
    missing = [f"{prefix}{key}" for key in required if key not in given]
    if missing:
        raise ConfigError(f"missing {', '.join(missing)}")


def table_of(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table of the document."""
    table = document[key]
    if not isinstance(table, dict):
        raise ConfigError(f"'{key}' must be a table")
    return table


def entry_of(
    table: Mapping[str, Any], section: str, key: str, required: tuple[str, ...]
) -> Mapping[str, Any]:
    """An entry of a section, which has these keys."""
    entry = table[key]
    if not isinstance(entry, dict):
        raise ConfigError(f"'{section}.{key}' must be a table with {', '.join(required)}")
    optional = {"assumed"}
    rest = {name: value for name, value in entry.items() if name not in optional}
    check_keys(f"{section}.{key}.", rest, required)
    return entry


def origin_of(
    where: str, entry: Mapping[str, Any], value: tuple[str, str], stated: Mapping[str, str]
) -> Origin:
    """What an entry says of itself. value: as text, and its unit."""
    for key in ("source", "assumed"):
        text = entry.get(key, "")
        if not isinstance(text, str) or (key in entry and not text.strip()):
            raise ConfigError(f"{where}.{key} must be a text that is not empty")
    return Origin(*value, entry["source"], entry.get("assumed", ""), stated[where])


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


def tables(
    document: Mapping[str, Any],
    names: Sequence[str],
    stated: Mapping[str, str],
    origins: dict[str, Origin],
    points_max: int,
) -> dict[str, CostTable]:
    """The tables of those names; otherwise as `values`."""
    table = table_of(document, "tables")
    check_keys("tables.", table, required=tuple(names))
    found: dict[str, CostTable] = {}
    for key in names:
        where = f"tables.{key}"
        entry = entry_of(table, "tables", key, ("points", "size_unit", "time_unit", "source"))
        found[key] = cost_table(where, entry, points_max)
        unit = f"{entry['size_unit']}: {entry['time_unit']}"
        points = ", ".join(f"{size}: {cost}" for size, cost in entry["points"])
        origins[key] = origin_of(where, entry, (points, unit), stated)
    return found


def cost_table(where: str, entry: Mapping[str, Any], points_max: int) -> CostTable:
    """The table that an entry says; raises ConfigError."""
    for key, units in (("size_unit", SIZE_UNITS), ("time_unit", TIME_UNITS)):
        if not isinstance(entry[key], str) or entry[key] not in units:
            raise ConfigError(
                f"{where}.{key} = {entry[key]!r}: allowed is one of {', '.join(units)}"
            )
    points = entry["points"]
    if not isinstance(points, list) or not points:
        raise ConfigError(f"{where}.points must be a list of [size, time]")
    if len(points) > points_max:
        raise ConfigError(f"{where}.points: {len(points)} are too many; at most {points_max}")
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
