"""The short way of collectives: arrays without holes, in one call of C (python_calls.py).

What has another shape (a specification with counts, a derived datatype, an operation of the user's,
a communicator without state, an error) goes the general way of collectives.py and reductions.py,
which exchanges the same messages.
"""

from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.patching import replace_each
from pagewire.transport.facade.point_to_point import finish_call
from pagewire.transport.facade.python_calls import calls
from pagewire.transport.facade.rank import here


def _barrier(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    at_once = calls.barrier

    def Barrier(self: MPI.Comm) -> None:
        result = at_once(self, call)
        if result is NotImplemented:
            otherwise(self)
        elif result is not None:
            finish_call(result, None)

    return Barrier


def _bcast(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    at_once = calls.broadcast

    def Bcast(self: MPI.Comm, buf: Any, root: int = 0) -> None:
        result = at_once(self, call, buf, root)
        if result is NotImplemented:
            otherwise(self, buf, root)
        elif result is not None:
            finish_call(result, buf)

    return Bcast


def _exchange(at_once: Callable[..., Any]) -> Callable[..., Any]:
    def form(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
        def exchange(self: MPI.Comm, sendbuf: Any, recvbuf: Any) -> None:
            result = at_once(self, call, sendbuf, recvbuf)
            if result is NotImplemented:
                otherwise(self, sendbuf, recvbuf)
            elif result is not None:
                finish_call(result, recvbuf, sendbuf)

        return exchange

    return form


def _with_root(at_once: Callable[..., Any]) -> Callable[..., Any]:
    def form(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
        def move(self: MPI.Comm, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
            result = at_once(self, call, sendbuf, recvbuf, root)
            if result is NotImplemented:
                otherwise(self, sendbuf, recvbuf, root)
            elif result is not None:
                finish_call(result, recvbuf, sendbuf)

        return move

    return form


def _allreduce(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    at_once = calls.allreduce

    def Allreduce(self: MPI.Comm, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        result = at_once(self, call, sendbuf, recvbuf, op)
        if result is NotImplemented:
            otherwise(self, sendbuf, recvbuf, op)
        elif result is not None:
            finish_call(result, recvbuf, sendbuf)

    return Allreduce


def _reduce(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    at_once = calls.reduce

    def Reduce(
        self: MPI.Comm, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0
    ) -> None:
        result = at_once(self, call, sendbuf, recvbuf, op, root)
        if result is NotImplemented:
            otherwise(self, sendbuf, recvbuf, op, root)
        elif result is not None:
            finish_call(result, recvbuf, sendbuf)

    return Reduce


def install() -> None:
    """Over what collectives and reductions have put in place."""
    forms = {
        "Barrier": _barrier,
        "Bcast": _bcast,
        "Allgather": _exchange(calls.allgather),
        "Alltoall": _exchange(calls.alltoall),
        "Gather": _with_root(calls.gather),
        "Scatter": _with_root(calls.scatter),
        "Allreduce": _allreduce,
        "Reduce": _reduce,
    }
    replace_each(
        MPI.Comm,
        forms,
        lambda name: forms[name](MPI.Comm.__dict__[name], here.calls.index(name)),
    )
