"""The run: velocity Verlet at constant energy, in the order of LAMMPS' loop."""

from collections.abc import Callable

from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.lammps.domain import create_domain
from pagewire.apps.lammps.ghosts import GhostShell
from pagewire.apps.lammps.lattice import create_lattice, create_velocities
from pagewire.apps.lammps.messages import Messenger
from pagewire.apps.lammps.migration import check_atom_count, migrate
from pagewire.apps.lammps.neighbor import NeighborLists, RebuildTrigger
from pagewire.apps.lammps.options import Options
from pagewire.apps.lammps.pair import PairForce
from pagewire.apps.lammps.thermo import ThermoRow, measure
from pagewire.apps.lammps.work import declare_step
from pagewire.apps.team import Team
from pagewire.apps.timing import Stopwatch, phase

SECTIONS = ("Pair", "Neigh", "Comm", "Output", "Modify")
"""of the timed loop"""


class Simulation:
    """One rank's part of the melt. Creating it and all its methods are collective."""

    def __init__(self, options: Options, world: Team) -> None:
        """Lattice, velocities, first lists and forces. Raises AppError on all ranks."""
        self.options = options
        self.team, self.domain = create_domain(world, options)
        self.messenger = Messenger(self.team, fresh_buffers=options.fresh_buffers)
        self.stopwatch = Stopwatch(world.mpi.Wtime, SECTIONS)
        self.atoms = Atoms()
        self.shell = GhostShell(self.domain, self.messenger)
        self.lists = NeighborLists(options, self.domain)
        self.trigger = RebuildTrigger(options, self.team)
        self.pair = PairForce(options)
        self.step = 0
        ids, positions = create_lattice(options, self.domain)
        self.atoms.append_local(ids, positions, create_velocities(options, self.team, ids))
        self._rebuild()
        self._compute_forces(with_energy=True)

    def run(self, emit: Callable[[ThermoRow], None]) -> None:
        """All steps; `emit` gets the output lines, on every rank."""
        self.team.comm.Barrier()
        self.stopwatch.start()
        emit(self._measure())
        self.stopwatch.stamp("Output")
        for _ in range(self.options.num_steps):
            self._advance()
            if self._is_thermo_step(self.step):
                self.stopwatch.skip()
                emit(self._measure())
                self.stopwatch.stamp("Output")
        self.team.comm.Barrier()
        self.stopwatch.stop()

    def close(self) -> None:
        """Give the Cartesian communicator back."""
        self.team.comm.Free()

    def _advance(self) -> None:
        self.step += 1
        self.stopwatch.skip()
        atoms = self.atoms
        self._begin_step()
        self.stopwatch.stamp("Modify")
        is_due = self.trigger.is_due(atoms)
        self.stopwatch.stamp("Neigh")
        if is_due:
            self._rebuild()
        else:
            self.shell.forward_positions(atoms)
            self.stopwatch.stamp("Comm")
        self._compute_forces(with_energy=self._is_thermo_step(self.step))
        self._end_step()
        self.stopwatch.stamp("Modify")

    @phase("integrate")
    def _begin_step(self) -> None:
        atoms, n = self.atoms, self.atoms.num_local
        atoms.velocities[:n] += self.options.timestep / 2 * atoms.forces[:n]
        atoms.positions[:n] += self.options.timestep * atoms.velocities[:n]

    @phase("integrate")
    def _end_step(self) -> None:
        atoms, n = self.atoms, self.atoms.num_local
        atoms.velocities[:n] += self.options.timestep / 2 * atoms.forces[:n]
        declare_step(n)

    def _rebuild(self) -> None:
        migrate(self.atoms, self.domain, self.messenger)
        check_atom_count(self.atoms, self.messenger, self.options.num_atoms, self.step)
        self.shell.rebuild(self.atoms)
        self.stopwatch.stamp("Comm")
        self.lists.build(self.atoms)
        self.trigger.start(self.atoms)
        self.stopwatch.stamp("Neigh")

    def _compute_forces(self, *, with_energy: bool) -> None:
        self.pair.compute(self.atoms, self.lists, with_energy=with_energy)
        self.stopwatch.stamp("Pair")
        if self.options.newton:
            self.shell.reverse_forces(self.atoms)
            self.stopwatch.stamp("Comm")

    def _is_thermo_step(self, step: int) -> bool:
        every = self.options.thermo_every
        return step == self.options.num_steps or (every > 0 and step % every == 0)

    def _measure(self) -> ThermoRow:
        return measure(
            self.options,
            self.team,
            self.atoms,
            step=self.step,
            energy=self.pair.energy,
            virial=self.pair.virial,
        )
