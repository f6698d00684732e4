"""Classes that a user wrote in Python, answering what a node asks while it runs: memory strategies,
page-in, ERR and scheduling policies.

One object a node. The node calls C functions that this makes; the calls come from inside of the
node's own, in the thread that made them. What a class raises goes to `failed`, and the node's call
ends with PW_ERR_HOST.
"""

from collections.abc import Callable
from typing import Any

from pagewire.driver.policy_host import OwnPolicies, PolicyHost
from pagewire.native import ffi, lib
from pagewire.node.strategies import host as memory_host
from pagewire.node.strategies.built_in import REGISTRY
from pagewire.node.strategies.pages import Pages
from pagewire.r5sched import scheduling
from pagewire.run.settings.config import Config


class Answers:
    """What the settings name as `module:Class`. `decide` and `schedule` are functions of
    pw_node_host, NULL for what is built in; `strategy` is None for a built-in one."""

    def __init__(self, config: Config, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._alive: list[Any] = []  # what C points to
        self._of_faults: PolicyHost | None = None
        self._own = OwnPolicies.of_settings(config.run.policy, config.driver.err_by)
        self.decide = ffi.NULL
        if self._own.are_any:
            self.decide = self.callback("int(void *, uint64_t)", self._decide)
        own = scheduling.REGISTRY.create(config.firmware.scheduling)
        self._scheduler: scheduling.Scheduler | None = None
        self.schedule = ffi.NULL
        if own is not None:
            self._scheduler = scheduling.Scheduler(own, config.firmware.scheduling)
            self.schedule = self.callback(
                "int(void *, uint64_t, uint32_t, int, int64_t, pw_scheduling *)", self._schedule
            )
        self.strategy: memory_host.StrategyHost | None = None
        if not REGISTRY.is_native(config.run.memory):
            self.strategy = memory_host.create(config.run.memory)

    def callback(self, signature: str, function: Callable[..., None]) -> Any:
        """A C function that calls a Python one, as long as this object lives."""

        def answer(*arguments: Any) -> int:
            try:
                function(*arguments)
            except BaseException as error:  # noqa: BLE001, above is C alone
                self._failed(error)
                return int(lib.PW_ERR_HOST)
            return 0

        made = ffi.callback(signature, answer)
        self._alive.append(made)
        return made

    def bind(self, node: Any, tables: Any) -> None:
        """The pw_node that asks is there. tables: the platform's, by name."""
        self._of_faults = self._own.host(lib.pw_node_ni(node), lib.pw_node_memory(node))
        if self.strategy is not None:
            self.strategy.bind(Pages.of_node(node, tables))

    def _decide(self, _context: Any, decision_id: int) -> None:
        if self._of_faults is None:
            raise RuntimeError("asked about a page fault before the node was there")
        self._of_faults.raise_failure()
        self._of_faults.answer(decision_id)

    def _schedule(
        self, _context: Any, num_bytes: int, peer: int, is_read: int, now_ns: int, out: Any
    ) -> None:
        assert self._scheduler is not None
        posted = scheduling.PostedTransfer(num_bytes, peer, bool(is_read), now_ns)
        out[0] = self._scheduler.decide(posted)[0]
