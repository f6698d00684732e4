"""The RDMA engine's user library: one-sided writes and reads between ranks, without MPI for the
data.

As the library of the emulated machine [R5 2.3.3, 3.2.1]: allocate a buffer that the NI may use,
open a channel, insert a descriptor with a completion notification, trigger, poll. What a peer must
know, a buffer's `remote` and a notification's `remote`, goes to it once, by MPI for example.

A rank's NI moves only while the rank is inside a call of MPI or of this library, as with blocking
one-sided MPI: a target that computes for long keeps its peers waiting (in wall time, not in virtual
time). Reading a notification's words from memory takes no virtual time and may see what arrives
later in it, so look with `Notification.poll` or `wait`. Not for several threads of a rank.
Transfers that nobody waited for before MPI is finalized may be lost.
"""

from __future__ import annotations

import enum
import heapq
import mmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pagewire.native import EngineError, check, error_of, ffi, lib
from pagewire.r5sched.scheduling import WINDOW_MAX, Hint
from pagewire.transport.facade import (
    HeldChannel,
    Notice,
    activate,
    failed_test,
    here,
    test_turn,
    turn,
    watch,
)

MAX_BYTES = 2**32 - 1
"""A descriptor's size field has 32 bits."""
NOTIFICATION_BYTES = int(lib.PW_NOTIFICATION_BYTES)
NUM_CHANNELS = int(lib.PW_WRITE_CHANNELS)

_BLOCK_BYTES = int(lib.PW_BLOCK_BYTES)


class _InLibrary:
    """What the CPU does within is no compute."""

    def __enter__(self) -> None:
        here.clock.enter_rdma()

    def __exit__(self, *_error: object) -> None:
        here.clock.leave()


in_library = _InLibrary()


class Status(enum.Enum):
    """State of the transfer that was triggered last."""

    FINISHED = lib.PW_CHANNEL_FINISHED
    ONGOING = lib.PW_CHANNEL_ONGOING
    PAUSED = lib.PW_CHANNEL_PAUSED
    """Without error: a block waits for its page."""
    FAILED = lib.PW_CHANNEL_FAILED
    """Finished with error; the channel's `error` tells which."""


_STATUSES = (None, *Status)
"""By their numbers."""


def _whole(number: Any) -> int:
    """Of 64 bits without sign; OverflowError, TypeError: it is none."""
    return int(ffi.new("uint64_t *", number)[0])


class RemoteBuffer(NamedTuple):
    """What a peer needs to know of a buffer; can be sent as an object."""

    rank: int
    address: int
    num_bytes: int
    key: int
    """A read needs it, unless the owner's `ni.reads_without_key` is on; a write where its
    `ni.write_keys` says so. With 0 the protection domain alone guards."""


class RemoteNotification(NamedTuple):
    """What a peer needs to know of a notification; can be sent as an object."""

    rank: int
    address: int


class Buffer:
    """Zeroed memory of its own pages that this rank's NI and, by `remote`, its peers may use.

    `array` is the memory as uint8, aligned to a block (16 KB). Nothing is pinned unless
    `run.memory` says so; it is pinned or touched once, here. Alive until `free`, which must wait
    until no peer uses it any more.
    """

    def __init__(self, num_bytes: int) -> None:
        if not 0 < num_bytes <= MAX_BYTES:
            raise ValueError(f"buffer of {num_bytes} bytes: allowed is 1 to {MAX_BYTES}")
        # Private: mmap's own default would share the pages with children.
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        whole = np.frombuffer(mmap.mmap(-1, num_bytes + _BLOCK_BYTES, flags=private), np.uint8)
        skew = -whole.ctypes.data % _BLOCK_BYTES  # blocks end alike in every run
        self.array: NDArray[np.uint8] = whole[skew : skew + num_bytes]
        self.address: int = self.array.ctypes.data
        self.num_bytes = num_bytes
        activate()
        with in_library:
            here.clock.work(here.node.platform.table("mmap").cost_ns(num_bytes))
            self._prepared = here.node.acquire(self.address, num_bytes)
            key = ffi.new("uint64_t *")
            check(
                lib.pw_ni_register(
                    here.node.engine.ni,
                    self.address,
                    num_bytes,
                    lib.PW_REMOTE_READ | lib.PW_REMOTE_WRITE,
                    key,
                ),
                "registration",
            )
        self.remote = RemoteBuffer(here.node.rank, self.address, num_bytes, key[0])
        here.kept.add(self)

    def view(self, dtype: DTypeLike, offset: int = 0, count: int = -1) -> NDArray[Any]:
        """The memory from `offset` on as an array of another type."""
        return np.frombuffer(self.array, dtype, count, offset)

    def free(self) -> None:
        """Take the peers' permission to use it back. The pages go when no array refers to them."""
        if self not in here.kept:
            raise ValueError("the buffer has been freed before")
        here.kept.remove(self)
        with in_library:
            check(lib.pw_ni_unexpose(here.node.engine.ni, self.remote.key), "buffer")
            here.node.release(self._prepared)
            here.clock.work(here.node.platform.table("munmap").cost_ns(self.num_bytes))
            here.node.unmapped(self.address, self.num_bytes)
        del self.array


class Notification:
    """Two words of a buffer that a transfer writes when all of its data have arrived.

    Make it before a peer gets its `remote`. offset: multiple of 16 in the buffer.
    """

    def __init__(self, buffer: Buffer, offset: int) -> None:
        if offset % NOTIFICATION_BYTES or not 0 <= offset <= buffer.num_bytes - NOTIFICATION_BYTES:
            raise ValueError(
                f"notification at offset {offset}: allowed is a multiple of {NOTIFICATION_BYTES} "
                f"up to {buffer.num_bytes - NOTIFICATION_BYTES} in this buffer"
            )
        self.remote = RemoteNotification(here.node.rank, buffer.address + offset)
        self._notices = here.node.notices.watch(self.remote.address)

    def poll(self) -> Notice | None:
        """The earliest notification that has arrived and was not returned before."""
        with in_library:
            test_turn()
            if self._notices and self._notices[0].time_ns <= here.clock.now_ns:
                return self._take()
            failed_test(bool(self._notices))
            return None

    def wait(self) -> Notice:
        """The same, once it is there; EngineError when the transfer ended with an error."""
        with in_library:
            while not self._notices:
                turn(self._describe)
            return self._take()

    def _describe(self) -> str:
        return f"a completion notification at {self.remote.address:#x}"

    def _take(self) -> Notice:
        notice = heapq.heappop(self._notices)
        here.clock.completed(notice.time_ns)
        check(notice.error, f"transfer of rank {notice.rank} that was to notify")
        return notice

    def close(self) -> None:
        """Forget it: notifications that arrive from now on are not kept."""
        here.node.notices.unwatch(self.remote.address)


class _Transfers(HeldChannel):
    """Insert, trigger, poll: what both kinds of channel have in common."""

    @property
    def _c(self) -> Any:
        """The pw_one_sided."""
        if not here.messaging:
            raise ValueError("the RDMA library is down: MPI has been finalized")
        return ffi.cast("pw_one_sided *", self._address)

    def _put_in(self, *what: Any) -> None:
        """Insert; what: as HeldChannel._insert has it."""
        code = self._insert(*what)
        if code is NotImplemented:
            code = self._insert(*self._checked(*what))
        if code:
            raise here.failure(code, "insert")

    def _checked(
        self,
        local: Buffer,
        local_offset: int,
        remote: RemoteBuffer,
        remote_offset: int,
        num_bytes: int | None,
        notification: RemoteNotification | None,
        first_data: int,
        last_data: int,
        hint: int,
        window_blocks: int,
    ) -> tuple[Any, ...]:
        """The same with Python's own ints, where they are in their ranges."""
        c = self._c
        hint = Hint(hint)
        if c.handle and not c.handle.done:
            raise ValueError("the channel has a transfer that is not finished: wait for it first")
        if num_bytes is None:
            num_bytes = min(local.num_bytes - local_offset, remote.num_bytes - remote_offset)
        if not 0 < num_bytes <= MAX_BYTES:
            raise ValueError(f"transfer of {num_bytes} bytes: allowed is 1 to {MAX_BYTES}")
        for what, offset, limit in (
            ("local", local_offset, local.num_bytes),
            ("remote", remote_offset, remote.num_bytes),
        ):
            if offset < 0 or offset + num_bytes > limit:
                raise ValueError(
                    f"transfer of {num_bytes} bytes at offset {offset} of the {what} buffer: "
                    f"it has {limit} bytes"
                )
        if not 0 <= remote.rank < here.node.size:
            raise ValueError(
                f"remote buffer of rank {remote.rank}: there are {here.node.size} ranks"
            )
        is_write = c.number != lib.PW_ONE_SIDED_READS
        if is_write and notification is not None and notification.rank != remote.rank:
            raise ValueError(
                f"notification at rank {notification.rank} of a write to rank {remote.rank}: "
                "it must be the same rank"
            )
        return (
            local, _whole(local_offset), tuple(map(_whole, remote)), _whole(remote_offset),
            _whole(num_bytes), notification and tuple(map(_whole, notification)),
            _whole(first_data), _whole(last_data), hint, _whole(window_blocks),
        )  # fmt: skip

    def trigger(self) -> None:
        """Start what was inserted."""
        code = self._start()
        if code is NotImplemented:
            raise ValueError("nothing to trigger: insert a descriptor first")
        if code:
            raise here.failure(code, "trigger")

    def poll(self) -> Status:
        """State of the transfer that was triggered last, at this rank's virtual time."""
        return self._status(self._look())

    def wait(self) -> Status:
        """Poll until the transfer is finished, with or without error."""
        code = self._finish(False)
        if code == 0:
            code = self._finish_watched()
        return self._status(code)

    def _finish_watched(self) -> int:
        """It takes long: signal handlers run, and the watchdog looks."""
        try:
            while not (code := self._finish(True)):
                watch(self._describe)
        except BaseException:
            here.clock.leave()
            raise
        return code

    def _status(self, code: int) -> Status:
        if code is NotImplemented and self._c.is_inserted:
            raise ValueError("the channel has a new descriptor: trigger it first")
        if code is NotImplemented:
            raise ValueError("nothing was triggered on this channel")
        if code < 0:
            raise here.failure(code, self._describe())
        return _STATUSES[code]

    @property
    def error(self) -> EngineError | None:
        """Why the transfer that was triggered last has failed; None while it has not."""
        handle = self._c.handle
        if not handle:
            raise ValueError("nothing was triggered on this channel")
        if not handle.done or not handle.error:
            return None
        return error_of(handle.error, f"transfer with rank {handle.peer}")

    def _describe(self) -> str:
        return f"a transfer of {self._c.descriptor.transfer_bytes} bytes with rank {self._c.peer}"


class Channel(_Transfers):
    """One of the 32 write channels of this rank's scratchpad page, until `close`."""

    def __init__(self) -> None:
        activate()
        channel = lib.pw_ni_open_channel(here.node.engine.ni, here.node.engine.pdid)
        if channel == lib.PW_ERR_FULL:
            raise EngineError(
                channel,
                f"no free channel: a process has {NUM_CHANNELS} write channels, all are taken; "
                "close one or wait for a transfer",
            )
        self.number = check(channel, "channel")
        # The done flag lies in the scratchpad.
        super().__init__(here.node.platform.costs.core_register_read_ns, self.number)

    def insert(
        self,
        source: Buffer,
        destination: RemoteBuffer,
        num_bytes: int | None = None,
        *,
        source_offset: int = 0,
        destination_offset: int = 0,
        notification: RemoteNotification | None = None,
        first_data: int = 0,
        last_data: int = 0,
        hint: Hint = Hint.NONE,
        window_blocks: int | None = None,
    ) -> None:
        """Put the descriptor of a write into the channel; offsets in bytes, as they are wanted.

        num_bytes: all that fits when not given. notification: of the destination's rank; the two
        words of data, unsigned, appear there with the transfer's end. hint: class of the transfer,
        by size when NONE. window_blocks: 1 to 64, `firmware.window_blocks` when not given. A
        scheduling policy is asked when neither is.
        """
        if window_blocks is not None and not 1 <= window_blocks <= WINDOW_MAX:
            raise ValueError(f"window of {window_blocks} blocks: allowed is 1 to {WINDOW_MAX}")
        self._put_in(
            source, source_offset, destination, destination_offset, num_bytes, notification,
            first_data, last_data, hint, window_blocks or 0,
        )  # fmt: skip

    def close(self) -> None:
        """Give the channel back. EngineError while its transfer goes on."""
        check(
            lib.pw_ni_close_channel(here.node.engine.ni, self.number),
            "close of a channel that is in use",
        )


class ReadChannel(_Transfers):
    """Reads: a request goes through the packetizer to the peer, whose R5 claims one of its 32 read
    channels for it; when none is free the request waits there. So none is taken here, and a block
    that waits for its page cannot be told from one under way: PAUSED is never seen."""

    def __init__(self) -> None:
        activate()
        super().__init__(here.node.platform.costs.poll_ns)

    def insert(
        self,
        source: RemoteBuffer,
        destination: Buffer,
        num_bytes: int | None = None,
        *,
        source_offset: int = 0,
        destination_offset: int = 0,
        notification: Notification | None = None,
        first_data: int = 0,
        last_data: int = 0,
    ) -> None:
        """Prepare the request; as `Channel.insert`, with the notification on this rank."""
        self._put_in(
            destination, destination_offset, source, source_offset, num_bytes,
            notification.remote if notification else None, first_data, last_data, Hint.NONE, 0,
        )  # fmt: skip


__all__ = [
    "Buffer",
    "Channel",
    "Notice",
    "Notification",
    "ReadChannel",
    "RemoteBuffer",
    "RemoteNotification",
    "Status",
]
