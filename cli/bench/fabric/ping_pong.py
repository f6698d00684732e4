"""Ping-pong of a C program's two ranks over size."""

from pagewire.cli.bench.fabric import c_program
from pagewire.cli.bench.group import (
    NUM_BYTES,
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Row,
    Rows,
)

_SIZES_BYTES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
_SIZES_QUICK_BYTES = (8, 65536)
_LATENCY_LIMITS = {8: 4.0}
"""Latency over the provider in plain MPICH's, by size."""
_BANDWIDTH_LIMITS = {4 << 20: 0.5}


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("ping-pong in C")
    sizes = _SIZES_QUICK_BYTES if conditions.quick else _SIZES_BYTES
    times = c_program.measure(conditions, 2, [("ping-pong", num_bytes) for num_bytes in sizes])
    return [_row(num_bytes, measured) for (_, num_bytes), measured in times.items()]


def _row(num_bytes: int, times: c_program.Times) -> Row:
    return {
        "num_bytes": num_bytes,
        "plain_s": times.plain_s,
        "fabric_s": times.fabric_s,
        "latency_ratio": times.fabric_s / times.plain_s,
        "virtual_s": times.virtual_s,
        "wall_per_virtual": times.fabric_s / times.virtual_s,
        "plain_bytes_per_s": num_bytes / times.plain_s,
        "fabric_bytes_per_s": num_bytes / times.fabric_s,
        "bandwidth_ratio": times.plain_s / times.fabric_s,
    }


def _goals(rows: Rows) -> list[Goal]:
    goals = []
    for row in rows:
        latency = _LATENCY_LIMITS.get(row["num_bytes"])
        bandwidth = _BANDWIDTH_LIMITS.get(row["num_bytes"])
        what = NUM_BYTES.text(row)
        if latency is not None:
            goals.append(Goal(f"{what} latency / plain MPICH", latency, row["latency_ratio"]))
        if bandwidth is not None:
            goals.append(
                Goal(
                    f"{what} bandwidth / plain MPICH",
                    bandwidth,
                    row["bandwidth_ratio"],
                    at_least=True,
                )
            )
    return goals


GROUP = Group(
    "ping-pong",
    (
        Layout(
            "C ping-pong of 2 ranks, one way",
            (
                NUM_BYTES,
                Column("plain_s", "plain\n(us)", 2, 1e6),
                Column("fabric_s", "fabric\n(us)", 2, 1e6),
                Column("latency_ratio", "fabric/\nplain"),
                Column("virtual_s", "virtual\n(us)", 2, 1e6),
                Column("wall_per_virtual", "wall/\nvirtual"),
                Column("plain_bytes_per_s", "plain\n(GB/s)", 3, 1e-9),
                Column("fabric_bytes_per_s", "fabric\n(GB/s)", 3, 1e-9),
                Column("bandwidth_ratio", "fabric/\nplain"),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick: 1,
)
