"""Patterns of messages that collectives are made of, over spans of bytes.

Those of contiguous memory are C's (collectives.h). All messages of a communicator's collectives
have one tag: every rank calls them in the same order, and messages between two ranks keep theirs.
"""

from ctypes import memmove
from typing import Any

from mpi4py import MPI

from pagewire.native import lib
from pagewire.transport.facade.operations import (
    INNER,
    Channel,
    Operation,
    exchange_within,
    finish,
    interrupted,
    receive_within,
    send_within,
    start_receive,
    start_send,
    wait_for,
)
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import EMPTY, Packed, Selection, Span, landed

TAG = int(lib.PW_COLLECTIVE_TAG)
# Blocks longer than this are not copied from node to node of a tree.
LONG_BYTES = int(lib.PW_COLLECTIVE_LONG_BYTES)


def in_c(function: Any, channel: Channel, *arguments: Any, spans: tuple[Any, ...] = ()) -> None:
    """A collective of collectives.h as part of a call. spans: the memory that it uses."""
    try:
        result = function(here.messaging, 0, 0, channel.c, *arguments, INNER)
        if result:
            finish(result, None)
    except BaseException:
        interrupted(*spans)
        raise


def send(channel: Channel, span: Any, dest: int) -> None:
    send_within(channel, span, dest, TAG)


def receive(channel: Channel, span: Any, source: int, *, keep: bool = False) -> Any:
    """Receive into `span`, or with None into memory of the operation that is returned."""
    return receive_within(channel, span, source, TAG, keep=keep)


def exchange(channel: Channel, outgoing: Any, dest: int, incoming: Any, source: int) -> Any:
    """Send and receive at once; incoming None: into memory of the operation that is returned."""
    return exchange_within(channel, outgoing, dest, TAG, incoming, source, TAG)


def exchange_all(
    channel: Channel, sends: list[tuple[int, Any]], receives: list[tuple[int, Any]]
) -> list[Operation]:
    """Post all receives, (source, span) with None as in `receive`, send all (destination, span) and
    wait for all; the receives."""
    posted: list[Operation] = []
    started: list[Operation | None] = []
    try:
        for source, span in receives:
            posted.append(start_receive(channel, span, source, TAG))
        for dest, span in sends:
            started.append(start_send(channel, span, dest, TAG))
        for operation in (*started, *posted):
            if operation is not None:
                wait_for(operation)
    except BaseException:
        for operation in posted:
            operation.cancel()
        interrupted(*(span for _, span in (*sends, *receives)))
        raise
    return posted


def send_all(channel: Channel, messages: list[tuple[int, Any]]) -> None:
    """Send (destination, span) pairs at once and wait for all."""
    exchange_all(channel, messages, [])


def receive_all(channel: Channel, messages: list[tuple[int, Any]]) -> list[Operation]:
    """Receive (source, span) pairs, all posted at once."""
    return exchange_all(channel, [], messages)


def barrier(channel: Channel, members: list[int] | None = None, tag: int = TAG) -> None:
    """Dissemination barrier of all ranks, or of the `members` that this rank is one of."""
    if members is None:
        in_c(lib.pw_call_barrier, channel)
        return
    ranks = members
    place, size = ranks.index(channel.rank), len(ranks)
    distance = 1
    while distance < size:
        dest, source = ranks[(place + distance) % size], ranks[(place - distance) % size]
        exchange_within(channel, EMPTY, dest, tag, EMPTY, source, tag)
        distance *= 2


def tree(channel: Channel, root: int) -> tuple[int | None, list[int]]:
    """Parent and children of this rank in the binomial tree from `root`, largest subtree first."""
    found = lib.pw_tree_of(channel.c, root)
    children = [int(found.child[i]) for i in range(found.num_children)]
    return None if found.parent < 0 else int(found.parent), children


def broadcast(channel: Channel, span: Any, root: int) -> None:
    if type(span) is not Packed:
        in_c(lib.pw_call_broadcast, channel, span.address, span.nbytes, root, spans=(span,))
        return
    parent, children = tree(channel, root)
    if parent is not None:
        receive(channel, span, parent)
    send_all(channel, [(child, span) for child in children])


def broadcast_unsized(channel: Channel, span: Any, root: int) -> Any:
    """Broadcast a span whose length only the root knows; returns it."""
    parent, children = tree(channel, root)
    if parent is not None:
        span = receive(channel, None, parent).received()
    send_all(channel, [(child, span) for child in children])
    return span


def gather(channel: Channel, span: Any, blocks: list[Selection] | None, root: int) -> None:
    """Bring the ranks' spans, all of one length, to the root's blocks; its own is there already."""
    block_bytes = blocks[root].nbytes if blocks is not None else span.nbytes
    if block_bytes > LONG_BYTES or block_bytes == 0:
        gather_each(channel, span, blocks, root)
        return
    rank, size = channel.rank, channel.size
    relative = (rank - root) % size
    parent, children = tree(channel, root)
    held = _subtree(relative, size)
    memory = MPI.buffer.allocate(held * block_bytes)
    if span is not None:
        memmove(memory.address, span.address, block_bytes)
    for child in reversed(children):
        child_relative = (child - root) % size
        part = Span(
            memory.address + (child_relative - relative) * block_bytes,
            _subtree(child_relative, size) * block_bytes,
            memory,
        )
        receive(channel, part, child)
    if parent is not None:
        send(channel, memory, parent)
    elif blocks is not None:
        for i in range(1, size):
            blocks[(i + root) % size].fill(memory.address + i * block_bytes, block_bytes)


def scatter(channel: Channel, blocks: list[Selection] | None, span: Any, root: int) -> None:
    """Bring the root's blocks, all of one length, to the ranks' spans; the root's own is not."""
    block_bytes = blocks[root].nbytes if blocks is not None else span.nbytes
    if block_bytes > LONG_BYTES or block_bytes == 0:
        scatter_each(channel, blocks, span, root)
        return
    rank, size = channel.rank, channel.size
    relative = (rank - root) % size
    parent, children = tree(channel, root)
    memory = MPI.buffer.allocate(_subtree(relative, size) * block_bytes)
    if parent is not None:
        received = receive(channel, memory, parent, keep=True)
        num_received = min(block_bytes, received.num_bytes)
        memmove(span.address, memory.address, num_received)
        landed(span, num_received)
    elif blocks is not None:
        for i in range(1, size):
            blocks[(i + root) % size].pack_into(memory.address + i * block_bytes, block_bytes)
    parts = []
    for child in children:
        child_relative = (child - root) % size
        address = memory.address + (child_relative - relative) * block_bytes
        parts.append((child, Span(address, _subtree(child_relative, size) * block_bytes, memory)))
    send_all(channel, parts)


def _subtree(relative: int, size: int) -> int:
    """Number of ranks in the binomial subtree under the rank at `relative` from the root."""
    return min(relative & -relative, size - relative) if relative else size


def gather_each(channel: Channel, span: Any, blocks: list[Selection] | None, root: int) -> None:
    """Gather with a message from each rank; lengths may differ."""
    if blocks is None:
        send(channel, span, root)
        return
    receive_all(channel, [(i, block.span(False)) for i, block in enumerate(blocks) if i != root])


def scatter_each(channel: Channel, blocks: list[Selection] | None, span: Any, root: int) -> None:
    """Scatter with a message to each rank; lengths may differ."""
    if blocks is None:
        receive(channel, span, root)
        return
    send_all(channel, [(i, block.span(True)) for i, block in enumerate(blocks) if i != root])


def allgather_adjacent(channel: Channel, first: Selection, block_bytes: int) -> None:
    """Each rank's block to all, the blocks following each other without holes."""
    in_c(lib.pw_call_allgather, channel, first.address, block_bytes, spans=(first.owner,))


def alltoall_adjacent(channel: Channel, outgoing: Selection, incoming: Selection) -> None:
    """Pairwise exchange of blocks of one length that follow each other without holes, but for the
    rank's own."""
    in_c(
        lib.pw_call_alltoall, channel, outgoing.address, incoming.address, incoming.nbytes,
        spans=(outgoing.owner, incoming.owner),
    )  # fmt: skip


def allgather_ring(channel: Channel, spans: list[Any]) -> None:
    """Each rank's span to all; in each step a rank passes on what it got in the last."""
    rank, size = channel.rank, channel.size
    for step in range(size - 1):
        outgoing = spans[(rank - step) % size]
        incoming = spans[(rank - step - 1) % size]
        exchange(channel, outgoing, (rank + 1) % size, incoming, (rank - 1) % size)
