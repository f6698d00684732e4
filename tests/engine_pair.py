"""Engines joined in one process: the network of the unit tests.

`Pair` builds engines on one memory backend each, hands bursts over at once and runs all of them until
nothing is left, so that what a test sees depends on the mechanism and on nothing else.
"""

from __future__ import annotations

import dataclasses
import mmap
from collections.abc import Iterator

from pagewire.native import check, ffi, lib
from pagewire.transport.config import load
from pagewire.transport.platform import load as load_platform

PAGE = 4096
MADV_NOHUGEPAGE = 15
PDID = 7


@dataclasses.dataclass(frozen=True)
class Event:
    """A host event of one engine."""

    node: int
    kind: int
    error: int
    id: int
    time_ns: int
    num_bytes: int


class Buffer:
    """Anonymous pages whose residency is the test's own business; `skew` shifts the start."""

    def __init__(self, num_bytes: int, skew: int = 0) -> None:
        length = (num_bytes + skew + PAGE - 1) // PAGE * PAGE + PAGE
        self.map = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.map.madvise(MADV_NOHUGEPAGE)
        self.view = ffi.from_buffer(self.map)
        self.base = int(ffi.cast("uintptr_t", self.view))
        self.address = self.base + skew
        self.num_bytes = num_bytes
        self.skew = skew

    def fill(self, data: bytes) -> None:
        self.map[self.skew : self.skew + len(data)] = data

    def read(self) -> bytes:
        return self.map[self.skew : self.skew + self.num_bytes]

    def drop(self) -> None:
        """Take every page away (contents become zero)."""
        self.map.madvise(mmap.MADV_DONTNEED)

    def touch(self) -> None:
        for offset in range(0, len(self.map), PAGE):
            self.map[offset] = self.map[offset]

    @property
    def first_page(self) -> int:
        return self.address // PAGE

    @property
    def num_pages(self) -> int:
        return (self.address + max(self.num_bytes, 1) - 1) // PAGE - self.first_page + 1


def struct(name: str, values: dict[str, int]) -> object:
    """A config struct of the engine, every field set by name."""
    out = ffi.new(f"{name} *")
    for field in values:
        setattr(out, field, values[field])
    return out


class Pair:
    """`num_nodes` engines; `settings` overrides the engine's settings by field name."""

    def __init__(self, num_nodes: int = 2, costs: dict[str, int] | None = None, **settings: int) -> None:
        base = load(environ={}).engine_settings()
        unknown = set(settings) - set(base)
        assert not unknown, unknown
        self.costs = struct("pw_costs", load_platform("exanest-qfdb").costs.as_dict() | (costs or {}))
        self.settings = struct("pw_settings", base | settings)
        self.memories = []
        self.nis = []
        for node in range(num_nodes):
            options = ffi.new("pw_memory_model_options *")
            options.seed = self.settings.model_seed + node
            options.fault_millionths = self.settings.model_fault_millionths
            memory = ffi.new("pw_memory **")
            check(lib.pw_memory_create(self.settings.memory_backend, options, memory), "memory")
            ni = ffi.new("pw_ni **")
            check(
                lib.pw_ni_create(self.costs, self.settings, node, num_nodes, memory[0], ni), "engine"
            )
            self.memories.append(ffi.gc(memory[0], lib.pw_memory_destroy))
            self.nis.append(ffi.gc(ni[0], lib.pw_ni_destroy))
            check(lib.pw_ni_open_domain(ni[0], PDID), "domain")
        self.events: list[Event] = []
        self._out = ffi.new("pw_host_event[16]")

    def write(self, source: Buffer, destination: Buffer, *, at_ns: int = 0, node: int = 0, peer: int = 1, num_bytes: int | None = None, pdid: int = PDID) -> int:
        """Post a write; returns its id."""
        id_, stream = ffi.new("uint64_t *"), ffi.new("uint32_t *")
        length = source.num_bytes if num_bytes is None else num_bytes
        check(lib.pw_ni_write(self.nis[node], pdid, peer, source.address, destination.address, length, at_ns, id_, stream), "write")
        return int(id_[0])

    def read(self, source: Buffer, destination: Buffer, *, at_ns: int = 0, node: int = 1, peer: int = 0, key: int | None = None) -> int:
        """Expose the source at `peer` and let `node` fetch it; returns the fetch's id."""
        id_, exposed = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        if key is None:
            check(lib.pw_ni_expose(self.nis[peer], node, source.address, source.num_bytes, exposed), "expose")
            key = exposed[0]
        check(lib.pw_ni_fetch(self.nis[node], PDID, peer, source.address, key, destination.address, source.num_bytes, at_ns, id_), "fetch")
        return int(id_[0])

    def deliver(self, drop: float = 0.0) -> bool:
        """Hand over every burst that waits; True when there was one."""
        burst, any_burst = ffi.new("pw_burst *"), False
        for node, ni in enumerate(self.nis):
            while lib.pw_ni_tx_burst(ni, burst):
                any_burst = True
                check(lib.pw_ni_rx_burst(self.nis[burst.peer], node, burst.data, burst.num_bytes), "rx")
                lib.pw_ni_tx_release(ni, burst.data)
        return any_burst

    def run(self, horizon_ns: int = 2**63 - 1, limit: int = 1_000_000) -> list[Event]:
        """Until nothing is left to do; the host events of this run in the order they came up."""
        start = len(self.events)
        for _ in range(limit):
            busy = self.deliver()
            for node, ni in enumerate(self.nis):
                count = lib.pw_ni_run(ni, horizon_ns, self._out, 16)
                busy = busy or count > 0
                for event in self._out[0:count]:
                    self.events.append(Event(node, event.kind, event.error, event.id, event.time_ns, event.num_bytes))
            if not busy and not self.deliver():
                return self.events[start:]
        raise AssertionError("the engines do not come to rest")

    def counters(self, node: int) -> object:
        out = ffi.new("pw_counters *")
        lib.pw_ni_read_counters(self.nis[node], out)
        return out

    def trace(self, capacity: int = 10_000) -> None:
        for ni in self.nis:
            check(lib.pw_ni_trace_start(ni, capacity), "trace")

    def log(self) -> Iterator[tuple[int, int, str, int, int]]:
        """(time, node, kind, a, b) of every engine's trace, in time order."""
        names = {value: name.removeprefix("PW_TRACE_").lower() for value, name in ffi.typeof("enum pw_trace_kind").elements.items()}
        rows = []
        for node, ni in enumerate(self.nis):
            records = ffi.new("pw_trace_record **")
            count = lib.pw_ni_trace_read(ni, records)
            rows += [(r.time_ns, node, names[r.kind], r.a, r.b) for r in records[0][0:count]]
        return iter(sorted(rows))

    def assert_quiet(self) -> None:
        """Nothing pending: every table entry and ticket was returned."""
        for ni in self.nis:
            assert lib.pw_ni_num_pending(ni) == 0
            assert lib.pw_ni_num_transactions(ni) == 0
