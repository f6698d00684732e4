"""The P x Q grid of processes, ranks row by row as in HPL's default map."""

import math

from pagewire.apps.command import InputError
from pagewire.apps.hpl.options import Options
from pagewire.apps.team import Team


class Grid:
    """One rank's place, with its row and its column as teams. Creating it is collective."""

    def __init__(self, world: Team, num_rows: int, num_columns: int) -> None:
        """num_rows * num_columns must be the number of ranks."""
        self.world = world
        self.num_rows = num_rows
        self.num_columns = num_columns
        self.my_row, self.my_column = divmod(world.rank, num_columns)
        # Ranks within a row are ordered by column, and within a column by row.
        self.row = Team(world.mpi, world.comm.Split(self.my_row, self.my_column))
        self.column = Team(world.mpi, world.comm.Split(self.my_column, self.my_row))

    def close(self) -> None:
        """Give the communicators back."""
        self.row.comm.Free()
        self.column.comm.Free()


def choose_shape(options: Options, num_ranks: int) -> tuple[int, int]:
    """P and Q as given, else as square as the rank count allows with P <= Q. Raises InputError."""
    p, q = options.p, options.q
    if p is None and q is None:
        p = max(d for d in range(1, math.isqrt(num_ranks) + 1) if num_ranks % d == 0)
    if p is None:
        p = _complement("--Q", q, num_ranks)
    elif q is None:
        q = _complement("--P", p, num_ranks)
    assert p is not None and q is not None
    if p * q != num_ranks:
        raise InputError(
            f"--P x --Q is {p} x {q} = {p * q}; allowed: {num_ranks}, the number of ranks. "
            f"Remedy: start {p * q} ranks, or leave --P and --Q out."
        )
    return p, q


def _complement(flag: str, given: int | None, num_ranks: int) -> int:
    assert given is not None
    if num_ranks % given:
        raise InputError(
            f"{flag} is {given}; allowed: a divisor of {num_ranks}, the number of ranks. "
            f"Remedy: give a divisor, or leave {flag} out."
        )
    return num_ranks // given
