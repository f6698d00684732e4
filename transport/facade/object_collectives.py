"""Lower-case collectives: of pickled objects, whose lengths only their senders know."""

from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade import spreading
from pagewire.transport.facade.collectives import replace_collectives, root_of
from pagewire.transport.facade.objects import loaded, pickled, unpickled
from pagewire.transport.facade.operations import Channel, finish
from pagewire.transport.facade.point_to_point import finish_call
from pagewire.transport.facade.python_calls import calls


def _send(channel: Channel, thing: Any, dest: int) -> None:
    result = calls.send_object_within(channel.address, dest, spreading.TAG, thing)
    if result is not None:
        finish_call(*result)


def _receive(channel: Channel, source: int) -> Any:
    result = calls.receive_object_within(channel.address, source, spreading.TAG)
    return finish(result, None) if isinstance(result, int) else result[0]


def _exchange(channel: Channel, thing: Any, dest: int, source: int) -> Any:
    return loaded(spreading.exchange(channel, pickled(thing), dest, source))


def _bcast(channel: Channel, obj: Any, root: int = 0) -> Any:
    root = root_of(channel, root)
    if channel.rank == root:
        spreading.broadcast_unsized(channel, pickled(obj), root)
        return obj
    parent, children = spreading.tree(channel, root)
    if parent is not None and not children:
        return _receive(channel, parent)
    return unpickled(spreading.broadcast_unsized(channel, None, root))


def _gather(channel: Channel, sendobj: Any, root: int = 0) -> Any:
    root = root_of(channel, root)
    if channel.rank != root:
        _send(channel, sendobj, root)
        return None
    mine = MPI.pickle.loads(pickled(sendobj))
    received = spreading.exchange_all(
        channel, [], [(i, None) for i in range(channel.size) if i != root]
    )
    objects = [loaded(operation) for operation in received]
    objects.insert(root, mine)
    return objects


def items(things: Sequence[Any] | None, size: int) -> list[Any]:
    """What goes to each of `size` ranks."""
    if things is None:
        return [None] * size
    listed = list(things)
    if len(listed) != size:
        raise ValueError(f"expecting {size} items, got {len(listed)}")
    return listed


def _scatter(channel: Channel, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
    root = root_of(channel, root)
    if channel.rank != root:
        return _receive(channel, root)
    spans = [pickled(item) for item in items(sendobj, channel.size)]
    spreading.exchange_all(channel, [(i, span) for i, span in enumerate(spans) if i != root], [])
    return MPI.pickle.loads(spans[root])


def _allgather(channel: Channel, sendobj: Any) -> list[Any]:
    rank, size = channel.rank, channel.size
    spans: list[Any] = [None] * size
    spans[rank] = pickled(sendobj)
    for step in range(size - 1):
        outgoing = spans[(rank - step) % size]
        received = spreading.exchange(channel, outgoing, (rank + 1) % size, (rank - 1) % size)
        spans[(rank - step - 1) % size] = received.received()
    return [unpickled(span) for span in spans]


def _alltoall(channel: Channel, sendobj: Sequence[Any] | None) -> list[Any]:
    rank, size = channel.rank, channel.size
    outgoing = items(sendobj, size)
    objects: list[Any] = [None] * size
    objects[rank] = MPI.pickle.loads(pickled(outgoing[rank]))
    for step in range(1, size):
        dest, source = (rank + step) % size, (rank - step) % size
        objects[source] = _exchange(channel, outgoing[dest], dest, source)
    return objects


def _reduce(channel: Channel, sendobj: Any, op: Any = MPI.SUM, root: int = 0) -> Any:
    """Binomial tree in rank order from rank 0, then to the root."""
    root = root_of(channel, root)
    parent, children = spreading.tree(channel, 0)
    mine = MPI.pickle.loads(pickled(sendobj))
    for child in reversed(children):
        mine = op(mine, _receive(channel, child))
    if parent is not None:
        _send(channel, mine, parent)
    if root != 0:
        if channel.rank == 0:
            _send(channel, mine, root)
        elif channel.rank == root:
            mine = _receive(channel, 0)
    return mine if channel.rank == root else None


def _allreduce(channel: Channel, sendobj: Any, op: Any = MPI.SUM) -> Any:
    return _bcast(channel, _reduce(channel, sendobj, op, 0), 0)


def _scan(channel: Channel, sendobj: Any, op: Any = MPI.SUM) -> Any:
    below = _below(channel, sendobj, op)
    return sendobj if below is _NONE else op(below, sendobj)


def _exscan(channel: Channel, sendobj: Any, op: Any = MPI.SUM) -> Any:
    below = _below(channel, sendobj, op)
    return None if below is _NONE else below


_NONE = object()


def _below(channel: Channel, thing: Any, op: Any) -> Any:
    """The result of all lower ranks, by recursive doubling; `_NONE` at rank 0."""
    block, below = thing, _NONE
    distance = 1
    while distance < channel.size:
        partner = channel.rank ^ distance
        if partner < channel.size:
            theirs = _exchange(channel, block, partner, partner)
            if partner < channel.rank:
                block = op(theirs, block)
                below = theirs if below is _NONE else op(theirs, below)
            else:
                block = op(block, theirs)
        distance *= 2
    return below


def install() -> None:
    bodies: dict[str, Callable[..., Any]] = {
        "barrier": spreading.barrier,
        "bcast": _bcast,
        "gather": _gather,
        "scatter": _scatter,
        "allgather": _allgather,
        "alltoall": _alltoall,
        "reduce": _reduce,
        "allreduce": _allreduce,
    }
    replace_collectives(MPI.Comm, bodies)
    replace_collectives(MPI.Intracomm, {"scan": _scan, "exscan": _exscan})
