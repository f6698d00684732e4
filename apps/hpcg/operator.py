"""The matrix of one grid on one rank, with its halo: what is multiplied and smoothed with."""

import numpy as np

from pagewire.apps.hpcg import kernels
from pagewire.apps.hpcg.geometry import Geometry
from pagewire.apps.hpcg.halo import Halo
from pagewire.apps.hpcg.kernels import Vector
from pagewire.apps.team import Team
from pagewire.apps.timing import declare, phase

BYTES_PER_ENTRY = 12
"""a value and a 32-bit column"""


class Operator:
    """The 27-point stencil on a grid. Creating it and all its methods are collective."""

    def __init__(self, geometry: Geometry, team: Team, *, fresh_buffers: bool) -> None:
        self.geometry = geometry
        self.halo = Halo(geometry, team, fresh_buffers=fresh_buffers)
        self.rows = kernels.build_rows(self.halo.column_map(), self.halo.num_columns)
        self.num_rows = self.rows.num_rows
        self.num_global_rows = self.num_rows * team.num_ranks
        self.num_global_nonzeros = team.sum_integers(self.rows.num_nonzeros)[0]

    @phase("spmv")
    def multiply(self, x: Vector, y: Vector) -> None:
        """y = A x. Ghosts of x are filled."""
        self.halo.exchange(x)
        kernels.spmv(self.rows, x, y)
        nonzeros, n = self.rows.num_nonzeros, self.num_rows
        declare(flops=2.0 * nonzeros, num_bytes=BYTES_PER_ENTRY * nonzeros + 16.0 * n)

    @phase("symgs")
    def smooth(self, r: Vector, x: Vector) -> None:
        """One symmetric Gauss-Seidel step on A x = r: own points in order, ghosts as they came."""
        self.halo.exchange(x)
        kernels.symgs(self.rows, r, x)
        nonzeros, n = self.rows.num_nonzeros, self.num_rows
        declare(flops=4.0 * nonzeros, num_bytes=2.0 * BYTES_PER_ENTRY * nonzeros + 48.0 * n)

    def right_hand_side(self) -> Vector:
        """b of A x = b whose solution is 1 everywhere: the sum of each row."""
        return np.ascontiguousarray(self.rows.values.sum(axis=1))

    def diagonal(self) -> Vector:
        """A copy of the diagonal."""
        return self.rows.values[:, kernels.DIAGONAL].copy()

    def replace_diagonal(self, diagonal: Vector) -> None:
        """Put in another diagonal, without zeros."""
        self.rows.values[:, kernels.DIAGONAL] = diagonal
