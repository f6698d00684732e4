"""Engines joined in one process in the order of virtual time: lab/joined.h, seen from Python.

What comes out depends on the mechanism and on what is posted, and on nothing else. Nodes that have
nothing to do cost nothing.
"""

import abc
from collections.abc import Sequence
from typing import Any

from pagewire.lab.engine import Engine
from pagewire.native import check, ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.ni.engine_view import TraceRecord

_EVENTS_AT_ONCE = 16
_MOVED_AT_ONCE = 64
_TURNS_AT_ONCE = 50_000
"""Between looks after signals."""


class Engines:
    """Several, and what can be seen of all."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = tuple(engines)

    def trace_start(self, capacity: int, *, detailed: bool = False) -> None:
        """Keep the first `capacity` trace records of each engine from now on; detailed: those of
        a timeline too."""
        for engine in self.engines:
            engine.trace_start(capacity, detailed=detailed)

    def trace(self) -> list[TraceRecord]:
        """Records of all engines in time order."""
        found = [record for engine in self.engines for record in engine.trace()]
        return sorted(found, key=lambda record: record.time_ns)

    @property
    def is_quiet(self) -> bool:
        """Nothing is pending on any node."""
        return all(engine.is_quiet for engine in self.engines)


class Joined(Engines, abc.ABC):
    """Those of one network. A subclass says what becomes of events."""

    def __init__(
        self,
        engines: Sequence[Engine],
        topology: str = "qfdb",
        placement: str = "packed",
        failed: str = "",
        lossy: str = "",
    ) -> None:
        """topology, placement, failed, lossy: as the settings network.* have them; whether links
        are shared is in the engines' own. Raises ConfigError when they cannot be had."""
        super().__init__(engines)
        made, reason = ffi.new("pw_joined **"), ffi.new("char[]", lib.PW_TOPOLOGY_REASON_BYTES)
        first = self.engines[0]
        texts = [ffi.new("char[]", each.encode()) for each in (topology, placement, failed, lossy)]
        network = ffi.new("pw_network_texts *", texts)
        code = lib.pw_joined_create(
            len(self.engines), first.costs, first.settings, network, made, reason
        )
        if code < 0:
            raise ConfigError(ffi.string(reason).decode(errors="replace"))
        self._c = ffi.gc(made[0], lib.pw_joined_destroy)
        self._out = ffi.new("pw_host_event[]", _EVENTS_AT_ONCE)
        self._node = ffi.new("uint32_t *")
        self._moved = ffi.new("uint32_t[]", _MOVED_AT_ONCE)
        self._noted: set[int] = set()
        """Nodes that something was posted to."""
        for engine in self.engines:
            check(lib.pw_joined_add(self._c, engine.node, engine.ni), "node")
            engine.noted = self._noted

    @abc.abstractmethod
    def handle(self, node: int, event: Any) -> None:
        """A host event (pw_host_event) of a node, as it comes up; the object is gone afterwards."""

    def run(self, *, one_by_one: bool = False) -> None:
        """Until nothing is left to do.

        one_by_one: each event is handled before its engine goes on, so that the handler can post at
        the event's time.
        """
        lib.pw_joined_enter(self._c)
        while self._go_on(1 if one_by_one else _EVENTS_AT_ONCE):
            pass

    def _go_on(self, max_events: int) -> bool:
        """Until there are events, which are handled, but for so many turns. False: that was all."""
        self._tell_noted()
        count = int(lib.pw_joined_run(self._c, _TURNS_AT_ONCE, self._out, max_events, self._node))
        engine = self.engines[self._node[0]]
        if count < 0:
            engine.raise_failure()
        check(count, f"node {engine.node}")
        for i in range(count):
            engine.take(self._out[i], self.handle)
        return not lib.pw_joined_is_over(self._c)

    def _tell_noted(self) -> None:
        for node in sorted(self._noted):
            check(lib.pw_joined_note(self._c, node), f"node {node}")
        self._noted.clear()

    def moved(self) -> set[int]:
        """Nodes that may have changed since this was asked last."""
        self._tell_noted()
        found: set[int] = set()
        while count := lib.pw_joined_take_moved(self._c, self._moved, _MOVED_AT_ONCE):
            found.update(self._moved[0:count])
        return found

    @property
    def num_turns(self) -> int:
        """That nodes have had so far: what a run takes of the host's time goes by them."""
        return int(lib.pw_joined_num_turns(self._c))

    def close(self) -> None:
        """Destroy the engines; the object is of no use after that."""
        ffi.release(self._c)
        for engine in self.engines:
            engine.close()
