"""Messages between ranks as operations of the C node: posted here, matched and moved there.

An operation stands for a pw_operation (transport/facade/messaging.h) and keeps its buffer alive.
Sends of short messages have none: they are complete when the call returns.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.native import describe, ffi, lib
from pagewire.transport.facade.mpi_library import handle_of
from pagewire.transport.facade.progress import watch
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import Packed, Span

ANY_SOURCE = MPI.ANY_SOURCE
ANY_TAG = MPI.ANY_TAG

SYNCHRONOUS = int(lib.PW_CALL_SYNCHRONOUS)
UNSIZED = int(lib.PW_CALL_UNSIZED)
KEEP = int(lib.PW_CALL_KEEP)
USERS = int(lib.PW_CALL_USERS)
INNER = int(lib.PW_CALL_INNER)
_REACH = int(lib.PW_CALL_REACH)

_POINTER = ffi.typeof("pw_operation *")
_VOID = ffi.typeof("void *")
_ADDRESS = ffi.typeof("intptr_t")
_KIND_SEND = int(lib.PW_OPERATION_SEND)
_NOTHING = ffi.NULL
_cast = ffi.cast


def address_of(c: Any) -> int:
    """A pw_operation as the result of a call that gives it."""
    return int(_cast(_ADDRESS, c))


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
    return describe_match(c.source, c.tag, None if c.is_unsized else c.capacity_bytes)


def error_of(c: Any) -> BaseException | None:
    """The exception that a completed pw_operation ends with."""
    if c.error:
        error = MPI.Exception(MPI.ERR_OTHER)
        error.add_note(
            f"transfer with rank {c.peer} of COMM_WORLD failed in the NI: {describe(c.error)}"
        )
        return error
    return MPI.Exception(MPI.ERR_TRUNCATE) if c.truncated else None


class Channel:
    """A private communicator that carries envelopes, seen from this rank."""

    __slots__ = ("c", "comm", "rank", "size", "tag_limit")

    def __init__(self, comm: MPI.Intracomm, world_ranks: list[int]) -> None:
        self.comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.tag_limit = int(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 0)
        made = ffi.new("pw_channel **")
        here.node.check(
            lib.pw_channel_create(handle_of(comm), self.rank, self.size, world_ranks, made),
            "channel of a communicator",
        )
        self.c = made[0]

    def free(self) -> None:
        """The communicator is the caller's to free."""
        lib.pw_channel_destroy(here.messaging, self.c)
        self.c = ffi.NULL


class Operation:
    """A rendezvous send, or a posted receive.

    `span` is the buffer; None: memory of the operation's own, of the message's length.
    `generalized` completes the user's request where that is not MPI's own.
    """

    __slots__ = ("_is_unpacked", "c", "generalized", "span")

    def __init__(self, result: int, span: Any) -> None:
        """result: of one of the pw_call_*, positive."""
        self.c = _cast(_POINTER, result)
        self.span = span
        self.generalized: Any = None
        self._is_unpacked = type(span) is not Packed or self.c.kind == _KIND_SEND

    def __del__(self) -> None:
        if here.messaging:
            lib.pw_call_drop(here.messaging, self.c)

    def poll(self) -> bool:
        """Whether it is over, at whatever virtual time."""
        if not self.c.done:
            code = lib.pw_call_poll(here.messaging, self.c)
            if code < 0:
                raise here.failure(code, self.describe())
            if not code:
                return False
        if not self._is_unpacked:
            self._is_unpacked = True
            self.span.unpack(self.c.num_bytes)
        return True

    @property
    def is_receive(self) -> bool:
        return bool(self.c.kind != _KIND_SEND)

    @property
    def done(self) -> bool:
        return bool(self.c.done)

    @property
    def complete_ns(self) -> int:
        return int(self.c.complete_ns)

    @property
    def cancelled(self) -> bool:
        return bool(self.c.cancelled)

    @property
    def source(self) -> int:
        return int(self.c.source)

    @property
    def tag(self) -> int:
        return int(self.c.tag)

    @property
    def num_bytes(self) -> int:
        return int(self.c.num_bytes)

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
        lib.pw_call_cancel(here.messaging, self.c)

    def result(self) -> Any:
        """What lower-case wait returns: nothing, for a buffer."""
        return None

    def wait(self, call: int = 0, began_ns: int = 0, flags: int = INNER) -> None:
        """Until it is over; the clock goes on to its completion. `flags` 0: a call of its own."""
        messaging = here.messaging
        try:
            code = lib.pw_call_wait(messaging, call, began_ns, self.c, flags)
            while code == 0:
                watch(self.describe)
                code = lib.pw_call_resume_wait(messaging, self.c, flags)
        except BaseException:
            lib.pw_call_interrupt(messaging)
            raise
        if code < 0:
            raise here.failure(code, self.describe())
        self.poll()

    def reach(self) -> None:
        """Until it is over, without the clock's going there."""
        self.wait(flags=INNER | _REACH)

    def test(self, call: int, began_ns: int) -> bool:
        """As a call of its own: whether it is over at the CPU's time."""
        code = lib.pw_call_test(here.messaging, call, began_ns, self.c, 0)
        if code < 0:
            raise here.failure(code, self.describe())
        return bool(code) and self.poll()


def finish(result: int, span: Any, flags: int = 0, status: MPI.Status | None = None) -> Any:
    """Go on with a blocking call that C has not finished, until it is over.

    Returns its operation when it was to be kept, else None; raises its error.
    """
    pointer = pointer_to(status)
    while result > 0:
        c = _cast(_POINTER, result)
        if not c.is_paused:
            operation = Operation(result, span)
            operation.poll()
            error = error_of(c)
            if error is not None:
                raise error
            return operation
        watch(partial(describe_operation, c))
        result = lib.pw_call_resume(here.messaging, c, flags, pointer)
    if result < 0:
        raise here.failure(result, "message")
    return None


def interrupted(*spans: Any) -> None:
    """A blocking call is left by an exception: what is under way goes on in memory that stays."""
    lib.pw_call_interrupt(here.messaging)
    here.kept_spans.extend(spans)


def send_within(
    channel: Channel, span: Any, dest: int, tag: int, synchronous: bool = False
) -> None:
    """A blocking send as part of a call. Arguments must be valid."""
    flags = INNER | SYNCHRONOUS if synchronous else INNER
    try:
        result = lib.pw_call_send(
            here.messaging, 0, 0, channel.c, span.address, span.nbytes, dest, tag, flags
        )
        if result:
            finish(result, span, flags)
    except BaseException:
        interrupted(span)
        raise


def receive_within(
    channel: Channel,
    span: Any,
    source: int,
    tag: int,
    status: MPI.Status | None = None,
    *,
    keep: bool = False,
) -> Any:
    """A blocking receive as part of a call; span None: of a message of any length.

    Returns its operation where there is something to ask of it: without a span, or with `keep`.
    """
    address, nbytes, flags = _landing(span, keep)
    try:
        result = lib.pw_call_receive(
            here.messaging, 0, 0, channel.c, address, nbytes, source, tag, flags,
            pointer_to(status),
        )  # fmt: skip
        return finish(result, span, flags, status) if result else None
    except BaseException:
        interrupted(span)
        raise


def exchange_within(
    channel: Channel,
    outgoing: Any,
    dest: int,
    sendtag: int,
    incoming: Any,
    source: int,
    recvtag: int,
    status: MPI.Status | None = None,
) -> Any:
    """Send and receive at once and wait for both, as part of a call; returns as `receive_within`
    does."""
    address, nbytes, flags = _landing(incoming, False)
    try:
        result = lib.pw_call_exchange(
            here.messaging, 0, 0, channel.c, outgoing.address, outgoing.nbytes, dest, sendtag,
            address, nbytes, source, recvtag, flags, pointer_to(status),
        )  # fmt: skip
        return finish(result, incoming, flags, status) if result else None
    except BaseException:
        interrupted(outgoing, incoming)
        raise


def _landing(span: Any, keep: bool) -> tuple[int, int, int]:
    """Address, bytes and flags of a receive that is part of a call."""
    if span is None:
        return 0, 0, INNER | KEEP | UNSIZED
    keep = keep or type(span) is Packed
    return span.address, span.nbytes, INNER | KEEP if keep else INNER


def start_send(
    channel: Channel, span: Any, dest: int, tag: int, synchronous: bool = False
) -> Operation | None:
    """Send eagerly, and return None, or start a rendezvous; as part of a call."""
    result = lib.pw_call_isend(
        here.messaging, 0, 0, channel.c, span.address, span.nbytes, dest, tag,
        INNER | SYNCHRONOUS if synchronous else INNER,
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
    users: bool = False,
    kind: type[Operation] = Operation,
) -> Operation:
    """Post a receive as part of a call; users: the user gets MPI's request of it, if any."""
    address, nbytes, flags = (0, 0, INNER | UNSIZED)
    if span is not None:
        address, nbytes, flags = span.address, span.nbytes, INNER
    result = lib.pw_call_ireceive(
        here.messaging, 0, 0, channel.c, address, nbytes, source, tag,
        flags | USERS if users else flags,
    )  # fmt: skip
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
    """A request with a real handle for an operation that has none of MPI's own."""
    generalized = MPI.Grequest.Start(None, None, None)
    request = MPI.Request(generalized)
    operation.generalized = generalized
    here.active[request.handle] = operation
    return request


def request_of_receive(receive: Operation) -> MPI.Request:
    """The request of a receive that was posted for the user: MPI's, of the envelope, if any."""
    c = receive.c
    if c.is_owned:
        return request_for(receive)
    request = MPI.Request.fromhandle(c.inner)
    here.active[request.handle] = receive
    return request


def wait_for(operation: Any) -> None:
    """Wait for an operation as part of a call; raise its error."""
    operation.wait()
    if operation.error is not None:
        raise operation.error
