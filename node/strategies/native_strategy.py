"""A memory strategy in C behind the hooks of one in Python: for hosts that are not the node in
C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pagewire.native import EngineError, describe, ffi, lib
from pagewire.node.strategies.pages import Pages
from pagewire.node.strategies.strategy import (
    NOTHING,
    Access,
    Cost,
    Lease,
    MemoryStrategy,
    Span,
)

ACCESSES = {Access.READ: int(lib.PW_ACCESS_READ), Access.WRITE: int(lib.PW_ACCESS_WRITE)}
"""What C calls them."""


def built_in() -> Iterator[tuple[str, str]]:
    """Name and summary of each strategy in C (node/strategies/strategies.c)."""
    idx = 0
    while (ops := lib.pw_strategy_at(idx)) != ffi.NULL:
        yield ffi.string(ops.name).decode(), ffi.string(ops.summary).decode()
        idx += 1


def find(name: str) -> Any:
    """The pw_strategy_ops of a built-in strategy; KeyError when there is none."""
    ops = lib.pw_strategy_find(name.encode())
    if ops == ffi.NULL:
        known = ", ".join(each for each, _ in built_in())
        raise KeyError(f"no memory strategy '{name}' in C; there are {known}")
    return ops


def unit_of(name: str) -> int:
    """PW_TRANSLATION_* that a strategy needs in place of the SMMU; 0: none, or it is not in C."""
    ops = lib.pw_strategy_find(name.encode())
    return 0 if ops == ffi.NULL else int(ops.unit)


def _cost(given: Any) -> Cost:
    return Cost(given.touch_ns, given.pin_ns, given.copy_ns)


class NativeStrategy(MemoryStrategy):
    """Calls the strategy of that name in C. `close` it before the memory of its pages ends: only
    then what it keeps is given back."""

    def __init__(self, name: str) -> None:
        self._ops = find(name)
        self._self = ffi.NULL
        self._lease = ffi.new("pw_lease *")
        self._cost = ffi.new("pw_strategy_cost *")
        self._is_open = False

    def bind(self, pages: Pages) -> None:
        super().bind(pages)
        made = ffi.new("void **", pages.context)
        if self._ops.create:
            self._check(self._ops.create(pages.context, made))
        self._self = made[0]
        self._is_open = True

    def acquire(self, *, span: Span, access: Access) -> Lease:
        out = self._lease
        self._check(self._ops.acquire(self._self, tuple(span), ACCESSES[access], out))
        return Lease(span, _cost(out.cost), (int(out.token), int(out.ni_address)))

    def release(self, *, lease: Lease) -> Cost:
        if not self._ops.release:
            return NOTHING
        given, out = self._lease, self._cost
        given.span.address, given.span.num_bytes = lease.span
        given.cost = tuple(lease.cost)
        given.token, given.ni_address = lease.token
        self._check(self._ops.release(self._self, given, out))
        return _cost(out)

    def invalidated(self, *, first_page: int, num_pages: int) -> None:
        if self._ops.invalidated:
            self._check(self._ops.invalidated(self._self, first_page, num_pages))

    def close(self) -> None:
        """The object is of no use after that."""
        if self._is_open and self._ops.destroy:
            self._ops.destroy(self._self)
        self._is_open = False

    def _check(self, code: int) -> None:
        if code < 0:
            reason = ffi.string(self.pages.context.reason).decode()
            raise EngineError(code, reason or describe(code))
