"""Half neighbour lists with a skin, and the decision when to build them anew."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.lammps import kernels
from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.lammps.domain import Domain
from pagewire.apps.lammps.options import Options
from pagewire.apps.lammps.work import declare_lists
from pagewire.apps.team import Team
from pagewire.apps.timing import phase

GROWTH_FACTOR = 1.2


class NeighborLists:
    """Atom i's neighbours are neighbors[first[i] : first[i + 1]], rows of owned atoms or ghosts."""

    def __init__(self, options: Options, domain: Domain) -> None:
        self.options = options
        self.domain = domain
        self.num_neighbors = 0
        self.first: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._room: NDArray[np.int32] = np.zeros(0, dtype=np.int32)

    @property
    def neighbors(self) -> NDArray[np.int32]:
        return self._room[: self.num_neighbors]

    @phase("neighbour")
    def build(self, atoms: Atoms) -> None:
        """Make the lists of the owned atoms from their and the ghosts' present positions."""
        grid = self._choose_grid(atoms)
        self.first = np.zeros(atoms.num_local + 1, dtype=np.int64)
        positions, ids = atoms.positions[: atoms.num_all], atoms.ids[: atoms.num_all]
        build = partial(kernels.build_lists, grid, positions, ids, first=self.first)
        self.num_neighbors = build(neighbors=self._room)
        if self.num_neighbors > len(self._room):
            self._room = np.zeros(int(self.num_neighbors * GROWTH_FACTOR), dtype=np.int32)
            build(neighbors=self._room)
        declare_lists(
            self.options,
            num_local=atoms.num_local,
            num_atoms=atoms.num_all,
            num_neighbors=self.num_neighbors,
        )

    def _choose_grid(self, atoms: Atoms) -> Any:
        """Bins of half the list cut-off; wider in a thin gas, where most would be empty."""
        reach = self.options.list_cutoff
        low = np.array(self.domain.low) - reach
        extent = np.array(self.domain.high) + reach - low
        width = max(reach / 2, float(np.cbrt(np.prod(extent) / max(atoms.num_all, 1))))
        num_bins = np.maximum(np.floor(extent / width), 1).astype(int)
        return kernels.grid(
            low=low.tolist(),
            bin_width=(extent / num_bins).tolist(),
            num_bins=num_bins.tolist(),
            list_cutoff=reach,
            newton=self.options.newton,
        )


class RebuildTrigger:
    """Says, on all ranks alike, whether lists are stale: some atom moved more than skin / 2."""

    def __init__(self, options: Options, team: Team) -> None:
        self.options = options
        self.team = team
        self.num_rebuilds = 0
        self.num_dangerous = 0
        """rebuilds at the first step that was allowed one: lists may have been stale before"""
        self._age = 0
        self._built_at: NDArray[np.float64] = np.zeros((0, 3))

    def start(self, atoms: Atoms) -> None:
        """Lists were built for these positions."""
        self._age = 0
        self._built_at = atoms.positions[: atoms.num_local].copy()

    def is_due(self, atoms: Atoms) -> bool:
        """To be asked once a step, after positions have moved. Collective."""
        options = self.options
        self._age += 1
        if self._age < options.neigh_delay or self._age % options.neigh_every:
            return False
        if options.neigh_check:
            if not self.team.any(self._moved_too_far(atoms)):
                return False
            earliest = max(options.neigh_every, options.neigh_delay)
            self.num_dangerous += self._age <= earliest
        self.num_rebuilds += 1
        return True

    def _moved_too_far(self, atoms: Atoms) -> bool:
        n = atoms.num_local
        if n == 0:
            return False
        moved = atoms.positions[:n] - self._built_at
        farthest_squared = float((moved * moved).sum(axis=1).max())
        # Written so that a position that is no number counts as moved.
        return not farthest_squared <= (self.options.skin / 2) ** 2
