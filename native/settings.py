"""Settings: their declarations, with help, unit and limits.

A dataclass of settings has them in its fields' metadata; those of a run are made by
native/declared.py. The text form (command line, environment, TOML string) is read by `parse_value`
and written by `format_value`; both go through the same limits as a value given in Python. Values
with a unit of time or size take it in the text ("1ms", "16KiB"), so their name in files has no
suffix: field `timeout_ns` is the setting `timeout`. Needs the standard library alone.
"""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any, Protocol

TIME_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
SIZE_UNITS = {
    "B": 1,
    **dict.fromkeys(("KiB", "K", "k"), 1024),
    **dict.fromkeys(("MiB", "M"), 1024**2),
    **dict.fromkeys(("GiB", "G"), 1024**3),
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
}
BOOLEANS = {
    **dict.fromkeys(("true", "on", "yes", "1"), True),
    **dict.fromkeys(("false", "off", "no", "0"), False),
}

SUFFIXES = {"duration": "_ns", "size": "_bytes"}
"""What a field's name has behind the setting's, by kind."""

QUANTITY = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z/%]*)")
"""A number and its unit."""


class ConfigError(ValueError):
    """A setting, configuration file or platform file that cannot be used; the text says why."""


class Extensions(Protocol):
    """What a setting asks of the registry of its extensions: native/extension.py."""

    def names(self) -> tuple[str, ...]:
        """Every name that the setting takes."""

    def accepts(self, text: str) -> bool:
        """Is this one of the names, or of the form module:Class?"""

    def help(self) -> str:
        """What the names mean."""


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """What is known of one setting, independent of its value."""

    section: str
    field: str
    kind: str
    """bool, int, float, text, path, duration or size."""
    default: Any
    help: str
    unit: str = ""
    """Unit of the value in Python; empty when it has none."""
    values: tuple[str, ...] | None = None
    """The only texts that the setting takes; None when any will do, or `extensions` tell."""
    extensions: Extensions | None = None
    """Registry of classes: the setting takes their names, or module:Class."""
    minimum: float | None = None
    maximum: float | None = None
    none_allowed: bool = False
    power_of_two: bool = False

    @property
    def name(self) -> str:
        return f"{self.section}.{setting_name(self.field, self.kind)}"

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The names that the setting takes; None when any value will do."""
        return self.values if self.extensions is None else self.extensions.names()

    @property
    def environment(self) -> str:
        return "PAGEWIRE_" + self.name.replace(".", "_").upper()


def setting_name(field: str, kind: str) -> str:
    """Name of a field in files: without the suffix when the unit is part of the value."""
    return field.removesuffix(SUFFIXES.get(kind, ""))


def declarations(owner: type[Any]) -> list[Declaration]:
    """All settings of a configuration dataclass, in the order of its fields."""
    fields = dataclasses.fields(owner)
    return [field.metadata["setting"] for field in fields if "setting" in field.metadata]


def validate(config: Any) -> None:
    """Check every setting of a dataclass instance; for use in `__post_init__`."""
    for declaration in declarations(type(config)):
        check_value(declaration, getattr(config, declaration.field))


def suggestion(given: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` when something close is known, else nothing."""
    import difflib  # takes long to load

    close = difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def allowed(declaration: Declaration) -> str:
    """One phrase that says which values a setting takes."""
    none = " or none" if declaration.none_allowed else ""
    if declaration.choices is not None:
        own = ", or a class of yours as module:Class" if declaration.extensions else ""
        return f"one of {', '.join(declaration.choices)}{none}{own}"
    if declaration.kind == "bool":
        return "true or false"
    if declaration.kind == "path":
        return "a path, or empty"
    if declaration.kind == "text":
        return "a text"
    limits = ""
    low, high = declaration.minimum, declaration.maximum
    if low is not None and high is not None:
        limits = f" from {_show(declaration, low)} to {_show(declaration, high)}"
    elif low is not None:
        limits = f" of at least {_show(declaration, low)}"
    elif high is not None:
        limits = f" of at most {_show(declaration, high)}"
    if declaration.kind == "duration":
        return f"a duration with unit ({', '.join(TIME_UNITS)}){limits}{none}"
    if declaration.kind == "size":
        return f"a size in bytes or with unit ({', '.join(SIZE_UNITS)}){limits}{none}"
    number = "a whole number" if declaration.kind == "int" else "a number"
    if declaration.power_of_two:
        number = "a power of two"
    return f"{number}{limits}{none}"


def refuse(declaration: Declaration, value: object, reason: str = "") -> ConfigError:
    """The error for a bad value, which names setting and value and says what is allowed."""
    why = f"{reason}; " if reason else ""
    close = ""
    if declaration.choices is not None and isinstance(value, str):
        close = suggestion(value, declaration.choices)
    return ConfigError(
        f"{declaration.name} = {_quoted(value)}: {why}allowed is {allowed(declaration)}{close}"
    )


def check_value(declaration: Declaration, value: object) -> None:
    """Refuse a value of the wrong type or outside of the setting's limits."""
    if value is None:
        if not declaration.none_allowed:
            raise refuse(declaration, "none")
        return
    if declaration.kind == "bool":
        fits = isinstance(value, bool)
    elif declaration.kind in ("text", "path"):
        fits = isinstance(value, str) and _is_choice(declaration, value)
    else:
        fits = _is_number(declaration, value)
    if not fits:
        raise refuse(declaration, value)
    if isinstance(value, int | float) and not _is_within(declaration, value):
        raise refuse(declaration, format_value(declaration, value))


def _is_choice(declaration: Declaration, text: str) -> bool:
    if declaration.extensions is not None:
        return declaration.extensions.accepts(text)
    return declaration.values is None or text in declaration.values


def _is_number(declaration: Declaration, value: object) -> bool:
    """A finite number; of kinds other than float a whole one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if declaration.kind == "float" else isinstance(value, int)


def _is_within(declaration: Declaration, value: float) -> bool:
    if declaration.minimum is not None and value < declaration.minimum:
        return False
    if declaration.maximum is not None and value > declaration.maximum:
        return False
    return not declaration.power_of_two or int(value) & (int(value) - 1) == 0


def parse_value(declaration: Declaration, raw: object) -> Any:
    """Value of a setting from a text or from what TOML gives; raises ConfigError.

    A duration needs its unit; a size without one is in bytes.
    """
    value = _parse_text(declaration, raw.strip()) if isinstance(raw, str) else raw
    if declaration.kind == "duration" and not isinstance(raw, str):
        raise refuse(declaration, raw, "the unit is missing")
    if declaration.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    check_value(declaration, value)
    return value


def _parse_text(declaration: Declaration, text: str) -> Any:
    if declaration.none_allowed and text.lower() == "none":
        return None
    kind = declaration.kind
    if kind in ("text", "path"):
        return text
    if kind == "bool":
        if text.lower() not in BOOLEANS:
            raise refuse(declaration, text)
        return BOOLEANS[text.lower()]
    match = QUANTITY.fullmatch(text)
    if match is None:
        raise refuse(declaration, text)
    number, unit = match.groups()
    if kind in ("duration", "size"):
        return _parse_quantity(declaration, text, number, unit)
    if unit:
        raise refuse(declaration, text, f"unit '{unit}' is not for this setting")
    if kind == "float":
        return float(number)
    try:
        return int(number)
    except ValueError:
        raise refuse(declaration, text) from None


def _parse_quantity(declaration: Declaration, text: str, number: str, unit: str) -> int:
    units = TIME_UNITS if declaration.kind == "duration" else SIZE_UNITS
    if not unit:
        if declaration.kind == "duration":
            raise refuse(declaration, text, "the unit is missing")
        unit = "B"
    if unit not in units:
        raise refuse(declaration, text, f"unknown unit '{unit}'")
    value = float(number) * units[unit]
    # The tolerance admits 1.1us, which binary floating point makes 1100.0000000000002 ns.
    if not math.isfinite(value) or abs(value - round(value)) > 1e-6:
        raise refuse(declaration, text, f"not a whole number of {declaration.unit}")
    return round(value)


def format_value(declaration: Declaration, value: object) -> str:
    """Text of a value that `parse_value` reads back to the same value."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if declaration.kind in ("duration", "size") and isinstance(value, int):
        return _show(declaration, value)
    return str(value)


def _show(declaration: Declaration, value: float) -> str:
    if declaration.kind == "duration":
        units = ("s", "ms", "us", "ns")
        table = TIME_UNITS
    elif declaration.kind == "size":
        units = ("GiB", "MiB", "KiB", "B")
        table = SIZE_UNITS
    else:
        return str(value)
    for unit in units:
        if value and value % table[unit] == 0:
            return f"{int(value) // table[unit]}{unit}"
    return f"0{units[-1]}"


def _quoted(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)
