"""Where ranks stand in a grid, and rules by which one finds its peers at any number of ranks."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pagewire.replay.patterns import grid_of

AXES = "xyz"


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """sides: of the axis along which ranks are neighbours first."""

    sides: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.sides)

    def place(self, rank: int) -> tuple[int, ...]:
        made = []
        for side in self.sides:
            made.append(rank % side)
            rank //= side
        return tuple(made)

    def rank(self, place: Sequence[int]) -> int:
        """Beyond an end the other one follows."""
        rank = 0
        for at, side in zip(reversed(place), reversed(self.sides), strict=True):
            rank = rank * side + at % side
        return rank

    def __str__(self) -> str:
        return " x ".join(map(str, self.sides))


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """How a program lays out any number of ranks: as cubic as can be."""

    num_axes: int
    largest_first: bool

    def grid(self, size: int) -> Grid:
        sides = grid_of(size, self.num_axes)
        return Grid(sides if self.largest_first else sides[::-1])


FAMILIES = (Family(1, True), Family(2, True), Family(2, False), Family(3, True), Family(3, False))


def counterpart(rank: int, grid: Grid, other: Grid) -> int:
    """The rank of another grid that stands as this one does: at an end of an axis or within it."""
    pairs = zip(grid.place(rank), grid.sides, other.sides, strict=True)
    return other.rank([_as_far(at, side, its) for at, side, its in pairs])


def stand(rank: int, grid: Grid) -> tuple[int, ...]:
    """Where a rank is on each axis: 0 at the first end, 1 within, 2 at the last end."""
    pairs = zip(grid.place(rank), grid.sides, strict=True)
    return tuple(0 if at == 0 else 2 if at == side - 1 else 1 for at, side in pairs)


def _as_far(at: int, side: int, other: int) -> int:
    if at == 0 or at == side - 1:
        return 0 if at == 0 else other - 1
    return 1 + (at - 1) % (other - 2) if other > 2 else at % other


class Rule(Protocol):
    """Who a peer is; cost: how far from simple."""

    @property
    def cost(self) -> int: ...

    def peer(self, rank: int, grid: Grid) -> int: ...


class Offset(NamedTuple):
    """So many steps along each axis."""

    steps: tuple[int, ...]

    def peer(self, rank: int, grid: Grid) -> int:
        return grid.rank([at + by for at, by in zip(grid.place(rank), self.steps, strict=True)])

    @property
    def cost(self) -> int:
        return sum(map(abs, self.steps))

    @property
    def back(self) -> "Offset":
        return Offset(tuple(-by for by in self.steps))

    def __str__(self) -> str:
        if len(self.steps) == 1:
            return f"rank{self.steps[0]:+d}"
        moved = [f"{axis}{by:+d}" for axis, by in zip(AXES, self.steps, strict=False) if by]
        return " ".join(moved) or "itself"


class Fixed(NamedTuple):
    """The same rank for all; counted from the last one on if it is negative."""

    rank: int

    @property
    def cost(self) -> int:
        return 1

    def peer(self, rank: int, grid: Grid) -> int:
        return self.rank % grid.size

    def __str__(self) -> str:
        return f"rank {self.rank}" if self.rank >= 0 else "the last rank"


class Flipped(NamedTuple):
    """The rank with some bits of its number changed."""

    bits: int

    @property
    def cost(self) -> int:
        return 4

    def peer(self, rank: int, grid: Grid) -> int:
        return rank ^ self.bits

    def __str__(self) -> str:
        return f"rank xor {self.bits}"


class Seen(NamedTuple):
    """A peer that a rank had."""

    rank: int
    grid: Grid
    peer: int


def find_rules(seen: Sequence[Seen]) -> list[Rule]:
    """Those that all of it obeys; the first of `seen` is of the largest grid."""
    rank, grid, peer = seen[0]
    ways = []
    for at, its, side in zip(grid.place(rank), grid.place(peer), grid.sides, strict=True):
        by = (its - at) % side
        ways.append((by, -by) if 0 < 2 * by == side else (by if 2 * by < side else by - side,))
    simple: list[Rule] = [Offset(each) for each in itertools.product(*ways)]
    found = [rule for rule in (*simple, Fixed(0), Fixed(-1)) if _fits(rule, seen)]
    if found:
        return found
    flipped = Flipped(rank ^ peer)
    return [flipped] if _fits(flipped, seen) else []


def _fits(rule: Rule, seen: Sequence[Seen]) -> bool:
    return all(rule.peer(each.rank, each.grid) == each.peer for each in seen)
