"""Messages between ranks as operations of the C node: posted here, matched and moved there.

An operation stands for a pw_operation (node/messages/messages.h) and keeps its buffer alive.
Sends of short messages have none: they are complete when the call returns.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from threading import get_ident
from typing import Any

from mpi4py import MPI

from pagewire.native import describe, ffi, lib
from pagewire.transport.facade.patching import native
from pagewire.transport.facade.progress import watch
from pagewire.transport.facade.python_calls import HeldOperation
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import Packed, Span

ANY_SOURCE = MPI.ANY_SOURCE
ANY_TAG = MPI.ANY_TAG

SYNCHRONOUS = int(lib.PW_CALL_SYNCHRONOUS)
UNSIZED = int(lib.PW_CALL_UNSIZED)
KEEP = int(lib.PW_CALL_KEEP)
_REACH = int(lib.PW_CALL_REACH)

_POINTER = ffi.typeof("pw_operation *")
_VOID = ffi.typeof("void *")
_NUMBER = ffi.typeof("uintptr_t")
_KIND_SEND = int(lib.PW_OPERATION_SEND)
_ANY_NODE = int(lib.PW_ANY_NODE)
_NOTHING = ffi.NULL
_cast = ffi.cast


def pointer_to(status: MPI.Status | None) -> Any:
    """The MPI_Status in a status object, for C; NULL for none."""
    return _NOTHING if status is None else _cast(_VOID, MPI._addressof(status))


def describe_match(source: int, tag: int, limit_bytes: int | None = None) -> str:
    """Which message a receive or probe takes, in words."""
    limit = "" if limit_bytes is None else f" of at most {limit_bytes} bytes"
    sender = "any rank" if source == ANY_SOURCE else f"rank {source} of its communicator"
    return f"a message{limit} from {sender} with {'any tag' if tag == ANY_TAG else f'tag {tag}'}"


def describe_operation(c: Any) -> str:
    """What a wait for a pw_operation waits for, in words."""
    if c.kind == _KIND_SEND:
        return f"the receiver to read it: send of {c.num_bytes} bytes to rank {c.peer}"
    if c.handle:
        return f"the message that was matched: read of {c.num_bytes} bytes from rank {c.peer}"
    return describe_match(
        ANY_SOURCE if c.peer == _ANY_NODE else c.source,
        ANY_TAG if c.ignore else c.tag,
        None if c.is_unsized else c.capacity_bytes,
    )


def error_of(c: Any) -> BaseException | None:
    """The exception that a completed pw_operation ends with."""
    if c.error:
        error = MPI.Exception(MPI.ERR_OTHER)
        error.add_note(
            f"transfer with rank {c.peer} of COMM_WORLD failed in the NI: {describe(c.error)}"
        )
        return error
    is_truncated = c.message_bytes > c.capacity_bytes
    return MPI.Exception(MPI.ERR_TRUNCATE) if is_truncated else None


class Channel:
    """Messages among the members of a private communicator, seen from this rank."""

    __slots__ = ("address", "c", "comm", "rank", "size", "tag_limit")

    def __init__(self, comm: MPI.Intracomm, world_ranks: list[int], context: int) -> None:
        """context: agreed by the members, and no other channel's of any of them."""
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.tag_limit = int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 0)
        made = ffi.new("pw_channel **")
        here.node.check(
            lib.pw_channel_create(context, self.rank, self.size, world_ranks, made),
            "channel of a communicator",
        )
        self.c = made[0]
        self.address = int(_cast(_NUMBER, self.c))
        """Of `c`, for python_calls.h."""

    def free(self) -> None:
        """The communicator is the caller's to free."""
        lib.pw_channel_destroy(here.messaging, self.c)
        self.c = ffi.NULL


class Operation(HeldOperation):
    """A rendezvous send, or a posted receive.

    `span` is the buffer; None: memory of the operation's own, of the message's length.
    `complete` completes the user's request: a Grequest, or a function.
    """

    __slots__ = ()

    def __init__(self, result: int, span: Any) -> None:
        """result: of one of the pw_call_*, positive."""
        super().__init__(result, span)
        self.unpacks = type(span) is Packed and self.c.kind != _KIND_SEND

    @property
    def c(self) -> Any:
        """The pw_operation."""
        return _cast(_POINTER, self.address)

    def poll(self) -> bool:
        """Whether it is over, at whatever virtual time."""
        if not self.done:
            return False
        if self.unpacks:
            self.unpacks = False
            self.span.unpack(self.c.num_bytes)
        return True

    @property
    def is_receive(self) -> bool:
        return bool(self.c.kind != _KIND_SEND)

    complete_ns = property(attrgetter("c.complete_ns"))
    cancelled = property(attrgetter("c.cancelled"))
    source = property(attrgetter("c.source"))
    tag = property(attrgetter("c.tag"))
    num_bytes = property(attrgetter("c.num_bytes"))

    @property
    def error(self) -> BaseException | None:
        return error_of(self.c)

    def received(self) -> Span:
        """The message as it was received, in memory that this operation keeps alive."""
        return Span(self.c.address, self.c.num_bytes, self)

    def describe(self) -> str:
        return describe_operation(self.c)

    def cancel(self) -> None:
        """A send that was started, and a receive that is matched, go through."""
        code = lib.pw_call_cancel(here.messaging, self.c)
        if code < 0:
            raise here.failure(code, "cancel of a receive")

    def result(self) -> Any:
        """What lower-case wait returns: nothing, for a buffer."""
        return None

    def wait(self, call: int = 0, began_ns: int = 0, flags: int = 0) -> None:
        """Until it is over; the clock goes on to its completion. `began_ns`: a call of its own."""
        code = lib.pw_call_wait(here.messaging, call, began_ns, self.c, flags)
        if code < 0:
            raise here.failure(code, self.describe())
        self.poll()

    def reach(self) -> None:
        """Until it is over, without the clock's going there."""
        self.wait(flags=_REACH)

    def test(self, call: int, began_ns: int) -> bool:
        """As a call of its own: whether it is over at the CPU's time."""
        code = lib.pw_call_test(here.messaging, call, began_ns, self.c)
        if code < 0:
            raise here.failure(code, self.describe())
        return bool(code) and self.poll()


def finish(result: int, span: Any) -> Operation:
    """The operation that a blocking call has answered with, when that was to be kept; raises the
    error that it ended with, or that of the call."""
    if result < 0:
        raise here.failure(result, "message")
    operation = Operation(result, span)
    operation.poll()
    error = error_of(operation.c)
    if error is not None:
        raise error
    return operation


def interrupted(*spans: Any) -> None:
    """A blocking call is left by an exception: what is under way goes on in memory that stays."""
    here.kept_spans.extend(spans)


def _pause(_context: Any, c: Any) -> int:
    """What C calls every PW_CALL_PAUSE_NS of a wait: Python's signal handlers run meanwhile, and
    what they raise ends the wait. c: a pw_operation, NULL in a wait of `here.waits`."""
    if c == ffi.NULL:
        wait = here.waits[get_ident()]
        watch(lambda: wait.waits_for)
        wait.look()
    else:
        watch(partial(describe_operation, c))
    return 0


def _failed_pause(_kind: Any, error: BaseException, _traceback: Any) -> None:
    here.interrupts[get_ident()] = error


ffi.def_extern("pw_host_pause", lib.PW_ERR_HOST, _failed_pause)(_pause)


def send_within(
    channel: Channel, span: Any, dest: int, tag: int, synchronous: bool = False
) -> None:
    """A blocking send as part of a call. Arguments must be valid."""
    flags = SYNCHRONOUS if synchronous else 0
    try:
        result = lib.pw_call_send(
            here.messaging, 0, 0, channel.c, span.address, span.nbytes, dest, tag, flags
        )
        if result:
            finish(result, span)
    except BaseException:
        interrupted(span)
        raise


def receive_within(
    channel: Channel, source: int, tag: int, status: MPI.Status | None = None
) -> Operation:
    """A blocking receive of a message of any length, as part of a call."""
    result = lib.pw_call_receive(
        here.messaging, 0, 0, channel.c, 0, 0, source, tag, KEEP | UNSIZED,
        pointer_to(status),
    )  # fmt: skip
    return finish(result, None)


def exchange_within(
    channel: Channel,
    outgoing: Any,
    dest: int,
    sendtag: int,
    source: int,
    recvtag: int,
    status: MPI.Status | None = None,
) -> Operation:
    """Send and receive a message of any length at once and wait for both, as part of a call."""
    try:
        result = lib.pw_call_exchange(
            here.messaging, 0, 0, channel.c, outgoing.address, outgoing.nbytes, dest, sendtag,
            0, 0, source, recvtag, KEEP | UNSIZED, pointer_to(status),
        )  # fmt: skip
        return finish(result, None)
    except BaseException:
        interrupted(outgoing)
        raise


def start_send(
    channel: Channel, span: Any, dest: int, tag: int, synchronous: bool = False
) -> Operation | None:
    """Send eagerly, and return None, or start a rendezvous; as part of a call."""
    result = lib.pw_call_isend(
        here.messaging, 0, 0, channel.c, span.address, span.nbytes, dest, tag,
        SYNCHRONOUS if synchronous else 0,
    )  # fmt: skip
    if result < 0:
        raise here.failure(result, f"send of {span.nbytes} bytes to rank {dest}")
    return Operation(result, span) if result else None


def start_receive(
    channel: Channel,
    span: Any,
    source: int,
    tag: int,
    *,
    kind: type[Operation] = Operation,
) -> Operation:
    """Post a receive as part of a call."""
    address, nbytes, flags = 0, 0, UNSIZED
    if span is not None:
        address, nbytes, flags = span.address, span.nbytes, 0
    result = lib.pw_call_ireceive(
        here.messaging, 0, 0, channel.c, address, nbytes, source, tag, flags
    )
    if result < 0:
        raise here.failure(result, f"receive of {describe_match(source, tag)}")
    return kind(result, span)


def fill(status: MPI.Status, operation: Any) -> None:
    """Make `status` that of the completed operation."""
    if operation.is_receive:
        if operation.cancelled:
            status.Set_cancelled(True)
            return
        status.Set_source(operation.source)
        status.Set_tag(operation.tag)
        status.Set_elements(MPI.BYTE, operation.num_bytes)


def request_for(operation: Any) -> MPI.Request:
    """A request with a real handle for an operation."""
    generalized = MPI.Grequest.Start(None, None, None)
    request = MPI.Request(generalized)
    operation.complete = generalized
    here.active[request.handle] = operation
    return request


_isend = native(MPI.Comm, "Isend")
_NO_BYTES = memoryview(b"")
_SELF = MPI.COMM_SELF


def complete_request() -> MPI.Request:
    """One of MPI's, complete at once."""
    return _isend(_SELF, _NO_BYTES, MPI.PROC_NULL)


def wait_for(operation: Any) -> None:
    """Wait for an operation as part of a call; raise its error."""
    operation.wait()
    if operation.error is not None:
        raise operation.error
