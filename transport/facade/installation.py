"""Puts the facade's methods in place, and takes the node down before MPI is finalized."""

import atexit
import functools
import os
import sys
import traceback
from collections.abc import Callable

from mpi4py import MPI

from pagewire.native.output import OutputError
from pagewire.transport.facade import (
    collectives,
    communicators,
    completion,
    message,
    native_calls,
    object_collectives,
    object_completion,
    objects,
    persistent,
    point_to_point,
    probing,
    reductions,
    selection,
    synchronising,
)
from pagewire.transport.facade.frames import Frames
from pagewire.transport.facade.program_time import program_time
from pagewire.transport.facade.progress import progress, turn
from pagewire.transport.facade.rank import here
from pagewire.transport.node.node import Node
from pagewire.transport.settings import config

# Turns in vain, when everybody is at Finalize, after which a send counts as never received.
_PATIENCE_TURNS = 2000


def install() -> None:
    """Make the node, open the rank and replace the methods. Collective over COMM_WORLD."""
    node = Node(config.load())
    here.open(node, Frames(node.config.run.eager_limit_bytes))
    # Forks of C code are noticed page by page, when a walk finds a page shared.
    os.register_at_fork(after_in_parent=here.progress.forked)
    for family in (
        selection,
        message,
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
        native_calls,
    ):
        family.install()
    if here.node.config.run.wtime == "virtual":
        _replace_function("Wtime", here.clock.wtime_s)
        _replace_function("Wtick", lambda: 1e-9)
        program_time.start()
    finalize, ending = MPI.Finalize, Ending()

    def Finalize() -> None:
        try:
            ending.finish()
        except OutputError:  # the node is down: MPI's end need not wait for the program's
            finalize()
            raise
        finalize()

    Finalize.__doc__ = finalize.__doc__
    MPI.Finalize = Finalize
    # mpi4py finalizes later, when the interpreter is gone.
    atexit.register(ending.finish_at_exit, finalize)


def _replace_function(name: str, replacement: Callable[[], float]) -> None:
    replaced = functools.wraps(getattr(MPI, name))(lambda: replacement())
    setattr(MPI, name, replaced)


class Ending:
    """The end of a rank: at Finalize, or at the interpreter's exit when the program calls none."""

    def __init__(self) -> None:
        self._begun = False

    def finish_at_exit(self, finalize: Callable[[], None]) -> None:
        """As `finish`, but nobody is left to see what it raises."""
        try:
            self.finish()
        except OutputError as error:
            print(f"pagewire: error: {error}", file=sys.stderr, flush=True)
            finalize()
            sys.stdout.flush()
            os._exit(1)  # what is raised here would not change the exit code
        except BaseException:  # noqa: BLE001, the others would wait in MPI for ever
            traceback.print_exc()
            sys.stderr.flush()
            MPI.COMM_WORLD.Abort(1)

    def finish(self) -> None:
        """Let sends nobody waited for go through, then take the node down. Synchronises all
        ranks."""
        if self._begun or MPI.Is_finalized():
            return
        self._begun = True
        world = here.states[MPI.COMM_WORLD.handle]
        here.clock.enter()
        try:
            communicators.arrive(world)
            in_vain = 0
            while in_vain < _PATIENCE_TURNS and not _sent():
                if progress(True):
                    in_vain = 0
                else:
                    in_vain += 1
                    turn(_describe_end)
            communicators.arrive(world)
        finally:
            here.clock.leave()
        program_time.stop()
        here.node.close()


def _describe_end() -> str:
    return "sends that nobody waited for, before MPI is finalized"


def _sent() -> bool:
    started = [*here.active.values(), *here.unattended]
    sends = [operation.poll() for operation in started if not operation.is_receive]
    return all(sends) and here.frames.drain()
