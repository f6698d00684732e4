"""Ping-pong of two ranks over size: latency, bandwidth, wall against virtual time, engine."""

from pagewire.cli.checks.bench.engine import MPACKETS_PER_S
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
from pagewire.cli.checks.bench.pairs import BOTH, measure
from pagewire.cli.checks.bench.times import Times
from pagewire.cli.kit.result import size_text

_SIZES_BYTES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
_SIZES_QUICK_BYTES = (8, 65536)

_LATENCY_LIMITS = {
    "facade": {8: 2.5, 512: 5.0, 4096: 5.0, 16384: 3.0, 65536: 2.5},
    "fabric": {8: 4.0},
}
"""Latency of the NI over plain, by size."""
_LARGEST_BYTES = 4 << 20
_LEAST_BANDWIDTH = {"facade": 0.6, "fabric": 0.5}
"""Of plain's, at the largest size."""
_FAULT_FREE_FROM_BYTES = 65536
"""From this size on a fault-free transfer should take less wall than virtual time."""


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("ping-pong")
    sizes = _SIZES_QUICK_BYTES if conditions.quick else _SIZES_BYTES
    works = [("ping-pong", num_bytes) for num_bytes in sizes]
    measured = measure(conditions, 2, works, 7, 0.06)
    return [_row(conditions.transport, size, each) for (_, size), each in measured.items()]


def _row(transport: str, num_bytes: int, times: Times) -> Row:
    row = {
        "transport": transport,
        "num_bytes": num_bytes,
        "plain_s": times.plain_s,
        f"{transport}_s": times.ni_s,
        "virtual_s": times.virtual_s,
        "latency_ratio": times.ni_s / times.plain_s,
        "bandwidth_ratio": times.plain_s / times.ni_s,
        "wall_per_virtual": times.ni_s / times.virtual_s,
        "plain_bytes_per_s": num_bytes / times.plain_s,
        f"{transport}_bytes_per_s": num_bytes / times.ni_s,
    }
    if transport == "facade":
        row |= {"blocks_per_s": times.blocks_per_s, "packets_per_s": times.packets_per_s}
    return row


def _goals(rows: Rows) -> list[Goal]:
    goals = []
    for row in rows:
        limit = _LATENCY_LIMITS[row["transport"]].get(row["num_bytes"])
        if limit is not None:
            what = f"{size_text(row['num_bytes'])} latency / plain"
            goals.append(Goal(what, limit, row["latency_ratio"]))
    of_facade = [row for row in rows if row["transport"] == "facade"]
    large = [row for row in of_facade if row["num_bytes"] >= _FAULT_FREE_FROM_BYTES]
    if large:
        slowest = max(row["wall_per_virtual"] for row in large)
        goals.append(Goal("wall / virtual, fault-free from 64 KiB", 1.0, slowest))
    for row in rows:
        if row["num_bytes"] == _LARGEST_BYTES:
            least = _LEAST_BANDWIDTH[row["transport"]]
            ratio = row["bandwidth_ratio"]
            goals.append(Goal("4 MiB bandwidth / plain", least, ratio, at_least=True))
            if row["transport"] == "facade":
                what, rate = "million packets/s, ping-pong of 4 MiB", row["packets_per_s"] * 1e-6
                goals.append(Goal(what, MPACKETS_PER_S, rate, at_least=True))
    return goals


GROUP = Group(
    "ping-pong",
    (
        Layout(
            "ping-pong of 2 ranks, one way: latency",
            (
                NUM_BYTES,
                Column("plain_s", "plain\n(us)", 2, 1e6),
                Column("{}_s", "{}\n(us)", 2, 1e6),
                Column("latency_ratio", "{}/\nplain"),
                Column("virtual_s", "virtual\n(us)", 2, 1e6),
                Column("wall_per_virtual", "wall/\nvirtual"),
            ),
        ),
        Layout(
            "ping-pong of 2 ranks: bandwidth and engine",
            (
                NUM_BYTES,
                Column("plain_bytes_per_s", "plain\n(GB/s)", 3, 1e-9),
                Column("{}_bytes_per_s", "{}\n(GB/s)", 3, 1e-9),
                Column("bandwidth_ratio", "{}/\nplain"),
                Column("blocks_per_s", "blocks/s", 0, only="facade"),
                Column("packets_per_s", "packets/s", 0, only="facade"),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick, transport: 1,
    BOTH,
)
