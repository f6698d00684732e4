"""The preconditioner: one V-cycle over grids that halve in each direction.

One symmetric Gauss-Seidel step before and one after the coarser grid, one alone on the coarsest;
restriction takes every second point, prolongation adds to the same points. The coarse matrices are
the same stencil anew, not scaled, as HPCG has it.
"""

import dataclasses

from pagewire.apps.hpcg.geometry import Geometry
from pagewire.apps.hpcg.kernels import Vector
from pagewire.apps.hpcg.operator import Operator
from pagewire.apps.team import Team
from pagewire.apps.timing import declare

MAX_LEVELS = 4


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CoarseStep:
    """What leads from a grid to the next coarser one."""

    product: Vector
    """A x on the finer grid"""
    residual: Vector
    correction: Vector
    """both on the coarser grid"""


class Multigrid:
    """The grids, finest first. Creating it and `apply` are collective."""

    def __init__(
        self, geometry: Geometry, team: Team, *, num_levels: int, fresh_buffers: bool
    ) -> None:
        self.operators = [Operator(geometry, team, fresh_buffers=fresh_buffers)]
        self._steps: list[CoarseStep] = []
        for _ in range(num_levels - 1):
            fine = self.operators[-1]
            coarse = Operator(fine.geometry.coarsen(), team, fresh_buffers=fresh_buffers)
            self._steps.append(
                CoarseStep(
                    product=fine.halo.new_vector(),
                    residual=coarse.halo.new_vector(),
                    correction=coarse.halo.new_vector(),
                )
            )
            self.operators.append(coarse)

    @property
    def finest(self) -> Operator:
        return self.operators[0]

    def apply(self, r: Vector, x: Vector, *, level: int = 0) -> None:
        """x = M^-1 r on the grid of this level."""
        operator = self.operators[level]
        x[...] = 0.0
        operator.smooth(r, x)
        if level == len(self._steps):
            return
        step = self._steps[level]
        operator.multiply(x, step.product)
        coarse = self.operators[level + 1]
        coarse_residual = _grid(step.residual, coarse)
        coarse_residual[...] = _grid(r, operator)[::2, ::2, ::2]
        coarse_residual -= _grid(step.product, operator)[::2, ::2, ::2]
        self.apply(step.residual, step.correction, level=level + 1)
        _grid(x, operator)[::2, ::2, ::2] += _grid(step.correction, coarse)
        declare(flops=2.0 * coarse.num_rows, num_bytes=48.0 * coarse.num_rows)
        operator.smooth(r, x)


def _grid(x: Vector, operator: Operator) -> Vector:
    """The own points of x as a view (nz, ny, nx)."""
    return x[: operator.num_rows].reshape(operator.geometry.num_points[::-1])
