"""A reduced model of one transfer, searched exhaustively: firmware, network, destination, page
faults.

The source's steps are those of the engine's own table (protocol.py). Every order of events is
tried: messages overtake each other, timers expire at any moment, and up to a given number of
messages is lost, doubled or damaged. Looked for, in every reachable state:

- safety: no block is written twice; no answer of an earlier attempt or of another block is taken
for one
  of the present attempt; no block is completed that was not written; no step is missing in the
  table;
- no deadlock: where nothing can happen any more, the transfer is over;
- liveness: from every state the end of the transfer can still be reached.

Reduced are: blocks, transaction ids with their reuse counts and sequence numbers to a few; a timer
that expires although an answer is under way (an early timeout) to a few times, since each adds a
message; a block to one packet and one page. Left out are time itself and what only time decides
(retransmission bit, costs, order in queues), several transfers, protection, foreseen answers, and
the end of the transfer at the destination (its record of written blocks lives on). A needed
timeout, with nothing under way for the attempt, is never limited, as in the engine.
"""

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pagewire.r5sched.protocol import TRANSITIONS

PENDING = ("issued", "nacked", "retransmitted")
ANSWER_EVENTS = {
    "ack": "ack",
    "nack1": "nack_page_fault",
    "nack4": "nack_retry",
    "nack2": "nack_fatal",
    "err": "err",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large the model is, and what may go wrong how often."""

    blocks: int = 2
    ids: int = 2
    reuses: int = 2
    """values of the count of an id's reuse (16 in the machine)"""
    sequences: int = 4
    """values of a sequence number (4096 in the machine)"""
    losses: int = 1
    duplicates: int = 1
    damages: int = 0
    fatal: int = 0
    early_timeouts: int = 1
    absent_pages: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What keeps the protocol right; switched off to see that the search finds what goes wrong
    then."""

    checks_sequence: bool = True
    checks_reuse: bool = True
    remembers_written: bool = True
    has_timer: bool = True


class Entry(NamedTuple):
    """One transaction id at the source. attempt counts without wrapping: the model alone knows
    it."""

    state: str = "free"
    reuse: int = 0
    block: int = -1
    sequence: int = 0
    attempt: int = 0


class Message(NamedTuple):
    """On the way, or an entry of the NI FIFO (kind fault). block and attempt: what it is truly
    for."""

    kind: str
    id: int
    reuse: int
    sequence: int
    block: int
    attempt: int


class State(NamedTuple):
    """Everything; messages are a sorted bag."""

    entries: tuple[Entry, ...]
    written: tuple[int, ...]
    present: tuple[bool, ...]
    losses: int
    duplicates: int
    damages: int
    fatal: int
    early_timeouts: int
    next_block: int = 0
    next_id: int = 0
    completed: int = 0
    messages: tuple[Message, ...] = ()
    failed: bool = False


class Violation(Exception):
    """A state that must not be; `trail` holds the actions that lead there."""

    def __init__(self, what: str, trail: list[str]) -> None:
        super().__init__(f"{what}: {' / '.join(trail)}")
        self.what = what
        self.trail = trail


class _Broken(Exception):
    """A step breaks a safety property."""


def _replaced(items: tuple, idx: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:idx], value, *items[idx + 1 :])


def _with(state: State, *messages: Message) -> State:
    return state._replace(messages=tuple(sorted((*state.messages, *messages))))


class Model:
    """The steps that are possible in a state."""

    def __init__(self, limits: Limits, rules: Rules) -> None:
        self.limits = limits
        self.rules = rules

    def is_over(self, state: State) -> bool:
        return state.failed or state.completed == self.limits.blocks

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Action and the state behind it; _Broken when the step breaks a safety property."""
        yield from self._issue(state)
        yield from self._timeouts(state)
        for message in dict.fromkeys(state.messages):
            left = list(state.messages)
            left.remove(message)
            rest = state._replace(messages=tuple(left))
            name = f"{message.kind} of block {message.block}, attempt {message.attempt}"
            if message.kind == "fault":
                yield from self._page_in(rest, message)
                continue
            if message.kind in ("block", "damaged"):
                yield f"arrives: {name}", self._write(rest, message)
            else:
                yield f"read: {name}", self._answer(rest, message)
            yield from self._disturb(state, rest, message, name)

    def _issue(self, state: State) -> Iterator[tuple[str, State]]:
        entry = state.entries[state.next_id]
        over = self.is_over(state) or state.next_block == self.limits.blocks
        if over or entry.state != "free":
            return
        issued = entry._replace(block=state.next_block, sequence=0, attempt=0)
        sent, issued = self._send(issued, state.next_id, "start")
        yield (
            f"issue block {state.next_block}",
            _with(
                state._replace(
                    entries=_replaced(state.entries, state.next_id, issued),
                    next_block=state.next_block + 1,
                    next_id=(state.next_id + 1) % self.limits.ids,
                ),
                sent,
            ),
        )

    def _send(self, entry: Entry, idx: int, event: str) -> tuple[Message, Entry]:
        entry = entry._replace(state=TRANSITIONS[entry.state, event].next)
        sent = Message("block", idx, entry.reuse, entry.sequence, entry.block, entry.attempt)
        return sent, entry

    def _timeouts(self, state: State) -> Iterator[tuple[str, State]]:
        if not self.rules.has_timer:
            return
        for idx, entry in enumerate(state.entries):
            if entry.state not in PENDING:
                continue
            early = any(
                (message.block, message.attempt) == (entry.block, entry.attempt)
                for message in state.messages
            )
            if early and not state.early_timeouts:
                continue
            spent = state._replace(early_timeouts=state.early_timeouts - early)
            name = f"{'early ' if early else ''}timeout of block {entry.block}"
            yield name, self._react(spent, idx, "timeout")

    def _disturb(
        self, state: State, rest: State, message: Message, name: str
    ) -> Iterator[tuple[str, State]]:
        if state.losses:
            yield f"lost: {name}", rest._replace(losses=state.losses - 1)
        if state.duplicates:
            doubled = state._replace(duplicates=state.duplicates - 1)
            yield f"doubled: {name}", _with(doubled, message)
        if state.damages and message.kind == "block":
            damaged = rest._replace(damages=state.damages - 1)
            yield f"damaged: {name}", _with(damaged, message._replace(kind="damaged"))

    def _page_in(self, rest: State, fault: Message) -> Iterator[tuple[str, State]]:
        present = _replaced(rest.present, fault.block, True)
        paged_in = rest._replace(present=present)
        yield f"page in for block {fault.block}", _with(paged_in, fault._replace(kind="err"))
        if rest.losses:  # the NI FIFO was full
            yield f"entry lost, block {fault.block}", rest._replace(losses=rest.losses - 1)

    def _write(self, rest: State, block: Message) -> State:
        if block.kind == "damaged":
            return _with(rest, block._replace(kind="nack4"))
        if self.rules.remembers_written and rest.written[block.block]:
            return _with(rest, block._replace(kind="ack"))
        if rest.fatal:
            return _with(rest._replace(fatal=0), block._replace(kind="nack2"))
        if not rest.present[block.block]:
            return _with(rest, block._replace(kind="nack1"), block._replace(kind="fault"))
        times = rest.written[block.block] + 1
        if times > 1:
            raise _Broken(f"block {block.block} is written twice")
        written = _replaced(rest.written, block.block, times)
        return _with(rest._replace(written=written), block._replace(kind="ack"))

    def _answer(self, rest: State, answer: Message) -> State:
        entry = rest.entries[answer.id]
        stale = (
            entry.state not in PENDING
            or (self.rules.checks_reuse and entry.reuse != answer.reuse)
            or (self.rules.checks_sequence and entry.sequence != answer.sequence)
        )
        if stale:
            return rest
        if (entry.block, entry.attempt) != (answer.block, answer.attempt):
            raise _Broken(
                f"{answer.kind} of block {answer.block}, attempt {answer.attempt}, is taken for "
                f"block {entry.block}, attempt {entry.attempt}"
            )
        return self._react(rest, answer.id, ANSWER_EVENTS[answer.kind])

    def _react(self, state: State, idx: int, event: str) -> State:
        entry = state.entries[idx]
        transition = TRANSITIONS.get((entry.state, event))
        if transition is None:
            raise _Broken(f"no step from {entry.state} by {event}")
        if transition.reaction == "retransmit":
            again = entry._replace(
                sequence=(entry.sequence + 1) % self.limits.sequences, attempt=entry.attempt + 1
            )
            sent, again = self._send(again, idx, event)
            return _with(state._replace(entries=_replaced(state.entries, idx, again)), sent)
        if transition.reaction == "complete":
            if not state.written[entry.block]:
                raise _Broken(f"block {entry.block} is completed and was never written")
            is_free = transition.next == "free"
            after = self._released(entry) if is_free else entry._replace(state=transition.next)
            return state._replace(
                entries=_replaced(state.entries, idx, after), completed=state.completed + 1
            )
        if transition.reaction == "fail":
            abandoned = tuple(
                each if each.state == "free" else self._released(each) for each in state.entries
            )
            return state._replace(entries=abandoned, failed=True)
        if transition.reaction != "wait":
            raise _Broken(f"no reaction {transition.reaction} in the model")
        waiting = entry._replace(state=transition.next)
        return state._replace(entries=_replaced(state.entries, idx, waiting))

    def _released(self, entry: Entry) -> Entry:
        return Entry(reuse=(entry.reuse + 1) % self.limits.reuses)


SCENARIOS: Mapping[str, Limits] = MappingProxyType(
    {
        "one block, everything once": Limits(blocks=1, ids=1, damages=1, sequences=8),
        "window of two, a loss": Limits(duplicates=0),
        "window of two, a duplicate": Limits(losses=0),
        "window of two, pages present": Limits(absent_pages=False),
        "window of two, a fatal NACK": Limits(fatal=1, absent_pages=False, duplicates=0),
        "an id used three times": Limits(blocks=3, ids=1, reuses=4, duplicates=0),
        "an id used twice, a duplicate": Limits(blocks=2, ids=1, sequences=8),
    }
)
"""Searches of a few seconds each."""

TAKEN = "is taken for"
BROKEN: Mapping[str, tuple[Limits, Rules, str]] = MappingProxyType(
    {
        "sequence numbers are not looked at": (Limits(), Rules(checks_sequence=False), TAKEN),
        "an id's reuse is not looked at": (Limits(ids=1), Rules(checks_reuse=False), TAKEN),
        "blocks written are not remembered": (
            Limits(),
            Rules(remembers_written=False),
            "is written twice",
        ),
        "no timer": (Limits(), Rules(has_timer=False), "deadlock"),
        "too few sequence numbers": (Limits(damages=1, duplicates=0, sequences=4), Rules(), TAKEN),
        "too few counts of reuse": (Limits(blocks=3, ids=1, reuses=2), Rules(), TAKEN),
    }
)
"""What the search must find fault with, and the fault."""


def search(
    limits: Limits, rules: Rules | None = None, max_states: int = 2_000_000
) -> tuple[int, int]:
    """Numbers of states and steps; Violation with the shortest way to what is wrong."""
    model = Model(limits, rules or Rules())
    start = State(
        entries=(Entry(),) * limits.ids,
        written=(0,) * limits.blocks,
        present=(not limits.absent_pages,) * limits.blocks,
        losses=limits.losses,
        duplicates=limits.duplicates,
        damages=limits.damages,
        fatal=limits.fatal,
        early_timeouts=limits.early_timeouts,
    )
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    before: dict[State, list[State]] = {start: []}
    waiting = deque([start])
    num_steps = 0

    def trail(state: State) -> list[str]:
        actions = []
        origin = came_from[state]
        while origin is not None:
            actions.append(origin[1])
            origin = came_from[origin[0]]
        return actions[::-1]

    while waiting:
        state = waiting.popleft()
        possible = False
        try:
            for action, after in model.steps(state):
                possible = True
                num_steps += 1
                if after not in came_from:
                    came_from[after] = (state, action)
                    before[after] = []
                    waiting.append(after)
                before[after].append(state)
        except _Broken as broken:
            raise Violation(str(broken), trail(state)) from None
        if not possible and not model.is_over(state):
            raise Violation("deadlock", trail(state))
        if len(came_from) > max_states:
            raise ValueError(f"more than {max_states} states: take smaller limits")
    lost = _cannot_end(model, before)
    if lost is not None:
        raise Violation("the end cannot be reached", trail(lost))
    return len(came_from), num_steps


def _cannot_end(model: Model, before: dict[State, list[State]]) -> State | None:
    """The first state from which no way leads to the end."""
    ends = [state for state in before if model.is_over(state)]
    able = set(ends)
    while ends:
        for state in before[ends.pop()]:
            if state not in able:
                able.add(state)
                ends.append(state)
    return next((state for state in before if state not in able), None)
