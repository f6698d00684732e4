"""A node's configuration in C (pw_node_config), held against what Python makes of the same
settings."""

from __future__ import annotations

import os
from typing import Any

from pagewire.native import declared, ffi
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.node.strategies.pages import TABLES
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import CostTable, Platform


def fields(struct: Any) -> dict[str, Any]:
    """A struct's members by name."""
    return {name: getattr(struct, name) for name, _ in ffi.typeof(struct).fields}


def table_of(table: Any) -> CostTable:
    """The points of a pw_cost_table."""
    points = slice(0, table.num_points)
    return CostTable(tuple(table.num_bytes[points]), tuple(table.cost_ns[points]))


def assert_same(
    out: Any, config: Config, machine: Platform, planned: ImpairmentsConfig, num_nodes: int
) -> None:
    """Every field of C. planned: the node's impairments. num_nodes: of the node file, or 0."""
    assert fields(out.settings) == config.engine_settings()
    assert fields(out.costs) == machine.costs.as_dict()
    assert [table_of(each) for each in out.tables.table] == [
        machine.tables[name] for name in TABLES
    ]
    amounts_ns = planned.amounts_ns()
    for idx, (name, site) in enumerate(planned.sites().items()):
        expected = {**site._asdict(), "amount_ns": amounts_ns.get(name, 0)}
        assert {key: getattr(out.impairments[idx], key) for key in expected} == expected, name
    found = fields(out.run)
    assert found.pop("num_nodes") == num_nodes
    for name, own in (
        ("scheduling", config.firmware),
        ("err_by", config.driver),
        ("topology", config.network),
        ("placement", config.network),
        ("failed", config.network),
        ("lossy", config.network),
    ):
        assert os.fsdecode(ffi.string(found.pop(name))) == getattr(own, name)
    for name, value in found.items():
        expected = getattr(config.run, name)
        if isinstance(expected, str) and isinstance(value, int):
            names = {number: text for text, number, _ in declared.choices(f"run.{name}")}
            assert names[value] == expected, name
        elif isinstance(expected, str):
            assert os.fsdecode(ffi.string(value)) == expected, name
        else:
            assert value == (-1 if expected is None else expected), name
