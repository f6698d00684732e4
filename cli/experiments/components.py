"""The table of a breakdown: components of one latency, their sum, and the measured total."""

from collections.abc import Mapping
from typing import Any

from pagewire.cli.kit.result import Column

COLUMNS = (
    Column("component", "component"),
    Column("time_us", "time", "us", 3),
    Column("share", "share", "%", 1),
)


def rows_of(
    titles: Mapping[str, str], parts_ns: Mapping[str, int], total_ns: int
) -> list[dict[str, Any]]:
    """A row for each of `titles` in its order, then the two totals."""
    named = [(title, parts_ns[key]) for key, title in titles.items()]
    named += [("sum of the components", sum(parts_ns.values())), ("measured total", total_ns)]
    return [
        {"component": title, "time_us": time_ns / 1e3, "share": 100 * time_ns / total_ns}
        for title, time_ns in named
    ]
