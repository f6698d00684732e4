"""Turns of the node for loops that wait in Python, and the watchdog.

`waits_for` says in words what a loop waits for; it is asked only when the watchdog wants to know.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from pagewire.native import lib
from pagewire.transport.facade.rank import here


class Composite(abc.ABC):
    """Something that is made of operations and that a request may stand for, as for one of them:
    complete at `complete_ns` once `poll()` has said True."""

    __slots__ = ("complete",)

    is_receive = False

    def __init__(self) -> None:
        self.complete: Any = None
        """Completes the request."""

    @property
    def cancelled(self) -> bool:
        return False

    @property
    def error(self) -> BaseException | None:
        """What it ended with."""
        return None

    @property
    @abc.abstractmethod
    def complete_ns(self) -> int: ...

    @abc.abstractmethod
    def poll(self) -> bool: ...

    @abc.abstractmethod
    def describe(self) -> str: ...

    def reach(self) -> None:
        """Until it is over, without the clock's going there."""
        while not self.poll():
            turn(self.describe)

    def wait(self) -> None:
        """Until it is over; the clock goes on to its completion."""
        self.reach()
        here.clock.completed(self.complete_ns)

    def cancel(self) -> None:
        """What was started goes through."""
        return

    def result(self) -> Any:
        """What lower-case wait returns: nothing, for a buffer."""
        return None


def make_progress(waiting: bool) -> bool:
    """Poll the wire, run the NI, take care of posted receives. True if anything happened; else the
    core went to somebody else after a few turns in vain."""
    code = lib.pw_call_turn(here.messaging, waiting)
    if code < 0:
        raise here.failure(code, "progress of the NI")
    return bool(code)


def turn(waits_for: Callable[[], str]) -> None:
    """One turn of a wait loop."""
    if not make_progress(True):
        watch(waits_for)


def watch(waits_for: Callable[[], str]) -> None:
    """Nothing happened, or not for some time: is it the watchdog's time to say so?"""
    here.node.watchdog.look(waits_for)


def describe_native() -> str:
    """What a loop over a request of MPI's own waits for."""
    return "a request that is MPI's own"


def test_turn() -> None:
    """The progress that a Test or Iprobe makes before it looks."""
    make_progress(False)


def failed_test(is_future: bool, poll_ns: int | None = None) -> None:
    """A Test or Iprobe found nothing: it costs a poll when what it looks for is in the virtual
    future, or the NI has something ahead; not when only a frame is not physically here yet."""
    here.clock.failed_test(is_future, here.clock.poll_ns if poll_ns is None else poll_ns)
