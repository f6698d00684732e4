"""The short way of collectives: NumPy arrays without holes, in one call of C (collectives.h).

What has another shape (a specification with counts, a derived datatype, an operation of the user's,
a communicator without state, an error) goes the general way of collectives.py and reductions.py,
which exchanges the same messages.
"""

from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.transport.facade.arrays import HANDLES, array_of
from pagewire.transport.facade.clock import wall_ns
from pagewire.transport.facade.collectives import in_place
from pagewire.transport.facade.operations import Channel
from pagewire.transport.facade.patching import replace_each
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.reductions import PREDEFINED
from pagewire.transport.facade.selection import EMPTY
from pagewire.transport.facade.spreading import TAG, whole_call

_frombuffer = MPI.buffer.frombuffer

_NULL = ffi.NULL


def _memory(array: Any, readonly: bool) -> Any:
    """Of an array without holes; None: it is none."""
    try:
        return None if array is None else _frombuffer(array, readonly)
    except (ValueError, BufferError):
        return None


def _array(spec: Any, readonly: bool) -> Any:
    """The memory of an array without holes, of a type that MPI knows; None: it is none."""
    return _memory(array_of(spec), readonly)


def _pair(sendbuf: Any, recvbuf: Any) -> tuple[Any, Any, Any] | None:
    """The memory of two arrays of as many elements of one type, and the second; None: they are
    none."""
    sent, received = array_of(sendbuf), array_of(recvbuf)
    if (
        sent is None
        or received is None
        or sent.dtype != received.dtype
        or sent.size != received.size
    ):
        return None
    send, receive = _memory(sent, True), _memory(received, False)
    return None if send is None or receive is None else (send, receive, received)


def _channel(comm: Any) -> Channel | None:
    state = here.states.get(comm.handle)
    return None if state is None else state.collective


def _barrier(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    def Barrier(self: MPI.Comm) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        if channel is None:
            return otherwise(self)
        function = lib.pw_collective_barrier
        whole_call(function, call, began_ns, channel, (), _NULL, channel.size, TAG)

    return Barrier


def _bcast(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    def Bcast(self: MPI.Comm, buf: Any, root: int = 0) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        if channel is None or type(root) is not int or not 0 <= root < channel.size:
            return otherwise(self, buf, root)
        span = _array(buf, root == channel.rank)
        if span is None:
            return otherwise(self, buf, root)
        whole_call(
            lib.pw_collective_broadcast, call, began_ns, channel, (span,), span.address,
            span.nbytes, root, _NULL,
        )  # fmt: skip

    return Bcast


def _allgather(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    def Allgather(self: MPI.Comm, sendbuf: Any, recvbuf: Any) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        receive = None if channel is None else _array(recvbuf, False)
        send = None if receive is None else _array(sendbuf, True)
        if channel is None or receive is None or send is None:
            return otherwise(self, sendbuf, recvbuf)
        if send.nbytes * channel.size != receive.nbytes:
            return otherwise(self, sendbuf, recvbuf)
        place = channel.rank * send.nbytes
        receive[place : place + send.nbytes] = send
        whole_call(
            lib.pw_collective_allgather, call, began_ns, channel, (receive,), receive.address,
            send.nbytes, _NULL,
        )  # fmt: skip

    return Allgather


def _alltoall(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    def Alltoall(self: MPI.Comm, sendbuf: Any, recvbuf: Any) -> None:
        began_ns = wall_ns()
        channel = _channel(self)
        pair = None if channel is None else _pair(sendbuf, recvbuf)
        # By elements: a block of half an element is an error.
        if channel is None or pair is None or pair[2].size % channel.size:
            return otherwise(self, sendbuf, recvbuf)
        send, receive, _ = pair
        whole_call(
            lib.pw_collective_alltoall, call, began_ns, channel, pair, send.address,
            receive.address, send.nbytes // channel.size, _NULL, _NULL,
        )  # fmt: skip

    return Alltoall


def _allreduce(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    def Allreduce(self: MPI.Comm, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        began_ns = wall_ns()
        channel, operation = _channel(self), PREDEFINED.get(op.handle)
        pair = None
        if channel is not None and operation is not None:
            pair = _pair(recvbuf if in_place(sendbuf) else sendbuf, recvbuf)
        if channel is None or pair is None:
            return otherwise(self, sendbuf, recvbuf, op)
        send, receive, array = pair
        whole_call(
            lib.pw_collective_allreduce, call, began_ns, channel, pair, send.address,
            receive.address, array.size, array.itemsize, HANDLES[array.dtype], operation, 0,
        )  # fmt: skip

    return Allreduce


def _reduce(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    def Reduce(
        self: MPI.Comm, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0
    ) -> None:
        began_ns = wall_ns()
        channel, operation = _channel(self), PREDEFINED.get(op.handle)
        if channel is None or operation is None or type(root) is not int:
            return otherwise(self, sendbuf, recvbuf, op, root)
        send: Any = None
        receive: Any = EMPTY
        array: Any = array_of(sendbuf)
        if channel.rank != root:
            send = _memory(array, True)
        elif (pair := _pair(recvbuf if in_place(sendbuf) else sendbuf, recvbuf)) is not None:
            send, receive, array = pair
        if send is None or not 0 <= root < channel.size:
            return otherwise(self, sendbuf, recvbuf, op, root)
        vectors = (
            send.address, receive.address, array.size, array.itemsize, HANDLES[array.dtype],
            operation, 0,
        )  # fmt: skip
        spans = send, receive
        whole_call(lib.pw_collective_reduce, call, began_ns, channel, spans, vectors, root)

    return Reduce


def install() -> None:
    """Over what collectives and reductions have put in place."""
    forms = {
        "Barrier": _barrier, "Bcast": _bcast, "Allgather": _allgather, "Alltoall": _alltoall,
        "Allreduce": _allreduce, "Reduce": _reduce,
    }  # fmt: skip
    replace_each(
        MPI.Comm,
        forms,
        lambda name: forms[name](MPI.Comm.__dict__[name], here.calls.index(name)),
    )
