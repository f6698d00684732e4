"""Who owns which part of the periodic box: a 3-d grid of equal sub-domains, one a rank."""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.command import InputError
from pagewire.apps.lammps.options import Options
from pagewire.apps.team import Team

MAX_GHOST_LAYERS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """One rank's place. Ownership is computed from a position alike on every rank, so that each
    atom has exactly one owner whatever the rounding."""

    lengths: tuple[float, float, float]
    grid: tuple[int, int, int]
    coords: tuple[int, int, int]
    ghost_reach: float
    """depth of the ghost shell: cut-off + skin"""

    @property
    def widths(self) -> tuple[float, float, float]:
        x, y, z = (length / n for length, n in zip(self.lengths, self.grid, strict=True))
        return x, y, z

    @property
    def low(self) -> tuple[float, float, float]:
        x, y, z = (w * c for w, c in zip(self.widths, self.coords, strict=True))
        return x, y, z

    @property
    def high(self) -> tuple[float, float, float]:
        x, y, z = (w * (c + 1) for w, c in zip(self.widths, self.coords, strict=True))
        return x, y, z

    def num_layers(self, d: int) -> int:
        """How many sub-domains away along d a ghost can come from; the same on all ranks."""
        return math.ceil(self.ghost_reach / self.widths[d])

    def wrap(self, positions: NDArray[np.float64]) -> None:
        """Move positions into [0, length), in place."""
        for d, length in enumerate(self.lengths):
            column = positions[:, d]
            column -= length * np.floor(column / length)
            # A tiny negative coordinate plus the length rounds to the length itself.
            column[column >= length] = 0.0

    def owner_coord(self, column: NDArray[np.float64], d: int) -> NDArray[np.int64]:
        """Grid coordinate along d of the owner of each wrapped, finite coordinate."""
        index = np.floor(column * (self.grid[d] / self.lengths[d])).astype(np.int64)
        return np.minimum(index, self.grid[d] - 1)


def choose_grid(team: Team, lengths: tuple[float, float, float]) -> tuple[int, int, int]:
    """MPI's balanced factors of the rank count, the largest along the longest side."""
    factors = sorted(team.mpi.Compute_dims(team.num_ranks, 3), reverse=True)
    by_length = sorted(range(3), key=lambda d: -lengths[d])
    grid = [1, 1, 1]
    for factor, d in zip(factors, by_length, strict=True):
        grid[d] = factor
    return grid[0], grid[1], grid[2]


def check_grid(options: Options, grid: tuple[int, int, int]) -> None:
    """Raise InputError when sub-domains are too thin for one-hop migration or for the ghosts."""
    least = max(options.skin, options.list_cutoff / MAX_GHOST_LAYERS)
    for axis, length, n in zip("xyz", options.box_lengths, grid, strict=True):
        if length / n < least:
            raise InputError(
                f"the sub-domains are {length / n:.6g} sigma wide in {axis} ({n} ranks share "
                f"{length:.6g}); allowed: at least {least:.6g} (skin, and (cut-off + skin) / "
                f"{MAX_GHOST_LAYERS}). Remedy: at most {int(length / least)} ranks along {axis}, "
                f"more cells, or a smaller cut-off or skin."
            )


def create_domain(team: Team, options: Options) -> tuple[Team, Domain]:
    """The Cartesian communicator as a team, and this rank's sub-domain. Raises InputError."""
    grid = choose_grid(team, options.box_lengths)
    check_grid(options, grid)
    cart = team.comm.Create_cart(list(grid), periods=[True] * 3, reorder=False)
    x, y, z = cart.Get_coords(cart.Get_rank())
    domain = Domain(
        lengths=options.box_lengths, grid=grid, coords=(x, y, z), ghost_reach=options.list_cutoff
    )
    return Team(team.mpi, cart), domain
