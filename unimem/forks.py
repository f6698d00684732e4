"""Remote forks of a host in Python: what a name means there, and the callback of C."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from pagewire.native import ffi
from pagewire.unimem.gsas import Program


class Host(Protocol):
    """Who starts threads on a node, and is told when that fails."""

    def spawn(self, node: int, wanted: Any) -> int:
        """The child's id, 0: it cannot be. wanted: a unimem_fork_request."""

    def fail(self, error: BaseException) -> None: ...


def name_of(function: Program) -> str:
    """What a request for it says."""
    return f"{function.__module__}:{function.__qualname__}"


def find(name: str) -> Program | None:
    """The function that "module:name" says, None: there is none."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        return None
    return found if callable(found) else None


@ffi.def_extern(error=0)  # type: ignore[untyped-decorator]
def pw_host_unimem_spawn(context: Any, wanted: Any) -> int:
    """A thread or process starts on a node. context: handle of a Host and the node's number."""
    host, node = ffi.from_handle(context)
    try:
        return int(host.spawn(node, wanted))
    except BaseException as error:  # noqa: BLE001 - raised again by the host
        host.fail(error)
        return 0
