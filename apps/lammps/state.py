"""The atoms of all ranks, for one file."""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.team import Team

_WIDTH = 7  # id, position, velocity


def gather_state(team: Team, atoms: Atoms) -> dict[str, NDArray[np.generic]] | None:
    """`ids` (ascending), `positions`, `velocities` on rank 0; None elsewhere. Collective."""
    n = atoms.num_local
    mine = np.empty((n, _WIDTH))
    mine[:, 0] = atoms.ids[:n]
    mine[:, 1:4] = atoms.positions[:n]
    mine[:, 4:7] = atoms.velocities[:n]
    everything = team.gather(mine)
    if everything is None:
        return None
    rows = everything.reshape(-1, _WIDTH)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return {
        "ids": rows[:, 0].astype(np.int64),
        "positions": rows[:, 1:4],
        "velocities": rows[:, 4:7],
    }
