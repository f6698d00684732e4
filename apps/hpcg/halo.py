"""The ghost points of one grid: received from up to 26 neighbours, face, edge or corner each.

Ghosts follow a vector's own entries, one neighbour after the other in the order of ranks, as in
HPCG. Kept buffers: the send buffer belongs to the grid, and ghosts are received straight
into the vector. Fresh buffers: both are made anew for each exchange, and ghosts are copied.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpcg.geometry import OFFSETS, Geometry, Triple
from pagewire.apps.hpcg.kernels import Vector
from pagewire.apps.pages import fresh
from pagewire.apps.team import Team
from pagewire.apps.timing import phase

_TAG = 99


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Neighbor:
    """One of the messages of an exchange; as long in one direction as in the other."""

    rank: int
    offset: Triple
    begin: int
    end: int
    """its part of the ghosts and of the send buffer"""


class Halo:
    """Knows which points go where, and exchanges them. `exchange` is collective."""

    def __init__(self, geometry: Geometry, team: Team, *, fresh_buffers: bool) -> None:
        self.geometry = geometry
        self.team = team
        self.fresh_buffers = fresh_buffers
        points = np.arange(geometry.num_local, dtype=np.int32).reshape(geometry.num_points[::-1])
        self.neighbors: list[Neighbor] = []
        sent: list[NDArray[np.int32]] = [np.empty(0, dtype=np.int32)]
        begin = 0
        by_rank = sorted(
            (rank, offset)
            for offset in OFFSETS
            if offset != (0, 0, 0) and (rank := geometry.neighbor(offset)) is not None
        )
        for rank, offset in by_rank:
            rows = points[_side(offset, slice(None))].ravel()
            self.neighbors.append(
                Neighbor(rank=rank, offset=offset, begin=begin, end=begin + len(rows))
            )
            sent.append(rows)
            begin += len(rows)
        self.num_ghosts = begin
        self._send_rows = np.concatenate(sent).astype(np.intp)
        self._send_buffer = fresh((self.num_ghosts,), np.float64)

    @property
    def num_columns(self) -> int:
        return self.geometry.num_local + self.num_ghosts

    def new_vector(self) -> Vector:
        """Zeros for all own points and ghosts, on pages that nobody has touched."""
        return fresh((self.num_columns,), np.float64)

    def column_map(self) -> NDArray[np.int32]:
        """The column of each point of the grid and of the shell around it, -1 beyond the edges:
        shape (nz + 2, ny + 2, nx + 2)."""
        num_local = self.geometry.num_local
        shape = self.geometry.num_points[::-1]
        columns = np.full([n + 2 for n in shape], -1, dtype=np.int32)
        columns[1:-1, 1:-1, 1:-1] = np.arange(num_local, dtype=np.int32).reshape(shape)
        for neighbor in self.neighbors:
            # Its points arrive in the order of its own grid, and so they lie in the shell.
            part = columns[_side(neighbor.offset, slice(1, -1))]
            part[...] = np.arange(
                num_local + neighbor.begin, num_local + neighbor.end, dtype=np.int32
            ).reshape(part.shape)
        return columns

    @phase("halo")
    def exchange(self, x: Vector) -> None:
        """Fill the ghosts of x (num_columns entries, C-contiguous) from their owners."""
        if not self.neighbors:
            return
        comm = self.team.comm
        num_local = self.geometry.num_local
        ghosts = x[num_local : num_local + self.num_ghosts]
        into, out = ghosts, self._send_buffer
        if self.fresh_buffers:
            into, out = fresh(ghosts.shape, np.float64), fresh(ghosts.shape, np.float64)
        requests = [comm.Irecv(into[n.begin : n.end], n.rank, _TAG) for n in self.neighbors]
        np.take(x, self._send_rows, out=out, mode="clip")  # clip: no copy in between
        requests += [comm.Isend(out[n.begin : n.end], n.rank, _TAG) for n in self.neighbors]
        self.team.mpi.Request.Waitall(requests)
        if self.fresh_buffers:
            ghosts[...] = into


def _side(offset: Triple, between: slice) -> tuple[slice, slice, slice]:
    """z, y, x slices of a grid's part on this side; between: of an axis along which it lies on
    none."""
    sides = {-1: slice(0, 1), 0: between, 1: slice(-1, None)}
    dx, dy, dz = offset
    return sides[dz], sides[dy], sides[dx]
