"""Long messages: the sender exposes its buffer, the receiver's NI reads it.

What the memory strategy does before and after costs the CPU's clock; a user's scheduling policy
says how a transfer is treated. A `Handle` is done when the engine's event has come.
"""

from __future__ import annotations

from typing import Any

from pagewire.native import EngineError, check, ffi, lib
from pagewire.r5sched import scheduling
from pagewire.transport.memory.host import StrategyHost
from pagewire.transport.memory.strategy import Access, Lease, Span
from pagewire.transport.node.clock import CpuClock
from pagewire.transport.node.engine import Engine
from pagewire.transport.node.messages import Envelope

_NUM_PAGES = 2**64 // int(lib.PW_PAGE_BYTES)
_TRANSFER_MAX_BYTES = int(lib.PW_TRANSFER_MAX_BYTES)


class Handle:
    """A transfer under way with a peer: `error` is 0 or a negative PW_ERR_*."""

    __slots__ = ("complete_ns", "done", "error", "key", "prepared", "text")

    def __init__(self, key: int, prepared: Lease | None, text: str = "a transfer") -> None:
        self.done = False
        self.complete_ns = 0
        self.error = 0
        self.key = key
        self.prepared = prepared
        self.text = text


class Rendezvous:
    """Posts to the engine; `finish` gets its events of kinds up to PW_HOST_WRITE_DONE."""

    def __init__(
        self,
        engine: Engine,
        clock: CpuClock,
        strategy: StrategyHost,
        scheduler: scheduling.Scheduler | None,
    ) -> None:
        self.touch_ns = 0
        self.pin_ns = 0
        self._engine = engine
        self._clock = clock
        self._strategy = strategy
        self._scheduler = scheduler
        self._handles: dict[int, Handle] = {}
        self._key = ffi.new("uint64_t *")

    def prepare(self, address: int, num_bytes: int, access: Access = Access.WRITE) -> Lease | None:
        """The memory strategy's part of posting a buffer; what it returns is for `release`."""
        if num_bytes == 0:
            return None
        lease = self._strategy.acquire(address, num_bytes, access)
        cost = lease.cost
        self.touch_ns += cost.touch_ns
        self.pin_ns += cost.pin_ns
        self._clock.now_ns += cost.touch_ns + cost.pin_ns
        return lease

    def release(self, prepared: Lease | None) -> None:
        """No transfer came of it: undo `prepare`."""
        self._clock.now_ns += self._released_ns(prepared)

    def _released_ns(self, prepared: Lease | None) -> int:
        if prepared is None:
            return 0
        cost = self._strategy.release(prepared)
        self.touch_ns += cost.touch_ns
        self.pin_ns += cost.pin_ns
        return cost.touch_ns + cost.pin_ns

    def unmapped(self, address: int, num_bytes: int) -> None:
        """The program gave these pages back: their translations and what the strategy knows go."""
        span = Span(address, num_bytes)
        self._engine.invalidate(span.first_page, span.num_pages)
        self._strategy.invalidated(span.first_page, span.num_pages)

    def forked(self) -> None:
        """Every page is shared with a child: what the strategy knows goes."""
        self._strategy.invalidated(0, _NUM_PAGES)

    def schedule(self, num_bytes: int, peer: int, *, is_read: bool) -> Any:
        """What the user's scheduling policy says of a transfer (pw_scheduling); None without
        one."""
        if self._scheduler is None:
            return None
        return self._scheduler.decide(
            scheduling.PostedTransfer(num_bytes, peer, is_read, self._clock.now_ns)
        )

    def expose(self, address: int, num_bytes: int, peer: int) -> Handle:
        """Let `peer` read the buffer once; done when it has. The buffer stays alive until then."""
        text = f"send of {num_bytes} bytes to rank {peer}"
        if num_bytes > _TRANSFER_MAX_BYTES:
            raise EngineError(
                lib.PW_ERR_INVALID,
                f"{text}: a transfer of the NI has at most {_TRANSFER_MAX_BYTES} bytes (4 GiB); "
                "send the data in several messages",
            )
        prepared = self.prepare(address, num_bytes, Access.READ)
        decision = self.schedule(num_bytes, peer, is_read=True)
        ni, key = self._engine.ni, self._key
        code = lib.pw_ni_expose(ni, peer, address, num_bytes, decision or ffi.NULL, key)
        check(code, text)
        handle = self._handles[key[0]] = Handle(key[0], prepared, text)
        return handle

    def fetch(
        self,
        envelope: Envelope,
        address: int,
        num_bytes: int,
        match_ns: int,
        prepared: Lease | None,
    ) -> Handle:
        """Read num_bytes from the sender; done when they are all here."""
        engine = self._engine
        code = lib.pw_ni_fetch(
            engine.ni,
            engine.pdid,
            envelope.source,
            envelope.address,
            envelope.key,
            address,
            num_bytes,
            match_ns,
            self._key,
        )
        text = f"read of {num_bytes} bytes from rank {envelope.source}"
        check(code, text)
        handle = self._handles[self._key[0]] = Handle(envelope.key, prepared, text)
        engine.is_posted = True
        return handle

    def started(self, event_id: int, text: str) -> Handle:
        """Something was posted to the engine by others; done when its event has come."""
        handle = self._handles[event_id] = Handle(0, None, text)
        self._engine.is_posted = True
        return handle

    def finish(self, event: Any) -> None:
        """The engine says that a transfer is over."""
        handle = self._handles.pop(event.id, None)
        if handle is not None:
            handle.complete_ns = event.time_ns + self._released_ns(handle.prepared)
            handle.error = event.error
            handle.done = True

    def under_way(self) -> list[str]:
        """What is not over yet, in words."""
        return [handle.text for handle in self._handles.values()]

    def counters(self) -> dict[str, int]:
        """CPU time of the memory strategy."""
        return {"touch_ns": self.touch_ns, "pin_ns": self.pin_ns}
