"""Reduce, Allreduce, Reduce_scatter, Scan and Exscan, over our own point-to-point.

Operands are always combined in rank order, the lower on the left, so that non-commutative
operations are right and every run and rank gets the same bits. Op.Reduce_local does the
arithmetic, user-defined operations included. Elements travel as they lie in memory, holes
included; types that reach outside their extent are left to MPI.
"""

from collections.abc import Callable
from ctypes import memmove
from itertools import accumulate, pairwise
from typing import Any

import numpy
from mpi4py import MPI

from pagewire.native import lib
from pagewire.transport.facade import spreading
from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.collectives import collective, in_place
from pagewire.transport.facade.message import per_block, select
from pagewire.transport.facade.mpi_library import handle_of
from pagewire.transport.facade.operations import Channel
from pagewire.transport.facade.selection import CONTIGUOUS_SIZES, Selection, Span, contiguous_size
from pagewire.transport.node.patching import native, replace_all

_reduce_local = native(MPI.Op, "Reduce_local")

PREDEFINED: dict[int, int] = {}
"""The operations that C may ask for, by handle: as C has them. All commute."""


def _predefined() -> dict[int, int]:
    """MPI's own operations; user-defined ones call Python."""
    operations = [op for op in vars(MPI).values() if isinstance(op, MPI.Op)]
    others = (MPI.OP_NULL, MPI.REPLACE, MPI.NO_OP)
    return {op.handle: handle_of(op) for op in operations if op not in others}


class Operands:
    """Vectors of `count` elements like those of a selection, and how two become one."""

    def __init__(self, like: Selection, op: MPI.Op) -> None:
        self._count = like.count
        self._datatype = like.datatype
        self._op = op
        self.nbytes: int = like.count * like.datatype.extent

    def empty(self) -> Any:
        return MPI.buffer.allocate(self.nbytes)

    def copy(self, source: Any) -> Any:
        memory = self.empty()
        memmove(memory.address, source.address, self.nbytes)
        return memory

    def combine(self, lower: Any, higher: Any) -> None:
        """higher = lower op higher"""
        if self._count:
            _reduce_local(
                self._op,
                [lower, self._count, self._datatype],
                [higher, self._count, self._datatype],
            )

    def store(self, result: Any, target: Selection) -> None:
        """Write a result to the user's memory, but for the holes."""
        if contiguous_size(self._datatype) is not None:
            memmove(target.address, result.address, self.nbytes)
        else:
            Selection(result.address, self._count, self._datatype, result).copy_to(target)


def _reducible(datatype: MPI.Datatype) -> bool:
    if contiguous_size(datatype) is not None:
        return True
    lb, extent = datatype.Get_extent()
    true_lb, true_extent = datatype.Get_true_extent()
    return bool(lb == 0 and true_lb >= 0 and true_lb + true_extent <= extent)


def _both(sendbuf: Any, recvbuf: Any) -> tuple[Selection, Selection]:
    """What goes in and where the result goes; they must be alike."""
    receiving = select(recvbuf, False)
    if in_place(sendbuf):
        return receiving, receiving
    sending = select(sendbuf, True)
    _check_alike(sending, receiving)
    return sending, receiving


def _check_alike(sending: Selection, receiving: Selection) -> None:
    if sending.count != receiving.count:
        raise ValueError(
            f"mismatch in send count {sending.count} and receive count {receiving.count}"
        )
    if sending.datatype != receiving.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")


def _for_c(sending: Selection, receiving: Selection, op: MPI.Op) -> tuple[int, ...]:
    """Both addresses, count, bytes of an element, datatype and operation, as C has them."""
    datatype = sending.datatype
    return (
        sending.address, receiving.address, sending.count, CONTIGUOUS_SIZES[datatype.handle],
        handle_of(datatype), PREDEFINED[op.handle],
    )  # fmt: skip


def _reduce(
    channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0
) -> Any:
    root = c_int(root)
    if not 0 <= root < channel.size:
        return NotImplemented
    if channel.rank == root:
        sending, receiving = _both(sendbuf, recvbuf)
    else:
        sending = receiving = select(sendbuf, True)
    if not _reducible(sending.datatype):
        return NotImplemented
    if op.handle in PREDEFINED and sending.datatype.handle in CONTIGUOUS_SIZES:
        arguments = _for_c(sending, receiving, op)
        spreading.in_c(lib.pw_call_reduce, channel, *arguments, root)
        return None
    operands = Operands(sending, op)
    # Rank order needs the tree to start at rank 0; others may start at the root itself.
    top = root if op.Is_commutative() else 0
    result = reduce_tree(channel, operands, operands.copy(sending), top)
    if top != root:
        if channel.rank == top:
            spreading.send(channel, result, root)
        elif channel.rank == root:
            result = operands.empty()
            spreading.receive(channel, result, top)
    if channel.rank == root:
        operands.store(result, receiving)
    return None


def reduce_tree(channel: Channel, operands: Operands, mine: Any, root: int) -> Any:
    """Binomial tree; the result at the root, counting ranks on from there. `mine` is used up."""
    parent, children = spreading.tree(channel, root)
    theirs = operands.empty() if children else None
    for child in reversed(children):
        spreading.receive(channel, theirs, child)
        operands.combine(mine, theirs)
        mine, theirs = theirs, mine
    if parent is not None:
        spreading.send(channel, mine, parent)
    return mine


def _allreduce(channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> Any:
    sending, receiving = _both(sendbuf, recvbuf)
    if not _reducible(sending.datatype):
        return NotImplemented
    if op.handle in PREDEFINED and sending.datatype.handle in CONTIGUOUS_SIZES:
        spreading.in_c(lib.pw_call_allreduce, channel, *_for_c(sending, receiving, op))
        return None
    operands = Operands(sending, op)
    result = allreduce_doubling(channel, operands, operands.copy(sending))
    operands.store(result, receiving)
    return None


def allreduce_doubling(channel: Channel, operands: Operands, mine: Any) -> Any:
    """Recursive doubling; neighbours first join in pairs until a power of two is left."""
    rank, size = channel.rank, channel.size
    theirs = operands.empty()
    power = 1 << (size.bit_length() - 1)
    num_pairs = size - power
    if rank < 2 * num_pairs:
        if rank % 2 == 0:
            spreading.send(channel, mine, rank + 1)
            spreading.receive(channel, mine, rank + 1)
            return mine
        spreading.receive(channel, theirs, rank - 1)
        operands.combine(theirs, mine)
        place = rank // 2
    else:
        place = rank - num_pairs
    distance = 1
    while distance < power:
        other = place ^ distance
        partner = 2 * other + 1 if other < num_pairs else other + num_pairs
        spreading.exchange(channel, mine, partner, theirs, partner)
        if other < place:
            operands.combine(theirs, mine)
        else:
            operands.combine(mine, theirs)
            mine, theirs = theirs, mine
        distance *= 2
    if rank < 2 * num_pairs:
        spreading.send(channel, mine, rank - 1)
    return mine


def _reduce_scatter_block(
    channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM
) -> Any:
    if in_place(sendbuf):
        sending = receiving = select(recvbuf, False, channel.size)
    else:
        receiving = select(recvbuf, False)
        sending = select(sendbuf, True, channel.size)
        _check_alike(sending, receiving)
    count = sending.count
    whole = Selection(sending.address, count * channel.size, sending.datatype, sending.owner)
    return _reduce_scattered(channel, whole, receiving, [count] * channel.size, op)


def _reduce_scatter(
    channel: Channel, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: MPI.Op = MPI.SUM
) -> Any:
    receiving = select(recvbuf, False)
    is_in_place = in_place(sendbuf)
    sending = receiving if is_in_place else select(sendbuf, True)
    if recvcounts is None and not is_in_place:
        counts = _everybodys(channel, receiving.count)
    else:
        counts = per_block(recvcounts, channel.size)
    side = "receive" if is_in_place else "send"
    if sending.count != sum(counts):
        raise ValueError(f"mismatch in {side} count {sending.count} and sum(counts) {sum(counts)}")
    if not is_in_place:
        mine = counts[channel.rank]
        if receiving.count != mine:
            raise ValueError(
                f"mismatch in receive count {receiving.count} and recvcounts[{channel.rank}] {mine}"
            )
        if sending.datatype != receiving.datatype:
            raise ValueError("mismatch in send and receive MPI datatypes")
    return _reduce_scattered(channel, sending, receiving, counts, op)


def _everybodys(channel: Channel, count: int) -> list[int]:
    """The ranks' own receive counts, which nobody was told."""
    counts = numpy.zeros(channel.size, "q")
    counts[channel.rank] = count
    address: int = counts.ctypes.data
    spans = [Span(address + 8 * rank, 8, counts) for rank in range(channel.size)]
    spreading.allgather_ring(channel, spans)
    return [int(each) for each in counts]


def _reduce_scattered(
    channel: Channel, sending: Selection, receiving: Selection, counts: list[int], op: MPI.Op
) -> Any:
    """Pairwise exchange of the ranks' vectors, then each combines what it got in rank order. The
    result goes where `receiving` begins."""
    if not _reducible(sending.datatype):
        return NotImplemented
    rank, size = channel.rank, channel.size
    vectors = Operands(sending, op)
    mine = vectors.copy(sending)  # `receiving` may lie over it
    extent = sending.datatype.extent
    ends = list(accumulate(counts))
    parts = [
        Span(mine.address + (end - count) * extent, count * extent, mine)
        for end, count in zip(ends, counts, strict=True)
    ]
    place = Selection(receiving.address, counts[rank], receiving.datatype, receiving.owner)
    operands = Operands(place, op)
    blocks = [parts[rank] if i == rank else operands.empty() for i in range(size)]
    for step in range(1, size):
        dest, source = (rank + step) % size, (rank - step) % size
        spreading.exchange(channel, parts[dest], dest, blocks[source], source)
    for lower, higher in pairwise(blocks):
        operands.combine(_buffer(lower), _buffer(higher))
    operands.store(blocks[-1], place)
    return None


def _buffer(span: Any) -> Any:
    """A span as Reduce_local takes it; who has the span keeps its memory alive."""
    return MPI.buffer.fromaddress(span.address, span.nbytes)


def _scan(channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> Any:
    return _prefix(channel, sendbuf, recvbuf, op, True)


def _exscan(channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> Any:
    return _prefix(channel, sendbuf, recvbuf, op, False)


def _prefix(channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op, inclusive: bool) -> Any:
    """Recursive doubling: `block` is the result of the ranks met so far, `below` of those lower."""
    sending, receiving = _both(sendbuf, recvbuf)
    if not _reducible(sending.datatype):
        return NotImplemented
    operands = Operands(sending, op)
    block = operands.copy(sending)
    theirs = operands.empty()
    below = None
    distance = 1
    while distance < channel.size:
        partner = channel.rank ^ distance
        if partner < channel.size:
            spreading.exchange(channel, block, partner, theirs, partner)
            if partner < channel.rank:
                operands.combine(theirs, block)
                if below is None:
                    below = operands.copy(theirs)
                else:
                    operands.combine(theirs, below)
            else:
                operands.combine(block, theirs)
                block, theirs = theirs, block
        distance *= 2
    if inclusive:
        result = operands.copy(sending)
        if below is not None:
            operands.combine(below, result)
        operands.store(result, receiving)
    elif below is not None:
        operands.store(below, receiving)
    return None


def install() -> None:
    PREDEFINED.update(_predefined())
    reductions: dict[str, Callable[..., Any]] = {
        "Reduce": _reduce,
        "Allreduce": _allreduce,
        "Reduce_scatter_block": _reduce_scatter_block,
        "Reduce_scatter": _reduce_scatter,
    }
    replace_all(MPI.Comm, {name: collective(name, body) for name, body in reductions.items()})
    prefixes: dict[str, Callable[..., Any]] = {"Scan": _scan, "Exscan": _exscan}
    replace_all(MPI.Intracomm, {name: collective(name, body) for name, body in prefixes.items()})
