"""Windows and files: MPI's own, but their collective calls begin when every member is there.

Otherwise a rank inside MPI would keep others waiting for its NI. Each window and file has a
private communicator for this, since the user may free his before it. Passive-target locks, which
wait for one other rank, are not looked after.
"""

from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from pagewire.transport.communicators import arrive_on, private, states
from pagewire.transport.patching import native, replace_all
from pagewire.transport.progress import calls, node

_free = native(MPI.Comm, "Free")

# Private communicators of windows and of files, by handle.
_meeting_places: dict[tuple[type, int], MPI.Intracomm] = {}


def _opening(owner: type, name: str, position: int) -> Callable[..., Any]:
    """A class method that makes a window or file of the communicator at `position`."""
    original = native(owner, name)

    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        node.enter()
        try:
            calls[f"{owner.__name__}.{name}"] += 1
            comm = kwargs.get("comm", args[position] if len(args) > position else MPI.COMM_SELF)
            state = states.get(comm.handle) if isinstance(comm, MPI.Comm) else None
            if state is None:
                return original(*args, **kwargs)
            arrive_on(state.collective.comm)
            made = original(*args, **kwargs)
            _meeting_places[owner, made.handle] = private(comm)
            return made
        finally:
            node.leave()

    return make


def _collective(owner: type, name: str, last: bool) -> Callable[..., Any]:
    """A method that all members call; after the `last` one the window or file is gone."""
    original = native(owner, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        node.enter()
        try:
            calls[f"{owner.__name__}.{name}"] += 1
            key = owner, self.handle
            comm = _meeting_places.get(key)
            if comm is not None:
                arrive_on(comm)
            result = original(self, *args, **kwargs)
            if last and comm is not None:
                del _meeting_places[key]
                _free(comm)
            return result
        finally:
            node.leave()

    return call


def install() -> None:
    constructors = {"Create": 3, "Allocate": 3, "Allocate_shared": 3, "Create_dynamic": 1}
    replace_all(MPI.Win, {name: _opening(MPI.Win, name, at) for name, at in constructors.items()})
    replace_all(MPI.Win, {name: _collective(MPI.Win, name, name == "Free") for name in ("Fence", "Free")})
    replace_all(MPI.File, {"Open": _opening(MPI.File, "Open", 0)})
    names = [name for name in MPI.File.__dict__ if name.endswith(("_all", "_ordered"))]
    names += ["Close", "Set_size", "Preallocate", "Set_view", "Sync"]
    replace_all(
        MPI.File,
        {
            name: _collective(MPI.File, name, name == "Close")
            for name in names
            if not name.startswith("I")
        },
    )
