"""Ping-pong of two ranks over size: latency, bandwidth, wall against virtual time, engine."""

from pagewire.cli.bench.engine import MPACKETS_PER_S
from pagewire.cli.bench.group import (
    NUM_BYTES,
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Rows,
    measure_on_ranks,
)
from pagewire.cli.experiments.result import size_text

_SIZES_BYTES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
_SPEC = {"sizes_bytes": _SIZES_BYTES, "num_rounds": 7, "round_s": 0.06}
_SPEC_QUICK = {"sizes_bytes": (8, 65536), "num_rounds": 1, "round_s": 0.001}

_LATENCY_LIMITS = {8: 2.5, 512: 5.0, 4096: 5.0, 16384: 3.0, 65536: 2.5}
"""Latency of the NI over plain, by size."""
_LARGEST_BYTES = 4 << 20
_LEAST_BANDWIDTH = 0.6
"""Of plain's, at the largest size."""
_FAULT_FREE_FROM_BYTES = 65536
"""From this size on a fault-free transfer should take less wall than virtual time."""


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("ping-pong")
    return measure_on_ranks(conditions, 2, "ping_pong", _SPEC_QUICK if conditions.quick else _SPEC)


def _goals(rows: Rows) -> list[Goal]:
    goals = [
        Goal(
            f"{size_text(row['num_bytes'])} latency / plain",
            _LATENCY_LIMITS[row["num_bytes"]],
            row["latency_ratio"],
        )
        for row in rows
        if row["num_bytes"] in _LATENCY_LIMITS
    ]
    large = [row["wall_per_virtual"] for row in rows if row["num_bytes"] >= _FAULT_FREE_FROM_BYTES]
    goals.append(Goal("wall / virtual, fault-free from 64 KiB", 1.0, max(large)))
    for row in rows:
        if row["num_bytes"] == _LARGEST_BYTES:
            goals += [
                Goal(
                    "4 MiB bandwidth / plain",
                    _LEAST_BANDWIDTH,
                    row["bandwidth_ratio"],
                    at_least=True,
                ),
                Goal(
                    "million packets/s, ping-pong of 4 MiB",
                    MPACKETS_PER_S,
                    row["packets_per_s"] * 1e-6,
                    at_least=True,
                ),
            ]
    return goals


GROUP = Group(
    "ping-pong",
    (
        Layout(
            "ping-pong of 2 ranks, one way: latency",
            (
                NUM_BYTES,
                Column("plain_s", "plain\n(us)", 2, 1e6),
                Column("facade_s", "facade\n(us)", 2, 1e6),
                Column("latency_ratio", "facade/\nplain"),
                Column("virtual_s", "virtual\n(us)", 2, 1e6),
                Column("wall_per_virtual", "wall/\nvirtual"),
            ),
        ),
        Layout(
            "ping-pong of 2 ranks: bandwidth and engine",
            (
                NUM_BYTES,
                Column("plain_bytes_per_s", "plain\n(GB/s)", 3, 1e-9),
                Column("facade_bytes_per_s", "facade\n(GB/s)", 3, 1e-9),
                Column("bandwidth_ratio", "facade/\nplain"),
                Column("blocks_per_s", "blocks/s", 0),
                Column("packets_per_s", "packets/s", 0),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick: 1,
)
