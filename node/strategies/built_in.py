"""The registry of all memory strategies. Those that come with pagewire are in C:
node/strategies/strategies.c lists them."""

from __future__ import annotations

from pagewire.native.extension import Entry, Registry
from pagewire.node.strategies import native_strategy
from pagewire.node.strategies.strategy import MemoryStrategy

REGISTRY: Registry[MemoryStrategy] = Registry(
    "run.memory",
    MemoryStrategy,
    {name: Entry(summary) for name, summary in native_strategy.built_in()},
)
"""What `run.memory` takes."""
