"""Tests that need ranks: run by `pagewire test`, under mpiexec with --with-mpi."""

import contextlib
import os
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if config.getoption("--with-mpi") else True


@pytest.fixture
def comm():
    """A duplicate of COMM_WORLD, carried by the emulated network interface."""
    from pagewire.transport import MPI

    duplicate = MPI.COMM_WORLD.Dup()
    yield duplicate
    duplicate.Free()


@pytest.fixture
def plain():
    """The methods of plain mpi4py: `plain("Send", buf, ...)`, on a communicator left to MPI."""
    from pagewire.transport import MPI
    from pagewire.transport.facade.patching import native

    duplicate, request = native(MPI.Comm, "Idup")(MPI.COMM_WORLD)
    native(MPI.Request, "Wait")(request)

    def call(name, *args, **kwargs):
        owner = MPI.Intracomm if name in MPI.Intracomm.__dict__ else MPI.Comm
        return native(owner, name)(duplicate, *args, **kwargs)

    yield call
    native(MPI.Comm, "Free")(duplicate)


@pytest.fixture
def node():
    from pagewire.transport import MPI  # noqa: F401  puts the node up
    from pagewire.transport.facade.rank import here

    return here.node


@pytest.fixture
def last_is_silent(comm, tmp_path):
    """`with last_is_silent() as may_ask:`: the last rank, whose may_ask is false, does nothing
    until all others have left the block."""
    folder, others = Path(comm.bcast(str(tmp_path))), range(comm.size - 1)

    @contextlib.contextmanager
    def silence():
        comm.Barrier()
        if comm.rank not in others:
            (folder / "silent").touch()  # in the barrier it still serves
            while not all((folder / str(rank)).exists() for rank in others):
                os.sched_yield()
            yield False
            return
        while not (folder / "silent").exists():
            comm.iprobe()  # the barrier may need this rank
        yield True
        (folder / str(comm.rank)).touch()

    return silence
