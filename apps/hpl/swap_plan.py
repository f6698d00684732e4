"""What a panel's pivots, applied one after the other, come to: which row ends up where.

The rows that come up into the diagonal block are gathered on all processes of a column; the rows
that they displace go down to where those came from. Only rows of the diagonal block go down: a row
that came up stays up.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.hpl.layout import Axis

Indices = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class SwapPlan:
    """The same on all processes of a column, but for the local indices. Processes by grid row."""

    up_order: Indices
    """places in the diagonal block, grouped by the process that holds the row that comes up"""
    up_starts: Indices
    """where each process's group begins, and the end of the last"""
    my_up_rows: Indices
    """local indices of the rows held here that come up, in the order of the group"""
    down_places: list[Indices]
    """per process: places in the diagonal block whose rows go down to it"""
    my_down_rows: Indices
    """local indices where they go, on the process that they go to"""


def plan_swaps(pivots: Indices, first: int, rows: Axis) -> SwapPlan:
    """pivots: the global row that row first + j was swapped with, in order of j."""
    content: dict[int, int] = {}
    for place, pivot in enumerate(pivots.tolist(), first):
        here, there = content.get(place, place), content.get(pivot, pivot)
        content[place], content[pivot] = there, here
    end = first + len(pivots)
    came_up = np.array([content[place] for place in range(first, end)], np.int64)
    below = sorted(row for row in content if row >= end)
    gone_down = np.array([content[row] for row in below], np.int64) - first
    targets = np.array(below, np.int64)

    up_owners, down_owners = rows.owners(came_up), rows.owners(targets)
    order = np.argsort(up_owners, kind="stable")
    counts = np.bincount(up_owners, minlength=rows.num_procs)
    return SwapPlan(
        up_order=order,
        up_starts=np.concatenate([[0], np.cumsum(counts)]),
        my_up_rows=rows.local(came_up[up_owners == rows.coord]),
        down_places=[gone_down[down_owners == each] for each in range(rows.num_procs)],
        my_down_rows=rows.local(targets[down_owners == rows.coord]),
    )
