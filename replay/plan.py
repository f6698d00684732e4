"""What runs of a program at several sizes have in common: rules for peers, curves for the rest.

Recorded ranks that stand alike in the grid of ranks must do the same calls in the same order. Which
grid is the program's, nobody says: each of some is tried (grids.FAMILIES).
"""

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pagewire.replay.curves import BYTES_OFF, COMPUTE_OFF, CONSTANT, CURVES, Curve, Fit, fit
from pagewire.replay.grids import (
    AXES,
    Family,
    Fixed,
    Offset,
    Rule,
    Seen,
    counterpart,
    find_rules,
    stand,
)
from pagewire.replay.records import Send, TraceError
from pagewire.replay.steps import CallKind, Message, Shape, Step, describe, fold, shapes

_EVERY_OTHER = "every other rank"
_SOME = 256
"""Ranks for which two rules are compared."""
Stand = tuple[int, ...]
Key = tuple[str, str, str, str]
"""What one curve is for: bytes or compute, phase, name of the call, to which peers."""


class Run(NamedTuple):
    """A recorded run: of each rank its steps and where its memory was."""

    size: int
    steps: list[list[Step]]
    regions: list[dict[int, int]]
    meta: dict[str, Any]


class Assumption(NamedTuple):
    """What is assumed of a call."""

    call: str
    peers: str
    bytes: str
    compute: str
    residual: float
    """By which share the curves are off at a recorded size, at worst."""


class Misfit(TraceError):
    """That a way to lay out the ranks is not the program's."""

    def __init__(self, text: str, progress: int, calls: Sequence[CallKind] = ()) -> None:
        """progress: calls that it explains; calls: those of which one size may have more."""
        super().__init__(text)
        self.progress = progress
        self.calls = frozenset(calls)


@dataclasses.dataclass(frozen=True, slots=True)
class _Candidates:
    """Rules that a message obeys in all recorded runs, and where it is in one of them."""

    call: CallKind
    rules: tuple[Rule, ...]
    where: str


class Plan:
    """Rules and curves, for one way to lay out the ranks; raises Misfit if it is none."""

    def __init__(self, runs: Sequence[Run], family: Family, size: int) -> None:
        """runs: the largest first."""
        self.runs, self.size = runs, size
        self.base = runs[0]
        self._grids = {each: family.grid(each) for each in (*(run.size for run in runs), size)}
        self.grid = self._grids[size]
        self._base_grid = self._grids[self.base.size]
        self._of_size = {
            each: [counterpart(rank, grid, self._base_grid) for rank in range(each)]
            for each, grid in self._grids.items()
        }
        self._stands = [stand(rank, self._base_grid) for rank in range(self.base.size)]
        members = self._group()
        self._compare(members)
        found = {where: self._find_rules(alike) for where, alike in members.items()}
        self._choose(found)
        self._check_axes()
        self._fits = self._fit()
        self.stretch = self._find_stretch()
        """How many times farther apart pages lie, so that what grows meets nothing."""
        self._longest = self._find_longest()

    # ---- who stands alike

    def base_of(self, rank: int) -> int:
        """The rank of the largest recorded run that stands as one of the bigger run does."""
        return self._of_size[self.size][rank]

    def rules_of(self, base: int) -> list[list[Rule]]:
        """Of a rank of the largest recorded run: of each step, of each message."""
        return self._rules[self._stands[base]]

    def _group(self) -> dict[Stand, list[tuple[Run, int]]]:
        """Recorded ranks that stand alike; the first is of the largest run."""
        members: dict[Stand, list[tuple[Run, int]]] = {}
        for run in self.runs:
            for rank, base in enumerate(self._of_size[run.size]):
                members.setdefault(self._stands[base], []).append((run, rank))
        return members

    def _smaller(self, run: Run) -> list[int]:
        """The rank of a run for each of the largest one."""
        grid = self._grids[run.size]
        return [counterpart(rank, self._base_grid, grid) for rank in range(self.base.size)]

    def _compare(self, members: Mapping[Stand, Sequence[tuple[Run, int]]]) -> None:
        """All that stand alike must do the same calls."""
        shapes_of = {
            (run.size, rank): list(shapes(steps))
            for run in self.runs
            for rank, steps in enumerate(run.steps)
        }
        for (_, rank), *others in members.values():
            for run, other in others:
                self._compare_two(rank, run, other, shapes_of)
        for run in self.runs[1:]:
            for rank, small in enumerate(self._smaller(run)):
                self._compare_two(rank, run, small, shapes_of)

    def _compare_two(
        self, rank: int, run: Run, other: int, shapes_of: Mapping[tuple[int, int], list[Shape]]
    ) -> None:
        mine, its = shapes_of[self.base.size, rank], shapes_of[run.size, other]
        if mine == its:
            return
        pairs = enumerate(zip(mine, its, strict=False))
        idx = next(at for at, (a, b) in pairs if a != b)  # the last ones differ from all others
        here, there = run.steps[other][idx], self.base.steps[rank][idx]
        raise Misfit(
            f"{describe(here, other, run.size)} does {_told(its[idx])}, and "
            f"{describe(there, rank, self.base.size)}, which should do the same in a grid of "
            f"{self._base_grid}, {_told(mine[idx])}",
            idx,
            (here.call, there.call),
        )

    # ---- peers

    def _find_rules(self, members: Sequence[tuple[Run, int]]) -> list[list[_Candidates]]:
        """Of each step, of each message, of ranks that stand alike."""
        known: dict[tuple[Any, ...], _Candidates] = {}
        found = []
        for idx, steps in enumerate(zip(*(run.steps[rank] for run, rank in members), strict=True)):
            row = []
            for messages in zip(*map(messages_of, steps), strict=True):
                seen = tuple((each.peer, each.tag, each.context, each.source) for each in messages)
                key = steps[0].call, seen
                if key not in known:
                    known[key] = self._find_rule(members, messages, idx)
                row.append(known[key])
            found.append(row)
        return found

    def _find_rule(
        self, members: Sequence[tuple[Run, int]], messages: Sequence[Message], idx: int
    ) -> _Candidates:
        wheres = [describe(run.steps[rank][idx], rank, run.size) for run, rank in members]
        first = messages[0]
        seen = []
        for (run, rank), message, where in zip(members, messages, wheres, strict=True):
            if message.source != (rank if isinstance(message, Send) else message.peer):
                text = "whose ranks are not those of all, and cannot be extrapolated"
                raise Misfit(f"{where}: its message is of a communicator {text}", idx)
            if (message.context, message.tag) != (first.context, first.tag):
                raise Misfit(
                    f"{where}: its message has context {message.context} and tag {message.tag}, "
                    f"that of {wheres[0]} context {first.context} and tag {first.tag}",
                    idx,
                )
            seen.append(Seen(rank, self._grids[run.size], message.peer or 0))
        step = self.base.steps[members[0][1]][idx]
        rules: Sequence[Rule] = [Fixed(0)] if step.fan else find_rules(seen)
        if not rules:
            odd = next((at for at, each in enumerate(seen) if not find_rules([seen[0], each])), -1)
            raise Misfit(
                f"{wheres[0]} has peer {first.peer}, {wheres[odd]} peer {messages[odd].peer}: no "
                f"rule for a grid of {self._base_grid} says both",
                idx,
            )
        return _Candidates(step.call, tuple(rules), wheres[0])

    def _choose(self, found: Mapping[Stand, Sequence[Sequence[_Candidates]]]) -> None:
        """Where several rules are possible, it is the one that others need for the same call."""
        each = set(itertools.chain.from_iterable(map(tuple, itertools.chain(*found.values()))))
        votes = collections.Counter((one.call, one.rules[0]) for one in each if len(one.rules) == 1)
        ranks: dict[Stand, list[int]] = {}
        for rank, base in enumerate(self._of_size[self.size]):
            ranks.setdefault(self._stands[base], []).append(rank)
        self._rules: dict[Stand, list[list[Rule]]] = {
            where: [[self._chosen(one, votes, ranks.get(where, [])) for one in row] for row in rows]
            for where, rows in found.items()
        }

    def _chosen(
        self, one: _Candidates, votes: Mapping[tuple[CallKind, Rule], int], ranks: Sequence[int]
    ) -> Rule:
        if len(one.rules) == 1:
            return one.rules[0]
        most = max(votes.get((one.call, rule), 0) for rule in one.rules)
        likely = [rule for rule in one.rules if votes.get((one.call, rule), 0) == most]
        for other in likely[1:]:
            for rank in ranks[:: len(ranks) // _SOME + 1]:
                if other.peer(rank, self.grid) != likely[0].peer(rank, self.grid):
                    raise Misfit(
                        f"{one.where}: its peer is {likely[0]} or {other}, which are one rank in "
                        f"the recorded grid of {self._base_grid}, but two in one of {self.grid}: "
                        "record a run in which they are two",
                        len(self.base.steps[0]) if max(self._base_grid.sides) > 2 else 0,
                    )
        return likely[0]

    def _all_rules(self) -> set[Rule]:
        return {rule for rows in self._rules.values() for row in rows for rule in row}

    def _check_axes(self) -> None:
        if not any(isinstance(rule, Offset) for rule in self._all_rules()):
            return
        for had, has in zip(self._base_grid.sides, self.grid.sides, strict=True):
            if (had == 1) != (has == 1):
                raise Misfit(
                    f"the recorded grid of {self._base_grid} has a side of {had}, which becomes "
                    f"{has} in one of {self.grid}: nothing says what ranks do along it",
                    len(self.base.steps[0]),
                )

    @property
    def cost(self) -> int:
        """How far peers are: the grid in which they are near is the program's."""
        return sum(rule.cost for rule in self._all_rules())

    # ---- curves

    def _fit(self) -> dict[Key, Fit]:
        sums: dict[Key, dict[int, float]] = {}
        self._axes: dict[Key, Offset] = {}
        for run in self.runs:
            for rank, small in enumerate(self._smaller(run)):
                for step, rules in zip(run.steps[small], self.rules_of(rank), strict=True):
                    for key, value in self._quantities(step, rules):
                        seen = sums.setdefault(key, {})
                        seen[run.size] = seen.get(run.size, 0) + value
        return {
            key: fit(seen, self.size, self._curves_for(key), _OFF[key[0]])
            for key, seen in sums.items()
        }

    def _quantities(self, step: Step, rules: Sequence[Rule]) -> Iterator[tuple[Key, float]]:
        """What of a step depends on the number of ranks."""
        yield ("compute", step.phase, step.name, ""), step.compute_ns
        if step.remade:
            yield self._bytes_key(step, None), step.remade.num_bytes
        for message, rule in zip(messages_of(step), rules, strict=True):
            key = self._bytes_key(step, rule)
            if isinstance(rule, Offset):
                self._axes[key] = rule
            yield key, message.num_bytes

    def _bytes_key(self, step: Step, rule: Rule | None) -> Key:
        peers = str(rule)
        if rule is None or step.fan:
            peers = _EVERY_OTHER if step.fan else "all"
        elif isinstance(rule, Offset):  # there and back along an axis
            peers = "".join(axis for axis, by in zip(AXES, rule.steps, strict=False) if by)
        return "bytes", step.phase, step.name, peers

    def _curves_for(self, key: Key) -> Sequence[Curve]:
        """With that of a face, an edge, a corner that neighbours share."""
        rule = self._axes.get(key)
        if rule is None or all(rule.steps):
            return CURVES

        def at(size: int) -> float:
            pairs = zip(self._grids[size].sides, rule.steps, strict=True)
            return 1 / math.prod(side for side, by in pairs if not by)

        names = [axis for axis, by in zip(AXES, rule.steps, strict=False) if not by]
        return [CONSTANT, Curve(f"1/({' '.join(names)})", at), *CURVES[1:]]

    def scaled_bytes(self, step: Step, rule: Rule | None, num_bytes: int) -> int:
        """Of a message; rule: None of a collective."""
        return round(num_bytes * self._fits[self._bytes_key(step, rule)].factor)

    def scaled_ns(self, step: Step, ns: int) -> int:
        """Of what is computed before a call."""
        return round(ns * self._fits["compute", step.phase, step.name, ""].factor)

    # ---- memory

    def _find_stretch(self) -> int:
        most = max(
            (each.factor for key, each in self._fits.items() if key[0] == "bytes"), default=1
        )
        for step in itertools.chain.from_iterable(self.base.steps):
            if step.remade:
                wanted = self.scaled_bytes(step, None, step.remade.num_bytes)
                most = max(most, step.remade.growth(self.base.size, self.size, wanted))
            elif step.fan and step.fan.stride:
                most = max(most, (self.size - 1) / (self.base.size - 1))
        return math.ceil(most)

    def way(self, rule: Offset, message: Message) -> tuple[Any, ...]:
        """What messages have in common of which the order counts."""
        steps = zip(rule.steps, self.grid.sides, strict=True)
        return tuple(by % side for by, side in steps), message.context, message.tag

    def _find_longest(self) -> dict[tuple[Any, ...], list[int]]:
        longest: dict[tuple[Any, ...], list[int]] = {}
        for rank, steps in enumerate(self.base.steps):
            count: collections.Counter[tuple[Any, ...]] = collections.Counter()
            for step, rules in zip(steps, self.rules_of(rank), strict=True):
                for message, rule in zip(messages_of(step), rules, strict=True):
                    if isinstance(message, Send) and isinstance(rule, Offset):
                        way = self.way(rule, message)
                        found = longest.setdefault(way, [])
                        num_bytes = self.scaled_bytes(step, rule, message.num_bytes)
                        if count[way] == len(found):
                            found.append(0)
                        found[count[way]] = max(found[count[way]], num_bytes)
                        count[way] += 1
        return longest

    def longest(self, way: tuple[Any, ...], nth: int) -> int:
        """The longest n-th message along a way: so no receive is too short for the message of a
        rank that the recorded one never met."""
        found = self._longest.get(way, [])
        return found[nth] if nth < len(found) else 0

    # ---- for people

    def assumptions(self) -> list[Assumption]:
        """Of each call, in each phase."""
        peers: dict[CallKind, dict[str, None]] = {}
        for rank, steps in enumerate(self.base.steps):
            for step, rules in zip(steps, self.rules_of(rank), strict=True):
                told = peers.setdefault(step.call, {})
                if step.remade or step.fan:
                    told["all" if step.remade else _EVERY_OTHER] = None
                else:
                    told.update(dict.fromkeys(map(str, rules)))
        made = []
        for (phase, name), told in peers.items():
            fits = {key: each for key, each in self._fits.items() if key[1:3] == (phase, name)}
            curves = {
                kind: listed(list(dict.fromkeys(
                    each.curve for key, each in fits.items() if key[0] == kind
                )))
                for kind in ("bytes", "compute")
            }  # fmt: skip
            residual = max(each.residual for each in fits.values())
            call = f"{name} ({phase})" if phase else name
            made.append(Assumption(call, listed(list(told), 6), **curves, residual=residual))
        return made


_OFF = {"bytes": BYTES_OFF, "compute": COMPUTE_OFF}


def make_plan(runs: Sequence[Run], family: Family, size: int) -> Plan:
    """A plan; where sizes differ in how often they do a call, it may go to every other rank."""
    calls: frozenset[CallKind] = frozenset()
    while True:
        folded = [
            run._replace(
                steps=[fold(steps, rank, run.size, calls) for rank, steps in enumerate(run.steps)]
            )
            for run in runs
        ]
        try:
            return Plan(folded, family, size)
        except Misfit as misfit:
            if misfit.calls <= calls:
                raise
            calls |= misfit.calls


def messages_of(step: Step) -> list[Message]:
    """Those that follow rules: none of a collective; of calls with every other rank the first."""
    if step.remade:
        return []
    return step.fan.steps[0].messages if step.fan else step.messages


def _told(shape: Shape) -> str:
    return " ".join(shape[1:]) or "nothing"


def listed(words: Sequence[Any], most: int = 20) -> str:
    """Some of them, and how many more there are."""
    shown = ", ".join(map(str, words[:most]))
    return f"{shown} and {len(words) - most} more" if len(words) > most else shown
