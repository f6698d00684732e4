"""The loop that moves a rank's NI: bursts in, engine, events, bursts out.

One thread a rank. Nothing that is raised in a turn is swallowed: what the engine, a policy or a
callback raises goes on to whoever waits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from pagewire.native import check, lib
from pagewire.transport.node.clock import CpuClock
from pagewire.transport.node.engine import NEVER, Engine
from pagewire.transport.node.notices import Notices
from pagewire.transport.node.rendezvous import Rendezvous
from pagewire.transport.node.watchdog import Watchdog, call_site
from pagewire.transport.node.wire import Wire

_FOREVER = NEVER - 1
_WRITE_DONE, _NOTIFIED = int(lib.PW_HOST_WRITE_DONE), int(lib.PW_HOST_NOTIFIED)
_EVENTS_AT_ONCE = 32
_IDLE_TURNS = 8  # turns in vain before the core is yielded
_NUM_SHOWN = 4  # transfers that a report names
_WHOLE_MEMORY = 2**64 - 1


class Progress:
    """Owned by the node, called by whoever waits."""

    def __init__(
        self,
        engine: Engine,
        wire: Wire,
        clock: CpuClock,
        rendezvous: Rendezvous,
        notices: Notices,
        watchdog: Watchdog,
    ) -> None:
        self._engine = engine
        self._wire = wire
        self._clock = clock
        self._rendezvous = rendezvous
        self._notices = notices
        self._watchdog = watchdog
        self._idle_turns = 0
        self._forks = 0

    def turn(self, waiting: bool) -> bool:
        """Poll the wire and run the NI: without limit while the CPU waits, else up to its clock.

        True when anything happened.
        """
        engine, wire, clock = self._engine, self._wire, self._clock
        if clock.program_ran:
            clock.program_ran = False
            self._watchdog.reset()
            engine.enter()
            if self._forks:
                self._share_pages()
        moved = wire.receive(self._received)
        horizon_ns = _FOREVER if waiting else clock.now_ns
        if moved or engine.is_posted or engine.next_ns <= horizon_ns:
            moved = self._run(horizon_ns) or moved
        elif wire.sending:
            self.reclaim()
        return moved

    def forked(self) -> None:
        """This process was forked, maybe by another thread: noted here, acted on at the next
        turn."""
        self._forks += 1
        self._clock.program_ran = True

    def _share_pages(self) -> None:
        """A fork write-protects every page: the OS shoots down the context's translations."""
        self._forks = 0
        engine = self._engine
        check(lib.pw_memory_fork(engine.memory, 0, _WHOLE_MEMORY), "fork")
        lib.pw_ni_invalidate_context(engine.ni, engine.pdid)
        self._rendezvous.forked()

    def _run(self, horizon_ns: int) -> bool:
        engine, moved = self._engine, False
        while True:
            count = engine.run(horizon_ns, self._dispatch, _EVENTS_AT_ONCE)
            moved = moved or count > 0
            looped = self._flush()
            if not looped and count < _EVENTS_AT_ONCE and engine.next_ns > horizon_ns:
                return moved

    def _received(self, source: int, data: Any, num_bytes: int) -> None:
        # What was dropped will never be answered: going on would hang.
        code = self._engine.receive(source, data, num_bytes)
        check(code, f"burst of {num_bytes} bytes from rank {source}; same pagewire on all ranks?")

    def _flush(self) -> bool:
        """Send every burst that waits. True when one went to this rank itself: the engine goes
        on."""
        engine, wire, looped = self._engine, self._wire, False
        for peer, data, num_bytes in engine.bursts():
            if peer == engine.node:
                check(engine.receive(peer, data, num_bytes), "burst to itself")
                engine.release(data)
                looped = True
            elif wire.send(peer, data, num_bytes):
                engine.release(data)
        if wire.sending:
            self.reclaim()
        return looped

    def reclaim(self) -> None:
        """Give the engine back the bursts that have left."""
        for data in self._wire.sent():
            self._engine.release(data)

    def _dispatch(self, event: Any) -> None:
        kind = event.kind
        if kind <= _WRITE_DONE:
            self._rendezvous.finish(event)
        elif kind == _NOTIFIED:
            self._notices.arrived(event)
        elif kind == lib.PW_HOST_DEADLOCK:
            check(event.error, "mailbox of the R5")
        elif kind == lib.PW_HOST_FRAMES_SHORT:
            check(event.error, "page-in")

    # -- waiting

    def busy(self) -> None:
        """A turn of a wait loop moved something."""
        self._idle_turns = 0
        self._watchdog.reset()

    def idle(self) -> bool:
        """A turn was in vain: the core goes to somebody else after a few. True: `report` it."""
        self._idle_turns += 1
        if self._idle_turns <= _IDLE_TURNS:
            return False
        os.sched_yield()
        return self._watchdog.is_due()

    def report(self, waits_for: Callable[[], str]) -> None:
        """Say on standard error what this rank waits for and what its NI has pending."""
        engine, limit_ns = self._engine, self._watchdog.limit_ns or 0
        under_way = self._rendezvous.under_way()
        shown = ", ".join(under_way[:_NUM_SHOWN]) + (", ..." if under_way[_NUM_SHOWN:] else "")
        next_event = "none" if engine.next_ns == NEVER else f"at {engine.next_ns} ns"
        lines = (
            f"no event for {limit_ns / 1e9:g} s of wall time (run.watchdog); goes on waiting",
            f"  in: {call_site()}",
            f"  waits for: {waits_for()}",
            f"  virtual time: {self._clock.now_ns} ns; the NI's next event: {next_event}",
            f"  pending in the NI: transfers and reads {engine.num_pending}, "
            + f"blocks without acknowledgement {engine.num_transactions}",
            f"  under way: {shown or 'nothing'}",
        )
        text = "".join(f"[rank {engine.node}] pagewire: {line}\n" for line in lines)
        sys.stderr.write(text)
        sys.stderr.flush()

    def failed_test(self, future: bool, poll_ns: int | None = None) -> None:
        """A Test or Iprobe found nothing: it costs a poll.

        future: what it looks for completes later in virtual time. When it does not, and the NI has
        no event ahead, only the frame is not physically here yet, and nothing is charged.
        """
        clock = self._clock
        if future or clock.now_ns < self._engine.next_ns < NEVER:
            clock.now_ns += clock.poll_ns if poll_ns is None else poll_ns
