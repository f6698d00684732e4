"""Runs the memory strategy of one rank: asks its hooks, checks their answers, names it in errors.

The node in C asks by `ops` and `handle`: what goes wrong is then kept for the caller of the node.
"""

from __future__ import annotations

from typing import Any

from pagewire.native import EngineError, ffi, lib
from pagewire.native.extension import describe
from pagewire.node.strategies.built_in import REGISTRY
from pagewire.node.strategies.native_strategy import ACCESSES, NativeStrategy
from pagewire.node.strategies.pages import Pages
from pagewire.node.strategies.strategy import (
    NOTHING,
    Access,
    Cost,
    Lease,
    MemoryStrategy,
    Span,
    StrategyError,
)

_COST_MAX_NS = 2**62
_OF_ENGINE = {value: access for access, value in ACCESSES.items()}


def reason_to_refuse_lease(lease: object, span: Span) -> str:
    """Why this is no answer to `acquire`; empty when it is one."""
    if not isinstance(lease, Lease):
        return f"a {type(lease).__name__} ({lease!r}) instead of a Lease"
    if lease.span != span:
        return f"a lease of {lease.span}"
    return reason_to_refuse_cost(lease.cost)


def reason_to_refuse_cost(cost: object) -> str:
    """Why this is no cost; empty when it is one."""
    if cost is NOTHING:
        return ""
    if not isinstance(cost, Cost):
        return f"a {type(cost).__name__} ({cost!r}) instead of a Cost"
    for name, value in cost._asdict().items():
        if type(value) is not int or not 0 <= value <= _COST_MAX_NS:
            return f"{name} {value!r}: allowed is a whole number of ns from 0 to 2**62"
    return ""


class StrategyHost:
    """The strategy of one rank. `name` is the value of `run.memory`, for messages."""

    def __init__(self, strategy: MemoryStrategy, name: str, pages: Pages | None = None) -> None:
        """pages None: `bind` comes later, before anything is asked."""
        self._strategy = strategy
        self._name = name
        self._leases: dict[int, Lease] = {}
        self._last_token = 0
        self._failure: Exception | None = None
        self.handle = ffi.new_handle(self)
        """pw_node_options.strategy_self; good as long as this object."""
        self._texts = ffi.new("char[]", name.encode()), ffi.new("char[]", b"a class in Python")
        self.ops = ffi.new(
            "pw_strategy_ops *",
            {
                "name": self._texts[0],
                "summary": self._texts[1],
                "acquire": lib.pw_host_strategy_acquire,
                "release": lib.pw_host_strategy_release,
                "invalidated": lib.pw_host_strategy_invalidated,
            },
        )
        """pw_node_options.strategy. Its functions answer PW_ERR_HOST when there is a failure to
        take."""
        if pages is not None:
            self.bind(pages)

    def bind(self, pages: Pages) -> None:
        """What the strategy works with. Once."""
        try:
            self._strategy.bind(pages)
        except BaseException as error:
            raise self._raised("bind()", error) from error

    def acquire(self, address: int, num_bytes: int, access: Access) -> Lease:
        """The strategy's part of posting a transfer; num_bytes > 0."""
        span = Span(address, num_bytes)
        try:
            lease = self._strategy.acquire(span=span, access=access)
        except BaseException as error:
            raise self._raised(f"acquire({span}, {access.name})", error) from error
        reason = reason_to_refuse_lease(lease, span)
        if reason:
            raise StrategyError(
                f"memory strategy '{self._name}': acquire({span}, {access.name}) answered {reason}"
            )
        return lease

    def release(self, lease: Lease) -> Cost:
        """Undo what `acquire` did; the transfer is over."""
        try:
            cost = self._strategy.release(lease=lease)
        except BaseException as error:
            raise self._raised(f"release({lease.span})", error) from error
        reason = reason_to_refuse_cost(cost)
        if reason:
            raise StrategyError(
                f"memory strategy '{self._name}': release({lease.span}) answered {reason}"
            )
        return cost

    def invalidated(self, first_page: int, num_pages: int) -> None:
        """Tell the strategy that the mappings of these pages went or changed."""
        try:
            self._strategy.invalidated(first_page=first_page, num_pages=num_pages)
        except BaseException as error:
            raise self._raised(f"invalidated({first_page}, {num_pages})", error) from error

    def close(self) -> None:
        """Nothing is asked any more. Before the memory of the pages ends."""
        if isinstance(self._strategy, NativeStrategy):
            self._strategy.close()

    def take_failure(self) -> Exception | None:
        """The first thing that went wrong since the last look while C asked; for the caller of C to
        raise."""
        failure, self._failure = self._failure, None
        return failure

    # What C calls.

    def asked_to_acquire(self, span: Any, access: int, out: Any) -> int:
        """pw_strategy_ops.acquire."""
        try:
            lease = self.acquire(
                span.address, span.num_bytes, _OF_ENGINE[access & int(lib.PW_ACCESS_WRITE)]
            )
            self._last_token += 1
            self._leases[self._last_token] = lease
            out.span = span
            out.cost = tuple(lease.cost)
            out.token = self._last_token
        except BaseException as error:  # noqa: BLE001, kept for the caller of C
            return self._keep("acquire", error)
        return int(lib.PW_OK)

    def asked_to_release(self, lease: Any, cost: Any) -> int:
        """pw_strategy_ops.release."""
        try:
            passed = self.release(self._leases.pop(lease.token))
            cost.touch_ns, cost.pin_ns, cost.copy_ns = passed
        except BaseException as error:  # noqa: BLE001, kept for the caller of C
            return self._keep("release", error)
        return int(lib.PW_OK)

    def told_of_invalidated(self, first_page: int, num_pages: int) -> int:
        """pw_strategy_ops.invalidated."""
        try:
            self.invalidated(first_page, num_pages)
        except BaseException as error:  # noqa: BLE001, kept for the caller of C
            return self._keep("invalidated", error)
        return int(lib.PW_OK)

    def _keep(self, hook: str, error: BaseException) -> int:
        """An interrupt between our lines (KeyboardInterrupt) counts as the hook's."""
        if not isinstance(error, StrategyError | EngineError):
            error = self._raised(hook, error)
        if self._failure is None:
            self._failure = error
        return int(lib.PW_ERR_HOST)

    def _raised(self, hook: str, error: BaseException) -> Exception:
        """What ends the run: SystemExit too, because ending quietly would leave the peers
        waiting."""
        if isinstance(error, EngineError):  # what `Pages` refuses says why by itself
            return EngineError(error.code, f"run.memory = '{self._name}': {error}")
        return StrategyError(f"memory strategy '{self._name}': {hook} raised {describe(error)}")


def _acquire(handle: Any, span: Any, access: int, out: Any) -> int:
    return int(ffi.from_handle(handle).asked_to_acquire(span, access, out))


def _release(handle: Any, lease: Any, cost: Any) -> int:
    return int(ffi.from_handle(handle).asked_to_release(lease, cost))


def _invalidated(handle: Any, first_page: int, num_pages: int) -> int:
    return int(ffi.from_handle(handle).told_of_invalidated(first_page, num_pages))


for _function in (_acquire, _release, _invalidated):
    ffi.def_extern(f"pw_host_strategy{_function.__name__}", lib.PW_ERR_HOST)(_function)


def create(name: str, pages: Pages | None = None) -> StrategyHost:
    """The strategy that `run.memory` names, to be asked once it has its pages; whoever makes it
    closes it."""
    if REGISTRY.is_native(name):
        return StrategyHost(NativeStrategy(name), name, pages)
    strategy = REGISTRY.create(name)
    if strategy is None:
        raise StrategyError(f"run.memory = '{name}': there is no class of it")
    return StrategyHost(strategy, name, pages)
