"""Scheduling policies: class and window of a transfer, decided by the library when it is posted.

The firmware classifies a transfer by its size and takes the settings' window. A policy of the
user's, a class on `SchedulingPolicy` that is in `REGISTRY` or named by `firmware.scheduling =
module:Class`, may say otherwise for each transfer; docs/extending.md tells how to write, run and
test one. The firmware itself stays as it is: what a policy answers are the hint and the window of
the transfer's descriptor.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from typing import Any

from pagewire.native import ffi, lib
from pagewire.native.declared import choices
from pagewire.native.extension import Entry, ExtensionError, Registry, ask

WINDOW_MAX = int(lib.PW_WINDOW_MAX)


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


class SchedulingError(ExtensionError):
    """A scheduling policy raised, or answered what cannot be done."""


REGISTRY: Registry[SchedulingPolicy] = Registry(
    "firmware.scheduling",
    SchedulingPolicy,
    {name: Entry(meaning) for name, _, meaning in choices("firmware.scheduling")},
)
"""What `firmware.scheduling` takes."""


def reason_to_refuse(answer: object) -> str:
    """Why this is no decision; empty when it is one."""
    if not isinstance(answer, Scheduling):
        return f"a {type(answer).__name__} ({answer!r}) instead of a Scheduling"
    if not isinstance(answer.hint, Hint):
        allowed = ", ".join(f"Hint.{each.name}" for each in Hint)
        return f"hint {answer.hint!r}: allowed is one of {allowed}"
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
        answer = ask(
            f"scheduling policy '{self._name}'",
            transfer,
            lambda: self._policy.schedule(transfer=transfer),
            reason_to_refuse,
            SchedulingError,
        )
        self._answer.hint = answer.hint
        self._answer.window_blocks = answer.window_blocks or 0
        return self._answer
