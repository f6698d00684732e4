"""What the facade keeps per communicator, and the calls that make and free communicators.

Each intracommunicator whose members all belong to this COMM_WORLD gets a private one, for what the
facade itself asks of MPI, and a number that its members agree upon: by it messages are matched, the
user's point-to-point ones apart from those of collectives. Others (intercommunicators, groups
joined with spawned programs) have no state: their calls go to MPI itself.

Calls that synchronise inside MPI are preceded by `arrive`, which keeps this rank's NI alive until
every member is there and merges the clocks by maximum.
"""

import itertools
import struct
import zlib
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.operations import Channel
from pagewire.transport.facade.patching import native, replace_each
from pagewire.transport.facade.progress import turn
from pagewire.transport.facade.rank import here

_split = native(MPI.Comm, "Split")
_free = native(MPI.Comm, "Free")
_iallreduce = native(MPI.Comm, "Iallreduce")
_ibcast = native(MPI.Comm, "Ibcast")
_idup = native(MPI.Comm, "Idup")
_test = native(MPI.Request, "Test")


class State:
    """The private communicator of one communicator, and its messages."""

    __slots__ = ("collective", "handle", "point_to_point")

    def __init__(
        self, handle: int, private: MPI.Intracomm, world_ranks: list[int], number: int
    ) -> None:
        self.handle = handle
        self.point_to_point = Channel(private, world_ranks, 2 * number)
        self.collective = Channel(private, world_ranks, 2 * number + 1)

    def free(self) -> None:
        self.point_to_point.free()
        self.collective.free()
        _free(self.collective.comm)


class Numbering:
    """The agreement on a communicator's number, under way: that of its first member, who counts,
    so that no member knows another communicator by it."""

    __slots__ = ("_number", "_request")

    _numbers = itertools.count()

    def __init__(self, comm: MPI.Intracomm) -> None:
        """Collective over `comm`."""
        rank = MPI.COMM_WORLD.Get_rank()
        self._number = array("q", [rank << 32 | next(self._numbers)])
        self._request = _ibcast(comm, self._number, 0)

    def number(self) -> int:
        """Wait for it, progressing."""
        while not _test(self._request):
            turn(lambda: "the first member of a communicator to number it")
        return self._number[0]


class Begun:
    """The state of what Idup makes. Its private communicator is made meanwhile, and waited for
    when it is used first, which the state then is: by then the user's own is there, so each member
    has called Idup."""

    __slots__ = ("_comm", "_is_settling", "_numbering", "_private", "_state", "_world_ranks")

    def __init__(
        self, comm: MPI.Intracomm, parent: "State | Begun", world_ranks: list[int]
    ) -> None:
        self._comm = comm
        # Of a private one: the user's attributes and topology are not copied.
        self._private = _idup(parent.collective.comm)
        self._numbering = Numbering(parent.collective.comm)
        self._world_ranks = world_ranks
        self._is_settling = False
        self._state: State | None = None

    def settle(self) -> State:
        """Wait for it, progressing."""
        if not self._is_settling:
            self._is_settling = True
            self._finish()
        while self._state is None:  # another thread is about it
            turn(partial(_describe_arrival, self._comm))
        return self._state

    def _finish(self) -> None:
        private, request = self._private
        while not _test(request):
            turn(partial(_describe_arrival, self._comm))
        private.Set_errhandler(MPI.ERRORS_RETURN)
        number = self._numbering.number()
        self._state = here.states.keep(self._comm, private, self._world_ranks, number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.settle(), name)


class States(dict[int, State | Begun]):
    """By the communicator's handle."""

    def __init__(self) -> None:
        super().__init__()
        # MPI gives a freed communicator's handle away at once: the attribute's deletion purges the
        # table, whoever frees it.
        self._keyval = MPI.Comm.Create_keyval(delete_fn=self._forget)

    def _forget(self, comm: MPI.Comm, keyval: int, handle: int) -> None:
        self.pop(handle, None)

    def add(self, comm: MPI.Intracomm, world_ranks: list[int]) -> None:
        """Collective over `comm`."""
        made = private(comm)
        self.keep(comm, made, world_ranks, Numbering(made).number())

    def keep(
        self, comm: MPI.Intracomm, private: MPI.Intracomm, world_ranks: list[int], number: int
    ) -> State:
        """A state for `comm` of a communicator of its group."""
        state = self[comm.handle] = State(comm.handle, private, world_ranks, number)
        comm.Set_attr(self._keyval, comm.handle)
        return state


def private(comm: MPI.Intracomm) -> MPI.Intracomm:
    """A communicator of the same group for our own use. Collective over `comm`."""
    # Split and not Dup: the user's attributes and topology are not copied.
    made: MPI.Intracomm = _split(comm, 0, comm.Get_rank())
    made.Set_errhandler(MPI.ERRORS_RETURN)
    return made


def attach(comm: Any) -> None:
    """Give `comm` a state. Collective over `comm`; does nothing for those that cannot have one."""
    if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL or comm.handle in here.states:
        return
    world_ranks = _world_ranks(comm)
    if MPI.UNDEFINED not in world_ranks:
        here.states.add(comm, world_ranks)


def _world_ranks(comm: MPI.Intracomm) -> list[int]:
    group = comm.Get_group()
    ranks = ranks_in(MPI.COMM_WORLD, group)
    group.Free()
    return ranks


def ranks_in(comm: MPI.Comm, group: MPI.Group) -> list[int]:
    """What the ranks of a group are in a communicator; UNDEFINED for those that it has not."""
    everybody = comm.Get_group()
    ranks = [int(rank) for rank in group.Translate_ranks(None, everybody)]
    everybody.Free()
    return ranks


def arrive(state: State | Begun) -> None:
    """Wait until every member is here, progressing; then all clocks are at the latest one's."""
    arrive_on(state.collective.comm)


def _describe_arrival(comm: MPI.Intracomm) -> str:
    return f"all {comm.Get_size()} members of a communicator to arrive"


def arrive_on(comm: MPI.Intracomm) -> None:
    """As `arrive`, on a private communicator."""
    mine = array("q", [here.clock.now_ns])
    latest = array("q", [0])
    request = _iallreduce(comm, mine, latest, MPI.MAX)
    while not _test(request):
        turn(partial(_describe_arrival, comm))
    here.clock.meet(latest[0], *_group_of(comm))


def _group_of(comm: MPI.Intracomm) -> tuple[int, int]:
    """A number that a communicator's members alone have, for a recording; how many they are."""
    if not here.node.config.run.record:
        return 0, 0
    ranks = _world_ranks(comm)
    return zlib.crc32(struct.pack(f"<{len(ranks)}I", *ranks)), len(ranks)


def _synchronising(owner: type, name: str) -> Callable[..., Any]:
    """The method preceded by an arrival; a communicator that it returns gets a state."""
    original = native(owner, name)

    def synchronise(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = here.states.get(self.handle)
        if state is not None:
            arrive(state)
        result = original(self, *args, **kwargs)
        attach(result)
        return result

    return bracket(name, synchronise)


def _duplicating(name: str) -> Callable[..., Any]:
    """Idup: what it makes gets a state that is still being made."""
    original = native(MPI.Comm, name)

    def duplicate(self: Any, *args: Any, **kwargs: Any) -> Any:
        made, request = original(self, *args, **kwargs)
        parent = here.states.get(self.handle)
        if parent is not None:
            here.states[made.handle] = Begun(made, parent, _world_ranks(self))
        return made, request

    return bracket(name, duplicate)


def _freeing(name: str) -> Callable[..., Any]:
    original = native(MPI.Comm, name)

    def free(self: MPI.Comm) -> None:
        state = here.states.get(self.handle)
        if state is None or self in (MPI.COMM_WORLD, MPI.COMM_SELF):
            original(self)
            return
        arrive(state)
        original(self)
        state.free()

    return bracket(name, free)


def install() -> None:
    here.states = States()
    attach(MPI.COMM_WORLD)
    attach(MPI.COMM_SELF)
    constructors = {
        MPI.Comm: (
            "Clone", "Dup", "Dup_with_info", "Create", "Split", "Split_type", "Shrink",
            "Set_info", "Agree",
        ),
        MPI.Intracomm: (
            "Create_cart", "Create_graph", "Create_dist_graph_adjacent",
            "Create_dist_graph", "Create_intercomm", "Spawn", "Spawn_multiple", "Accept", "Connect",
        ),
        MPI.Cartcomm: ("Sub",),
        MPI.Intercomm: ("Merge",),
    }  # fmt: skip
    for owner, names in constructors.items():
        replace_each(owner, names, partial(_synchronising, owner))
    replace_each(MPI.Comm, ("Free", "Disconnect"), _freeing)
    replace_each(MPI.Comm, ("Idup", "Idup_with_info"), _duplicating)
