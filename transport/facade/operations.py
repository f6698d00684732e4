"""Messages between ranks: envelope, match, eager copy or rendezvous fetch.

Below the public calls and above the node. An envelope (with the payload when that is short) goes
as one MPI message on a channel's communicator with the user's tag, so that MPI does the matching;
longer payloads stay where they are until the receiver's NI reads them.
"""

from typing import Any

from mpi4py import MPI

from pagewire.native import describe
from pagewire.transport.facade.progress import wait
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import Packed
from pagewire.transport.node.messages import ENVELOPE_BYTES, KIND_EAGER, KIND_RENDEZVOUS
from pagewire.transport.node.patching import native

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

ANY_SOURCE = MPI.ANY_SOURCE
ANY_TAG = MPI.ANY_TAG


class Arrived:
    """A message that a probe took from MPI and that nobody has received yet."""

    __slots__ = ("announced", "envelope", "frame", "frame_bytes", "source", "tag")

    def __init__(self, source: int, tag: int, frame: Any, frame_bytes: int) -> None:
        self.source = source
        self.tag = tag
        self.frame = frame
        self.frame_bytes = frame_bytes
        self.envelope = here.node.messages.read(frame.address, frame_bytes)
        self.announced = False


def describe_match(source: int, tag: int, limit_bytes: int | None = None) -> str:
    """Which message a receive or probe takes, in words."""
    limit = "" if limit_bytes is None else f" of at most {limit_bytes} bytes"
    sender = "any rank" if source == ANY_SOURCE else f"rank {source} of its communicator"
    return f"a message{limit} from {sender} with {'any tag' if tag == ANY_TAG else f'tag {tag}'}"


class Channel:
    """A private communicator that carries envelopes, seen from this rank."""

    __slots__ = ("arrived", "comm", "rank", "size", "tag_limit", "world_ranks")

    def __init__(self, comm: MPI.Intracomm, world_ranks: list[int]) -> None:
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.world_ranks = world_ranks
        self.tag_limit = int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 0)
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
            frame = here.frames.take()
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
    here.calls.current.bytes += num_bytes
    short = kind == KIND_RENDEZVOUS or num_bytes <= NATIVE_BUFFERED_BYTES - ENVELOPE_BYTES
    if short and dest != channel.rank:  # to itself, a blocking send would wait for its receive
        frames = here.frames
        length = here.node.messages.write(
            frames.outgoing_address, peer, kind, address, num_bytes, key
        )
        _send(channel.comm, frames.view(length), dest, tag)
        return
    frame = here.frames.take()
    length = here.node.messages.write(frame.address, peer, kind, address, num_bytes, key)
    request = _isend(channel.comm, [frame, length, MPI.BYTE], dest, tag)
    if _test(request):
        here.frames.give(frame)
    else:
        here.frames.give_after(request, frame)


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
        self.handle = handle = here.node.rendezvous.expose(address, num_bytes, self.peer)
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

    def describe(self) -> str:
        return f"the receiver to read it: {self.handle.text}"

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
        "cancelled", "complete_ns", "done", "error", "frame", "generalized", "handle", "inner",
        "num_bytes", "owned", "peer", "posted_ns", "prepared", "source", "span", "tag",
    )  # fmt: skip

    is_receive = True

    def __init__(
        self, channel: Channel, span: Any, source: int, tag: int, owned: bool = True
    ) -> None:
        self.span = span
        self.source = source
        self.tag = tag
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
        if span is not None and span.nbytes > here.frames.eager_limit_bytes:
            self.prepared = here.node.rendezvous.prepare(span.address, span.nbytes)
        self.posted_ns = here.clock.now_ns
        if channel.arrived:
            found = channel.take(source, tag)
            if found is not None:
                self.match(found.frame, found.frame_bytes, found.source, found.tag)
                return
        self.frame = here.frames.take()
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
        if span is not None and span.nbytes > here.frames.eager_limit_bytes:
            self.prepared = here.node.rendezvous.prepare(span.address, span.nbytes)
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
                self._end(here.clock.now_ns)
                here.frames.give(self.frame)
                self.cancelled = True
                if self.prepared is not None:
                    here.node.rendezvous.release(self.prepared)
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
        envelope = here.node.messages.read(frame.address, frame_bytes)
        total = envelope.num_bytes
        self.peer = envelope.source
        span = self.span
        if span is None:
            span = self.span = MPI.buffer.allocate(total)
            if total > here.frames.eager_limit_bytes:
                self.prepared = here.node.rendezvous.prepare(span.address, total)
        capacity = span.nbytes
        self.num_bytes = min(total, capacity)
        if total > capacity:
            self.error = MPI.Exception(MPI.ERR_TRUNCATE)
        if envelope.kind == KIND_EAGER:
            complete_ns = here.node.messages.land(
                frame.address, span.address, capacity, self.posted_ns
            )
            if self.prepared is not None:
                here.node.rendezvous.release(self.prepared)
            self._end(complete_ns)
        else:
            match_ns = max(self.posted_ns, envelope.arrival_ns)
            self.handle = here.node.rendezvous.fetch(
                envelope, span.address, self.num_bytes, match_ns, self.prepared
            )
        here.frames.give(frame)

    def _end(self, complete_ns: int) -> None:
        self.complete_ns = complete_ns
        self.done = True
        if type(self.span) is Packed:
            self.span.unpack(self.num_bytes)

    def describe(self) -> str:
        if self.handle is not None:
            return f"the message that was matched: {self.handle.text}"
        limit_bytes = None if self.span is None else self.span.nbytes
        return describe_match(self.source, self.tag, limit_bytes)

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
        f"transfer with rank {peer} of COMM_WORLD failed in the NI: {describe(handle.error)}"
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
    if num_bytes <= here.frames.eager_limit_bytes:
        post_envelope(channel, KIND_EAGER, span.address, num_bytes, 0, dest, tag)
        return None
    return RendezvousSend(channel, span, dest, tag)


def request_for(operation: Any) -> MPI.Request:
    """A request with a real handle for an operation that has none of MPI's own."""
    generalized = MPI.Grequest.Start(None, None, None)
    request = MPI.Request(generalized)
    operation.generalized = generalized
    here.active[request.handle] = operation
    return request


def request_of_receive(receive: Receive) -> MPI.Request:
    """The request of a posted receive (made with `owned` False): MPI's, of the envelope, if any."""
    if not receive.done:
        here.pending.append(receive)
    request = receive.inner
    if request is None:
        receive.owned = True
        return request_for(receive)
    here.active[request.handle] = receive
    return request


def wait_for(operation: Any) -> None:
    """Wait for an operation that no request stands for; raise its error."""
    try:
        wait(operation)
    except BaseException:  # interrupted: MPI still owns the frame
        operation.cancel()
        here.pending.append(operation)
        raise
    if operation.error is not None:
        raise operation.error
