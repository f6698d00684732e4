"""Derived datatypes: MPI's, made from a description, and where their bytes lie, by arithmetic.

A form is a list: ["vector", count, block, stride], ["indexed", [[length, place], ...]], ["struct",
[[length, place in bytes], ...]], ["subarray", sizes, subsizes, starts], ["contiguous", count,
form], ["resized", extent in bytes, form], or [] for the base type; lengths count base elements.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

BASES = {"BYTE": 1, "SHORT": 2, "INT": 4, "DOUBLE": 8}
"""Base types and their bytes."""


def places(form: Sequence[Any], base: str) -> tuple[Any, int]:
    """Offsets of an item's bytes in the order of transmission, and the item's extent."""
    width = BASES[base]
    if not form:
        return np.arange(width), width
    kind, *rest = form
    if kind == "vector":
        count, block, stride = rest
        elements = np.add.outer(np.arange(count) * stride, np.arange(block)).ravel()
        return _spread(elements * width, width), ((count - 1) * stride + block) * width
    if kind == "indexed":
        elements = np.concatenate([np.arange(first, first + n) for n, first in rest[0]])
        low, high = min(p for _, p in rest[0]), max(p + n for n, p in rest[0])
        return _spread(elements * width, width), (high - low) * width
    if kind == "struct":
        return np.concatenate([np.arange(p, p + n * width) for n, p in rest[0]]), 0
    if kind == "subarray":
        sizes, parts, starts = rest
        all_of_it = np.arange(int(np.prod(sizes))).reshape(sizes)
        cut = tuple(slice(s, s + p) for s, p in zip(starts, parts, strict=True))
        return _spread(all_of_it[cut].ravel() * width, width), int(np.prod(sizes)) * width
    if kind == "contiguous":
        count, inner = rest
        offsets, extent = places(inner, base)
        return np.add.outer(np.arange(count) * extent, offsets).ravel(), count * extent
    extent, inner = rest
    return places(inner, base)[0], extent


def _spread(firsts: Any, width: int) -> Any:
    """The bytes of elements that begin there."""
    return np.add.outer(firsts, np.arange(width)).ravel()


def make_type(form: Sequence[Any], base: str) -> Any:
    """MPI's type; the caller frees it."""
    basic: Any = getattr(MPI, base)
    if not form:
        return basic.Dup()
    kind, *rest = form
    if kind == "vector":
        return basic.Create_vector(*rest).Commit()
    if kind == "indexed":
        lengths, firsts = zip(*rest[0], strict=True)
        return basic.Create_indexed(lengths, firsts).Commit()
    if kind == "struct":
        lengths, firsts = zip(*rest[0], strict=True)
        return MPI.Datatype.Create_struct(lengths, firsts, [basic] * len(lengths)).Commit()
    if kind == "subarray":
        return basic.Create_subarray(*rest).Commit()
    inner = make_type(rest[1], base)
    made = inner.Create_contiguous(rest[0]) if kind == "contiguous" else None
    made = made or inner.Create_resized(0, rest[0])
    inner.Free()
    return made.Commit()


class Layout:
    """`count` items of a form: where their bytes lie, and MPI's description of them."""

    def __init__(self, form: Sequence[Any], base: str, count: int) -> None:
        self.count = count
        self.is_plain = not form
        offsets, extent = places(form, base)
        self.num_bytes = count * len(offsets)
        self.positions: Any = None
        self.span_bytes = self.num_bytes
        if not self.is_plain and count:
            self.positions = np.add.outer(np.arange(count) * extent, offsets).ravel()
            self.span_bytes = int(self.positions.max()) + 1
        self.type: Any = make_type(form, base)

    def spec(self, area: Any) -> list[Any]:
        """The buffer as mpi4py takes it."""
        return [area.bytes, self.count, self.type]

    def free(self) -> None:
        self.type.Free()
