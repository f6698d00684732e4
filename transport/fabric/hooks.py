"""Classes in Python under the libfabric provider: memory strategies, page-in and scheduling
policies.

The provider is a library of its own, which MPI loads when it starts; what its node asks a class is
handed to it here before. Its node is made of the same C as this package's extension, which reads
and answers it therefore. The calls come from inside of mpi4py's, in the thread that made them.
"""

import ctypes
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from pagewire.driver import policy
from pagewire.driver.policy_host import PolicyHost
from pagewire.native import check, ffi, lib
from pagewire.r5sched import scheduling
from pagewire.transport.memory import host as memory_host
from pagewire.transport.memory.built_in import REGISTRY
from pagewire.transport.memory.pages import Pages
from pagewire.transport.settings import platform
from pagewire.transport.settings.config import Config

_LIBRARY = "libpagewire-fi.so"


class _Hooks(ctypes.Structure):
    """pw_fi_host_hooks of environment.h."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("decide", ctypes.c_void_p),
        ("schedule", ctypes.c_void_p),
        ("strategy", ctypes.c_void_p),
        ("strategy_self", ctypes.c_void_p),
        ("created", ctypes.c_void_p),
    )


class FabricHost:
    """Answers the node of the provider in this process; lives as long as that."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._alive: list[Any] = []
        self._policy: PolicyHost | None = None
        self._strategy: memory_host.StrategyHost | None = None
        own = scheduling.create(config.firmware.scheduling)
        self._scheduler = (
            None if own is None else scheduling.Scheduler(own, config.firmware.scheduling)
        )
        if not REGISTRY.is_native(config.run.memory):
            self._strategy = memory_host.create(config.run.memory)

    def hooks(self) -> _Hooks:
        """What the provider shall call; NULL for what is built in."""
        hooks = _Hooks(struct_size=ctypes.sizeof(_Hooks))
        if not policy.is_built_in(self._config.run.policy):
            hooks.decide = self._callback("int(void *, uint64_t)", self._decide)
        if self._scheduler is not None:
            hooks.schedule = self._callback(
                "int(void *, uint64_t, uint32_t, int, int64_t, pw_scheduling *)", self._schedule
            )
        if self._strategy is not None:
            hooks.strategy = _address(self._strategy.ops)
            hooks.strategy_self = _address(self._strategy.handle)
        hooks.created = self._callback("int(pw_node *)", self._created)
        return hooks

    def _callback(self, signature: str, function: Callable[..., None]) -> int:
        """A C function that calls a Python one; what that raises is printed, and ends the run."""

        def answer(*arguments: Any) -> int:
            try:
                function(*arguments)
            except BaseException:  # noqa: BLE001, nobody is above but C
                traceback.print_exc()
                sys.stderr.flush()
                return int(lib.PW_ERR_HOST)
            return 0

        made = ffi.callback(signature, answer)
        self._alive.append(made)
        return _address(made)

    def _created(self, node: Any) -> None:
        config = self._config
        if not policy.is_built_in(config.run.policy):
            self._policy = PolicyHost(
                lib.pw_node_ni(node),
                lib.pw_node_memory(node),
                policy.load(config.run.policy),
                config.run.policy,
            )
        if self._strategy is not None:
            tables = platform.load(config.run.platform).tables
            self._strategy.bind(Pages.of_node(node, tables))

    def _decide(self, _context: Any, decision_id: int) -> None:
        if self._policy is None:
            raise RuntimeError("asked for a page-in decision before the node was there")
        self._policy.raise_failure()
        self._policy.answer(decision_id)

    def _schedule(
        self, _context: Any, num_bytes: int, peer: int, is_read: int, now_ns: int, out: Any
    ) -> None:
        if self._scheduler is not None:
            transfer = scheduling.PostedTransfer(num_bytes, peer, bool(is_read), now_ns)
            out[0] = self._scheduler.decide(transfer)[0]


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


_hosts: list[FabricHost] = []


def install(config: Config) -> None:
    """Hand the settings' classes to the provider that MPI will load. Before MPI starts."""
    host = FabricHost(config)
    _hosts.append(host)
    folder = os.environ["FI_PROVIDER_PATH"].partition(":")[0]  # the user's own stand behind it
    library = ctypes.CDLL(os.path.join(folder, _LIBRARY))
    hooks = host.hooks()
    check(library.pagewire_fabric_set_hooks(ctypes.byref(hooks)), "classes for the provider")
