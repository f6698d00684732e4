"""Memory that the ranks of an MPI program share: `open` gives this rank's view of it.

Each rank is a thread on a node of its own; the operations are those of `Gsas`
(docs/shared-memory.md). An owner's atomic service has a core of its own in virtual time; physically
it moves only while the rank is inside a call of MPI or of this library, as the RDMA library does. A
rank that others still ask must not finish: end with a barrier. Messages of 64 bits go by
`messages`. A remote fork starts a thread of Python in the process of the rank that is asked, with a
core and a clock of its own.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.run.settings.config import ConfigError
from pagewire.transport.facade import (
    Wait,
    activate,
    here,
    is_over_fabric,
    make_progress,
    turn,
    watch,
)
from pagewire.transport.rdma import in_library
from pagewire.unimem.gsas import Deny, Gsas, GsasError, NoAnswerError, Refusal
from pagewire.unimem.host import Host, Program, name_of

__all__ = ["Child", "Deny", "Gsas", "GsasError", "Rank", "RankThread", "Refusal", "open"]


@functools.cache
def open() -> Rank:
    """This rank's shared memory. Collective over COMM_WORLD at its first call, which comes before
    the rank's first transfer in pieces; the same object afterwards."""
    if is_over_fabric():
        raise ConfigError(
            "run.transport = 'fabric': shared memory needs the node above the MPI library; take "
            "run.transport = 'facade'"
        )
    activate()
    memory = Rank()
    MPI.COMM_WORLD.Barrier()  # nobody is asked before he can serve
    return memory


class RankThread(Gsas):
    """A thread of a rank's node: `Rank`, the program's own, or a `Child`. For one thread of
    Python each."""

    _rank: Rank
    c: Any
    """The unimem of C."""

    def _take(self, c: Any) -> None:
        self.c, self._unimem = c, lib.pw_thread_unimem(c)
        self.num_nodes, self.node = here.node.size, here.node.rank

    @property
    def now_ns(self) -> int:
        return int(lib.pw_thread_now_ns(self.c))

    @property
    def id(self) -> int:  # type: ignore[override]
        return int(lib.unimem_id(self.c))

    def _look(self, address: int, num_bytes: Any) -> Any:
        lib.pw_node_lock(here.node.c)
        memory = lib.pw_unimem_view(self._unimem, self.id, address, num_bytes)
        lib.pw_node_unlock(here.node.c)
        return memory

    def in_order(self) -> None:
        """Take and send what there is."""
        self._rank.call(lib.pw_thread_send_written, self.c, what="kernel mailbox")

    def spend(self, duration_ns: int, *, until_ns: int = 0) -> None:
        lib.pw_thread_spend(self.c, duration_ns, until_ns)

    def wait_for(self, ready: Callable[[], int | None]) -> None:
        """Turns of the node until ready() says when this thread goes on."""
        limit_s = self._rank.wall_limit_s
        end_s = None if limit_s is None else time.monotonic() + limit_s
        while (at_ns := ready()) is None:
            if not make_progress(self is self._rank):
                watch(lambda: "a message of the kernel mailbox")
            self._rank.raise_failure()
            if end_s is not None and time.monotonic() > end_s:
                raise NoAnswerError(f" within {limit_s:g} s of wall time")
        lib.pw_thread_completed(self.c, at_ns)

    def _ask(
        self, owner: int, opcode: int, address: int, first: int, second: int
    ) -> tuple[int, int]:
        answer = ffi.new("pw_unimem_answer *")
        is_here = self._rank.call(
            lib.pw_thread_ask, self.c, owner, opcode, address, first, second, answer,
            what="request to an atomic service", waits_for=f"the atomic service of node {owner}",
        )  # fmt: skip
        if not is_here:
            raise NoAnswerError(f" within {self._rank.wall_limit_s:g} s of wall time")
        return int(answer.error), int(answer.result)

    def _page(self) -> Any:
        return lib.pw_unimem_page(self._unimem, lib.pw_thread_interface(self.c))


class Rank(RankThread, Host):
    """A rank's shared memory and its messages; made by `open` alone."""

    def __init__(self) -> None:
        super().__init__([here.node.rank])
        self.host = self._rank = self
        self._children: list[Child] = []
        self._wall_limit_s: float | None = None
        door, made = ffi.new("pagewire_node **"), ffi.new("unimem **")
        here.node.check(lib.pw_call_open_door(here.messaging, door), "Unimem")
        self.door: Any = door[0]
        """The pagewire_node of C, as long as the process."""
        options = ffi.new("unimem_options *")
        options.struct_size = ffi.sizeof("unimem_options")
        options.spawn, options.context = lib.pw_host_unimem_spawn, self.places[here.node.rank]
        here.node.check(lib.unimem_create(self.door, options, made), "Unimem")
        self._take(made[0])

    @property
    def wall_limit_s(self) -> float | None:
        """Wall time after which a request, a message or a DMA transfer that nobody answers is given
        up; None: never, and run.watchdog tells of it."""
        return self._wall_limit_s

    @wall_limit_s.setter
    def wall_limit_s(self, limit_s: float | None) -> None:
        self._wall_limit_s = limit_s
        limit_ns = 0 if limit_s is None else max(1, round(limit_s * 1e9))
        lib.pw_thread_set_wall_limit(self.c, limit_ns)

    def call(
        self, function: Callable[..., int], *arguments: Any, what: str, waits_for: str = ""
    ) -> int:
        """A function of C that may wait: its result; raises what failed meanwhile."""
        thread = get_ident()
        before = here.waits.get(thread)
        here.waits[thread] = Wait(waits_for, self.raise_failure)
        try:
            code = function(*arguments)
        finally:
            if before is None:
                del here.waits[thread]
            else:
                here.waits[thread] = before
        if code < 0:
            raise here.failure(code, what)
        self.raise_failure()
        return code

    def compute(self, duration_ns: int) -> None:
        with in_library:
            here.clock.sleep(duration_ns)

    def wait_for(self, ready: Callable[[], int | None]) -> None:
        with in_library:
            super().wait_for(ready)

    def join(self) -> None:
        """Until what remote forks have started on this rank is over; raises the first error of it.
        Before MPI's Finalize; at the interpreter's end it is done anyway."""
        with in_library:
            while any(each.is_alive for each in self._children):
                turn(lambda: "threads that remote forks have started here")
                self.raise_failure()
        children, self._children = self._children, []
        for each in children:
            here.clock.reach(each.now_ns)
        for each in children:
            if each.error is not None:
                raise each.error

    def start_child(self, node: int, function: Program, argument: int, time_ns: int) -> int:
        """Called by C with the node locked."""
        made = ffi.new("unimem **")
        if lib.pw_thread_create(self.c, time_ns, made) < 0:
            return 0
        child = Child(self, ffi.gc(made[0], lib.pw_thread_destroy), function, argument)
        self._children.append(child)
        child.start()
        return child.id


class Child(RankThread):
    """A thread that a remote fork has started: what its function gets. Its clock is its own."""

    def __init__(self, rank: Rank, c: Any, function: Program, argument: int) -> None:
        self._take(c)
        self.argument = argument
        self.error: BaseException | None = None
        self.host = self._rank = rank
        self._function = function
        self._runner = threading.Thread(target=self._run, name=name_of(function))

    @property
    def is_alive(self) -> bool:
        return self._runner.is_alive()

    def start(self) -> None:
        """It runs."""
        self._runner.start()

    def _run(self) -> None:
        try:
            self._function(self)
        except BaseException as error:
            self.error = error
            raise  # told at once, and by `Rank.join`
        finally:
            lib.pw_thread_close(self.c)
