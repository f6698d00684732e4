"""The run: set-up, checks, then the timed sets of CG iterations."""

import dataclasses
from collections.abc import Callable

import numpy as np

from pagewire.apps.hpcg.checks import (
    Spectrum,
    Symmetry,
    check_spectrum,
    check_symmetry,
    residuals_repeat,
)
from pagewire.apps.hpcg.geometry import Geometry, choose_boxes
from pagewire.apps.hpcg.multigrid import Multigrid
from pagewire.apps.hpcg.options import Options
from pagewire.apps.hpcg.solver import Solution, Solver
from pagewire.apps.team import Team
from pagewire.apps.timing import Stopwatch

SECTIONS = ("DDOT", "DDOT Allreduce", "WAXPBY", "SpMV", "MG")
"""what HPCG reports of its time; the global sums within DDOT are told apart"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run gave; alike on all ranks but for seconds: those of all ranks are at rank 0."""

    symmetry: Symmetry
    spectrum: Spectrum
    solutions: tuple[Solution, ...]
    setup_seconds: float
    seconds: float
    """of the timed sets, of the slowest rank"""
    section_seconds: dict[str, tuple[float, float, float]]
    """least, mean and most of the ranks"""

    @property
    def repeats(self) -> bool:
        return residuals_repeat(self.solutions)

    @property
    def is_valid(self) -> bool:
        return self.symmetry.passed and self.spectrum.passed and self.repeats


class Benchmark:
    """One rank's part. Creating it and `run` are collective."""

    def __init__(self, options: Options, team: Team) -> None:
        """Grids, matrices, vectors."""
        self.options = options
        self.team = team
        begin = team.mpi.Wtime()
        self.geometry = Geometry(
            num_points=options.num_points, num_boxes=choose_boxes(team.num_ranks), rank=team.rank
        )
        self.multigrid = Multigrid(
            self.geometry, team, num_levels=options.num_levels, fresh_buffers=options.fresh_buffers
        )
        self.stopwatch = Stopwatch(team.mpi.Wtime, SECTIONS)
        self.solver = Solver(self.multigrid, team, self.stopwatch)
        self.b = self.multigrid.finest.right_hand_side()
        self.x = self.multigrid.finest.halo.new_vector()
        self.setup_seconds: float = team.mpi.Wtime() - begin

    def run(self, emit: Callable[[str], None]) -> Result:
        """Checks and timed sets; `emit` gets a line for each set, on every rank."""
        symmetry = check_symmetry(self.solver)
        spectrum = check_spectrum(self.solver, self.b)
        solutions = []
        self.team.comm.Barrier()
        self.stopwatch.start()
        for set_idx in range(self.options.num_sets):
            self.x[...] = 0.0
            self.stopwatch.stamp("WAXPBY")
            # Tolerance 0: as many iterations in each set.
            solution = self.solver.solve(
                self.b, self.x, max_iterations=self.options.num_iterations, tolerance=0.0
            )
            solutions.append(solution)
            emit(
                f"Call [{set_idx}] Number of Iterations [{solution.num_iterations}] "
                f"Scaled Residual [{solution.scaled_residual:.6g}]"
            )
        self.stopwatch.stop()
        watch = self.stopwatch
        rows = self.team.measured_rows(
            [self.setup_seconds, watch.loop_seconds]
            + [watch.section_seconds[name] for name in SECTIONS]
        )
        return Result(
            symmetry=symmetry,
            spectrum=spectrum,
            solutions=tuple(solutions),
            setup_seconds=float(rows[:, 0].max()),
            seconds=float(rows[:, 1].max()),
            section_seconds={
                name: (float(column.min()), float(np.mean(column)), float(column.max()))
                for name, column in zip(SECTIONS, rows[:, 2:].T, strict=True)
            },
        )
