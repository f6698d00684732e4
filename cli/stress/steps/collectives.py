"""Steps of collectives with buffers: each block of each rank's is checked by its own formula."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from pagewire.cli.stress.steps.forms import BASES
from pagewire.cli.stress.steps.kit import Area, Place


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
    comm, rank, size = place.comm, place.rank, place.size
    width = BASES[base]
    has_counts = name.endswith(("v", "w"))
    kind = name.removesuffix("v").removesuffix("w")
    gap, is_reversed = (gap, is_reversed) if has_counts else (0, False)

    def blocks(numbers: Sequence[int]) -> Blocks:
        return Blocks(numbers, base, gap, is_reversed).make(offset, memory)

    def spec(given: Blocks) -> list[Any]:
        return given.specs() if name.endswith("w") else given.spec(has_counts)

    def part(sender: int, receiver: int, count: int) -> Any:
        return place.payload(sender, count * width, receiver)

    into: Blocks | None = None
    contents: list[Any] = []
    arguments: list[Any] = []
    one = Blocks([counts[rank]], base, 0, False).make(offset, memory)
    if kind == "Bcast":
        into = blocks([counts[root]])
        contents = [part(root, 0, counts[root])]
        if rank == root:
            into.put(0, contents[0])
        arguments = [into.spec(False), root]
    elif kind in ("Gather", "Allgather"):
        one.put(0, part(rank, 0, counts[rank]))
        send: Any = one.spec(False)
        if kind == "Allgather" or rank == root:
            into = blocks(counts)
            contents = [part(each, 0, counts[each]) for each in range(size)]
            if in_place:
                into.put(rank, contents[rank])
                send = MPI.IN_PLACE
        arguments = [send, spec(into) if into else None]
        arguments += [root] if kind == "Gather" else []
    elif kind == "Scatter":
        out = blocks(counts) if rank == root else None
        for each in range(size):
            if out:
                out.put(each, part(root, each, counts[each]))
        receive: Any = one.spec(False)
        if in_place and rank == root:
            receive = MPI.IN_PLACE
        else:
            into = one
            contents = [part(root, rank, counts[rank])]
        arguments = [spec(out) if out else None, receive, root]
    elif kind == "Alltoall":
        numbers = [counts[(rank + each) % size] for each in range(size)]
        out, into = blocks(numbers), blocks(numbers)
        contents = [part(each, rank, numbers[each]) for each in range(size)]
        for each in range(size):
            (into if in_place else out).put(each, part(rank, each, numbers[each]))
        arguments = [MPI.IN_PLACE if in_place else spec(out), spec(into)]
    request = begin(comm, name, mode, arguments)
    yield
    end(request, mode)
    if into is not None:
        into.area.check(place, np.concatenate(contents), name, into.positions())


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
    mpi_type: Any = (
        MPI.UINT32_T.Create_contiguous(2).Commit()
        if op == "affine"
        else getattr(MPI, _MPI_TYPES[kind])
    )
    mpi_op = MPI.Op.Create(affine, commute=False) if op == "affine" else getattr(MPI, op)
    item_bytes = mpi_type.size
    first, last = 0, num_items
    if name == "Scan":
        result = folded(op, values[: rank + 1])
    elif name == "Exscan":
        result = folded(op, values[:rank]) if rank else None
    else:
        result = folded(op, values)
        if name == "Reduce_scatter":
            first = sum(counts[:rank])
            last = first + counts[rank]
        elif name == "Reduce_scatter_block":
            first, last = rank * num_items // size, (rank + 1) * num_items // size
        elif name == "Reduce" and rank != root:
            result = None
    out = Area(mine.size, 3 * item_bytes, memory)
    into = Area(mine.size if in_place else (last - first) * item_bytes, 0, memory)
    out.fill(mine)
    is_block = name == "Reduce_scatter_block"
    send: Any = [out.bytes, last - first if is_block else num_items, mpi_type]
    num_received = num_items if in_place and not is_block else last - first
    if in_place and (name != "Reduce" or rank == root):
        into.bytes[:] = mine
        send = MPI.IN_PLACE
    receive: Any = [into.bytes, num_received, mpi_type]
    arguments = [send, None if name == "Reduce" and rank != root else receive]
    if name == "Reduce_scatter":
        arguments.append(list(counts))
    arguments += [mpi_op, root] if name == "Reduce" else [mpi_op]
    request = begin(comm, name, mode, arguments)
    yield
    end(request, mode)
    if result is not None:
        expected = np.ascontiguousarray(result[first:last]).view(np.uint8).ravel()
        if name.startswith("Reduce_scatter") and in_place:  # behind the result anything may be
            place.check(into.bytes[: expected.size], expected, name)
        else:
            into.check(place, expected, name)
    if op == "affine":
        mpi_op.Free()
        mpi_type.Free()
