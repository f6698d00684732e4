"""Engines joined in one process: a network without MPI, for the experiments' bench and the unit
tests.

Bursts between two nodes keep their order, as MPI messages do, and take no time of their own. What
comes out depends on the mechanism and on nothing else.
"""

import abc
import functools
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
        for engine in self.engines:
            engine.enter()
        max_events = 1 if one_by_one else _EVENTS_AT_ONCE
        for _ in range(max_turns):
            busy = self.deliver()
            for engine in self.engines:
                busy = self._run(engine, horizon_ns, max_events) or busy
            if not busy and not self.deliver():
                return
        raise EngineError(int(lib.PW_ERR_HOST), "the engines do not come to rest")

    def _run(self, engine: Engine, horizon_ns: int, max_events: int) -> bool:
        """Until the engine wants frames; True when it had events."""
        busy = False
        while True:
            count = engine.run(horizon_ns, functools.partial(self.handle, engine.node), max_events)
            busy = busy or count > 0
            if count < max_events:
                return busy

    def deliver(self) -> bool:
        """Hand over every burst that waits; True when there was one."""
        waiting = [
            (engine, peer, data, num_bytes)
            for engine in self.engines
            for peer, data, num_bytes in engine.bursts()
        ]
        waiting.sort(key=lambda each: (each[0].node, each[1]))
        for engine, peer, data, num_bytes in waiting:
            code = self.receive(engine.node, peer, ffi.buffer(data, num_bytes))
            check(code, f"burst of node {engine.node} for node {peer}")
            engine.release(data)
        return bool(waiting)

    def receive(self, node: int, peer: int, data: Any) -> int:
        """Give a burst of `node`, anything with a buffer, to `peer`; the status code."""
        engine = self.engines[peer]
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
