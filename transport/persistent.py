"""Persistent point-to-point requests: Send_init, Recv_init and their kin, Start, Startall.

Their handle is that of an empty persistent receive from this rank to itself, completed by a token
once the operation is. Partitioned ones (Psend_init, Precv_init) are MPI's own, on both sides.
Start of persistent collectives is MPI's own, too.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

from pagewire.transport.communicators import states
from pagewire.transport.message import select
from pagewire.transport.operations import (
    ANY_SOURCE,
    ANY_TAG,
    Receive,
    RendezvousSend,
    active,
    persistent,
    start_send,
)
from pagewire.transport.patching import native, replace_all
from pagewire.transport.point_to_point import TAG_UB, receivable, sendable, start_buffered
from pagewire.transport.progress import calls, node, pending

_recv_init = native(MPI.Comm, "Recv_init")
_isend = native(MPI.Comm, "Isend")
_start = native(MPI.Prequest, "Start")

_to_self: MPI.Intracomm = native(MPI.Comm, "Split")(MPI.COMM_SELF, 0)
_NOTHING = memoryview(bytearray())
_tags = itertools.count()


class _Token:
    """What completes the user's request; in the place of a generalized request."""

    __slots__ = ("_tag",)

    def __init__(self, tag: int) -> None:
        self._tag = tag

    def Complete(self) -> None:
        _isend(_to_self, _NOTHING, 0, self._tag).Wait()


class _Done:
    """An eager send that was started: complete from then on."""

    __slots__ = ("complete_ns", "generalized")

    is_receive = False
    cancelled = False
    error = None

    def __init__(self) -> None:
        self.generalized: Any = None
        self.complete_ns: int = node.clock_ns

    def poll(self) -> bool:
        return True

    def cancel(self) -> None:
        """A send that was started goes through."""

    def result(self) -> None:
        return None


def _request(begin: Callable[[], Any]) -> MPI.Prequest:
    tag = next(_tags) % TAG_UB
    request: MPI.Prequest = _recv_init(_to_self, _NOTHING, 0, tag)

    def start() -> Any:
        operation = begin() or _Done()
        operation.generalized = _Token(tag)
        return operation

    persistent[request.handle] = start
    return request


def _sender(name: str) -> Callable[..., MPI.Prequest]:
    original = native(MPI.Comm, name)

    def send_init(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> MPI.Prequest:
        node.enter()
        try:
            calls[name] += 1
            state = states.get(self.handle)
            if state is None or not sendable(state.point_to_point, dest, tag):
                return original(self, buf, dest, tag)
            channel = state.point_to_point
            selection = select(buf, True).lasting()

            def begin() -> Any:
                span = selection.span(True)
                if name == "Ssend_init":
                    return RendezvousSend(channel, span, dest, tag)
                if name == "Bsend_init":
                    return start_buffered(channel, span, dest, tag)
                return start_send(channel, span, dest, tag)

            return _request(begin)
        finally:
            node.leave()

    return send_init


def Recv_init(
    self: MPI.Comm, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG
) -> MPI.Prequest:
    node.enter()
    try:
        calls["Recv_init"] += 1
        state = states.get(self.handle)
        if state is None or not receivable(state.point_to_point, source, tag):
            return _recv_init(self, buf, source, tag)
        channel = state.point_to_point
        selection = select(buf, False).lasting()

        def begin() -> Receive:
            operation = Receive(channel, selection.span(False), source, tag)
            if not operation.done:
                pending.append(operation)
            return operation

        return _request(begin)
    finally:
        node.leave()


def Start(self: MPI.Prequest) -> None:
    node.enter()
    try:
        calls["Start"] += 1
        _start(self)
        start = persistent.get(self.handle)
        if start is not None:
            active[self.handle] = start()
    finally:
        node.leave()


def Startall(cls: Any, requests: Sequence[MPI.Prequest]) -> None:
    for request in requests:
        Start(request)


def install() -> None:
    names = ("Send_init", "Ssend_init", "Bsend_init", "Rsend_init")
    replacements: dict[str, Callable[..., Any]] = {name: _sender(name) for name in names}
    replace_all(MPI.Comm, replacements | {"Recv_init": Recv_init})
    replace_all(MPI.Prequest, {"Start": Start, "Startall": Startall})
