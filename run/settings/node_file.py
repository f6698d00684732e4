"""Writes the node file: what command line, environment, file and platform come to, for a process
without Python.

A list of setting texts, those that are not default and every cost and cost table of the platform;
node/settings/config.h says how it is read. A planner may give a rank impairments of its own: lines
for that rank alone.
"""

import os
import re
from collections.abc import Iterator, Sequence

from pagewire.native import declared, ffi, lib
from pagewire.native.output import write_file
from pagewire.native.settings import ConfigError, declarations, format_value
from pagewire.run.settings import impairment_planners
from pagewire.run.settings.config import Config, encoded, load
from pagewire.run.settings.platform import Platform

FILE_MAX_BYTES = int(lib.PW_CONFIG_FILE_MAX_BYTES)
_ESCAPED = {b"n": b"\n", b"\\": b"\\"}


def write(
    path: str, config: Config, platform: Platform, *, num_ranks: int, folders: Sequence[str] = ()
) -> None:
    """Write the node file of a run; ConfigError as `content`, OutputError when it cannot be."""
    write_file(path, content(config, platform, num_ranks=num_ranks, folders=folders))


def check_network(config: Config, platform: Platform, num_ranks: int) -> None:
    """Refuse a network in which ranks that are processes cannot stand: ConfigError."""
    settings = config.node_config()
    settings.costs.nodes_per_qfdb = platform.costs.nodes_per_qfdb
    made, reason = ffi.new("pw_topology **"), ffi.new("pw_sentence *")
    if lib.pw_node_config_topology_apart(settings, num_ranks, made, reason) < 0:
        raise ConfigError(declared.text(reason.text))
    lib.pw_topology_destroy(made[0])


def content(
    config: Config, platform: Platform, *, num_ranks: int, folders: Sequence[str] = ()
) -> bytes:
    """The bytes of a node file; ConfigError names what a node without Python cannot be told."""
    lines = [b"format=2", b"nodes=%d" % num_ranks]
    lines += [_escape(each) for each in texts(config, platform)]
    lines += [
        b"@%d %s" % (rank, _escape(each))
        for rank in range(num_ranks)
        for each in _own_plan(config, rank, num_ranks, folders)
    ]
    result = b"\n".join([*lines, b"end\n"])
    if len(result) > FILE_MAX_BYTES:
        raise ConfigError(
            f"the node file of {num_ranks} ranks has {len(result)} bytes, allowed are "
            f"{FILE_MAX_BYTES}: use fewer ranks or a planner that treats more of them alike"
        )
    return result


def texts(config: Config, platform: Platform) -> list[bytes]:
    """The settings that are not default, and the platform's costs, as pw_node_config_take takes
    them."""
    made = [
        f"{name}=".encode() + encoded(name, text) for name, text in config.not_default().items()
    ]
    made += [f"costs.{name}={cost}".encode() for name, cost in platform.costs.as_dict().items()]
    for name, table in platform.tables.items():
        points = zip(table.sizes_bytes, table.costs_ns, strict=True)
        line = " ".join(f"{num_bytes}:{cost_ns}" for num_bytes, cost_ns in points)
        made.append(f"tables.{name}={line}".encode())
    return made


def read_settings(path: str, assignments: Sequence[str] = ()) -> tuple[Config, int]:
    """The settings that a node file was written from, and its number of ranks.

    assignments: as of `load`, on top. Raises ConfigError. The environment plays no part.
    """
    given: list[str] = []
    num_ranks = 0
    try:
        with open(path, "rb") as file:
            for line in file.read().split(b"\n"):
                name, _, value = line.partition(b"=")
                if name == b"nodes":
                    num_ranks = int(value)
                elif b"." in name and not name.startswith((b"costs.", b"tables.", b"@")):
                    text = re.sub(rb"\\(.)", lambda found: _ESCAPED[found[1]], line)
                    given.append(os.fsdecode(text))
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"node file '{path}' cannot be read: {error}") from None
    return load([*given, *assignments], environ={}), num_ranks


def _own_plan(config: Config, rank: int, num_ranks: int, folders: Sequence[str]) -> Iterator[bytes]:
    """The impairments that the planner chose for a rank, where they differ from those of all."""
    everybody = config.impairments
    planned = impairment_planners.plan(
        rank=rank, num_ranks=num_ranks, configured=everybody, folders=tuple(folders)
    )
    for each in declarations(type(everybody)):
        value = getattr(planned, each.field)
        if value != getattr(everybody, each.field) and each.field != "planner":
            yield f"{each.name}={format_value(each, value)}".encode()


def _escape(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
