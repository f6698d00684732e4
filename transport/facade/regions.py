"""Regions of a program (docs/regions.md): `region` for Python. mpi4py's `MPI.Pcontrol` takes 0, 1
and 2 alone, which mark nothing.

Where nothing is emulated a region is nothing: no node is made for it, and no module but this one
and the rank's loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Callable
from threading import get_ident
from typing import Self

from pagewire.native import check, lib
from pagewire.transport.facade.rank import here

_LOADER = "pagewire.transport.facade.loader"
"""Without it there is no facade."""
_PROVIDER = "libpagewire-fi.so"
_NAME_MAX_BYTES = int(lib.PW_REGION_NAME_BYTES) - 1

_Enter = Callable[[bytes, int], int]
_Leave = Callable[[int], None]


class region(contextlib.ContextDecorator):
    """Marks a phase of the program: `with region("halo"):`, or `@region("halo")` at a function.

    name: 1 to 63 bytes of UTF-8 without control characters. Within another region the row of the
    report is "outer/name"; entered again, it goes on. An exception leaves it too.
    """

    __slots__ = ("_entered", "_name", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._name = _checked(name)
        self._entered: dict[int, list[int]] = {}
        """Those that are open by this object, by thread: within itself it may be entered again."""

    def _recreate_cm(self) -> Self:
        return self  # a call of the function that it decorates enters it once more

    def __enter__(self) -> Self:
        number = _enter(self._name)
        if number:
            self._entered.setdefault(get_ident(), []).append(number)
        return self

    def __exit__(self, *raised: object) -> None:
        if not self._entered:
            return
        thread = get_ident()
        open_here = self._entered.get(thread)
        if open_here:
            _leave(open_here.pop())
            if not open_here:
                del self._entered[thread]


def _checked(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"region: a name is a str, not {type(name).__name__}")
    encoded = name.encode()
    if not 0 < len(encoded) <= _NAME_MAX_BYTES or any(each < 32 or each == 127 for each in encoded):
        raise ValueError(
            f"region: the name {name!r} is {len(encoded)} bytes long; allowed are 1 to "
            f"{_NAME_MAX_BYTES} bytes of UTF-8 without control characters"
        )
    return encoded


class _Process:
    """A forked child is no rank: its node is a copy, whose lock a thread may have held."""

    is_child = False


def _forked() -> None:
    _Process.is_child = True


os.register_at_fork(after_in_child=_forked)


def _enter(name: bytes) -> int:
    """Number of the region that is open now; 0: none."""
    if _Process.is_child:
        return 0
    if _LOADER in sys.modules and here.is_open:
        node = here.node
        if not node.c:
            return 0
        return node.check(lib.pw_node_region_enter(node.c, name, len(name)), "region")
    provider = _provider()
    if provider is None:
        return 0
    number: int = provider[0](name, len(name))
    return check(number, "region")


def _leave(number: int) -> None:
    if _Process.is_child:
        return
    if here.is_open:
        if here.node.c:
            lib.pw_node_region_leave(here.node.c, number)
        return
    provider = _provider()
    if provider is not None:
        provider[1](number)


@functools.cache
def _provider() -> tuple[_Enter, _Leave] | None:
    """The provider's functions, where the NI lies below the MPI library."""
    folder = os.environ.get("FI_PROVIDER_PATH", "").partition(":")[0]
    if not os.environ.get("PAGEWIRE_NODE_FILE") or not folder:
        return None
    library = ctypes.CDLL(os.path.join(folder, _PROVIDER))
    enter, leave = library.pagewire_fabric_region_enter, library.pagewire_fabric_region_leave
    enter.argtypes, enter.restype = (ctypes.c_char_p, ctypes.c_uint64), ctypes.c_int64
    leave.argtypes, leave.restype = (ctypes.c_int64,), None
    return enter, leave
