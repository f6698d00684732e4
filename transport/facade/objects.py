"""Lower-case point-to-point: pickled objects as messages of bytes.

The bytes are those that MPI.pickle makes, so `send` meets `Recv` as in mpi4py. A receive takes
the length from the envelope; a buffer offered to it is not used.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.bracket import bracket, replace_calls
from pagewire.transport.facade.operations import (
    ANY_SOURCE,
    ANY_TAG,
    SYNCHRONOUS,
    Operation,
    complete_request,
    exchange_within,
    finish,
    receive_within,
    request_for,
    send_within,
    start_receive,
)
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.point_to_point import (
    buffered_request,
    exchange_channel,
    finish_call,
    mpis_own,
    receivable,
    sendable,
    start_buffered,
    start_request,
)
from pagewire.transport.facade.probing import mprobe, receive, receive_matched
from pagewire.transport.facade.python_calls import calls
from pagewire.transport.facade.rank import here

_native_irecv = mpis_own("irecv")
_native_recv = native(MPI.Comm, "recv")
_message_recv = native(MPI.Message, "recv")
_message_irecv = native(MPI.Message, "irecv")


def pickled(thing: Any) -> Any:
    """The span of an object's pickle."""
    return MPI.buffer.frombuffer(MPI.pickle.dumps(thing), True)


def unpickled(span: Any) -> Any:
    """The object whose pickle is in a span."""
    return MPI.pickle.loads(MPI.buffer.fromaddress(span.address, span.nbytes))


def loaded(receive: Any) -> Any:
    """The object in a completed receive."""
    if receive.cancelled or receive.num_bytes == 0:
        return None
    return unpickled(receive.received())


class ObjectReceive(Operation):
    """A receive whose result is an object."""

    __slots__ = ()

    def result(self) -> Any:
        return loaded(self)


def _sender(name: str, post: Callable[..., Any]) -> Callable[..., Any]:
    """The call `name` of an object, destination and tag, `post(channel, span, dest, tag)`."""
    otherwise = mpis_own(name)

    def send(self: MPI.Comm, obj: Any, dest: int, tag: int = 0) -> Any:
        dest, tag = c_int(dest), c_int(tag)
        state = here.states.get(self.handle)
        if state is None or not sendable(state.point_to_point, dest, tag):
            return otherwise(self, obj, dest, tag)
        return post(state.point_to_point, pickled(obj), dest, tag)

    return send


def _blocking_send(name: str, synchronous: bool) -> Callable[..., None]:
    flags = SYNCHRONOUS if synchronous else 0
    otherwise = bracket(name, _sender(name, partial(send_within, synchronous=synchronous)))
    call, at_once = here.calls.index(name), calls.send_object

    def send(self: MPI.Comm, obj: Any, dest: int, tag: int = 0) -> None:
        result = at_once(self, obj, dest, tag, call, flags)
        if result is NotImplemented:
            otherwise(self, obj, dest, tag)
        elif result is not None:
            finish_call(*result)

    return send


def _nonblocking_send(name: str, synchronous: bool) -> Callable[..., MPI.Request]:
    flags = SYNCHRONOUS if synchronous else 0
    otherwise = bracket(name, _sender(name, partial(start_request, synchronous=synchronous)))
    call, at_once = here.calls.index(name), calls.isend_object

    def send(self: MPI.Comm, obj: Any, dest: int, tag: int = 0) -> MPI.Request:
        result = at_once(self, obj, dest, tag, call, flags)
        if result is None:
            return complete_request()
        if result is NotImplemented:
            return otherwise(self, obj, dest, tag)
        if isinstance(result, int):
            raise here.failure(result, f"{name} to rank {dest}")
        return result

    return send


def _blocking_receive() -> Callable[..., Any]:
    otherwise = bracket("recv", _recv)
    call, at_once = here.calls.index("recv"), calls.receive_object

    def recv(
        self: MPI.Comm,
        buf: Any = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> Any:
        status_address = 0 if status is None else MPI._addressof(status)
        result = at_once(self, None, source, tag, call, 0, status_address)
        if result is NotImplemented:
            return otherwise(self, buf, source, tag, status)
        return finish(result, None) if isinstance(result, int) else result[0]

    return recv


def _recv(
    self: MPI.Comm,
    buf: Any = None,
    source: int = ANY_SOURCE,
    tag: int = ANY_TAG,
    status: MPI.Status | None = None,
) -> Any:
    source, tag = c_int(source), c_int(tag)
    state = here.states.get(self.handle)
    if state is None and source != MPI.PROC_NULL:
        here.calls.go_around(0)
        return _message_recv(mprobe(self, source, tag), status)
    if state is None or not receivable(state.point_to_point, source, tag):
        return _native_recv(self, buf, source, tag, status)
    return loaded(receive_within(state.point_to_point, source, tag, status))


def irecv(
    self: MPI.Comm, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG
) -> MPI.Request:
    source, tag = c_int(source), c_int(tag)
    state = here.states.get(self.handle)
    if state is None or not receivable(state.point_to_point, source, tag):
        return _native_irecv(self, buf, source, tag)
    channel = state.point_to_point
    return request_for(start_receive(channel, None, source, tag, kind=ObjectReceive))


def sendrecv(
    self: MPI.Comm,
    sendobj: Any,
    dest: int,
    sendtag: int = 0,
    recvbuf: Any = None,
    source: int = ANY_SOURCE,
    recvtag: int = ANY_TAG,
    status: MPI.Status | None = None,
) -> Any:
    dest, sendtag, source, recvtag = c_int(dest), c_int(sendtag), c_int(source), c_int(recvtag)
    channel = exchange_channel(self, dest, sendtag, source, recvtag)
    if channel is None:
        sending = self.isend(sendobj, dest, sendtag)
        received = self.recv(recvbuf, source, recvtag, status)
        sending.wait()
        return received
    span = pickled(sendobj)
    return loaded(exchange_within(channel, span, dest, sendtag, source, recvtag, status))


def message_recv(self: MPI.Message, status: MPI.Status | None = None) -> Any:
    if self not in here.matched:
        return _message_recv(self, status)
    operation = receive_matched(here.matched.take(self), None)
    receive(operation, status)
    return loaded(operation)


def message_irecv(self: MPI.Message) -> MPI.Request:
    if self not in here.matched:
        return _message_irecv(self)
    return request_for(receive_matched(here.matched.take(self), None, ObjectReceive))


def install() -> None:
    replace_all(
        MPI.Comm,
        {
            "send": _blocking_send("send", False),
            "ssend": _blocking_send("ssend", True),
            "isend": _nonblocking_send("isend", False),
            "issend": _nonblocking_send("issend", True),
            "recv": _blocking_receive(),
        },
    )
    posts: dict[str, Callable[..., Any]] = {
        "bsend": start_buffered,
        "ibsend": buffered_request,
    }
    replace_calls(MPI.Comm, {name: _sender(name, post) for name, post in posts.items()})
    replace_calls(MPI.Comm, {"irecv": irecv, "sendrecv": sendrecv})
    replace_calls(MPI.Message, {"recv": message_recv, "irecv": message_irecv}, "Message.")
