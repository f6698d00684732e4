"""Collectives of NumPy arrays without holes, each in one call of C (collectives.h).

What has another shape (a specification with counts, a derived datatype, an operation of the user's,
a communicator without state, an error) goes to the general form in collectives.py or reductions.py,
which exchanges the same messages.
"""

from collections.abc import Callable
from typing import Any

import numpy
from mpi4py import MPI

from pagewire.native import lib
from pagewire.transport.facade.collectives import in_place
from pagewire.transport.facade.message import ARRAY_TYPES
from pagewire.transport.facade.mpi_library import handle_of
from pagewire.transport.facade.operations import Channel, finish, interrupted
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.reductions import PREDEFINED
from pagewire.transport.node.clock import wall_ns
from pagewire.transport.node.patching import replace_all

_ndarray = numpy.ndarray
_frombuffer = MPI.buffer.frombuffer

_KINDS: dict[numpy.dtype[Any], tuple[int, int]] = {}
"""Bytes of an element and MPI's datatype as C has it."""


def _array(thing: Any, readonly: bool) -> Any:
    """The memory of an array without holes, of a type that MPI knows; None: it is none."""
    if type(thing) is not _ndarray or thing.dtype not in _KINDS:
        return None
    try:
        return _frombuffer(thing, readonly)
    except (ValueError, BufferError):
        return None


def _run(function: Callable[..., int], spans: tuple[Any, ...], *arguments: Any) -> None:
    try:
        result = function(here.messaging, *arguments, 0)
        if result:
            finish(result, None)
    except BaseException:
        interrupted(*spans)
        raise


def _channel(comm: Any) -> Channel | None:
    state = here.states.get(comm.handle)
    return None if state is None else state.collective


def _barrier(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    call = here.calls.index("Barrier")

    def Barrier(self: MPI.Comm) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        if channel is None:
            otherwise(self)
        else:
            _run(lib.pw_call_barrier, (), call, began_ns, channel.c)

    return Barrier


def _bcast(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    call = here.calls.index("Bcast")

    def Bcast(self: MPI.Comm, buf: Any, root: int = 0) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        if channel is not None and type(root) is int and 0 <= root < channel.size:
            span = _array(buf, root == channel.rank)
            if span is not None:
                _run(
                    lib.pw_call_broadcast, (span,), call, began_ns, channel.c, span.address,
                    span.nbytes, root,
                )  # fmt: skip
                return
        otherwise(self, buf, root)

    return Bcast


def _allgather(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    call = here.calls.index("Allgather")

    def Allgather(self: MPI.Comm, sendbuf: Any, recvbuf: Any) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        if channel is not None:
            receive = _array(recvbuf, False)
            send = None if receive is None else _array(sendbuf, True)
            if send is not None and send.nbytes * channel.size == receive.nbytes:
                place = channel.rank * send.nbytes
                receive[place : place + send.nbytes] = send
                _run(
                    lib.pw_call_allgather, (receive,), call, began_ns, channel.c, receive.address,
                    send.nbytes,
                )  # fmt: skip
                return
        otherwise(self, sendbuf, recvbuf)

    return Allgather


def _alltoall(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    call = here.calls.index("Alltoall")

    def Alltoall(self: MPI.Comm, sendbuf: Any, recvbuf: Any) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        if channel is not None:
            receive = _array(recvbuf, False)
            send = None if receive is None else _array(sendbuf, True)
            # By elements: a block of half an element is an error.
            if (
                send is not None
                and sendbuf.dtype == recvbuf.dtype
                and sendbuf.size == recvbuf.size
                and sendbuf.size % channel.size == 0
            ):
                block_bytes = send.nbytes // channel.size
                place = channel.rank * block_bytes
                receive[place : place + block_bytes] = send[place : place + block_bytes]
                _run(
                    lib.pw_call_alltoall, (send, receive), call, began_ns, channel.c, send.address,
                    receive.address, block_bytes,
                )  # fmt: skip
                return
        otherwise(self, sendbuf, recvbuf)

    return Alltoall


def _allreduce(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    call = here.calls.index("Allreduce")

    def Allreduce(self: MPI.Comm, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        operation = PREDEFINED.get(op.handle)
        if channel is not None and operation is not None:
            receive = _array(recvbuf, False)
            if in_place(sendbuf):
                send = receive
            elif receive is None or not _alike(sendbuf, recvbuf):
                send = None
            else:
                send = _array(sendbuf, True)
            if send is not None:
                element_bytes, datatype = _KINDS[recvbuf.dtype]
                _run(
                    lib.pw_call_allreduce, (send, receive), call, began_ns, channel.c, send.address,
                    receive.address, recvbuf.size, element_bytes, datatype, operation,
                )  # fmt: skip
                return
        otherwise(self, sendbuf, recvbuf, op)

    return Allreduce


def _alike(sendbuf: Any, recvbuf: Any) -> bool:
    return (
        type(sendbuf) is _ndarray
        and sendbuf.dtype == recvbuf.dtype
        and sendbuf.size == recvbuf.size
    )


def install() -> None:
    """Over what collectives and reductions have put in place."""
    for dtype, datatype in ARRAY_TYPES.items():
        _KINDS[dtype] = dtype.itemsize, handle_of(datatype)
    forms = {
        "Barrier": _barrier, "Bcast": _bcast, "Allgather": _allgather, "Alltoall": _alltoall,
        "Allreduce": _allreduce,
    }  # fmt: skip
    replace_all(MPI.Comm, {name: form(MPI.Comm.__dict__[name]) for name, form in forms.items()})
