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
from pagewire.transport.facade.collectives import Blocks, replace_collectives
from pagewire.transport.facade.message import select, select_blocks, select_each, select_vector
from pagewire.transport.facade.object_collectives import items
from pagewire.transport.facade.objects import loaded, pickled
from pagewire.transport.facade.operations import Channel


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


def _allgather(blocks_of: Blocks) -> Callable[..., None]:
    def body(channel: Channel, comm: Any, sendbuf: Any, recvbuf: Any) -> None:
        span = select(sendbuf, True).span(True)
        incoming = blocks_of(recvbuf, False, len(comm.inedges))
        outgoing = [span] * len(comm.outedges)
        _exchange(comm, channel, outgoing, [block.span(False) for block in incoming])

    return body


def _alltoall(blocks_of: Blocks) -> Callable[..., None]:
    def body(channel: Channel, comm: Any, sendbuf: Any, recvbuf: Any) -> None:
        dests = comm.outedges
        outgoing = blocks_of(sendbuf, True, len(dests))
        incoming = blocks_of(recvbuf, False, len(comm.inedges))
        sent = [
            block.span(dest != MPI.PROC_NULL) for dest, block in zip(dests, outgoing, strict=True)
        ]
        _exchange(comm, channel, sent, [block.span(False) for block in incoming])

    return body


def _objects(comm: Any, channel: Channel, outgoing: list[Any]) -> list[Any]:
    operations = _exchange(comm, channel, outgoing, [None] * len(comm.inedges))
    return [None if operation is None else loaded(operation) for operation in operations]


def _allgather_object(channel: Channel, comm: Any, sendobj: Any) -> list[Any]:
    return _objects(comm, channel, [pickled(sendobj)] * len(comm.outedges))


def _alltoall_objects(channel: Channel, comm: Any, sendobj: Any) -> list[Any]:
    outgoing = items(sendobj, len(comm.outedges))
    return _objects(comm, channel, [pickled(each) for each in outgoing])


def install() -> None:
    bodies: dict[str, Callable[..., Any]] = {
        "Neighbor_allgather": _allgather(select_blocks),
        "Neighbor_allgatherv": _allgather(select_vector),
        "Neighbor_alltoall": _alltoall(select_blocks),
        "Neighbor_alltoallv": _alltoall(select_vector),
        "Neighbor_alltoallw": _alltoall(select_each),
        "neighbor_allgather": _allgather_object,
        "neighbor_alltoall": _alltoall_objects,
    }
    replace_collectives(MPI.Topocomm, bodies)
