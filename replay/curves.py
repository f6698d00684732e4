"""How a quantity depends on the number of ranks: the curve, of a few, that fits the recorded."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

_ALIKE = 1e-9
_PAIRS = ((0, 0), (0, 1), (1, 1))
BYTES_OFF, COMPUTE_OFF = 0.01, 0.1
"""Tolerances: by so much what a program computes differs between two runs of one size."""


class Curve(NamedTuple):
    """A factor times a function of the number of ranks."""

    name: str
    at: Callable[[int], float]


CONSTANT = Curve("constant", lambda _: 1.0)
CURVES = (
    CONSTANT,
    Curve("1/P", lambda size: 1 / size),
    Curve("log P", math.log2),
    Curve("sqrt P", math.sqrt),
    Curve("P", float),
)


class Fit(NamedTuple):
    """What was chosen; residual: by which share the worst recorded size is off."""

    curve: str
    residual: float
    factor: float
    """Of what the largest recorded size has, at the number of ranks asked for."""


def fit(
    seen: Mapping[int, float],
    target: int,
    candidates: Sequence[Curve] = CURVES,
    tolerance: float = 0.0,
) -> Fit:
    """`seen`: by number of ranks. The first candidate, a constant, unless it is off by more than
    the tolerance and another one by less than half as much; of three sizes or more a constant and a
    curve together, likewise."""
    if not all(seen.values()):
        return Fit(CONSTANT.name, 1.0 if any(seen.values()) else 0.0, 1.0)
    constant, *others = (_scaled(curve, seen, target) for curve in candidates)
    if constant.residual <= tolerance:
        return constant
    best = _better(constant, *others)
    if len(seen) > 2 and best.residual > _ALIKE:
        best = _better(best, *(_raised(curve, seen, target) for curve in candidates[1:]))
    return best


def _better(first: Fit, *others: Fit) -> Fit:
    best = min((first, *others), key=lambda each: each.residual)
    return best if best.residual < first.residual / 2 else first


def _scaled(curve: Curve, seen: Mapping[int, float], target: int) -> Fit:
    """A factor times the curve."""
    factors = [value / curve.at(size) for size, value in seen.items()]
    mean = sum(factors) / len(factors)
    return _judged(curve.name, lambda size: mean * curve.at(size), seen, target)


def _raised(curve: Curve, seen: Mapping[int, float], target: int) -> Fit:
    """A constant, and a factor times the curve, by the least squares of their relative errors."""
    rows = [(1 / value, curve.at(size) / value) for size, value in seen.items()]
    ones, both, curves = (sum(row[i] * row[j] for row in rows) for i, j in _PAIRS)
    left, right = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = ones * curves - both * both
    if determinant <= _ALIKE * ones * curves:
        return Fit(curve.name, math.inf, 1.0)
    constant = (left * curves - right * both) / determinant
    factor = (right * ones - left * both) / determinant
    if constant < 0 or factor < 0:
        return Fit(curve.name, math.inf, 1.0)
    name = f"a + b {curve.name}"
    return _judged(name, lambda size: constant + factor * curve.at(size), seen, target)


def _judged(
    name: str, value_at: Callable[[int], float], seen: Mapping[int, float], target: int
) -> Fit:
    residual = max(abs(value_at(size) / value - 1) for size, value in seen.items())
    if residual < _ALIKE:
        return Fit(name, 0.0, value_at(target) / value_at(max(seen)))
    return Fit(name, residual, value_at(target) / seen[max(seen)])
