"""Runs the memory strategy of one rank: asks its hooks, checks their answers, names it in errors.

The node in C asks by `ops` and `handle`: what goes wrong is then kept for the caller of the node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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
        """pw_node_opening.strategy_self; good as long as this object."""
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
        """pw_node_opening.strategy. Its functions answer PW_ERR_HOST when there is a failure to
        take."""
        if pages is not None:
            self.bind(pages)

    def bind(self, pages: Pages) -> None:
        """What the strategy works with. Once."""
        self._ask("bind()", self._strategy.bind, pages)

    def acquire(self, address: int, num_bytes: int, access: Access) -> Lease:
        """The strategy's part of posting a transfer; num_bytes > 0."""
        span = Span(address, num_bytes)
        question = f"acquire({span}, {access.name})"
        lease: Lease = self._ask(question, self._strategy.acquire, span=span, access=access)
        self._check(question, reason_to_refuse_lease(lease, span))
        return lease

    def release(self, lease: Lease) -> Cost:
        """Undo what `acquire` did; the transfer is over."""
        question = f"release({lease.span})"
        cost: Cost = self._ask(question, self._strategy.release, lease=lease)
        self._check(question, reason_to_refuse_cost(cost))
        return cost

    def invalidated(self, first_page: int, num_pages: int) -> None:
        """Tell the strategy that the mappings of these pages went or changed."""
        question = f"invalidated({first_page}, {num_pages})"
        hook = self._strategy.invalidated
        self._ask(question, hook, first_page=first_page, num_pages=num_pages)

    def close(self) -> None:
        """Nothing is asked any more. Before the memory of the pages ends."""
        if isinstance(self._strategy, NativeStrategy):
            self._strategy.close()

    def take_failure(self) -> Exception | None:
        """The first thing that went wrong since the last look while C asked; for the caller of C to
        raise."""
        failure, self._failure = self._failure, None
        return failure

    # What C asks: the functions of pw_strategy_ops.

    def answer_acquire(self, span: Any, access: int, out: Any) -> None:
        lease = self.acquire(
            span.address, span.num_bytes, _OF_ENGINE[access & int(lib.PW_ACCESS_WRITE)]
        )
        self._last_token += 1
        self._leases[self._last_token] = lease
        out.span = span
        out.cost = tuple(lease.cost)
        out.token = self._last_token

    def answer_release(self, lease: Any, cost: Any) -> None:
        cost.touch_ns, cost.pin_ns, cost.copy_ns = self.release(self._leases.pop(lease.token))

    def answer_invalidated(self, first_page: int, num_pages: int) -> None:
        self.invalidated(first_page, num_pages)

    def keep_failure(self, hook: str, error: BaseException) -> None:
        """For the caller of C. An interrupt between our lines (KeyboardInterrupt) counts as the
        hook's."""
        if not isinstance(error, StrategyError | EngineError):
            error = self._raised(hook, error)
        if self._failure is None:
            self._failure = error

    def _ask(self, question: str, hook: Callable[..., Any], *given: Any, **named: Any) -> Any:
        try:
            return hook(*given, **named)
        except BaseException as error:
            raise self._raised(question, error) from error

    def _check(self, question: str, reason: str) -> None:
        if reason:
            raise StrategyError(f"memory strategy '{self._name}': {question} answered {reason}")

    def _raised(self, hook: str, error: BaseException) -> Exception:
        """What ends the run: SystemExit too, because ending quietly would leave the peers
        waiting."""
        if isinstance(error, EngineError):  # what `Pages` refuses says why by itself
            return EngineError(error.code, f"run.memory = '{self._name}': {error}")
        return StrategyError(f"memory strategy '{self._name}': {hook} raised {describe(error)}")


def _answer(hook: str, handle: Any, *arguments: Any) -> int:
    host = ffi.from_handle(handle)
    try:
        getattr(host, f"answer_{hook}")(*arguments)
    except BaseException as error:  # noqa: BLE001, above is C alone
        host.keep_failure(hook, error)
        return int(lib.PW_ERR_HOST)
    return int(lib.PW_OK)


for _hook in ("acquire", "release", "invalidated"):
    ffi.def_extern(f"pw_host_strategy_{_hook}", lib.PW_ERR_HOST)(functools.partial(_answer, _hook))


def create(name: str, pages: Pages | None = None) -> StrategyHost:
    """The strategy that `run.memory` names, to be asked once it has its pages; whoever makes it
    closes it."""
    if REGISTRY.is_native(name):
        return StrategyHost(NativeStrategy(name), name, pages)
    strategy = REGISTRY.create(name)
    if strategy is None:
        raise StrategyError(f"run.memory = '{name}': there is no class of it")
    return StrategyHost(strategy, name, pages)
