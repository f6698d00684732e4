"""Atoms that left their sub-domain move to the neighbour that owns them, one axis after another.

An atom may cross one sub-domain a rebuild; one that went farther, or whose position is no number,
is dropped here and missed by the check of the total, on all ranks together.
"""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.command import AppError
from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.lammps.domain import Domain
from pagewire.apps.lammps.messages import Messenger
from pagewire.apps.pages import Rows
from pagewire.apps.timing import phase

_WIDTH = 7  # position, velocity, id (a double holds any id below 2^53)


@phase("migrate")
def migrate(atoms: Atoms, domain: Domain, messenger: Messenger) -> None:
    """Wrap positions into the box and hand each atom to its owner. Ghosts are forgotten."""
    atoms.num_ghost = 0
    infinite = ~np.isfinite(atoms.positions[: atoms.num_local])
    if infinite.any():
        atoms.keep_local(np.count_nonzero(infinite, axis=1) == 0)
    domain.wrap(atoms.positions[: atoms.num_local])
    for d in range(3):
        if domain.grid[d] > 1:
            _migrate_along(d, atoms, domain, messenger)


def check_atom_count(atoms: Atoms, messenger: Messenger, expected: int, step: int) -> None:
    """Raise AppError on all ranks unless they hold `expected` atoms together."""
    (found,) = messenger.team.sum_integers(atoms.num_local)
    if found != expected:
        raise AppError(
            f"the ranks hold {found} atoms at step {step}; allowed: exactly {expected}. Remedy: a "
            f"smaller --timestep, --temperature or --neigh-every (an atom may cross one "
            f"sub-domain between two rebuilds)."
        )


def _migrate_along(d: int, atoms: Atoms, domain: Domain, messenger: Messenger) -> None:
    num_ranks = domain.grid[d]
    left, right = messenger.team.comm.Shift(d, 1)
    owner = domain.owner_coord(atoms.positions[: atoms.num_local, d], d)
    hops = (owner - domain.coords[d]) % num_ranks
    going_right = _pack(atoms, hops == 1, messenger)
    # With two ranks both neighbours are the same one, and everything has gone right.
    to_left = (hops == num_ranks - 1) & (hops != 1)
    arrived = [messenger.swap_unknown(going_right, dest=right, source=left).copy()]
    if num_ranks > 2:
        going_left = _pack(atoms, to_left, messenger)
        arrived.append(messenger.swap_unknown(going_left, dest=left, source=right))
    atoms.keep_local(hops == 0)
    for rows in arrived:
        atoms.append_local(rows[:, 6].astype(np.int64), rows[:, 0:3], rows[:, 3:6])


def _pack(atoms: Atoms, leaving: NDArray[np.bool_], messenger: Messenger) -> Rows:
    which = np.flatnonzero(leaving)
    rows = messenger.send_buffer.take(len(which), _WIDTH)
    rows[:, 0:3] = atoms.positions[which]
    rows[:, 3:6] = atoms.velocities[which]
    rows[:, 6] = atoms.ids[which]
    return rows
