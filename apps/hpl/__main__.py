"""`python -m pagewire.apps.hpl` runs the mini-app: exit code 0; 2 for bad input and 1
when the residual test fails, alike on all ranks. numpy is imported once the number of threads is
chosen."""

import os
from typing import Any

from pagewire.apps.command import Say, run_mini_app
from pagewire.apps.hpl.options import Options, parse_options


def _run(mpi: Any, options: Options, say: Say) -> int:
    from pagewire.apps.hpl.factorization import Factorization
    from pagewire.apps.hpl.grid import Grid, choose_shape
    from pagewire.apps.hpl.matrix import Matrix
    from pagewire.apps.hpl.report import SECTIONS, closing, opening, timing
    from pagewire.apps.hpl.solution import (
        THRESHOLD,
        back_substitute,
        gather_solution,
        scaled_residual,
    )
    from pagewire.apps.state import write_state
    from pagewire.apps.team import Team
    from pagewire.apps.timing import Stopwatch

    world = Team(mpi, mpi.COMM_WORLD)
    grid = Grid(world, *choose_shape(options, world.num_ranks))
    matrix = Matrix(options, grid)
    say(opening(options, grid))
    matrix.generate()
    stopwatch = Stopwatch(mpi.Wtime, SECTIONS)
    factorization = Factorization(matrix, grid, stopwatch)
    world.comm.Barrier()
    stopwatch.start()
    factorization.run()
    x = back_substitute(matrix, grid)
    stopwatch.stamp("trsv")
    stopwatch.stop()
    say(timing(options, grid, stopwatch))
    matrix.generate()
    residual = scaled_residual(matrix, grid, x)
    passed = residual < THRESHOLD
    say(closing(residual, passed))
    if options.dump_state is not None:
        solution = gather_solution(matrix, grid, x)
        write_state(options.dump_state, world, None if solution is None else {"x": solution})
    grid.close()
    return 0 if passed else 1


if __name__ == "__main__":
    # As the launcher has it: one thread a rank, so that the bits are the same without it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(run_mini_app("hpl", parse_options, _run))
