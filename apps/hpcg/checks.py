"""HPCG's checks: symmetry, convergence with an exaggerated diagonal, same residuals in every
set."""

import dataclasses
import math
import sys
from collections.abc import Sequence

import numpy as np

from pagewire.apps.hpcg.geometry import Geometry
from pagewire.apps.hpcg.kernels import Vector
from pagewire.apps.hpcg.solver import Solution, Solver

SYMMETRY_LIMIT = 1.0
"""of the departures, in units of 2 ||x|| ||A|| ||y|| epsilon, as in HPCG's report"""
MATRIX_NORM = 2 * 26.0
"""bound of ||A||: sum of magnitudes in an interior row"""

EXAGGERATION = 1e6
NUM_MARKED_ROWS = 9
"""the first rows of the global grid get 2, 3, .. 10 times as much: so many distinct eigenvalues, so
many iterations and a few for the rest"""
SPECTRAL_TOLERANCE = 1e-12
SPECTRAL_MAX_ITERATIONS = 50
SPECTRAL_LIMITS = {False: 12, True: 2}
"""iterations that HPCG permits without and with preconditioner"""
NUM_SPECTRAL_CALLS = 2

_SEED = 20131


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Symmetry:
    """|x'Fy - y'Fx| / (2 ||x|| ||A|| ||y|| epsilon) for F = A and F = M^-1."""

    spmv: float
    multigrid: float

    @property
    def passed(self) -> bool:
        # Written so that a NaN fails.
        return self.spmv <= SYMMETRY_LIMIT and self.multigrid <= SYMMETRY_LIMIT


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """Most iterations that CG took on the problem with exaggerated diagonal."""

    plain: int
    preconditioned: int

    @property
    def passed(self) -> bool:
        return self.plain <= SPECTRAL_LIMITS[False] and self.preconditioned <= SPECTRAL_LIMITS[True]


def check_symmetry(solver: Solver) -> Symmetry:
    """Products with two random vectors; collective."""
    halo = solver.operator.halo
    x, y, z = halo.new_vector(), halo.new_vector(), halo.new_vector()
    n = solver.operator.num_rows
    generator = np.random.default_rng([_SEED, solver.team.rank])
    x[:n] = generator.random(n)
    y[:n] = generator.random(n)
    scale = 2 * MATRIX_NORM * sys.float_info.epsilon
    scale *= math.sqrt(solver.dot(x, x)) * math.sqrt(solver.dot(y, y))
    departures = []
    for apply in (solver.operator.multiply, solver.multigrid.apply):
        apply(y, z)
        one = solver.dot(x, z)
        apply(x, z)
        departures.append(abs(one - solver.dot(y, z)) / scale)
    return Symmetry(spmv=departures[0], multigrid=departures[1])


def check_spectrum(solver: Solver, b: Vector) -> Spectrum:
    """Scale diagonal and b by large factors, solve, and restore the diagonal; collective."""
    operator = solver.operator
    diagonal = operator.diagonal()
    factors = exaggeration(operator.geometry)
    x = operator.halo.new_vector()
    most = {}
    operator.replace_diagonal(diagonal * factors)
    try:
        for preconditioned in (False, True):
            counts = []
            for _ in range(NUM_SPECTRAL_CALLS):
                x[...] = 0.0
                solution = solver.solve(
                    b * factors,
                    x,
                    max_iterations=SPECTRAL_MAX_ITERATIONS,
                    tolerance=SPECTRAL_TOLERANCE,
                    preconditioned=preconditioned,
                )
                counts.append(solution.num_iterations)
            most[preconditioned] = max(counts)
    finally:
        operator.replace_diagonal(diagonal)
    return Spectrum(plain=most[False], preconditioned=most[True])


def exaggeration(geometry: Geometry) -> Vector:
    """The factor of each own row."""
    nx, ny, nz = geometry.num_points
    global_nx, global_ny, _ = geometry.num_global_points
    cx, cy, cz = geometry.coords
    x = np.arange(cx * nx, (cx + 1) * nx)
    y = np.arange(cy * ny, (cy + 1) * ny)
    z = np.arange(cz * nz, (cz + 1) * nz)
    row = x + global_nx * (y[:, None] + global_ny * z[:, None, None])
    marked = np.where(row < NUM_MARKED_ROWS, row + 2.0, 1.0)
    factors: Vector = (EXAGGERATION * marked).ravel()
    return factors


def residuals_repeat(solutions: Sequence[Solution]) -> bool:
    """Whether all sets went alike to the last bit, and to finite numbers."""
    first = solutions[0].residuals
    return all(math.isfinite(r) for r in first) and all(s.residuals == first for s in solutions)
