"""User-initiated DMA between the ranks of an MPI program: `open` gives this rank's library.

Buffers belong to a rank, their owner, and any rank may allocate them; transfers go from buffer to
buffer, and from and to memory. A submitter starts them in the order of their requests
(docs/user-dma.md). The names are those of ExaNoDe's library. A rank's submitter and its kernel move
only while the rank is inside a call of MPI or of this library; callbacks are called by calls of
this library. A rank that others still ask must not finish: end with a barrier. Not for
several threads of a rank.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.native import EngineError, check, ffi, lib
from pagewire.transport import gsas
from pagewire.transport.facade.progress import failed_test, test_turn, turn
from pagewire.transport.facade.rank import here

__all__ = ["Buffer", "Dma", "Status", "open"]

Callback = Callable[[int, "Status"], object]
"""Called once with a transfer's id when it is over; may submit others."""


class Status(enum.IntEnum):
    """State of a transfer."""

    PENDING = lib.PW_DMA_PENDING
    """The submitter has not started it."""
    STARTED = lib.PW_DMA_STARTED
    COMPLETED = lib.PW_DMA_COMPLETED
    FAILED = lib.PW_DMA_FAILED


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer's name: good until it is freed; equal names are the same buffer."""

    id: int
    """Unique in the run; `Dma.get_buf` makes a Buffer of it at any rank."""
    num_bytes: int
    node: int
    """The owner."""


@functools.cache
def open() -> Dma:
    """unim_dma_init: this rank's library. Collective over COMM_WORLD at its first call, as
    `gsas.open`; the same object afterwards."""
    return Dma(gsas.open())


class Dma:
    """A rank's DMA library; made by `open` alone."""

    def __init__(self, memory: gsas.Rank) -> None:
        self._memory = memory
        self._dma = memory.dma
        self._check(lib.pw_dma_open(self._dma), "DMA library")
        self._callbacks: dict[int, Callback] = {}
        self._kept: dict[int, Any] = {}
        """Memory that transfers write, by their ids."""
        self._num_arrays: dict[int, int] = {}
        """Arrays that are alive, by the buffer's id."""
        self._is_telling = False
        self._id = ffi.new("uint64_t *")

    @property
    def node(self) -> int:
        """unim_dma_get_node: this rank."""
        return here.node.rank

    # ---- buffers

    def alloc_buf_l(self, size: int) -> Buffer:
        """A zeroed buffer of this rank."""
        return self.alloc_buf_r(size, self.node)

    def alloc_buf_r(self, size: int, node: int) -> Buffer:
        """A zeroed buffer of the rank `node`, whose kernel is asked."""
        what = f"buffer of {size} bytes at rank {node}"
        _check_range(what, "size", size, 2**64)
        _check_range(what, "node", node, here.node.size)
        post = functools.partial(lib.pw_dma_ask_allocate, self._dma, node, size, self._id)
        return self._buffer(self._ask(post, what))

    def get_buf(self, id: int) -> Buffer:
        """A buffer by its id, whichever rank has allocated it; its owner is asked when this rank
        does not know it."""
        what = f"buffer {id:#x}"
        _check_range(what, "id", id, 2**64)
        self._id[0] = id
        return self._buffer(self._ask(lambda: lib.pw_dma_ask_known(self._dma, id), what))

    def free_buf(self, buffer: Buffer) -> None:
        """Give it back, by any rank that knows it: what others do with it then fails."""
        num_arrays = self._num_arrays.get(buffer.id, 0)
        if num_arrays:
            raise ValueError(
                f"free of buffer {buffer.id:#x}: {num_arrays} arrays of its memory are alive; "
                "delete them first"
            )
        self._ask(lambda: lib.pw_dma_ask_free(self._dma, buffer.id), f"buffer {buffer.id:#x}")

    def get_memory(self, buffer: Buffer) -> NDArray[np.uint8]:
        """unim_buf_get_memory: the memory of a buffer of this rank, to read and write, which takes
        no virtual time. ValueError: it is another rank's, in another process. Not to be used when
        another rank has freed the buffer."""
        known = lib.pw_dma_find(self._dma, buffer.id)
        if known == ffi.NULL or known.node != self.node:
            why = "it was freed" if known == ffi.NULL else f"rank {known.node} has it"
            raise ValueError(
                f"memory of buffer {buffer.id:#x}: {why}; use submit_transfer_from_mem and "
                "submit_transfer_to_mem for buffers of others"
            )
        id = buffer.id
        self._num_arrays[id] = self._num_arrays.get(id, 0) + 1

        def gone(_memory: Any) -> None:
            self._num_arrays[id] -= 1

        memory = ffi.gc(ffi.cast("void *", known.address), gone)
        return np.frombuffer(ffi.buffer(memory, known.num_bytes), np.uint8)

    # ---- transfers

    def submit_transfer(
        self,
        src: Buffer,
        dst: Buffer,
        src_off: int = 0,
        dst_off: int = 0,
        size: int | None = None,
        callback: Callback | None = None,
    ) -> int:
        """Ask for a transfer from buffer to buffer; its id. size: all that fits when not given."""
        if size is None:
            size = min(src.num_bytes - src_off, dst.num_bytes - dst_off)
        return self._submit((src.id, src_off), (dst.id, dst_off), size, callback)

    def submit_transfer_from_mem(
        self, src: Any, dst: Buffer, dst_off: int = 0, callback: Callback | None = None
    ) -> int:
        """The same from anything with a buffer, which is copied before this returns."""
        memory = ffi.from_buffer(src)
        return self._submit(memory, (dst.id, dst_off), len(memory), callback)

    def submit_transfer_to_mem(
        self, src: Buffer, dst: Any, src_off: int = 0, callback: Callback | None = None
    ) -> int:
        """The same to anything with a buffer that can be written, filled when it is over."""
        memory = ffi.from_buffer(dst, require_writable=True)
        return self._submit((src.id, src_off), memory, len(memory), callback)

    def status(self, id: int) -> Status:
        """The transfer's state at this rank's virtual time, which looking moves."""
        here.clock.enter_rdma()
        try:
            test_turn()
            self._move()
            state = self._state(id)
            poll_ns = here.node.platform.costs.poll_ns
            if state in (Status.COMPLETED, Status.FAILED):
                here.clock.work(poll_ns)
            else:
                failed_test(self._complete_ns(id) is not None, poll_ns)
        finally:
            here.clock.leave()
        self._tell()
        return state

    def wait(self, id: int) -> Status:
        """Until the transfer is over: COMPLETED or FAILED, which it is too when its end is not
        known within `gsas.Rank.wall_limit_s`."""
        here.clock.enter_rdma()
        try:
            self._state(id)
            late = self._limit()
            while (complete_ns := self._complete_ns(id)) is None:
                turn(lambda: f"DMA transfer {id}")
                self._move()
                if late():
                    lib.pw_dma_give_up(self._dma, id)
            here.clock.completed(complete_ns)
            state = self._state(id)
        finally:
            here.clock.leave()
        self._tell()
        return state

    def error(self, id: int) -> EngineError | None:
        """Why the transfer has failed; None while it has not."""
        self._state(id)
        code = lib.pw_dma_error(self._dma, id)
        if not code:
            return None
        try:
            check(code, f"DMA transfer {id}")
        except EngineError as error:
            return error
        return None

    # ---- how

    def _check(self, code: int, what: str) -> int:
        return here.node.check(code, what)

    def _limit(self) -> Callable[[], bool]:
        """Says whether the wall time from now on that there is for a wait is over."""
        limit_s = self._memory.wall_limit_s
        if limit_s is None:
            return lambda: False
        end_s = time.monotonic() + limit_s
        return lambda: time.monotonic() > end_s

    def _move(self) -> None:
        self._check(lib.pw_dma_move(self._dma), "DMA transfers")

    def _state(self, id: int) -> Status:
        _check_range("DMA transfer", "id", id, 2**64)
        return Status(self._check(lib.pw_dma_state(self._dma, id), f"transfer {id}"))

    def _complete_ns(self, id: int) -> int | None:
        """None: not known yet."""
        at_ns = int(lib.pw_dma_complete_ns(self._dma, id))
        return None if at_ns == 2**63 - 1 else at_ns

    def _ask(self, post: Callable[[], int], what: str) -> int:
        """Let a kernel do something with a buffer, whose id is the result."""
        here.clock.enter_rdma()
        try:
            request = self._check(post(), what)
            late = self._limit()
            while request and not self._check(
                lib.pw_dma_answered(self._dma, request, self._id), what
            ):
                turn(lambda: f"the kernel of another rank: {what}")
                self._move()
                if late():
                    lib.pw_dma_forget(self._dma, request)
                    raise EngineError(
                        int(lib.PW_ERR_UNRECOVERABLE),
                        f"{what}: its owner has not answered within {self._memory.wall_limit_s:g} "
                        "s of wall time",
                    )
            id = int(self._id[0])
        finally:
            here.clock.leave()
        self._tell()
        return id

    def _buffer(self, id: int) -> Buffer:
        known = lib.pw_dma_find(self._dma, id)
        return Buffer(id, int(known.num_bytes), int(known.node))

    def _submit(
        self,
        source: tuple[int, int] | Any,
        destination: tuple[int, int] | Any,
        size: int,
        callback: Callback | None,
    ) -> int:
        what = f"transfer of {size} bytes"
        _check_range(what, "size", size, 2**64)
        ends = [_end(each, what) for each in (source, destination)]
        here.clock.enter_rdma()
        try:
            test_turn()
            self._move()
            tells = callback is not None or not isinstance(destination, tuple)
            code = lib.pw_dma_submit(self._dma, *ends, size, tells, self._id)
            self._check(code, what)
            id = int(self._id[0])
            if callback is not None:
                self._callbacks[id] = callback
            if not isinstance(destination, tuple):
                self._kept[id] = destination
        finally:
            here.clock.leave()
        self._tell()
        return id

    def _tell(self) -> None:
        """Call back for what is over; a call in a callback leaves it to the first one."""
        while not self._is_telling and (id := int(lib.pw_dma_take_ended(self._dma))):
            self._kept.pop(id, None)
            callback = self._callbacks.pop(id, None)
            if callback is None:
                continue
            self._is_telling = True
            try:
                callback(id, self._state(id))
            finally:
                self._is_telling = False


def _check_range(what: str, name: str, value: int, end: int) -> None:
    if not 0 <= value < end:
        raise ValueError(f"{what}: {name} = {value}: allowed is 0 to {end - 1}")


def _end(given: tuple[int, int] | Any, what: str) -> Any:
    end = ffi.new("pw_dma_end *")
    if isinstance(given, tuple):
        _check_range(what, "offset", given[1], 2**64)
        end.buffer, end.offset = given
    else:
        end.memory = ffi.cast("void *", given)
    return end
