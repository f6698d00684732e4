"""Steps of collectives with buffers: each block of each rank's is checked by its own formula."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from pagewire.cli.checks.stress.steps.forms import BASES
from pagewire.cli.checks.stress.steps.kit import Area, Place


def begin(comm: Any, name: str, mode: str, arguments: Sequence[Any]) -> Any:
    """Start a collective in one of its three ways: blocking, nonblocking, persistent."""
    if mode == "blocking":
        getattr(comm, name)(*arguments)
        return None
    if mode == "nonblocking":
        return getattr(comm, f"I{name.lower()}")(*arguments)
    request = getattr(comm, f"{name}_init")(*arguments)
    request.Start()
    return request


def end(request: Any, mode: str) -> None:
    if request is not None:
        request.Wait()
        if mode == "persistent":
            request.Free()


class Blocks:
    """The blocks of a buffer, one a rank: counts of base elements, gaps between, maybe reversed."""

    def __init__(self, counts: Sequence[int], base: str, gap: int, is_reversed: bool) -> None:
        self.counts = list(counts)
        self.base = base
        order = list(range(len(counts)))
        if is_reversed:
            order.reverse()
        self.firsts = [0] * len(counts)
        end_of_last = 0
        for each in order:
            self.firsts[each] = end_of_last
            end_of_last += counts[each] + gap
        self.width = BASES[base]
        self.num_bytes = end_of_last * self.width
        self.area: Any = None

    def make(self, offset: int, memory: str) -> "Blocks":
        self.area = Area(self.num_bytes, offset, memory)
        return self

    def put(self, idx: int, content: Any) -> None:
        first = self.firsts[idx] * self.width
        self.area.bytes[first : first + len(content)] = content

    def positions(self) -> Any:
        parts = [
            np.arange(first * self.width, (first + count) * self.width)
            for first, count in zip(self.firsts, self.counts, strict=True)
        ]
        return np.concatenate(parts)

    def spec(self, has_counts: bool) -> list[Any]:
        kind: Any = getattr(MPI, self.base)
        if has_counts:
            return [self.area.bytes, (self.counts, self.firsts), kind]
        return [self.area.bytes, kind]

    def specs(self) -> list[Any]:
        """For the form of a collective that has a type for each rank."""
        displacements = [first * self.width for first in self.firsts]
        kinds = [getattr(MPI, self.base)] * len(self.counts)
        return [self.area.bytes, (self.counts, displacements), kinds]


def collective(
    place: Place,
    *,
    name: str,
    mode: str,
    counts: Sequence[int],
    root: int = 0,
    base: str = "BYTE",
    gap: int = 0,
    is_reversed: bool = False,
    in_place: bool = False,
    offset: int = 0,
    memory: str = "heap",
) -> Iterator[None]:
    """Barrier, Bcast, and all that gather, scatter and exchange. counts: of base elements, by rank;
    the block from s to r in an exchange has counts[(s + r) % size]. The v and w forms have gaps."""
    has_counts = name.endswith(("v", "w"))
    how = _Shape(place, counts, root, in_place)
    how.base, how.offset, how.memory = base, offset, memory
    how.gap, how.is_reversed = (gap, is_reversed) if has_counts else (0, False)
    how.form = name[-1] if has_counts else ""
    kind = name.removesuffix("v").removesuffix("w")
    arguments, into, contents = _PREPARE[kind](how)
    request = begin(place.comm, name, mode, arguments)
    yield
    end(request, mode)
    if into is not None:
        into.area.check(place, np.concatenate(contents), name, into.positions())


class _Shape:
    """What the sides of a collective are made from. form: v, w, or nothing."""

    base = "BYTE"
    offset = gap = 0
    memory = "heap"
    is_reversed = False
    form = ""

    def __init__(self, place: Place, counts: Sequence[int], root: int, in_place: bool) -> None:
        self.place = place
        self.counts = counts
        self.root = root
        self.is_root = place.rank == root
        self.in_place = in_place

    def blocks(self, numbers: Sequence[int]) -> Blocks:
        made = Blocks(numbers, self.base, self.gap, self.is_reversed)
        return made.make(self.offset, self.memory)

    def one(self) -> Blocks:
        """This rank's own block."""
        return Blocks([self.counts[self.place.rank]], self.base, 0, False).make(
            self.offset, self.memory
        )

    def spec(self, given: Blocks | None) -> Any:
        if given is None:
            return None
        return given.specs() if self.form == "w" else given.spec(bool(self.form))

    def part(self, sender: int, receiver: int, count: int) -> Any:
        return self.place.payload(sender, count * BASES[self.base], receiver)


_Prepared = tuple[list[Any], Blocks | None, list[Any]]
"""Arguments of the call, the receiving side, and what must be in its blocks."""


def _prepare_bcast(how: _Shape) -> _Prepared:
    count = how.counts[how.root]
    into, content = how.blocks([count]), how.part(how.root, 0, count)
    if how.is_root:
        into.put(0, content)
    return [into.spec(False), how.root], into, [content]


def _prepare_gather(how: _Shape, to_all: bool = False) -> _Prepared:
    rank, counts = how.place.rank, how.counts
    one, into = how.one(), None
    contents: list[Any] = []
    one.put(0, how.part(rank, 0, counts[rank]))
    send: Any = one.spec(False)
    if to_all or how.is_root:
        into = how.blocks(counts)
        contents = [how.part(each, 0, count) for each, count in enumerate(counts)]
        if how.in_place:
            into.put(rank, contents[rank])
            send = MPI.IN_PLACE
    return [send, how.spec(into), *([] if to_all else [how.root])], into, contents


def _prepare_scatter(how: _Shape) -> _Prepared:
    rank, root = how.place.rank, how.root
    out = how.blocks(how.counts) if how.is_root else None
    if out:
        for each, count in enumerate(how.counts):
            out.put(each, how.part(root, each, count))
    if how.in_place and how.is_root:
        return [how.spec(out), MPI.IN_PLACE, root], None, []
    into = how.one()
    content = how.part(root, rank, how.counts[rank])
    return [how.spec(out), into.spec(False), root], into, [content]


def _prepare_alltoall(how: _Shape) -> _Prepared:
    rank, size = how.place.rank, how.place.size
    numbers = [how.counts[(rank + each) % size] for each in range(size)]
    out, into = how.blocks(numbers), how.blocks(numbers)
    contents = [how.part(each, rank, numbers[each]) for each in range(size)]
    for each in range(size):
        (into if how.in_place else out).put(each, how.part(rank, each, numbers[each]))
    return [MPI.IN_PLACE if how.in_place else how.spec(out), how.spec(into)], into, contents


_PREPARE: dict[str, Callable[[_Shape], _Prepared]] = {
    "Barrier": lambda how: ([], None, []),
    "Bcast": _prepare_bcast,
    "Gather": _prepare_gather,
    "Allgather": lambda how: _prepare_gather(how, to_all=True),
    "Scatter": _prepare_scatter,
    "Alltoall": _prepare_alltoall,
}


def affine(given: Any, into: Any, _: Any) -> None:
    """Pairs (a, b) of 32 bits stand for x -> a x + b; they compose, in the order of the ranks."""
    one = np.frombuffer(given, np.uint32).reshape(-1, 2)
    other = np.frombuffer(into, np.uint32).reshape(-1, 2)
    composed = compose(one, other)
    other[:] = composed


def compose(one: Any, other: Any) -> Any:
    """First `one`, then `other`."""
    return np.stack([other[:, 0] * one[:, 0], other[:, 0] * one[:, 1] + other[:, 1]], axis=1)


def reduction_values(place: Place, sender: int, num_items: int, kind: str, op: str) -> Any:
    """What a rank contributes: integers, also in floating point, so that no order matters."""
    if op == "affine":
        return place.payload(sender, 8 * num_items).view(np.uint32).reshape(-1, 2)
    dtype = np.dtype(kind)
    raw = place.payload(sender, dtype.itemsize * num_items).view(f"u{dtype.itemsize}")
    if dtype.kind == "f":
        return (raw % 1000).astype(dtype) if op != "PROD" else (raw % 3).astype(dtype)
    if op in ("LAND", "LOR", "LXOR"):
        return (raw % 3).astype(dtype)
    return raw.view(dtype)


_MPI_TYPES = {"u1": "UINT8_T", "i2": "INT16_T", "i4": "INT32_T", "u8": "UINT64_T", "f4": "FLOAT",
              "f8": "DOUBLE"}  # fmt: skip


def folded(op: str, values: Sequence[Any]) -> Any:
    """Ranks' contributions, by numpy."""
    functions: dict[str, Callable[..., Any]] = {
        "SUM": np.add,
        "PROD": np.multiply,
        "MAX": np.maximum,
        "MIN": np.minimum,
        "BAND": np.bitwise_and,
        "BOR": np.bitwise_or,
        "BXOR": np.bitwise_xor,
        "LAND": lambda a, b: ((a != 0) & (b != 0)).astype(a.dtype),
        "LOR": lambda a, b: ((a != 0) | (b != 0)).astype(a.dtype),
        "LXOR": lambda a, b: ((a != 0) ^ (b != 0)).astype(a.dtype),
        "affine": compose,
    }
    result = values[0].copy()
    with np.errstate(over="ignore"):
        for each in values[1:]:
            result = functions[op](result, each)
    return result


def _type_and_op(kind: str, op: str) -> tuple[Any, Any]:
    """The caller frees those of affine."""
    if op == "affine":
        return MPI.UINT32_T.Create_contiguous(2).Commit(), MPI.Op.Create(affine, commute=False)
    return getattr(MPI, _MPI_TYPES[kind]), getattr(MPI, op)


def values_taken(name: str, rank: int, values: Sequence[Any]) -> Sequence[Any]:
    """Of all ranks' values those that come together at a rank."""
    if name in ("Scan", "Exscan"):
        return values[: rank + (name == "Scan")]
    return values


def reduction(
    place: Place,
    *,
    name: str,
    mode: str,
    op: str,
    kind: str,
    num_items: int,
    root: int = 0,
    in_place: bool = False,
    counts: Sequence[int] = (),
    memory: str = "heap",
) -> Iterator[None]:
    """Reduce and its kin. counts: of Reduce_scatter, by rank."""
    comm, rank, size = place.comm, place.rank, place.size
    if name == "Reduce_scatter":
        num_items = sum(counts)
    elif name == "Reduce_scatter_block":
        num_items *= size
    values = [reduction_values(place, each, num_items, kind, op) for each in range(size)]
    mine = np.ascontiguousarray(values[rank]).view(np.uint8).ravel()
    mpi_type, mpi_op = _type_and_op(kind, op)
    item_bytes = mpi_type.size
    first, last = 0, num_items
    if name == "Reduce_scatter":
        first = sum(counts[:rank])
        last = first + counts[rank]
    elif name == "Reduce_scatter_block":
        first, last = rank * num_items // size, (rank + 1) * num_items // size
    gets_one = name != "Reduce" or rank == root
    out = Area(mine.size, 3 * item_bytes, memory)
    into = Area(mine.size if in_place else (last - first) * item_bytes, 0, memory)
    out.fill(mine)
    is_block = name == "Reduce_scatter_block"
    send: Any = [out.bytes, last - first if is_block else num_items, mpi_type]
    num_received = num_items if in_place and not is_block else last - first
    if in_place and gets_one:
        into.bytes[:] = mine
        send = MPI.IN_PLACE
    arguments = [send, [into.bytes, num_received, mpi_type] if gets_one else None]
    if name == "Reduce_scatter":
        arguments.append(list(counts))
    arguments += [mpi_op, root] if name == "Reduce" else [mpi_op]
    request = begin(comm, name, mode, arguments)
    yield
    end(request, mode)
    taken = values_taken(name, rank, values)
    if taken and gets_one:
        result = folded(op, taken)[first:last]
        expected = np.ascontiguousarray(result).view(np.uint8).ravel()
        if name.startswith("Reduce_scatter") and in_place:  # behind the result anything may be
            place.check(into.bytes[: expected.size], expected, name)
        else:
            into.check(place, expected, name)
    if op == "affine":
        mpi_op.Free()
        mpi_type.Free()
