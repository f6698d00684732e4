"""Messages that collectives are made of: C's patterns (collectives.h) for memory, and single ones.

C moves contiguous memory: data with holes is packed before and unpacked behind. Where lengths are
known to their senders only, the patterns are made of single messages. All messages of a
communicator's collectives have one tag: every rank calls them in the same order, and messages
between two ranks keep theirs.
"""

from collections.abc import Sequence
from ctypes import memmove
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.transport.facade.operations import (
    Channel,
    Operation,
    exchange_within,
    finish,
    interrupted,
    receive_within,
    start_receive,
    start_send,
    wait_for,
)
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import EMPTY, Packed, Selection

TAG = int(lib.PW_COLLECTIVE_TAG)
_LONG_BYTES = int(lib.PW_COLLECTIVE_LONG_BYTES)


def in_c(function: Any, channel: Channel, spans: Sequence[Any], *arguments: Any) -> None:
    """A function of collectives.h, as part of a call. spans: the memory that it uses."""
    try:
        result = function(here.messaging, 0, 0, channel.c, *arguments)
        if result:
            finish(result, None)
    except BaseException:
        interrupted(*spans)
        raise


def _spans(spans: Sequence[Any]) -> Any:
    """As C takes them; as it has them where it is to say how many bytes came."""
    pairs = [(span.address, span.nbytes) for span in spans]
    return ffi.new("pw_span[]", pairs) if Packed in map(type, spans) else pairs


def _land(spans: Sequence[Any], c: Any) -> None:
    """Unpack what came, as much as C says."""
    if type(c) is list:
        return
    for i, span in enumerate(spans):
        if type(span) is Packed:
            span.unpack(c[i].num_bytes)


def receive(channel: Channel, source: int) -> Any:
    """Receive a message of any length: an operation."""
    return receive_within(channel, source, TAG)


def exchange(channel: Channel, outgoing: Any, dest: int, source: int) -> Any:
    """Send, and receive a message of any length, at once: an operation."""
    return exchange_within(channel, outgoing, dest, TAG, source, TAG)


def exchange_all(
    channel: Channel, sends: list[tuple[int, Any]], receives: list[tuple[int, Any]]
) -> list[Operation]:
    """Post all receives, (source, span) with None for any length, send all (destination, span) and
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


def barrier(channel: Channel) -> None:
    in_c(lib.pw_collective_barrier, channel, (), ffi.NULL, channel.size, TAG)


def meet(channel: Channel, members: list[int], tag: int) -> None:
    """A barrier of the `members` that this rank is one of."""
    in_c(lib.pw_collective_barrier, channel, (), members, len(members), tag)


def tree(channel: Channel, root: int) -> tuple[int | None, list[int]]:
    """Parent and children of this rank in the binomial tree from `root`, largest subtree first."""
    found = lib.pw_tree_of(channel.c, root)
    children = [int(found.child[i]) for i in range(found.num_children)]
    return None if found.parent < 0 else int(found.parent), children


def broadcast(channel: Channel, span: Any, root: int) -> None:
    came = ffi.new("uint64_t *") if type(span) is Packed else ffi.NULL
    arguments = span.address, span.nbytes, root, came
    in_c(lib.pw_collective_broadcast, channel, (span,), *arguments)
    if came and channel.rank != root:
        span.unpack(came[0])


def broadcast_unsized(channel: Channel, span: Any, root: int) -> Any:
    """Broadcast a span whose length only the root knows; returns it."""
    parent, children = tree(channel, root)
    if parent is not None:
        span = receive(channel, parent).received()
    exchange_all(channel, [(child, span) for child in children], [])
    return span


def gather(channel: Channel, span: Any, blocks: list[Selection] | None, root: int) -> None:
    """Bring the ranks' spans, all of one length, to the root's blocks; its own is there already."""
    block_bytes = blocks[root].nbytes if blocks is not None else span.nbytes
    if block_bytes > _LONG_BYTES or block_bytes == 0:
        gather_each(channel, span, blocks, root)
        return
    size = channel.size
    memory = MPI.buffer.allocate(_subtree(channel, root) * block_bytes)
    if span is not None:
        memmove(memory.address, span.address, block_bytes)
    arguments = memory.address, block_bytes, root
    in_c(lib.pw_collective_gather, channel, (memory,), *arguments)
    if blocks is not None:
        for i in range(1, size):
            blocks[(i + root) % size].fill(memory.address + i * block_bytes, block_bytes)


def scatter(channel: Channel, blocks: list[Selection] | None, span: Any, root: int) -> None:
    """Bring the root's blocks, all of one length, to the ranks' spans; the root's own is not."""
    block_bytes = blocks[root].nbytes if blocks is not None else span.nbytes
    if block_bytes > _LONG_BYTES or block_bytes == 0:
        scatter_each(channel, blocks, span, root)
        return
    size = channel.size
    memory = MPI.buffer.allocate(_subtree(channel, root) * block_bytes)
    if blocks is not None:
        for i in range(1, size):
            blocks[(i + root) % size].pack_into(memory.address + i * block_bytes, block_bytes)
    num_received = ffi.new("uint64_t *")
    arguments = memory.address, block_bytes, root, num_received
    in_c(lib.pw_collective_scatter, channel, (memory,), *arguments)
    if blocks is None:
        memmove(span.address, memory.address, num_received[0])
        if type(span) is Packed:
            span.unpack(num_received[0])


def _subtree(channel: Channel, root: int) -> int:
    """Number of ranks in the binomial subtree under this one."""
    size = channel.size
    relative = (channel.rank - root) % size
    return min(relative & -relative, size - relative) if relative else size


def gather_each(channel: Channel, span: Any, blocks: list[Selection] | None, root: int) -> None:
    """Gather with a message from each rank; lengths may differ."""
    spans = [span] if blocks is None else _others(blocks, root, False)
    c = _spans(spans)
    in_c(lib.pw_collective_gather_each, channel, spans, c, root)
    _land(spans, c)


def scatter_each(channel: Channel, blocks: list[Selection] | None, span: Any, root: int) -> None:
    """Scatter with a message to each rank; lengths may differ."""
    spans = [span] if blocks is None else _others(blocks, root, True)
    c = _spans(spans)
    in_c(lib.pw_collective_scatter_each, channel, spans, c, root)
    _land(spans, c)


def _others(blocks: list[Selection], rank: int, filled: bool) -> list[Any]:
    """The spans of blocks, but for the rank's own."""
    return [EMPTY if i == rank else block.span(filled) for i, block in enumerate(blocks)]


def allgather(channel: Channel, first: Selection) -> None:
    """Each rank's block to all: blocks that follow each other and have one length, this being the
    first. The rank's own is there already."""
    size, block_bytes = channel.size, first.nbytes
    span: Any = first
    if first.element_bytes is None:
        span = MPI.buffer.allocate(size * block_bytes)
        own = channel.rank
        first.block(own).pack_into(span.address + own * block_bytes, block_bytes)
    arguments = span.address, block_bytes, ffi.NULL
    in_c(lib.pw_collective_allgather, channel, (span,), *arguments)
    if span is not first:
        for i in range(size):
            if i != channel.rank:
                first.block(i).fill(span.address + i * block_bytes, block_bytes)


def allgather_each(channel: Channel, spans: list[Any]) -> None:
    """Each rank's block to all; lengths may differ."""
    c = _spans(spans)
    in_c(lib.pw_collective_allgather, channel, spans, 0, 0, c)
    _land(spans, c)


def alltoall(channel: Channel, outgoing: list[Selection] | None, incoming: list[Selection]) -> None:
    """A block to each rank and one from each. None: what is in `incoming` goes out."""
    rank = channel.rank
    if outgoing is None:
        sent = [EMPTY if i == rank else block.copied() for i, block in enumerate(incoming)]
    else:
        outgoing[rank].copy_to(incoming[rank])
        sent = _others(outgoing, rank, True)
    spans = _others(incoming, rank, False)
    c = _spans(spans)
    in_c(lib.pw_collective_alltoall, channel, (*sent, *spans), 0, 0, 0, _spans(sent), c)
    _land(spans, c)
