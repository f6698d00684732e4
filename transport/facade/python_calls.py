"""The program's most usual calls, by functions of C (python_calls.h): `calls`.

Their arguments are the program's, then `call`, its index, and `flags`, PW_CALL_*. To arguments that
C does not read the answer is NotImplemented. Requests that they make stand for an `Operation` of
operations.py, which is a `HeldOperation`.
"""

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pagewire.native import ffi, lib


class _Calls(NamedTuple):
    prepare: Callable[..., None]
    """Before the others: what they are to know, see pw_python_state."""
    send: Callable[..., int | None]
    """comm, buf, dest, tag, call, flags: None, or what pw_call_send has said."""
    receive: Callable[..., int | None]
    """comm, buf, source, tag, call, flags, address of a status: the same of pw_call_receive."""
    isend: Callable[..., Any]
    """comm, buf, dest, tag, call, flags: a request, None for what is complete, or a code."""
    ireceive: Callable[..., Any]
    """comm, buf, source, tag, call, flags: a request, or a code."""
    exchange: Callable[..., int | None]
    """comm, sendbuf, dest, sendtag, call, flags, recvbuf, source, recvtag, address of a status:
    None, or what pw_call_exchange has said."""
    send_object: Callable[..., tuple[int, Any] | None]
    """comm, obj, dest, tag, call, flags: None, or what pw_call_send has said, and the pickle."""
    isend_object: Callable[..., Any]
    """comm, obj, dest, tag, call, flags: as `isend`."""
    receive_object: Callable[..., tuple[Any] | int]
    """comm, None, source, tag, call, flags, address of a status: the object in a tuple, or what
    pw_call_receive has said."""
    send_object_within: Callable[..., tuple[int, Any] | None]
    """As part of a call: address of a channel, dest, tag, obj: as `send_object`."""
    receive_object_within: Callable[..., tuple[Any] | int]
    """The same: address of a channel, source, tag: as `receive_object`."""
    barrier: Callable[..., int | None]
    """comm, call. This and the following: None, or what the function of collectives.h has said."""
    broadcast: Callable[..., int | None]
    """comm, call, buf, root."""
    allgather: Callable[..., int | None]
    """comm, call, sendbuf, recvbuf."""
    alltoall: Callable[..., int | None]
    """comm, call, sendbuf, recvbuf."""
    gather: Callable[..., int | None]
    """comm, call, sendbuf, recvbuf, root."""
    scatter: Callable[..., int | None]
    """comm, call, sendbuf, recvbuf, root."""
    allreduce: Callable[..., int | None]
    """comm, call, sendbuf, recvbuf, op."""
    reduce: Callable[..., int | None]
    """comm, call, sendbuf, recvbuf, op, root."""
    wait: Callable[..., Any]
    """request, call: None, a code, or the operation, which has an error."""
    test: Callable[..., Any]
    """request, call: whether it is over, a code, or the operation, which has an error."""
    wait_for_all: Callable[..., Any]
    """list of requests, call: None, a code, or the operations, of which some have errors."""
    close: Callable[[], None]
    """Before MPI is finalized."""


_functions: tuple[Any, ...] = ctypes.cast(
    int(ffi.cast("uintptr_t", lib.pw_python_calls())), ctypes.py_object
).value
calls = _Calls(*_functions[:-2])

if TYPE_CHECKING:

    class HeldOperation:
        """A pw_operation, which it gives back at its end."""

        address: int
        span: Any
        """Holds its buffer."""
        complete: Any
        unpacks: bool
        """What is received goes elsewhere once it is here."""
        done: bool

        def __init__(self, address: int, span: Any) -> None: ...

    class HeldChannel:
        """A pw_one_sided. Its functions answer as those of one_sided.h, or NotImplemented: to
        arguments that C does not read, or since nothing was inserted or triggered."""

        _address: int

        def __init__(self, poll_ns: int, number: int = lib.PW_ONE_SIDED_READS) -> None: ...

        def _insert(
            self, local: Any, local_offset: int, remote: Any, remote_offset: int,
            num_bytes: int | None, notification: Any, first_data: int, last_data: int,
            hint: int, window_blocks: int, /,
        ) -> int: ...  # fmt: skip

        def _start(self) -> int: ...

        def _finish(self, goes_on: bool, /) -> int: ...

        def _look(self) -> int: ...

else:
    HeldOperation, HeldChannel = _functions[-2:]
