"""What a memory strategy can do with the pages of its process, and what that costs the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pagewire.native import EngineError, check, ffi, lib
from pagewire.transport.memory.strategy import PAGE_BYTES, Access, Span

TABLES = (
    "touch_resident",
    "touch_absent",
    "pin_absent",
    "pin_resident",
    "unpin",
    "mmap",
    "munmap",
)
"""Piecewise costs over size that every platform file states."""


class Table(Protocol):
    """A cost over size: transport/settings/platform.py."""

    def cost_ns(self, num_bytes: int) -> int:
        """Cost of one operation on num_bytes."""


class Pages:
    """The pages of one rank, 4 KB each, and the platform's cost tables.

    Works on the memory backend of the engine, the host's pages or the model's. EngineError says
    what cannot be done: a span that is not mapped, a mapping that forbids the access, a limit
    reached.
    """

    def __init__(self, memory: Any, tables: Mapping[str, Table]) -> None:
        """memory: the engine's backend (pw_memory). tables: by name, as in the platform file."""
        self._memory = memory
        self._tables = tables
        self._absent = ffi.new("uint64_t *")

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
        code = lib.pw_memory_pin(self._memory, span.first_page, span.num_pages, self._absent)
        if code == lib.PW_ERR_FULL:
            raise EngineError(
                code,
                f"{span.num_bytes} bytes cannot be pinned, the limit of locked memory is reached; "
                "raise it (ulimit -l) or take another memory strategy (run.memory)",
            )
        check(code, f"pin of {span.num_bytes} bytes at {span.address:#x}")
        return int(self._absent[0])

    def unpin(self, span: Span) -> None:
        """Undo every pin of these pages (munlock): pins do not nest."""
        code = lib.pw_memory_unpin(self._memory, span.first_page, span.num_pages)
        check(code, f"unpin of {span.num_bytes} bytes at {span.address:#x}")

    def resident(self, span: Span) -> tuple[bool, ...]:
        """Which pages of the span are in memory."""
        state = ffi.new("uint8_t[]", span.num_pages)
        code = lib.pw_memory_probe(self._memory, span.first_page, span.num_pages, state)
        check(code, f"residency of {span.num_bytes} bytes at {span.address:#x}")
        present = int(lib.PW_PAGE_PRESENT)
        return tuple(each == present for each in ffi.buffer(state)[:])

    def cost_ns(self, table: str, num_pages: int) -> int:
        """Time of one operation on so many pages, by a table of the platform file: see TABLES."""
        if table not in self._tables:
            raise KeyError(f"cost table '{table}': known are {', '.join(self._tables)}")
        return self._tables[table].cost_ns(num_pages * PAGE_BYTES)
