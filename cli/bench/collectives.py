"""Collectives that move data, at several numbers of ranks."""

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

_RANKS, _RANKS_QUICK = (2, 4, 8), (2,)
_OPERATIONS = ("Allreduce", "Bcast", "Alltoall")
_SPEC = {
    "operations": _OPERATIONS,
    "sizes_bytes": (8, 65536, 1 << 20),
    "num_rounds": 5,
    "round_s": 0.04,
}
_SPEC_QUICK = {**_SPEC, "sizes_bytes": (8,), "num_rounds": 1, "round_s": 0.001}

_LIMITS = {("Allreduce", 4, 8): 4.0, ("Allreduce", 4, 1 << 20): 3.0}
"""Time of the NI over plain, by operation, ranks and bytes."""


def _ranks(quick: bool) -> tuple[int, ...]:
    return _RANKS_QUICK if quick else _RANKS


def _measure(conditions: Conditions) -> Rows:
    spec = _SPEC_QUICK if conditions.quick else _SPEC
    rows: Rows = []
    for num_ranks in _ranks(conditions.quick):
        conditions.begin_step(f"collectives of {num_ranks} ranks")
        rows += measure_on_ranks(conditions, num_ranks, "collectives", spec)
    return sorted(rows, key=lambda row: _OPERATIONS.index(row["operation"]))


def _goals(rows: Rows) -> list[Goal]:
    goals = []
    for row in rows:
        limit = _LIMITS.get((row["operation"], row["num_ranks"], row["num_bytes"]))
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
                Column("facade_s", "facade\n(us)", 2, 1e6),
                Column("ratio", "facade/\nplain"),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick: len(_ranks(quick)),
)
