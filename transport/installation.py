"""Puts the facade's methods in place, and takes the node down before MPI is finalized.

Imported once MPI is initialized: the modules below bind the node when they are imported.
"""

import atexit
import functools
import sys
import traceback
from collections.abc import Callable

from mpi4py import MPI

from pagewire.transport import (
    collectives,
    communicators,
    completion,
    object_collectives,
    object_completion,
    objects,
    persistent,
    point_to_point,
    probing,
    reductions,
    synchronising,
)
from pagewire.transport.operations import active, frames
from pagewire.transport.point_to_point import buffered
from pagewire.transport.progress import node, progress, turn

# Turns in vain, when everybody is at Finalize, after which a send counts as never received.
_PATIENCE_TURNS = 2000
_finished = False


def install() -> None:
    """Replace the methods. Collective over COMM_WORLD."""
    for family in (
        communicators,
        point_to_point,
        probing,
        persistent,
        objects,
        completion,
        object_completion,
        collectives,
        reductions,
        object_collectives,
        synchronising,
    ):
        family.install()
    if node.config.run.wtime == "virtual":
        _replace_function("Wtime", node.wtime_s)
        _replace_function("Wtick", lambda: 1e-9)
    finalize = MPI.Finalize

    def Finalize() -> None:
        _finish()
        finalize()

    Finalize.__doc__ = finalize.__doc__
    MPI.Finalize = Finalize
    atexit.register(_finish_at_exit)  # mpi4py finalizes later, when the interpreter is gone


def _replace_function(name: str, replacement: Callable[[], float]) -> None:
    replaced = functools.wraps(getattr(MPI, name))(lambda: replacement())
    setattr(MPI, name, replaced)


def _finish_at_exit() -> None:
    try:
        _finish()
    except Exception:  # noqa: BLE001
        # Nobody is left to see it, and MPI's own Finalize would wait for the other ranks for ever.
        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)


def _finish() -> None:
    """Let sends nobody waited for go through, then take the node down. Synchronises all ranks."""
    global _finished
    if _finished or MPI.Is_finalized():
        return
    _finished = True
    world = communicators.states[MPI.COMM_WORLD.handle]
    node.enter()
    try:
        communicators.arrive(world)
        in_vain = 0
        while in_vain < _PATIENCE_TURNS and not _sent():
            if progress(True):
                in_vain = 0
            else:
                in_vain += 1
                turn()
        communicators.arrive(world)
    finally:
        node.leave()
    node.close()


def _sent() -> bool:
    started = [*active.values(), *buffered, *completion.abandoned]
    sends = [operation.poll() for operation in started if not operation.is_receive]
    return all(sends) and frames.drain()
