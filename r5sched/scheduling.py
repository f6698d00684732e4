"""Scheduling policies: class and window of a transfer, decided by the library when it is posted.

The firmware goes by size and by the settings' window. A policy of the user's, a class on
`SchedulingPolicy` that is registered or named by `firmware.scheduling = module:Class`, may say otherwise
for each transfer; docs/scheduling.md tells how to write, run and test one. The firmware itself stays
as it is: what a policy answers are the hint and the window of the transfer's descriptor.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

from pagewire.native import extension, ffi, lib
from pagewire.native.settings import ConfigError, suggestion

WINDOW_MAX = int(lib.PW_WINDOW_MAX)
BY_SIZE = "size"
"""Name of what the firmware does without a policy."""


class Hint(enum.IntEnum):
    """Class that a transfer is given, whatever its size."""

    NONE = lib.PW_HINT_NONE
    HIGH = lib.PW_HINT_HIGH
    MEDIUM = lib.PW_HINT_MEDIUM
    LOW = lib.PW_HINT_LOW


@dataclasses.dataclass(frozen=True, slots=True)
class PostedTransfer:
    """What a policy may know of a transfer, at the node that the data leave."""

    num_bytes: int
    peer: int
    """node that the data go to"""
    is_read: bool
    """True: the peer will read it; False: this node writes it"""
    time_ns: int
    """virtual time of the call that posts it"""


@dataclasses.dataclass(frozen=True, slots=True)
class Scheduling:
    """The decision."""

    hint: Hint = Hint.NONE
    window_blocks: int | None = None
    """blocks outstanding at a time; None: firmware.window_blocks"""


class SchedulingPolicy(abc.ABC):
    """Decides class and window of each transfer. One object a node, made without arguments.

    Its answers may depend on what it was asked before and on nothing else: no clock, no unseeded
    random numbers. Else two runs differ.
    """

    @abc.abstractmethod
    def schedule(self, *, transfer: PostedTransfer) -> Scheduling:
        """How the firmware shall treat this transfer."""


class SchedulingError(RuntimeError):
    """A scheduling policy raised, or answered what cannot be done."""


_REGISTRY: dict[str, type[SchedulingPolicy]] = {}


def register(name: str) -> Callable[[type[SchedulingPolicy]], type[SchedulingPolicy]]:
    """Class decorator: `firmware.scheduling = name` means this class."""

    def add(policy: type[SchedulingPolicy]) -> type[SchedulingPolicy]:
        if name in names() or not name.isidentifier():
            raise ValueError(f"scheduling policy '{name}': taken, or not an identifier")
        _REGISTRY[name] = policy
        return policy

    return add


def names() -> list[str]:
    """What `firmware.scheduling` takes besides module:Class."""
    return [BY_SIZE, *_REGISTRY]


def check_name(name: str) -> None:
    """ConfigError unless `name` is one of `names()` or of the form module:Class."""
    if name not in names() and not extension.is_specification(name):
        raise ConfigError(
            f"firmware.scheduling = '{name}': allowed is one of {', '.join(names())}, or a class of "
            f"one's own as module:Class{suggestion(name, names())}"
        )


def create(name: str, *, folders: Sequence[str] = ()) -> SchedulingPolicy | None:
    """The policy of a name or of module:Class; None when the firmware goes by size.

    `folders`: where the module is looked for besides the working directory and Python's path.
    """
    if name == BY_SIZE:
        return None
    if name in _REGISTRY:
        return _REGISTRY[name]()
    # The base class as such is what the user's has to be derived from, not what is made here.
    base: type[SchedulingPolicy] = SchedulingPolicy  # type: ignore[type-abstract]
    return extension.create("firmware.scheduling", name, base, folders=folders)


def reason_to_refuse(answer: object) -> str:
    """Why this is no decision; empty when it is one."""
    if not isinstance(answer, Scheduling):
        return f"a {type(answer).__name__} ({answer!r}) instead of a Scheduling"
    if not isinstance(answer.hint, Hint):
        return f"hint {answer.hint!r}: allowed is one of {', '.join(f'Hint.{each.name}' for each in Hint)}"
    window = answer.window_blocks
    whole = isinstance(window, int) and not isinstance(window, bool)
    if window is not None and not (whole and 1 <= window <= WINDOW_MAX):
        return (
            f"window_blocks {window!r}: allowed is a whole number from 1 to {WINDOW_MAX}, or None"
        )
    return ""


class Scheduler:
    """Asks a policy for each transfer of one node and gives the engine its answer."""

    def __init__(self, policy: SchedulingPolicy, name: str) -> None:
        self._policy = policy
        self._name = name
        self._answer = ffi.new("pw_scheduling *")

    def decide(self, transfer: PostedTransfer) -> Any:
        """The decision as struct pw_scheduling, good until the next call."""
        try:
            answer = self._policy.schedule(transfer=transfer)
        except Exception as error:
            raise SchedulingError(
                f"scheduling policy '{self._name}' raised {extension.describe(error)} "
                f"(asked for {transfer})"
            ) from error
        reason = reason_to_refuse(answer)
        if reason:
            raise SchedulingError(
                f"scheduling policy '{self._name}' answered {reason} (asked for {transfer})"
            )
        self._answer.hint = answer.hint
        self._answer.window_blocks = answer.window_blocks or 0
        return self._answer
