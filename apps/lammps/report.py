"""What rank 0 prints before and after the run, laid out like LAMMPS' log."""

import numpy as np

from pagewire.apps.lammps.domain import Domain
from pagewire.apps.lammps.options import Options
from pagewire.apps.lammps.simulation import SECTIONS, Simulation

_SECONDS_PER_DAY = 86400


def opening(options: Options, domain: Domain) -> str:
    """Lattice, box, grid."""
    a = options.lattice_constant
    high = " ".join(f"{length:.7g}" for length in options.box_lengths)
    grid = " by ".join(str(n) for n in domain.grid)
    return (
        f"Lattice spacing in x,y,z = {a:.7g} {a:.7g} {a:.7g}\n"
        f"Created orthogonal box = (0 0 0) to ({high})\n"
        f"  {grid} MPI processor grid\n"
        f"Created {options.num_atoms} atoms\n"
        f"Neighbor lists: half, newton {'on' if options.newton else 'off'}, "
        f"cut-off {options.list_cutoff:g}, every {options.neigh_every} delay {options.neigh_delay} "
        f"check {'yes' if options.neigh_check else 'no'}"
    )


def closing(simulation: Simulation) -> str:
    """Loop time, breakdown by section, neighbour statistics: of all ranks at rank 0. Collective."""
    options, team, trigger = simulation.options, simulation.team, simulation.trigger
    watch, atoms = simulation.stopwatch, simulation.atoms
    times = [watch.loop_seconds, *(watch.section_seconds[name] for name in SECTIONS)]
    own = [*times, atoms.num_local, atoms.num_ghost, simulation.lists.num_neighbors]
    rows = team.measured_rows(own)
    loop, sections, counts = rows[:, 0], rows[:, 1:-3], rows[:, -3:]
    # Loop times differ by the way out of the barrier; the mean is the whole.
    seconds = float(loop.mean())
    num_neighbors = int(counts[:, 2].sum())
    lines = [
        (
            f"Loop time of {seconds:.6g} on {team.num_ranks} procs for {options.num_steps} steps "
            f"with {options.num_atoms} atoms"
        ),
        "",
        _performance(options, seconds),
        "",
        "MPI task timing breakdown:",
        "Section |  min time  |  avg time  |  max time  | %total",
        "-------------------------------------------------------",
        *(_section(name, sections[:, i], seconds) for i, name in enumerate(SECTIONS)),
        _section("Other", loop - sections.sum(axis=1), seconds),
        "",
        _count("Nlocal:", counts[:, 0]),
        _count("Nghost:", counts[:, 1]),
        _count("Neighs:", counts[:, 2]),
        "",
        f"Total # of neighbors = {num_neighbors}",
        f"Ave neighs/atom = {num_neighbors / options.num_atoms:.7g}",
        f"Neighbor list builds = {trigger.num_rebuilds}",
        f"Dangerous builds = {trigger.num_dangerous}"
        if options.neigh_check
        else "Dangerous builds not checked",
    ]
    return "\n".join(lines)


def _performance(options: Options, seconds: float) -> str:
    rate = options.num_steps / seconds if seconds > 0 else 0.0
    return (
        f"Performance: {rate * options.timestep * _SECONDS_PER_DAY:.3f} tau/day, "
        f"{rate:.3f} timesteps/s, {rate * options.num_atoms / 1e3:.3f} katom-step/s"
    )


def _section(name: str, seconds: np.ndarray, whole: float) -> str:
    average = float(seconds.mean())
    percent = 100 * average / whole if whole > 0 else 0.0
    return (
        f"{name:<8}| {seconds.min():<10.5g} | {average:<10.5g} | {seconds.max():<10.5g} "
        f"| {percent:6.2f}"
    )


def _count(name: str, values: np.ndarray) -> str:
    return f"{name} {values.mean():12g} ave {values.max():12g} max {values.min():12g} min"
