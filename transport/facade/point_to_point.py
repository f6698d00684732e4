"""Send and receive of buffers, in their blocking and non-blocking forms.

Calls to or from PROC_NULL and calls with an invalid rank or tag go to MPI itself, which returns
or raises as it always does. On communicators without state a blocking call becomes its
non-blocking form, waited for with progress: other ranks may need this rank's NI meanwhile.

Buffered and ready sends are standard sends: a buffered one copies what does not fit an envelope.
"""

from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from pagewire.native import lib
from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.message import bytes_given, receive_span, send_span
from pagewire.transport.facade.operations import (
    ANY_SOURCE,
    ANY_TAG,
    KEEP,
    SYNCHRONOUS,
    USERS,
    Channel,
    Operation,
    finish,
    interrupted,
    pointer_to,
    request_for,
    request_of_receive,
    start_receive,
    start_send,
)
from pagewire.transport.facade.progress import Composite, describe_native, turn
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import Packed
from pagewire.transport.node.clock import wall_ns
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
    call, flags = here.calls.index(name), SYNCHRONOUS if synchronous else 0
    states, messaging, call_send = here.states, here.messaging, lib.pw_call_send

    def send(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> None:
        began_ns = wall_ns()
        dest, tag = c_int(dest), c_int(tag)
        state = states.get(self.handle)
        if state is None or not sendable(state.point_to_point, dest, tag):
            otherwise(self, buf, dest, tag, state)
            return
        span = send_span(buf)
        try:
            result = call_send(
                messaging, call, began_ns, state.point_to_point.c, span.address, span.nbytes,
                dest, tag, flags,
            )  # fmt: skip
            if result:
                finish(result, span)
        except BaseException:
            interrupted(span)
            raise

    def around(self: MPI.Comm, buf: Any, dest: int, tag: int, state: Any) -> None:
        if state is None:
            _go_around(dest, buf)
            polled(start(self, buf, dest, tag))
        else:
            original(self, buf, dest, tag)

    otherwise = bracket(name, around)
    return send


def _nonblocking_send(name: str, synchronous: bool) -> Callable[..., MPI.Request]:
    original = native(MPI.Comm, name)
    call, flags = here.calls.index(name), SYNCHRONOUS if synchronous else 0
    states, messaging, call_isend = here.states, here.messaging, lib.pw_call_isend

    def send(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> MPI.Request:
        began_ns = wall_ns()
        dest, tag = c_int(dest), c_int(tag)
        state = states.get(self.handle)
        if state is None or not sendable(state.point_to_point, dest, tag):
            return otherwise(self, buf, dest, tag, state)
        span = send_span(buf)
        result = call_isend(
            messaging, call, began_ns, state.point_to_point.c, span.address, span.nbytes, dest,
            tag, flags,
        )  # fmt: skip
        if result == 0:
            return complete_request()
        if result < 0:
            raise here.failure(result, f"{name} of {span.nbytes} bytes to rank {dest}")
        return request_for(Operation(result, span))

    def around(self: MPI.Comm, buf: Any, dest: int, tag: int, state: Any) -> MPI.Request:
        if state is None:
            _go_around(dest, buf)
        return original(self, buf, dest, tag)

    otherwise = bracket(name, around)
    return send


def start_request(
    channel: Channel, span: Any, dest: int, tag: int, synchronous: bool
) -> MPI.Request:
    """Start a send; an eager one is complete, and its request is one of MPI's that is."""
    operation = start_send(channel, span, dest, tag, synchronous)
    return complete_request() if operation is None else request_for(operation)


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
        state = here.states.get(self.handle)
        if state is None or not sendable(state.point_to_point, dest, tag):
            if state is None:
                _go_around(dest, buf)
            return original(self, buf, dest, tag)
        start_buffered(state.point_to_point, send_span(buf), dest, tag)
        return complete_request() if nonblocking else None

    return bracket(name, send)


def start_buffered(channel: Channel, span: Any, dest: int, tag: int) -> None:
    """Send without ever waiting; a copy is kept until the receiver has it."""
    if span.nbytes > here.eager_limit_bytes:
        span = copied(span)
    operation = start_send(channel, span, dest, tag)
    if operation is not None:
        here.keep(operation)


def _receive() -> Callable[..., None]:
    original = native(MPI.Comm, "Recv")
    call, states, messaging = here.calls.index("Recv"), here.states, here.messaging
    call_receive = lib.pw_call_receive

    def Recv(
        self: MPI.Comm,
        buf: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> None:
        began_ns = wall_ns()
        source, tag = c_int(source), c_int(tag)
        state = states.get(self.handle)
        if state is None or not receivable(state.point_to_point, source, tag):
            otherwise(self, buf, source, tag, status, state)
            return
        span = receive_span(buf)
        flags = KEEP if type(span) is Packed else 0
        try:
            result = call_receive(
                messaging, call, began_ns, state.point_to_point.c, span.address, span.nbytes,
                source, tag, flags, pointer_to(status),
            )  # fmt: skip
            if result:
                finish(result, span)
        except BaseException:
            interrupted(span)
            raise

    def around(
        self: MPI.Comm, buf: Any, source: int, tag: int, status: MPI.Status | None, state: Any
    ) -> None:
        if state is None:
            _go_around(source)
            polled(_irecv(self, buf, source, tag), status)
        else:
            original(self, buf, source, tag, status)

    otherwise = bracket("Recv", around)
    return Recv


def _nonblocking_receive() -> Callable[..., MPI.Request]:
    call, states, messaging = here.calls.index("Irecv"), here.states, here.messaging

    def Irecv(
        self: MPI.Comm, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> MPI.Request:
        began_ns = wall_ns()
        source, tag = c_int(source), c_int(tag)
        state = states.get(self.handle)
        if state is None or not receivable(state.point_to_point, source, tag):
            return otherwise(self, buf, source, tag, state)
        span = receive_span(buf)
        result = lib.pw_call_ireceive(
            messaging, call, began_ns, state.point_to_point.c, span.address, span.nbytes, source,
            tag, USERS,
        )  # fmt: skip
        if result < 0:
            raise here.failure(result, f"Irecv of {span.nbytes} bytes")
        return request_of_receive(Operation(result, span))

    def around(self: MPI.Comm, buf: Any, source: int, tag: int, state: Any) -> MPI.Request:
        if state is None:
            _go_around(source)
        return _irecv(self, buf, source, tag)

    otherwise = bracket("Irecv", around)
    return Irecv


def _exchange() -> Callable[..., None]:
    call = here.calls.index("Sendrecv")

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
        began_ns = wall_ns()
        dest, sendtag, source, recvtag = c_int(dest), c_int(sendtag), c_int(source), c_int(recvtag)
        if not _emulated_exchange(self, dest, sendtag, source, recvtag):
            otherwise(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
            return
        outgoing, incoming = send_span(sendbuf), receive_span(recvbuf)
        flags = KEEP if type(incoming) is Packed else 0
        try:
            result = lib.pw_call_exchange(
                here.messaging, call, began_ns, here.states[self.handle].point_to_point.c,
                outgoing.address, outgoing.nbytes, dest, sendtag, incoming.address,
                incoming.nbytes, source, recvtag, flags, pointer_to(status),
            )  # fmt: skip
            if result:
                finish(result, incoming)
        except BaseException:
            interrupted(outgoing, incoming)
            raise

    otherwise = bracket("Sendrecv", _exchange_by_halves)
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


def _emulated_exchange(comm: Any, dest: int, sendtag: int, source: int, recvtag: int) -> bool:
    state = here.states.get(comm.handle)
    return (
        state is not None
        and sendable(state.point_to_point, dest, sendtag)
        and receivable(state.point_to_point, source, recvtag)
    )


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


class Exchange(Composite):
    """The operation of Isendrecv: complete when both halves are; its status is the receive's."""

    __slots__ = ("generalized", "receive", "send")

    is_receive = True

    def __init__(self, send: Operation | None, receive: Operation) -> None:
        self.generalized: Any = None
        self.send = send
        self.receive = receive

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
    if not _emulated_exchange(self, dest, sendtag, source, recvtag):
        if self.handle not in here.states:
            _go_around(dest, sendbuf)
        return _half_exchange(self, sendbuf, dest, sendtag, recvbuf, source, recvtag)
    channel = here.states[self.handle].point_to_point
    outgoing, incoming = send_span(sendbuf), receive_span(recvbuf)
    receive = start_receive(channel, incoming, source, recvtag)
    return request_for(Exchange(start_send(channel, outgoing, dest, sendtag), receive))


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


class _FromNowhere(Composite):
    """The send half of an exchange whose receive is from PROC_NULL."""

    __slots__ = ("_send", "generalized")

    is_receive = True
    cancelled = False
    source = MPI.PROC_NULL
    tag = ANY_TAG
    num_bytes = 0

    def __init__(self, send: Operation) -> None:
        self._send = send
        self.generalized: Any = None

    def poll(self) -> bool:
        return self._send.poll()

    @property
    def complete_ns(self) -> int:
        return self._send.complete_ns

    @property
    def error(self) -> BaseException | None:
        return self._send.error

    def describe(self) -> str:
        return self._send.describe()

    def cancel(self) -> None:
        """A send that was started goes through."""

    def result(self) -> None:
        return None


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
    replacements: dict[str, Callable[..., Any]] = {
        "Send": _blocking_send("Send", False, "Isend"),
        "Rsend": _blocking_send("Rsend", False, "Irsend"),
        "Ssend": _blocking_send("Ssend", True, "Issend"),
        "Isend": _nonblocking_send("Isend", False),
        "Irsend": _nonblocking_send("Irsend", False),
        "Issend": _nonblocking_send("Issend", True),
        "Bsend": _buffered(False),
        "Ibsend": _buffered(True),
        "Recv": _receive(),
        "Irecv": _nonblocking_receive(),
        "Sendrecv": _exchange(),
        "Sendrecv_replace": Sendrecv_replace,
        "Isendrecv": bracket("Isendrecv", Isendrecv),
        "Isendrecv_replace": Isendrecv_replace,
    }
    replace_all(MPI.Comm, replacements)
