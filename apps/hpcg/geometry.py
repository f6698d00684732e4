"""Who owns which part of the grid: equal boxes of points, one a rank, in a 3-d grid of ranks.

The grid has edges: it does not wrap round. Points, ranks and stencil offsets count with x fastest.
"""

import dataclasses
import itertools
import math

Triple = tuple[int, int, int]

OFFSETS: tuple[Triple, ...] = tuple(
    (dx, dy, dz) for dz, dy, dx in itertools.product((-1, 0, 1), repeat=3)
)
"""(dx, dy, dz) of the 27 points of the stencil, in the order of a row's slots"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """One rank's place; x, y, z in all triples."""

    num_points: Triple
    """local grid"""
    num_boxes: Triple
    """grid of ranks"""
    rank: int

    @property
    def num_local(self) -> int:
        return math.prod(self.num_points)

    @property
    def num_global_points(self) -> Triple:
        (nx, ny, nz), (px, py, pz) = self.num_points, self.num_boxes
        return nx * px, ny * py, nz * pz

    @property
    def coords(self) -> Triple:
        """Place in the grid of ranks."""
        px, py, _ = self.num_boxes
        return self.rank % px, self.rank // px % py, self.rank // (px * py)

    def neighbor(self, offset: Triple) -> int | None:
        """The rank next to this one in the direction of offset; None beyond an edge."""
        x, y, z = (c + d for c, d in zip(self.coords, offset, strict=True))
        px, py, pz = self.num_boxes
        if not (0 <= x < px and 0 <= y < py and 0 <= z < pz):
            return None
        return x + px * (y + py * z)

    def coarsen(self) -> "Geometry":
        """Every second point in each direction; all local sizes must be even."""
        assert all(n % 2 == 0 for n in self.num_points)
        x, y, z = (n // 2 for n in self.num_points)
        return dataclasses.replace(self, num_points=(x, y, z))


def choose_boxes(num_ranks: int) -> Triple:
    """The factors of the rank count with the least surface, most along x; as equal as they can
    be."""
    triples = (
        (num_ranks // (py * pz), py, pz)
        for py in range(1, num_ranks + 1)
        if num_ranks % py == 0
        for pz in range(1, py + 1)
        if num_ranks // py % pz == 0 and num_ranks // (py * pz) >= py
    )
    return min(triples, key=lambda p: (p[0] * p[1] + p[1] * p[2] + p[0] * p[2], p))
