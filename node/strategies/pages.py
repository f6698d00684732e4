"""What a memory strategy can do with the pages of its process, and what that costs the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from pagewire.native import EngineError, check, ffi, lib
from pagewire.node.strategies.strategy import Access, Span

TABLES = (
    "touch_resident",
    "touch_absent",
    "pin_absent",
    "pin_resident",
    "unpin",
    "mmap",
    "munmap",
    "copy",
)
"""Piecewise costs over size that every platform file states, in the order of PW_COST_*."""


class Table(Protocol):
    """A cost over size: run/settings/platform.py. Sizes rise, costs do not fall."""

    @property
    def sizes_bytes(self) -> Sequence[int]:
        """Where the points are."""

    @property
    def costs_ns(self) -> Sequence[int]:
        """What they cost."""


def engine_tables(tables: Mapping[str, Table]) -> Any:
    """pw_cost_tables of the tables that TABLES names; ValueError says why not."""
    made = ffi.new("pw_cost_tables *")
    points_max = int(lib.PW_COST_POINTS_MAX)
    for out, name in zip(made.table, TABLES, strict=True):
        sizes, costs = tables[name].sizes_bytes, tables[name].costs_ns
        if len(sizes) != len(costs) or len(sizes) > points_max:
            raise ValueError(
                f"cost table '{name}': {len(sizes)} sizes and {len(costs)} costs; "
                f"as many of both are allowed, up to {points_max}"
            )
        out.num_points = len(sizes)
        out.num_bytes[0 : len(sizes)] = list(sizes)
        out.cost_ns[0 : len(costs)] = list(costs)
    reason = ffi.new("const char **")
    if lib.pw_cost_tables_check(made, reason) != lib.PW_OK:
        raise ValueError(ffi.string(reason[0]).decode())
    return made


class Pages:
    """The pages of one rank, 4 KB each, and the platform's cost tables.

    Works on the memory backend of the engine, the host's pages or the model's. EngineError says
    what cannot be done: a span that is not mapped, a mapping that forbids the access, a limit
    reached.
    """

    def __init__(
        self,
        memory: Any,
        tables: Mapping[str, Table],
        *,
        costs: Any = None,
        settings: Any = None,
        context: Any = None,
    ) -> None:
        """memory: the engine's backend (pw_memory). tables: by name, as in the platform file.

        costs, settings: pw_costs and pw_settings, the defaults without. context: a node's
        pw_strategy_context, which then counts what is pinned.
        """
        self._memory = memory
        self._tables = engine_tables(tables)
        default = ffi.new("pw_node_config *")
        lib.pw_node_config_default(default)
        self._alive = costs, settings, default
        self.context = context or ffi.new(
            "pw_strategy_context *",
            {
                "memory": memory,
                "tables": self._tables,
                "costs": costs or ffi.addressof(default[0], "costs"),
                "settings": settings or ffi.addressof(default[0], "settings"),
            },
        )
        """The same for a strategy in C."""
        self._absent = ffi.new("uint64_t *")

    @classmethod
    def of_node(cls, node: Any, tables: Mapping[str, Table]) -> Self:
        """The pages of a node (pw_node)."""
        context = lib.pw_node_strategy_context(node)
        return cls(lib.pw_node_memory(node), tables, context=context)

    def touch(self, span: Span, access: Access = Access.WRITE) -> int:
        """Make every page present, for reading or writing; how many were absent before.

        A write-protected page counts as absent for a write. A span that is mapped read-only is only
        read.
        """
        page_range = (self._memory, span.first_page, span.num_pages)
        code = lib.pw_memory_populate(*page_range, access is Access.WRITE, self._absent)
        if code == lib.PW_ERR_PROTECTION and access is Access.WRITE:
            code = lib.pw_memory_populate(*page_range, 0, self._absent)
        check(code, f"touch of {span.num_bytes} bytes at {span.address:#x}")
        return int(self._absent[0])

    def pin(self, span: Span) -> int:
        """Make every page present and keep it so (mlock); how many were absent before."""
        self._check_pin(
            lib.pw_strategy_pin_pages(self.context, span.first_page, span.num_pages, self._absent)
        )
        return int(self._absent[0])

    def unpin(self, span: Span) -> None:
        """Undo every pin of these pages (munlock): pins do not nest."""
        self._check_pin(lib.pw_strategy_unpin_pages(self.context, span.first_page, span.num_pages))

    def is_pinned(self, span: Span) -> bool:
        """Are these very pages pinned? Not when a mapping went since, whatever is there now."""
        code = lib.pw_memory_is_pinned(self._memory, span.first_page, span.num_pages)
        return check(code, f"pins of {span.num_bytes} bytes at {span.address:#x}") == 1

    def _check_pin(self, code: int) -> None:
        if code < 0:
            raise EngineError(code, ffi.string(self.context.reason).decode())

    def resident(self, span: Span) -> tuple[bool, ...]:
        """Which pages of the span are in memory."""
        state = ffi.new("uint8_t[]", span.num_pages)
        code = lib.pw_memory_probe(self._memory, span.first_page, span.num_pages, state)
        check(code, f"residency of {span.num_bytes} bytes at {span.address:#x}")
        present = int(lib.PW_PAGE_PRESENT)
        return tuple(each == present for each in ffi.buffer(state)[:])

    def cost_ns(self, table: str, num_pages: int) -> int:
        """Time of one operation on so many pages, by a table of the platform file: see TABLES."""
        if table not in TABLES:
            raise KeyError(f"cost table '{table}': known are {', '.join(TABLES)}")
        return int(lib.pw_cost_ns(self._tables, TABLES.index(table), num_pages))
