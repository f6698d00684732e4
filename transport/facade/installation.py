"""Puts the facade's methods in place, and takes the node down before MPI is finalized."""

import atexit
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.native.output import OutputError, let_be_read
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config
from pagewire.transport.facade import (
    array_collectives,
    arrays,
    collectives,
    communicators,
    completion,
    extensions,
    native_calls,
    neighborhoods,
    object_collectives,
    objects,
    persistent,
    point_to_point,
    probing,
    reductions,
    selection,
    synchronising,
)
from pagewire.transport.facade.mpi_library import mpi_library
from pagewire.transport.facade.node import Node
from pagewire.transport.facade.patching import native
from pagewire.transport.facade.program_time import program_time
from pagewire.transport.facade.progress import make_progress, turn
from pagewire.transport.facade.python_calls import calls
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.wire_mpi import WireMpi

# Turns in vain, when everybody is at Finalize, after which a send counts as never received.
_PATIENCE_TURNS = 2000


def _check_world(environ: Mapping[str, str]) -> None:
    """Refuse ranks that are alone because mpiexec is of another MPI than mpi4py's library."""
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"):
        size = environ.get(name, "")
        if size.isdecimal() and int(size) > 1 and MPI.COMM_WORLD.Get_size() == 1:
            library = MPI.Get_library_version().strip("\0").splitlines()[0]
            raise ConfigError(
                f"{name} = {size}, but this rank is alone: mpiexec is of another MPI than that of "
                f"mpi4py ({' '.join(library.split()[:3])}); name the right one by --mpi"
            )


def install() -> None:
    """Make the node, open the rank and replace the methods. Collective over COMM_WORLD."""
    loaded = config.load()
    _check_world(os.environ)
    wire = WireMpi(loaded.run.wire)
    node = Node(loaded, wire.pointer, wire.rank, wire.size)
    made = ffi.new("pw_messaging **")
    eager_limit_bytes = loaded.run.eager_limit_bytes
    node.check(lib.pw_messaging_create(node.c, mpi_library(), eager_limit_bytes, made), "messages")
    here.open(node, made[0])
    if loaded.run.trace:
        node.start_trace(_records_path(loaded.run.trace, wire.rank))
    if loaded.run.record:
        node.start_recording(f"{loaded.run.record}.{wire.rank}", eager_limit_bytes)
    lib.pw_messaging_set_pause(here.messaging, lib.pw_host_pause, ffi.NULL)
    # Forks of C code are noticed page by page, when a walk finds a page shared.
    os.register_at_fork(after_in_parent=node.forked)
    for family in (
        selection,
        arrays,
        communicators,
        point_to_point,
        probing,
        persistent,
        objects,
        completion,
        collectives,
        reductions,
        array_collectives,
        object_collectives,
        neighborhoods,
        synchronising,
        native_calls,
        extensions,
    ):
        family.install()
    if here.node.config.run.wtime == "virtual":
        _replace_function("Wtime", here.clock.wtime_s)
        _replace_function("Wtick", lambda: 1e-9)
        program_time.start()
    finalize, ending = MPI.Finalize, Ending(wire)

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


def _records_path(trace: str, rank: int) -> str:
    """Where a rank's records go: to the launcher, or beside the timeline that rank 0 makes."""
    directory = os.environ.get("PAGEWIRE_LAUNCH_DIR", "")
    return f"{directory}/{rank}.trace" if directory else f"{trace}.{rank}"


def _replace_function(name: str, replacement: Callable[[], float]) -> None:
    replaced = functools.wraps(getattr(MPI, name))(lambda: replacement())
    setattr(MPI, name, replaced)


class Ending:
    """The end of a rank: at Finalize, or at the interpreter's exit when the program calls none."""

    def __init__(self, wire: WireMpi) -> None:
        self._begun = False
        self._wire = wire

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
            import traceback  # takes long to load

            traceback.print_exc()
            let_be_read()
            MPI.COMM_WORLD.Abort(1)

    def finish(self) -> None:
        """Let sends nobody waited for go through, then take the node down. Synchronises all
        ranks."""
        if self._begun or MPI.Is_finalized():
            return
        self._begun = True
        extensions.look()
        world = here.states[MPI.COMM_WORLD.handle]
        here.clock.enter()
        try:
            _let_sends_through(world)
        finally:
            here.clock.leave()
        program_time.stop()
        self._close()

    def _close(self) -> None:
        """Report and take the node down.

        Raises OutputError, when everything else is done, for a file that could not be written.
        """
        node = here.node
        directory = os.environ.get("PAGEWIRE_LAUNCH_DIR", "")
        per_rank = None
        failure = _finish_files(node)  # told when every rank has what it waits for
        if not directory:
            per_rank = native(MPI.Comm, "gather")(self._wire.comm, node.counters(), 0)
        try:
            node.clock.close()
            if directory:
                node.leave_report(directory)
            elif per_rank is not None:
                from pagewire.run.report import report  # takes long to load

                run = node.config.run
                report.finish(per_rank, node.config, run.json, run.quiet)
                if run.html and failure is None:
                    _make_page(run.html, per_rank, node.config)
                if run.trace and failure is None:
                    _make_timeline(run.trace, len(per_rank))
            if failure is not None:
                raise failure
        finally:
            calls.close()
            messaging, here.messaging = here.messaging, ffi.NULL
            lib.pw_messaging_destroy(messaging)
            node.close()
            self._wire.free()


def _finish_files(node: Node) -> OutputError | None:
    failure = None
    for finish in (node.finish_recording, node.finish_trace):
        try:
            finish()
        except OutputError as error:
            failure = error
    return failure


def _make_page(path: str, per_rank: list[Any], settings: config.Config) -> None:
    """For a run of the user's own mpiexec."""
    from pagewire.run.page import page
    from pagewire.run.report import report

    program = os.environ.get("PAGEWIRE_PROGRAM", "")
    page.write(path, report.document(per_rank, settings, program))


def _make_timeline(path: str, num_ranks: int) -> None:
    """For a run of the user's own mpiexec: all ranks must have written where this one reads."""
    from pagewire.run.timeline import timeline

    records = {rank: f"{path}.{rank}" for rank in range(num_ranks)}
    try:
        timeline.write(path, records, config.load())
    finally:
        for each in records.values():
            with contextlib.suppress(FileNotFoundError):  # its rank could not write it
                os.unlink(each)


def _let_sends_through(world: communicators.State | communicators.Begun) -> None:
    communicators.arrive(world)
    in_vain = 0
    while in_vain < _PATIENCE_TURNS and not _sent():
        if make_progress(True):
            in_vain = 0
        else:
            in_vain += 1
            turn(lambda: "sends that nobody waited for, before MPI is finalized")
    communicators.arrive(world)


def _sent() -> bool:
    return bool(here.node.check(lib.pw_call_drained(here.messaging), "the end of all sends"))
