"""Samples of one measurement: median, spread, whether it looks noisy; a line through several."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

NOISY_SPREAD = 0.25
"""Of the quartiles' distance, over the median."""
DRIFT = 0.25
"""Of the medians of first and second half, over the median."""
_DRIFT_SAMPLES_MIN = 8


def size_text(num_bytes: int) -> str:
    """In KiB however large, so that a table's sizes compare."""
    return f"{num_bytes} B" if num_bytes < 1024 else f"{num_bytes // 1024} KiB"


@dataclasses.dataclass(frozen=True, slots=True)
class Samples:
    """Times of one operation in the order taken."""

    name: str
    num_bytes: int
    """0: the operation has no size"""
    ns: tuple[float, ...]

    @property
    def title(self) -> str:
        """Name and size."""
        return f"{self.name}, {size_text(self.num_bytes)}" if self.num_bytes else self.name

    @property
    def median_ns(self) -> float:
        return float(np.median(self.ns))

    @property
    def quartiles_ns(self) -> tuple[float, float]:
        low, high = np.percentile(self.ns, (25, 75))
        return float(low), float(high)

    @property
    def spread(self) -> float:
        """Distance of the quartiles over the median."""
        low, high = self.quartiles_ns
        return (high - low) / self.median_ns if self.median_ns > 0 else 0.0

    @property
    def doubt(self) -> str:
        """What speaks against the median; empty: nothing."""
        if self.spread > NOISY_SPREAD:
            return "noisy"
        half = len(self.ns) // 2
        if half >= _DRIFT_SAMPLES_MIN // 2 and self.median_ns > 0:
            apart = np.median(self.ns[:half]) - np.median(self.ns[half:])
            if abs(apart) > DRIFT * self.median_ns:
                return "drifts"
        return ""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """Cost of a call and of each page in it."""

    fixed_ns: float
    page_ns: float
    worst_error: float
    """of the medians, as a part of them"""


def line_through(points: Sequence[Samples], page_bytes: int) -> Line | None:
    """Least squares of the medians' relative errors, so that short calls count as much as long
    ones; neither cost below 0. None: fewer than three points, which every line would pass."""
    if len(points) < 3:
        return None
    pages = np.array([each.num_bytes / page_bytes for each in points])
    medians = np.array([max(each.median_ns, 1e-3) for each in points])
    ones = np.ones_like(pages)
    sides: tuple[np.ndarray, ...] = (np.stack([ones, pages], axis=1),)
    fixed, page = (float(x) for x in np.linalg.lstsq(sides[0] / medians[:, None], ones)[0])
    if fixed < 0 or page < 0:  # the best of those with one of them is on the edge
        rows = (pages if fixed < 0 else ones) / medians
        only = float(rows.sum() / (rows @ rows))
        fixed, page = (0.0, only) if fixed < 0 else (only, 0.0)
    errors = np.abs(fixed + page * pages - medians) / medians
    return Line(fixed, page, float(errors.max()))


def rising(values: Sequence[float]) -> list[int]:
    """Whole ns, at least 1, that do not fall: neighbours that do share their mean."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (one, count), (other, more) = blocks[-2:]
            mean = (one * count + other * more) / (count + more)
            blocks[-2:] = [(mean, count + more)]
    return [max(1, round(value)) for value, count in blocks for _ in range(count)]
