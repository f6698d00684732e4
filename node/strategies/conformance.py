"""Is a memory strategy one that can be used? For its author's tests; needs no test framework.

    from pagewire.node.strategies.conformance import check_strategy

    def test_my_strategy():
        check_strategy(MyStrategy)

The strategy works on 64 real pages: spans of 1 B to all of them, for reading and writing, aligned
and not, overlapping, up to three at a time, released in either order, pages dropped in between.
`pagewire test --memory module:Class` does this.
"""

from __future__ import annotations

import mmap
from typing import NamedTuple

from pagewire.native import check, ffi, lib
from pagewire.native.conformance import Answer, Conformance
from pagewire.node.strategies.host import StrategyHost
from pagewire.node.strategies.pages import TABLES, Pages
from pagewire.node.strategies.strategy import PAGE_BYTES, Access, Cost, MemoryStrategy

_NUM_PAGES = 64
_NUM_BYTES = _NUM_PAGES * PAGE_BYTES
_ROUNDS = 4


class Question(NamedTuple):
    """One transfer, by its place in the buffer."""

    start: int
    num_bytes: int
    access: Access


_SPANS = (
    (0, 1),
    (PAGE_BYTES - 1, 2),
    (0, PAGE_BYTES),
    (5 * PAGE_BYTES + 77, 3 * PAGE_BYTES),
    (7 * PAGE_BYTES, 16 * PAGE_BYTES),
    (_NUM_BYTES - 1, 1),
    (0, _NUM_BYTES),
)


def questions() -> list[Question]:
    """The transfers that the strategy is asked about, the same at each call."""
    return [Question(*span, access) for access in Access for span in _SPANS]


class _PerPage:
    """A cost table of 1 us a page."""

    sizes_bytes = (PAGE_BYTES, 2 * PAGE_BYTES)
    costs_ns = (1_000, 2_000)


class _Buffer:
    """Real pages with known contents; some are taken away by `drop`."""

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._map = mmap.mmap(-1, _NUM_BYTES, flags=flags)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self._expected = bytearray((i * 7 + 1) % 251 for i in range(_NUM_BYTES))
        self._map[:] = bytes(self._expected)
        self.address = int(ffi.cast("uintptr_t", ffi.from_buffer(self._map)))

    def drop(self, page: int) -> None:
        """Take a page away, unless the strategy has pinned it; its contents become zero."""
        at = page * PAGE_BYTES
        try:
            self._map.madvise(mmap.MADV_DONTNEED, at, PAGE_BYTES)
        except OSError:
            return
        self._expected[at : at + PAGE_BYTES] = bytes(PAGE_BYTES)

    def check_contents(self, what: str) -> None:
        if self._map[:] != self._expected:
            raise AssertionError(f"the buffer's contents changed by {what}; leave the data alone")


def _answers(strategy: MemoryStrategy) -> list[Answer]:
    """The cost of each acquire and release."""
    memory = ffi.new("pw_memory **")
    options = ffi.new("pw_memory_model_options *")
    check(lib.pw_memory_create(lib.PW_MEMORY_HOST, options, memory), "memory backend")
    backend = ffi.gc(memory[0], lib.pw_memory_destroy)
    buffer = _Buffer()
    pages = Pages(backend, {name: _PerPage() for name in TABLES})
    host = StrategyHost(strategy, type(strategy).__name__)
    try:
        host.bind(pages)
        return _ask(host, buffer)
    except RuntimeError as error:
        raise AssertionError(str(error)) from error
    finally:
        host.close()


def _ask(host: StrategyHost, buffer: _Buffer) -> list[Answer]:
    given: list[Cost] = []
    asked = questions()
    for round_idx in range(_ROUNDS):
        num_at_once = 1 + round_idx % 3
        for begin in range(0, len(asked), num_at_once):
            for page in range(round_idx, _NUM_PAGES, 3):
                buffer.drop(page)
            leases = [
                host.acquire(buffer.address + each.start, each.num_bytes, each.access)
                for each in asked[begin : begin + num_at_once]
            ]
            given += [lease.cost for lease in leases]
            given += [host.release(lease) for lease in leases[:: -1 if round_idx % 2 else 1]]
        buffer.check_contents("acquire or release")
        host.invalidated(buffer.address // PAGE_BYTES, _NUM_PAGES)
    return [Answer(f"answer {idx}", cost) for idx, cost in enumerate(given)]


check_strategy = Conformance(_answers)
"""Called with a strategy's class: how many acquires and releases were looked at; AssertionError
says what is wrong."""
