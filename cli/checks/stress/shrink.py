"""Makes a failing program short: fewer steps, ranks and settings, smaller sizes.

Delta debugging [Zeller and Hildebrandt, IEEE TSE 28(2), 2002] over the steps; the rest one change
at a time.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pagewire.cli.checks.stress.draw import BLOCKING, Program, Step


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A program and the settings that it fails with."""

    program: Program
    settings: Mapping[str, str]


class Shrinker:
    """fails: runs a case. fixed: settings that stay. suspect: number of the step that has shown the
    failure, if that is known. Ends at the latest a run after `seconds`."""

    def __init__(
        self,
        fails: Callable[[Case], bool],
        fixed: Mapping[str, str],
        seconds: float,
        suspect: int | None = None,
    ) -> None:
        self._fails = fails
        self._fixed = fixed
        self._suspect = suspect
        self._end_s = time.monotonic() + seconds
        self.num_runs = 0

    def shrink(self, case: Case) -> Case:
        """The shortest that was found."""
        case = self._fewer_steps(self._up_to_suspect(case))
        for changes in (self._fewer_settings, _fewer_ranks, _smaller_steps):
            case = self._as_far_as_possible(case, changes)
        return self._fewer_steps(case)

    def _holds(self, case: Case) -> bool:
        if time.monotonic() > self._end_s:
            return False
        self.num_runs += 1
        return self._fails(case)

    def _up_to_suspect(self, case: Case) -> Case:
        """The step that has shown it alone, or what began before it."""
        steps = case.program.steps
        places = [idx for idx, step in enumerate(steps) if step.number == self._suspect]
        if not places or len(steps) == 1:
            return case
        alone = _with_steps(case, [steps[places[0]]])
        if self._holds(alone):
            return alone
        before = _with_steps(case, steps[: places[0] + 1])
        return before if self._holds(before) else case

    def _fewer_steps(self, case: Case) -> Case:
        """Leave out halves, quarters, ... single steps."""
        steps = case.program.steps
        length = max(1, (len(steps) + 1) // 2)
        while True:
            idx, is_shorter = 0, False
            while idx < len(steps) and len(steps) > 1:
                fewer = _with_steps(case, steps[:idx] + steps[idx + length :])
                if fewer.program.steps and self._holds(fewer):
                    case, steps, is_shorter = fewer, fewer.program.steps, True
                else:
                    idx += length
            if length == 1 and not is_shorter:
                return case
            length = max(1, length // 2)

    def _as_far_as_possible(self, case: Case, changes: Callable[[Case], Iterator[Case]]) -> Case:
        """Take each change that still fails, then look for changes of what that gave."""
        while True:
            for changed in changes(case):
                if self._holds(changed):
                    case = changed
                    break
            else:
                return case

    def _fewer_settings(self, case: Case) -> Iterator[Case]:
        """Without all that are not fixed, or without one of them."""
        free = [name for name in case.settings if name not in self._fixed]
        if free:
            yield dataclasses.replace(case, settings=dict(self._fixed))
        for name in free if len(free) > 1 else []:
            rest = {key: value for key, value in case.settings.items() if key != name}
            yield dataclasses.replace(case, settings=rest)


def _with_steps(case: Case, steps: list[Step]) -> Case:
    return dataclasses.replace(case, program=dataclasses.replace(case.program, steps=steps))


def _fewer_ranks(case: Case) -> Iterator[Case]:
    """The same steps among the first ranks, where each has a meaning there."""
    for num_ranks in range(1, case.program.num_ranks):
        steps = [_among(step, num_ranks) for step in case.program.steps]
        kept = [step for step in steps if step is not None]
        if len(kept) == len(steps):
            program = Program(case.program.seed, num_ranks, kept)
            yield dataclasses.replace(case, program=program)


def _among(step: Step, num_ranks: int) -> Step | None:
    """A step for fewer ranks; None if it would block for ever or mean nothing."""
    on, size = step.on, num_ranks
    if isinstance(on[-1], list):
        members = [each for each in on[-1] if each < num_ranks]
        on, size = [on[0], members], len(members)
    if size == 0:
        return None
    arguments = dict(step.arguments)
    for name in ("source", "dest", "root", "target", "shift"):
        if name in arguments:
            arguments[name] %= size
    if isinstance(arguments.get("counts"), list):
        arguments["counts"] = arguments["counts"][:size]
    if "messages" in arguments:
        arguments["messages"] = [
            [source % size, dest % size, *rest] for source, dest, *rest in arguments["messages"]
        ]
    if "operations" in arguments:
        arguments["operations"] = [
            [kind, origin % size, target % size, *rest]
            for kind, origin, target, *rest in arguments["operations"]
        ]
    if "edges" in arguments:
        arguments["edges"] = [each for each in arguments["edges"] if max(each) < size]
        arguments["dims"] = [size] if arguments["dims"] else []
    if "num_left" in arguments:
        arguments["num_left"] = min(arguments["num_left"], size - 1)
        if size < 2:
            return None
    if "parts" in arguments:
        parts = [[_among(each, num_ranks) for each in part] for part in arguments["parts"]]
        if any(each is None for part in parts for each in part):
            return None
        arguments["parts"] = parts
    changed = dataclasses.replace(step, on=on, arguments=arguments)
    return None if _waits_for_itself(changed) else changed


def _waits_for_itself(step: Step) -> bool:
    """A blocking send to oneself, whose receive is not posted before."""
    given = step.arguments
    if "source" not in given or "dest" not in given or given["source"] != given["dest"]:
        return False
    if step.kind == "object_message":
        return given["send"] in ("send", "ssend") and given["receive"] != "irecv"
    return given.get("send") in BLOCKING and (given["receive"] != "Irecv" or given["late"])


def _smaller_steps(case: Case) -> Iterator[Case]:
    """One step simpler."""
    steps = case.program.steps
    for idx, step in enumerate(steps):
        for simpler in _simpler(step):
            yield _with_steps(case, [*steps[:idx], simpler, *steps[idx + 1 :]])


def _simpler(step: Step) -> Iterator[Step]:
    given = step.arguments

    def with_(**changes: Any) -> Step:
        return dataclasses.replace(step, arguments={**given, **changes})

    if step.on != ["world"] and not isinstance(step.on[-1], list):
        yield dataclasses.replace(step, on=["world"])
    if step.hold:
        yield dataclasses.replace(step, hold=0)
    for name in ("messages", "operations", "edges", "parts", "acts"):
        for fewer in _shorter(given.get(name, [])):
            yield with_(**{name: fewer})
    for part_idx, part in enumerate(given.get("parts", [])):
        for fewer in _shorter(part):
            parts = [*given["parts"][:part_idx], fewer, *given["parts"][part_idx + 1 :]]
            yield with_(parts=parts)
    for name in ("source_acts", "receive_acts", "during"):
        if given.get(name):
            yield with_(**{name: []})
            for fewer in _shorter(given[name]):
                yield with_(**{name: fewer})
    yield from _with_plain_buffers(step, with_)
    yield from _with_smaller_numbers(given, with_)


def _with_plain_buffers(step: Step, with_: Callable[..., Step]) -> Iterator[Step]:
    given = step.arguments
    for name, plain in (
        ("send_memory", "heap"),
        ("receive_memory", "heap"),
        ("memory", "heap"),
        ("send_offset", 0),
        ("receive_offset", 0),
        ("offset", 0),
        ("gap", 0),
        ("room", 0),
        ("num_cancelled", 0),
        ("is_reversed", False),
        ("in_place", False),
        ("any_source", False),
        ("late", False),
        ("finish", "Wait"),
        ("mode", "blocking"),
    ):
        if name in given and given[name] != plain:
            simpler = with_(**{name: plain})
            if not _waits_for_itself(simpler):
                yield simpler


def _with_smaller_numbers(given: Mapping[str, Any], with_: Callable[..., Step]) -> Iterator[Step]:
    for name in ("num_bytes", "num_items", "num_rounds"):
        value = given.get(name, 1)
        if "operations" in given and name == "num_bytes":
            continue  # they lie in these bytes
        for smaller in sorted({1, value // 16, value // 2, value - 1}):
            if 0 < smaller < value:
                yield with_(**{name: smaller})
    has_one_form = given.get("send_form", []) == given.get("receive_form", [])
    if "send_count" in given and has_one_form:
        count = given["send_count"]
        for smaller in sorted({1, count // 16, count // 2}):
            if 0 < smaller < count:
                yield with_(send_count=smaller, receive_count=smaller)
    counts = given.get("counts")
    if counts and max(counts) > 1:
        for factor in (16, 2):
            yield with_(counts=[(each + factor - 1) // factor for each in counts])


def _shorter(items: list[Any]) -> Iterator[list[Any]]:
    """Halves, then all but one; of long lists halves alone."""
    if len(items) > 3:
        yield items[: len(items) // 2]
        yield items[len(items) // 2 :]
    if 1 < len(items) <= 8:
        for idx in range(len(items)):
            yield items[:idx] + items[idx + 1 :]
