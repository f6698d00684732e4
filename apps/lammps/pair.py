"""The Lennard-Jones potential with a plain cut-off: U = 4 (r^-12 - r^-6) for r < cut-off.

The force is truncated, not smoothed. By default the energy is not shifted, as LAMMPS' `lj/cut`: a
pair that crosses the cut-off then changes the total energy by U(cut-off) without doing work. With
`--shift` that jump is taken out and the forces stay the same to the bit.

Measured, 500 atoms, time step 0.005, 8 seeds, relative to |E|: not shifted, the energy moves by up
to 3e-3 in 1000 steps; shifted, by up to 8e-4 at temperature 3.0, nearly all of it the integrator's
own error as the lattice melts (it falls with the square of the time step), and 6e-5 at 1.44.
"""

from pagewire.apps.lammps import kernels
from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.lammps.neighbor import NeighborLists
from pagewire.apps.lammps.options import Options
from pagewire.apps.lammps.work import declare_forces
from pagewire.apps.timing import phase


def pair_energy(distance: float) -> float:
    """U(distance), without cut-off or shift."""
    inverse6 = distance**-6
    return 4.0 * inverse6 * (inverse6 - 1.0)


class PairForce:
    """Computes forces, and on request this rank's share of energy and virial."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.energy_shift = pair_energy(options.cutoff) if options.shift else 0.0
        self.energy = 0.0
        self.virial = 0.0

    @phase("force")
    def compute(self, atoms: Atoms, lists: NeighborLists, *, with_energy: bool) -> None:
        """Overwrite the forces of owned atoms and ghosts. Ghosts' forces are to be sent back when
        Newton's law is used across ranks, and are 0 otherwise."""
        n = atoms.num_all
        self.energy, self.virial = kernels.compute_lj(
            atoms.positions[:n],
            atoms.forces[:n],
            first=lists.first,
            neighbors=lists.neighbors,
            cutoff=self.options.cutoff,
            energy_shift=self.energy_shift,
            newton=self.options.newton,
            with_energy=with_energy,
        )
        declare_forces(
            self.options, num_atoms=n, num_neighbors=lists.num_neighbors, with_energy=with_energy
        )
