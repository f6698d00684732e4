"""Collectives over the neighbours that a communicator's topology gives.

All receives are posted, then all messages sent. Messages between two ranks keep their order, so of
several edges between the same two the first one of the sender's is the first one of the receiver's.
In a Cartesian grid what goes in one direction comes from the other one: at a periodic dimension of
1 or 2 processes, whose two neighbours are the same, the receives are posted the other way round.
Nothing is sent to PROC_NULL, and what would come from it stays as it is. MPI_IN_PLACE is not
allowed by MPI.
"""

from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade import spreading
from pagewire.transport.facade.collectives import collective
from pagewire.transport.facade.message import select, select_each, select_vector
from pagewire.transport.facade.objects import loaded, pickled
from pagewire.transport.facade.operations import Channel
from pagewire.transport.facade.patching import replace_all
from pagewire.transport.facade.selection import Selection


def _posting_order(comm: Any, num_edges: int) -> list[int]:
    """In which order the receives are posted that stand in the order of the topology."""
    order = list(range(num_edges))
    if isinstance(comm, MPI.Cartcomm):
        order[::2], order[1::2] = order[1::2], order[::2]
    return order


def _exchange(comm: Any, channel: Channel, outgoing: list[Any], incoming: list[Any]) -> list[Any]:
    """Spans out, one for each neighbour, and spans in (None: memory of the operation's own); the
    operation of each edge that comes in, None for PROC_NULL."""
    sources = comm.inedges
    order = [i for i in _posting_order(comm, len(sources)) if sources[i] != MPI.PROC_NULL]
    sends = [
        (dest, span)
        for dest, span in zip(comm.outedges, outgoing, strict=True)
        if dest != MPI.PROC_NULL
    ]
    received = spreading.exchange_all(channel, sends, [(sources[i], incoming[i]) for i in order])
    operations: list[Any] = [None] * len(sources)
    for i, operation in zip(order, received, strict=True):
        operations[i] = operation
    return operations


def _move(
    comm: Any, channel: Channel, outgoing: list[Selection], incoming: list[Selection]
) -> None:
    sent = [
        block.span(dest != MPI.PROC_NULL)
        for dest, block in zip(comm.outedges, outgoing, strict=True)
    ]
    _exchange(comm, channel, sent, [block.span(False) for block in incoming])


def _blocks(spec: Any, readonly: bool, num_blocks: int) -> list[Selection]:
    """The equal blocks of a specification."""
    first = select(spec, readonly, num_blocks)
    return [first.block(i) for i in range(num_blocks)]


def _allgather(channel: Channel, comm: Any, sendbuf: Any, recvbuf: Any) -> None:
    span = select(sendbuf, True).span(True)
    incoming = _blocks(recvbuf, False, len(comm.inedges))
    outgoing = [span] * len(comm.outedges)
    _exchange(comm, channel, outgoing, [block.span(False) for block in incoming])


def _allgatherv(channel: Channel, comm: Any, sendbuf: Any, recvbuf: Any) -> None:
    span = select(sendbuf, True).span(True)
    incoming = select_vector(recvbuf, False, len(comm.inedges))
    outgoing = [span] * len(comm.outedges)
    _exchange(comm, channel, outgoing, [block.span(False) for block in incoming])


def _alltoall(channel: Channel, comm: Any, sendbuf: Any, recvbuf: Any) -> None:
    outgoing = _blocks(sendbuf, True, len(comm.outedges))
    _move(comm, channel, outgoing, _blocks(recvbuf, False, len(comm.inedges)))


def _alltoallv(channel: Channel, comm: Any, sendbuf: Any, recvbuf: Any) -> None:
    outgoing = select_vector(sendbuf, True, len(comm.outedges))
    _move(comm, channel, outgoing, select_vector(recvbuf, False, len(comm.inedges)))


def _alltoallw(channel: Channel, comm: Any, sendbuf: Any, recvbuf: Any) -> None:
    outgoing = select_each(sendbuf, True, len(comm.outedges))
    _move(comm, channel, outgoing, select_each(recvbuf, False, len(comm.inedges)))


def _objects(comm: Any, channel: Channel, outgoing: list[Any]) -> list[Any]:
    operations = _exchange(comm, channel, outgoing, [None] * len(comm.inedges))
    return [None if operation is None else loaded(operation) for operation in operations]


def _allgather_object(channel: Channel, comm: Any, sendobj: Any) -> list[Any]:
    return _objects(comm, channel, [pickled(sendobj)] * len(comm.outedges))


def _alltoall_objects(channel: Channel, comm: Any, sendobj: Any) -> list[Any]:
    outgoing = list(sendobj)
    num_edges = len(comm.outedges)
    if len(outgoing) != num_edges:
        raise ValueError(f"expecting {num_edges} items, got {len(outgoing)}")
    return _objects(comm, channel, [pickled(each) for each in outgoing])


def install() -> None:
    bodies: dict[str, Callable[..., Any]] = {
        "Neighbor_allgather": _allgather,
        "Neighbor_allgatherv": _allgatherv,
        "Neighbor_alltoall": _alltoall,
        "Neighbor_alltoallv": _alltoallv,
        "Neighbor_alltoallw": _alltoallw,
        "neighbor_allgather": _allgather_object,
        "neighbor_alltoall": _alltoall_objects,
    }
    replace_all(
        MPI.Topocomm,
        {name: collective(name, body, MPI.Topocomm) for name, body in bodies.items()},
    )
