"""What two engines in one process emulate in a second: fault-free writes, without MPI.

As in the experiments, bursts go from one engine to the other at once, so this is the engines' and
their host's share of a ping-pong.
"""

import time

from pagewire.cli.checks.bench.group import (
    NUM_BYTES,
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Row,
    Rows,
)
from pagewire.lab.buffer import Buffer
from pagewire.lab.nodes import Nodes
from pagewire.run.settings.config import load
from pagewire.run.settings.platform import load as load_platform

MPACKETS_PER_S = 25.0
"""The least that will do, here and in a ping-pong, in millions."""

_BYTES, _BYTES_QUICK = 16 << 20, 1 << 20
_ROUNDS, _ROUNDS_QUICK = 25, 2
_GAP_NS = 20_000_000
"""Virtual rest between two writes."""


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("engine")
    num_bytes = _BYTES_QUICK if conditions.quick else _BYTES
    config = load([], environ=conditions.environ)
    nodes = Nodes(config, load_platform(config.run.platform))
    source, destination = Buffer(num_bytes), Buffer(num_bytes)
    source.touch()
    destination.touch()
    rounds = []
    at_ns = 0
    for _ in range(1 + (_ROUNDS_QUICK if conditions.quick else _ROUNDS)):
        row = _write(nodes, source, destination, at_ns)
        at_ns += round(row["virtual_s"] * 1e9) + _GAP_NS
        rounds.append(row)
    return [min(rounds[1:], key=lambda row: row["wall_s"])]  # the first one fills TLBs and pools


def _write(nodes: Nodes, source: Buffer, destination: Buffer, at_ns: int) -> Row:
    before = nodes.counters()
    start_s = time.perf_counter()
    nodes.write(source, destination, source.num_bytes, at_ns)
    virtual_s = (max(nodes.times().values()) - at_ns) * 1e-9
    wall_s = time.perf_counter() - start_s
    after = nodes.counters()
    return {
        "num_bytes": source.num_bytes,
        "wall_s": wall_s,
        "virtual_s": virtual_s,
        "wall_per_virtual": wall_s / virtual_s,
        "blocks_per_s": (after["blocks"] - before["blocks"]) / wall_s,
        "packets_per_s": (after["packets"] - before["packets"]) / wall_s,
    }


def _goals(rows: Rows) -> list[Goal]:
    return [
        Goal(
            "million packets/s, two engines without MPI",
            MPACKETS_PER_S,
            row["packets_per_s"] * 1e-6,
            at_least=True,
        )
        for row in rows
    ]


GROUP = Group(
    "engine",
    (
        Layout(
            "fault-free write of two engines, no MPI",
            (
                NUM_BYTES,
                Column("wall_s", "wall\n(ms)", 2, 1e3),
                Column("virtual_s", "virtual\n(ms)", 2, 1e3),
                Column("wall_per_virtual", "wall/\nvirtual"),
                Column("blocks_per_s", "blocks/s", 0),
                Column("packets_per_s", "packets/s", 0),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick, transport: 1,
)
