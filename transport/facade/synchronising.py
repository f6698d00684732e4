"""Windows and files: MPI's own, but their collective calls begin when every member is there.

Otherwise a rank inside MPI would keep others waiting for its NI. Each window and file has a
private communicator for this, since the user may free his before it. On it a Post tells its origins
of itself, so that their Start begins when it is there; a Wait tests. Passive-target locks, which
wait for one other rank, are not looked after.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.bracket import bracket, replace_calls
from pagewire.transport.facade.communicators import arrive_on, private, ranks_in
from pagewire.transport.facade.native_calls import go_around
from pagewire.transport.facade.patching import native, replace_each
from pagewire.transport.facade.progress import turn
from pagewire.transport.facade.rank import here

_free = native(MPI.Comm, "Free")
_isend = native(MPI.Comm, "Isend")
_irecv = native(MPI.Comm, "Irecv")
_test = native(MPI.Request, "Test")
_free_request = native(MPI.Request, "Free")
_post = native(MPI.Win, "Post")
_start = native(MPI.Win, "Start")
_test_epoch = native(MPI.Win, "Test")

_NOTHING = memoryview(bytearray())
_POSTED_TAG = 1

# Collective calls that move no data of the program's.
_MANAGEMENT = ("Free", "Close", "Set_size", "Preallocate", "Set_view", "Sync")


def _opening(owner: type, name: str, position: int) -> Callable[..., Any]:
    """A class method that makes a window or file of the communicator at `position`."""
    original = native(owner, name)

    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        comm = kwargs.get("comm", args[position] if len(args) > position else MPI.COMM_SELF)
        state = here.states.get(comm.handle) if isinstance(comm, MPI.Comm) else None
        if state is None:
            return original(*args, **kwargs)
        arrive_on(state.collective.comm)
        made = original(*args, **kwargs)
        here.meeting_places[owner, made.handle] = private(comm)
        return made

    return bracket(f"{owner.__name__}.{name}", make)


def _collective(owner: type, name: str) -> Callable[..., Any]:
    """A method that all members call."""
    original = native(owner, name)
    is_last = name in ("Free", "Close")

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name not in _MANAGEMENT:
            go_around(name, args, kwargs)
        key = owner, self.handle
        comm = here.meeting_places.get(key)
        if comm is not None:
            arrive_on(comm)
        result = original(self, *args, **kwargs)
        if is_last and comm is not None:
            del here.meeting_places[key]
            _free(comm)
        return result

    return bracket(f"{owner.__name__}.{name}", call)


def _members(window: MPI.Win, group: MPI.Group) -> tuple[Any, list[int]]:
    """The window's private communicator and the group's ranks there; none if it has none."""
    comm = here.meeting_places.get((MPI.Win, window.handle))
    return comm, [] if comm is None else ranks_in(comm, group)


def Post(self: MPI.Win, group: MPI.Group, assertion: int = 0) -> None:
    here.calls.go_around(0)
    comm, origins = _members(self, group)
    _post(self, group, assertion)
    for origin in origins:
        _free_request(_isend(comm, _NOTHING, origin, _POSTED_TAG))


def Start(self: MPI.Win, group: MPI.Group, assertion: int = 0) -> None:
    here.calls.go_around(0)
    comm, targets = _members(self, group)
    requests = [_irecv(comm, _NOTHING, target, _POSTED_TAG) for target in targets]
    for target, request in zip(targets, requests, strict=True):
        while not _test(request):
            turn(partial(_describe_post, target))
    _start(self, group, assertion)


def Wait(self: MPI.Win) -> bool:
    here.calls.go_around(0)
    while not _test_epoch(self):
        turn(lambda: "the Complete of a window's origins")
    return True


def _describe_post(target: int) -> str:
    return f"the Post of rank {target} of a window's communicator"


def install() -> None:
    replace_calls(MPI.Win, {"Post": Post, "Start": Start, "Wait": Wait}, "Win.")
    positions = {"Create": 3, "Allocate": 3, "Allocate_shared": 3, "Create_dynamic": 1}
    replace_each(MPI.Win, positions, lambda name: _opening(MPI.Win, name, positions[name]))
    replace_each(MPI.Win, ("Fence", "Free"), partial(_collective, MPI.Win))
    replace_each(MPI.File, ("Open",), lambda name: _opening(MPI.File, name, 0))
    names = [name for name in MPI.File.__dict__ if name.endswith(("_all", "_ordered"))]
    names = [name for name in names if not name.startswith("I")]
    names += [name for name in _MANAGEMENT if name != "Free"]
    replace_each(MPI.File, names, partial(_collective, MPI.File))
