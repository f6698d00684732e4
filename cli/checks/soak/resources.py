"""What a process holds: memory, file descriptors, and the pools of its emulated node."""

import ctypes
import os
from typing import Any

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _heap_counter() -> Any:
    """glibc's mallinfo2, None where the C library has none."""
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is not None:
        function.restype = _Mallinfo2
    return function


_mallinfo2 = _heap_counter()


def sample() -> dict[str, int]:
    """By name: resident bytes, bytes that malloc has given out, open files, entries of pools."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        resident_pages = int(statm.read().split()[1])
    found = {
        "resident_bytes": resident_pages * _PAGE_BYTES,
        "files": len(os.listdir("/proc/self/fd")) - 1,  # listing opens one
    }
    if _mallinfo2 is not None:
        heap = _mallinfo2()
        found["heap_bytes"] = heap.uordblks + heap.hblkhd
    return {**found, **_pools()}


def _pools() -> dict[str, int]:
    """Of the node that Python has; over the fabric the provider has it."""
    from pagewire.native import ffi, lib
    from pagewire.transport.facade import here

    if not here.is_open:
        return {}
    pools = ffi.new("pw_ni_pools *")
    lib.pw_ni_read_pools(lib.pw_node_ni(here.node.c), pools)
    return {f"pool_{name}": int(getattr(pools, name)) for name in dir(pools)}
