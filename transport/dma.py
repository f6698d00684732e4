"""User-initiated DMA between the ranks of an MPI program: `open` gives this rank's library.

Buffers belong to a rank, their owner, and any rank may allocate them; transfers go from buffer to
buffer, and from and to memory. A submitter starts them in the order of their requests
(docs/unimem.md). The names are those of ExaNoDe's library. A rank's submitter and its kernel move
only while the rank is inside a call of MPI or of this library; callbacks are called by calls of
this library. A rank that others still ask must not finish: end with a barrier. Not for
several threads of a rank.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.native import EngineError, error_of, ffi, lib
from pagewire.transport import gsas
from pagewire.transport.facade import here
from pagewire.unimem.gsas import NODE_SHIFT

__all__ = ["Buffer", "Dma", "Status", "open"]

Callback = Callable[[int, "Status"], object]
"""Called once with a transfer's id when it is over; may submit others."""


class Status(enum.IntEnum):
    """State of a transfer."""

    PENDING = lib.UNIM_DMA_PENDING
    """The submitter has not started it."""
    STARTED = lib.UNIM_DMA_STARTED
    COMPLETED = lib.UNIM_DMA_COMPLETED
    FAILED = lib.UNIM_DMA_FAILED


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
        made = ffi.new("unim_dma **")
        here.node.check(lib.unim_dma_init(memory.c, made), "DMA library")
        self._dma = made[0]  # as long as the process
        self._told: set[Any] = set()
        """Handles of (this, callback, memory that must stay) for transfers of which C tells."""
        self._num_arrays: dict[int, int] = {}
        """Arrays that are alive, by the buffer's id."""

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
        return self._buffer(lambda: lib.unim_alloc_buf_r(self._dma, size, node), what)

    def get_buf(self, id: int) -> Buffer:
        """A buffer by its id, whichever rank has allocated it; its owner is asked when this rank
        does not know it."""
        what = f"buffer {id:#x}"
        _check_range(what, "id", id, 2**64)
        return self._buffer(lambda: lib.unim_get_buf(self._dma, id), what)

    def free_buf(self, buffer: Buffer) -> None:
        """Give it back, by any rank that knows it: what others do with it then fails."""
        num_arrays = self._num_arrays.get(buffer.id, 0)
        if num_arrays:
            raise ValueError(
                f"free of buffer {buffer.id:#x}: {num_arrays} arrays of its memory are alive; "
                "delete them first"
            )
        what = f"buffer {buffer.id:#x}"
        self._ask(lambda: int(lib.unim_free_buf(self._dma, _c_of(buffer))), what)

    def get_memory(self, buffer: Buffer) -> NDArray[np.uint8]:
        """unim_buf_get_memory: the memory of a buffer, to read and write, which takes no virtual
        time. Of another rank: the first time its kernel is asked, and its memory mapped here; both
        ranks see the same bytes. EngineError: it was freed, or that rank is on another host. Not to
        be used when another rank has freed the buffer."""
        memory = self._found(
            lambda: lib.unim_buf_get_memory(self._dma, _c_of(buffer)),
            f"memory of buffer {buffer.id:#x}",
        )
        id = buffer.id
        self._num_arrays[id] = self._num_arrays.get(id, 0) + 1

        def gone(_memory: Any) -> None:
            self._num_arrays[id] -= 1

        return np.frombuffer(ffi.buffer(ffi.gc(memory, gone), buffer.num_bytes), np.uint8)

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
        ends = _c_of(src), _c_of(dst), src_off, dst_off
        return self._submit(lib.unim_dma_submit_transfer, ends, (src_off, dst_off), size, callback)

    def submit_transfer_from_mem(
        self, src: Any, dst: Buffer, dst_off: int = 0, callback: Callback | None = None
    ) -> int:
        """The same from anything with a buffer, which is copied before this returns."""
        memory = ffi.from_buffer(src)
        post, ends = lib.unim_dma_submit_transfer_from_mem, (memory, _c_of(dst), dst_off)
        return self._submit(post, ends, (dst_off,), len(memory), callback)

    def submit_transfer_to_mem(
        self, src: Buffer, dst: Any, src_off: int = 0, callback: Callback | None = None
    ) -> int:
        """The same to anything with a buffer that can be written, filled when it is over."""
        memory = ffi.from_buffer(dst, require_writable=True)
        post, ends = lib.unim_dma_submit_transfer_to_mem, (_c_of(src), memory, src_off)
        return self._submit(post, ends, (src_off,), len(memory), callback, kept=memory)

    def status(self, id: int) -> Status:
        """The transfer's state at this rank's virtual time, which looking moves."""
        return self._state(lib.unim_dma_status, id)

    def wait(self, id: int) -> Status:
        """Until the transfer is over: COMPLETED or FAILED, which it is too when its end is not
        known within `gsas.Rank.wall_limit_s`."""
        return self._state(lib.unim_dma_wait, id)

    def error(self, id: int) -> EngineError | None:
        """Why the transfer has failed; None while it has not."""
        _check_range("DMA transfer", "id", id, 2**64)
        code = lib.unim_dma_error(self._dma, id)
        if code == lib.PW_ERR_INVALID:
            raise here.failure(code, f"transfer {id}")
        return error_of(code, f"DMA transfer {id}") if code < 0 else None

    # ---- how

    def _state(self, look: Callable[..., int], id: int) -> Status:
        _check_range("DMA transfer", "id", id, 2**64)
        waits_for = f"DMA transfer {id}"
        return Status(
            self._memory.call(look, self._dma, id, what=f"transfer {id}", waits_for=waits_for)
        )

    def _ask(self, ask: Callable[[], int], what: str) -> None:
        """Let a kernel do something with a buffer."""
        limit_s = self._memory.wall_limit_s
        try:
            self._memory.call(ask, what=what, waits_for=f"the kernel of another rank: {what}")
        except EngineError as error:
            if error.code != lib.PW_ERR_UNRECOVERABLE:
                raise
            raise EngineError(
                error.code,
                f"{what}: its owner has not answered within {limit_s:g} s of wall time",
            ) from None

    def _found(self, ask: Callable[[], Any], what: str) -> Any:
        """What a kernel's answer leads to: a pointer of C."""
        found = ffi.NULL

        def asked() -> int:
            nonlocal found
            found = ask()
            return 0 if found else int(lib.pw_door_error(self._memory.door))

        self._ask(asked, what)
        return found

    def _buffer(self, ask: Callable[[], Any], what: str) -> Buffer:
        found = self._found(ask, what)
        id = int(lib.unim_get_buf_id(self._dma, found))
        return Buffer(id, int(lib.unim_buf_get_size(self._dma, found)), id >> NODE_SHIFT)

    def _submit(
        self,
        post: Callable[..., int],
        ends: tuple[Any, ...],
        offsets: tuple[int, ...],
        size: int,
        callback: Callback | None,
        *,
        kept: Any = None,
    ) -> int:
        what = f"transfer of {size} bytes"
        _check_range(what, "size", size, 2**64)
        for offset in offsets:
            _check_range(what, "offset", offset, 2**64)
        told = ffi.new_handle((self, callback, kept))
        end = (ffi.NULL, ffi.NULL)
        if callback is not None or kept is not None:
            end = (lib.pw_host_dma_ended, told)
            self._told.add(told)

        def posted() -> int:
            id = post(self._dma, *ends, size, *end)
            return int(id or lib.pw_door_error(self._memory.door))

        try:
            return self._memory.call(posted, what=what)
        except EngineError:
            self._told.discard(told)
            raise

    def ended(self, told: Any, callback: Callback | None, id: int, status: int) -> None:
        """A transfer of which C tells is over."""
        self._told.discard(told)
        if callback is not None:
            try:
                callback(id, Status(status))
            except BaseException as error:  # noqa: BLE001, the call that is under way raises it
                self._memory.fail(error)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def pw_host_dma_ended(id: int, status: int, arg: Any) -> None:
    dma, callback, _kept = ffi.from_handle(arg)
    dma.ended(arg, callback, id, status)


def _c_of(buffer: Buffer) -> Any:
    """Its handle in C, which is its id."""
    return ffi.cast("unim_buf *", buffer.id)


def _check_range(what: str, name: str, value: int, end: int) -> None:
    if not 0 <= value < end:
        raise ValueError(f"{what}: {name} = {value}: allowed is 0 to {end - 1}")
