"""Conjugate gradients, with or without the multigrid preconditioner, in the order of HPCG's
loop."""

import dataclasses
import math

from pagewire.apps.hpcg import kernels
from pagewire.apps.hpcg.kernels import Vector
from pagewire.apps.hpcg.multigrid import Multigrid
from pagewire.apps.team import Team
from pagewire.apps.timing import Stopwatch, declare, phase


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """How one set of iterations went; alike on all ranks."""

    residuals: tuple[float, ...]
    """2-norm of the residual before the first and after each iteration"""

    @property
    def num_iterations(self) -> int:
        return len(self.residuals) - 1

    @property
    def scaled_residual(self) -> float:
        """Of the last iteration, relative to the start; 0 when the start solved it."""
        first, last = self.residuals[0], self.residuals[-1]
        return last / first if first else last


class Solver:
    """Its vectors are allocated once and kept. All methods are collective."""

    def __init__(self, multigrid: Multigrid, team: Team, stopwatch: Stopwatch) -> None:
        self.multigrid = multigrid
        self.operator = multigrid.finest
        self.team = team
        self.stopwatch = stopwatch
        halo = self.operator.halo
        self._residual = halo.new_vector()
        self._preconditioned = halo.new_vector()
        self._direction = halo.new_vector()
        self._product = halo.new_vector()

    def solve(
        self,
        b: Vector,
        x: Vector,
        *,
        max_iterations: int,
        tolerance: float,
        preconditioned: bool = True,
    ) -> Solution:
        """Improve x until the scaled residual is at most `tolerance`, or nothing is left to improve
        in double precision, or max_iterations are done."""
        r, z = self._residual, self._preconditioned
        p, ap = self._direction, self._product
        n = self.operator.num_rows
        p[:n] = x[:n]
        self.stopwatch.stamp("WAXPBY")
        self._multiply(p, ap)
        self._waxpby(b, -1.0, ap, r)
        residuals = [math.sqrt(self.dot(r, r))]
        rtz = 0.0
        while len(residuals) <= max_iterations and residuals[-1] > tolerance * residuals[0]:
            if preconditioned:
                self.multigrid.apply(r, z)
                self.stopwatch.stamp("MG")
            else:
                z[:n] = r[:n]
                self.stopwatch.stamp("WAXPBY")
            previous, rtz = rtz, self.dot(r, z)
            if len(residuals) == 1:
                self._waxpby(z, 0.0, z, p)  # counted as an update, hence done as one
            else:
                self._waxpby(z, rtz / previous, p, p)
            self._multiply(p, ap)
            curvature = self.dot(p, ap)
            if rtz == 0.0 or curvature == 0.0:
                break  # underflow, far below any tolerance
            alpha = rtz / curvature
            self._waxpby(x, alpha, p, x)
            self._waxpby(r, -alpha, ap, r)
            residuals.append(math.sqrt(self.dot(r, r)))
        return Solution(residuals=tuple(residuals))

    @phase("dot")
    def dot(self, x: Vector, y: Vector) -> float:
        """Global dot product, summed up in rank order."""
        n = self.operator.num_rows
        part = kernels.dot(n, x, y)
        declare(flops=2.0 * n, num_bytes=16.0 * n)
        self.stopwatch.stamp("DDOT")
        total = self.team.sum_scalar(part)
        self.stopwatch.stamp("DDOT Allreduce")
        return total

    def _multiply(self, x: Vector, y: Vector) -> None:
        self.operator.multiply(x, y)
        self.stopwatch.stamp("SpMV")

    @phase("waxpby")
    def _waxpby(self, x: Vector, beta: float, y: Vector, w: Vector) -> None:
        """w = x + beta y, which is all that HPCG's update is needed for; w may be x or y."""
        n = self.operator.num_rows
        w[:n] = x[:n] + beta * y[:n]
        declare(flops=2.0 * n, num_bytes=24.0 * n)
        self.stopwatch.stamp("WAXPBY")
