"""Memory backends by themselves."""

import ctypes
import os
import pathlib
import sys
from typing import Any

from pagewire.native import check, ffi, lib


def backend(kind: int, **options: int) -> Any:
    """A pw_memory, for as long as somebody holds it. options: of pw_memory_model_options."""
    out = ffi.new("pw_memory **")
    code = lib.pw_memory_create(kind, ffi.new("pw_memory_model_options *", options), out)
    check(code, "memory")
    if kind == lib.PW_MEMORY_HOST and os.environ.get(EVENTS):
        assert not use_events(out[0]), use_events(out[0])
    return ffi.gc(out[0], lib.pw_memory_destroy)


EVENTS = "PAGEWIRE_TEST_EVENTS"
"""Set: backends of the host go by events, and are checked."""


def use_events(memory: Any, is_checked: bool = True) -> str:
    """Why they cannot be had; empty: the memory goes by them."""
    beside = pathlib.Path(sys.prefix, "lib", "mpich")
    if (beside / "libucm.so.0").exists():
        ctypes.CDLL(str(beside / "libucs.so.0"), ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(beside / "libucm.so.0"))
    refused = lib.pw_memory_use_events(memory, is_checked)
    return ffi.string(refused).decode() if refused else ""
