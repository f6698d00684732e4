"""Random traffic, all kinds of point-to-point mixed, by stress's thrower: every byte, status and
order is what MPI promises.

A seed decides which messages go where, how, and how they are received; every rank draws the same.
More seeds than CI tries: PAGEWIRE_TEST_SEEDS=100:200.
"""

import os

import pytest

from pagewire.cli.checks.stress import draw
from pagewire.cli.checks.stress.rank import as_kit_step
from pagewire.cli.checks.stress.steps import kit
from pagewire.transport import MPI

pytestmark = pytest.mark.mpi

MAX_BYTES = 300_000


def seeds():
    first, _, end = os.environ.get("PAGEWIRE_TEST_SEEDS", "0:16").partition(":")
    return range(int(first), int(end))


@pytest.fixture
def buffered():
    """Room for buffered sends."""
    MPI.Attach_buffer(bytearray(kit.BUFFERED_BYTES))
    yield
    MPI.Detach_buffer()


@pytest.mark.usefixtures("buffered")
@pytest.mark.parametrize("seed", seeds())
def test_random_traffic_arrives_as_mpi_promises(comm, seed):
    drawn = draw.program(seed, comm.size, MAX_BYTES, draw.POINT_TO_POINT)
    run = kit.Run(comm, seed)
    kit.execute(run, [as_kit_step(step) for step in drawn.steps])
    run.close()
    assert comm.allreduce(sum(run.checked.values())) > 0


def test_all_kinds_of_messages_are_drawn(comm):
    kinds = {
        step.kind
        for seed in range(16)
        for step in draw.program(seed, comm.size, MAX_BYTES, draw.POINT_TO_POINT).steps
    }
    assert kinds == set(draw.POINT_TO_POINT)
