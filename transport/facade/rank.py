"""What the facade keeps for this process's rank, all in one object, `here`.

Importing makes nothing: `here` is empty until `installation.install` opens it, once MPI is up.
Several threads of a rank may communicate: what is in tables here is put in and taken out by single
operations of dictionaries, which Python makes whole. Light on purpose, since the loader asks it
before MPI is there.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from pagewire.native import lib

if TYPE_CHECKING:
    from pagewire.transport.facade.call_counts import MpiCalls
    from pagewire.transport.facade.clock import CpuClock
    from pagewire.transport.facade.communicators import States
    from pagewire.transport.facade.node import Node
    from pagewire.transport.facade.persistent import Starts
    from pagewire.transport.facade.probing import Matched


class Wait(NamedTuple):
    """What a thread waits for in C."""

    waits_for: str
    """In words, for the watchdog."""
    look: Callable[[], None]
    """Asked now and then: what it raises ends the wait."""


class Rank:
    """`node`, its `clock` and `calls`, and what is under way between calls."""

    __slots__ = (
        "active", "calls", "clock", "eager_limit_bytes", "interrupts", "kept", "kept_spans",
        "matched", "meeting_places", "messaging", "node", "persistent", "states", "unattended",
        "unattended_lock", "waits",
    )  # fmt: skip

    node: Node
    clock: CpuClock
    calls: MpiCalls
    messaging: Any
    """The pw_messaging of C; NULL once the node is down."""
    eager_limit_bytes: int
    """Longest message that rides in its envelope."""
    states: States
    """What each communicator has, by its handle."""
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
    kept_spans: list[Any]
    """Buffers of calls that were left by an exception while the NI used them."""

    interrupts: dict[int, BaseException]
    """What a signal handler raised while its thread waited in C, by the thread's number."""
    waits: dict[int, Wait]
    """What threads wait for in C that is no operation, by the thread's number."""

    def open(self, node: Node, messaging: Any) -> None:
        """From now on the rank is there; the families of calls add their parts."""
        self.node = node
        self.clock = node.clock
        self.calls = node.mpi_calls
        self.messaging = messaging
        self.eager_limit_bytes = node.config.run.eager_limit_bytes
        self.active = {}
        self.interrupts = {}
        self.waits = {}
        self.unattended = []
        self.unattended_lock = Lock()
        self.meeting_places = {}
        self.kept = set()
        self.kept_spans = []

    @property
    def is_open(self) -> bool:
        """There is a node."""
        return hasattr(self, "node")

    if not TYPE_CHECKING:  # a checker would take any name for one that is there

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"the rank has no '{name}' yet: MPI is not initialized")

    def failure(self, code: int, what: str) -> BaseException:
        """The exception for a negative code of C: what Python raised meanwhile, MPI's, or the
        engine's."""
        interrupt = self.interrupts.pop(get_ident(), None)
        if interrupt is not None:
            return interrupt
        mpi_error = lib.pw_call_mpi_error(self.messaging)
        if mpi_error:
            from mpi4py import MPI

            return MPI.Exception(mpi_error)
        return self.node.failure(code, what)

    def keep(self, operation: Any) -> None:
        """Hold an operation that nobody waits for until it is complete."""
        with self.unattended_lock:
            self.unattended[:] = [other for other in self.unattended if not other.poll()]
            self.unattended.append(operation)


here = Rank()
