"""`python -m pagewire.apps.lammps` runs the mini-app: exit code 0; 2 for bad input
and 1 for a run that went wrong, alike on all ranks."""

from typing import Any

from pagewire.apps.command import Say, run_mini_app
from pagewire.apps.lammps.options import Options, parse_options


def _run(mpi: Any, options: Options, say: Say) -> int:
    from pagewire.apps.lammps.report import closing, opening
    from pagewire.apps.lammps.simulation import Simulation
    from pagewire.apps.lammps.state import gather_state
    from pagewire.apps.lammps.thermo import HEADER
    from pagewire.apps.state import write_state
    from pagewire.apps.team import Team

    world = Team(mpi, mpi.COMM_WORLD)
    simulation = Simulation(options, world)
    say(f"{opening(options, simulation.domain)}\n{HEADER}")
    simulation.run(say)
    say(closing(simulation))
    if options.dump_state is not None:
        state = gather_state(simulation.team, simulation.atoms)
        write_state(options.dump_state, simulation.team, state)
    simulation.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(run_mini_app("lammps", parse_options, _run))
