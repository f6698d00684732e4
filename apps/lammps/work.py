"""Operations and memory traffic of the melt's inner loops, declared for `--compute model`.

Counted from kernels.c: an entry of a half list costs 8 operations for the squared distance; within
the cut-off come 7 for the force, 9 to add it to both atoms (8 more with energy and virial). The
share of entries within the cut-off is the ratio of the spheres, (cutoff / (cutoff + skin))^3.
Building tests the atoms of the 5^3 bins around each atom, at the mean density. Memory: lists once
(4 B an entry), positions, velocities and forces once an atom; what lies between is in the caches.

The emulated node does this at the platform's rates, which are those of HPL and HPCG: PART's 1.31
timesteps/s have no problem size beside them. By these counts they would be about 3 million atoms on
one node, if the loop ran at HPL's rate.
"""

from pagewire.apps.lammps.options import Options
from pagewire.apps.timing import declare

DISTANCE_FLOPS = 8
FORCE_FLOPS = 16
ENERGY_FLOPS = 8
INTEGRATE_FLOPS = 18
"""two half steps of the velocity and one step of the position, three components"""

VECTOR_BYTES = 24
ENTRY_BYTES = 4


def declare_forces(
    options: Options, *, num_atoms: int, num_neighbors: int, with_energy: bool
) -> None:
    """num_atoms: owned and ghosts; num_neighbors: entries of the half lists."""
    share = (options.cutoff / options.list_cutoff) ** 3
    flops = DISTANCE_FLOPS + share * (FORCE_FLOPS + (ENERGY_FLOPS if with_energy else 0))
    declare(
        flops=flops * num_neighbors,
        num_bytes=ENTRY_BYTES * num_neighbors + 3.0 * VECTOR_BYTES * num_atoms,
    )


def declare_lists(options: Options, *, num_local: int, num_atoms: int, num_neighbors: int) -> None:
    """num_local: owned atoms, whose lists were built; num_atoms: with ghosts, which were sorted."""
    candidates = options.density * (2.5 * options.list_cutoff) ** 3
    declare(
        flops=DISTANCE_FLOPS * candidates * num_local,
        num_bytes=ENTRY_BYTES * num_neighbors + 2.0 * (VECTOR_BYTES + ENTRY_BYTES) * num_atoms,
    )


def declare_step(num_local: int) -> None:
    """Velocity Verlet's updates of owned atoms in one step: read and write x once, v twice, read
    f."""
    declare(flops=INTEGRATE_FLOPS * num_local, num_bytes=8.0 * VECTOR_BYTES * num_local)
