"""A program at more ranks than it was recorded with, from runs at two or three sizes.

A rank of the bigger run does what the recorded one does that stands as it does in the grid of
ranks: at the same ends of the axes, or within. Its calls are those of the largest recorded run;
collectives are made anew for all ranks, peers follow rules, bytes and computing follow curves
(plan). What obeys no rule is refused with rank and call. Not modelled: groups of part of the ranks,
receives from any source, loops whose count depends on the number of ranks, but for calls with every
other rank.
"""

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from pagewire.native import lib
from pagewire.replay.collectives import MINE, THEIRS, TREE
from pagewire.replay.grids import FAMILIES, Offset, Rule
from pagewire.replay.made import Made
from pagewire.replay.plan import Assumption, Misfit, Plan, Run, listed, make_plan
from pagewire.replay.records import (
    WAS_EAGER,
    Compute,
    Done,
    Meet,
    Pages,
    Receive,
    Record,
    Send,
    Told,
    TraceError,
    Unmap,
)
from pagewire.replay.remake import SENT, Remade
from pagewire.replay.steps import ORDERS, Fan, Message, Step, describe, read_steps
from pagewire.replay.trace import REGIONS, Reader

_PAGE_BYTES = int(lib.PW_PAGE_BYTES)
_PRESENT = int(lib.PW_PAGE_PRESENT)
_OWN_REGION, _OWN_BYTES = 60, 1 << 36
"""Memory of collectives that the recorded rank did not need: where no program has any."""


def read_run(reader: Reader) -> Run:
    """All of it, in memory; raises TraceError for what cannot be extrapolated."""
    size = reader.num_ranks
    if reader.cut:
        raise TraceError(reader.cut)
    if size < 2:
        raise TraceError(f"'{reader.path}' has 1 rank, of which nothing follows for more")
    steps = [read_steps(reader, rank) for rank in range(size)]
    return Run(size, steps, [reader.regions(rank) for rank in range(size)], reader.meta())


def extrapolate(runs: Sequence[Run], size: int) -> "Extrapolated":
    """A trace of so many ranks; raises TraceError with what did not fit."""
    runs = sorted(runs, key=lambda run: -run.size)
    sizes = [run.size for run in runs]
    if len(set(sizes)) != len(sizes) or not 2 <= len(sizes) <= 3:
        raise TraceError(f"runs of {listed(sizes)} ranks; needed are 2 or 3 sizes of one program")
    if size <= sizes[0]:
        raise TraceError(f"{size} ranks are not more than the recorded {sizes[0]}")
    plans, misfits = [], []
    for family in FAMILIES:
        try:
            plans.append(make_plan(runs, family, size))
        except Misfit as misfit:
            misfits.append(misfit)
    if not plans:
        raise max(misfits, key=lambda misfit: misfit.progress)
    return Extrapolated(min(plans, key=lambda plan: plan.cost))


class Extrapolated(Made):
    """The bigger run, rank by rank."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.size)
        self._plan = plan

    @property
    def grid(self) -> str:
        """How the ranks are laid out."""
        return str(self._plan.grid)

    def assumptions(self) -> list[Assumption]:
        """What the recorded runs said, of each call."""
        return self._plan.assumptions()

    def meta(self) -> dict[str, Any]:
        recorded = sorted(run.size for run in self._plan.runs)
        return {
            **self._plan.base.meta,
            "num_ranks": self.num_ranks,
            "extrapolated": {"from": recorded, "grid": self.grid},
        }

    def records(self, rank: int) -> Iterator[Record]:
        return _Rank(self._plan, rank).records()

    def numbers(self, rank: int, kind: int) -> Iterator[int]:
        if kind == REGIONS:
            regions = self._plan.base.regions[self._plan.base_of(rank)]
            yield from itertools.chain.from_iterable(regions.items())


class _Rank:
    """One rank of the bigger run, made of a recorded one."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self._plan, self._rank = plan, rank
        base = plan.base_of(rank)
        self._steps = plan.base.steps[base]
        self._rules = plan.rules_of(base)
        self._regions = plan.base.regions[base]
        limit = plan.base.meta.get("eager_limit")
        self._eager_bytes = limit if isinstance(limit, int) else -1
        self._num_operations = 0
        self._numbers: dict[int, list[int]] = {}
        """Operations that stand for a recorded one; of a fan's first, those of the fan."""
        self._fan_of: dict[int, int] = {}
        """The first operation of the fan that a recorded one is of."""
        self._count: collections.Counter[tuple[Any, ...]] = collections.Counter()
        """Of receives along a way."""
        self._scratch = {
            place: where
            for step in self._steps
            if step.remade
            for place, where in step.remade.places
            if place in (MINE, THEIRS, TREE)
        }
        """Where the library's memory for collectives was."""
        self._own: dict[int, int] = {}
        """Pages of memory that the recorded rank did not need."""

    def records(self) -> Iterator[Record]:
        for step, rules in zip(self._steps, self._rules, strict=True):
            if step.remade:
                yield from self._remake(step, step.remade)
            elif step.fan:
                yield from self._fan(step, step.fan)
            else:
                begun = zip(itertools.count(step.first), rules, strict=False)
                for record in step.records:
                    if isinstance(record, (Send, Receive)):
                        number, rule = next(begun)
                        yield self._message(record, step, rule)
                        self._begin(number)
                    else:
                        yield from self._move(record, step)

    def _begin(self, recorded: int) -> None:
        """An operation that stands for a recorded one."""
        self._numbers.setdefault(recorded, []).append(self._num_operations)
        self._num_operations += 1

    def _move(self, record: Record, step: Step, shift: int | None = None) -> Iterator[Record]:
        """A record as this rank has it; shift: bytes by which its memory is moved."""
        if isinstance(record, (Done, Told)):
            number = self._fan_of.get(record.operation, record.operation)
            for each in self._numbers.pop(number, ()):
                yield type(record)(self._num_operations - 1 - each)
        elif isinstance(record, Compute):
            yield Compute(self._plan.scaled_ns(step, record.ns))
        elif isinstance(record, Meet):
            yield Meet(record.group, self._plan.size)
        elif isinstance(record, Pages):
            yield Pages(record.region, *self._pages(record, shift), record.state)
        elif isinstance(record, Unmap):
            yield Unmap(record.region, *self._pages(record, shift))
        else:
            yield record

    def _pages(self, record: Pages | Unmap, shift: int | None) -> tuple[int, int]:
        if shift is not None:
            return record.page + shift // _PAGE_BYTES, record.count
        return record.page * self._plan.stretch, record.count * self._plan.stretch

    def _place(self, region: int, offset: int) -> int:
        """Where what lay there lies now."""
        within = self._regions.get(region, 0) % _PAGE_BYTES
        page, rest = divmod(within + offset, _PAGE_BYTES)
        return page * self._plan.stretch * _PAGE_BYTES + rest - within

    def _message(self, record: Message, step: Step, rule: Rule) -> Message:
        plan = self._plan
        peer = rule.peer(self._rank, plan.grid)
        if not 0 <= peer < plan.size:
            raise TraceError(
                f"{describe(step, self._rank, plan.size)}: its peer, {rule}, would be {peer}"
            )
        num_bytes = plan.scaled_bytes(step, rule, record.num_bytes)
        if isinstance(record, Receive) and isinstance(rule, Offset):
            way = plan.way(rule.back, record)
            num_bytes = max(num_bytes, plan.longest(way, self._count[way]))
            self._count[way] += 1
        return self._like(record, peer, num_bytes, self._place(record.region, record.offset))

    def _like(self, record: Message, peer: int, num_bytes: int, offset: int) -> Message:
        """A message like a recorded one."""
        name = peer, record.context, record.tag
        if isinstance(record, Send):
            rest = record.region, offset, record.flags, record.data
            return Send(*name, self._rank, num_bytes, *rest)
        more = record.region, offset, record.flags, record.ignored
        return Receive(*name, peer, num_bytes, *more)

    def _fan(self, step: Step, fan: Fan) -> Iterator[Record]:
        """A call with every other rank: buffers go on as they did, or are used again."""
        first = fan.steps[0].messages[0]
        self._fan_of.update((each.first, step.first) for each in fan.steps)
        start = self._place(first.region, first.offset)
        last = len(fan.steps) - 1
        for idx, peer in enumerate(ORDERS[fan.order](self._rank, self._plan.size)):
            like, shift = fan.steps[idx % (last + 1)], None
            if fan.stride is not None:
                like = fan.steps[min(idx, last)]
                shift = start + idx * fan.stride - like.messages[0].offset
            most = like.messages[0].num_bytes // _PAGE_BYTES + 2
            for record in like.records:
                if isinstance(record, (Send, Receive)):
                    offset = self._place(record.region, record.offset)
                    if shift is not None:
                        offset = record.offset + shift
                    yield self._like(record, peer, record.num_bytes, offset)
                    self._begin(step.first)
                else:
                    is_of_all = isinstance(record, Pages) and record.count > most
                    yield from self._move(record, step, None if is_of_all else shift)

    def _remake(self, step: Step, remade: Remade) -> Iterator[Record]:
        """A collective of all ranks; what is not a message stays before it."""
        *inner, leave = [
            each for each in step.records if not isinstance(each, (Send, Receive, Done, Told))
        ]
        for record in inner:
            yield from self._move(record, step)
        num_bytes = self._plan.scaled_bytes(step, None, remade.num_bytes)
        first = self._num_operations
        is_waited: dict[int, bool] = {}
        for item in remade.script(self._rank, self._plan.size, num_bytes):
            if isinstance(item, tuple):
                for number in item:
                    if is_waited[number]:
                        yield Done(self._num_operations - 1 - first - number)
            else:
                is_eager = isinstance(item, Send) and item.num_bytes <= self._eager_bytes
                yield from self._part(step, remade, item, WAS_EAGER if is_eager else 0)
                is_waited[self._num_operations - first] = not is_eager
                self._num_operations += 1
        yield leave

    def _part(self, step: Step, remade: Remade, item: Message, flags: int) -> Iterator[Record]:
        """A message of a collective, in memory that the recorded one used, or in new one."""
        like = step.messages[0]
        region, offset = like.region, like.offset
        where = dict(remade.places).get(item.region) or self._scratch.get(item.region)
        if where and item.num_bytes:
            region, offset = where[0], self._place(*where) + item.offset
        elif item.num_bytes:
            region, offset = _OWN_REGION, item.region * _OWN_BYTES + item.offset
            pages = -(-(item.offset + item.num_bytes) // _PAGE_BYTES)
            had = self._own.get(item.region, 0)
            if pages > had and item.region in (MINE, TREE, SENT):
                begin = item.region * _OWN_BYTES // _PAGE_BYTES + had
                yield Pages(region, begin, pages - had, _PRESENT)
                self._own[item.region] = pages
        name = like.context, like.tag, item.source
        if isinstance(item, Send):
            yield Send(item.peer, *name, item.num_bytes, region, offset, flags)
        else:
            yield Receive(item.peer, *name, item.num_bytes, region, offset)
