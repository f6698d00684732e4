"""`python -m pagewire.apps.hpcg` runs the mini-app: exit code 0; 2 for bad input
and 1 for a run that went wrong, alike on all ranks."""

from typing import Any

from pagewire.apps.command import Say, run_mini_app
from pagewire.apps.hpcg.options import Options, parse_options


def _run(mpi: Any, options: Options, say: Say) -> int:
    from pagewire.apps.hpcg.benchmark import Benchmark
    from pagewire.apps.hpcg.report import report
    from pagewire.apps.hpcg.state import gather_state
    from pagewire.apps.state import write_state
    from pagewire.apps.team import Team

    team = Team(mpi, mpi.COMM_WORLD)
    benchmark = Benchmark(options, team)
    result = benchmark.run(say)
    say(report(benchmark, result))
    if options.dump_state is not None:
        state = gather_state(team, benchmark.geometry, solutions=result.solutions, x=benchmark.x)
        write_state(options.dump_state, team, state)
    return 0 if result.is_valid else 1


if __name__ == "__main__":
    raise SystemExit(run_mini_app("hpcg", parse_options, _run))
