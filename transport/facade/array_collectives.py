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


def _end(result: Any, otherwise: Callable[..., Any], comm: MPI.Comm, *arguments: Any) -> None:
    """Of a call that C has not ended well: it has left it to Python, or says why."""
    if result is NotImplemented:
        otherwise(comm, *arguments)
    else:
        finish_call(result, None, *arguments)


def _barrier(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    at_once = calls.barrier

    def Barrier(self: MPI.Comm) -> None:
        result = at_once(self, call)
        if result is not None:
            _end(result, otherwise, self)

    return Barrier


def _bcast(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    at_once = calls.broadcast

    def Bcast(self: MPI.Comm, buf: Any, root: int = 0) -> None:
        result = at_once(self, call, buf, root)
        if result is not None:
            _end(result, otherwise, self, buf, root)

    return Bcast


def _exchange(at_once: Callable[..., Any]) -> Callable[..., Any]:
    def form(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
        def exchange(self: MPI.Comm, sendbuf: Any, recvbuf: Any) -> None:
            result = at_once(self, call, sendbuf, recvbuf)
            if result is not None:
                _end(result, otherwise, self, sendbuf, recvbuf)

        return exchange

    return form


def _with_root(at_once: Callable[..., Any]) -> Callable[..., Any]:
    def form(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
        def move(self: MPI.Comm, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
            result = at_once(self, call, sendbuf, recvbuf, root)
            if result is not None:
                _end(result, otherwise, self, sendbuf, recvbuf, root)

        return move

    return form


def _allreduce(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    at_once = calls.allreduce

    def Allreduce(self: MPI.Comm, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        result = at_once(self, call, sendbuf, recvbuf, op)
        if result is not None:
            _end(result, otherwise, self, sendbuf, recvbuf, op)

    return Allreduce


def _reduce(otherwise: Callable[..., Any], call: int) -> Callable[..., Any]:
    at_once = calls.reduce

    def Reduce(
        self: MPI.Comm, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0
    ) -> None:
        result = at_once(self, call, sendbuf, recvbuf, op, root)
        if result is not None:
            _end(result, otherwise, self, sendbuf, recvbuf, op, root)

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
