"""Triangular systems in numpy: forward by blocks for many right-hand sides, backward for one."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BLOCK = 32
"""Order of the diagonal blocks that are inverted, so that the rest is matrix products."""


def invert_diagonal_blocks(lower: Array) -> list[Array]:
    """Inverses of the unit lower triangles of the diagonal blocks; above the diagonal `lower` may
    hold anything."""
    inverses = []
    for first in range(0, len(lower), BLOCK):
        block = lower[first : first + BLOCK, first : first + BLOCK]
        inverse = np.eye(len(block))
        for i in range(1, len(block)):
            inverse[i, :i] = -(block[i, :i] @ inverse[:i, :i])
        inverses.append(inverse)
    return inverses


def solve_unit_lower(lower: Array, inverses: list[Array], rhs: Array) -> None:
    """rhs = lower^-1 rhs, in place, with the inverses of `invert_diagonal_blocks`."""
    for idx, inverse in enumerate(inverses):
        first = idx * BLOCK
        end = first + len(inverse)
        rhs[first:end] = inverse @ rhs[first:end]
        if end < len(lower):
            rhs[end:] -= lower[end:, first:end] @ rhs[first:end]


def solve_upper(upper: Array, rhs: Array) -> Array:
    """upper^-1 rhs for one vector; below the diagonal `upper` may hold anything."""
    solution = rhs.copy()
    for i in reversed(range(len(upper))):
        solution[i] /= upper[i, i]
        solution[:i] -= solution[i] * upper[:i, i]
    return solution
