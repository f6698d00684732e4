"""What the facade keeps per communicator, and the calls that make and free communicators.

Each intracommunicator whose members all belong to this COMM_WORLD gets two private ones: one for
the user's point-to-point envelopes, one for collectives. Others (intercommunicators, groups joined
with spawned programs, results of Idup) have no state: their calls go to MPI itself.

Calls that synchronise inside MPI are preceded by `arrive`, which keeps this rank's NI alive until
every member is there and merges the clocks by maximum.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
from mpi4py import MPI

from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.operations import Channel
from pagewire.transport.facade.progress import turn
from pagewire.transport.facade.rank import here
from pagewire.transport.node.patching import native, replace_all

_split = native(MPI.Comm, "Split")
_free = native(MPI.Comm, "Free")
_iallreduce = native(MPI.Comm, "Iallreduce")
_test = native(MPI.Request, "Test")


class State:
    """The private communicators of one communicator."""

    __slots__ = ("collective", "handle", "point_to_point")

    def __init__(self, comm: MPI.Intracomm, world_ranks: list[int]) -> None:
        self.handle = comm.handle
        self.point_to_point = Channel(private(comm), world_ranks)
        self.collective = Channel(private(comm), world_ranks)

    def free(self) -> None:
        for channel in (self.point_to_point, self.collective):
            channel.free()
            _free(channel.comm)


class States(dict[int, State]):
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
        self[comm.handle] = State(comm, world_ranks)
        comm.Set_attr(self._keyval, comm.handle)


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
    group = comm.Get_group()
    world = MPI.COMM_WORLD.Get_group()
    world_ranks = list(MPI.Group.Translate_ranks(group, range(group.Get_size()), world))
    group.Free()
    world.Free()
    if MPI.UNDEFINED in world_ranks:
        return
    here.states.add(comm, world_ranks)


def arrive(state: State) -> None:
    """Wait until every member is here, progressing; then all clocks are at the latest one's."""
    arrive_on(state.collective.comm)


def _describe_arrival(comm: MPI.Intracomm) -> str:
    return f"all {comm.Get_size()} members of a communicator to arrive"


def arrive_on(comm: MPI.Intracomm) -> None:
    """As `arrive`, on a private communicator."""
    mine = numpy.array([here.clock.now_ns], "q")
    latest = numpy.empty(1, "q")
    request = _iallreduce(comm, mine, latest, MPI.MAX)
    while not _test(request):
        turn(partial(_describe_arrival, comm))
    here.clock.reach(int(latest[0]))


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
        replace_all(
            owner,
            {name: _synchronising(owner, name) for name in names if name in owner.__dict__},
        )
    replace_all(MPI.Comm, {name: _freeing(name) for name in ("Free", "Disconnect")})
