"""What a table of latencies says of costs: which sums of them it determines, and their values.

The unknowns are factors of the base's costs. A cost whose column in the design matrix (what the
latencies change by, for each point) is a multiple of another's can never be told apart from it:
such costs are one group, which is one unknown. Of the groups' matrix the singular value
decomposition says which directions the points see; the others stay at the base's values, so that
nothing is made out of noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ALIKE = 2e-3
"""Largest distance of two columns of length 1 that are one group."""
FLOOR = 1e-4
"""Relative error of a latency that is below what anybody measures, and above our rounding to ns."""
UNSURE = 0.25
"""Standard error of a factor from which on a direction counts as not determined."""
_ALONE = 0.05
"""Share of a group in what is not determined, up to which it is determined by itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Directions:
    """The groups' matrix A, split: what its points see, and what they do not."""

    singular: Array
    """of the directions seen"""
    seen: Array
    """rows of length 1"""
    unseen: Array

    @property
    def rank(self) -> int:
        return len(self.singular)

    def first(self, rank: int) -> Directions:
        """The same with so many of the directions seen."""
        rest = np.vstack([self.seen[rank:], self.unseen])
        return Directions(self.singular[:rank], self.seen[:rank], rest)

    def is_alone(self, idx: int) -> bool:
        """Whether this group's factor is determined by itself."""
        return bool(np.linalg.norm(self.unseen[:, idx]) <= _ALONE)

    def error(self, combination: Array, sigma: float) -> float:
        """Standard error of a combination of factors, when what is not seen may be off by the whole
        of it."""
        scatter = sigma * np.linalg.norm((self.seen @ combination) / self.singular)
        return float(np.hypot(scatter, np.linalg.norm(self.unseen @ combination)))


def groups_of(columns: Array) -> list[list[int]]:
    """Indices of columns that are multiples of each other; columns of zeros are in none."""
    found: list[list[int]] = []
    lengths = np.linalg.norm(columns, axis=0)
    for idx in np.flatnonzero(lengths > 0):
        unit = columns[:, idx] / lengths[idx]
        for group in found:
            first = columns[:, group[0]] / lengths[group[0]]
            if np.linalg.norm(unit - first) < ALIKE:
                group.append(int(idx))
                break
        else:
            found.append([int(idx)])
    return found


def directions_of(matrix: Array, sigma: float) -> Directions:
    """matrix: relative change of each latency for each group's factor; sigma: relative error of a
    latency."""
    _, singular, rows = np.linalg.svd(matrix, full_matrices=True)
    least = max(sigma, FLOOR) / UNSURE
    rank = int(np.sum(singular > least))
    return Directions(singular[:rank], rows[:rank], rows[rank:])


def factors(
    matrix: Array, target: Array, directions: Directions, rest: Array, limits: tuple[Array, Array]
) -> Array:
    """The factors within their limits whose latencies come nearest to the target (A f = target).
    What is not seen stays at `rest` as far as the limits allow."""
    from scipy.optimize import lsq_linear

    left = matrix @ directions.seen.T / directions.singular
    solved = lsq_linear(
        np.vstack([directions.singular[:, None] * directions.seen, directions.unseen]),
        np.concatenate([left.T @ target, directions.unseen @ rest]),
        bounds=limits,
        method="bvls",
    )
    return np.asarray(solved.x, dtype=np.float64)


def sums(directions: Directions, members: Sequence[int]) -> list[Array]:
    """Sums of these groups' factors that are determined, each beginning at a group that no other
    has: reduced rows of what is seen."""
    rows = directions.seen.copy()
    others = [idx for idx in range(rows.shape[1]) if idx not in members]
    found: list[Array] = []
    order = [*others, *members]  # what is determined alone goes first, and out of the rest
    at = 0
    for idx in order:
        if at == len(rows):
            break
        pivot = at + int(np.argmax(np.abs(rows[at:, idx])))
        if abs(rows[pivot, idx]) < _ALONE / 5:
            continue
        rows[[at, pivot]] = rows[[pivot, at]]
        rows[at] /= rows[at, idx]
        for other in range(len(rows)):
            if other != at:
                rows[other] -= rows[other, idx] * rows[at]
        if idx in members:
            found.append(rows[at])
        at += 1
    # The rows are views: each pivot has been taken out of those before it, too.
    return [np.where(np.abs(row) < _ALONE, 0.0, row) for row in found]
