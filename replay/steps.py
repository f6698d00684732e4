"""What a rank did, call by call, so that ranks of runs of several sizes can be compared."""

import dataclasses
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from pagewire.replay import remake
from pagewire.replay.records import (
    MULTI,
    Call,
    Cancel,
    Compute,
    Deregister,
    Done,
    End,
    Found,
    Meet,
    Part,
    Receive,
    Record,
    Register,
    Send,
    Take,
    Told,
    TraceError,
)
from pagewire.replay.trace import Reader
from pagewire.replay.walk import ONE_SIDED, Walk

Message = Send | Receive
CallKind = tuple[str, str]
"""Phase, and name of the MPI call."""
_REFUSED = (Found, Take, Part, Cancel, Register, Deregister, *ONE_SIDED)


@dataclasses.dataclass(slots=True)
class Step:
    """A call, and what the rank did before it since the one before; or a call with each other rank
    (`fan`)."""

    name: str = "the end"
    phase: str = ""
    number: int = 0
    """Of the call."""
    first: int = 0
    """Number of its first operation."""
    records: list[Record] = dataclasses.field(default_factory=list)
    """DONE and TOLD name an operation by its number from the beginning on."""
    messages: list[Message] = dataclasses.field(default_factory=list)
    remade: remake.Remade | None = None
    fan: "Fan | None" = None

    @property
    def call(self) -> CallKind:
        return self.phase, self.name

    @property
    def compute_ns(self) -> float:
        """Of a fan before each of its calls."""
        if self.fan:
            return sum(step.compute_ns for step in self.fan.steps) / len(self.fan.steps)
        return sum(each.ns for each in self.records if isinstance(each, Compute))


@dataclasses.dataclass(slots=True)
class Fan:
    """Calls with one message each, to or from every other rank."""

    steps: list[Step]
    order: str
    stride: int | None
    """From one buffer to the next, which are of one region; None: of no order."""


ORDERS: Mapping[str, Callable[[int, int], list[int]]] = {
    "ascending": lambda rank, size: [each for each in range(size) if each != rank],
    "from the next on": lambda rank, size: [(rank + by) % size for by in range(1, size)],
    "from the one before on": lambda rank, size: [(rank - by) % size for by in range(1, size)],
}
"""Of the ranks of a fan."""


def read_steps(reader: Reader, rank: int) -> list[Step]:
    """Those of a rank, in its order; raises TraceError for what has no place in them."""
    walk = Walk(reader, rank)
    steps = []
    step, is_in_call = Step(), False
    for _, record in walk:
        if isinstance(record, Call) and not is_in_call:
            is_in_call = True
            step.name, step.number = walk.names.get(record.name_idx, ""), walk.num_calls - 1
            step.phase = walk.phases[-1] if walk.phases else ""
        _check(record, step, rank, reader.num_ranks)
        if isinstance(record, (Done, Told)):
            record.operation = walk.num_operations - 1 - record.operation
        elif isinstance(record, (Send, Receive)):
            step.messages.append(record)
        step.records.append(record)
        if is_in_call and Call not in walk.open:
            steps.append(step)
            step, is_in_call = Step(first=walk.num_operations), False
    for sentence in walk.wrong:
        raise TraceError(sentence)
    if not walk.has_ended:
        raise TraceError(f"rank {rank} has no END: its recording was cut off")
    step.number = walk.num_calls
    steps.append(step)
    for each in steps:
        _remake(each, rank, reader.num_ranks)
    return steps


def _check(record: Record, step: Step, rank: int, size: int) -> None:
    what = ""
    if isinstance(record, _REFUSED):
        what = f"a {type(record).__name__.upper()}"
    elif isinstance(record, Receive) and (record.peer is None or record.flags & MULTI):
        what = "a receive of several messages" if record.flags & MULTI else "a receive from any"
    elif isinstance(record, Meet) and record.members != size:
        what = f"a meeting of {record.members} of {size} ranks"
    if what:
        raise TraceError(f"{describe(step, rank, size)}: {what} cannot be extrapolated")


def describe(step: Step, rank: int, size: int) -> str:
    """Where a step is."""
    return f"rank {rank} of {size}, call {step.number} ({step.name or 'without a name'})"


def _remake(step: Step, rank: int, size: int) -> None:
    if not remake.is_collective(step.name) or not step.messages:
        return
    step.remade = remake.find(step.name, rank, size, step.records)
    if step.remade is None:
        raise TraceError(
            f"{describe(step, rank, size)}: its messages are not those that it has among all ranks "
            "with equal parts and root 0, so that it cannot be made for more"
        )


def fold(steps: Sequence[Step], rank: int, size: int, calls: Container[CallKind]) -> list[Step]:
    """The same with those of these calls as one step that go to every other rank in turn."""
    folded = []
    idx = 0
    while idx < len(steps):
        step = steps[idx]
        is_one = size > 2 and step.call in calls
        fan = _fan(steps[idx : idx + size - 1], rank, size) if is_one else None
        if fan is None:
            folded.append(step)
        else:
            folded.append(Step(step.name, step.phase, step.number, step.first, fan=fan))
        idx += 1 if fan is None else size - 1
    return folded


def _fan(steps: Sequence[Step], rank: int, size: int) -> Fan | None:
    found: list[Message] = []
    for step in steps:
        if step.remade or step.call != steps[0].call or len(step.messages) != 1:
            return None
        found += step.messages
    if len(found) < size - 1:
        return None
    kinds = {(type(one), one.context, one.tag, one.num_bytes, one.region) for one in found}
    if len(kinds) != 1:
        return None
    peers = [one.peer for one in found]
    strides = {two.offset - one.offset for one, two in itertools.pairwise(found)}
    for order, ranks in ORDERS.items():
        if peers == ranks(rank, size):
            return Fan(list(steps), order, strides.pop() if len(strides) == 1 else None)
    return None


Shape = tuple[str, ...]


def shapes(steps: Sequence[Step]) -> Iterator[Shape]:
    """What is to be alike in runs of all sizes, of each step."""
    fan_of: dict[int, int] = {}
    for step in steps:
        if step.remade:
            yield step.name, "a collective"
        elif step.fan:
            fan_of.update((each.first, step.first) for each in step.fan.steps)
            inner = step.fan.steps[0]
            yield step.name, "with every other rank", step.fan.order, *_kinds(inner, fan_of)
        else:
            yield step.name, *_kinds(step, fan_of)


def _kinds(step: Step, fan_of: dict[int, int]) -> Iterator[str]:
    ended = set()
    for each in step.records:
        if isinstance(each, (Send, Receive, Meet, End)):
            yield type(each).__name__.upper()
        elif isinstance(each, (Done, Told)):
            ended.add(fan_of.get(each.operation, each.operation))
    if ended:
        yield f"{len(ended)} waited for"
