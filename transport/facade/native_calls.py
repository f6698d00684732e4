"""Calls that MPI carries itself, around the NI: counted here, and otherwise left as they are.

Non-blocking and persistent collectives, partitioned point-to-point, windows, and files. What makes
and frees communicators, windows and files moves no data of the program's and is not counted among
them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.bracket import bracket
from pagewire.transport.facade.message import bytes_given
from pagewire.transport.facade.patching import native, replace_each
from pagewire.transport.facade.rank import here

_COLLECTIVES = (
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv",
    "alltoall", "alltoallv", "alltoallw", "reduce", "allreduce", "reduce_scatter_block",
    "reduce_scatter", "scan", "exscan", "neighbor_allgather", "neighbor_allgatherv",
    "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw",
)  # fmt: skip
_WINDOW = (
    "Put", "Get", "Accumulate", "Get_accumulate", "Fetch_and_op", "Compare_and_swap", "Rput",
    "Rget", "Raccumulate", "Rget_accumulate", "Complete", "Test", "Lock",
    "Unlock", "Lock_all", "Unlock_all", "Flush", "Flush_all", "Flush_local", "Flush_local_all",
    "Sync",
)  # fmt: skip
_TRANSFER_OF_FILE = ("Read", "Write", "Iread", "Iwrite")


def go_around(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The call `name` that has begun is MPI's own: its outgoing buffer, or else the other,
    counts."""
    place = int("_at" in name)  # behind a file's offset
    given = [kwargs[name] for name in ("sendbuf", "buf", "origin", "recvbuf") if name in kwargs]
    given += args[place : place + 2]
    sent = next((spec for spec in given if spec is not None and spec is not MPI.IN_PLACE), None)
    here.calls.go_around(bytes_given(sent, name.removesuffix("_init").endswith("v")))


def _counted(owner: type, prefix: str, name: str) -> Callable[..., Any]:
    original = native(owner, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        go_around(name, args, kwargs)
        return original(self, *args, **kwargs)

    return bracket(prefix + name, call)


def _names() -> dict[type, list[str]]:
    collectives = [f"I{name}" for name in _COLLECTIVES]
    collectives += [f"{name.capitalize()}_init" for name in _COLLECTIVES]
    files = [
        name
        for name in MPI.File.__dict__
        if name.startswith(_TRANSFER_OF_FILE) and not name.endswith(("_all", "_ordered", "_end"))
    ]
    files += [name for name in MPI.File.__dict__ if name.startswith("I") and name.endswith("_all")]
    return {
        MPI.Comm: [*collectives, "Psend_init", "Precv_init"],
        MPI.Intracomm: collectives,
        MPI.Topocomm: collectives,
        MPI.Win: list(_WINDOW),
        MPI.File: files,
    }


def install() -> None:
    for owner, names in _names().items():
        prefix = f"{owner.__name__}." if owner in (MPI.Win, MPI.File) else ""
        replace_each(owner, names, partial(_counted, owner, prefix))
