"""Where the time of a replay went, by cost, and how far each cost may grow.

If every cost took twice as long, so would the run. So the run's time is the sum, over its costs, of
value times derivative (Euler's theorem), and each term is what lies of that cost on the critical
path. Derivatives come from the mechanism: replays with the cost a tenth up and a tenth down. What
the sum misses is said. A time that no cost stands for, such as recorded sleep, counts as missed.
"""

import dataclasses
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pagewire.native.settings import ConfigError
from pagewire.replay.replay import Replay, Settings
from pagewire.replay.slowed import group_of, slowed, value_text
from pagewire.replay.trace import Reader

REACH = 1024.0
"""A cost that may grow so far matters to nobody."""
STEP = 0.1
"""Of derivatives."""
CURVE = (0.25, 0.5, 1.0, 2.0, 4.0)
_NARROW = 1.02
"""Between what a cost may grow to, and what it may not."""
_SEARCHES_MAX = 16

Request = tuple[tuple[str, float], ...]
"""Costs, and how many times as long each takes."""


class Answer(NamedTuple):
    """What came of a request."""

    factor: float
    """As a cost's value was rounded or limited; of several costs as asked."""
    run_ns: int | None
    """None: the replay failed."""

    def lost(self, run_ns: int) -> float:
        """Against such a run, as a share of it."""
        return math.inf if self.run_ns is None else self.run_ns / run_ns - 1


Ask = Callable[[Sequence[Request]], Sequence[Answer]]
Found = tuple[float, float, float]
Study = Generator[float, Answer, Found | None]


class Share(NamedTuple):
    """What a cost does to the run's time."""

    name: str
    group: str
    value: str
    up: float
    """Cost times derivative, towards more, as a share of the run's time."""
    down: float
    """Towards less: differs from `up` where another thing becomes the slowest."""
    tolerated: float
    """Times its value that the cost may be before the run has lost what it may; REACH: or more."""
    tolerated_value: str

    @property
    def share(self) -> float:
        """Of the run's time that lies on the critical path as this cost."""
        return (self.up + self.down) / 2


@dataclasses.dataclass(frozen=True, slots=True)
class Curves:
    """What the run takes when parts of the machine are faster or slower, each by itself."""

    run_ns: int
    groups: Mapping[str, tuple[int, ...]]
    """At the factors of CURVE."""
    checks: tuple[tuple[Mapping[str, float], int, int], ...]
    """Factors of several groups at once; what the sum of their effects predicts; the replay."""

    @property
    def worst(self) -> float:
        """Error of the predictions, at most, as a share of the replay's time."""
        return max((abs(told - found) / found for _, told, found in self.checks), default=0.0)


def replayed(file: str, assignments: Sequence[str], matching: str, request: Request) -> Answer:
    """What comes of a request, by a replay of a trace file with these settings besides."""
    factor = 1.0
    try:
        with Reader(file) as trace:
            settings = Settings.of(trace.meta(), assignments)
            for name, asked in request:
                settings, made = slowed(settings, name, asked)
                factor = made if len(request) == 1 else asked
            with Replay(trace, settings, matching=matching) as replay:
                replay.run()
                return Answer(factor, max(map(replay.time_ns, range(replay.num_ranks))))
    except (ConfigError, RuntimeError):  # transfers are given up, a setting is refused
        return Answer(factor, None)


def study(run_ns: int, loss: float) -> Study:
    """Yields factors, takes what came of them; slopes towards more and less, and the factor that is
    tolerated. None: the run does not change."""
    far = yield REACH
    if far.run_ns == run_ns:
        return None
    slopes = []
    for factor in (1 + STEP, 1 - STEP):
        answer = yield factor
        if answer.run_ns is not None and answer.factor != 1:
            slopes.append(answer.lost(run_ns) / (answer.factor - 1))
    slopes = slopes or [0.0]
    tolerated = yield from _search(far, run_ns, loss)
    return slopes[0], slopes[-1], tolerated


def _search(far: Answer, run_ns: int, loss: float) -> Generator[float, Answer, float]:
    """The factor at which the run has lost so much, from below: by straight lines and by halves in
    turn, over what the factor is above 1."""
    low, low_lost = 0.0, 0.0
    high, high_lost = far.factor - 1, far.lost(run_ns)
    if high_lost <= loss:
        return REACH
    for idx in range(_SEARCHES_MAX):
        if high <= low * _NARROW:
            break
        middle = (max(low, high / REACH) * high) ** 0.5
        if idx % 2 == 0 and high_lost < math.inf:
            middle = low + (loss - low_lost) * (high - low) / (high_lost - low_lost)
            middle = min(max(middle, low * _NARROW), high / _NARROW)
        answer = yield 1 + middle
        if not low < answer.factor - 1 < high:
            break  # no unit lies between
        lost = answer.lost(run_ns)
        if lost > loss:
            high, high_lost = answer.factor - 1, lost
        else:
            low, low_lost = answer.factor - 1, lost
    return 1 + low


def shares(
    chosen: Iterable[str], settings: Settings, run_ns: int, loss: float, ask: Ask
) -> list[Share]:
    """Of the costs that change the run's time at all, the largest share first. loss: as a share of
    the run's time. ask: does replays, of several costs at a time."""
    found = [
        Share(
            name,
            group_of(name),
            value_text(settings, name),
            *each,
            value_text(settings, name, each[-1]),
        )
        for name, each in _studied({name: (name,) for name in chosen}, run_ns, loss, ask)
    ]
    return sorted(found, key=lambda each: -each.share)


def group_shares(found: Sequence[Share], run_ns: int, loss: float, ask: Ask) -> list[Share]:
    """The same of the parts of the machine that these costs belong to, each as a whole."""
    members = {each.group: _members(found, each.group) for each in found}
    made = [
        Share(group, group, "x 1", *each, f"x {each[-1]:,.4g}")
        for group, each in _studied(members, run_ns, loss, ask)
    ]
    return sorted(made, key=lambda each: -each.share)


def _studied(
    named: Mapping[str, Sequence[str]], run_ns: int, loss: float, ask: Ask
) -> Iterator[tuple[str, Found]]:
    """What was found of each name, whose costs grow together."""
    studies = {name: study(run_ns, loss) for name in named}
    factors = {name: next(each) for name, each in studies.items()}
    while factors:
        answers = ask([tuple((n, f) for n in named[name]) for name, f in factors.items()])
        for name, answer in zip(list(factors), answers, strict=True):
            try:
                factors[name] = studies[name].send(answer)
            except StopIteration as end:
                del factors[name]
                if end.value is not None:
                    yield name, end.value


# -- curves


def curves(found: Sequence[Share], run_ns: int, ask: Ask) -> Curves:
    """Of the groups of these costs."""
    members = {group: _members(found, group) for group in dict.fromkeys(e.group for e in found)}
    requests = [
        tuple((name, factor) for name in own) for own in members.values() for factor in CURVE
    ]
    answers = [answer.run_ns for answer in ask(requests)]
    made = {}
    for idx, group in enumerate(members):
        own = answers[idx * len(CURVE) : (idx + 1) * len(CURVE)]
        if all(each is not None for each in own) and len(set(own)) > 1:
            made[group] = tuple(each for each in own if each is not None)
    mixes = _mixes(list(made))
    replayed = ask(
        [tuple((n, f) for group, f in mix.items() for n in members[group]) for mix in mixes]
    )
    checks = [
        (mix, predicted(made, run_ns, mix), answer.run_ns)
        for mix, answer in zip(mixes, replayed, strict=True)
        if answer.run_ns is not None
    ]
    return Curves(run_ns, made, tuple(checks))


def _members(found: Sequence[Share], group: str) -> list[str]:
    return [each.name for each in found if each.group == group]


def _mixes(groups: Sequence[str]) -> list[dict[str, float]]:
    """All slow, all fast, and each third of them slow while the others are fast."""
    if len(groups) < 2:
        return []
    slow, fast = CURVE[-2], CURVE[1]
    made = [dict.fromkeys(groups, slow), dict.fromkeys(groups, fast)]
    for first in range(3):
        made.append({group: slow if idx % 3 == first else fast for idx, group in enumerate(groups)})
    return made


def predicted(
    groups: Mapping[str, Sequence[int]], run_ns: int, factors: Mapping[str, float]
) -> int:
    """The run's time when the groups' effects add up; linear between the factors of CURVE."""
    total = run_ns
    for group, factor in factors.items():
        right = next((idx for idx, each in enumerate(CURVE) if each >= factor), len(CURVE) - 1)
        left = max(right - 1, 0)
        span = CURVE[right] - CURVE[left] or 1.0
        curve = groups[group]
        part = (factor - CURVE[left]) / span
        total += round(curve[left] + part * (curve[right] - curve[left])) - run_ns
    return total
