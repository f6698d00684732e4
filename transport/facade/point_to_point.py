"""Send and receive of buffers, in their blocking and non-blocking forms.

Calls to or from PROC_NULL and calls with an invalid rank or tag go to MPI itself, which returns
or raises as it always does. On communicators without state a blocking call becomes its
non-blocking form, waited for with progress: other ranks may need this rank's NI meanwhile.

Buffered and ready sends are standard sends: a buffered one copies what does not fit an envelope.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.message import bytes_given, receive_span, send_span
from pagewire.transport.facade.operations import (
    ANY_SOURCE,
    ANY_TAG,
    Channel,
    Receive,
    RendezvousSend,
    describe_match,
    fill,
    post_envelope,
    request_for,
    request_of_receive,
    start_send,
    wait_for,
)
from pagewire.transport.facade.progress import describe_native, progress, turn
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import Packed
from pagewire.transport.node.messages import ENVELOPE_BYTES, KIND_EAGER
from pagewire.transport.node.patching import native, replace_all

_irecv = native(MPI.Comm, "Irecv")
_test = native(MPI.Request, "Test")


def sendable(channel: Channel, dest: int, tag: int) -> bool:
    """Whether MPI would accept these for a message that moves."""
    return 0 <= dest < channel.size and 0 <= tag <= channel.tag_limit


def receivable(channel: Channel, source: int, tag: int) -> bool:
    return (0 <= source < channel.size or source == ANY_SOURCE) and (
        0 <= tag <= channel.tag_limit or tag == ANY_TAG
    )


def polled(request: MPI.Request, status: MPI.Status | None = None) -> None:
    """Wait for one of MPI's own requests, progressing."""
    while not _test(request, status):
        turn(describe_native)


def _go_around(partner: int, sent: Any = None) -> None:
    """Count a call on a communicator without state; with PROC_NULL nothing moves."""
    if partner != MPI.PROC_NULL:
        here.calls.go_around(bytes_given(sent) if sent is not None else 0)


def _blocking_send(name: str, synchronous: bool, nonblocking: str) -> Callable[..., None]:
    original = native(MPI.Comm, name)
    start = native(MPI.Comm, nonblocking)

    def send(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> None:
        dest, tag = c_int(dest), c_int(tag)
        here.clock.enter()
        try:
            here.calls.begin(name)
            state = here.states.get(self.handle)
            if state is None:
                _go_around(dest, buf)
                polled(start(self, buf, dest, tag))
                return
            channel = state.point_to_point
            if not (0 <= dest < channel.size and 0 <= tag <= channel.tag_limit):
                original(self, buf, dest, tag)
                return
            span = send_span(buf)
            num_bytes = span.nbytes
            if num_bytes <= here.frames.eager_limit_bytes and not synchronous:
                post_envelope(channel, KIND_EAGER, span.address, num_bytes, 0, dest, tag)
            else:
                wait_for(RendezvousSend(channel, span, dest, tag))
        finally:
            here.clock.leave()

    return send


def _nonblocking_send(name: str, synchronous: bool) -> Callable[..., MPI.Request]:
    original = native(MPI.Comm, name)

    def send(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> MPI.Request:
        dest, tag = c_int(dest), c_int(tag)
        here.clock.enter()
        try:
            here.calls.begin(name)
            state = here.states.get(self.handle)
            if state is None or not sendable(state.point_to_point, dest, tag):
                if state is None:
                    _go_around(dest, buf)
                return original(self, buf, dest, tag)
            span = send_span(buf)
            return start_request(state.point_to_point, span, dest, tag, synchronous)
        finally:
            here.clock.leave()

    return send


def start_request(
    channel: Channel, span: Any, dest: int, tag: int, synchronous: bool
) -> MPI.Request:
    """Start a send; an eager one is complete, and its request is one of MPI's that is."""
    if span.nbytes <= here.frames.eager_limit_bytes and not synchronous:
        post_envelope(channel, KIND_EAGER, span.address, span.nbytes, 0, dest, tag)
        return complete_request()
    return request_for(RendezvousSend(channel, span, dest, tag))


_isend = native(MPI.Comm, "Isend")
_NOTHING = memoryview(b"")
_SELF = MPI.COMM_SELF


def complete_request() -> MPI.Request:
    return _isend(_SELF, _NOTHING, MPI.PROC_NULL)


def copied(span: Any) -> Any:
    """A private copy of a span's bytes."""
    copy = MPI.buffer.allocate(span.nbytes)
    copy[:] = MPI.buffer.fromaddress(span.address, span.nbytes)
    return copy


def _buffered(nonblocking: bool) -> Callable[..., Any]:
    name = "Ibsend" if nonblocking else "Bsend"
    original = native(MPI.Comm, name)

    def send(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> Any:
        dest, tag = c_int(dest), c_int(tag)
        here.clock.enter()
        try:
            here.calls.begin(name)
            state = here.states.get(self.handle)
            if state is None or not sendable(state.point_to_point, dest, tag):
                if state is None:
                    _go_around(dest, buf)
                return original(self, buf, dest, tag)
            start_buffered(state.point_to_point, send_span(buf), dest, tag)
            return complete_request() if nonblocking else None
        finally:
            here.clock.leave()

    return send


def start_buffered(channel: Channel, span: Any, dest: int, tag: int) -> None:
    """Send without ever waiting; a copy is kept until the receiver has it."""
    if span.nbytes <= here.frames.eager_limit_bytes:
        post_envelope(channel, KIND_EAGER, span.address, span.nbytes, 0, dest, tag)
    else:
        here.keep(RendezvousSend(channel, copied(span), dest, tag))


def Recv(
    self: MPI.Comm,
    buf: Any,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    status: MPI.Status | None = None,
) -> None:
    source, tag = c_int(source), c_int(tag)
    here.clock.enter()
    try:
        here.calls.begin("Recv")
        state = here.states.get(self.handle)
        if state is None:
            _go_around(source)
            polled(_irecv(self, buf, source, tag), status)
            return
        channel = state.point_to_point
        if not receivable(channel, source, tag):
            _recv(self, buf, source, tag, status)
            return
        span = receive_span(buf)
        if span.nbytes > here.frames.eager_limit_bytes or channel.arrived:
            receive(Receive(channel, span, source, tag), status)
            return
        # The short message's way: as Receive does it, without the object.
        posted_ns = here.clock.now_ns
        frame = here.frames.take()
        inner = _irecv(channel.comm, frame, source, tag)
        found = here.frames.status if status is None else status
        try:
            while not _test(inner, found):
                if progress(True):
                    here.progress.busy()
                elif here.progress.idle():
                    here.progress.report(partial(describe_match, source, tag, span.nbytes))
        except BaseException:  # interrupted: MPI still owns the frame
            inner.Cancel()
            here.frames.give_after(inner, frame)
            raise
        frame_bytes = found.Get_count()
        complete_ns = -1
        if type(span) is not Packed:
            complete_ns = here.node.messages.take(
                frame.address, frame_bytes, span.address, span.nbytes, posted_ns
            )
        if complete_ns < 0:
            source, tag = found.Get_source(), found.Get_tag()
            receive(Receive.matched(frame, frame_bytes, source, tag, span, posted_ns), status)
            return
        here.frames.give(frame)
        here.clock.completed(complete_ns)
        if status is not None:
            status.Set_elements(MPI.BYTE, frame_bytes - ENVELOPE_BYTES)
    finally:
        here.clock.leave()


_recv = native(MPI.Comm, "Recv")


def receive(operation: Receive, status: MPI.Status | None) -> None:
    """Wait for a receive; its status; its error."""
    try:
        wait_for(operation)
    finally:
        if status is not None and operation.done:
            fill(status, operation)


def Irecv(self: MPI.Comm, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> MPI.Request:
    source, tag = c_int(source), c_int(tag)
    here.clock.enter()
    try:
        here.calls.begin("Irecv")
        state = here.states.get(self.handle)
        if state is None or not receivable(state.point_to_point, source, tag):
            if state is None:
                _go_around(source)
            return _irecv(self, buf, source, tag)
        return request_of_receive(
            Receive(state.point_to_point, receive_span(buf), source, tag, False)
        )
    finally:
        here.clock.leave()


def _exchange(
    channel: Channel,
    outgoing: Any,
    dest: int,
    sendtag: int,
    incoming: Any,
    source: int,
    recvtag: int,
) -> tuple[RendezvousSend | None, Receive]:
    """Post the receive, then start the send."""
    receive = Receive(channel, incoming, source, recvtag)
    send = start_send(channel, outgoing, dest, sendtag)
    return send, receive


def exchange(
    channel: Channel,
    outgoing: Any,
    dest: int,
    sendtag: int,
    incoming: Any,
    source: int,
    recvtag: int,
    status: MPI.Status | None = None,
) -> Receive:
    """Send and receive at once and wait for both."""
    send, operation = _exchange(channel, outgoing, dest, sendtag, incoming, source, recvtag)
    if send is not None:
        # The sender to us may wait for our NI while we wait for ours.
        here.pending.append(operation)
        wait_for(send)
    receive(operation, status)
    return operation


def _emulated_exchange(comm: Any, dest: int, sendtag: int, source: int, recvtag: int) -> bool:
    state = here.states.get(comm.handle)
    return (
        state is not None
        and sendable(state.point_to_point, dest, sendtag)
        and receivable(state.point_to_point, source, recvtag)
    )


def Sendrecv(
    self: MPI.Comm,
    sendbuf: Any,
    dest: int,
    sendtag: int = 0,
    recvbuf: Any = None,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
    status: MPI.Status | None = None,
) -> None:
    dest, sendtag, source, recvtag = c_int(dest), c_int(sendtag), c_int(source), c_int(recvtag)
    here.clock.enter()
    try:
        here.calls.begin("Sendrecv")
        if _emulated_exchange(self, dest, sendtag, source, recvtag):
            channel = here.states[self.handle].point_to_point
            outgoing, incoming = send_span(sendbuf), receive_span(recvbuf)
            exchange(channel, outgoing, dest, sendtag, incoming, source, recvtag, status)
            return
    finally:
        here.clock.leave()
    # PROC_NULL on one side, an error, or MPI's communicator: each half by itself.
    receiving = self.Irecv(recvbuf, source, recvtag)
    try:
        sending = self.Isend(sendbuf, dest, sendtag)
    except BaseException:
        receiving.Cancel()
        receiving.Free()
        raise
    receiving.Wait(status)
    sending.Wait()


def _replaced(buf: Any, dest: int) -> Any:
    """A specification of a copy of what is in a buffer that the receive will overwrite."""
    return None if dest == MPI.PROC_NULL else [copied(send_span(buf)), MPI.BYTE]


def Sendrecv_replace(
    self: MPI.Comm,
    buf: Any,
    dest: int,
    sendtag: int = 0,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
    status: MPI.Status | None = None,
) -> None:
    Sendrecv(self, _replaced(buf, dest), dest, sendtag, buf, source, recvtag, status)


class Exchange:
    """The operation of Isendrecv: complete when both halves are; its status is the receive's."""

    __slots__ = ("generalized", "receive", "send")

    is_receive = True

    def __init__(self, send: RendezvousSend | None, receive: Receive) -> None:
        self.generalized: Any = None
        self.send = send
        self.receive = receive
        if not receive.done:
            here.pending.append(receive)

    def poll(self) -> bool:
        return (self.send is None or self.send.poll()) and self.receive.poll()

    @property
    def complete_ns(self) -> int:
        if self.send is None:
            return self.receive.complete_ns
        return max(self.send.complete_ns, self.receive.complete_ns)

    @property
    def done(self) -> bool:
        return self.poll()

    def describe(self) -> str:
        waiting = self.receive if self.send is None or self.send.poll() else self.send
        return waiting.describe()

    @property
    def error(self) -> BaseException | None:
        return self.receive.error or (self.send.error if self.send is not None else None)

    @property
    def cancelled(self) -> bool:
        return self.receive.cancelled

    @property
    def source(self) -> int:
        return self.receive.source

    @property
    def tag(self) -> int:
        return self.receive.tag

    @property
    def num_bytes(self) -> int:
        return self.receive.num_bytes

    def cancel(self) -> None:
        """Cannot be cancelled: half of it may have happened."""

    def result(self) -> Any:
        return None


def Isendrecv(
    self: MPI.Comm,
    sendbuf: Any,
    dest: int,
    sendtag: int = 0,
    recvbuf: Any = None,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
) -> MPI.Request:
    dest, sendtag, source, recvtag = c_int(dest), c_int(sendtag), c_int(source), c_int(recvtag)
    here.clock.enter()
    try:
        here.calls.begin("Isendrecv")
        if not _emulated_exchange(self, dest, sendtag, source, recvtag):
            if self.handle not in here.states:
                _go_around(dest, sendbuf)
            return _half_exchange(self, sendbuf, dest, sendtag, recvbuf, source, recvtag)
        channel = here.states[self.handle].point_to_point
        outgoing, incoming = send_span(sendbuf), receive_span(recvbuf)
        return request_for(
            Exchange(*_exchange(channel, outgoing, dest, sendtag, incoming, source, recvtag))
        )
    finally:
        here.clock.leave()


_isendrecv = native(MPI.Comm, "Isendrecv")


def _half_exchange(
    comm: MPI.Comm, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
) -> MPI.Request:
    """Isendrecv where PROC_NULL is on a side, something is invalid, or there is no state."""
    null = MPI.PROC_NULL
    state = here.states.get(comm.handle)
    if state is not None:
        channel = state.point_to_point
        if dest == null and receivable(channel, source, recvtag):
            return comm.Irecv(recvbuf, source, recvtag)
        if source == null and sendable(channel, dest, sendtag):
            send = start_send(channel, send_span(sendbuf), dest, sendtag)
            if send is not None:
                # A receive from PROC_NULL beside it, so that the status is that one's.
                return request_for(_FromNowhere(send))
            return comm.Irecv(recvbuf, null, recvtag)
    return _isendrecv(comm, sendbuf, dest, sendtag, recvbuf, source, recvtag)


class _FromNowhere:
    """The send half of an exchange whose receive is from PROC_NULL."""

    __slots__ = ("_send", "generalized")

    is_receive = True
    cancelled = False
    source = MPI.PROC_NULL
    tag = ANY_TAG
    num_bytes = 0

    def __init__(self, send: RendezvousSend) -> None:
        self._send = send
        self.generalized: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._send, name)


def Isendrecv_replace(
    self: MPI.Comm,
    buf: Any,
    dest: int,
    sendtag: int = 0,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
) -> MPI.Request:
    return Isendrecv(self, _replaced(buf, dest), dest, sendtag, buf, source, recvtag)


def install() -> None:
    replacements: dict[str, Callable[..., Any]] = {
        "Send": _blocking_send("Send", False, "Isend"),
        "Rsend": _blocking_send("Rsend", False, "Irsend"),
        "Ssend": _blocking_send("Ssend", True, "Issend"),
        "Isend": _nonblocking_send("Isend", False),
        "Irsend": _nonblocking_send("Irsend", False),
        "Issend": _nonblocking_send("Issend", True),
        "Bsend": _buffered(False),
        "Ibsend": _buffered(True),
    }
    for function in (
        Recv, Irecv, Sendrecv, Sendrecv_replace, Isendrecv, Isendrecv_replace,
    ):  # fmt: skip
        replacements[function.__name__] = function
    replace_all(MPI.Comm, replacements)
