"""Translation lookups beside other ways to look a page up."""

from pagewire.cli.checks.bench import lookup_costs as bench
from pagewire.cli.checks.bench.group import Column, Conditions, Goal, Group, Layout, Rows

_NUM_LOOKUPS, _NUM_LOOKUPS_QUICK = 1_000_000, 20_000
_L2_HIT_NS = 20.0


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("lookups")
    return bench.lookup_table(_NUM_LOOKUPS_QUICK if conditions.quick else _NUM_LOOKUPS)


def _goals(rows: Rows) -> list[Goal]:
    l2_ns = next(row["ns_per_lookup"] for row in rows if "L2 TLB hit" in row["name"])
    return [Goal("L2-hit lookup, ns", _L2_HIT_NS, l2_ns)]


GROUP = Group(
    "lookups",
    (
        Layout(
            "translation lookup (wall time)",
            (Column("name", "kind"), Column("ns_per_lookup", "ns a lookup", 1)),
        ),
    ),
    _measure,
    _goals,
    lambda quick, transport: 1,
)
