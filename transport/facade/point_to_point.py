"""Send and receive of buffers, in their blocking and non-blocking forms.

Calls to or from PROC_NULL and calls with an invalid rank or tag go to MPI itself, which returns
or raises as it always does. On communicators without state a blocking call becomes its
non-blocking form, waited for with progress: other ranks may need this rank's NI meanwhile.

Buffered and ready sends are standard sends: a buffered one copies what does not fit an envelope.
"""

from collections.abc import Callable
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.arrays import CLASSES, HANDLES, TYPES
from pagewire.transport.facade.bracket import bracket, replace_calls
from pagewire.transport.facade.clock import wall_ns
from pagewire.transport.facade.completion import polled
from pagewire.transport.facade.message import bytes_given, receive_span, send_span
from pagewire.transport.facade.operations import (
    ANY_SOURCE,
    ANY_TAG,
    KEEP,
    SYNCHRONOUS,
    Channel,
    Operation,
    complete_request,
    finish,
    interrupted,
    pointer_to,
    request_for,
    start_receive,
    start_send,
)
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.progress import Composite
from pagewire.transport.facade.python_calls import calls
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.reductions import PREDEFINED
from pagewire.transport.facade.selection import CONTIGUOUS_SIZES, Packed

_BLOCKING = frozenset({"send", "rsend", "ssend", "bsend", "recv"})


def sendable(channel: Channel, dest: int, tag: int) -> bool:
    """Whether MPI would accept these for a message that moves."""
    return 0 <= dest < channel.size and 0 <= tag <= channel.tag_limit


def receivable(channel: Channel, source: int, tag: int) -> bool:
    return (0 <= source < channel.size or source == ANY_SOURCE) and (
        0 <= tag <= channel.tag_limit or tag == ANY_TAG
    )


def nonblocking(name: str) -> Any:
    """MPI's own non-blocking form of the call `name`."""
    return native(MPI.Comm, ("I" if name[0].isupper() else "i") + name.lower())


def _go_around(partner: int, sent: Any = None) -> None:
    """Count a call on a communicator without state; with PROC_NULL nothing moves."""
    if partner != MPI.PROC_NULL:
        here.calls.go_around(bytes_given(sent) if sent is not None else 0)


def mpis_own(name: str) -> Callable[..., Any]:
    """The call `name` of (comm, buffer or object, partner, tag[, status]) where the NI does not
    carry it."""
    original = native(MPI.Comm, name)
    is_blocking = name.lower() in _BLOCKING
    start = nonblocking(name) if is_blocking else original
    is_buffer_sent = name[0].isupper() and "send" in name.lower()

    def call(comm: MPI.Comm, thing: Any, partner: int, tag: int, *status: Any) -> Any:
        if comm.handle in here.states:
            return original(comm, thing, partner, tag, *status)
        _go_around(partner, thing if is_buffer_sent else None)
        request = start(comm, thing, partner, tag)
        return polled(request, *status) if is_blocking else request

    return call


def _prepare() -> None:
    functions = MPI.__pyx_capi__
    calls.prepare(
        messaging=int(ffi.cast("uintptr_t", here.messaging)),
        states=here.states,
        classes=CLASSES,
        types=TYPES,
        handles=HANDLES,
        datatype=MPI.Datatype,
        sizes=CONTIGUOUS_SIZES,
        pickle=MPI.pickle,
        operations=PREDEFINED,
        in_place=MPI.IN_PLACE,
        active=here.active,
        operation=Operation,
        request=MPI.Request,
        grequest=MPI.Grequest,
        start=MPI.Grequest.Start,
        wait=native(MPI.Request, "Wait"),
        wait_for_all=native(MPI.Request, "Waitall"),
        at_once=complete_request(),
        null=MPI.REQUEST_NULL,
        handle_of=functions["PyMPIRequest_Get"],
        new_request=functions["PyMPIRequest_New"],
        handle_bytes=MPI._sizeof(MPI.Request),
        any_source=ANY_SOURCE,
        any_tag=ANY_TAG,
        tag_limit=int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 0),
    )


def _blocking_send(name: str, synchronous: bool) -> Callable[..., None]:
    otherwise = bracket(name, mpis_own(name))
    call, flags = here.calls.index(name), SYNCHRONOUS if synchronous else 0
    states, messaging = here.states, here.messaging
    at_once = calls.send

    def send(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> None:
        result = at_once(self, buf, dest, tag, call, flags)
        if result is NotImplemented:
            send_other(self, buf, dest, tag)
        elif result is not None:
            finish_call(result, send_span(buf))

    def send_other(self: MPI.Comm, buf: Any, dest: Any, tag: Any) -> None:
        began_ns = wall_ns()
        dest, tag = c_int(dest), c_int(tag)
        state = states.get(self.handle)
        if state is None or not sendable(state.point_to_point, dest, tag):
            otherwise(self, buf, dest, tag)
            return
        span = send_span(buf)
        try:
            result = lib.pw_call_send(
                messaging, call, began_ns, state.point_to_point.c, span.address, span.nbytes,
                dest, tag, flags,
            )  # fmt: skip
            if result:
                finish(result, span)
        except BaseException:
            interrupted(span)
            raise

    return send


def finish_call(result: int, *spans: Any) -> None:
    """Of a call of C that is over: see `finish`. spans: the memory that it uses."""
    try:
        finish(result, spans[0])
    except BaseException:
        interrupted(*spans)
        raise


def _nonblocking_send(name: str, synchronous: bool) -> Callable[..., MPI.Request]:
    otherwise = bracket(name, mpis_own(name))
    call, flags = here.calls.index(name), SYNCHRONOUS if synchronous else 0
    states, messaging = here.states, here.messaging
    at_once = calls.isend

    def send(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> MPI.Request:
        result = at_once(self, buf, dest, tag, call, flags)
        if result is None:
            return complete_request()
        if result is NotImplemented:
            return send_other(self, buf, dest, tag)
        if isinstance(result, int):
            raise failure(result, send_span(buf), dest)
        return result

    def send_other(self: MPI.Comm, buf: Any, dest: Any, tag: Any) -> MPI.Request:
        began_ns = wall_ns()
        dest, tag = c_int(dest), c_int(tag)
        state = states.get(self.handle)
        if state is None or not sendable(state.point_to_point, dest, tag):
            return otherwise(self, buf, dest, tag)
        span = send_span(buf)
        result = lib.pw_call_isend(
            messaging, call, began_ns, state.point_to_point.c, span.address, span.nbytes, dest,
            tag, flags,
        )  # fmt: skip
        if result < 0:
            raise failure(result, span, dest)
        return complete_request() if result == 0 else request_for(Operation(result, span))

    def failure(result: int, span: Any, dest: int) -> BaseException:
        return here.failure(result, f"{name} of {span.nbytes} bytes to rank {dest}")

    return send


def start_request(
    channel: Channel, span: Any, dest: int, tag: int, synchronous: bool = False
) -> MPI.Request:
    """Start a send; an eager one is complete, and its request is one of MPI's that is."""
    operation = start_send(channel, span, dest, tag, synchronous)
    return complete_request() if operation is None else request_for(operation)


def copied(span: Any) -> Any:
    """A private copy of a span's bytes."""
    copy = MPI.buffer.allocate(span.nbytes)
    copy[:] = MPI.buffer.fromaddress(span.address, span.nbytes)
    return copy


def buffer_sender(name: str, post: Callable[..., Any]) -> Callable[..., Any]:
    """The call `name` of a buffer, destination and tag, `post(channel, buf, dest, tag)`."""
    otherwise = mpis_own(name)

    def send(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> Any:
        dest, tag = c_int(dest), c_int(tag)
        state = here.states.get(self.handle)
        if state is None or not sendable(state.point_to_point, dest, tag):
            return otherwise(self, buf, dest, tag)
        return post(state.point_to_point, buf, dest, tag)

    return send


def _bsend(channel: Channel, buf: Any, dest: int, tag: int) -> None:
    start_buffered(channel, send_span(buf), dest, tag)


def _ibsend(channel: Channel, buf: Any, dest: int, tag: int) -> MPI.Request:
    return buffered_request(channel, send_span(buf), dest, tag)


def start_buffered(channel: Channel, span: Any, dest: int, tag: int) -> None:
    """Send without ever waiting; a copy is kept until the receiver has it."""
    if span.nbytes > here.eager_limit_bytes:
        span = copied(span)
    operation = start_send(channel, span, dest, tag)
    if operation is not None:
        here.keep(operation)


def buffered_request(channel: Channel, span: Any, dest: int, tag: int) -> MPI.Request:
    start_buffered(channel, span, dest, tag)
    return complete_request()


def _receive() -> Callable[..., None]:
    otherwise = bracket("Recv", mpis_own("Recv"))
    call, states, messaging = here.calls.index("Recv"), here.states, here.messaging
    at_once = calls.receive

    def Recv(
        self: MPI.Comm,
        buf: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> None:
        status_address = 0 if status is None else MPI._addressof(status)
        result = at_once(self, buf, source, tag, call, 0, status_address)
        if result is NotImplemented:
            receive_other(self, buf, source, tag, status)
        elif result is not None:
            finish_call(result, receive_span(buf))

    def receive_other(
        self: MPI.Comm, buf: Any, source: Any, tag: Any, status: MPI.Status | None
    ) -> None:
        began_ns = wall_ns()
        source, tag = c_int(source), c_int(tag)
        state = states.get(self.handle)
        if state is None or not receivable(state.point_to_point, source, tag):
            otherwise(self, buf, source, tag, status)
            return
        span = receive_span(buf)
        flags = KEEP if type(span) is Packed else 0
        try:
            result = lib.pw_call_receive(
                messaging, call, began_ns, state.point_to_point.c, span.address, span.nbytes,
                source, tag, flags, pointer_to(status),
            )  # fmt: skip
            if result:
                finish(result, span)
        except BaseException:
            interrupted(span)
            raise

    return Recv


def _nonblocking_receive() -> Callable[..., MPI.Request]:
    otherwise = bracket("Irecv", mpis_own("Irecv"))
    call, states, messaging = here.calls.index("Irecv"), here.states, here.messaging
    at_once = calls.ireceive

    def Irecv(
        self: MPI.Comm, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> MPI.Request:
        result = at_once(self, buf, source, tag, call, 0)
        if result is NotImplemented:
            return receive_other(self, buf, source, tag)
        if isinstance(result, int):
            raise failure(result, receive_span(buf))
        return result

    def receive_other(self: MPI.Comm, buf: Any, source: Any, tag: Any) -> MPI.Request:
        began_ns = wall_ns()
        source, tag = c_int(source), c_int(tag)
        state = states.get(self.handle)
        if state is None or not receivable(state.point_to_point, source, tag):
            return otherwise(self, buf, source, tag)
        span = receive_span(buf)
        result = lib.pw_call_ireceive(
            messaging, call, began_ns, state.point_to_point.c, span.address, span.nbytes, source,
            tag, 0,
        )  # fmt: skip
        if result < 0:
            raise failure(result, span)
        return request_for(Operation(result, span))

    def failure(result: int, span: Any) -> BaseException:
        return here.failure(result, f"Irecv of {span.nbytes} bytes")

    return Irecv


def _exchange() -> Callable[..., None]:
    otherwise = bracket("Sendrecv", _exchange_by_halves)
    call, at_once = here.calls.index("Sendrecv"), calls.exchange

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
        status_address = 0 if status is None else MPI._addressof(status)
        result = at_once(
            self, sendbuf, dest, sendtag, call, 0, recvbuf, source, recvtag, status_address
        )
        if result is NotImplemented:
            exchange_other(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
        elif result is not None:
            finish_call(result, receive_span(recvbuf), send_span(sendbuf))

    def exchange_other(
        self: MPI.Comm,
        sendbuf: Any,
        dest: Any,
        sendtag: Any,
        recvbuf: Any,
        source: Any,
        recvtag: Any,
        status: MPI.Status | None,
    ) -> None:
        began_ns = wall_ns()
        dest, sendtag, source, recvtag = c_int(dest), c_int(sendtag), c_int(source), c_int(recvtag)
        channel = exchange_channel(self, dest, sendtag, source, recvtag)
        if channel is None:
            otherwise(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
            return
        outgoing, incoming = send_span(sendbuf), receive_span(recvbuf)
        flags = KEEP if type(incoming) is Packed else 0
        try:
            result = lib.pw_call_exchange(
                here.messaging, call, began_ns, channel.c, outgoing.address, outgoing.nbytes, dest,
                sendtag, incoming.address, incoming.nbytes, source, recvtag, flags,
                pointer_to(status),
            )  # fmt: skip
            if result:
                finish(result, incoming)
        except BaseException:
            interrupted(outgoing, incoming)
            raise

    return Sendrecv


def _exchange_by_halves(
    self: MPI.Comm,
    sendbuf: Any,
    dest: int,
    sendtag: int,
    recvbuf: Any,
    source: int,
    recvtag: int,
    status: MPI.Status | None,
) -> None:
    """PROC_NULL on one side, an error, or MPI's communicator: each half by itself."""
    receiving = self.Irecv(recvbuf, source, recvtag)
    try:
        sending = self.Isend(sendbuf, dest, sendtag)
    except BaseException:
        receiving.Cancel()
        receiving.Free()
        raise
    receiving.Wait(status)
    sending.Wait()


def exchange_channel(
    comm: MPI.Comm, dest: int, sendtag: int, source: int, recvtag: int
) -> Channel | None:
    """Where the NI carries both halves of an exchange; None: it does not."""
    state = here.states.get(comm.handle)
    if state is None:
        return None
    channel: Channel = state.point_to_point
    sends, receives = sendable(channel, dest, sendtag), receivable(channel, source, recvtag)
    return channel if sends and receives else None


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
    self.Sendrecv(_replaced(buf, dest), dest, sendtag, buf, source, recvtag, status)


_FROM_NULL = SimpleNamespace(cancelled=False, source=MPI.PROC_NULL, tag=ANY_TAG, num_bytes=0)
"""What a receive from PROC_NULL has received."""


class Exchange(Composite):
    """The operation of Isendrecv: complete when both halves are, of which an eager send is none;
    its status is the receive's. receive None: from PROC_NULL."""

    __slots__ = ("_halves", "_received")

    is_receive = True
    cancelled = property(attrgetter("_received.cancelled"))
    source = property(attrgetter("_received.source"))
    tag = property(attrgetter("_received.tag"))
    num_bytes = property(attrgetter("_received.num_bytes"))

    def __init__(self, send: Operation | None, receive: Operation | None) -> None:
        super().__init__()
        self._halves = [half for half in (send, receive) if half is not None]
        self._received = receive or _FROM_NULL

    def poll(self) -> bool:
        return all(half.poll() for half in self._halves)

    @property
    def complete_ns(self) -> int:
        return max(half.complete_ns for half in self._halves)

    def describe(self) -> str:
        waiting = [half for half in self._halves if not half.poll()]
        return (waiting or self._halves)[0].describe()

    @property
    def error(self) -> BaseException | None:
        """The receive's first."""
        errors = [half.error for half in reversed(self._halves)]
        return next((error for error in errors if error is not None), None)


_isendrecv = native(MPI.Comm, "Isendrecv")


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
    state = here.states.get(self.handle)
    if state is None:
        _go_around(dest, sendbuf)
        return _isendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag)
    channel = state.point_to_point
    sends, receives = sendable(channel, dest, sendtag), receivable(channel, source, recvtag)
    if receives and dest == MPI.PROC_NULL:
        return self.Irecv(recvbuf, source, recvtag)
    if not sends or not (receives or source == MPI.PROC_NULL):
        return _isendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag)
    outgoing, receive = send_span(sendbuf), None
    if receives:
        receive = start_receive(channel, receive_span(recvbuf), source, recvtag)
    send = start_send(channel, outgoing, dest, sendtag)
    if send is None and receive is None:
        return self.Irecv(recvbuf, source, recvtag)
    return request_for(Exchange(send, receive))


def Isendrecv_replace(
    self: MPI.Comm,
    buf: Any,
    dest: int,
    sendtag: int = 0,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
) -> MPI.Request:
    return self.Isendrecv(_replaced(buf, dest), dest, sendtag, buf, source, recvtag)


def install() -> None:
    _prepare()
    replacements: dict[str, Callable[..., Any]] = {
        "Send": _blocking_send("Send", False),
        "Rsend": _blocking_send("Rsend", False),
        "Ssend": _blocking_send("Ssend", True),
        "Isend": _nonblocking_send("Isend", False),
        "Irsend": _nonblocking_send("Irsend", False),
        "Issend": _nonblocking_send("Issend", True),
        "Recv": _receive(),
        "Irecv": _nonblocking_receive(),
        "Sendrecv": _exchange(),
        "Sendrecv_replace": Sendrecv_replace,
        "Isendrecv_replace": Isendrecv_replace,
    }
    replace_all(MPI.Comm, replacements)
    replace_calls(
        MPI.Comm,
        {
            "Bsend": buffer_sender("Bsend", _bsend),
            "Ibsend": buffer_sender("Ibsend", _ibsend),
            "Isendrecv": Isendrecv,
        },
    )
