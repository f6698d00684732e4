"""Persistent point-to-point requests: Send_init, Recv_init and their kin, Start, Startall.

Their handle is that of an empty persistent receive from this rank to itself, completed by a token
once the operation is. Partitioned ones (Psend_init, Precv_init) are MPI's own, on both sides.
Start of persistent collectives is MPI's own, too.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.message import bytes_given, select
from pagewire.transport.facade.operations import (
    ANY_SOURCE,
    ANY_TAG,
    Operation,
    start_receive,
    start_send,
)
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.point_to_point import receivable, sendable, start_buffered
from pagewire.transport.facade.progress import Composite
from pagewire.transport.facade.rank import here

_recv_init = native(MPI.Comm, "Recv_init")
_isend = native(MPI.Comm, "Isend")
_wait = native(MPI.Request, "Wait")
_start = native(MPI.Prequest, "Start")

_NOTHING = memoryview(bytearray())


class Starts:
    """What starts the operation of a persistent request, by the request's handle."""

    def __init__(self) -> None:
        self.to_self: MPI.Intracomm = native(MPI.Comm, "Split")(MPI.COMM_SELF, 0)
        self._tag_limit = int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 0)
        self._tags = itertools.count()
        self._starts: dict[int, Callable[[], Any]] = {}

    def add(self, begin: Callable[[], Any]) -> MPI.Prequest:
        """A request each of whose starts is `begin`; None from it means that it is complete."""
        tag = next(self._tags) % self._tag_limit
        request: MPI.Prequest = _recv_init(self.to_self, _NOTHING, 0, tag)

        def start() -> Any:
            operation = begin() or _Done()
            operation.generalized = _Token(tag)
            return operation

        self._starts[request.handle] = start
        return request

    def get(self, handle: int) -> Callable[[], Any] | None:
        return self._starts.get(handle)

    def forget(self, handle: int) -> None:
        """The request is freed."""
        self._starts.pop(handle, None)


class _Token:
    """What completes the user's request; in the place of a generalized request."""

    __slots__ = ("_tag",)

    def __init__(self, tag: int) -> None:
        self._tag = tag

    def Complete(self) -> None:
        _wait(_isend(here.persistent.to_self, _NOTHING, 0, self._tag))


class _Done(Composite):
    """An eager send that was started: complete from then on."""

    __slots__ = ("_complete_ns",)

    def __init__(self) -> None:
        super().__init__()
        self._complete_ns = here.clock.now_ns

    @property
    def complete_ns(self) -> int:
        return self._complete_ns

    def poll(self) -> bool:
        return True

    def describe(self) -> str:
        return "nothing: it was complete at once"


def _sender(name: str) -> Callable[..., MPI.Prequest]:
    original = native(MPI.Comm, name)

    def send_init(self: MPI.Comm, buf: Any, dest: int, tag: int = 0) -> MPI.Prequest:
        dest, tag = c_int(dest), c_int(tag)
        state = here.states.get(self.handle)
        if state is None or not sendable(state.point_to_point, dest, tag):
            if state is None:
                here.calls.go_around(bytes_given(buf))
            return original(self, buf, dest, tag)
        channel = state.point_to_point
        selection = select(buf, True).lasting()

        def begin() -> Any:
            span = selection.span(True)
            if name == "Bsend_init":
                return start_buffered(channel, span, dest, tag)
            return start_send(channel, span, dest, tag, name == "Ssend_init")

        return here.persistent.add(begin)

    return bracket(name, send_init)


def Recv_init(
    self: MPI.Comm, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG
) -> MPI.Prequest:
    source, tag = c_int(source), c_int(tag)
    state = here.states.get(self.handle)
    if state is None or not receivable(state.point_to_point, source, tag):
        if state is None:
            here.calls.go_around(0)
        return _recv_init(self, buf, source, tag)
    channel = state.point_to_point
    selection = select(buf, False).lasting()

    def begin() -> Operation:
        return start_receive(channel, selection.span(False), source, tag)

    return here.persistent.add(begin)


def Start(self: MPI.Prequest) -> None:
    _start(self)
    start = here.persistent.get(self.handle)
    if start is not None:
        here.active[self.handle] = start()


def Startall(cls: Any, requests: Sequence[MPI.Prequest]) -> None:
    for request in requests:
        request.Start()


def install() -> None:
    here.persistent = Starts()
    names = ("Send_init", "Ssend_init", "Bsend_init", "Rsend_init")
    replacements: dict[str, Callable[..., Any]] = {name: _sender(name) for name in names}
    replace_all(MPI.Comm, replacements | {"Recv_init": bracket("Recv_init", Recv_init)})
    replace_all(MPI.Prequest, {"Start": bracket("Start", Start), "Startall": Startall})
