"""Residuals and solution in one file, for comparing two runs bit by bit."""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpcg.geometry import Geometry
from pagewire.apps.hpcg.kernels import Vector
from pagewire.apps.hpcg.solver import Solution
from pagewire.apps.state import write_state
from pagewire.apps.team import Team


def gather_grid(team: Team, geometry: Geometry, x: Vector) -> NDArray[np.float64] | None:
    """The own points of all ranks as one grid (nz, ny, nx) on rank 0; None elsewhere.
    Collective."""
    mine = np.ascontiguousarray(x[: geometry.num_local])
    (nx, ny, nz), (px, py, pz) = geometry.num_points, geometry.num_boxes
    everything = np.empty((pz, py, px, nz, ny, nx)) if team.rank == 0 else None
    team.comm.Gather(mine, everything, root=0)
    if everything is None:
        return None
    return everything.transpose(0, 3, 1, 4, 2, 5).reshape(geometry.num_global_points[::-1])


def dump_state(
    path: str, team: Team, geometry: Geometry, *, solutions: tuple[Solution, ...], x: Vector
) -> None:
    """Rank 0 writes `residuals` (of all sets, one after the other), `num_iterations` (of each set)
    and `x` (nz, ny, nx) to an .npz. Collective; raises InputError on all ranks when the file cannot
    be written."""
    grid = gather_grid(team, geometry, x)
    arrays = None
    if grid is not None:
        arrays = {
            "residuals": np.concatenate([each.residuals for each in solutions]),
            "num_iterations": np.array([each.num_iterations for each in solutions]),
            "x": grid,
        }
    write_state(path, team, arrays)
