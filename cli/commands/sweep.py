"""Axes of `pagewire compare --sweep`: settings with several values each, whose product is run."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

from pagewire.native.settings import ConfigError, parse_value
from pagewire.run.settings import config

BY_OPTION: Mapping[str, str] = {"run.memory": "--memory", "run.policy": "--policy"}
"""Settings that have an option of lists: a sweep of one is the option's."""

_NOT_SWEPT: Mapping[str, str] = {
    "run.translation": "name the units in --memory, e.g. --memory part,mini,static",
    "run.compute": "one comparison has one --compute",
    "run.compute_record": "--compute replay records and replays",
    "run.compute_replay": "--compute replay records and replays",
    "run.hash_received": "every run of a comparison is hashed",
    "run.quiet": "--reports prints each run's report",
    "run.json": "--json has all runs",
    "run.html": "--html has all runs",
    "run.trace": "--trace has all runs",
}
"""Settings that a comparison chooses for its runs, and what to do instead."""

Point = tuple[tuple[str, str], ...]
"""A value of each axis, as typed: setting and text, in the order of the axes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """A setting and the values that it takes in turn."""

    name: str
    texts: tuple[str, ...]
    """As typed, with their units."""


Parse = Callable[[str, str], object]
"""The value of a setting's text; raises ConfigError."""


def parse_setting(name: str, text: str) -> object:
    """Of a setting as declared."""
    return parse_value(config.lookup(name), text)


def parse(words: Sequence[str], parse_text: Parse = parse_setting) -> list[Axis]:
    """The axes of `NAME=VALUE,VALUE,...` texts; raises ConfigError."""
    axes: list[Axis] = []
    for word in words:
        axis = _parse_one(word, parse_text)
        if axis.name in (each.name for each in axes):
            raise ConfigError(f"--sweep {axis.name} is given twice: put all its values into one")
        axes.append(axis)
    return axes


def _parse_one(word: str, parse_text: Parse) -> Axis:
    before, equals, rest = word.partition("=")
    if not equals:
        raise ConfigError(f"--sweep {word}: expected section.name=VALUE,VALUE,...")
    name = before.strip()
    if name in _NOT_SWEPT:
        raise ConfigError(f"--sweep {word}: {_NOT_SWEPT[name]}")
    texts = [each.strip() for each in rest.split(",")]
    if not all(texts):
        raise ConfigError(
            f"--sweep {word}: a value is empty; give values separated by commas, each "
            "of which the setting takes"
        )
    seen: dict[object, str] = {}
    for text in texts:
        value = parse_text(name, text)
        if value in seen:
            same = "" if seen[value] == text else f", which is {seen[value]}"
            raise ConfigError(f"--sweep {word}: '{text}'{same} stands there twice; leave one out")
        seen[value] = text
    return Axis(name, tuple(texts))


def points(axes: Sequence[Axis]) -> list[Point]:
    """The product, the last axis fastest; of no axes the one empty point."""
    names = [axis.name for axis in axes]
    return [
        tuple(zip(names, texts, strict=True))
        for texts in itertools.product(*(axis.texts for axis in axes))
    ]


def label(point: Point | Mapping[str, str]) -> str:
    """As one text."""
    pairs = point.items() if isinstance(point, Mapping) else point
    return ", ".join(f"{name}={text}" for name, text in pairs)
