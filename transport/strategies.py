"""Memory strategies: what is done to a buffer before its NI touches it, and after.

A strategy works for real on the host's pages and says what that costs the emulated CPU; costs over
size are the platform file's tables (MECHANISMS 6). Messages that ride in the envelope never come
here.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

from pagewire.native import EngineError, check, ffi, lib
from pagewire.transport.config import ConfigError
from pagewire.transport.platform import Platform

_PAGE_SHIFT = int(lib.PW_PAGE_SHIFT)
_PAGE_BYTES = int(lib.PW_PAGE_BYTES)


class Cost(NamedTuple):
    """CPU time that a strategy takes for one buffer, by kind, and what `release` needs to know."""

    touch_ns: int = 0
    pin_ns: int = 0
    token: Any = None


NOTHING = Cost()


def _pages(address: int, num_bytes: int) -> tuple[int, int]:
    first = address >> _PAGE_SHIFT
    return first, (address + num_bytes - 1 >> _PAGE_SHIFT) - first + 1


class MemoryStrategy(abc.ABC):
    """One object a rank. `prepare` runs when a transfer is posted, `release` when it is complete."""

    def __init__(self, memory: Any, platform: Platform) -> None:
        self._memory = memory
        self._platform = platform

    @abc.abstractmethod
    def prepare(self, address: int, num_bytes: int) -> Cost:
        """Make [address, +num_bytes) ready for the NI; num_bytes > 0."""

    def release(self, token: Any) -> Cost:
        """Undo what `prepare` returned `token` for."""
        return NOTHING


class Part(MemoryStrategy):
    """Nothing: pages fault at the NI and are brought in (PART)."""

    def prepare(self, address: int, num_bytes: int) -> Cost:
        return NOTHING


class Ideal(Part):
    """Nothing either: the engine is told that mapped pages never fault."""


class Pretouch(MemoryStrategy):
    """The first byte of each page is read and written before each transfer [PART 5]."""

    def __init__(self, memory: Any, platform: Platform) -> None:
        super().__init__(memory, platform)
        self._absent = ffi.new("uint64_t *")
        self._resident_table = platform.table("touch_resident")
        self._absent_table = platform.table("touch_absent")

    def prepare(self, address: int, num_bytes: int) -> Cost:
        first, count = _pages(address, num_bytes)
        code = lib.pw_memory_populate(self._memory, first, count, 1, self._absent)
        if code == lib.PW_ERR_PROTECTION:  # a source that is mapped read-only is only read
            code = lib.pw_memory_populate(self._memory, first, count, 0, self._absent)
        check(code, f"pre-touch of {num_bytes} bytes at {address:#x}")
        absent = self._absent[0]
        return Cost(
            touch_ns=self._resident_table.cost_ns((count - absent) * _PAGE_BYTES)
            + self._absent_table.cost_ns(absent * _PAGE_BYTES)
        )


class Pin(MemoryStrategy):
    """The buffer is pinned (mlock) before each transfer and unpinned after it."""

    def __init__(self, memory: Any, platform: Platform) -> None:
        super().__init__(memory, platform)
        self._absent = ffi.new("uint64_t *")
        self._tables = {
            name: platform.table(name) for name in ("pin_absent", "pin_resident", "unpin")
        }
        self._pinned: list[tuple[int, int]] = []

    def prepare(self, address: int, num_bytes: int) -> Cost:
        first, count = _pages(address, num_bytes)
        try:
            code = lib.pw_memory_pin(self._memory, first, count, self._absent)
            check(code, f"pin of {num_bytes} bytes at {address:#x}")
        except EngineError as error:
            if error.code == lib.PW_ERR_FULL:
                raise EngineError(
                    error.code,
                    f"run.memory = 'pin': {num_bytes} bytes cannot be pinned, the limit of locked "
                    "memory is reached; raise it (ulimit -l) or take another memory strategy",
                ) from None
            raise
        pages = (first, count)
        self._pinned.append(pages)
        absent = self._absent[0]
        cost_ns = self._tables["pin_resident"].cost_ns((count - absent) * _PAGE_BYTES)
        cost_ns += self._tables["pin_absent"].cost_ns(absent * _PAGE_BYTES)
        return Cost(pin_ns=cost_ns, token=pages)

    def release(self, token: Any) -> Cost:
        first, count = token
        self._pinned.remove(token)
        check(lib.pw_memory_unpin(self._memory, first, count), f"unpin of {count} pages")
        for other, length in self._pinned:  # pins do not nest: keep what other transfers still need
            if other < first + count and first < other + length:
                check(lib.pw_memory_pin(self._memory, other, length, self._absent), "pin again")
        return Cost(pin_ns=self._tables["unpin"].cost_ns(count * _PAGE_BYTES))


REGISTRY: Mapping[str, type[MemoryStrategy]] = {
    "part": Part,
    "pretouch": Pretouch,
    "ideal": Ideal,
    "pin": Pin,
}


def create(name: str, memory: Any, platform: Platform) -> MemoryStrategy:
    """The strategy of a name in the registry."""
    if name not in REGISTRY:
        raise ConfigError(f"run.memory = '{name}': allowed is one of {', '.join(REGISTRY)}")
    return REGISTRY[name](memory, platform)
