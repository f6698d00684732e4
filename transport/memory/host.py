"""Runs the memory strategy of one rank: asks its hooks, checks their answers, names it in
errors."""

from __future__ import annotations

from pagewire.native import EngineError
from pagewire.native.extension import describe
from pagewire.transport.memory.built_in import REGISTRY
from pagewire.transport.memory.pages import Pages
from pagewire.transport.memory.strategy import (
    NOTHING,
    Access,
    Cost,
    Lease,
    MemoryStrategy,
    Span,
    StrategyError,
)


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
        if type(value) is not int or value < 0:
            return f"{name} {value!r}: allowed is a whole number of ns from 0"
    return ""


class StrategyHost:
    """The strategy of one rank. `name` is the value of `run.memory`, for messages."""

    def __init__(self, strategy: MemoryStrategy, name: str, pages: Pages) -> None:
        self._strategy = strategy
        self._name = name
        try:
            strategy.bind(pages)
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

    def _raised(self, hook: str, error: BaseException) -> Exception:
        """What ends the run: SystemExit too, because ending quietly would leave the peers
        waiting."""
        if isinstance(error, EngineError):  # what `Pages` refuses says why by itself
            return EngineError(error.code, f"run.memory = '{self._name}': {error}")
        return StrategyError(f"memory strategy '{self._name}': {hook} raised {describe(error)}")


def create(name: str, pages: Pages) -> StrategyHost:
    """The strategy that `run.memory` names, ready to be asked."""
    strategy = REGISTRY.create(name)
    if strategy is None:
        raise StrategyError(f"run.memory = '{name}': there is no class of it")
    return StrategyHost(strategy, name, pages)
