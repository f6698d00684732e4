"""Costs of a platform as unknowns: each a factor of its base, and a time that is printed.

Times, rates (as time for a byte), the SMMU's clock, and tables (their shape stays: one factor) are
unknowns. What counts or describes (packet header, line coding, memory accesses of a walk, TLB hits
in clocks, nodes of a QFDB) is not fitted; what costs nothing in the base has no factor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pagewire.run.settings.platform import Costs, CostTable, Platform, cost_name

_RATE_BYTES = 1024
_TABLE_BYTES = 65536
STEP = 0.1
"""By which a cost is changed to see what a latency does."""
STEP_MIN = 20
"""The same in ns: below it the engine's rounding to whole ns would be seen."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One cost; field of Costs, or name of a table."""

    name: str
    """as in the platform file: section and key"""
    field: str
    base: int
    """in the unit of the field; of a table, at 64 KiB"""

    @property
    def is_table(self) -> bool:
        return self.name.startswith("tables.")

    @property
    def is_rate(self) -> bool:
        return self.field.endswith("_mbps")

    @property
    def label(self) -> str:
        """What the time is of."""
        if self.is_table:
            return f"{self.name} (64 KiB)"
        return f"{cost_name(self.field)} (1 KiB)" if self.is_rate else cost_name(self.field)

    @property
    def base_ns(self) -> float:
        """The time that a factor multiplies."""
        if self.is_rate:
            return _RATE_BYTES * 8e3 / self.base
        return self.base / 1e3 if self.field.endswith("_ps") else float(self.base)

    @property
    def step(self) -> float:
        """Change of the factor."""
        return max(STEP, STEP_MIN / self.base) if self.field.endswith("_ns") else STEP

    def value(self, factor: float) -> int:
        """The cost in the unit of its field."""
        if self.is_rate:
            return max(1, round(self.base / factor))
        return max(1 if self.field.endswith("_ps") else 0, round(self.base * factor))

    def real_factor(self, factor: float) -> float:
        """What is left of it when the cost is a whole number."""
        if self.is_table:
            return factor
        value = self.value(factor)
        return self.base / value if self.is_rate else value / self.base


def of_platform(platform: Platform) -> list[Parameter]:
    """All of them."""
    found = [
        Parameter(f"costs.{cost_name(field)}", field, getattr(platform.costs, field))
        for field in Costs.FIELDS
        if field.endswith(("_ns", "_mbps", "_ps")) and getattr(platform.costs, field) > 0
    ]
    for name, table in platform.tables.items():
        base = table.cost_ns(_TABLE_BYTES)
        if base > 0:
            found.append(Parameter(f"tables.{name}", name, base))
    return found


def scaled(
    platform: Platform, parameters: Sequence[Parameter], factors: Iterable[float]
) -> Platform:
    """The platform with each cost multiplied by its factor."""
    costs, tables = platform.costs.as_dict(), dict(platform.tables)
    for each, factor in zip(parameters, factors, strict=True):
        if each.is_table:
            table = tables[each.field]
            tables[each.field] = CostTable(
                table.sizes_bytes, tuple(round(ns * factor) for ns in table.costs_ns)
            )
        else:
            costs[each.field] = each.value(factor)
    return dataclasses.replace(platform, costs=Costs(costs), tables=tables)


def entry(parameter: Parameter, platform: Platform) -> Mapping[str, Any]:
    """Value and unit of a cost in a platform file, or a table's points."""
    if parameter.is_table:
        table = platform.tables[parameter.field]
        points = [list(each) for each in zip(table.sizes_bytes, table.costs_ns, strict=True)]
        return {"size_unit": "B", "time_unit": "ns", "points": points}
    unit = {"_ns": "ns", "bps": "Mb/s", "_ps": "ps"}[parameter.field[-3:]]
    return {"value": getattr(platform.costs, parameter.field), "unit": unit}
