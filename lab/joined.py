"""Engines joined in one process: a network without MPI, for the experiments' bench and the unit
tests.

Bursts between two nodes keep their order, as MPI messages do, and take no time of their own. What
comes out depends on the mechanism and on nothing else. Only engines in which something may have
changed are looked at, so that others beside them cost nothing.
"""

import abc
import functools
import heapq
from collections.abc import Iterable
from typing import Any

from pagewire.lab.engine import AT_ONCE, Engine, TraceRecord
from pagewire.native import EngineError, check, ffi, lib

FOREVER = 2**63 - 1
_TURNS = 1_000_000
_EVENTS_AT_ONCE = 16


class Joined(abc.ABC):
    """A subclass says what becomes of events."""

    def __init__(self, engines: Iterable[Engine]) -> None:
        self.engines = tuple(engines)
        self._unrested: set[int] = set()
        """Nodes that may have something to do."""
        self._unsent: set[int] = set()
        """Nodes that may have bursts."""
        self._entered: set[int] = set()
        for engine in self.engines:
            engine.noted += [self._unrested, self._unsent]
        self.suspect_all()

    def suspect_all(self) -> None:
        """Something may have been posted to any of them, by a pw_ni that was kept."""
        self._unrested.update(range(len(self.engines)))
        self._unsent.update(self._unrested)

    @abc.abstractmethod
    def handle(self, node: int, event: Any) -> None:
        """A host event (pw_host_event) of a node, as it comes up; the object is gone afterwards."""

    def run(
        self, horizon_ns: int = FOREVER, *, max_turns: int = _TURNS, one_by_one: bool = False
    ) -> None:
        """Until nothing is left to do.

        one_by_one: each event is handled before its engine goes on, so that the handler can post at
        the event's time. EngineError when the engines do not come to rest in max_turns.
        """
        self._entered.clear()
        max_events = 1 if one_by_one else _EVENTS_AT_ONCE
        for _ in range(max_turns):
            busy = self.deliver()
            busy = self._turn(horizon_ns, max_events) or busy
            if not busy and not self.deliver():
                return
        raise EngineError(int(lib.PW_ERR_HOST), "the engines do not come to rest")

    def _turn(self, horizon_ns: int, max_events: int) -> bool:
        """Each engine that may have something to do, in the order of nodes; True when one had."""
        turn = sorted(self._unrested)
        self._unrested.clear()
        busy, last = False, -1
        while turn:
            node = heapq.heappop(turn)
            if node == last:
                continue
            last = node
            if not self._run(self.engines[node], horizon_ns, max_events):
                if self.engines[node].next_ns == FOREVER:
                    self._unrested.discard(node)
                continue
            busy = True
            for each in [each for each in self._unrested if each > node]:  # posted by a handler
                self._unrested.discard(each)
                heapq.heappush(turn, each)
        return busy

    def _run(self, engine: Engine, horizon_ns: int, max_events: int) -> bool:
        """Until the engine wants frames; True when it had events."""
        self._enter(engine)
        busy = False
        while True:
            count = engine.run(horizon_ns, functools.partial(self.handle, engine.node), max_events)
            busy = busy or count > 0
            if count < max_events:
                return busy

    def _enter(self, engine: Engine) -> None:
        """Before it is first used in a run."""
        if engine.node not in self._entered:
            self._entered.add(engine.node)
            engine.enter()

    def deliver(self) -> bool:
        """Hand over every burst that waits; True when there was one."""
        waiting = [
            (self.engines[node], peer, data, num_bytes)
            for node in self._unsent
            for peer, data, num_bytes in self.engines[node].bursts()
        ]
        self._unsent.clear()
        waiting.sort(key=lambda each: (each[0].node, each[1]))
        for engine, peer, data, num_bytes in waiting:
            code = self.receive(engine.node, peer, ffi.buffer(data, num_bytes))
            check(code, f"burst of node {engine.node} for node {peer}")
            engine.release(data)
        return bool(waiting)

    def receive(self, node: int, peer: int, data: Any) -> int:
        """Give a burst of `node`, anything with a buffer, to `peer`; the status code."""
        engine = self.engines[peer]
        self._enter(engine)
        code = engine.receive(node, ffi.from_buffer(data), len(data))
        if engine.wants_decision:  # before anything else is sent
            self._run(engine, AT_ONCE, _EVENTS_AT_ONCE)
        return code

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
