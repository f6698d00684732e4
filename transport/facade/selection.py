"""What a message specification selects: elements of a datatype in memory, with or without holes.

A span is anything with `address` and `nbytes` that keeps its memory alive: an `MPI.buffer` (the
fast path), a `Span`, or a `Packed`, the contiguous copy of what a derived datatype selects.
"""

from ctypes import memmove
from dataclasses import dataclass
from typing import Any

from mpi4py import MPI


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


CONTIGUOUS_SIZES: dict[int, int] = {}


def install() -> None:
    """Learn the predefined types, which MPI tells once it is up."""
    CONTIGUOUS_SIZES.update(_types_without_holes())


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


@dataclass(slots=True, eq=False)
class Span:
    """`nbytes` bytes from `address`, in memory that `owner` keeps alive."""

    address: int
    nbytes: int
    owner: Any = None


EMPTY = Span(0, 0)


@dataclass(slots=True, eq=False)
class Selection:
    """`count` elements of `datatype` from `address`: what a specification says. Without holes it is
    a span."""

    address: int
    count: int
    datatype: MPI.Datatype
    owner: Any
    _element_bytes: int | None = 0
    """What `element_bytes` answers; 0: that is not known yet."""

    @property
    def element_bytes(self) -> int | None:
        """`contiguous_size` of the datatype."""
        if self._element_bytes == 0:
            self._element_bytes = contiguous_size(self.datatype)
        return self._element_bytes

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
        if self.element_bytes is not None:
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
        num_bytes: int = self.count * (self._element_bytes or self.datatype.Get_size())
        return num_bytes

    def block(self, i: int) -> "Selection":
        """The `i`-th of the equal blocks that follow each other, this being the first."""
        if i == 0:
            return self
        address = self.address + i * self.count * self.datatype.extent
        return Selection(address, self.count, self.datatype, self.owner, self._element_bytes)

    def span(self, filled: bool) -> Any:
        """The selection as a span; `filled` says that its bytes are wanted, not only their
        place."""
        if self.element_bytes is not None:
            return self
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
