"""The fit: Gauss-Newton over the emulator, in the directions that the table determines.

Latencies are sums and maxima of costs, so a step is exact until another path becomes the longest;
some rounds do. Mechanisms that count (a handler's invocations, tasklet runs) make latencies jump,
so that a search may end where another costs fit better: it begins at several places, and costs that
differ between fits that are as good are not known better than that. Errors count as parts of the
latencies, so that short ones count as much as long ones. What the points scatter by decides how
much they determine: the residual's deviation, where there are more points than sums.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from pagewire.cli.calibrate import parameters as costs
from pagewire.cli.calibrate.parameters import Parameter
from pagewire.cli.calibrate.points import Point, Transfer
from pagewire.cli.calibrate.solve import FLOOR, Array, Directions, directions_of, factors, groups_of
from pagewire.lab import Lab
from pagewire.lab.buffer import PAGE_BYTES
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import Platform

FACTOR_MIN, FACTOR_MAX = 0.01, 100.0
"""No cost leaves these multiples of its base."""
STARTS = 5
_START_FACTOR = 2.0
"""How far from the base's a start's costs are at most."""
_AS_GOOD = 2.0
"""Of the best fit's error, up to which another is as good."""
_ROUNDS = 10
_MISSED = 0.1
"""Of what a step is to change, what its straight lines may miss."""
_HALVINGS = 3
_ENOUGH = 1e-3
"""Relative gain of a round from which on there is another."""


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Costs of which the points see one sum alone."""

    indices: list[int]
    """of the members, among the costs in use"""
    members: tuple[Parameter, ...]
    weights: tuple[float, ...]
    """how often each is in the sum, for once the rarest"""
    base_ns: float
    fitted_ns: float
    is_at_limit: bool

    def time_ns(self, factors: Array) -> float:
        """The sum with its costs multiplied."""
        terms = zip(self.weights, self.members, self.indices, strict=True)
        return sum(weight * each.base_ns * float(factors[idx]) for weight, each, idx in terms)


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """What came of it."""

    groups: tuple[Group, ...]
    directions: Directions
    """of the groups' factors"""
    unused: tuple[Parameter, ...]
    """that no point's latency depends on"""
    platform: Platform
    base_latencies_ns: Array
    latencies_ns: Array
    """of each point"""
    deviation: float
    """root of the mean square of the points' errors, as parts of their latencies"""
    sigma: float
    """the same of what the points scatter by: no less, as the sums follow them"""
    others: tuple[tuple[float, ...], ...]
    """times of the groups, of other fits that are as good"""
    num_free: int
    """points that are more than sums"""
    num_transfers: int

    def doubt_ns(self, coefficients: Array) -> float:
        """Standard error of a sum of the groups' times, and no less than what fits differ by."""
        now_ns = np.array([group.fitted_ns for group in self.groups])
        scatter = self.directions.error(coefficients * now_ns, self.sigma)
        apart = (abs(float(coefficients @ (np.array(each) - now_ns))) for each in self.others)
        return max(scatter, *apart, 0.0)


@dataclasses.dataclass(slots=True)
class _State:
    """Where a search stands."""

    factors: Array
    transfers_ns: Array
    residual: Array
    """of each point, as a part of its latency"""
    groups: list[list[int]] = dataclasses.field(default_factory=list)
    columns: Array = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    directions: Directions | None = None

    @property
    def error(self) -> float:
        return float(self.residual @ self.residual)

    @property
    def deviation(self) -> float:
        """Root of the mean square of the residual."""
        return float(np.sqrt(np.mean(self.residual**2)))


class _Machine:
    """The emulator as the model: transfers, each once, on a platform whose costs are multiplied. No
    formula of a latency stands here: each is a transfer in the lab."""

    def __init__(self, config: Config, base: Platform, transfers: Sequence[Transfer]) -> None:
        self._config, self._base = config, base
        self.transfers = list(transfers)

    def latencies_ns(self, parameters: Sequence[Parameter], factors: Iterable[float]) -> Array:
        """Of each transfer, with these costs multiplied."""
        largest = max(PAGE_BYTES, *(each.num_bytes for each in self.transfers))
        platform = costs.scaled(self._base, parameters, factors)
        with Lab(settings=self._config, platform=platform, max_size=largest) as lab:
            return np.array([_latency_ns(lab, each) for each in self.transfers], dtype=np.float64)

    def columns(
        self, parameters: Sequence[Parameter], factors: Array, here_ns: Array, side: int = 1
    ) -> Array:
        """Change of each latency (rows, here_ns at these factors) for each cost's factor; side: -1
        by lowering the costs."""
        found = np.zeros((len(self.transfers), len(parameters)))
        for idx, each in enumerate(parameters):
            moved = factors.copy()
            step = each.step if side > 0 else min(each.step, factors[idx] / 2)
            moved[idx] += side * step
            change = each.real_factor(moved[idx]) - each.real_factor(factors[idx])
            found[:, idx] = (self.latencies_ns(parameters, moved) - here_ns) / change
        return found


def _latency_ns(lab: Lab, transfer: Transfer) -> int:
    post = lab.write if transfer.operation == "write" else lab.read
    outcome = post(
        transfer.num_bytes,
        absent=list(range(transfer.num_absent)),
        source_absent=list(range(transfer.num_source_absent)),
        policy=transfer.policy,
        memory=transfer.memory,
    )
    return outcome.latency_ns if transfer.until == "completion" else outcome.arrival_ns


class _Search:
    """One table, one base."""

    def __init__(self, base: Platform, points: Sequence[Point], config: Config) -> None:
        transfers = list(dict.fromkeys(each.transfer for each in points))
        self.machine = _Machine(config, base, transfers)
        self.base = base
        self.rows = np.array([transfers.index(each.transfer) for each in points])
        self._measured_ns = np.array([each.latency_ns for each in points])
        known = costs.of_platform(base)
        ones = np.ones(len(known))
        here_ns = self.machine.latencies_ns(known, ones)
        columns = self.machine.columns(known, ones, here_ns)
        is_used = np.any(columns != 0, axis=0)
        self.used = [each for each, used in zip(known, is_used, strict=True) if used]
        self.unused = [each for each, used in zip(known, is_used, strict=True) if not used]
        self.begin = self._state(np.ones(len(self.used)), here_ns)
        self._first_columns: Array = columns[:, is_used]

    def starts(self, sigma: float) -> list[_State]:
        """Fits from the base and from places around it, the best first; fewer when one is exact."""
        draw = np.random.default_rng(1)
        found = [self.run(self.begin, self._first_columns, sigma)]
        while len(found) < STARTS and found[0].deviation > FLOOR:
            exponents = draw.uniform(-1, 1, len(self.used))
            at = np.power(_START_FACTOR, exponents)
            begin = self._state(at, self.machine.latencies_ns(self.used, at))
            found.append(self.run(begin, np.zeros((0, 0)), sigma))
            found.sort(key=lambda state: state.error)
        return found

    def run(self, begin: _State, columns: Array, sigma: float) -> _State:
        """From there on, until a round gains nothing. columns: of it, or none.

        While the latencies are far off, only the directions are taken that the points see well: the
        others would pay for what the first step's straight lines miss, and go astray."""
        state = dataclasses.replace(begin, columns=columns)
        side = 1
        for _ in range(_ROUNDS):
            if state.error <= len(state.residual) * (FLOOR / 10) ** 2:
                break
            doubt = max(sigma, _MISSED * state.deviation)
            self._look(state, doubt, side)
            moved = self._step(state)
            gain = state.error - moved.error if moved else 0.0
            is_over = gain <= _ENOUGH * state.error and doubt <= 2 * sigma
            state = moved or state
            if is_over or not moved:
                if side < 0:
                    break
                # Where one path gives way to another, the two sides' slopes differ.
                side = -1
                state.columns = np.zeros((0, 0))
        self._look(state, sigma, 1)
        return state

    def _look(self, state: _State, sigma: float, side: int) -> None:
        """Groups and directions where the state is; side: whether costs are raised for it, or
        lowered."""
        if not state.columns.size:
            state.columns = self.machine.columns(self.used, state.factors, state.transfers_ns, side)
        state.groups = groups_of(self._of_points(state.columns))
        state.directions = directions_of(self.matrix(state), sigma)

    def matrix(self, state: _State) -> Array:
        """Relative change of each point for a factor on each group, from where the state is."""
        scaled = self._of_points(state.columns) * state.factors
        return np.stack([scaled[:, group].sum(axis=1) for group in state.groups], axis=1)

    def _step(self, state: _State) -> _State | None:
        """The best state that this one sees; None: it is worse, however short the step."""
        assert state.directions is not None
        if not state.directions.rank:
            return None
        matrix = self.matrix(state)
        mean = np.array([state.factors[group].mean() for group in state.groups])
        least = np.array([FACTOR_MIN / state.factors[group].min() for group in state.groups])
        most = np.array([FACTOR_MAX / state.factors[group].max() for group in state.groups])
        seen = state.directions
        best = None
        # Fewer directions, then shorter steps: the longest that the straight lines bear.
        for rank, halving in [
            *((rank, 0) for rank in range(seen.rank, 0, -1)),
            *((seen.rank, halving) for halving in range(1, _HALVINGS + 1)),
        ]:
            wanted = factors(
                matrix,
                matrix.sum(axis=1) - state.residual,
                seen.first(rank),
                1 / mean,
                (least, most),
            )
            by = 1 + (wanted - 1) / 2**halving
            moved = state.factors.copy()
            for factor, group in zip(by, state.groups, strict=True):
                moved[group] *= factor
            here = self._state(moved, self.machine.latencies_ns(self.used, moved))
            if here.error < (best or state).error:
                best = here
            if best and best.error < state.error / 4:
                break
        return best

    def _state(self, at: Array, transfers_ns: Array) -> _State:
        return _State(at, transfers_ns, self._of_points(transfers_ns) - 1)

    def _of_points(self, of_transfers: Array) -> Array:
        """Rows of transfers as rows of points, as parts of what was measured."""
        rows = of_transfers[self.rows]
        measured = self._measured_ns if rows.ndim == 1 else self._measured_ns[:, None]
        return np.asarray(rows / measured, dtype=np.float64)

    def groups(self, state: _State) -> tuple[Group, ...]:
        """With their sums."""
        columns = self._of_points(state.columns)
        found = []
        for group in state.groups:
            members = tuple(self.used[idx] for idx in group)
            # Change of the latencies for each ns of a cost, held against the least.
            lengths = [
                float(np.linalg.norm(columns[:, idx])) / self.used[idx].base_ns for idx in group
            ]
            weights = tuple(length / min(lengths) for length in lengths)
            at = state.factors[group]
            base = [w * each.base_ns for w, each in zip(weights, members, strict=True)]
            is_at_limit = bool(np.any(at <= FACTOR_MIN * 1.001) or np.any(at >= FACTOR_MAX * 0.999))
            times_ns = sum(base), float(at @ base)
            found.append(Group(group, members, weights, *times_ns, is_at_limit))
        return tuple(found)


def fit(base: Platform, points: Sequence[Point], config: Config) -> Fit:
    """Costs of the machine whose latencies the points are."""
    search = _Search(base, points, config)
    sigma = FLOOR
    while True:
        state, *rest = search.starts(sigma)
        assert state.directions is not None
        num_free = len(points) - state.directions.rank
        scatter = float(np.sqrt(state.error / num_free)) if num_free > 0 else 0.0
        if scatter <= sigma:
            break
        fewer = directions_of(search.matrix(state), scatter).rank < state.directions.rank
        sigma = scatter
        if not fewer:
            break
    groups = search.groups(state)
    good = [each for each in rest if each.deviation <= max(_AS_GOOD * state.deviation, FLOOR)]
    return Fit(
        groups=groups,
        directions=state.directions,
        unused=tuple(search.unused),
        platform=costs.scaled(base, search.used, list(state.factors)),
        base_latencies_ns=search.begin.transfers_ns[search.rows],
        latencies_ns=state.transfers_ns[search.rows],
        deviation=state.deviation,
        sigma=scatter,
        others=tuple(tuple(each.time_ns(other.factors) for each in groups) for other in good),
        num_free=num_free,
        num_transfers=len(search.machine.transfers),
    )
