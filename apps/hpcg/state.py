"""Residuals and solution, for one file."""

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpcg.geometry import Geometry
from pagewire.apps.hpcg.kernels import Vector
from pagewire.apps.hpcg.solver import Solution
from pagewire.apps.team import Team


def gather_state(
    team: Team, geometry: Geometry, *, solutions: tuple[Solution, ...], x: Vector
) -> dict[str, NDArray[np.generic]] | None:
    """`residuals` (of all sets, one after the other), `num_iterations` (of each set) and `x`, the
    own points of all ranks as one grid (nz, ny, nx), on rank 0; None elsewhere. Collective."""
    mine = np.ascontiguousarray(x[: geometry.num_local])
    (nx, ny, nz), (px, py, pz) = geometry.num_points, geometry.num_boxes
    everything = np.empty((pz, py, px, nz, ny, nx)) if team.rank == 0 else None
    team.comm.Gather(mine, everything, root=0)
    if everything is None:
        return None
    grid = everything.transpose(0, 3, 1, 4, 2, 5).reshape(geometry.num_global_points[::-1])
    return {
        "residuals": np.concatenate([each.residuals for each in solutions]),
        "num_iterations": np.array([each.num_iterations for each in solutions]),
        "x": grid,
    }
