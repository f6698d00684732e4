"""Collectives that move data, at several numbers of ranks.

In C their algorithms are MPICH's own, of messages over the NI.
"""

from pagewire.cli.checks.bench.group import NUM_BYTES, Column, Conditions, Goal, Group, Layout, Rows
from pagewire.cli.checks.bench.pairs import BOTH, measure
from pagewire.cli.kit.result import size_text

_RANKS, _RANKS_QUICK = {"facade": (2, 4, 8), "fabric": (2, 4)}, (2,)
_SIZES_BYTES, _SIZES_QUICK_BYTES = (8, 65536, 1 << 20), (8,)
_OPERATIONS = ("Allreduce", "Bcast", "Alltoall")

_LIMITS = {
    "facade": {("Allreduce", 4, 8): 4.0, ("Allreduce", 4, 1 << 20): 3.0},
    "fabric": {("Allreduce", 4, 8): 4.0},
}
"""Time of the NI over plain, by operation, ranks and bytes."""


def _ranks(quick: bool, transport: str) -> tuple[int, ...]:
    return _RANKS_QUICK if quick else _RANKS[transport]


def _measure(conditions: Conditions) -> Rows:
    transport = conditions.transport
    sizes = _SIZES_QUICK_BYTES if conditions.quick else _SIZES_BYTES
    works = [(operation, num_bytes) for operation in _OPERATIONS for num_bytes in sizes]
    rows: Rows = []
    for num_ranks in _ranks(conditions.quick, transport):
        conditions.begin_step(f"collectives of {num_ranks} ranks")
        measured = measure(conditions, num_ranks, works, 5, 0.04)
        rows += [
            {
                "transport": transport,
                "operation": operation,
                "num_ranks": num_ranks,
                "num_bytes": num_bytes,
                "plain_s": times.plain_s,
                f"{transport}_s": times.ni_s,
                "ratio": times.ni_s / times.plain_s,
                "virtual_s": times.virtual_s,
            }
            for (operation, num_bytes), times in measured.items()
        ]
    return sorted(rows, key=lambda row: _OPERATIONS.index(row["operation"]))


def _goals(rows: Rows) -> list[Goal]:
    goals = []
    for row in rows:
        limits = _LIMITS[row["transport"]]
        limit = limits.get((row["operation"], row["num_ranks"], row["num_bytes"]))
        if limit is not None:
            what = f"{row['operation']} of {size_text(row['num_bytes'])}"
            goals.append(Goal(f"{what}, {row['num_ranks']} ranks / plain", limit, row["ratio"]))
    return goals


GROUP = Group(
    "collectives",
    (
        Layout(
            "collectives (Alltoall: size for each peer)",
            (
                Column("operation", "operation"),
                Column("num_ranks", "ranks", 0),
                NUM_BYTES,
                Column("plain_s", "plain\n(us)", 2, 1e6),
                Column("{}_s", "{}\n(us)", 2, 1e6),
                Column("ratio", "{}/\nplain"),
                Column("virtual_s", "virtual\n(us)", 2, 1e6),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick, transport: len(_ranks(quick, transport)),
    BOTH,
)
