"""Writes and reads by the RDMA library beside put and get of an MPI window."""

from pagewire.cli.checks.bench.group import (
    NUM_BYTES,
    Column,
    Conditions,
    Group,
    Layout,
    Rows,
    measure_on_ranks,
)

_SPEC = {"sizes_bytes": (8, 65536, 4 << 20), "num_rounds": 5, "round_s": 0.05}
_SPEC_QUICK = {"sizes_bytes": (8,), "num_rounds": 1, "round_s": 0.001}


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("one-sided")
    return measure_on_ranks(conditions, 2, "one_sided", _SPEC_QUICK if conditions.quick else _SPEC)


GROUP = Group(
    "one-sided",
    (
        Layout(
            "one-sided of 2 ranks: MPI window, RDMA library",
            (
                Column("operation", "operation"),
                NUM_BYTES,
                Column("plain_s", "window\n(us)", 2, 1e6),
                Column("rdma_s", "library\n(us)", 2, 1e6),
                Column("ratio", "library/\nwindow"),
                Column("virtual_s", "virtual\n(us)", 2, 1e6),
                Column("wall_per_virtual", "wall/\nvirtual"),
            ),
        ),
    ),
    _measure,
    lambda rows: [],
    lambda quick, transport: 1,
)
