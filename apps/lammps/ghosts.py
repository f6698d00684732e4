"""The ghost shell: which atoms are sent where, set up with the neighbour lists and then reused.

Six swaps (left and right along x, y, z), more when a sub-domain is thinner than the shell: then a
rank passes on what it received. Ghosts got along x are sent on along y, and both along z, which is
how edges and corners arrive without a message of their own. Positions are received straight into
the ghosts' rows; with fresh buffers they are received in a new array and copied.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.lammps.domain import Domain
from pagewire.apps.lammps.messages import Messenger
from pagewire.apps.pages import Rows
from pagewire.apps.timing import phase

_BORDER_WIDTH = 4  # position, id


@dataclasses.dataclass(frozen=True, slots=True)
class Swap:
    """One step of the exchange."""

    dest: int
    source: int
    send_rows: NDArray[np.intp]
    """rows of the atoms that are sent, each once"""
    axis: int
    shift: float
    """added to the coordinate of a sent atom: 0, or a box length across the periodic edge"""
    ghosts: slice
    """rows that this swap fills"""


class GhostShell:
    """Builds the swaps and runs them in each step."""

    def __init__(self, domain: Domain, messenger: Messenger) -> None:
        self.domain = domain
        self.messenger = messenger
        self.swaps: list[Swap] = []

    @phase("halo")
    def rebuild(self, atoms: Atoms) -> None:
        """Forget the ghosts and collect new ones; owned atoms must lie in their sub-domain."""
        self.swaps = []
        atoms.num_ghost = 0
        for d in range(3):
            num_layers = self.domain.num_layers(d)
            # Per direction the rows that may go on: first all so far, then what just came in.
            candidates = dict.fromkeys((-1, 1), slice(0, atoms.num_all))
            for _ in range(num_layers):
                for direction in (-1, 1):
                    swap = self._add_swap(atoms, d, direction, candidates[direction])
                    candidates[direction] = swap.ghosts

    @phase("halo")
    def forward_positions(self, atoms: Atoms) -> None:
        """Refresh the ghosts' positions from their owners."""
        messenger = self.messenger
        for swap in self.swaps:
            sent = self._pack_positions(swap, atoms, width=3)
            into = atoms.positions[swap.ghosts]
            if messenger.fresh_buffers:
                buffer = messenger.receive_buffer.take(*into.shape)
                messenger.swap_rows(sent, buffer, dest=swap.dest, source=swap.source)
                into[...] = buffer
            else:
                messenger.swap_rows(sent, into, dest=swap.dest, source=swap.source)

    @phase("halo")
    def reverse_forces(self, atoms: Atoms) -> None:
        """Add the ghosts' forces to their owners', in the reverse order of the swaps."""
        messenger = self.messenger
        for swap in reversed(self.swaps):
            sent = ghosts = atoms.forces[swap.ghosts]
            if messenger.fresh_buffers:
                sent = messenger.send_buffer.take(*ghosts.shape)
                sent[...] = ghosts
            back = messenger.receive_buffer.take(len(swap.send_rows), 3)
            messenger.swap_rows(sent, back, dest=swap.source, source=swap.dest)
            atoms.forces[swap.send_rows] += back

    def _add_swap(self, atoms: Atoms, d: int, direction: int, candidates: slice) -> Swap:
        domain, messenger = self.domain, self.messenger
        left, right = messenger.team.comm.Shift(d, 1)
        column = atoms.positions[candidates, d]
        if direction < 0:
            dest, source, at_edge = left, right, domain.coords[d] == 0
            near = column < domain.low[d] + domain.ghost_reach
        else:
            dest, source, at_edge = right, left, domain.coords[d] == domain.grid[d] - 1
            near = column > domain.high[d] - domain.ghost_reach
        swap = Swap(
            dest=dest,
            source=source,
            send_rows=np.flatnonzero(near) + candidates.start,
            axis=d,
            shift=-direction * domain.lengths[d] if at_edge else 0.0,
            ghosts=slice(0),
        )
        sent = self._pack_positions(swap, atoms, width=_BORDER_WIDTH)
        sent[:, 3] = atoms.ids[swap.send_rows]
        arrived = messenger.swap_unknown(sent, dest=dest, source=source)
        swap = dataclasses.replace(swap, ghosts=self._append_ghosts(atoms, arrived))
        self.swaps.append(swap)
        return swap

    def _pack_positions(self, swap: Swap, atoms: Atoms, *, width: int) -> Rows:
        rows = self.messenger.send_buffer.take(len(swap.send_rows), width)
        rows[:, :3] = atoms.positions[swap.send_rows]
        if swap.shift:
            rows[:, swap.axis] += swap.shift
        return rows

    @staticmethod
    def _append_ghosts(atoms: Atoms, rows: Rows) -> slice:
        """Where they are."""
        where = slice(atoms.num_all, atoms.num_all + len(rows))
        atoms.reserve(where.stop)
        atoms.positions[where] = rows[:, :3]
        atoms.ids[where] = rows[:, 3].astype(np.int64)
        atoms.num_ghost += len(rows)
        return where
