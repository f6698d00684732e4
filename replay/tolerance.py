"""Where the time of a replay went, by cost, and how far each cost may grow.

When every cost takes twice as long, so does the run. So the costs are doubled one after the other,
and what the run gains with each is that cost's share; all shares together are the run. Then they
are halved in the reverse order, and the mean of both counts: where another thing becomes the
slowest, the order matters. All of it comes out of replays.
"""

import dataclasses
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

from pagewire.native.settings import ConfigError
from pagewire.replay.replay import Replay, Settings, Trace
from pagewire.replay.slowed import group_of, slowed, value_text
from pagewire.replay.trace import Reader

REACH = 1024.0
"""A cost that may grow so far matters to nobody."""
STEPS = (2.0, 0.5)
"""Of shares."""
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
Study = Generator[float, Answer, float | None]


class Share(NamedTuple):
    """What a cost does to the run's time."""

    name: str
    group: str
    value: str
    up: float
    """Share of the run's time, by doubling."""
    down: float
    """By halving."""
    tolerated: float
    """Times its value that the cost may be before the run has lost what it may; REACH: or more."""
    tolerated_value: str

    @property
    def share(self) -> float:
        """Of the run's time."""
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
    with Reader(file) as trace:
        return answered(trace, Settings.of(trace.meta(), assignments), request, matching)


def answered(
    trace: Trace, settings: Settings, request: Request, matching: str = "recorded"
) -> Answer:
    """The same of a trace."""
    factor = 1.0
    try:
        for name, asked in request:
            settings, made = slowed(settings, name, asked)
            factor = made if len(request) == 1 else asked
        with Replay(trace, settings, matching=matching) as replay:
            replay.run()
            return Answer(factor, max(replay.times_ns()))
    except (ConfigError, RuntimeError):  # transfers are given up, a setting is refused
        return Answer(factor, None)


def study(run_ns: int, loss: float) -> Study:
    """Yields factors, takes what came of them; the factor that is tolerated, or None: the run does
    not change."""
    far = yield REACH
    return None if far.run_ns == run_ns else (yield from _search(far, run_ns, loss))


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
    tolerated = _tolerated({name: (name,) for name in chosen}, run_ns, loss, ask)
    names = [name for name in chosen if name in tolerated]
    up = _gains(names, STEPS[0], run_ns, ask)
    down = _gains(names[::-1], STEPS[1], run_ns, ask)
    found = [
        Share(
            name=name,
            group=group_of(name),
            value=value_text(settings, name),
            up=up[name],
            down=down[name],
            tolerated=tolerated[name],
            tolerated_value=value_text(settings, name, tolerated[name]),
        )
        for name in names
    ]
    return sorted(found, key=lambda each: -each.share)


def group_shares(found: Sequence[Share], run_ns: int, loss: float, ask: Ask) -> list[Share]:
    """The same of the parts of the machine that these costs belong to, each as a whole."""
    members = {each.group: _members(found, each.group) for each in found}
    tolerated = _tolerated(members, run_ns, loss, ask)
    made = []
    for group, factor in tolerated.items():
        own = [each for each in found if each.group == group]
        up, down = sum(each.up for each in own), sum(each.down for each in own)
        made.append(Share(group, group, "x 1", up, down, factor, f"x {factor:,.4g}"))
    return sorted(made, key=lambda each: -each.share)


def _gains(names: Sequence[str], step: float, run_ns: int, ask: Ask) -> dict[str, float]:
    """What the run gains with each of these that is stepped after the others, as a share."""
    requests = [tuple((name, step) for name in names[: idx + 1]) for idx in range(len(names))]
    gains, before_ns = {}, run_ns
    for name, answer in zip(names, ask(requests), strict=True):
        now_ns = before_ns if answer.run_ns is None else answer.run_ns
        gains[name] = (now_ns - before_ns) / (step - 1) / run_ns
        before_ns = now_ns
    return gains


def _tolerated(
    named: Mapping[str, Sequence[str]], run_ns: int, loss: float, ask: Ask
) -> dict[str, float]:
    """Of each name whose costs, which grow together, change the run at all."""
    studies = {name: study(run_ns, loss) for name in named}
    factors = {name: next(each) for name, each in studies.items()}
    found = {}
    while factors:
        answers = ask([tuple((n, f) for n in named[name]) for name, f in factors.items()])
        for name, answer in zip(list(factors), answers, strict=True):
            try:
                factors[name] = studies[name].send(answer)
            except StopIteration as end:
                del factors[name]
                if end.value is not None:
                    found[name] = end.value
    return found


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
