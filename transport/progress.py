"""The one loop in which a rank waits, and what it must look after while it does.

Only this module (and the two constants of `operations`) knows where the rank's node comes from.
One thread per rank: the node and these lists are not locked.
"""

from typing import Protocol

from pagewire.transport.node import current

node = current()
calls = node.mpi_calls


class Operation(Protocol):
    """Something that completes at `complete_ns` once `poll()` has said True."""

    complete_ns: int

    def poll(self) -> bool: ...


# Receives posted and not yet complete: they must be matched and fetched whatever the rank waits
# for, because their senders wait for that.
pending: list[Operation] = []


def progress(waiting: bool) -> bool:
    """Poll the wire, run the NI, take care of posted receives. True if anything happened."""
    moved = node.progress(waiting)
    if pending:
        for operation in pending[:]:
            if operation.poll():
                pending.remove(operation)
                moved = True
    return moved


def turn() -> None:
    """One turn of a wait loop; yields the core after a few in vain."""
    if progress(True):
        node.busy()
    else:
        node.idle()


def wait(operation: Operation) -> None:
    """Wait for `operation`; the clock goes on to its completion."""
    while not operation.poll():
        turn()
    node.completed(operation.complete_ns)


def test_turn() -> None:
    """The progress that a Test or Iprobe makes before it looks."""
    if progress(False):
        node.busy()
    else:
        node.idle()
