"""A recorded run is a trace like any: it is whole, can be cut by its phases, and goes into other
formats and back."""

import pytest
from cli_runs import ran

from pagewire.cli.main import main
from pagewire.replay.check import check
from pagewire.replay.formats.convert import Conversion
from pagewire.replay.loggops import simulate
from pagewire.replay.records import Region, Send
from pagewire.replay.trace import Reader

PROGRAM = """
import numpy as np
from mpi4py import MPI
from pagewire.transport import region
world = MPI.COMM_WORLD
there, back = (world.rank + 1) % world.size, (world.rank - 1) % world.size
sent, received = np.ones(50_000, np.uint8), np.empty(50_000, np.uint8)
half = world.Split(world.rank % 2)
for step in range(3):
    with region("ring"):
        world.Sendrecv(sent, there, 0, received, back, 0)
    if world.rank:
        world.Send(sent[:900], 0, step)
    else:
        for _ in range(world.size - 1):
            world.Recv(received, MPI.ANY_SOURCE, MPI.ANY_TAG)
    half.Barrier()
    world.Allreduce(np.ones(10), np.empty(10))
half.Free()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(PROGRAM)
    ran("record", "-n", "3", "--quiet", "-o", "a.pwt", "program.py", cwd=folder)
    return folder


def sizes(path):
    """Bytes of each rank's messages of more than a byte, by peer."""
    with Reader(str(path)) as reader:
        assert list(check(reader)) == []
        return [
            sorted((each.peer, each.num_bytes) for each in reader.records(rank)
                   if isinstance(each, Send) and each.num_bytes > 1)
            for rank in range(reader.num_ranks)
        ]  # fmt: skip


def test_a_recorded_run_is_whole(recorded):
    assert main(["trace", "check", str(recorded / "a.pwt")]) == 0


def test_a_phase_of_a_recorded_run_is_cut_out(recorded):
    cut = str(recorded / "cut.pwt")
    words = ["--phase", "ring", "--occurrence", "2", "-o", cut]
    assert main(["trace", "cut", str(recorded / "a.pwt"), *words]) == 0
    assert sizes(cut) == [[((rank + 1) % 3, 50_000)] for rank in range(3)]
    with Reader(cut) as reader:
        assert [each for each in reader.records(1) if isinstance(each, Region)] == [Region("ring")]


@pytest.mark.parametrize("suffix", ["goal", "bin", "ti"])
def test_a_recorded_run_goes_into_other_formats_and_back(recorded, suffix):
    there, back = str(recorded / f"a.{suffix}"), str(recorded / f"{suffix}.pwt")
    Conversion().run(str(recorded / "a.pwt"), there)
    Conversion().run(there, back)
    assert sizes(back) == sizes(recorded / "a.pwt")


def test_the_usual_model_runs_a_recorded_run(recorded):
    assert simulate(str(recorded / "a.pwt")).run_ns > 3 * 50_000 * 6  # by G alone
