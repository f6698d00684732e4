"""Engines joined in one process, with real buffers: the bench of the experiments without MPI.

Two NIs, initiator and target, exchange their bursts directly, so a latency depends on the mechanism
and on nothing else. With `loopback` there is one NI that is both: its bursts come back to it over no
hop, and both ends' faults meet in one context bank, one handler and one tasklet. What it does not
have: MPI, other traffic, hosts' noise. Buffers are anonymous pages at 2 MB borders; residency is the
operating system's (backend `host`): absent pages are dropped
by madvise and their translations invalidated, as the OS would.

Latency is virtual time from the user's call (before touch or pin, where there is one) until the
initiator knows that the operation is complete: for a write the last block's acknowledgement at the
source's R5, for a read the notification behind the last byte. `arrival_ns` is the same until the
target's completion notification of a write.
"""

from __future__ import annotations

import dataclasses
import mmap
import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pagewire.native import EngineError, check, faults, ffi, lib
from pagewire.native.domains import open_domain
from pagewire.native.settings import ConfigError
from pagewire.smmu import policy
from pagewire.smmu.policy_host import DECISION, PolicyHost
from pagewire.transport.config import Config
from pagewire.transport.platform import Platform
from pagewire.transport.platform import load as load_platform

PAGE_BYTES = int(lib.PW_PAGE_BYTES)
_TABLE_BYTES = 512 * PAGE_BYTES
INITIATOR, TARGET = 0, 1

_PDID = 1
_FOREVER = 2**63 - 1
_MADV_NOHUGEPAGE = 15
GAP_NS = 20_000_000
"""Virtual rest between two transfers, so that nothing of the first meets the second."""
_TRACE_RECORDS = 400_000
_KIND_NAMES: dict[int, str] = {
    value: name.removeprefix("PW_TRACE_").lower()
    for value, name in ffi.typeof("enum pw_trace_kind").elements.items()
}

RESIDENT = "resident"
ABSENT = "absent"


class Record(NamedTuple):
    """One line of the trace; times count from the user's call."""

    time_ns: int
    node: int
    kind: str
    a: int
    b: int


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
    trace: tuple[Record, ...]
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
        self._map.madvise(_MADV_NOHUGEPAGE)
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


class Engines:
    """NIs that hand their bursts to each other in the order in which they were sent."""

    def __init__(self, config: Config, platform: Platform, num_nodes: int = 2) -> None:
        settings = _struct("pw_settings", config.engine_settings())
        costs = _struct("pw_costs", platform.costs.as_dict())
        self._kept: list[Any] = [settings, costs]
        self.nis: list[Any] = []
        self._page_in: list[PolicyHost] = []
        for node in range(num_nodes):
            memory_options = ffi.new("pw_memory_model_options *")
            memory = ffi.new("pw_memory **")
            code = lib.pw_memory_create(settings.memory_backend, memory_options, memory)
            check(code, "memory backend")
            self._kept.append(ffi.gc(memory[0], lib.pw_memory_destroy))
            ni = ffi.new("pw_ni **")
            check(lib.pw_ni_create(costs, settings, node, num_nodes, memory[0], ni), "engine")
            self.nis.append(ffi.gc(ni[0], lib.pw_ni_destroy))
            faults.plan(ni[0], config.faults)
            open_domain(ni[0], _PDID)
            if not policy.is_built_in(config.run.policy):
                own = policy.load(config.run.policy)
                self._page_in.append(PolicyHost(ni[0], memory[0], own, config.run.policy))
        self._links: deque[tuple[int, int, bytes]] = deque()
        self._events = ffi.new("pw_host_event[16]")

    @property
    def target(self) -> int:
        """The node that is written to or read from; of a loopback the initiator itself."""
        return min(TARGET, len(self.nis) - 1)

    def write(self, source: Buffer, destination: Buffer, num_bytes: int, at_ns: int) -> None:
        """The initiator writes to the target; at_ns is the user's call."""
        key, stream = ffi.new("uint64_t *"), ffi.new("uint32_t *")
        ni, addresses = self.nis[INITIATOR], (source.address, destination.address)
        code = lib.pw_ni_write(ni, _PDID, self.target, *addresses, num_bytes, at_ns, key, stream)
        check(code, "write")

    def read(self, source: Buffer, destination: Buffer, num_bytes: int, at_ns: int) -> None:
        """The initiator reads the target's buffer."""
        key, fetch = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        code = lib.pw_ni_expose(self.nis[self.target], INITIATOR, source.address, num_bytes, key)
        check(code, "expose")
        code = lib.pw_ni_fetch(
            self.nis[INITIATOR],
            _PDID,
            self.target,
            source.address,
            key[0],
            destination.address,
            num_bytes,
            at_ns,
            fetch,
        )
        check(code, "read")

    def run(self) -> dict[tuple[int, int], int]:
        """Until nothing is left to do; time of each host event by node and kind."""
        times: dict[tuple[int, int], int] = {}
        busy = True
        while busy:
            busy = self.deliver()
            for node, ni in enumerate(self.nis):
                count = lib.pw_ni_run(ni, _FOREVER, self._events, 16)
                check(count, "run")
                busy = busy or count > 0
                for event in self._events[0:count]:
                    if event.kind == DECISION:
                        self._page_in[node].answer(event.id)
                        continue
                    check(event.error, "transfer")
                    times[node, event.kind] = event.time_ns
            busy = self.deliver() or busy
        return times

    def deliver(self) -> bool:
        """Hand over every burst that waits; True when there was one."""
        burst = ffi.new("pw_burst *")
        for node, ni in enumerate(self.nis):
            while lib.pw_ni_tx_burst(ni, burst):
                data = bytes(ffi.buffer(burst.data, burst.num_bytes))
                self._links.append((node, int(burst.peer), data))
                lib.pw_ni_tx_release(ni, burst.data)
        delivered = bool(self._links)
        while self._links:
            node, peer, data = self._links.popleft()
            code = lib.pw_ni_rx_burst(self.nis[peer], node, ffi.from_buffer(data), len(data))
            check(code, "burst")
        return delivered

    def invalidate(self, node: int, buffer: Buffer) -> None:
        lib.pw_ni_invalidate(self.nis[node], _PDID, buffer.first_page, buffer.num_pages)

    def trace_start(self) -> None:
        for ni in self.nis:
            check(lib.pw_ni_trace_start(ni, _TRACE_RECORDS), "trace")

    def trace(self, since_ns: int) -> tuple[Record, ...]:
        """Records of all NIs in time order, times counted from since_ns."""
        found: list[Record] = []
        for node, ni in enumerate(self.nis):
            records = ffi.new("pw_trace_record **")
            count = lib.pw_ni_trace_read(ni, records)
            found += [
                Record(r.time_ns - since_ns, node, _KIND_NAMES[r.kind], r.a, r.b)
                for r in records[0][0:count]
            ]
        return tuple(sorted(found, key=lambda record: record.time_ns))

    def counters(self) -> dict[str, int]:
        """Sums over the NIs; nacks as one number."""
        out = ffi.new("pw_counters *")
        total: dict[str, int] = {}
        for ni in self.nis:
            lib.pw_ni_read_counters(ni, out)
            for name, _ in ffi.typeof("pw_counters").fields:
                value = getattr(out, name)
                count = int(value) if isinstance(value, int) else sum(value)
                total[name] = total.get(name, 0) + count
        return total

    @property
    def is_quiet(self) -> bool:
        """Nothing pending: every transfer, transaction and region was returned."""
        return all(
            lib.pw_ni_num_pending(ni) == 0 and lib.pw_ni_num_transactions(ni) == 0
            for ni in self.nis
        )


class Rig:
    """Engines with a source and a destination buffer; transfers follow each other at rest."""

    def __init__(self, config: Config, max_bytes: int, *, loopback: bool = False) -> None:
        """config: settings of the NIs. max_bytes: largest transfer to come. loopback: one NI."""
        if config.memory_backend.backend != "host":
            raise ConfigError(
                "memory_backend.backend = 'model': these experiments drop real pages, use 'host'"
            )
        self.platform = load_platform(config.run.platform)
        self.engines = Engines(config, self.platform, 1 if loopback else 2)
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
        strategy: str = "none",
        traced: bool = False,
    ) -> Outcome:
        """One transfer of num_bytes.

        source_absent, destination_absent: indices of pages that are not there at the user's call.
        strategy: what is done to the destination before, `none`, `touch` or `pin`; its cost is the
        platform's table and the pages are there afterwards. traced: keep the trace.
        """
        if num_bytes > self._warm_bytes:  # the TLBs know the buffers from transfers before
            self._warm_bytes = num_bytes
            self._transfer(num_bytes, operation, [], [], 0, False)
        num_pages = -(-num_bytes // PAGE_BYTES)
        absent = list(destination_absent)
        prepare_ns = 0
        if strategy != "none":
            tables = self.platform.tables
            prepare_ns = tables[f"{strategy}_absent"].cost_ns(len(absent) * PAGE_BYTES)
            rest_bytes = (num_pages - len(absent)) * PAGE_BYTES
            prepare_ns += tables[f"{strategy}_resident"].cost_ns(rest_bytes)
        return self._transfer(num_bytes, operation, list(source_absent), absent, prepare_ns, traced)

    def _transfer(
        self,
        num_bytes: int,
        operation: str,
        source_absent: list[int],
        destination_absent: list[int],
        prepare_ns: int,
        traced: bool,
    ) -> Outcome:
        source, destination = self._buffers
        source.fill(self._data[:num_bytes])
        ends = (INITIATOR, self.engines.target)
        source_node, destination_node = ends if operation == "write" else ends[::-1]
        destination.touch()
        for node, buffer, pages in (
            (source_node, source, source_absent),
            (destination_node, destination, destination_absent),
        ):
            if pages:
                buffer.drop(pages)
                self.engines.invalidate(node, buffer)
        expected = bytearray(self._data[:num_bytes])
        for page in source_absent:
            at = page * PAGE_BYTES
            expected[at : at + PAGE_BYTES] = bytes(len(expected[at : at + PAGE_BYTES]))
        if prepare_ns:
            destination.touch()
        if traced:
            self.engines.trace_start()
        before = self.engines.counters()
        call_ns = self._now_ns
        post = self.engines.write if operation == "write" else self.engines.read
        post(source, destination, num_bytes, call_ns + prepare_ns)
        times = self.engines.run()
        counters = {name: value - before[name] for name, value in self.engines.counters().items()}
        if destination.read()[:num_bytes] != expected:
            raise EngineError(int(lib.PW_ERR_HOST), f"{operation} of {num_bytes} bytes: wrong data")
        if not self.engines.is_quiet:
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
            trace=self.engines.trace(call_ns) if traced else (),
            counters=counters,
        )


def all_pages(num_bytes: int) -> range:
    """Indices of all pages of a transfer."""
    return range(-(-num_bytes // PAGE_BYTES))


def random_pages(num_bytes: int, fraction: float, draw: random.Random) -> list[int]:
    """Pages that are absent when each is so with this probability, on its own."""
    return [page for page in all_pages(num_bytes) if draw.random() < fraction]


def _struct(name: str, values: dict[str, int]) -> Any:
    out = ffi.new(f"{name} *")
    fields = {field for field, _ in ffi.typeof(name).fields}
    if fields != set(values):
        raise ConfigError(f"{name} and its settings differ: {sorted(fields ^ set(values))}")
    for field, value in values.items():
        setattr(out, field, value)
    return out
