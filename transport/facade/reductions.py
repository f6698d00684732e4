"""Reduce, Allreduce, Reduce_scatter, Scan and Exscan: what their arguments mean; C combines
(collectives.h).

Operands are always combined in rank order, the lower on the left, so that non-commutative
operations are right and every run and rank gets the same bits. MPI_Reduce_local does the
arithmetic, which calls Python for user-defined operations. Types that reach outside their extent
are left to MPI.
"""

from array import array
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.transport.facade import spreading
from pagewire.transport.facade.collectives import (
    LeftToMpi,
    in_place,
    replace_collectives,
    root_of,
)
from pagewire.transport.facade.message import per_block, select
from pagewire.transport.facade.mpi_library import handle_of
from pagewire.transport.facade.operations import Channel
from pagewire.transport.facade.selection import Selection, Span

_ORDERED = int(lib.PW_OP_ORDERED)
_OF_HOST = int(lib.PW_OP_OF_HOST)

PREDEFINED: dict[int, int] = {}
"""MPI's own operations by handle: as C has them. All commute."""


def _predefined() -> dict[int, int]:
    operations = [op for op in vars(MPI).values() if isinstance(op, MPI.Op)]
    others = (MPI.OP_NULL, MPI.REPLACE, MPI.NO_OP)
    return {op.handle: handle_of(op) for op in operations if op not in others}


def _reducible(datatype: MPI.Datatype) -> bool:
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
    if sending.datatype is not receiving.datatype and sending.datatype != receiving.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")


def _combine(
    function: Any,
    channel: Channel,
    sending: Selection,
    receiving: Selection | None,
    op: MPI.Op,
    *arguments: Any,
) -> None:
    """A reduction of collectives.h of the vectors `sending`. receiving: where the rank's result
    goes; None: it gets none."""
    datatype = sending.datatype
    has_holes = sending.element_bytes is None
    if has_holes and not _reducible(datatype):
        raise LeftToMpi
    known = PREDEFINED.get(op.handle)
    traits = 0 if known is not None else _OF_HOST | (0 if op.Is_commutative() else _ORDERED)
    result = receiving
    if receiving is not None and has_holes:
        memory = MPI.buffer.allocate(receiving.count * datatype.extent)
        result = Selection(memory.address, receiving.count, datatype, memory)
    vectors = (
        sending.address,
        0 if result is None else result.address,
        sending.count,
        sending.element_bytes or datatype.extent,
        handle_of(datatype),
        handle_of(op) if known is None else known,
        traits,
    )
    spreading.in_c(function, channel, (), vectors, *arguments)
    if receiving is not None and result is not None and result is not receiving:
        result.copy_to(receiving)  # all but the holes


def _reduce(
    channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0
) -> None:
    root = root_of(channel, root)
    if channel.rank == root:
        sending, receiving = _both(sendbuf, recvbuf)
        _combine(lib.pw_collective_reduce, channel, sending, receiving, op, root)
    else:
        _combine(lib.pw_collective_reduce, channel, select(sendbuf, True), None, op, root)


def _allreduce(channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
    sending, receiving = _both(sendbuf, recvbuf)
    _combine(lib.pw_collective_allreduce, channel, sending, receiving, op)


def _reduce_scatter_block(
    channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM
) -> None:
    if in_place(sendbuf):
        sending = receiving = select(recvbuf, False, channel.size)
    else:
        receiving = select(recvbuf, False)
        sending = select(sendbuf, True, channel.size)
        _check_alike(sending, receiving)
    count = sending.count
    whole = Selection(sending.address, count * channel.size, sending.datatype, sending.owner)
    _reduce_scattered(channel, whole, receiving, [count] * channel.size, op)


def _reduce_scatter(
    channel: Channel, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: MPI.Op = MPI.SUM
) -> None:
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
    _reduce_scattered(channel, sending, receiving, counts, op)


def _everybodys(channel: Channel, count: int) -> list[int]:
    """The ranks' own receive counts, which nobody was told."""
    counts = array("q", bytes(8 * channel.size))
    counts[channel.rank] = count
    address, _ = counts.buffer_info()
    spans = [Span(address + 8 * rank, 8, counts) for rank in range(channel.size)]
    spreading.allgather_each(channel, spans)
    return list(counts)


def _reduce_scattered(
    channel: Channel, sending: Selection, receiving: Selection, counts: list[int], op: MPI.Op
) -> None:
    """The result goes where `receiving` begins."""
    place = Selection(receiving.address, counts[channel.rank], receiving.datatype, receiving.owner)
    c = ffi.new("uint64_t[]", counts)
    _combine(lib.pw_collective_reduce_scatter, channel, sending, place, op, c)


def _scan(channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
    sending, receiving = _both(sendbuf, recvbuf)
    _combine(lib.pw_collective_scan, channel, sending, receiving, op, True)


def _exscan(channel: Channel, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
    sending, receiving = _both(sendbuf, recvbuf)
    target = receiving if channel.rank else None
    _combine(lib.pw_collective_scan, channel, sending, target, op, False)


def install() -> None:
    PREDEFINED.update(_predefined())
    reductions: dict[str, Callable[..., Any]] = {
        "Reduce": _reduce,
        "Allreduce": _allreduce,
        "Reduce_scatter_block": _reduce_scatter_block,
        "Reduce_scatter": _reduce_scatter,
    }
    replace_collectives(MPI.Comm, reductions)
    replace_collectives(MPI.Intracomm, {"Scan": _scan, "Exscan": _exscan})
