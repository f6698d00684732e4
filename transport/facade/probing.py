"""Probe, and receive of what a matching probe found.

A `Message` has a real handle: that of an empty message from this rank to itself.
"""

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.bracket import bracket, replace_calls
from pagewire.transport.facade.message import receive_span
from pagewire.transport.facade.operations import (
    ANY_SOURCE,
    ANY_TAG,
    UNSIZED,
    Channel,
    Operation,
    describe_match,
    fill,
    request_for,
    wait_for,
)
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.point_to_point import nonblocking, receivable
from pagewire.transport.facade.progress import test_turn, turn
from pagewire.transport.facade.rank import here

_mprobe = native(MPI.Comm, "Mprobe")
_isend = native(MPI.Comm, "Isend")
_wait = native(MPI.Request, "Wait")
_message_recv = native(MPI.Message, "Recv")
_message_irecv = native(MPI.Message, "Irecv")

_NOTHING = memoryview(bytearray())
_TAKE = int(lib.PW_PROBE_TAKE)
_WAIT = int(lib.PW_PROBE_WAIT)


class Matched:
    """Messages handed out by matching probes and not received yet, by handle."""

    def __init__(self) -> None:
        self._to_self: MPI.Intracomm = native(MPI.Comm, "Split")(MPI.COMM_SELF, 0)
        self._found: dict[int, tuple[Any, MPI.Request]] = {}
        self._lock = Lock()  # of two threads, none shall get the other one's token

    def __contains__(self, message: MPI.Message) -> bool:
        return message.handle in self._found

    def add(self, found: Any) -> MPI.Message:
        """A message object that stands for a pw_operation that arrived."""
        with self._lock:
            token = _isend(self._to_self, _NOTHING, 0)
            message: MPI.Message = _mprobe(self._to_self, 0)
        self._found[message.handle] = found, token
        return message

    def take(self, message: MPI.Message) -> Any:
        """What it stands for; the user's object becomes MESSAGE_NULL."""
        found, token = self._found.pop(message.handle)
        _message_recv(message, _NOTHING)
        _wait(token)
        return found


def _look(channel: Channel, source: int, tag: int, flags: int) -> Any:
    """What a probe finds (pw_found), None when there is nothing."""
    found = ffi.new("pw_found *")
    code = lib.pw_call_probe(here.messaging, channel.c, source, tag, flags, found)
    if code < 0:
        raise here.failure(code, f"probe of {describe_match(source, tag)}")
    return found if code else None


def describe(found: Any, status: MPI.Status | None) -> None:
    if status is not None:
        status.Set_source(found.source)
        status.Set_tag(found.tag)
        status.Set_elements(MPI.BYTE, found.num_bytes)
        status.Set_error(MPI.SUCCESS)


def _prober(name: str) -> Callable[..., Any]:
    """Probe, Iprobe, Mprobe, Improbe, and the lower-case ones, which answer as they do."""
    kind = name.lower()
    is_matching, is_waiting = "m" in kind, not kind.startswith("i")
    original = native(MPI.Comm, name)
    once = nonblocking(name) if is_waiting else original
    flags = (_TAKE if is_matching else 0) | (_WAIT if is_waiting else 0)

    def probe(
        self: MPI.Comm,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> Any:
        source, tag = c_int(source), c_int(tag)
        state = here.states.get(self.handle)
        is_ours = state is not None and receivable(state.point_to_point, source, tag)
        if not is_ours and not is_waiting:
            test_turn()
        if state is not None and not is_ours:
            return original(self, source, tag, status)
        while True:
            if state is None:
                found = once(self, source, tag, status)
            else:
                found = _look(state.point_to_point, source, tag, flags)
            if found or not is_waiting:
                break
            turn(partial(describe_match, source, tag))
        if state is None:
            return found
        if found is None:
            return None if is_matching else False
        describe(found, status)
        return here.matched.add(found.taken) if is_matching else True

    return probe


mprobe = _prober("mprobe")


def receive_matched(found: Any, span: Any, kind: type[Operation] = Operation) -> Operation:
    """Start to receive what a matching probe took; span None: of its own length."""
    address, num_bytes, flags = (0, 0, UNSIZED) if span is None else (span.address, span.nbytes, 0)
    result = lib.pw_call_receive_found(here.messaging, found, address, num_bytes, flags)
    if result < 0:
        raise here.failure(result, "receive of a message that a probe took")
    return kind(result, span)


def receive(operation: Operation, status: MPI.Status | None) -> None:
    """Wait for a receive; its status; its error."""
    try:
        wait_for(operation)
    finally:
        if status is not None and operation.done:
            fill(status, operation)


def Message_Recv(self: MPI.Message, buf: Any, status: MPI.Status | None = None) -> None:
    if self not in here.matched:
        _message_recv(self, buf, status)
        return
    span = receive_span(buf)
    found = here.matched.take(self)
    receive(receive_matched(found, span), status)


def Message_Irecv(self: MPI.Message, buf: Any) -> MPI.Request:
    if self not in here.matched:
        return _message_irecv(self, buf)
    span = receive_span(buf)
    found = here.matched.take(self)
    return request_for(receive_matched(found, span))


def _class_probe(name: str) -> Callable[..., Any]:
    def probe(
        cls: Any,
        comm: MPI.Comm,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: MPI.Status | None = None,
    ) -> Any:
        return getattr(comm, name)(source, tag, status)

    return probe


def install() -> None:
    here.matched = Matched()
    names = ("Probe", "Iprobe", "Mprobe", "Improbe")
    probes = {name: bracket(name, _prober(name)) for name in names}
    probes |= {name.lower(): bracket(name, _prober(name.lower())) for name in names}
    replace_all(MPI.Comm, probes)
    replace_calls(MPI.Message, {"Recv": Message_Recv, "Irecv": Message_Irecv}, "Message.")
    replace_all(
        MPI.Message,
        {
            "Probe": _class_probe("Mprobe"),
            "Iprobe": _class_probe("Improbe"),
            "probe": _class_probe("mprobe"),
            "iprobe": _class_probe("improbe"),
        },
    )
