"""Writes the node file: what command line, environment, file and platform come to, for a process
without Python.

One line `section.name = value` for each field of struct pw_costs, pw_settings and pw_node_run, each
cost table and impairment site, and each setting that is not default. transport/node/config_file.h
reads it and refuses a file that differs in any key. Numbers are whole ones in base units, except
for floats; in texts a backslash and a line's end are escaped. `impairments.SITE` is the plan of all
ranks, `impairments.SITE.RANK` that of a rank for which the planner chose another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pagewire.native import ffi, lib
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.native.output import write_file
from pagewire.native.settings import ConfigError
from pagewire.transport.memory.pages import TABLES
from pagewire.transport.settings import impairment_planners
from pagewire.transport.settings.config import REGISTRY, Config, load
from pagewire.transport.settings.platform import Platform

POINTS_MAX = int(lib.PW_COST_POINTS_MAX)
CHANGED_MAX = int(lib.PW_CONFIG_CHANGED_MAX)
_ESCAPED = {"n": "\n", "\\": "\\"}
FILE_MAX_BYTES = int(lib.PW_CONFIG_FILE_MAX_BYTES)


def write(
    path: str, config: Config, platform: Platform, *, num_ranks: int, folders: Sequence[str] = ()
) -> None:
    """Write the node file of a run; ConfigError as `content`, OutputError when it cannot be."""
    write_file(path, content(config, platform, num_ranks=num_ranks, folders=folders))


def read_settings(path: str, assignments: Sequence[str] = ()) -> tuple[Config, int]:
    """The settings that a node file was written from, and its number of ranks.

    assignments: as of `load`, on top. Raises ConfigError. The environment plays no part.
    """
    texts: dict[str, str] = {}
    num_ranks = 0
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for line in file:
                key, _, value = line.removesuffix("\n").partition(" = ")
                if key.startswith("changed."):
                    unescaped = re.sub(r"\\(.)", lambda found: _ESCAPED[found[1]], value)
                    texts[key.removeprefix("changed.")] = unescaped
                elif key == "run.num_nodes":
                    num_ranks = int(value)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"node file '{path}' cannot be read: {error}") from None
    given = [f"{name}={text}" for name, text in texts.items()]
    return load([*given, *assignments], environ={}), num_ranks


def content(
    config: Config, platform: Platform, *, num_ranks: int, folders: Sequence[str] = ()
) -> bytes:
    """The bytes of a node file; ConfigError names what a node without Python cannot be told."""
    lines = [b"format = 1"]
    for key, value in _entries(config, platform, num_ranks, folders):
        lines.append(f"{key} = ".encode() + _value(key, value))
    result = b"\n".join(lines) + b"\n"
    if len(result) > FILE_MAX_BYTES:
        raise ConfigError(
            f"the node file of {num_ranks} ranks has {len(result)} bytes, allowed are "
            f"{FILE_MAX_BYTES}: use fewer ranks or a planner that treats more of them alike"
        )
    return result


def _entries(
    config: Config, platform: Platform, num_ranks: int, folders: Sequence[str]
) -> Iterator[tuple[str, float | str]]:
    """Keys and values in the file's order."""
    for field, number in platform.costs.as_dict().items():
        yield f"costs.{field}", number
    for field, number in config.engine_settings().items():
        yield f"settings.{field}", number
    for field, kind in ffi.typeof("pw_node_run").fields:
        yield f"run.{field}", _run_value(config, field, kind.type, num_ranks)
    for name in TABLES:
        yield f"tables.{name}", _table(name, platform)
    yield from _impairments(config, num_ranks, folders)
    changed = config.not_default()
    if len(changed) > CHANGED_MAX:
        raise ConfigError(
            f"{len(changed)} settings are not default, allowed are {CHANGED_MAX}: raise "
            "PW_CONFIG_CHANGED_MAX"
        )
    for name, text in changed.items():
        yield f"changed.{name}", text


def _run_value(config: Config, field: str, kind: Any, num_ranks: int) -> float | str:
    """Value of a field of struct pw_node_run; those of the section `run` bear its names."""
    if field == "num_nodes":
        return num_ranks
    if field == "scheduling":
        return _fitting("firmware.scheduling", config.firmware.scheduling, kind)
    name = next(
        (each.name for each in REGISTRY.values() if (each.section, each.field) == ("run", field)),
        None,
    )
    if name is None:
        raise ConfigError(f"struct pw_node_run has the field {field}, section run has no such one")
    value = config.value(name)
    if kind.kind == "array":
        return _fitting(name, value, kind)
    return value if isinstance(value, float) else REGISTRY[name].encode(value)


def _fitting(name: str, text: str, kind: Any) -> str:
    num_bytes = len(_bytes(name, text))
    if num_bytes >= kind.length:
        raise ConfigError(
            f"{name} = '{text}': {num_bytes} bytes long, allowed are {kind.length - 1}"
        )
    return text


def _table(name: str, platform: Platform) -> str:
    table = platform.table(name)
    points = list(zip(table.sizes_bytes, table.costs_ns, strict=True))
    if len(points) > POINTS_MAX:
        raise ConfigError(
            f"platform {platform.name}: tables.{name} has {len(points)} points, "
            f"allowed are {POINTS_MAX}"
        )
    return " ".join(f"{num_bytes}:{cost_ns}" for num_bytes, cost_ns in points)


def _impairments(
    config: Config, num_ranks: int, folders: Iterable[str]
) -> Iterator[tuple[str, str]]:
    everybody = _sites(config.impairments)
    yield from ((f"impairments.{name}", text) for name, text in everybody.items())
    for rank in range(num_ranks):
        planned = impairment_planners.plan(
            rank=rank,
            num_ranks=num_ranks,
            configured=config.impairments,
            folders=tuple(folders),
        )
        for name, text in _sites(planned).items():
            if text != everybody[name]:
                yield f"impairments.{name}.{rank}", text


def _sites(impairments: ImpairmentsConfig) -> dict[str, str]:
    amounts_ns = impairments.amounts_ns()
    return {
        name: f"{site.num} {site.denom} {site.seed} {site.limit} {amounts_ns.get(name, 0)}"
        for name, site in impairments.sites().items()
    }


def _value(key: str, value: float | str) -> bytes:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ConfigError(f"{key} = {value}: allowed is a whole number from -2^63 to 2^63 - 1")
    if isinstance(value, str):
        return _bytes(key, value).replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    return repr(value).encode()


def _bytes(name: str, text: str) -> bytes:
    """As the operating system has it: a path may be any bytes but 0."""
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} = {text!r}: cannot be written ({error.reason})") from None
    if b"\0" in encoded:
        raise ConfigError(f"{name} = {text!r}: holds a zero byte")
    return encoded
