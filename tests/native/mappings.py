"""Mappings of this process at places of the test's choice, and a child that shares them."""

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterator

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = LIBC.mremap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.mremap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 2, ctypes.c_int, ctypes.c_void_p]
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
MAP_FIXED = 0x10


def map_at(address: int, num_bytes: int, protection: int = READ_WRITE) -> None:
    """Fresh pages in place of what is there."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
    assert LIBC.mmap(address, num_bytes, protection, flags, -1, 0) == address


def unmap(address: int, num_bytes: int) -> None:
    assert LIBC.munmap(address, num_bytes) == 0


class FarPages:
    """Fresh pages where no allocation will ever go: a hole in them stays a hole, and whoever gives
    them back as a whole takes nothing from others. Once all are given back they begin again at the
    same place, so that tests have the same addresses in any order.
    """

    PLACE = 0x2400_0000_0000
    _ROUND_BYTES = 64 << 10
    _next = PLACE
    _num_live = 0

    def __init__(self, num_bytes: int) -> None:
        self.address, self.num_bytes = FarPages._next, num_bytes
        map_at(self.address, num_bytes)
        self.advise(mmap.MADV_NOHUGEPAGE)
        # a gap behind them, of a page at least
        FarPages._next += num_bytes // self._ROUND_BYTES * self._ROUND_BYTES + self._ROUND_BYTES * 2
        FarPages._num_live += 1
        pages = (ctypes.c_char * num_bytes).from_address(self.address)
        self.bytes = memoryview(pages).cast("B")

    def advise(self, advice: int, first_byte: int = 0, num_bytes: int | None = None) -> None:
        length = self.num_bytes if num_bytes is None else num_bytes
        assert LIBC.madvise(self.address + first_byte, length, advice) == 0

    def close(self) -> None:
        """Unmap them, holes too."""
        if self.num_bytes:
            unmap(self.address, self.num_bytes)
            self.num_bytes = 0
            FarPages._num_live -= 1
            if not FarPages._num_live:
                FarPages._next = FarPages.PLACE

    def __del__(self) -> None:
        self.close()


class FarBuffer:
    """Resident pages at one of some places where no allocation will ever go."""

    PLACE = 0x2000_0000_0000

    def __init__(self, num_bytes: int, slot: int) -> None:
        self.address = self.PLACE + slot * (1 << 32)
        self.num_bytes = num_bytes
        map_at(self.address, num_bytes)
        LIBC.madvise(self.address, num_bytes, mmap.MADV_NOHUGEPAGE)
        ctypes.memset(self.address, slot + 1, num_bytes)

    def unmap(self) -> None:
        unmap(self.address, self.num_bytes)

    def protect(self, protection: int) -> None:
        assert LIBC.mprotect(self.address, self.num_bytes, protection) == 0


@contextlib.contextmanager
def forked_child() -> Iterator[None]:
    """A child that shares this process's pages and does nothing."""
    end, begin = os.pipe()
    child = os.fork()
    if not child:
        os.close(begin)
        os.read(end, 1)
        os._exit(0)
    try:
        yield
    finally:
        os.close(begin)
        os.close(end)
        os.waitpid(child, 0)
