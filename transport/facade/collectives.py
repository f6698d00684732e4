"""Collectives that move data: what the program's arguments mean, and the rank's own part.

Messages go on the communicator's second private communicator, by the patterns of spreading.
Collectives of intercommunicators, of communicators without state, and with an invalid root are
MPI's own.
"""

from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade import spreading
from pagewire.transport.facade.arguments import c_int
from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.communicators import arrive, attach
from pagewire.transport.facade.message import (
    receive_span,
    select,
    select_each,
    select_vector,
    send_span,
)
from pagewire.transport.facade.native_calls import go_around
from pagewire.transport.facade.operations import Channel
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import EMPTY, Selection

# Beside TAG of spreading and those of Create_group, which follow the user's.
_MEETING_TAG = 0


class LeftToMpi(Exception):
    """A collective that is none of ours, raised before it has begun."""


def root_of(channel: Channel, root: Any) -> int:
    """The root as it was given; MPI says what is wrong with one that is no rank."""
    root = c_int(root)
    if 0 <= root < channel.size:
        return root
    raise LeftToMpi


def in_place(buf: Any) -> bool:
    return buf is None or buf is MPI.IN_PLACE


def collective(
    name: str, body: Callable[..., Any], owner: type | None = None
) -> Callable[..., Any]:
    """The public method: `body(channel, *args)` on a communicator with state, else MPI's own.

    owner: the class of topologies, whose bodies get the communicator too, `body(channel, comm,
    *args)`.

    What `body` leaves to MPI starts with everybody there, so that nobody inside it keeps a NI
    waiting.
    """
    has_topology = owner is not None
    if owner is None:
        owner = MPI.Intracomm if name in MPI.Intracomm.__dict__ else MPI.Comm
    original = native(owner, name)

    def stateless(comm: Any, args: Any, kwargs: Any) -> Any:
        if comm == MPI.COMM_NULL:
            return original(comm, *args, **kwargs)
        go_around(name, args, kwargs)
        # Not the non-blocking call and turns until it is over: peers of another COMM_WORLD make
        # the blocking one, which no other meets, and MPICH 5.0's Ibcast of intercommunicators
        # gives wrong data.
        world = here.states[MPI.COMM_WORLD.handle].collective
        spreading.meet(world, _members_here(comm), _MEETING_TAG)
        return original(comm, *args, **kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = here.states.get(self.handle)
        if state is None:
            return stateless(self, args, kwargs)
        try:
            if has_topology:
                return body(state.collective, self, *args, **kwargs)
            return body(state.collective, *args, **kwargs)
        except LeftToMpi:
            pass
        arrive(state)
        result = original(self, *args, **kwargs)  # raises if the root is invalid
        go_around(name, args, kwargs)
        return result

    return bracket(name, call)


def _members_here(comm: MPI.Comm) -> list[int]:
    """Members of either group that are of this COMM_WORLD, in its ranks."""
    groups = [comm.Get_group()]
    if isinstance(comm, MPI.Intercomm):
        groups.append(comm.Get_remote_group())
    world = MPI.COMM_WORLD.Get_group()
    found: list[int] = []
    for group in groups:
        found += MPI.Group.Translate_ranks(group, range(group.Get_size()), world)
        group.Free()
    world.Free()
    return sorted(set(found) - {MPI.UNDEFINED})


def _create_group() -> Callable[..., MPI.Intracomm]:
    """Create_group: its members alone arrive, by messages with a tag that follows the user's."""
    original = native(MPI.Intracomm, "Create_group")

    def create_group(self: MPI.Intracomm, group: MPI.Group, tag: int = 0) -> MPI.Intracomm:
        state = here.states.get(self.handle)
        if (
            state is not None
            and 0 <= tag < state.collective.tag_limit - 1
            and group.Get_rank() != MPI.UNDEFINED
        ):
            everybody = self.Get_group()
            members = MPI.Group.Translate_ranks(group, range(group.Get_size()), everybody)
            everybody.Free()
            spreading.meet(state.collective, list(members), tag + 2)
        made = original(self, group, tag)
        attach(made)
        return made

    return bracket("Create_group", create_group)


def _barrier(channel: Channel) -> None:
    spreading.barrier(channel)


def _bcast(channel: Channel, buf: Any, root: int = 0) -> None:
    root = root_of(channel, root)
    is_root = channel.rank == root
    spreading.broadcast(channel, send_span(buf) if is_root else receive_span(buf), root)


def _gather(channel: Channel, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
    root = root_of(channel, root)
    if channel.rank != root:
        spreading.gather(channel, select(sendbuf, True).span(True), None, root)
        return
    receiving = select(recvbuf, False, channel.size)
    blocks = [receiving.block(i) for i in range(channel.size)]
    _own(sendbuf, blocks[root])
    spreading.gather(channel, None, blocks, root)


def _own(sendbuf: Any, block: Selection) -> None:
    """Copy this rank's contribution to its place in its own receive buffer."""
    if not in_place(sendbuf):
        select(sendbuf, True).copy_to(block)


def _gatherv(channel: Channel, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
    root = root_of(channel, root)
    if channel.rank != root:
        spreading.gather_each(channel, select(sendbuf, True).span(True), None, root)
        return
    blocks = select_vector(recvbuf, False, channel.size)
    _own(sendbuf, blocks[root])
    spreading.gather_each(channel, None, blocks, root)


def _scatter(channel: Channel, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
    root = root_of(channel, root)
    if channel.rank == root:
        sending = select(sendbuf, True, channel.size)
        blocks = [sending.block(i) for i in range(channel.size)]
        if not in_place(recvbuf):
            blocks[root].copy_to(select(recvbuf, False))
        spreading.scatter(channel, blocks, EMPTY, root)
        return
    spreading.scatter(channel, None, select(recvbuf, False).span(False), root)


def _scatterv(channel: Channel, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
    root = root_of(channel, root)
    if channel.rank == root:
        blocks = select_vector(sendbuf, True, channel.size)
        if not in_place(recvbuf):
            blocks[root].copy_to(select(recvbuf, False))
        spreading.scatter_each(channel, blocks, EMPTY, root)
        return
    spreading.scatter_each(channel, None, select(recvbuf, False).span(False), root)


def _allgather(channel: Channel, sendbuf: Any, recvbuf: Any) -> None:
    receiving = select(recvbuf, False, channel.size)
    _own(sendbuf, receiving.block(channel.rank))
    spreading.allgather(channel, receiving)


def _allgatherv(channel: Channel, sendbuf: Any, recvbuf: Any) -> None:
    blocks = select_vector(recvbuf, False, channel.size)
    _own(sendbuf, blocks[channel.rank])
    spans = [block.span(i == channel.rank) for i, block in enumerate(blocks)]
    spreading.allgather_each(channel, spans)


def _alltoall(channel: Channel, sendbuf: Any, recvbuf: Any) -> None:
    size = channel.size
    receiving = select(recvbuf, False, size)
    sending = None if in_place(sendbuf) else select(sendbuf, True, size)
    spreading.alltoall(
        channel,
        None if sending is None else [sending.block(i) for i in range(size)],
        [receiving.block(i) for i in range(size)],
    )


def _alltoallv(channel: Channel, sendbuf: Any, recvbuf: Any) -> None:
    incoming = select_vector(recvbuf, False, channel.size)
    outgoing = None if in_place(sendbuf) else select_vector(sendbuf, True, channel.size)
    spreading.alltoall(channel, outgoing, incoming)


def _alltoallw(channel: Channel, sendbuf: Any, recvbuf: Any) -> None:
    incoming = select_each(recvbuf, False, channel.size)
    outgoing = None if in_place(sendbuf) else select_each(sendbuf, True, channel.size)
    spreading.alltoall(channel, outgoing, incoming)


def install() -> None:
    bodies: dict[str, Callable[..., Any]] = {
        "Barrier": _barrier,
        "Bcast": _bcast,
        "Gather": _gather,
        "Gatherv": _gatherv,
        "Scatter": _scatter,
        "Scatterv": _scatterv,
        "Allgather": _allgather,
        "Allgatherv": _allgatherv,
        "Alltoall": _alltoall,
        "Alltoallv": _alltoallv,
        "Alltoallw": _alltoallw,
    }
    replace_all(MPI.Comm, {name: collective(name, body) for name, body in bodies.items()})
    replace_all(MPI.Intracomm, {"Create_group": _create_group()})
