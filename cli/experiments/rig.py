"""Engines joined in one process, with real buffers: the bench of the experiments without MPI.

Two NIs, initiator and target, exchange their bursts directly, so a latency depends on the mechanism
and on nothing else. With `loopback` there is one NI that is both: its bursts come back to it over
no hop, and both ends' faults meet in one context bank, one handler and one tasklet. What it does
not have: MPI, other traffic, hosts' noise. Buffers are anonymous pages at 2 MB borders; residency
is the operating system's (backend `host`): absent pages are dropped by madvise and their
translations invalidated, as the OS would.

Latency is virtual time from the user's call (before touch or pin, where there is one) until the
initiator knows that the operation is complete: for a write the last block's acknowledgement at the
source's R5, for a read the notification behind the last byte. `arrival_ns` is the same until the
target's completion notification of a write.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pagewire.native import EngineError, check, ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.transport.memory import host as memory_host
from pagewire.transport.memory.pages import Pages
from pagewire.transport.memory.strategy import Access
from pagewire.transport.node.engine import PDID, Engine, TraceRecord
from pagewire.transport.node.joined import Joined
from pagewire.transport.settings.config import Config
from pagewire.transport.settings.platform import Platform
from pagewire.transport.settings.platform import load as load_platform

PAGE_BYTES = int(lib.PW_PAGE_BYTES)
_TABLE_BYTES = 512 * PAGE_BYTES
INITIATOR, TARGET = 0, 1

GAP_NS = 20_000_000
"""Virtual rest between two transfers, so that nothing of the first meets the second."""
TRACE_RECORDS = 400_000
RESIDENT = "resident"
ABSENT = "absent"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One transfer."""

    latency_ns: int
    """user's call to completion at the initiator, touch or pin included"""
    arrival_ns: int
    """user's call to the completion notification at the receiver"""
    prepare_ns: int
    """touch or pin before the transfer"""
    absent_pages: int
    """pages of the destination and of the source that were absent at the user's call"""
    trace: tuple[TraceRecord, ...]
    counters: dict[str, int]
    """what both NIs counted during the transfer"""


class Buffer:
    """Anonymous pages; which of them are resident is the user's business.

    They begin where a last-level page table does (2 MB), so that no walk depends on the run.
    """

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self.num_pages = -(-num_bytes // PAGE_BYTES)
        length = self.num_pages * PAGE_BYTES + _TABLE_BYTES
        self._map = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self._view = ffi.from_buffer(self._map)
        base = int(ffi.cast("uintptr_t", self._view))
        self.address = -(-base // _TABLE_BYTES) * _TABLE_BYTES
        self._start = self.address - base

    @property
    def first_page(self) -> int:
        return self.address // PAGE_BYTES

    def touch(self) -> None:
        """Make every page resident and private."""
        for page in range(self.num_pages):
            at = self._start + page * PAGE_BYTES
            self._map[at] = self._map[at]

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

    def read(self) -> bytes:
        return self._map[self._start : self._start + self.num_bytes]


class Nodes(Joined):
    """The nodes of a run, their events as times, their counters as sums."""

    def __init__(self, config: Config, platform: Platform, num_nodes: int = 2) -> None:
        super().__init__(
            [Engine.of_config(config, platform, node, num_nodes) for node in range(num_nodes)]
        )
        self._watching: Callable[[int, Any], None] | None = None
        self._times: dict[tuple[int, int], int] = {}

    @property
    def target(self) -> int:
        """The node that is written to or read from; of a loopback the initiator itself."""
        return min(TARGET, len(self.engines) - 1)

    def write(self, source: Buffer, destination: Buffer, num_bytes: int, at_ns: int) -> None:
        """The initiator writes to the target; at_ns is the user's call."""
        key, stream = ffi.new("uint64_t *"), ffi.new("uint32_t *")
        ni, addresses = self.engines[INITIATOR].ni, (source.address, destination.address)
        code = lib.pw_ni_write(
            ni, PDID, self.target, *addresses, num_bytes, ffi.NULL, at_ns, key, stream
        )
        check(code, "write")

    def read(self, source: Buffer, destination: Buffer, num_bytes: int, at_ns: int) -> None:
        """The initiator reads the target's buffer."""
        key, fetch = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        code = lib.pw_ni_expose(
            self.engines[self.target].ni, INITIATOR, source.address, num_bytes, ffi.NULL, key
        )
        check(code, "expose")
        code = lib.pw_ni_fetch(
            self.engines[INITIATOR].ni,
            PDID,
            self.target,
            source.address,
            key[0],
            destination.address,
            num_bytes,
            at_ns,
            fetch,
        )
        check(code, "read")

    def handle(self, node: int, event: Any) -> None:
        if self._watching is not None:
            self._watching(node, event)
            return
        check(event.error, "transfer")
        self._times[node, event.kind] = event.time_ns

    def times(self) -> dict[tuple[int, int], int]:
        """Until nothing is left to do; time of each host event by node and kind."""
        self._times = {}
        self.run()
        return self._times

    def watch(self, handle: Callable[[int, Any], None]) -> None:
        """The same, but `handle(node, event)` gets each event when it happens, and may post."""
        self._watching = handle
        try:
            self.run(one_by_one=True)
        finally:
            self._watching = None

    def trace_since(self, since_ns: int) -> tuple[TraceRecord, ...]:
        """Records of all NIs in time order, times counted from since_ns."""
        return tuple(each._replace(time_ns=each.time_ns - since_ns) for each in self.trace())

    def counters(self) -> dict[str, int]:
        """Sums over the NIs; nacks as one number."""
        total: dict[str, int] = {}
        for engine in self.engines:
            for name, value in engine.counters().items():
                count = sum(value) if isinstance(value, list) else value
                total[name] = total.get(name, 0) + count
        return total


class Rig:
    """Engines with a source and a destination buffer; transfers follow each other at rest."""

    def __init__(self, config: Config, max_bytes: int, *, loopback: bool = False) -> None:
        """config: settings of the NIs. max_bytes: largest transfer to come. loopback: one NI."""
        if config.memory_backend.backend != "host":
            raise ConfigError(
                "memory_backend.backend = 'model': these experiments drop real pages, use 'host'"
            )
        self.platform = load_platform(config.run.platform)
        self.nodes = Nodes(config, self.platform, 1 if loopback else 2)
        self._buffers = (Buffer(max_bytes), Buffer(max_bytes))
        self._now_ns = 0
        source, _ = self._buffers
        unit = bytes((i * 7 + 1) % 251 for i in range(251))
        self._data = (unit * (max_bytes // 251 + 1))[:max_bytes]
        source.fill(self._data)
        self._warm_bytes = 0

    def transfer(
        self,
        num_bytes: int,
        *,
        operation: str = "write",
        source_absent: Iterable[int] = (),
        destination_absent: Iterable[int] = (),
        strategy: str = "part",
        traced: bool = False,
    ) -> Outcome:
        """One transfer of num_bytes.

        source_absent, destination_absent: indices of pages that are not there at the user's call.
        strategy: the memory strategy (`run.memory`) that prepares the destination; undoing it
        afterwards is not counted. traced: keep the trace.
        """
        if num_bytes > self._warm_bytes:  # the TLBs know the buffers from transfers before
            self._warm_bytes = num_bytes
            self._transfer(num_bytes, operation, [], [], "part", False)
        absent = (list(source_absent), list(destination_absent))
        return self._transfer(num_bytes, operation, *absent, strategy, traced)

    def _transfer(
        self,
        num_bytes: int,
        operation: str,
        source_absent: list[int],
        destination_absent: list[int],
        strategy: str,
        traced: bool,
    ) -> Outcome:
        source, destination = self._buffers
        source.fill(self._data[:num_bytes])
        ends = (INITIATOR, self.nodes.target)
        source_node, destination_node = ends if operation == "write" else ends[::-1]
        destination.touch()
        for node, buffer, pages in (
            (source_node, source, source_absent),
            (destination_node, destination, destination_absent),
        ):
            if pages:
                buffer.drop(pages)
                self.nodes.engines[node].invalidate(buffer.first_page, buffer.num_pages)
        expected = bytearray(self._data[:num_bytes])
        for page in source_absent:
            at = page * PAGE_BYTES
            expected[at : at + PAGE_BYTES] = bytes(len(expected[at : at + PAGE_BYTES]))
        host_pages = Pages(self.nodes.engines[destination_node].memory, self.platform.tables)
        with contextlib.closing(memory_host.create(strategy, host_pages)) as preparing:
            lease = preparing.acquire(destination.address, num_bytes, Access.WRITE)
            prepare_ns = sum(lease.cost)
            if traced:
                self.nodes.trace_start(TRACE_RECORDS)
            before = self.nodes.counters()
            call_ns = self._now_ns
            post = self.nodes.write if operation == "write" else self.nodes.read
            post(source, destination, num_bytes, call_ns + prepare_ns)
            times = self.nodes.times()
            preparing.release(lease)
        counters = {name: value - before[name] for name, value in self.nodes.counters().items()}
        if destination.read()[:num_bytes] != expected:
            raise EngineError(int(lib.PW_ERR_HOST), f"{operation} of {num_bytes} bytes: wrong data")
        if not self.nodes.is_quiet:
            raise EngineError(int(lib.PW_ERR_HOST), f"{operation} of {num_bytes} bytes: not over")
        if operation == "write":
            done_ns = times[INITIATOR, lib.PW_HOST_WRITE_DONE]
            arrived_ns = times[destination_node, lib.PW_HOST_ARRIVED]
        else:
            done_ns = arrived_ns = times[INITIATOR, lib.PW_HOST_FETCH_DONE]
        self._now_ns = max(times.values()) + GAP_NS
        return Outcome(
            latency_ns=done_ns - call_ns,
            arrival_ns=arrived_ns - call_ns,
            prepare_ns=prepare_ns,
            absent_pages=len(source_absent) + len(destination_absent),
            trace=self.nodes.trace_since(call_ns) if traced else (),
            counters=counters,
        )


def all_pages(num_bytes: int) -> range:
    """Indices of all pages of a transfer."""
    return range(-(-num_bytes // PAGE_BYTES))


def random_pages(num_bytes: int, fraction: float, draw: random.Random) -> list[int]:
    """Pages that are absent when each is so with this probability, on its own."""
    return [page for page in all_pages(num_bytes) if draw.random() < fraction]
