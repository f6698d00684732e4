"""Engines joined in one process: posting, what came of it, and sums of what they counted.

A single node is initiator and target: its bursts come back to it over no hop, and both ends' faults
meet in one context bank, one handler and one tasklet.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pagewire.driver.policy import PageInPolicy
from pagewire.lab.buffer import Buffer
from pagewire.lab.engine import Engine
from pagewire.lab.joined import Joined
from pagewire.native import check, ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.ni.engine_view import PDID, TraceRecord
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import Platform

INITIATOR, TARGET = 0, 1
Ends = tuple[int, int]
"""Nodes: who writes or reads, and whose memory."""


class Event(NamedTuple):
    """A host event (pw_host_event) without error."""

    node: int
    kind: int
    id: int
    peer: int
    time_ns: int


class Nodes(Joined):
    """The nodes of a run, their events as times, their counters as sums."""

    def __init__(
        self,
        config: Config,
        platform: Platform,
        num_nodes: int = 2,
        make_policy: Callable[[], PageInPolicy] | None = None,
        num_processes: int = 1,
    ) -> None:
        """make_policy: each node's page-in policy, when config.run.policy only names it.
        num_processes: of each node, which share its NI."""
        if config.run.ranks_per_node > 1:
            raise ConfigError(
                f"run.ranks_per_node = {config.run.ranks_per_node}: a lab has no ranks; let "
                "processes share its nodes, Lab(processes=...)"
            )
        super().__init__(
            [
                Engine.of_config(
                    config, platform, node, num_nodes, make_policy() if make_policy else None
                )
                for node in range(num_nodes)
            ],
            config.network.topology,
            config.network.placement,
            config.network.failed,
            config.network.lossy,
        )
        for engine in self.engines:
            for process in range(1, num_processes):
                engine.open_process(process)
        self._watching: Callable[[int, Any], None] | None = None
        self._events: list[Event] = []
        self._keys: dict[tuple[int, int, int], int] = {}
        self._num_registered = 0
        self._uncounted = set(range(num_nodes))
        """Nodes that may have counted something since their counters were read."""
        self._counted: list[dict[str, int]] = [{} for _ in self.engines]
        self._total: dict[str, int] = {}
        self._unjudged: set[int] = set()
        """Nodes that may have come to rest since, or be at work."""
        self._pending = [(0, 0) for _ in self.engines]
        self._at_work = [0, 0]
        """Transfers and reads, and blocks, of all nodes as judged last."""

    def _look(self) -> None:
        moved = self.moved()
        self._uncounted |= moved
        self._unjudged |= moved

    @property
    def is_quiet(self) -> bool:
        """Nothing is left to do, whatever is registered."""
        self._look()
        for node in self._unjudged:
            engine = self.engines[node]
            found = engine.num_pending, engine.num_transactions
            for idx, count in enumerate(found):
                self._at_work[idx] += count - self._pending[node][idx]
            self._pending[node] = found
        self._unjudged.clear()
        return self._at_work == [self._num_registered, 0]

    @property
    def target(self) -> int:
        """The node that is written to or read from; of a loopback the initiator itself."""
        return min(TARGET, len(self.engines) - 1)

    @property
    def ends(self) -> Ends:
        return INITIATOR, self.target

    def write(
        self,
        source: Buffer,
        destination: Buffer,
        num_bytes: int,
        at_ns: int,
        ends: Ends | None = None,
        process: int = 0,
    ) -> int:
        """The initiator writes to the target; at_ns is the user's call. Id of WRITE_DONE there and
        of the target's ARRIVED. ends: these, when they are others. Where a write needs a key the
        destination is registered, once for all."""
        ends = ends or self.ends
        where, ni = (ends[1], destination.address, destination.num_bytes), self.engines[ends[1]].ni
        if lib.pw_ni_writes_need_key(ni) and where not in self._keys:
            self._keys[where] = self.register(*where)
        key = self._keys.get(where, 0)
        addresses = source.address, destination.address
        return self.post_write(ends, *addresses, num_bytes, at_ns, key, process)

    def post_write(
        self,
        ends: Ends,
        source: int,
        destination: int,
        num_bytes: int,
        at_ns: int,
        key: int = 0,
        process: int = 0,
    ) -> int:
        """The same by addresses; key: of what is registered there."""
        found, ni = ffi.new("uint64_t *"), self.engines[ends[0]].ni
        addresses = source, destination
        code = lib.pw_ni_write(
            ni, PDID + process, ends[1], *addresses, key, num_bytes, ffi.NULL, at_ns, found
        )
        check(code, "write")
        return int(found[0])

    def register(self, node: int, address: int, num_bytes: int) -> int:
        """Its key."""
        key = ffi.new("uint64_t *")
        rights = lib.PW_REMOTE_READ | lib.PW_REMOTE_WRITE
        ni = self.engines[node].ni
        check(lib.pw_ni_register(ni, address, num_bytes, rights, key), "register")
        self._num_registered += 1
        return int(key[0])

    def fetch(
        self,
        ends: Ends,
        source: int,
        key: int,
        destination: int,
        num_bytes: int,
        at_ns: int,
        process: int = 0,
    ) -> int:
        """Read what the other one registered, by addresses. Id of its FETCH_DONE."""
        ni, found = self.engines[ends[0]].ni, ffi.new("uint64_t *")
        addresses = source, key, destination
        code = lib.pw_ni_fetch(ni, PDID + process, ends[1], *addresses, num_bytes, at_ns, found)
        check(code, "read")
        return int(found[0])

    def read(
        self,
        source: Buffer,
        destination: Buffer,
        num_bytes: int,
        at_ns: int,
        ends: Ends | None = None,
        process: int = 0,
    ) -> int:
        """The initiator reads the target's buffer. Id of its FETCH_DONE. ends: as of `write`."""
        key, (initiator, target) = ffi.new("uint64_t *"), ends or self.ends
        owner, address = self.engines[target].ni, source.address
        check(lib.pw_ni_expose(owner, initiator, address, num_bytes, ffi.NULL, key), "expose")
        ends, to = (initiator, target), destination.address
        return self.fetch(ends, address, int(key[0]), to, num_bytes, at_ns, process)

    def handle(self, node: int, event: Any) -> None:
        if self._watching is not None:
            self._watching(node, event)
            return
        check(event.error, "transfer")
        self._events.append(Event(node, event.kind, event.id, event.peer, event.time_ns))

    def events(self) -> list[Event]:
        """Until nothing is left to do; what the hosts were told meanwhile."""
        self._events = []
        self.run()
        return self._events

    def times(self) -> dict[tuple[int, int], int]:
        """The same as the time of the last event of each node and kind."""
        return {(each.node, each.kind): each.time_ns for each in self.events()}

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
        self._look()
        for node in self._uncounted:
            before, found = self._counted[node], self._counted_by(node)
            for name, value in found.items():
                self._total[name] = self._total.get(name, 0) + value - before.get(name, 0)
            self._counted[node] = found
        self._uncounted.clear()
        return dict(self._total)

    def _counted_by(self, node: int) -> dict[str, int]:
        counters = self.engines[node].counters()
        return {
            name: sum(value) if isinstance(value, list) else value
            for name, value in counters.items()
        }
