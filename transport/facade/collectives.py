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
from pagewire.transport.facade.communicators import arrive, attach, ranks_in
from pagewire.transport.facade.message import (
    receive_span,
    select,
    select_blocks,
    select_each,
    select_vector,
    send_span,
)
from pagewire.transport.facade.native_calls import go_around
from pagewire.transport.facade.operations import Channel
from pagewire.transport.facade.patching import native, replace_all
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import EMPTY, Selection

Blocks = Callable[[Any, bool, int], list[Selection]]
"""How a specification of so many blocks is read: one of message.py's functions."""

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


def replace_collectives(owner: type, bodies: dict[str, Callable[..., Any]]) -> None:
    """Replace methods of a class of communicators, by what they are on those with state."""
    replace_all(owner, {name: _collective(owner, name, body) for name, body in bodies.items()})


def _collective(owner: type, name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """The public method: `body(channel, *args)` on a communicator with state, else MPI's own. The
    bodies of topologies get the communicator too, `body(channel, comm, *args)`.

    What `body` leaves to MPI starts with everybody there, so that nobody inside it keeps a NI
    waiting.
    """
    has_topology = owner is MPI.Topocomm
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
    found: set[int] = set()
    for group in groups:
        found.update(ranks_in(MPI.COMM_WORLD, group))
        group.Free()
    return sorted(found - {MPI.UNDEFINED})


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
            spreading.meet(state.collective, ranks_in(self, group), tag + 2)
        made = original(self, group, tag)
        attach(made)
        return made

    return bracket("Create_group", create_group)


def _bcast(channel: Channel, buf: Any, root: int = 0) -> None:
    root = root_of(channel, root)
    is_root = channel.rank == root
    spreading.broadcast(channel, send_span(buf) if is_root else receive_span(buf), root)


def _own(sendbuf: Any, block: Selection) -> None:
    """Copy this rank's contribution to its place in its own receive buffer."""
    if not in_place(sendbuf):
        select(sendbuf, True).copy_to(block)


def _gatherer(blocks_of: Blocks, gather: Callable[..., None]) -> Callable[..., None]:
    """Gather or Gatherv, by a pattern of spreading."""

    def body(channel: Channel, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        root = root_of(channel, root)
        if channel.rank != root:
            gather(channel, select(sendbuf, True).span(True), None, root)
            return
        blocks = blocks_of(recvbuf, False, channel.size)
        _own(sendbuf, blocks[root])
        gather(channel, None, blocks, root)

    return body


def _scatterer(blocks_of: Blocks, scatter: Callable[..., None]) -> Callable[..., None]:
    """Scatter or Scatterv, by a pattern of spreading."""

    def body(channel: Channel, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        root = root_of(channel, root)
        if channel.rank != root:
            scatter(channel, None, select(recvbuf, False).span(False), root)
            return
        blocks = blocks_of(sendbuf, True, channel.size)
        if not in_place(recvbuf):
            blocks[root].copy_to(select(recvbuf, False))
        scatter(channel, blocks, EMPTY, root)

    return body


def _allgather(channel: Channel, sendbuf: Any, recvbuf: Any) -> None:
    receiving = select(recvbuf, False, channel.size)
    _own(sendbuf, receiving.block(channel.rank))
    spreading.allgather(channel, receiving)


def _allgatherv(channel: Channel, sendbuf: Any, recvbuf: Any) -> None:
    blocks = select_vector(recvbuf, False, channel.size)
    _own(sendbuf, blocks[channel.rank])
    spans = [block.span(i == channel.rank) for i, block in enumerate(blocks)]
    spreading.allgather_each(channel, spans)


def _alltoall(blocks_of: Blocks) -> Callable[..., None]:
    def body(channel: Channel, sendbuf: Any, recvbuf: Any) -> None:
        incoming = blocks_of(recvbuf, False, channel.size)
        outgoing = None if in_place(sendbuf) else blocks_of(sendbuf, True, channel.size)
        spreading.alltoall(channel, outgoing, incoming)

    return body


def install() -> None:
    bodies: dict[str, Callable[..., Any]] = {
        "Barrier": spreading.barrier,
        "Bcast": _bcast,
        "Gather": _gatherer(select_blocks, spreading.gather),
        "Gatherv": _gatherer(select_vector, spreading.gather_each),
        "Scatter": _scatterer(select_blocks, spreading.scatter),
        "Scatterv": _scatterer(select_vector, spreading.scatter_each),
        "Allgather": _allgather,
        "Allgatherv": _allgatherv,
        "Alltoall": _alltoall(select_blocks),
        "Alltoallv": _alltoall(select_vector),
        "Alltoallw": _alltoall(select_each),
    }
    replace_collectives(MPI.Comm, bodies)
    replace_all(MPI.Intracomm, {"Create_group": _create_group()})
