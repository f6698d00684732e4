"""The atoms of all ranks in one file."""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.state import write_state
from pagewire.apps.team import Team

_WIDTH = 7  # id, position, velocity


def gather_state(team: Team, atoms: Atoms) -> NDArray[np.float64] | None:
    """Rows (id, position, velocity) of all atoms, ascending by id, on rank 0; None elsewhere."""
    n = atoms.num_local
    mine = np.empty((n, _WIDTH))
    mine[:, 0] = atoms.ids[:n]
    mine[:, 1:4] = atoms.positions[:n]
    mine[:, 4:7] = atoms.velocities[:n]
    counts = team.gather_rows([n])[:, 0].astype(int)
    everything = np.empty((int(counts.sum()), _WIDTH)) if team.rank == 0 else None
    into = None
    if everything is not None:
        lengths = counts * _WIDTH
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        into = [everything, lengths.tolist(), starts.tolist(), team.mpi.DOUBLE]
    team.comm.Gatherv([mine, n * _WIDTH, team.mpi.DOUBLE], into, root=0)
    if everything is None:
        return None
    return everything[np.argsort(everything[:, 0], kind="stable")]


def dump_state(path: str, team: Team, atoms: Atoms) -> None:
    """Rank 0 writes `ids`, `positions`, `velocities` to an .npz. Collective; raises InputError on
    all ranks when the file cannot be written."""
    rows = gather_state(team, atoms)
    arrays = None
    if rows is not None:
        arrays = {
            "ids": rows[:, 0].astype(np.int64),
            "positions": rows[:, 1:4],
            "velocities": rows[:, 4:7],
        }
    write_state(path, team, arrays)
