"""Archives of Open Trace Format 2 (OTF2), as Score-P writes them: events of each process with their
times. The package `otf2` reads them; it is looked for when one is asked for.

What a rank does outside of MPI calls is computing; what a call took is left behind. Messages of one
call begin together, receives first, and what the call completes is waited for in it. A receive that
began by itself is as long as the message that it took. Where messages lie an archive does not say.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Self

from pagewire.native.settings import ConfigError
from pagewire.replay import collectives
from pagewire.replay.formats.problems import Problems
from pagewire.replay.program import Program
from pagewire.replay.records import TraceError

SUFFIX = ".otf2"
_COMPUTED_MAX = 1 << 62


def package() -> ModuleType:
    """Raises ConfigError: it is not there."""
    try:
        import otf2
    except ImportError as error:
        raise ConfigError(
            f"the package otf2 reads OTF2 archives, and it cannot be loaded ({error}); "
            "`pip install otf2` or `pip install pagewire[otf2]`"
        ) from None
    made: ModuleType = otf2
    return made


class Archive:
    """An open one. A context manager."""

    def __init__(self, path: str) -> None:
        self._otf2 = package()
        try:
            self._reader = self._otf2.reader.Reader(path)
        except Exception as error:  # noqa: BLE001, of a package of others
            raise TraceError(f"'{path}' cannot be read: {error}") from None
        self._path = path
        definitions = self._reader.definitions
        self.locations = self._ranks(definitions.groups)
        self.rank_of = {each._ref: rank for rank, each in enumerate(self.locations)}
        self._ticks: int = definitions.clock_properties.timer_resolution

    def _ranks(self, groups: Any) -> Sequence[Any]:
        for group in groups:
            is_mpi = group.paradigm == self._otf2.Paradigm.MPI
            if is_mpi and group.group_type == self._otf2.GroupType.COMM_LOCATIONS:
                members: Sequence[Any] = group.members
                return members
        raise TraceError(f"'{self._path}' has no MPI processes (no group COMM_LOCATIONS of MPI)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def events(self) -> Iterator[tuple[int, Any]]:
        """Rank and event, in the order of time."""
        events = iter(self._reader.events(self.locations))
        while True:
            try:
                location, event = next(events)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001, of a package of others
                raise TraceError(f"'{self._path}' cannot be read on: {error}") from None
            yield self.rank_of[location._ref], event

    def ns(self, ticks: int) -> int:
        return ticks * 1_000_000_000 // self._ticks


@dataclasses.dataclass(slots=True)
class _Message:
    """Of a call. num_bytes None: not known yet."""

    peer: int
    context: int
    tag: int
    num_bytes: int | None
    request: int | None
    """None: the call waits for it."""
    is_send: bool


@dataclasses.dataclass(slots=True)
class _Call:
    name: str
    compute_ns: int
    messages: list[_Message]
    waits: list[int]
    """Requests."""
    collective: Any = None
    time: int = 0


class Importer:
    """One rank: does in a program what the events say, as soon as it is known."""

    def __init__(self, program: Program, problems: Problems, archive: Archive) -> None:
        self._program, self._problems, self._archive = program, problems, archive
        self._otf2 = package()
        self._comms: dict[int, collectives.Group] = {}
        self._call: _Call | None = None
        self._depth = 0
        self._before: int | None = None
        """When the last call was over."""
        self._latest = 0
        self._calls: list[_Call] = []
        """That wait for the length of a receive."""
        self._receives: dict[int, _Message] = {}
        self._operations: dict[int, int] = {}
        """By request."""

    # ---- events

    def do(self, event: Any) -> None:
        """One event."""
        if self._before is None:
            self._before = event.time
        self._latest = event.time
        action = _ACTIONS.get(type(event).__name__)
        if action is not None:
            action(self, event)
        elif type(event).__name__.startswith("Rma"):
            self._problems.add("one-sided operations", self._place(event))

    def _enter(self, event: Any) -> None:
        if self._call is not None:
            self._depth += 1
        elif event.region.paradigm == self._otf2.Paradigm.MPI:
            self._call = _Call(event.region.name, self._computed(event.time), [], [])

    def _computed(self, time: int) -> int:
        """Since the last call, in ns."""
        ns = self._archive.ns(time) - self._archive.ns(self._before or 0)
        return min(max(ns, 0), _COMPUTED_MAX)

    def _leave(self, event: Any) -> None:
        if self._call is None:
            return
        if self._depth:
            self._depth -= 1
            return
        self._calls.append(self._call)
        self._call, self._before = None, event.time
        self._go_on()

    def _message(self, event: Any, peer: int, *, is_send: bool, request: int | None) -> None:
        group = self._comm(event.communicator)
        if not 0 <= peer < group.size:
            raise TraceError(f"{self._place(event)}: rank {peer} of {group.size} in a communicator")
        made = _Message(
            peer=group.ranks[peer],
            context=group.context - collectives.CONTEXT,
            tag=event.msg_tag,
            num_bytes=event.msg_length,
            request=request,
            is_send=is_send,
        )
        self._of_call(event).messages.append(made)

    def _send(self, event: Any) -> None:
        self._message(event, event.receiver, is_send=True, request=None)

    def _isend(self, event: Any) -> None:
        self._message(event, event.receiver, is_send=True, request=event.request_id)

    def _receive(self, event: Any) -> None:
        self._message(event, event.sender, is_send=False, request=None)

    def _ireceive_request(self, event: Any) -> None:
        made = _Message(0, 0, 0, None, event.request_id, is_send=False)
        self._receives[event.request_id] = made
        self._of_call(event).messages.append(made)

    def _ireceive(self, event: Any) -> None:
        """Over; only now it is known what it was."""
        made = self._receives.pop(event.request_id, None)
        if made is None:
            raise TraceError(f"{self._place(event)}: request {event.request_id} is none")
        group = self._comm(event.communicator)
        if not 0 <= event.sender < group.size:
            raise TraceError(f"{self._place(event)}: rank {event.sender} of {group.size}")
        made.peer, made.tag = group.ranks[event.sender], event.msg_tag
        made.context, made.num_bytes = group.context - collectives.CONTEXT, event.msg_length
        self._of_call(event).waits.append(event.request_id)

    def _complete(self, event: Any) -> None:
        self._of_call(event).waits.append(event.request_id)

    def _cancelled(self, event: Any) -> None:
        made = self._receives.pop(event.request_id, None)
        if made is not None:
            made.num_bytes = -1
            self._problems.note("receives that were taken back, as none")

    def _collective_end(self, event: Any) -> None:
        call = self._of_call(event)
        call.collective, call.time = event, event.time

    def _of_call(self, event: Any) -> _Call:
        if self._call is None:
            raise TraceError(f"{self._place(event)}: outside of an MPI call")
        return self._call

    def _place(self, event: Any) -> str:
        return f"rank {self._program.rank} at {event.time}, {type(event).__name__}"

    def _comm(self, comm: Any) -> collectives.Group:
        """The ranks of a communicator; that of all ranks has the contexts of the world."""
        found = self._comms.get(comm._ref)
        if found is None:
            ranks = [self._archive.rank_of[each._ref] for each in comm.group.members]
            ranks = ranks or [self._program.rank]  # MPI_COMM_SELF
            is_world = ranks == list(range(self._program.size))
            context = collectives.CONTEXT + (0 if is_world else 2 * (1 + comm._ref))
            found = collectives.Group(self._program, ranks, context)
            self._comms[comm._ref] = found
        return found

    # ---- what is known

    def _go_on(self) -> None:
        while self._calls and all(m.num_bytes is not None for m in self._calls[0].messages):
            self._perform(self._calls.pop(0))

    def _perform(self, call: _Call) -> None:
        program = self._program
        program.compute(call.compute_ns)
        if call.collective is not None:
            self._collective(call)
            if not call.messages and not call.waits:
                return
        with program.call(call.name):
            messages = sorted(call.messages, key=lambda each: each.is_send)
            waits = [
                operation
                for each in messages
                if (operation := self._post(each)) is not None and each.request is None
            ]
            for request in call.waits:
                if request in self._operations:
                    waits.append(self._operations.pop(request))
            program.finish(waits)

    def _post(self, message: _Message) -> int | None:
        num_bytes = message.num_bytes or 0
        if num_bytes < 0:
            return None
        program, key = self._program, (message.peer, message.tag)
        if message.is_send:
            buffer = program.filled(("sent", key), num_bytes)
            made = program.post_send(message.peer, buffer, message.tag, message.context)
        else:
            buffer = program.landing(("received", key), num_bytes)
            made = program.post_receive(message.peer, buffer, message.tag, message.context)
        if message.request is not None:
            self._operations[message.request] = made
        return made

    def end(self) -> None:
        """The program has ended; receives that took nothing are none."""
        for made in self._receives.values():
            made.num_bytes = -1
        if self._receives:
            self._problems.note("receives that took nothing, as none", len(self._receives))
        self._go_on()
        if self._operations:
            self._program.waitall(sorted(self._operations.values()))
        self._program.compute(self._computed(self._latest))
        self._program.end()

    # ---- collectives

    def _collective(self, call: _Call) -> None:
        event = call.collective
        group = self._comm(event.communicator)
        name = self._name_of(event.collective_op)
        action = _COLLECTIVES.get(name)
        if action is None:
            self._problems.add(f"collective {name}", self._place(event))
            return
        root = event.root if isinstance(event.root, int) and event.root < group.size else 0
        action(self, group, event.size_sent, event.size_received, root)

    def _name_of(self, wanted: Any) -> str:
        kinds = self._otf2.CollectiveOp
        names = (name for name in dir(kinds) if name.isupper())
        return next((name for name in names if getattr(kinds, name) == wanted), str(wanted))

    def _filled(self, name: str, num_bytes: int) -> Any:
        return self._program.filled(name, num_bytes)

    def _landing(self, name: str, num_bytes: int) -> Any:
        return self._program.landing(name, num_bytes)

    def _barrier(self, group: collectives.Group, _sent: int, _received: int, _root: int) -> None:
        collectives.barrier(group)

    def _broadcast(self, group: collectives.Group, _sent: int, received: int, root: int) -> None:
        take = self._filled if root == group.rank else self._landing
        collectives.broadcast(group, take("bcast", received), root)

    def _reduce(self, group: collectives.Group, sent: int, _received: int, root: int) -> None:
        collectives.reduce(group, sent, root)

    def _allreduce(self, group: collectives.Group, _sent: int, received: int, _root: int) -> None:
        collectives.allreduce(group, received)

    def _scan(self, group: collectives.Group, sent: int, _received: int, _root: int) -> None:
        collectives.scan(group, sent)

    def _parts(self, group: collectives.Group, whole: Any) -> list[Any]:
        length = whole.num_bytes // group.size
        return [whole.part(rank * length, length) for rank in range(group.size)]

    def _allgather(self, group: collectives.Group, _sent: int, received: int, _root: int) -> None:
        collectives.allgather(group, self._parts(group, self._landing("allgather", received)))

    def _alltoall(self, group: collectives.Group, sent: int, received: int, _root: int) -> None:
        outgoing = self._parts(group, self._filled("alltoall", sent))
        incoming = self._parts(group, self._landing("alltoall", received))
        collectives.alltoall(group, outgoing, incoming)

    def _gather(self, group: collectives.Group, sent: int, received: int, root: int) -> None:
        blocks = None
        if root == group.rank:
            blocks = self._parts(group, self._landing("gather all", received))
        collectives.gather(group, self._filled("gather", sent), blocks, root)

    def _scatter(self, group: collectives.Group, sent: int, received: int, root: int) -> None:
        blocks = None
        if root == group.rank:
            blocks = self._parts(group, self._filled("scatter all", sent))
        collectives.scatter(group, blocks, self._landing("scatter", received), root)


_COLLECTIVES: dict[str, Callable[[Importer, collectives.Group, int, int, int], None]] = {
    "BARRIER": Importer._barrier,
    "BCAST": Importer._broadcast,
    "REDUCE": Importer._reduce,
    "ALLREDUCE": Importer._allreduce,
    "SCAN": Importer._scan,
    "EXSCAN": Importer._scan,
    "ALLGATHER": Importer._allgather,
    "ALLTOALL": Importer._alltoall,
    "GATHER": Importer._gather,
    "SCATTER": Importer._scatter,
}
_ACTIONS: dict[str, Callable[[Importer, Any], None]] = {
    "Enter": Importer._enter,
    "Leave": Importer._leave,
    "MpiSend": Importer._send,
    "MpiIsend": Importer._isend,
    "MpiIsendComplete": Importer._complete,
    "MpiRecv": Importer._receive,
    "MpiIrecvRequest": Importer._ireceive_request,
    "MpiIrecv": Importer._ireceive,
    "MpiRequestCancelled": Importer._cancelled,
    "MpiCollectiveEnd": Importer._collective_end,
}
