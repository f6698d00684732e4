"""Engines joined in one process, with what tests post and what they look at."""

import dataclasses
import enum
import functools
import mmap
from collections import deque
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from mappings import FarPages

from pagewire.driver.policy import ErrPolicy, PageInPolicy
from pagewire.driver.policy_host import OwnPolicies
from pagewire.lab.engine import Engine
from pagewire.lab.joined import Engines
from pagewire.native import EngineError, check, ffi, impairments, lib
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.ni.engine_view import NEVER
from pagewire.run.settings.config import load
from pagewire.run.settings.platform import load as load_platform
from pagewire.smmu.registers import ContextBank

PAGE = 4096
BLOCK = 16384
PACKET = 256
PDID = 7
FOREVER = NEVER
"""A horizon that ends nothing."""
AT_ONCE = -(2**63)
"""Time of an event that waits for a decision."""
EVENTS_AT_ONCE = 16
DONE, ARRIVED, FETCHED = lib.PW_HOST_WRITE_DONE, lib.PW_HOST_ARRIVED, lib.PW_HOST_FETCH_DONE
NOWHERE = 3 << 44
"""An address far from where programs, the kernel and sanitizers map anything by themselves."""


class Policy(enum.IntEnum):
    """The engine's own page-in policies."""

    PAGE = lib.PW_POLICY_PAGE
    BLOCK = lib.PW_POLICY_BLOCK
    ALL = lib.PW_POLICY_ALL


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
    """Anonymous pages whose residency is the test's own business; `skew` shifts the start from a
    block's border.

    Its blocks are mapped whole, and at least a page before and behind them, so that a test can see
    writes outside of the buffer.
    """

    def __init__(self, num_bytes: int, skew: int = 0) -> None:
        num_blocks = (num_bytes + skew) // BLOCK + 1
        self.pages = FarPages(BLOCK + num_blocks * BLOCK)
        self.map = self.pages.bytes
        self.start = BLOCK + skew
        self.address = self.pages.address + self.start
        self.num_bytes = num_bytes

    def fill(self, data: bytes) -> None:
        self.map[self.start : self.start + len(data)] = data

    def read(self) -> bytes:
        return bytes(self.map[self.start : self.start + self.num_bytes])

    def around(self) -> tuple[bytes, bytes]:
        """The bytes before and behind the buffer."""
        return bytes(self.map[: self.start]), bytes(self.map[self.start + self.num_bytes :])

    def drop(self, page: int | None = None) -> None:
        """Take every page away, or the buffer's page of that index (contents become zero)."""
        if page is None:
            self.pages.advise(mmap.MADV_DONTNEED)
        else:
            first = self.start // PAGE * PAGE
            self.pages.advise(mmap.MADV_DONTNEED, first + page * PAGE, PAGE)

    def touch(self) -> None:
        for offset in range(0, len(self.map), PAGE):
            self.map[offset] = self.map[offset]

    @property
    def first_page(self) -> int:
        return self.address // PAGE

    @property
    def num_pages(self) -> int:
        return (self.address + max(self.num_bytes, 1) - 1) // PAGE - self.first_page + 1


def resident(
    num_bytes: int, source_skew: int = 0, destination_skew: int = 0
) -> tuple[Buffer, Buffer]:
    """A filled source and a destination, every page present."""
    source, destination = Buffer(num_bytes, source_skew), Buffer(num_bytes, destination_skew)
    source.touch()
    source.fill(pattern(num_bytes))
    destination.touch()
    return source, destination


def absent(num_bytes: int, ends: str = "destination") -> tuple[Buffer, Buffer]:
    """The same without a single page at the named ends."""
    source, destination = resident(num_bytes)
    if ends != "destination":
        source.drop()
    if ends != "source":
        destination.drop()
    return source, destination


def scheduling(hint: int, window_blocks: int) -> object:
    return ffi.new("pw_scheduling *", {"hint": hint, "window_blocks": window_blocks})


def pattern(num_bytes: int, seed: int = 1) -> bytes:
    """Bytes that differ from block to block and never repeat with a page's period."""
    unit = bytes((i * 7 + seed * 31 + 1) % 251 for i in range(251))
    return (unit * (num_bytes // 251 + 1))[:num_bytes]


def make_descriptor(
    source_address: int,
    destination_address: int,
    num_bytes: int,
    notification: int = 0,
    data: tuple[int, int] = (0, 0),
) -> object:
    """A transfer descriptor as the user writes it."""
    out = ffi.new("pw_descriptor *")
    out.source_address, out.destination_address = source_address, destination_address
    out.destination_address_notification = notification
    out.first_data_notification, out.last_data_notification = data
    out.transfer_bytes = num_bytes
    return out


@functools.cache
def engine_defaults() -> dict[str, int]:
    """Settings of an engine by field name; not to be changed."""
    return load(environ={}).engine_settings()


class Pair(Engines):
    """`num_nodes` engines that run as on a busy host: each as far as it can, then all bursts move.
    `settings` overrides the engine's settings by field name.

    `of_node` overrides them again for single nodes; a node in `without_domain` opens none.
    `own_policy` makes each node's page-in policy, `own_err` its ERR policy, instead of one of the
    engine's. `injected`: fields of ImpairmentsConfig, the plan of every node.

    `pick` chooses the one link (node, peer) that is physically next, of those that have bursts;
    without it all of them are. `tamper` may change a burst's bytes on the way; only then may an
    engine refuse a burst, and `num_refused_bursts` counts these.
    """

    def __init__(
        self,
        num_nodes: int = 2,
        costs: dict[str, int] | None = None,
        of_node: dict[int, dict[str, int]] | None = None,
        without_domain: Iterable[int] = (),
        injected: dict[str, str | int] | None = None,
        own_policy: Callable[[], PageInPolicy] | None = None,
        own_err: Callable[[], ErrPolicy] | None = None,
        **settings: int,
    ) -> None:
        if own_policy is not None:
            settings = settings | {"policy": lib.PW_POLICY_HOST}
        if own_err is not None:
            settings = settings | {"err_by": lib.PW_ERRS_BY_HOST}
        # without a walk cache a walk takes the same wherever the buffers lie, which differs from
        # run to run
        base = engine_defaults() | {"walk_cache_entries": 0}
        unknown = set(settings) - set(base)
        assert not unknown, unknown
        costs = load_platform("exanest-qfdb").costs.as_dict() | (costs or {})
        engines = [
            Engine(
                costs,
                base | settings | (of_node or {}).get(node, {}),
                node=node,
                num_nodes=num_nodes,
                pdid=None if node in without_domain else PDID,
                own=OwnPolicies(
                    own_policy() if own_policy else None,
                    "test",
                    own_err() if own_err else None,
                    "test",
                ),
                planned=ImpairmentsConfig(**injected) if injected else None,
            )
            for node in range(num_nodes)
        ]
        super().__init__(engines)
        self.memories = [engine.memory for engine in engines]
        self.costs = engines[0].costs
        self.events: list[Event] = []
        self.pick: Callable[[list[tuple[int, int]]], tuple[int, int]] | None = None
        self.tamper: Callable[[int, int, bytearray], None] | None = None
        self.num_refused_bursts = 0
        self._links: dict[tuple[int, int], deque[bytearray]] = {}
        self._out = ffi.new("pw_host_event[]", EVENTS_AT_ONCE)
        self._entered: set[int] = set()

    @property
    def nis(self) -> list[Any]:
        """Every pw_ni."""
        return [engine.ni for engine in self.engines]

    def turn(self, engine: Engine, horizon_ns: int) -> bool:
        """Until the engine wants frames; True when it had events."""
        busy = False
        while True:
            engine.raise_failure()
            count = check(lib.pw_ni_run(engine.ni, horizon_ns, self._out, EVENTS_AT_ONCE), "run")
            for event in self._out[0:count]:
                engine.take(event, self.handle)
                busy = True
            if count == 0:
                return busy

    def _enter(self, engine: Engine) -> None:
        """Before it is first used in a run."""
        if engine.node not in self._entered:
            self._entered.add(engine.node)
            lib.pw_ni_enter(engine.ni)

    def bursts(self, engine: Engine) -> list[tuple[int, bytearray]]:
        """Peer and bytes of each that waits, which it does no longer."""
        found, burst = [], ffi.new("pw_burst *")
        while lib.pw_ni_tx_burst(engine.ni, burst):
            found.append((burst.peer, bytearray(ffi.buffer(burst.data, burst.num_bytes))))
            lib.pw_ni_tx_release(engine.ni, burst.data)
        return found

    def collect(self) -> None:
        """Take what the engines want to send; it waits here for `deliver`."""
        for engine in self.engines:
            for peer, data in self.bursts(engine):
                self._links.setdefault((engine.node, peer), deque()).append(data)

    def deliver(self) -> bool:
        """Hand over every burst that waits, or with `pick` one; True when there was one."""
        self.collect()
        links = sorted(link for link, bursts in self._links.items() if bursts)
        if not links:
            return False
        for link in links if self.pick is None else [self.pick(links)]:
            bursts = self._links[link]
            for _ in range(len(bursts) if self.pick is None else 1):
                self._hand_over(*link, bursts.popleft())
        return True

    def receive(self, node: int, peer: int, data: bytearray | bytes) -> int:
        """Give a burst of `node` to `peer`; the status code."""
        engine = self.engines[peer]
        self._enter(engine)
        code = lib.pw_ni_rx_burst(engine.ni, node, ffi.from_buffer(data), len(data))
        if lib.pw_ni_next_ns(engine.ni) == AT_ONCE:  # before anything else is sent
            self.turn(engine, AT_ONCE)
        return int(code)

    def _hand_over(self, node: int, peer: int, data: bytearray) -> None:
        if self.tamper is not None:
            self.tamper(node, peer, data)
        code = self.receive(node, peer, data)
        if code < 0:
            if self.tamper is None:
                check(code, f"burst of node {node} for node {peer}")
            self.num_refused_bursts += 1

    def write(
        self, source: Buffer, destination: Buffer, *, num_bytes: int | None = None, **how: int
    ) -> int:
        """Post a write, `how` as write_raw takes it; returns its id."""
        length = source.num_bytes if num_bytes is None else num_bytes
        return self.write_raw(source.address, destination.address, length, **how)

    def write_raw(
        self,
        source_address: int,
        destination_address: int,
        num_bytes: int,
        at_ns: int = 0,
        node: int = 0,
        peer: int = 1,
        pdid: int = PDID,
        hint: int = 0,
        window_blocks: int = 0,
        key: int = 0,
    ) -> int:
        id_ = ffi.new("uint64_t *")
        ni = self.nis[node]
        addresses, how = (source_address, destination_address), scheduling(hint, window_blocks)
        code = lib.pw_ni_write(ni, pdid, peer, *addresses, key, num_bytes, how, at_ns, id_)
        check(code, "write")
        return int(id_[0])

    def register(self, buffer: Buffer, node: int = 1, rights: int = 3) -> int:
        """Its key; rights: to read and write."""
        key = ffi.new("uint64_t *")
        ni = self.nis[node]
        code = lib.pw_ni_register(ni, buffer.address, buffer.num_bytes, rights, key)
        check(code, "register")
        return int(key[0])

    def expose(
        self,
        source: Buffer,
        *,
        node: int = 0,
        peer: int = 1,
        hint: int = 0,
        window_blocks: int = 0,
    ) -> int:
        key, how = ffi.new("uint64_t *"), scheduling(hint, window_blocks)
        code = lib.pw_ni_expose(self.nis[node], peer, source.address, source.num_bytes, how, key)
        check(code, "expose")
        return int(key[0])

    def read(
        self,
        source: Buffer,
        destination: Buffer,
        *,
        at_ns: int = 0,
        node: int = 1,
        peer: int = 0,
        key: int | None = None,
    ) -> int:
        """Expose the source at `peer` (unless a key is given), let `node` fetch it; the fetch's
        id."""
        if key is None:
            key = self.expose(source, node=peer, peer=node)
        return self.fetch_raw(
            source.address, key, destination.address, source.num_bytes, at_ns, node, peer
        )

    def fetch_raw(
        self,
        source_address: int,
        key: int,
        destination_address: int,
        num_bytes: int,
        at_ns: int = 0,
        node: int = 1,
        peer: int = 0,
        pdid: int = PDID,
    ) -> int:
        id_, ni = ffi.new("uint64_t *"), self.nis[node]
        code = lib.pw_ni_fetch(
            ni, pdid, peer, source_address, key, destination_address, num_bytes, at_ns, id_
        )
        check(code, "fetch")
        return int(id_[0])

    def open_channel(self, node: int = 0) -> int:
        return check(lib.pw_ni_open_channel(self.nis[node], PDID), "channel")

    def post(
        self,
        source_address: int,
        destination_address: int,
        num_bytes: int,
        *,
        notification: int = 0,
        data: tuple[int, int] = (0, 0),
        at_ns: int = 0,
        channel: int | None = None,
        node: int = 0,
        peer: int = 1,
        key: int = 0,
    ) -> int:
        """Insert a descriptor into a channel (a new one when not given) and trigger it; the write's
        id."""
        if channel is None:
            channel = self.open_channel(node)
        descriptor = make_descriptor(
            source_address, destination_address, num_bytes, notification, data
        )
        id_, ni = ffi.new("uint64_t *"), self.nis[node]
        posted = lib.pw_ni_insert_descriptor(ni, channel, peer, descriptor, key, at_ns)
        check(posted, "insert")
        check(lib.pw_ni_trigger(ni, channel, posted, id_), "trigger")
        return int(id_[0])

    def notify(self, source: Buffer, destination: Buffer, **how: Any) -> int:
        """Post the whole source through a channel, `how` as `post` takes it; the write's id."""
        return self.post(source.address, destination.address, source.num_bytes, **how)

    def read_notified(
        self,
        source_address: int,
        destination_address: int,
        num_bytes: int,
        *,
        key: int = 0,
        notification: int = 0,
        data: tuple[int, int] = (0, 0),
        at_ns: int = 0,
        node: int = 1,
        peer: int = 0,
    ) -> int:
        """A read with a notification; its id."""
        descriptor = make_descriptor(
            source_address, destination_address, num_bytes, notification, data
        )
        id_, ni = ffi.new("uint64_t *"), self.nis[node]
        check(lib.pw_ni_read(ni, PDID, peer, descriptor, key, at_ns, id_), "read")
        return int(id_[0])

    def handle(self, node: int, event: object) -> None:
        self.events.append(
            Event(node, event.kind, event.error, event.id, event.time_ns, event.num_bytes)
        )

    def run(self, horizon_ns: int = FOREVER, limit: int = 1_000_000) -> list[Event]:
        """Until nothing is left to do; the host events of this run in the order they came up.
        EngineError when something is left after `limit` turns."""
        start = len(self.events)
        self._entered.clear()
        for _ in range(limit):
            busy = self.deliver()
            for engine in self.engines:
                self._enter(engine)
                busy = self.turn(engine, horizon_ns) or busy
            if not busy and not self.deliver():
                return self.events[start:]
        raise EngineError(int(lib.PW_ERR_HOST), "the engines do not come to rest")

    def errors(self) -> dict[int, int]:
        """Run; the error of each kind of event, of which there is one each."""
        events = self.run()
        assert len({event.kind for event in events}) == len(events)
        return {event.kind: event.error for event in events}

    def finish(self, *moved: tuple[Buffer, Buffer]) -> list[Event]:
        """Run; nothing failed, each destination has its source's bytes, nothing is left."""
        events = self.run()
        assert [event for event in events if event.error] == []
        for source, destination in moved:
            assert destination.read() == source.read()
        self.assert_quiet()
        return events

    def carry(self, source: Buffer, destination: Buffer, **how: int) -> list[Event]:
        """A write until it is over: its events."""
        self.write(source, destination, **how)
        return self.finish((source, destination))

    def step(self, num_turns: int, horizon_ns: int) -> None:
        """So many turns only: leave the transfers in the middle."""
        for _ in range(num_turns):
            self.deliver()
            for engine in self.engines:
                self.turn(engine, horizon_ns)

    def counters(self, node: int) -> SimpleNamespace:
        return SimpleNamespace(**self.engines[node].counters())

    def bank(self, node: int, idx: int = 0) -> ContextBank:
        """The registers of a node's context bank."""
        out = ffi.new("pw_context_bank *")
        check(lib.pw_ni_read_bank(self.nis[node], idx, out), "bank")
        return ContextBank.from_engine(idx, out)

    def injected(self, node: int) -> dict[str, dict[str, int]]:
        """Eligible and injected events of the impairments that are on."""
        return impairments.counts(self.engines[node].ni)

    def trace(self, capacity: int = 10_000) -> None:
        self._trace_capacity = capacity
        self.trace_start(capacity)

    def trace_is_full(self) -> bool:
        """An engine's trace may have lost some of its last events."""
        return any(len(engine.trace()) >= self._trace_capacity for engine in self.engines)

    def log(self, *kinds: str) -> list[tuple[int, int, str, int, int]]:
        """(time, node, kind, a, b) of every engine's trace, in time order.

        By default all kinds but `transition`: the steps of the firmware's table, no events of the
        machine.
        """
        rows = [tuple(record) for engine in self.engines for record in engine.trace()]
        return sorted(row for row in rows if (row[2] in kinds if kinds else row[2] != "transition"))

    def time_of(self, kind: str, index: int = 0) -> int:
        """When the index-th event of a kind happened."""
        return self.log(kind)[index][0]

    def assert_quiet(self) -> None:
        """Nothing pending: every table entry, ticket, event, region and inbound was returned."""
        for ni in self.nis:
            assert lib.pw_ni_num_pending(ni) == 0
            assert lib.pw_ni_num_transactions(ni) == 0
            assert lib.pw_ni_next_ns(ni) == NEVER


def write(pair: Pair, source: Buffer, destination: Buffer, at_ns: int = 0) -> int:
    """One write until it is over: how long it took."""
    events = pair.carry(source, destination, at_ns=at_ns)
    return max(event.time_ns for event in events) - at_ns


def written(
    source: Buffer, destination: Buffer, content: bytes | None = None, **settings: Any
) -> tuple[Pair, int]:
    """A traced write of two engines until all is quiet, and when its last byte had come.

    `content`: what the destination has then, when not the source's bytes.
    """
    pair = Pair(**settings)
    pair.trace(50_000)
    expected = source.read() if content is None else content
    pair.write(source, destination)
    arrived = times(pair.finish())[ARRIVED]
    assert destination.read() == expected
    return pair, arrived


def times(events: list[Event]) -> dict[int, int]:
    """Time of each kind of event; nothing failed."""
    assert all(event.error == 0 for event in events), events
    return {event.kind: event.time_ns for event in events}
