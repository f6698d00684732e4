"""What the facade keeps for this process's rank, all in one object, `here`.

Importing makes nothing: `here` is empty until `installation.install` opens it, once MPI is up. One
thread a rank: nothing of it is locked. Light on purpose, since the loader asks it before MPI is
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagewire.transport.facade.communicators import States
    from pagewire.transport.facade.frames import Frames
    from pagewire.transport.facade.persistent import Starts
    from pagewire.transport.facade.probing import Matched
    from pagewire.transport.node.clock import CpuClock
    from pagewire.transport.node.mpi_calls import MpiCalls
    from pagewire.transport.node.node import Node
    from pagewire.transport.node.progress import Progress


class Rank:
    """`node`, its `clock`, `progress` and `calls`, and what is under way between calls."""

    __slots__ = (
        "active", "calls", "clock", "frames", "kept", "matched", "meeting_places", "node",
        "pending", "persistent", "progress", "states", "unattended",
    )  # fmt: skip

    node: Node
    clock: CpuClock
    progress: Progress
    calls: MpiCalls
    frames: Frames
    states: States
    """What each communicator has, by its handle."""
    pending: list[Any]
    """Receives posted and not yet complete: they must be matched and fetched whatever the rank
    waits for, because their senders wait for that."""
    active: dict[int, Any]
    """Operations that a user's request stands for, by the request's handle."""
    unattended: list[Any]
    """Operations that nobody waits for before Finalize: buffered sends, those of freed requests."""
    persistent: Starts
    matched: Matched
    meeting_places: dict[tuple[type, int], Any]
    """Private communicators of windows and of files, by handle."""
    kept: set[Any]
    """Buffers of the RDMA library: a peer may still have the address of one that the program
    dropped."""

    def open(self, node: Node, frames: Frames) -> None:
        """From now on the rank is there; the families of calls add their parts."""
        self.node = node
        self.clock = node.clock
        self.progress = node.progress
        self.calls = node.mpi_calls
        self.frames = frames
        self.pending = []
        self.active = {}
        self.unattended = []
        self.meeting_places = {}
        self.kept = set()

    @property
    def is_open(self) -> bool:
        """There is a node."""
        return hasattr(self, "node")

    if not TYPE_CHECKING:  # a checker would take any name for one that is there

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"the rank has no '{name}' yet: MPI is not initialized")

    def keep(self, operation: Any) -> None:
        """Hold an operation that nobody waits for until it is complete."""
        self.unattended[:] = [other for other in self.unattended if not other.poll()]
        self.unattended.append(operation)


here = Rank()
