"""Memory that the ranks of an MPI program share: `open` gives this rank's view of it.

Each rank is a thread on a node of its own; the operations are those of `Gsas`
(docs/shared-memory.md). An owner's atomic service has a core of its own in virtual time; physically
it moves only while the rank is inside a call of MPI or of this library, as the RDMA library does. A
rank that others still ask must not finish: end with a barrier. Messages of 64 bits go by
`messages`. A remote fork starts a thread of Python in the process of the rank that is asked, with a
core and a clock of its own.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

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
from pagewire.unimem import forks
from pagewire.unimem.gsas import (
    PAGE_BYTES,
    Deny,
    Gsas,
    GsasError,
    NoAnswerError,
    Program,
    Refusal,
)
from pagewire.unimem.kernel_mailbox import KernelMailbox

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


@contextlib.contextmanager
def _in_library() -> Iterator[None]:
    """What the CPU does here is no compute."""
    here.clock.enter_rdma()
    try:
        yield
    finally:
        here.clock.leave()


class RankThread(Gsas):
    """A thread of a rank's node: `Rank`, the program's own, or a `Child`. For one thread of
    Python each."""

    _rank: Rank
    c: Any
    """The unimem of C."""

    @property
    def num_nodes(self) -> int:
        return here.node.size

    @property
    def node(self) -> int:
        return here.node.rank

    @property
    def now_ns(self) -> int:
        return int(lib.pw_thread_now_ns(self.c))

    @property
    def id(self) -> int:
        """Unique in the system; the hardware puts it into every packet."""
        return int(lib.unimem_id(self.c))

    @property
    def messages(self) -> KernelMailbox:
        """The 64-bit messages of this rank's node."""
        return KernelMailbox(self, lib.pw_thread_unimem(self.c))

    @property
    def place(self) -> Any:
        """What C gives back in a callback."""
        return self._rank.handle

    def fork(self, function: Program, argument: int = 0, *, node: int | None = None) -> int:
        """Run function(thread) on the rank, with `argument` in its thread, a `Child`; its id. The
        function is found there by its name: it stands at the top of a module, the program's own or
        one that can be imported."""
        name = forks.name_of(function)
        self._rank.functions[name] = function
        return self._fork(name, argument, self.node if node is None else node)

    def view(self, address: int) -> NDArray[np.uint8]:
        """This rank's own shared memory from the address to the end of its allocation, live and
        read-only; reading it is no operation and takes no time."""
        num_bytes = ffi.new("uint64_t *")
        lib.pw_node_lock(here.node.c)
        unimem = lib.pw_thread_unimem(self.c)
        memory = lib.pw_unimem_view(unimem, self.id, address, num_bytes)
        lib.pw_node_unlock(here.node.c)
        if memory == ffi.NULL:
            raise GsasError(Refusal.NO_PAGE, f"view of {address:#018x} from node {self.node}")
        array = np.frombuffer(ffi.buffer(memory, num_bytes[0]), np.uint8)
        array.flags.writeable = False
        return array

    # ---- for KernelMailbox

    def in_order(self) -> None:
        """Take and send what there is."""
        self._rank.call(lib.pw_thread_send_written, self.c, what="kernel mailbox")

    def spend(self, duration_ns: int, *, until_ns: int = 0) -> None:
        """The clock goes on, and is not before until_ns."""
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

    # ---- requests

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

    def _page(self) -> bytes:
        page = lib.pw_unimem_page(lib.pw_thread_unimem(self.c), lib.pw_thread_interface(self.c))
        return bytes(ffi.buffer(page, PAGE_BYTES))


class Rank(RankThread):
    """A rank's shared memory and its messages; made by `open` alone."""

    def __init__(self) -> None:
        self.functions: dict[str, Program] = {}
        """What remote forks have named here."""
        self.callbacks: dict[tuple[int, int], Callable[[int, int, int], None]] = {}
        """Of the kernel mailbox, by node and opcode."""
        self.handle: Any = ffi.new_handle((self, here.node.rank))
        """What C gives back in a callback."""
        self._rank = self
        self._children: list[Child] = []
        self._failure: BaseException | None = None
        self._wall_limit_s: float | None = None
        door, made = ffi.new("pagewire_node **"), ffi.new("unimem **")
        here.node.check(lib.pw_call_open_door(here.messaging, door), "Unimem")
        self.door: Any = door[0]
        """The pagewire_node of C, as long as the process."""
        options = ffi.new("unimem_options *")
        options.struct_size = ffi.sizeof("unimem_options")
        options.spawn, options.context = lib.pw_host_unimem_spawn, self.handle
        here.node.check(lib.unimem_create(self.door, options, made), "Unimem")
        self.c = made[0]

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
        with _in_library():
            here.clock.sleep(duration_ns)

    def wait_for(self, ready: Callable[[], int | None]) -> None:
        with _in_library():
            super().wait_for(ready)

    def join(self) -> None:
        """Until what remote forks have started on this rank is over; raises the first error of it.
        Before MPI's Finalize; at the interpreter's end it is done anyway."""
        with _in_library():
            while any(each.is_alive for each in self._children):
                turn(lambda: "threads that remote forks have started here")
                self.raise_failure()
        children, self._children = self._children, []
        for each in children:
            here.clock.reach(each.now_ns)
        for each in children:
            if each.error is not None:
                raise each.error

    def spawn(self, _node: int, wanted: Any) -> int:
        """A remote fork, which C tells with the node locked: the child's id, 0: it cannot be."""
        name = ffi.string(wanted.name).decode(errors="replace")
        function = self.functions.get(name) or forks.find(name)
        made = ffi.new("unimem **")
        if function is None or lib.pw_thread_create(self.c, wanted.time_ns, made) < 0:
            return 0
        child = Child(self, ffi.gc(made[0], lib.pw_thread_destroy), function, int(wanted.argument))
        self._children.append(child)
        child.start()
        return child.id

    def fail(self, error: BaseException) -> None:
        """What C has called has failed: the next use of the library raises its exception."""
        self._failure = self._failure or error

    def raise_failure(self) -> None:
        """Raise it."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


class Child(RankThread):
    """A thread that a remote fork has started: what its function gets. Its clock is its own."""

    def __init__(self, rank: Rank, c: Any, function: Program, argument: int) -> None:
        self.c = c
        self.argument = argument
        """readThreadArgument: what the parent gave."""
        self.error: BaseException | None = None
        self._rank = rank
        self._function = function
        self._runner = threading.Thread(target=self._run, name=forks.name_of(function))

    @property
    def is_alive(self) -> bool:
        return self._runner.is_alive()

    def compute(self, duration_ns: int) -> None:
        if duration_ns < 0:
            raise ValueError(f"compute for {duration_ns} ns: allowed is 0 and more")
        self.spend(duration_ns)

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
