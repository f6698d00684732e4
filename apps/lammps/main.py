"""Command of the mini-app. `mpi4py.MPI` is imported here only, so that a launcher can put another
implementation under it first."""

import sys
import traceback
from typing import Any

from pagewire.apps.lammps.errors import LammpsError
from pagewire.apps.lammps.options import make_parser, parse_options


def main(argv: list[str] | None = None) -> int:
    """Run the melt on all ranks of COMM_WORLD. Returns 0; 2 for bad input and 1 for a run that
    went wrong, alike on all ranks. A fault of the program itself aborts all ranks."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    try:
        return _run(MPI, argv)
    except LammpsError as error:
        if world.Get_rank() == 0:
            print(f"lammps: error: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except Exception:
        if world.Get_size() == 1:
            raise
        # The others would wait for this rank for ever.
        traceback.print_exc()
        sys.stderr.flush()
        world.Abort(1)
        return 1


def _run(mpi: Any, argv: list[str] | None) -> int:
    from pagewire.apps.lammps.report import closing, opening
    from pagewire.apps.lammps.simulation import Simulation
    from pagewire.apps.lammps.state import dump_state
    from pagewire.apps.lammps.team import Team
    from pagewire.apps.lammps.thermo import HEADER

    world = Team(mpi, mpi.COMM_WORLD)

    def say(line: object) -> None:
        if world.rank == 0:
            print(line, flush=True)

    options = parse_options(argv)
    if options is None:
        say(make_parser().format_help())
        return 0
    simulation = Simulation(options, world)
    say(f"{opening(options, simulation.domain)}\n{HEADER}")
    simulation.run(say)
    say(
        closing(
            options,
            simulation.team,
            stopwatch=simulation.stopwatch,
            atoms=simulation.atoms,
            lists=simulation.lists,
            trigger=simulation.trigger,
        )
    )
    if options.dump_state is not None:
        dump_state(options.dump_state, simulation.team, simulation.atoms)
    simulation.close()
    return 0
