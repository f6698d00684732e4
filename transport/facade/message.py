"""Reads mpi4py's message specifications: buffer, or [buffer, counts, displacements, datatype].

The rules, and the exceptions for what breaks them, are those of mpi4py's message code.
"""

import sys
from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

from mpi4py import MPI

from pagewire.transport.facade.arrays import TYPES, array_of
from pagewire.transport.facade.buffers import (
    format_of,
    has_array_interface,
    has_protocol,
    open_buffer,
)
from pagewire.transport.facade.selection import Selection

_frombuffer = MPI.buffer.frombuffer


def send_span(spec: Any) -> Any:
    """The span that a send specification means; a derived type's bytes are packed."""
    array = array_of(spec)
    if array is not None:
        try:
            return _frombuffer(array, True)
        except (ValueError, BufferError):
            pass  # Fortran order, or not contiguous at all
    return select(spec, True).span(True)


def receive_span(spec: Any) -> Any:
    """The span where a message for a receive specification lands."""
    array = array_of(spec)
    if array is not None:
        try:
            return _frombuffer(array, False)
        except (ValueError, BufferError):
            pass
    return select(spec, False).span(False)


def as_datatype(datatype: Any) -> MPI.Datatype:
    if isinstance(datatype, MPI.Datatype):
        return datatype
    try:
        return MPI._typedict[datatype]
    except KeyError:
        raise KeyError(f"cannot map {datatype!r} to MPI datatype") from None


class _Items(NamedTuple):
    """A specification's parts; None for those it does not give."""

    buffer: Any
    counts: Any
    displacements: Any
    datatype: Any


def _unpack(spec: Any, pair: tuple[type[Sequence[Any]], ...]) -> _Items:
    """A specification's parts. pair: types in which counts and displacements come together."""
    if has_protocol(spec):
        return _Items(spec, None, None, None)
    if not isinstance(spec, (list, tuple)):
        if not has_array_interface(spec):
            raise TypeError("message: expecting buffer or list/tuple")
        return _Items(spec, None, None, None)
    displacements = datatype = None
    if len(spec) == 2:
        buffer, counts = spec
        if isinstance(counts, (MPI.Datatype, str)):
            return _Items(buffer, None, None, counts)
    elif len(spec) == 3:
        buffer, counts, datatype = spec
    elif len(spec) == 4:
        return _Items(*spec)
    else:
        raise ValueError("message: expecting 2 to 4 items")
    if isinstance(counts, pair):
        counts, displacements = counts
    return _Items(buffer, counts, displacements, datatype)


def _type_of_format(format: str) -> MPI.Datatype:
    """The datatype of a buffer's elements; bytes where the format is unknown."""
    if not format:
        return MPI.BYTE
    if format[0] in "@<>":
        if format[0] == (">" if sys.byteorder == "little" else "<"):
            raise BufferError(f"format string {format!r} with non-native byte order")
        format = format[1:]
    return as_datatype(format)


def _memory(items: _Items, readonly: bool) -> tuple[int, int, MPI.Datatype, Any]:
    """Address, length, datatype and owner of a buffer object, None or BOTTOM."""
    if items.buffer is None or items.buffer is MPI.BOTTOM:
        return 0, 0, as_datatype(items.datatype), None
    view = open_buffer(items.buffer, readonly)
    if items.datatype is None:
        datatype = _type_of_format(format_of(items.buffer, view))
    else:
        datatype = as_datatype(items.datatype)
    return view.address, view.nbytes, datatype, view


def _extent(datatype: MPI.Datatype, purpose: str) -> int:
    if datatype == MPI.DATATYPE_NULL:
        raise ValueError(f"message: cannot {purpose}, datatype is null")
    lb, extent = datatype.Get_extent()
    if extent <= 0:
        raise ValueError(
            f"message: cannot {purpose}, datatype extent {extent} (lb:{lb}, ub:{lb + extent})"
        )
    return int(extent)


def _whole_count(nbytes: int, datatype: MPI.Datatype) -> int:
    extent = _extent(datatype, "infer count")
    if nbytes % extent:
        lb = datatype.Get_extent()[0]
        raise ValueError(
            f"message: cannot infer count, buffer length {nbytes} is not a multiple of "
            f"datatype extent {extent} (lb:{lb}, ub:{lb + extent})"
        )
    return nbytes // extent


def _offset(displacement: Any, nbytes: int, datatype: MPI.Datatype) -> int:
    """Bytes that a displacement in elements skips."""
    num_skipped = index(displacement)
    if num_skipped < 0:
        raise ValueError(f"message: negative displacement {num_skipped}")
    if num_skipped == 0:
        return 0
    extent = _extent(datatype, "handle displacement")
    if num_skipped * extent > nbytes:
        raise ValueError(
            f"message: displacement {num_skipped} out of bounds, "
            f"number of datatype entries {nbytes // extent}"
        )
    return num_skipped * extent


def _given_count(count: Any, buffer: Any) -> int:
    num_elements = index(count)
    if num_elements < 0:
        raise ValueError(f"message: negative count {num_elements}")
    if num_elements > 0 and buffer is None:
        raise ValueError(f"message: buffer is None but count is {num_elements}")
    return num_elements


def _count_of_block(nbytes: int, datatype: MPI.Datatype, blocks: int) -> int:
    """Elements of each of `blocks` equal blocks that fill a buffer."""
    whole = _whole_count(nbytes, datatype) if nbytes > 0 else 0
    if whole % blocks:
        raise ValueError(
            f"message: cannot infer count, number of entries {whole} is not a multiple of "
            f"required number of blocks {blocks}"
        )
    return whole // blocks


def select(spec: Any, readonly: bool, blocks: int = 1) -> Selection:
    """Read a specification: buffer, [buffer, count | (count, displacement) | datatype, ...].

    Without a count, the buffer is taken to hold `blocks` blocks and the count of one is found.
    """
    array = array_of(spec)
    if array is not None and blocks and array.size % blocks == 0:
        try:
            view = _frombuffer(array, readonly)
        except (ValueError, BufferError):
            pass  # Fortran order, or not contiguous at all
        else:
            count, datatype = array.size // blocks, TYPES[array.dtype]
            return Selection(view.address, count, datatype, view, array.itemsize)
    items = _unpack(spec, (list, tuple))
    address, nbytes, datatype, owner = _memory(items, readonly)
    skipped = 0
    if items.displacements is not None:
        skipped = _offset(items.displacements, nbytes, datatype)
    if items.counts is not None:
        count = _given_count(items.counts, items.buffer)
    else:
        count = _count_of_block(nbytes - skipped, datatype, max(blocks, 1))
    return Selection(address + skipped, count, datatype, owner)


def select_blocks(spec: Any, readonly: bool, blocks: int) -> list[Selection]:
    """Read a specification of equal blocks that follow each other: one selection for each."""
    first = select(spec, readonly, blocks)
    return [first.block(i) for i in range(blocks)]


def select_vector(spec: Any, readonly: bool, blocks: int) -> list[Selection]:
    """Read a specification with counts and displacements per rank: one selection for each."""
    items = _unpack(spec, (tuple,))
    address, nbytes, datatype, owner = _memory(items, readonly)
    if not blocks:
        return []
    if items.counts is None:
        whole = _whole_count(nbytes, datatype) if nbytes else 0
        counts = [whole // blocks + (whole % blocks > i) for i in range(blocks)]
    else:
        counts = per_block(items.counts, blocks)
    displacements = items.displacements
    if displacements is None:
        starts = [sum(counts[:i]) for i in range(blocks)]
    elif hasattr(displacements, "__index__") and not hasattr(displacements, "__len__"):
        starts = [index(displacements) * i for i in range(blocks)]
    else:
        starts = per_block(displacements, blocks)
    extent = datatype.extent if datatype != MPI.DATATYPE_NULL else 0
    return [
        Selection(address + start * extent, count, datatype, owner)
        for count, start in zip(counts, starts, strict=True)
    ]


def select_each(spec: Any, readonly: bool, blocks: int) -> list[Selection]:
    """Read a specification with counts, displacements in bytes and datatypes, one for each rank:
    [buffer, counts, displacements, datatypes], or without counts and displacements: one element
    each, at the start."""
    if not isinstance(spec, (list, tuple)):
        raise TypeError("message: expecting list/tuple")
    counts: Any = 1
    displacements: Any = 0
    if len(spec) == 2:
        buffer, datatypes = spec
    elif len(spec) == 3:
        buffer, (counts, displacements), datatypes = spec
    elif len(spec) == 4:
        buffer, counts, displacements, datatypes = spec
    else:
        raise ValueError("message: expecting 2 to 4 items")
    types = list(datatypes)
    if len(types) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(types)}")
    for each in types:
        if not isinstance(each, MPI.Datatype):
            raise TypeError(f"message: expecting a Datatype, not {type(each).__name__}")
    address, owner = 0, None
    if buffer is not None and buffer is not MPI.BOTTOM:
        owner = open_buffer(buffer, readonly)
        address = owner.address
    return [
        Selection(address + start, count, datatype, owner)
        for count, start, datatype in zip(
            per_block(counts, blocks), per_block(displacements, blocks), types, strict=True
        )
    ]


def bytes_given(spec: Any, is_vector: bool = False) -> int:
    """Bytes of data that a specification means; 0 for one that does not tell them.

    is_vector: it has counts and displacements per rank.
    """
    try:
        items = _unpack(spec, (tuple,) if is_vector else (list, tuple))
        _, nbytes, datatype, _ = _memory(items, True)
        if items.counts is None:
            return nbytes
        is_one = not hasattr(items.counts, "__len__")
        num_elements = index(items.counts) if is_one else sum(map(index, items.counts))
    except (TypeError, ValueError, KeyError, BufferError, NotImplementedError, MPI.Exception):
        return 0
    return num_elements * datatype.Get_size() if datatype != MPI.DATATYPE_NULL else 0


def per_block(values: Any, blocks: int) -> list[int]:
    """One int for each block: the same, or a sequence of as many."""
    try:
        return [index(values)] * blocks
    except TypeError:
        pass
    items: Sequence[Any] = list(values)
    if len(items) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(items)}")
    return [index(item) for item in items]
