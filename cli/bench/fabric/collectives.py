"""Collectives of a C program's ranks. Their algorithms are MPICH's own, of messages over the NI."""

from pagewire.cli.bench.fabric import c_program
from pagewire.cli.bench.group import NUM_BYTES, Column, Conditions, Goal, Group, Layout, Rows
from pagewire.cli.experiments.result import size_text

_RANKS, _RANKS_QUICK = (2, 4), (2,)
_SIZES_BYTES, _SIZES_QUICK_BYTES = (8, 65536, 1 << 20), (8,)
_OPERATIONS = ("Allreduce", "Bcast", "Alltoall")

_LIMITS = {("Allreduce", 4, 8): 4.0}
"""Time over the provider in plain MPICH's, by operation, ranks and bytes."""


def _ranks(quick: bool) -> tuple[int, ...]:
    return _RANKS_QUICK if quick else _RANKS


def _measure(conditions: Conditions) -> Rows:
    sizes = _SIZES_QUICK_BYTES if conditions.quick else _SIZES_BYTES
    works = [(operation, num_bytes) for operation in _OPERATIONS for num_bytes in sizes]
    rows: Rows = []
    for num_ranks in _ranks(conditions.quick):
        conditions.begin_step(f"collectives of {num_ranks} ranks in C")
        for (operation, num_bytes), times in c_program.measure(
            conditions, num_ranks, works
        ).items():
            rows.append(
                {
                    "operation": operation,
                    "num_ranks": num_ranks,
                    "num_bytes": num_bytes,
                    "plain_s": times.plain_s,
                    "fabric_s": times.fabric_s,
                    "ratio": times.fabric_s / times.plain_s,
                    "virtual_s": times.virtual_s,
                }
            )
    return sorted(rows, key=lambda row: _OPERATIONS.index(row["operation"]))


def _goals(rows: Rows) -> list[Goal]:
    goals = []
    for row in rows:
        limit = _LIMITS.get((row["operation"], row["num_ranks"], row["num_bytes"]))
        if limit is not None:
            what = f"{row['operation']} of {size_text(row['num_bytes'])}"
            title = f"{what}, {row['num_ranks']} ranks / plain MPICH"
            goals.append(Goal(title, limit, row["ratio"]))
    return goals


GROUP = Group(
    "collectives",
    (
        Layout(
            "collectives in C (Alltoall: size for each peer)",
            (
                Column("operation", "operation"),
                Column("num_ranks", "ranks", 0),
                NUM_BYTES,
                Column("plain_s", "plain\n(us)", 2, 1e6),
                Column("fabric_s", "fabric\n(us)", 2, 1e6),
                Column("ratio", "fabric/\nplain"),
                Column("virtual_s", "virtual\n(us)", 2, 1e6),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick: len(_ranks(quick)),
)
