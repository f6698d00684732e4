"""Schemas of the JSON files that pagewire writes: JSON Schema 2020-12, a file each in schemas/.

Counters and times of the report are those of run/report/counters.py, filled in when a schema is
read. A document names its own as `$schema`: urn:pagewire:schema:NAME:VERSION. The version rises
when a key changes its meaning or goes; a new key leaves it.
"""

import json
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pagewire.cli.kit.lists import print_list
from pagewire.native.settings import ConfigError, suggestion
from pagewire.run.report.counters import COUNTER_GROUPS, TIME_KEYS

_FOLDER = pathlib.Path(__file__).resolve().parent / "schemas"


def names() -> list[str]:
    """All schemas."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    """A schema with those that it refers to in it; raises ConfigError."""
    if name not in names():
        raise ConfigError(
            f"unknown schema '{name}'{suggestion(name, names())}; allowed is one of "
            f"{', '.join(names())}"
        )
    schema = _read(name)
    for other in names():
        identity = str(_read(other)["$id"])
        if other != name and any(text.startswith(identity) for text in _references(schema)):
            # Within another schema one keeps its own name, by which it is found.
            schema.setdefault("$defs", {})[other] = _read(other)
    return schema


def show(name: str) -> int:
    """Print one, or without a name what there is."""
    if name:
        json.dump(load(name), sys.stdout, indent=2, ensure_ascii=False)
        print()
        return 0
    print_list({each: str(_read(each)["description"]) for each in names()})
    return 0


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    if name == "report":
        parts = document["$defs"]
        _put_first(
            parts["counters"],
            {
                key: f"{group}: {label.strip()}"
                for group, labels in COUNTER_GROUPS.items()
                for key, label in labels.items()
            },
        )
        times = {key: f"{label}, virtual time (ns)" for key, label in TIME_KEYS.items()}
        _put_first(parts["times"], times)
    return document


def _put_first(owner: dict[str, Any], counts: Mapping[str, str]) -> None:
    """Give an object of a schema these numbers, by their descriptions, before what it has."""
    made = {
        key: {"type": "integer", "minimum": 0, "description": text} for key, text in counts.items()
    }
    owner["properties"] = {**made, **owner.get("properties", {})}
    owner["required"] = [*made, *owner.get("required", [])]


def _references(value: Any) -> Iterator[str]:
    """Every $ref in a schema."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield str(value["$ref"])
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)
