"""Memory that the ranks of an MPI program share: `open` gives this rank's view of it.

Each rank is a thread on a node of its own; the operations are those of `Gsas`
(docs/shared-memory.md). An owner's atomic service has a core of its own in virtual time; physically
it moves only while the rank is inside a call of MPI or of this library, as the RDMA library does. A
rank that others still ask must not finish: end with a barrier. Messages of 64 bits go by
`messages`. A remote fork starts a thread of Python in the process of the rank that is asked, with a
core and a clock of its own.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pagewire.native import check, ffi, lib
from pagewire.transport.facade.loader import activate, is_over_fabric
from pagewire.transport.facade.progress import progress, watch
from pagewire.transport.facade.rank import here
from pagewire.transport.settings.config import ConfigError
from pagewire.transport.unimem import forks
from pagewire.transport.unimem.gsas import (
    PAGE_BYTES,
    Deny,
    Gsas,
    GsasError,
    NoAnswerError,
    Program,
    Refusal,
)
from pagewire.transport.unimem.kernel_mailbox import KernelMailbox

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
def _locked() -> Iterator[None]:
    """This thread alone works with the node."""
    lib.pw_node_lock(here.node.c)
    try:
        yield
    finally:
        lib.pw_node_unlock(here.node.c)


class RankThread(Gsas):
    """A thread of a rank's node: `Rank`, the program's own, or a `Child`. For one thread of
    Python each."""

    _rank: Rank
    _interface: int

    @property
    def num_nodes(self) -> int:
        return here.node.size

    @property
    def node(self) -> int:
        return here.node.rank

    @property
    def id(self) -> int:
        """Unique in the system; the hardware puts it into every packet."""
        return int(lib.pw_unimem_id(self._rank.unimem, self._interface))

    @property
    def messages(self) -> KernelMailbox:
        """The 64-bit messages of this rank's node."""
        return KernelMailbox(self, self._rank.unimem)

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
        with _locked():
            memory = lib.pw_unimem_view(self._rank.unimem, self.id, address, num_bytes)
        if memory == ffi.NULL:
            raise GsasError(Refusal.NO_PAGE, f"view of {address:#018x} from node {self.node}")
        array = np.frombuffer(ffi.buffer(memory, num_bytes[0]), np.uint8)
        array.flags.writeable = False
        return array

    # ---- this thread's time

    @abc.abstractmethod
    def _call(self) -> contextlib.AbstractContextManager[None]:
        """Around what the library does for it."""

    @abc.abstractmethod
    def _reach(self, at_ns: int, *, completes: bool = False) -> None:
        """Its clock is not before at_ns; completes: what it has waited for."""

    @abc.abstractmethod
    def _progress(self) -> bool:
        """A turn of the node while it waits; True if anything happened."""

    # ---- for KernelMailbox

    def in_order(self) -> None:
        """Take and send what there is."""
        with self._call():
            progress(False)
            with _locked():
                check(lib.pw_unimem_send_written(self._rank.unimem, self.now_ns), "kernel mailbox")
        self._rank.raise_failure()

    def spend(self, duration_ns: int, *, until_ns: int = 0) -> None:
        """The clock goes on, and is not before until_ns."""
        self._reach(max(self.now_ns + duration_ns, until_ns))

    def wait_for(self, ready: Callable[[], int | None]) -> None:
        """Turns of the node until ready() says when this thread goes on."""
        with self._call():
            self._wait(ready, "a message of the kernel mailbox")

    # ---- requests

    def _wait(self, ready: Callable[[], int | None], what: str) -> None:
        limit_s = self._rank.wall_limit_s
        end_s = None if limit_s is None else time.monotonic() + limit_s
        while (at_ns := ready()) is None:
            if not self._progress():
                watch(lambda: what)
            self._rank.raise_failure()
            if end_s is not None and time.monotonic() > end_s:
                raise NoAnswerError(f" within {limit_s:g} s of wall time")
        self._reach(at_ns, completes=True)

    def _ask(
        self, owner: int, opcode: int, address: int, first: int, second: int
    ) -> tuple[int, int]:
        unimem, answer = self._rank.unimem, ffi.new("pw_unimem_answer *")
        code = 0

        def posted(post: Callable[..., int], *arguments: int) -> None:
            with _locked():
                at_ns = post(unimem, self._interface, *arguments, self.now_ns)
            if at_ns < 0:
                raise here.failure(at_ns, "request to an atomic service")
            self._reach(at_ns)

        def answered() -> int | None:
            nonlocal code
            with _locked():
                code = check(lib.pw_unimem_test(unimem, self._interface, answer), "response")
            return int(answer.complete_ns) if code else None

        with self._call():
            progress(False)  # who only looks at his own pages must see what others do to them
            posted(lib.pw_unimem_post, owner, opcode, address, first, second)
            try:
                self._wait(answered, f"the atomic service of node {owner}")
                while code == 2:
                    posted(lib.pw_unimem_post_again)
                    self._wait(answered, f"the atomic service of node {owner}")
            except NoAnswerError:
                with _locked():
                    lib.pw_unimem_forget(unimem, self._interface)
                    opened = lib.pw_unimem_open(unimem, False)
                self._interface = int(check(opened, "interface"))
                raise
        return int(answer.error), int(answer.result)

    def _page(self) -> bytes:
        page = lib.pw_unimem_page(self._rank.unimem, self._interface)
        return bytes(ffi.buffer(page, PAGE_BYTES))


class Rank(RankThread):
    """A rank's shared memory and its messages; made by `open` alone."""

    def __init__(self) -> None:
        self.wall_limit_s: float | None = None
        """Wall time after which a request, a message or a DMA transfer that nobody answers is given
        up; None: never, and run.watchdog tells of it."""
        self.functions: dict[str, Program] = {}
        """What remote forks have named here."""
        self.callbacks: dict[tuple[int, int], Callable[[int, int, int], None]] = {}
        """Of the kernel mailbox, by node and opcode."""
        self.handle: Any = ffi.new_handle((self, here.node.rank))
        """What C gives back in a callback."""
        self._rank = self
        self._children: list[Child] = []
        self._failure: BaseException | None = None
        made = ffi.new("pw_unimem_on_node **")
        with _locked():
            code = lib.pw_unimem_on_node_create(
                here.node.c, lib.pw_host_unimem_spawn, self.handle, made
            )
        if code < 0:
            raise here.node.failure(code, "Unimem")
        self.unimem = lib.pw_unimem_of_node(made[0])  # as long as the process
        self.dma: Any = lib.pw_dma_of_node(made[0])
        """What `pagewire.transport.dma` works with."""
        self._interface = int(check(lib.pw_unimem_open(self.unimem, False), "interface"))

    @property
    def now_ns(self) -> int:
        return here.clock.now_ns

    def compute(self, duration_ns: int) -> None:
        with self._call():
            here.clock.sleep(duration_ns)

    def join(self) -> None:
        """Until what remote forks have started on this rank is over; raises the first error of it.
        Before MPI's Finalize; at the interpreter's end it is done anyway."""
        with self._call():
            while any(each.is_alive for each in self._children):
                if not self._progress():
                    watch(lambda: "threads that remote forks have started here")
                self.raise_failure()
        children, self._children = self._children, []
        for each in children:
            here.clock.reach(max(here.clock.now_ns, each.now_ns))
        for each in children:
            if each.error is not None:
                raise each.error

    def spawn(self, _node: int, wanted: Any) -> int:
        """A remote fork, which C tells with the node locked: the child's id, 0: it cannot be."""
        name = ffi.string(wanted.name).decode(errors="replace")
        function = self.functions.get(name) or forks.find(name)
        interface = lib.pw_unimem_open(self.unimem, False) if function is not None else -1
        if function is None or interface < 0:
            return 0
        child = Child(self, int(interface), function, int(wanted.argument), int(wanted.at_ns))
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

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        here.clock.enter_rdma()
        try:
            yield
        finally:
            here.clock.leave()

    def _reach(self, at_ns: int, *, completes: bool = False) -> None:
        if completes:
            here.clock.completed(at_ns)
        else:
            here.clock.reach(at_ns)

    def _progress(self) -> bool:
        return progress(True)


class Child(RankThread):
    """A thread that a remote fork has started: what its function gets. Its clock is its own."""

    def __init__(
        self, rank: Rank, interface: int, function: Program, argument: int, start_ns: int
    ) -> None:
        self.argument = argument
        """readThreadArgument: what the parent gave."""
        self.error: BaseException | None = None
        self._rank = rank
        self._interface = interface
        self._function = function
        self._now_ns = start_ns
        self._runner = threading.Thread(target=self._run, name=forks.name_of(function))

    @property
    def now_ns(self) -> int:
        return self._now_ns

    @property
    def is_alive(self) -> bool:
        return self._runner.is_alive()

    def compute(self, duration_ns: int) -> None:
        if duration_ns < 0:
            raise ValueError(f"compute for {duration_ns} ns: allowed is 0 and more")
        self._now_ns += duration_ns

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
            with _locked():
                lib.pw_unimem_close(self._rank.unimem, self._interface)

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        yield

    def _reach(self, at_ns: int, *, completes: bool = False) -> None:
        self._now_ns = max(self._now_ns, at_ns)

    def _progress(self) -> bool:
        """The rank's own CPU does not wait: its NI goes on to its clock."""
        return progress(False)
