"""Persistent point-to-point requests: Send_init, Recv_init and their kin, Start, Startall.

Their handle is that of an empty persistent receive from this rank to itself, completed by a token
once the operation is. Partitioned ones (Psend_init, Precv_init) are MPI's own, on both sides.
Start of persistent collectives is MPI's own, too.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.bracket import replace_calls
from pagewire.transport.facade.message import select
from pagewire.transport.facade.operations import (
    ANY_SOURCE,
    ANY_TAG,
    Channel,
    start_receive,
    start_send,
)
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.point_to_point import (
    buffer_sender,
    mpis_own,
    receivable,
    start_buffered,
)
from pagewire.transport.facade.progress import Composite
from pagewire.transport.facade.rank import here

_native_receive = mpis_own("Recv_init")
_recv_init = native(MPI.Comm, "Recv_init")
_isend = native(MPI.Comm, "Isend")
_wait = native(MPI.Request, "Wait")
_start = native(MPI.Prequest, "Start")

_NOTHING = memoryview(bytearray())


class Starts(dict[int, Callable[[], Any]]):
    """What starts the operation of a persistent request, by the request's handle."""

    def __init__(self) -> None:
        super().__init__()
        self._to_self: MPI.Intracomm = native(MPI.Comm, "Split")(MPI.COMM_SELF, 0)
        self._tag_limit = int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 0)
        self._tags = itertools.count()

    def add(self, begin: Callable[[], Any]) -> MPI.Prequest:
        """A request each of whose starts is `begin`; None from it means that it is complete."""
        tag = next(self._tags) % self._tag_limit
        request: MPI.Prequest = _recv_init(self._to_self, _NOTHING, 0, tag)

        def complete() -> None:
            _wait(_isend(self._to_self, _NOTHING, 0, tag))

        def start() -> Any:
            operation = begin() or _Done()
            operation.complete = complete
            return operation

        self[request.handle] = start
        return request


class _Done(Composite):
    """An eager send that was started: complete from then on."""

    __slots__ = ("_complete_ns",)

    complete_ns = property(attrgetter("_complete_ns"))

    def __init__(self) -> None:
        super().__init__()
        self._complete_ns = here.clock.now_ns

    def poll(self) -> bool:
        return True

    def describe(self) -> str:
        return "nothing: it was complete at once"


def _starting(start: Callable[..., Any]) -> Callable[..., MPI.Prequest]:
    """What posts a persistent send whose starts are `start`."""

    def post(channel: Channel, buf: Any, dest: int, tag: int) -> MPI.Prequest:
        selection = select(buf, True).lasting()
        return here.persistent.add(lambda: start(channel, selection.span(True), dest, tag))

    return post


def Recv_init(
    self: MPI.Comm, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG
) -> MPI.Prequest:
    source, tag = c_int(source), c_int(tag)
    state = here.states.get(self.handle)
    if state is None or not receivable(state.point_to_point, source, tag):
        return _native_receive(self, buf, source, tag)
    channel = state.point_to_point
    selection = select(buf, False).lasting()
    return here.persistent.add(lambda: start_receive(channel, selection.span(False), source, tag))


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
    starts: dict[str, Callable[..., Any]] = {
        "Send_init": start_send,
        "Rsend_init": start_send,
        "Ssend_init": partial(start_send, synchronous=True),
        "Bsend_init": start_buffered,
    }
    calls = {name: buffer_sender(name, _starting(start)) for name, start in starts.items()}
    replace_calls(MPI.Comm, calls | {"Recv_init": Recv_init})
    replace_calls(MPI.Prequest, {"Start": Start})
    replace_all(MPI.Prequest, {"Startall": Startall})
