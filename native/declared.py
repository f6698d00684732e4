"""Settings as the engine declares them: node/settings/setting_rows.c, read once a process.

`section` makes a class the frozen dataclass of the rows of a section.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pagewire.native import ffi, lib
from pagewire.native.settings import (
    SUFFIXES,
    Declaration,
    Extensions,
    parse_value,
    validate,
)

T = TypeVar("T", bound="Section")

_KINDS: Mapping[int, str] = {
    lib.PW_KIND_NUMBER: "int",
    lib.PW_KIND_DURATION: "duration",
    lib.PW_KIND_SIZE: "size",
    lib.PW_KIND_BOOL: "bool",
    lib.PW_KIND_CHOICE: "text",
    lib.PW_KIND_FRACTION: "float",
    lib.PW_KIND_FACTOR: "float",
    lib.PW_KIND_SITE: "text",
    lib.PW_KIND_TEXT: "text",
    lib.PW_KIND_PATH: "path",
    lib.PW_KIND_STRATEGY: "text",
    lib.PW_KIND_PLATFORM: "text",
}
"""What Python calls a kind; costs and their tables, which the platform gives, have none."""
_MILLION = 1_000_000


def text(pointer: Any) -> str:
    """What a text in C says; empty for NULL."""
    return "" if pointer == ffi.NULL else str(ffi.string(pointer).decode(errors="replace"))


@functools.cache
def rows() -> Mapping[str, Any]:
    """The pw_setting_row of every setting by name, in the table's order."""
    found: dict[str, Any] = {}
    idx = 0
    while row := lib.pw_setting_row_at(idx):
        if row.initial:
            found[text(row.name)] = row
        idx += 1
    return found


def choices(name: str) -> Iterator[tuple[str, int, str]]:
    """Text, number and meaning of each choice of a setting; meanings where it takes classes."""
    row = rows()[name]
    idx = 0
    while row.choices and row.choices[idx].text:
        meaning = text(row.meanings[idx]) if row.meanings else ""
        yield text(row.choices[idx].text), int(row.choices[idx].number), meaning
        idx += 1


class Section:
    """The settings of a section of the table, a field each, which stay as they are made.

    What a dataclass has, but not compiled for each class: that would be a tenth of a rank's start.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, **values: Any) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, values.pop(field.name, field.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")
        self.__post_init__()

    def __post_init__(self) -> None:
        validate(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"{type(self).__name__}.{name} is not to be changed")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"{type(self).__name__}.{name} is not to be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        named = zip((field.name for field in dataclasses.fields(self)), self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in named)})"

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))


def section(name: str, extensions: Iterable[Any] = ()) -> Callable[[type[T]], type[T]]:
    """Make a class the frozen dataclass of a section of settings, which checks each value.

    extensions: the registries of those of its settings that take a class.
    """
    registries = {each.setting: each for each in extensions}

    def make(cls: type[T]) -> type[T]:
        fields = dict(_field(row, registries) for row in _section_rows(name))
        cls.__annotations__ = dict.fromkeys(fields, Any)
        for field, made in fields.items():
            setattr(cls, field, made)
        return dataclasses.dataclass(init=False, repr=False, eq=False)(cls)

    return make


def _section_rows(section: str) -> list[Any]:
    return [row for name, row in rows().items() if name.startswith(f"{section}.")]


def _field(row: Any, registries: Mapping[str, Extensions]) -> tuple[str, Any]:
    """The field of a row: its name, with its unit, and dataclasses' field."""
    name, kind = text(row.name), _KINDS[row.kind]
    own_section, _, key = name.partition(".")
    limits: dict[str, float] = {}
    if kind in ("int", "duration", "size"):
        limits = {"minimum": int(row.min), "maximum": int(row.max)}
    elif kind == "float":
        limits = {"minimum": row.min / _MILLION, "maximum": row.max / _MILLION}
    only_choices = row.kind == lib.PW_KIND_CHOICE and not row.takes_class
    registry = registries[name] if row.takes_class else None
    made = Declaration(
        section=own_section,
        field=key + SUFFIXES.get(kind, ""),
        kind=kind,
        default=text(row.initial),
        help=text(row.help) + (f": {registry.help()}" if registry else ""),
        unit={"duration": "ns", "size": "bytes"}.get(kind, text(row.unit)),
        values=tuple(each for each, _, _ in choices(name)) if only_choices else None,
        extensions=registry,
        none_allowed=bool(row.takes_none),
        power_of_two=bool(row.power_of_two),
        **limits,
    )
    if kind not in ("text", "path"):
        made = dataclasses.replace(made, default=parse_value(made, made.default))
    return made.field, dataclasses.field(default=made.default, metadata={"setting": made})
