"""What nodes need of a host in Python: functions that remote forks name, callbacks of kernel
mailboxes, and the error of what C has called."""

from __future__ import annotations

import abc
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from pagewire.native import ffi, lib
from pagewire.unimem.program import Runner

Program = Callable[..., Any]
"""What a thread runs; its first argument is the thread."""
Callback = Callable[[int, int, int], None]
"""Of a kernel mailbox: source, value, time in ns."""


class Host(abc.ABC):
    """Starts threads on nodes."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self.functions: dict[str, Program] = {}
        """What remote forks have named."""
        self.callbacks: dict[tuple[int, int], Callback] = {}
        """By node and opcode."""
        self.places = {node: ffi.new_handle((self, node)) for node in nodes}
        """What C gives back in a callback of a node."""
        self._failure: BaseException | None = None

    @abc.abstractmethod
    def start_child(self, node: int, function: Program, argument: int, time_ns: int) -> int:
        """Start it on the node, at that time; the child's id, 0: it cannot be."""

    def fail(self, error: BaseException) -> None:
        """What C has called has failed: the next use raises its exception."""
        self._failure = self._failure or error

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def name_of(function: Program) -> str:
    """What a remote fork's request says for it."""
    return f"{function.__module__}:{function.__qualname__}"


def _find(name: str) -> Program | None:
    """What is no function's name is a file's."""
    if ":" not in name or "/" in name:
        return Runner(name)
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        return None
    return found if callable(found) else None


@ffi.def_extern(error=0)  # type: ignore[untyped-decorator]
def pw_host_unimem_spawn(context: Any, wanted: Any) -> int:
    """What a unimem_fork_request says, by `Host.start_child`."""
    host, node = ffi.from_handle(context)
    try:
        name = ffi.string(wanted.name).decode(errors="replace")
        function = host.functions.get(name) or _find(name)
        if function is None:
            return 0
        if isinstance(function, Runner) and (refusal := function.refusal()):
            return refusal
        return int(host.start_child(node, function, int(wanted.argument), int(wanted.time_ns)))
    except BaseException as error:  # noqa: BLE001 - raised again by the host
        host.fail(error)
        return 0


@ffi.def_extern()  # type: ignore[untyped-decorator]
def pw_host_unimem_value(context: Any, source: int, value: int, time_ns: int) -> None:
    """A message for a callback of the kernel."""
    host, node = ffi.from_handle(context)
    try:
        host.callbacks[node, value >> lib.UNIMEM_OPCODE_SHIFT](source, value, time_ns)
    except BaseException as error:  # noqa: BLE001 - raised again by the host
        host.fail(error)
