"""Finds the memory that a message specification of mpi4py means.

A span is anything with `address` and `nbytes` that keeps its memory alive: an `MPI.buffer` (the
fast path), a `Span`, or a `Packed`, the contiguous copy of what a derived datatype selects.
The rules, and the exceptions for what breaks them, are those of mpi4py's msgbuffer.pxi. Memory
of devices (CUDA array interface) is refused.
"""

import sys
from collections.abc import Sequence
from ctypes import memmove
from operator import index
from typing import Any

import numpy
from mpi4py import MPI

_frombuffer = MPI.buffer.frombuffer
_ndarray = numpy.ndarray


def _types_without_holes() -> dict[int, int]:
    """Handle and size of the predefined types whose elements lie one after the other."""
    sizes = {}
    for datatype in vars(MPI).values():
        if (
            isinstance(datatype, MPI.Datatype)
            and datatype != MPI.DATATYPE_NULL
            and datatype.is_predefined
        ):
            num_bytes = datatype.Get_size()
            if 0 < num_bytes == datatype.extent:
                sizes[datatype.handle] = num_bytes
    return sizes


def _types_of_arrays() -> dict[numpy.dtype[Any], MPI.Datatype]:
    found = {}
    for code in numpy.typecodes["All"]:
        try:
            datatype = MPI._typedict.get(numpy.empty(0, code).data.format)
        except ValueError:  # not exported as a buffer: dates
            continue
        if datatype is not None and datatype.handle in CONTIGUOUS_SIZES:
            found[numpy.dtype(code)] = datatype
    return found


CONTIGUOUS_SIZES = _types_without_holes()
ARRAY_TYPES = _types_of_arrays()


def contiguous_size(datatype: MPI.Datatype) -> int | None:
    """Size of a type whose elements are plain bytes one after the other, None for others."""
    size = CONTIGUOUS_SIZES.get(datatype.handle)
    if size is None and datatype.combiner in (MPI.COMBINER_CONTIGUOUS, MPI.COMBINER_DUP):
        base, _, parameters = datatype.decode()
        size = contiguous_size(base)
        if size is not None:
            size *= parameters.get("count", 1)
        if not base.is_predefined:
            base.Free()
    return size


class Span:
    """`nbytes` bytes from `address`, in memory that `owner` keeps alive."""

    __slots__ = ("address", "nbytes", "owner")

    def __init__(self, address: int, nbytes: int, owner: Any = None) -> None:
        self.address = address
        self.nbytes = nbytes
        self.owner = owner


EMPTY = Span(0, 0)


class Selection:
    """`count` elements of `datatype` from `address`: what a specification says."""

    __slots__ = ("address", "count", "datatype", "owner")

    def __init__(self, address: int, count: int, datatype: MPI.Datatype, owner: Any) -> None:
        self.address = address
        self.count = count
        self.datatype = datatype
        self.owner = owner

    def _as_one_element(self) -> tuple[MPI.Datatype, Any]:
        """A type of extent 1, and a buffer of 1 byte, that together mean the whole selection.

        Extent 1 because Pack and Unpack of mpi4py find the count by the buffer's length.
        """
        base = self.address or 1  # with BOTTOM the type has addresses; buffers may not be at 0
        elements = self.datatype.Create_contiguous(self.count)
        placed = elements.Create_hindexed([1], [self.address - base])
        one = placed.Create_resized(0, 1).Commit()
        elements.Free()
        placed.Free()
        return one, MPI.buffer.fromaddress(base, 1)

    def pack_into(self, address: int, nbytes: int) -> None:
        """Copy the selected bytes to `address`, one after the other."""
        if contiguous_size(self.datatype) is not None:
            memmove(address, self.address, nbytes)
        elif nbytes:
            one, buffer = self._as_one_element()
            one.Pack(buffer, MPI.buffer.fromaddress(address, nbytes), 0, MPI.COMM_SELF)
            one.Free()

    def unpack_from(self, address: int, nbytes: int) -> None:
        """Copy bytes that lie one after the other at `address` to where the type puts them."""
        if nbytes:
            one, buffer = self._as_one_element()
            one.Unpack(MPI.buffer.fromaddress(address, nbytes), 0, buffer, MPI.COMM_SELF)
            one.Free()

    @property
    def nbytes(self) -> int:
        num_bytes: int = self.count * self.datatype.Get_size()
        return num_bytes

    def block(self, i: int) -> "Selection":
        """The `i`-th of the equal blocks that follow each other, this being the first."""
        if i == 0:
            return self
        address = self.address + i * self.count * self.datatype.extent
        return Selection(address, self.count, self.datatype, self.owner)

    def span(self, filled: bool) -> Any:
        """The selection as a span; `filled` says that its bytes are wanted, not only their place."""
        size = contiguous_size(self.datatype)
        if size is not None:
            return Span(self.address, self.count * size, self.owner)
        if self.count == 0:
            return EMPTY
        nbytes = self.nbytes
        if filled:
            return self.copied()
        return Packed(self, nbytes)

    def lasting(self) -> "Selection":
        """The same, by a type of our own: users may free theirs while an operation goes on."""
        return Selection(self.address, self.count, self.datatype.Create_contiguous(1), self.owner)

    def fill(self, address: int, nbytes: int) -> None:
        """Bring bytes that lie one after the other at `address` into the selection."""
        span = self.span(False)
        memmove(span.address, address, min(nbytes, span.nbytes))
        if type(span) is Packed:
            span.unpack(min(nbytes, span.nbytes))

    def copied(self) -> Any:
        """A span of a private copy."""
        copy = MPI.buffer.allocate(self.nbytes)
        self.pack_into(copy.address, copy.nbytes)
        return copy

    def copy_to(self, target: "Selection") -> None:
        """Copy to another selection as if by a message; raise ERR_TRUNCATE if it is too small."""
        span = self.span(True)
        if span.nbytes > target.nbytes:
            raise MPI.Exception(MPI.ERR_TRUNCATE)
        if span.nbytes and span.address != target.address:
            target.fill(span.address, span.nbytes)


class Packed:
    """A contiguous buffer in the place of a selection with holes. Can be unpacked once."""

    __slots__ = ("address", "memory", "nbytes", "selection")

    def __init__(self, selection: Selection, nbytes: int) -> None:
        self.selection = selection.lasting()
        self.nbytes = nbytes
        self.memory = MPI.buffer.allocate(nbytes)
        self.address: int = self.memory.address

    def unpack(self, num_received: int) -> None:
        """Hand `num_received` bytes on to the user's memory; what the type skips is not touched."""
        try:
            if num_received:
                self._unpack(num_received)
        finally:
            self.selection.datatype.Free()

    def _unpack(self, num_received: int) -> None:
        selection = self.selection
        element = selection.datatype.Get_size()
        count = min(selection.count, -(-num_received // element))
        part = Selection(selection.address, count, selection.datatype, None)
        if count * element > num_received:
            # The last element came in part: its rest must stay as it is.
            whole = MPI.buffer.allocate(count * element)
            part.pack_into(whole.address, count * element)
            whole[:num_received] = self.memory[:num_received]
            part.unpack_from(whole.address, count * element)
        else:
            part.unpack_from(self.address, count * element)


def send_span(spec: Any) -> Any:
    """The span that a send specification means; a derived type's bytes are packed."""
    if type(spec) is _ndarray and spec.dtype in ARRAY_TYPES:
        try:
            return _frombuffer(spec, True)
        except ValueError:
            pass  # Fortran order, or not contiguous at all
    return select(spec, True).span(True)


def receive_span(spec: Any) -> Any:
    """The span where a message for a receive specification lands."""
    if type(spec) is _ndarray and spec.dtype in ARRAY_TYPES:
        try:
            return _frombuffer(spec, False)
        except ValueError:
            pass
    return select(spec, False).span(False)


def landed(span: Any, num_received: int) -> None:
    """Finish what was written to `span`: unpack if that is a derived type's."""
    if type(span) is Packed:
        span.unpack(num_received)


def as_datatype(datatype: Any) -> MPI.Datatype:
    if isinstance(datatype, MPI.Datatype):
        return datatype
    try:
        return MPI._typedict[datatype]
    except KeyError:
        raise KeyError(f"cannot map {datatype!r} to MPI datatype") from None


def _check_buffer(spec: Any) -> None:
    """Refuse what is neither a buffer in this host's memory nor a list."""
    if hasattr(spec, "__cuda_array_interface__"):
        raise NotImplementedError("message: device memory is not reachable by the emulated NI")
    if hasattr(spec, "__dlpack_device__") and spec.__dlpack_device__()[0] != _DLPACK_CPU:
        raise NotImplementedError("message: device memory is not reachable by the emulated NI")
    try:
        _frombuffer(spec, True)
    except TypeError:
        raise TypeError("message: expecting buffer or list/tuple") from None
    except (ValueError, BufferError):
        pass  # a buffer, though not one that can be used: said later


_DLPACK_CPU = 1


def _format(buffer: Any) -> str:
    try:
        return memoryview(buffer).format
    except TypeError:
        return numpy.from_dlpack(buffer).data.format


def _memory(buffer: Any, datatype: Any, readonly: bool) -> tuple[int, int, MPI.Datatype, Any]:
    """Address, length, datatype and owner of a buffer object, None or BOTTOM."""
    if buffer is None or buffer is MPI.BOTTOM:
        return 0, 0, as_datatype(datatype), None
    try:
        view = _frombuffer(buffer, readonly)
    except ValueError:
        if not (isinstance(buffer, _ndarray) and buffer.flags.f_contiguous):
            raise
        view = _frombuffer(buffer.T, readonly)
    if datatype is None:
        datatype = _format(buffer)
        if datatype[0] in "@<>":
            if datatype[0] == (">" if sys.byteorder == "little" else "<"):
                raise BufferError(f"format string {datatype!r} with non-native byte order")
            datatype = datatype[1:]
    return view.address, view.nbytes, as_datatype(datatype), view


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


def select(spec: Any, readonly: bool, blocks: int = 1) -> Selection:
    """Read a specification: buffer, [buffer, count | (count, displacement) | datatype, ...].

    Without a count, the buffer is taken to hold `blocks` blocks and the count of one is found.
    """
    count = displacement = datatype = None
    if isinstance(spec, (list, tuple)):
        if len(spec) == 2:
            buffer, count = spec
            if isinstance(count, (MPI.Datatype, str)):
                count, datatype = None, count
            elif isinstance(count, (list, tuple)):
                count, displacement = count
        elif len(spec) == 3:
            buffer, count, datatype = spec
            if isinstance(count, (list, tuple)):
                count, displacement = count
        elif len(spec) == 4:
            buffer, count, displacement, datatype = spec
        else:
            raise ValueError("message: expecting 2 to 4 items")
    else:
        _check_buffer(spec)
        buffer = spec
    address, nbytes, datatype, owner = _memory(buffer, datatype, readonly)
    if displacement is not None:
        displacement = index(displacement)
        if displacement < 0:
            raise ValueError(f"message: negative displacement {displacement}")
        if displacement > 0:
            extent = _extent(datatype, "handle displacement")
            if displacement * extent > nbytes:
                raise ValueError(
                    f"message: displacement {displacement} out of bounds, "
                    f"number of datatype entries {nbytes // extent}"
                )
            address += displacement * extent
            nbytes -= displacement * extent
    if count is not None:
        count = index(count)
        if count < 0:
            raise ValueError(f"message: negative count {count}")
        if count > 0 and buffer is None:
            raise ValueError(f"message: buffer is None but count is {count}")
    elif nbytes > 0:
        count = _whole_count(nbytes, datatype)
        if blocks > 1:
            if count % blocks:
                raise ValueError(
                    f"message: cannot infer count, number of entries {count} is not a multiple of "
                    f"required number of blocks {blocks}"
                )
            count //= blocks
    else:
        count = 0
    return Selection(address, count, datatype, owner)


def select_vector(spec: Any, readonly: bool, blocks: int) -> list[Selection]:
    """Read a specification with counts and displacements per rank: one selection for each."""
    counts = displacements = datatype = None
    if isinstance(spec, (list, tuple)):
        if len(spec) == 2:
            buffer, counts = spec
            if isinstance(counts, (MPI.Datatype, str)):
                counts, datatype = None, counts
            elif isinstance(counts, tuple):
                counts, displacements = counts
        elif len(spec) == 3:
            buffer, counts, datatype = spec
            if isinstance(counts, tuple):
                counts, displacements = counts
        elif len(spec) == 4:
            buffer, counts, displacements, datatype = spec
        else:
            raise ValueError("message: expecting 2 to 4 items")
    else:
        _check_buffer(spec)
        buffer = spec
    address, nbytes, datatype, owner = _memory(buffer, datatype, readonly)
    if counts is None:
        whole = _whole_count(nbytes, datatype) if nbytes else 0
        counts = [whole // blocks + (whole % blocks > i) for i in range(blocks)]
    else:
        counts = _per_block(counts, blocks)
    if displacements is None:
        displacements = [sum(counts[:i]) for i in range(blocks)]
    elif hasattr(displacements, "__index__") and not isinstance(displacements, _ndarray):
        displacements = [index(displacements) * i for i in range(blocks)]
    else:
        displacements = _per_block(displacements, blocks)
    extent = datatype.extent if datatype != MPI.DATATYPE_NULL else 0
    return [
        Selection(address + displacement * extent, count, datatype, owner)
        for count, displacement in zip(counts, displacements, strict=True)
    ]


def _per_block(values: Any, blocks: int) -> list[int]:
    try:
        return [index(values)] * blocks
    except TypeError:
        pass
    items: Sequence[Any] = list(values)
    if len(items) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(items)}")
    return [index(item) for item in items]
