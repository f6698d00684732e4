"""Buffers for envelopes, used over and over."""

from typing import Any

from mpi4py import MPI

from pagewire.transport.node.messages import ENVELOPE_BYTES
from pagewire.transport.node.patching import native

_test = native(MPI.Request, "Test")


class Frames:
    """Each has room for an envelope with the longest payload that rides in one.

    `outgoing` is for messages that MPI has taken when its send returns.
    """

    def __init__(self, eager_limit_bytes: int) -> None:
        self.eager_limit_bytes = eager_limit_bytes
        self._num_bytes = ENVELOPE_BYTES + eager_limit_bytes
        self._free: list[Any] = []
        self._in_flight: list[tuple[MPI.Request, Any]] = []
        self.status = MPI.Status()
        """Scratch of a receive whose caller wants no status."""
        self.outgoing = MPI.buffer.allocate(self._num_bytes)
        self.outgoing_address: int = self.outgoing.address
        self._views: dict[int, Any] = {}

    def view(self, num_bytes: int) -> Any:
        """The first bytes of `outgoing`."""
        view = self._views.get(num_bytes)
        if view is None:
            view = self._views[num_bytes] = MPI.buffer.fromaddress(self.outgoing_address, num_bytes)
        return view

    def take(self) -> Any:
        if self._in_flight:
            self._reclaim()
        return self._free.pop() if self._free else MPI.buffer.allocate(self._num_bytes)

    def give(self, frame: Any) -> None:
        self._free.append(frame)

    def give_after(self, request: MPI.Request, frame: Any) -> None:
        """Take `frame` back once `request` is complete."""
        self._in_flight.append((request, frame))

    def _reclaim(self) -> None:
        still = []
        for request, frame in self._in_flight:
            if _test(request):
                self._free.append(frame)
            else:
                still.append((request, frame))
        self._in_flight = still

    def drain(self) -> bool:
        """True when every frame sent has left."""
        self._reclaim()
        return not self._in_flight
