"""Carries bursts of frames between the ranks' NIs over mpi4py, on a private communicator.

The only module that uses mpi4py for NI traffic. Bursts to the rank itself do not leave the process.
"""

from collections.abc import Callable, Iterator
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.transport.node.patching import native

_TAG = 1
_BURST_BYTES = int(lib.PW_BURST_BYTES)
_RECEIVES_AT_ONCE = 2

_isend = native(MPI.Comm, "Isend")
_test = native(MPI.Request, "Test")
_start = native(MPI.Prequest, "Start")


class Wire:
    """Sends and receives bursts; `self.rank` and `self.size` are COMM_WORLD's."""

    def __init__(self) -> None:
        self.comm: MPI.Intracomm = native(MPI.Comm, "Dup")(MPI.COMM_WORLD)
        self.rank: int = self.comm.Get_rank()
        self.size: int = self.comm.Get_size()
        self._status = MPI.Status()
        self._receives: list[tuple[Any, Any, Any]] = []
        self._turn = 0
        self.sending: list[tuple[Any, Any]] = []
        self._views: dict[Any, Any] = {}
        for _ in range(_RECEIVES_AT_ONCE if self.size > 1 else 0):
            buffer = MPI.buffer.allocate(_BURST_BYTES)
            request = native(MPI.Comm, "Recv_init")(self.comm, buffer, MPI.ANY_SOURCE, _TAG)
            _start(request)
            self._receives.append((request, buffer, ffi.cast("uint8_t *", buffer.address)))

    def receive(self, handle: Callable[[int, Any, int], None]) -> bool:
        """Hand each burst that is here to `handle(source, data, num_bytes)`. True if there was
        one."""
        if not self._receives:
            return False
        any_burst = False
        status = self._status
        while True:
            request, _buffer, data = self._receives[self._turn]
            if not _test(request, status):
                return any_burst
            any_burst = True
            handle(status.Get_source(), data, status.Get_count(MPI.BYTE))
            _start(request)
            self._turn = (self._turn + 1) % _RECEIVES_AT_ONCE

    def send(self, peer: int, data: Any, num_bytes: int) -> bool:
        """Send a burst; True when its buffer is free again at once, else `sent` tells later."""
        view = self._views.get(data)
        if view is None:
            view = MPI.buffer.fromaddress(int(ffi.cast("uintptr_t", data)), _BURST_BYTES)
            self._views[data] = view
        request = _isend(self.comm, [view, num_bytes, MPI.BYTE], peer, _TAG)
        if _test(request):
            return True
        self.sending.append((request, data))
        return False

    def sent(self) -> Iterator[Any]:
        """Burst buffers that have left since the last look; to be exhausted."""
        still = []
        for request, data in self.sending:
            if _test(request):
                yield data
            else:
                still.append((request, data))
        self.sending = still

    def gather(self, item: Any) -> list[Any] | None:
        """Every rank's item, on rank 0; for reports."""
        gathered: list[Any] | None = native(MPI.Comm, "gather")(self.comm, item, 0)
        return gathered

    def close(self) -> None:
        """Give the requests and the communicator back. Collective."""
        for request, _buffer, _data in self._receives:
            native(MPI.Request, "Cancel")(request)
            native(MPI.Request, "Wait")(request)
            native(MPI.Request, "Free")(request)
        self._receives = []
        native(MPI.Comm, "Free")(self.comm)
