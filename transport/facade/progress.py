"""The one loop in which a rank waits, and what it must look after while it does.

`waits_for` says in words what a loop waits for; it is asked only when the watchdog wants to know.
"""

from collections.abc import Callable
from typing import Protocol

from pagewire.transport.facade.rank import here


class Operation(Protocol):
    """Something that completes at `complete_ns` once `poll()` has said True."""

    complete_ns: int

    def poll(self) -> bool: ...

    def describe(self) -> str: ...


def progress(waiting: bool) -> bool:
    """Poll the wire, run the NI, take care of posted receives. True if anything happened."""
    moved = here.progress.turn(waiting)
    pending = here.pending
    if pending:
        for operation in pending[:]:
            if operation.poll():
                pending.remove(operation)
                moved = True
    return moved


def turn(waits_for: Callable[[], str]) -> None:
    """One turn of a wait loop; yields the core after a few in vain."""
    if progress(True):
        here.progress.busy()
    elif here.progress.idle():
        here.progress.report(waits_for)


def describe_native() -> str:
    """What a loop over a request of MPI's own waits for."""
    return "a request that is MPI's own"


def wait(operation: Operation) -> None:
    """Wait for `operation`; the clock goes on to its completion."""
    while not operation.poll():
        turn(operation.describe)
    here.clock.completed(operation.complete_ns)


def test_turn() -> None:
    """The progress that a Test or Iprobe makes before it looks."""
    if progress(False):
        here.progress.busy()
    else:
        here.progress.idle()
