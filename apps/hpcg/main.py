"""Command of the mini-app."""

from typing import Any

from pagewire.apps.command import Say, run_mini_app
from pagewire.apps.hpcg.options import Options, parse_options


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark on all ranks of COMM_WORLD. Returns 0; 2 for bad input and 1 for an invalid
    result, alike on all ranks. A fault of the program itself aborts all ranks."""
    return run_mini_app("hpcg", parse_options, _run, argv)


def _run(mpi: Any, options: Options, say: Say) -> int:
    from pagewire.apps.hpcg.benchmark import Benchmark
    from pagewire.apps.hpcg.report import report
    from pagewire.apps.hpcg.state import dump_state
    from pagewire.apps.hpcg.team import Team

    team = Team(mpi, mpi.COMM_WORLD)
    benchmark = Benchmark(options, team)
    result = benchmark.run(say)
    say(report(benchmark, result))
    if options.dump_state is not None:
        dump_state(
            options.dump_state, team, benchmark.geometry, solutions=result.solutions, x=benchmark.x
        )
    return 0 if result.is_valid else 1
