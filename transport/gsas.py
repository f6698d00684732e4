"""Memory that the ranks of an MPI program share: `open` gives this rank's view of it.

Each rank is a thread on a node of its own; the operations are those of `Gsas` (docs/unimem.md). An
owner's atomic service has a core of its own in virtual time; physically it moves only while the
rank is inside a call of MPI or of this library, as the RDMA library does. A rank that others still
ask must not finish: end with a barrier. Messages of 64 bits go by `messages`. Not for several
threads of a rank; no remote fork here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from pagewire.native import check, ffi, lib
from pagewire.transport.facade.loader import activate, is_over_fabric
from pagewire.transport.facade.progress import progress, turn
from pagewire.transport.facade.rank import here
from pagewire.transport.settings.config import ConfigError
from pagewire.transport.unimem.gsas import PAGE_BYTES, Deny, Gsas, GsasError, Refusal
from pagewire.transport.unimem.kernel_mailbox import KernelMailbox

__all__ = ["Deny", "Gsas", "GsasError", "Rank", "Refusal", "open"]


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


class Rank(Gsas):
    """A rank's shared memory and its messages; made by `open` alone."""

    def __init__(self) -> None:
        made = ffi.new("pw_unimem_on_node **")
        node = here.node.c
        lib.pw_node_lock(node)
        code = lib.pw_unimem_on_node_create(node, ffi.NULL, ffi.NULL, made)
        lib.pw_node_unlock(node)
        if code < 0:
            raise here.node.failure(code, "Unimem")
        self._unimem = lib.pw_unimem_of_node(made[0])  # as long as the process
        self.dma: Any = lib.pw_dma_of_node(made[0])
        """What `pagewire.transport.dma` works with."""
        self._interface = int(check(lib.pw_unimem_open(self._unimem, False), "interface"))
        self.callbacks: dict[tuple[int, int], Callable[[int, int, int], None]] = {}
        """Of the kernel mailbox, by node and opcode."""
        self.place: Any = ffi.new_handle((self, here.node.rank))
        """What C gives back in a callback."""
        self._failure: BaseException | None = None

    @property
    def num_nodes(self) -> int:
        return here.node.size

    @property
    def node(self) -> int:
        return here.node.rank

    @property
    def now_ns(self) -> int:
        return here.clock.now_ns

    @property
    def messages(self) -> KernelMailbox:
        """The 64-bit messages of this rank's node."""
        return KernelMailbox(self, self._unimem)

    def fail(self, error: BaseException) -> None:
        """A callback has failed: the next use of messages raises its exception."""
        self._failure = self._failure or error

    def in_order(self) -> None:
        """Take and send what there is."""
        here.clock.enter_rdma()
        try:
            progress(False)
            check(lib.pw_unimem_send_written(self._unimem, here.clock.now_ns), "kernel mailbox")
        finally:
            here.clock.leave()
        self._raise_failure()

    def spend(self, duration_ns: int, *, until_ns: int = 0) -> None:
        """The clock goes on, and is not before until_ns."""
        here.clock.reach(max(here.clock.now_ns + duration_ns, until_ns))

    def wait_for(self, ready: Callable[[], int | None]) -> None:
        """Turns of the node until ready() says when this rank goes on."""
        here.clock.enter_rdma()
        try:
            while (at_ns := ready()) is None:
                turn(lambda: "a message of the kernel mailbox")
                self._raise_failure()
            here.clock.completed(at_ns)
        finally:
            here.clock.leave()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def compute(self, duration_ns: int) -> None:
        here.clock.enter_rdma()
        try:
            here.clock.sleep(duration_ns)
        finally:
            here.clock.leave()

    def _ask(
        self, owner: int, opcode: int, address: int, first: int, second: int
    ) -> tuple[int, int]:
        answer = ffi.new("pw_unimem_answer *")
        here.clock.enter_rdma()
        try:
            self._posted(
                lib.pw_unimem_post(
                    self._unimem, self._interface, owner, opcode, address, first, second,
                    here.clock.now_ns,
                )
            )  # fmt: skip
            while (code := lib.pw_unimem_test(self._unimem, self._interface, answer)) != 1:
                check(code, "response")
                if code == 2:
                    here.clock.completed(int(answer.complete_ns))
                    now_ns = here.clock.now_ns
                    self._posted(lib.pw_unimem_post_again(self._unimem, self._interface, now_ns))
                turn(lambda: f"the atomic service of node {owner}")
            here.clock.completed(int(answer.complete_ns))
        finally:
            here.clock.leave()
        return int(answer.error), int(answer.result)

    def _posted(self, posted_ns: int) -> None:
        if posted_ns < 0:
            raise here.failure(posted_ns, "request to an atomic service")
        here.clock.reach(posted_ns)

    def _page(self) -> bytes:
        return bytes(ffi.buffer(lib.pw_unimem_page(self._unimem, self._interface), PAGE_BYTES))
