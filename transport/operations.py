"""Messages between ranks: envelope, match, eager landing or rendezvous fetch.

Below the public calls and above the node. An envelope (with the payload when that is short) goes
as one MPI message on a channel's communicator with the user's tag, so that MPI does the matching;
longer payloads stay where they are until the receiver's NI reads them.
"""

from typing import Any

from mpi4py import MPI

from pagewire.transport import message
from pagewire.transport.node import KIND_EAGER, KIND_RENDEZVOUS
from pagewire.transport.patching import native
from pagewire.transport.progress import node, pending, wait

HEADER_BYTES = 64
FRAME_BYTES = HEADER_BYTES + node.eager_limit_bytes
# MPI buffers messages up to here by itself: a blocking send of one returns without the receiver.
NATIVE_BUFFERED_BYTES = 4096

_send = native(MPI.Comm, "Send")
_isend = native(MPI.Comm, "Isend")
_irecv = native(MPI.Comm, "Irecv")
_improbe = native(MPI.Comm, "Improbe")
_message_recv = native(MPI.Message, "Recv")
_test = native(MPI.Request, "Test")
_wait = native(MPI.Request, "Wait")
_get_status = native(MPI.Request, "Get_status")
_cancel = native(MPI.Request, "Cancel")
_write_envelope = node.write_envelope
_read_envelope = node.read_envelope

ANY_SOURCE = MPI.ANY_SOURCE
ANY_TAG = MPI.ANY_TAG
NOTHING = [None, 0, MPI.BYTE]


class Frames:
    """Envelope buffers in use over and over."""

    def __init__(self) -> None:
        self._free: list[Any] = []
        self._in_flight: list[tuple[MPI.Request, Any]] = []

    def take(self) -> Any:
        if self._in_flight:
            self._reclaim()
        return self._free.pop() if self._free else MPI.buffer.allocate(FRAME_BYTES)

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


frames = Frames()
_outgoing = frames.take()
_outgoing_address: int = _outgoing.address
_outgoing_views: dict[int, Any] = {}


class Arrived:
    """A message that a probe took from MPI and that nobody has received yet."""

    __slots__ = ("announced", "envelope", "frame", "frame_bytes", "source", "tag")

    def __init__(self, source: int, tag: int, frame: Any, frame_bytes: int) -> None:
        self.source = source
        self.tag = tag
        self.frame = frame
        self.frame_bytes = frame_bytes
        self.envelope = _read_envelope(frame.address, frame_bytes)
        self.announced = False


class Channel:
    """A private communicator that carries envelopes, seen from this rank."""

    __slots__ = ("arrived", "comm", "rank", "size", "world_ranks")

    def __init__(self, comm: MPI.Intracomm, world_ranks: list[int]) -> None:
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.world_ranks = world_ranks
        self.arrived: list[Arrived] = []

    def find(self, source: int, tag: int) -> Arrived | None:
        """The message in `arrived` that a receive would get: per source the first that matches,
        among sources the one that a probe has told of, else the earliest in virtual time.
        """
        best = None
        seen = set()
        for candidate in self.arrived:
            if tag not in (ANY_TAG, candidate.tag) or source not in (ANY_SOURCE, candidate.source):
                continue
            if candidate.source in seen:
                continue
            seen.add(candidate.source)
            if candidate.announced:
                return candidate
            if best is None or candidate.envelope.arrival_ns < best.envelope.arrival_ns:
                best = candidate
        return best

    def look(self, source: int, tag: int) -> Arrived | None:
        """As `find`, after taking from MPI what is there.

        Every message of the source is taken, not only those with the tag: so all in `arrived` are
        older than any that MPI still holds of the same source, and order is kept.
        """
        while True:
            found = self.find(source, tag)
            if found is not None:
                return found
            status = MPI.Status()
            handle = _improbe(self.comm, source, ANY_TAG, status)
            if handle is None:
                return None
            frame = frames.take()
            _message_recv(handle, frame, status)
            self.arrived.append(Arrived(status.source, status.tag, frame, status.count))

    def take(self, source: int, tag: int) -> Arrived | None:
        """Remove and return what `find` finds."""
        found = self.find(source, tag)
        if found is not None:
            self.arrived.remove(found)
        return found


def post_envelope(
    channel: Channel, kind: int, address: int, num_bytes: int, key: int, dest: int, tag: int
) -> None:
    """Write an envelope and send it off; returns without waiting for the receiver."""
    peer = channel.world_ranks[dest]
    short = kind == KIND_RENDEZVOUS or num_bytes <= NATIVE_BUFFERED_BYTES - HEADER_BYTES
    if short and dest != channel.rank:  # to itself, a blocking send would wait for its receive
        length = _write_envelope(_outgoing_address, peer, kind, address, num_bytes, key)
        view = _outgoing_views.get(length)
        if view is None:
            view = _outgoing_views[length] = MPI.buffer.fromaddress(_outgoing_address, length)
        _send(channel.comm, view, dest, tag)
        return
    frame = frames.take()
    length = _write_envelope(frame.address, peer, kind, address, num_bytes, key)
    request = _isend(channel.comm, [frame, length, MPI.BYTE], dest, tag)
    if _test(request):
        frames.give(frame)
    else:
        frames.give_after(request, frame)


class RendezvousSend:
    """A rendezvous send: complete when the receiver's NI has read it."""

    __slots__ = ("generalized", "handle", "peer", "span")

    is_receive = False
    cancelled = False

    def __init__(self, channel: Channel, span: Any, dest: int, tag: int) -> None:
        self.span = span
        self.generalized: Any = None
        self.peer = channel.world_ranks[dest]
        address = span.address
        num_bytes = span.nbytes
        self.handle = handle = node.expose(address, num_bytes, self.peer)
        post_envelope(channel, KIND_RENDEZVOUS, address, num_bytes, handle.key, dest, tag)

    def poll(self) -> bool:
        done: bool = self.handle.done
        return done

    @property
    def complete_ns(self) -> int:
        complete_ns: int = self.handle.complete_ns
        return complete_ns

    @property
    def error(self) -> BaseException | None:
        return transfer_error(self.handle, self.peer)

    def cancel(self) -> None:
        """A send that was started goes through."""

    def result(self) -> None:
        return None


class Receive:
    """A posted receive.

    `span` is where the message lands; None lets the message decide (objects). `inner` is MPI's
    receive of the envelope. When the user holds `inner` as his request (`owned` False) it is only
    looked at here, and freed when he completes it.
    """

    __slots__ = (
        "cancelled", "complete_ns", "done", "error", "frame", "generalized", "handle", "inner", "num_bytes",
        "owned", "peer", "posted_ns", "prepared", "source", "span", "tag",
    )  # fmt: skip

    is_receive = True

    def __init__(
        self, channel: Channel, span: Any, source: int, tag: int, owned: bool = True
    ) -> None:
        self.span = span
        self.owned = owned
        self.done = False
        self.cancelled = False
        self.complete_ns = 0
        self.error: BaseException | None = None
        self.handle: Any = None
        self.num_bytes = 0
        self.generalized: Any = None
        self.inner: MPI.Request | None = None
        self.prepared = None
        if span is not None and span.nbytes > node.eager_limit_bytes:
            self.prepared = node.prepare_receive(span.address, span.nbytes)
        self.posted_ns = node.clock_ns
        if channel.arrived:
            found = channel.take(source, tag)
            if found is not None:
                self.match(found.frame, found.frame_bytes, found.source, found.tag)
                return
        self.frame = frames.take()
        self.inner = _irecv(channel.comm, self.frame, source, tag)

    @classmethod
    def matched(
        cls, frame: Any, frame_bytes: int, source: int, tag: int, span: Any, posted_ns: int
    ) -> "Receive":
        """A receive whose envelope is in `frame` already."""
        self = cls.__new__(cls)
        self.span = span
        self.owned = True
        self.done = self.cancelled = False
        self.complete_ns = self.num_bytes = 0
        self.error = self.handle = self.inner = self.prepared = self.generalized = None
        if span is not None and span.nbytes > node.eager_limit_bytes:
            self.prepared = node.prepare_receive(span.address, span.nbytes)
        self.posted_ns = posted_ns
        self.match(frame, frame_bytes, source, tag)
        return self

    def poll(self) -> bool:
        if self.done:
            return True
        if self.handle is None:
            status = MPI.Status()
            if not (_test if self.owned else _get_status)(self.inner, status):
                return False
            if status.Is_cancelled():
                self._end(node.clock_ns)
                frames.give(self.frame)
                self.cancelled = True
                if self.prepared is not None:
                    node.release_receive(self.prepared)
                return True
            self.match(self.frame, status.Get_count(), status.Get_source(), status.Get_tag())
            if self.done:
                return True
        if self.handle.done:
            self.error = transfer_error(self.handle, self.peer) or self.error
            self._end(self.handle.complete_ns)
            return True
        return False

    def match(self, frame: Any, frame_bytes: int, source: int, tag: int) -> None:
        """The envelope is here: land the payload or start fetching it."""
        self.source = source
        self.tag = tag
        envelope = _read_envelope(frame.address, frame_bytes)
        total = envelope.num_bytes
        self.peer = envelope.source
        span = self.span
        if span is None:
            span = self.span = MPI.buffer.allocate(total)
            if total > node.eager_limit_bytes:
                self.prepared = node.prepare_receive(span.address, total)
        capacity = span.nbytes
        self.num_bytes = min(total, capacity)
        if total > capacity:
            self.error = MPI.Exception(MPI.ERR_TRUNCATE)
        if envelope.kind == KIND_EAGER:
            complete_ns = node.land_eager(frame.address, span.address, capacity, self.posted_ns)
            if self.prepared is not None:
                node.release_receive(self.prepared)
            self._end(complete_ns)
        else:
            match_ns = max(self.posted_ns, envelope.arrival_ns)
            self.handle = node.fetch(
                envelope, span.address, self.num_bytes, match_ns, self.prepared
            )
        frames.give(frame)

    def _end(self, complete_ns: int) -> None:
        self.complete_ns = complete_ns
        self.done = True
        if type(self.span) is message.Packed:
            self.span.unpack(self.num_bytes)

    def cancel(self) -> None:
        if self.handle is None and not self.done and self.inner is not None:
            _cancel(self.inner)

    def result(self) -> Any:
        """What lower-case wait returns: nothing, for a receive into a buffer."""
        return None


def transfer_error(handle: Any, peer: int) -> BaseException | None:
    if handle.error == 0:
        return None
    error = MPI.Exception(MPI.ERR_OTHER)
    error.add_note(
        f"transfer with rank {peer} of COMM_WORLD failed in the NI: error {handle.error}"
    )
    return error


def fill(status: MPI.Status, operation: Any) -> None:
    """Make `status` that of the completed operation."""
    if operation.is_receive:
        if operation.cancelled:
            status.Set_cancelled(True)
            return
        status.Set_source(operation.source)
        status.Set_tag(operation.tag)
        status.Set_elements(MPI.BYTE, operation.num_bytes)


def start_send(channel: Channel, span: Any, dest: int, tag: int) -> RendezvousSend | None:
    """Send eagerly, and return None, or start a rendezvous. Arguments must be valid."""
    num_bytes = span.nbytes
    if num_bytes <= node.eager_limit_bytes:
        post_envelope(channel, KIND_EAGER, span.address, num_bytes, 0, dest, tag)
        return None
    return RendezvousSend(channel, span, dest, tag)


# Operations that a user's request stands for, by the request's handle.
active: dict[int, Any] = {}

# What starts the operation of a persistent request, by the request's handle.
persistent: dict[int, Any] = {}


def request_for(operation: Any) -> MPI.Request:
    """A request with a real handle for an operation that has none of MPI's own."""
    generalized = MPI.Grequest.Start(None, None, None)
    request = MPI.Request(generalized)
    operation.generalized = generalized
    active[request.handle] = operation
    return request


def request_of_receive(receive: Receive) -> MPI.Request:
    """The request of a posted receive (made with `owned` False): MPI's, of the envelope, if any."""
    if not receive.done:
        pending.append(receive)
    request = receive.inner
    if request is None:
        receive.owned = True
        return request_for(receive)
    active[request.handle] = receive
    return request


def wait_for(operation: Any) -> None:
    """Wait for an operation that no request stands for; raise its error."""
    try:
        wait(operation)
    except BaseException:  # interrupted: MPI still owns the frame
        operation.cancel()
        pending.append(operation)
        raise
    if operation.error is not None:
        raise operation.error
