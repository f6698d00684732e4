"""64-bit messages between kernels and processes of nodes [D3.6 3.2]; the opcode is the top 4 bits.

A device a node: `fileno()` is a real descriptor, for select, poll, epoll and os.read of 8 bytes.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Callable
from typing import Any, Protocol

from pagewire.native import check, ffi, lib

OPCODES = int(lib.PW_KERNEL_OPCODES)
OPCODE_SHIFT = int(lib.PW_KERNEL_OPCODE_SHIFT)
_MESSAGE = struct.Struct("=Qq")


def message(opcode: int, content: int = 0) -> int:
    """The 64 bits of a message with that opcode and 60 bits of content."""
    if opcode not in range(OPCODES) or not 0 <= content < 1 << OPCODE_SHIFT:
        raise ValueError(f"opcode {opcode}, content {content:#x}: allowed are 4 and 60 bits")
    return opcode << OPCODE_SHIFT | content


def opcode_of(value: int) -> int:
    return value >> OPCODE_SHIFT


class Owner(Protocol):
    """Whose callbacks they are, by node and opcode, and who is told when one fails."""

    callbacks: dict[tuple[int, int], Callable[[int, int, int], None]]

    def fail(self, error: BaseException) -> None: ...


class Thread(Protocol):
    """Who uses a mailbox: a thread of a `Machine`, or a rank of an MPI program."""

    @property
    def now_ns(self) -> int: ...

    @property
    def place(self) -> Any:
        """Handle of an Owner and the node's number."""

    def in_order(self) -> None:
        """Let everything come first that is earlier than this thread's clock."""

    def spend(self, duration_ns: int, *, until_ns: int = 0) -> None:
        """The clock goes on, and is not before until_ns."""

    def wait_for(self, ready: Callable[[], int | None]) -> None:
        """Others run until ready() says from which time on this thread goes on."""


class Device:
    """What comes from a node, and goes to it."""

    def __init__(self, thread: Thread, unimem: Any, node: int) -> None:
        self._thread = thread
        self._unimem = unimem
        self._node = node
        mailbox = lib.pw_unimem_kernel_mailbox(unimem)
        self._fd = int(check(lib.pw_kernel_mailbox_device(mailbox, node), f"device of node {node}"))

    def fileno(self) -> int:
        """Open as long as the machine; not to be closed."""
        return self._fd

    def write(self, value: int) -> None:
        """Send 8 bytes."""
        self._thread.in_order()
        code = lib.pw_unimem_send_value(self._unimem, self._node, value, self._thread.now_ns)
        self._thread.spend(0, until_ns=check(code, "message"))

    def read(self) -> int:
        """The oldest message; waits for one, or raises BlockingIOError when the descriptor has
        O_NONBLOCK."""
        self._thread.in_order()
        if fcntl.fcntl(self._fd, fcntl.F_GETFL) & os.O_NONBLOCK:
            found = self._peek()
            if found is None or found[1] > self._thread.now_ns:
                raise BlockingIOError("no message is here")
        else:
            self._thread.wait_for(lambda: None if (found := self._peek()) is None else found[1])
        value, time_ns = _MESSAGE.unpack(os.read(self._fd, _MESSAGE.size))
        self._thread.spend(0, until_ns=time_ns)
        return int(value)

    def _peek(self) -> tuple[int, int] | None:
        """The oldest message and its time."""
        with socket.socket(fileno=os.dup(self._fd)) as end:
            try:
                data = end.recv(_MESSAGE.size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
        value, time_ns = _MESSAGE.unpack(data)
        return value, time_ns


class KernelMailbox:
    """The mailbox of a thread's node."""

    def __init__(self, thread: Thread, unimem: Any) -> None:
        self._thread = thread
        self._unimem = unimem
        self._mailbox = lib.pw_unimem_kernel_mailbox(unimem)

    def device(self, node: int) -> Device:
        return Device(self._thread, self._unimem, node)

    def register(self, opcode: int, callback: Callable[[int, int, int], None]) -> None:
        """The kernel takes an opcode: callback(source, value, time_ns), which must not send."""
        owner, node = ffi.from_handle(self._thread.place)
        code = lib.pw_kernel_mailbox_register(
            self._mailbox, opcode, lib.pw_host_unimem_value, self._thread.place
        )
        check(code, f"callback for opcode {opcode}")
        owner.callbacks[node, opcode] = callback

    def unregister(self, opcode: int) -> None:
        check(lib.pw_kernel_mailbox_unregister(self._mailbox, opcode), f"opcode {opcode}")

    def act(self, action: str, opcode: int, number: int = 0) -> None:
        """The process takes an opcode: "r" plainly, "s" told by signal `number`, "e" by eventfd
        `number`; "u": not any more."""
        code = lib.pw_kernel_mailbox_act(self._mailbox, action.encode(), opcode, number)
        check(code, f"action {action!r} for opcode {opcode}")


@ffi.def_extern()  # type: ignore[untyped-decorator]
def pw_host_unimem_value(context: Any, source: int, value: int, time_ns: int) -> None:
    """A message for a callback of the kernel."""
    owner, node = ffi.from_handle(context)
    try:
        owner.callbacks[node, opcode_of(value)](source, value, time_ns)
    except BaseException as error:  # noqa: BLE001 - raised again by its owner
        owner.fail(error)
