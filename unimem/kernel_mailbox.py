"""64-bit messages between kernels and processes of nodes [D3.6 3.2]; the opcode is the top 4 bits.

A device a node: `fileno()` is a real descriptor, for select, poll, epoll and os.read of 8 bytes.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

from pagewire.native import check, lib
from pagewire.unimem.host import Callback

if TYPE_CHECKING:
    from pagewire.unimem.gsas import Gsas

OPCODES = int(lib.UNIMEM_OPCODES)
OPCODE_SHIFT = int(lib.UNIMEM_OPCODE_SHIFT)
_MESSAGE = struct.Struct("=Qq")


def message(opcode: int, content: int = 0) -> int:
    """The 64 bits of a message with that opcode and 60 bits of content."""
    if opcode not in range(OPCODES) or not 0 <= content < 1 << OPCODE_SHIFT:
        raise ValueError(f"opcode {opcode}, content {content:#x}: allowed are 4 and 60 bits")
    return opcode << OPCODE_SHIFT | content


class Device:
    """What comes from a node, and goes to it."""

    def __init__(self, thread: Gsas, unimem: Any, node: int) -> None:
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

    def __init__(self, thread: Gsas, unimem: Any) -> None:
        self._thread = thread
        self._unimem = unimem
        self._mailbox = lib.pw_unimem_kernel_mailbox(unimem)

    def device(self, node: int) -> Device:
        return Device(self._thread, self._unimem, node)

    def register(self, opcode: int, callback: Callback) -> None:
        """The kernel takes an opcode: callback(source, value, time_ns), which must not send."""
        host, node = self._thread.host, self._thread.node
        code = lib.pw_kernel_mailbox_register(
            self._mailbox, opcode, lib.pw_host_unimem_value, host.places[node]
        )
        check(code, f"callback for opcode {opcode}")
        host.callbacks[node, opcode] = callback

    def unregister(self, opcode: int) -> None:
        check(lib.pw_kernel_mailbox_unregister(self._mailbox, opcode), f"opcode {opcode}")

    def act(self, action: str, opcode: int, number: int = 0) -> None:
        """The process takes an opcode: "r" plainly, "s" told by signal `number`, "e" by eventfd
        `number`; "u": not any more."""
        code = lib.pw_kernel_mailbox_act(self._mailbox, action.encode(), opcode, number)
        check(code, f"action {action!r} for opcode {opcode}")
