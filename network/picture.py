"""What a picture of a topology's links shows: how busy they were, by place, and no more than a page
has room for. Drawn by run/page/network.py."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from pagewire.native import lib
from pagewire.network.topology import Link, link_of, sides_of, tree_levels

SQUARES_MAX = 1024
SIDE_MAX = 32
"""Of a panel, and of a matrix twice as many; with more, neighbours share one and the busiest link
counts."""
_DIGITS = 4
_WAYS = ("right", "left", "down", "up")


def picture(topology: Any, text: str, nodes_per_board: int, busy: Mapping[int, float]) -> Any:
    """Of a pw_topology; busy: share of the run, by number of each link that was used. For JSON:

    kind "grid": squares of step[d] places of each dimension d, the first dimension fastest; a share
    of each, of its busiest link inside and in dimensions beyond two; and of its busiest link to the
    next one in each direction of the first two. "levels": of a fat tree, a list a level and
    direction. "matrix": cells of row (from), column (to) and share."""
    links = {number: link_of(topology, number) for number in busy}
    sides = [side for side in sides_of(topology) if side > 1]
    per_square = nodes_per_board if text.startswith("qfdb") else 1
    if sides:
        return _grid(sides, per_square, not text.startswith("mesh"), links, busy)
    if text.startswith("fat-tree:"):
        return _levels(text, links, busy)
    num_routers = int(lib.pw_topology_num_routers(topology))
    return _matrix(num_routers, per_square > 1, links, busy)


def _steps(sides: Sequence[int]) -> list[int]:
    steps = [1] * len(sides)

    def count(dim: int) -> int:
        return -(-sides[dim] // steps[dim])

    while True:
        wide = [dim for dim in range(min(2, len(sides))) if count(dim) > SIDE_MAX]
        if not wide and prod(map(count, range(len(sides)))) <= SQUARES_MAX:
            return steps
        steps[max(wide or range(len(sides)), key=count)] *= 2


def _grid(
    sides: list[int],
    per_square: int,
    wraps: bool,
    links: Mapping[int, Link],
    busy: Mapping[int, float],
) -> dict[str, Any]:
    steps = _steps(sides)
    counts = [-(-side // step) for side, step in zip(sides, steps, strict=True)]
    shares = {name: [0.0] * prod(counts) for name in ("inside", *_WAYS)}

    def square(router: int) -> tuple[int, list[int]]:
        place, number, stride, at = router // per_square, 0, 1, []
        for side, step, count in zip(sides, steps, counts, strict=True):
            at.append(place % side)
            number += place % side // step * stride
            stride, place = stride * count, place // side
        return number, at

    for number, link in links.items():
        (source, at), (target, to) = square(link.source), square(link.target)
        name = "inside"
        moved = [dim for dim in range(len(sides)) if at[dim] != to[dim]]
        if source != target and moved and moved[0] < 2:
            dim = moved[0]
            is_next = to[dim] == (at[dim] + 1) % sides[dim]
            if sides[dim] == 2:
                is_next = to[dim] > at[dim]
            name = _WAYS[2 * dim + (not is_next)]
        shares[name][source] = max(shares[name][source], round(busy[number], _DIGITS))
    of = "QFDB" if per_square > 1 else "router"
    return {"kind": "grid", "of": of, "sides": sides, "step": steps, "wraps": wraps, **shares}


def _levels(text: str, links: Mapping[int, Link], busy: Mapping[int, float]) -> dict[str, Any]:
    """A strip by level and direction; an element is a child's links to its parents."""
    counts = tree_levels(text)
    rows = []
    for level, count in enumerate(counts[:-1]):
        first, step = sum(counts[:level]), -(-count // (2 * SIDE_MAX))
        up, down = [0.0] * -(-count // step), [0.0] * -(-count // step)
        for number, link in links.items():
            place = min(link.source, link.target) - first
            if 0 <= place < count:
                shares = up if link.source < link.target else down
                at = place // step
                shares[at] = max(shares[at], round(busy[number], _DIGITS))
        below, above = f"level {level}" if level else "nodes", f"level {level + 1}"
        rows.append({"name": f"{below} to {above}", "step": step, "busy": up})
        rows.append({"name": f"{above} to {below}", "step": step, "busy": down})
    return {"kind": "levels", "rows": rows}


def _matrix(
    num_routers: int, is_board: bool, links: Mapping[int, Link], busy: Mapping[int, float]
) -> dict[str, Any]:
    """Nodes that are no routers are behind the last row and column."""
    step = -(-num_routers // (2 * SIDE_MAX)) or 1
    starts = range(0, num_routers, step)
    names = [
        f"{'F' if is_board else ''}{start}"
        if step == 1
        else f"{start}-{min(start + step, num_routers) - 1}"
        for start in starts
    ]
    cells: dict[tuple[int, int], float] = {}
    for number, link in links.items():
        at = tuple(min(router // step, len(names)) for router in (link.source, link.target))
        cells[at[0], at[1]] = max(cells.get((at[0], at[1]), 0.0), round(busy[number], _DIGITS))
    if any(len(names) in at for at in cells):
        names.append("nodes")
    return {"kind": "matrix", "names": names, "cells": [[*at, cells[at]] for at in sorted(cells)]}
