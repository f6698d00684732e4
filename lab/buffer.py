"""Real memory for transfers without MPI: which of its pages are there is the user's business."""

import mmap
from collections.abc import Iterable, Sequence

from pagewire.native import ffi, lib

PAGE_BYTES = int(lib.PW_PAGE_BYTES)
_TABLE_BYTES = 512 * PAGE_BYTES
_GIGABYTE = 512 * _TABLE_BYTES
"""What one table of the last level but one maps."""


class Buffer:
    """Anonymous pages; which of them are resident is the user's business.

    They begin where a last-level page table does (2 MB) and, up to 1 GB, share every table above
    it, so that no walk depends on the run.
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self.num_pages = -(-num_bytes // PAGE_BYTES)
        length = self.num_pages * PAGE_BYTES
        self._reserve(length + _TABLE_BYTES)
        if length <= _GIGABYTE and self.address // _GIGABYTE != self._last // _GIGABYTE:
            self._reserve(2 * length + _TABLE_BYTES)
            if self.address // _GIGABYTE != self._last // _GIGABYTE:
                self._begin_at(self._last // _GIGABYTE * _GIGABYTE)

    def _reserve(self, length: int) -> None:
        self._map = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self._view = ffi.from_buffer(self._map)
        self._base = int(ffi.cast("uintptr_t", self._view))
        self._begin_at(-(-self._base // _TABLE_BYTES) * _TABLE_BYTES)

    def _begin_at(self, address: int) -> None:
        self.address = address
        self._start = address - self._base

    @property
    def _last(self) -> int:
        return self.address + self.num_pages * PAGE_BYTES - 1

    @property
    def first_page(self) -> int:
        return self.address // PAGE_BYTES

    def touch(self) -> None:
        """Make every page resident and private."""
        one_a_page = slice(self._start, self._start + self.num_pages * PAGE_BYTES, PAGE_BYTES)
        self._map[one_a_page] = self._map[one_a_page]

    def drop(self, pages: Iterable[int]) -> None:
        """Take these pages away, by index; their contents become zero."""
        run: list[int] = []
        for page in sorted(pages):
            if run and page != run[-1] + 1:
                self._drop_run(run)
                run = []
            run.append(page)
        if run:
            self._drop_run(run)

    def _drop_run(self, run: Sequence[int]) -> None:
        at = self._start + run[0] * PAGE_BYTES
        self._map.madvise(mmap.MADV_DONTNEED, at, len(run) * PAGE_BYTES)

    def fill(self, data: bytes) -> None:
        self._map[self._start : self._start + len(data)] = data

    def read(self, num_bytes: int | None = None) -> bytes:
        """The first num_bytes, or all."""
        length = self.num_bytes if num_bytes is None else num_bytes
        return self._map[self._start : self._start + length]


def buffers_of_one_gigabyte(count: int, num_bytes: int) -> list[Buffer]:
    """So many whose walks differ in the last table alone, as far as a gigabyte has room for them.

    Else what a walk finds in the cache of upper tables would depend on where the OS puts them.
    """
    made: list[Buffer] = []
    for _ in range(4 * count):
        made.append(Buffer(num_bytes))
        last = made[-count:]
        if len(last) == count and len({each.address // _GIGABYTE for each in last}) == 1:
            break
    return made[-count:]
