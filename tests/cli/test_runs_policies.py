"""Whole runs with page-in policies of the user's."""

import pathlib
import time

import pytest
from cli_runs import BIN, PAGEWIRE, ran, reported, started
from process_place import SLACK, SOON_S

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"

POLICIES = """
from pagewire.driver.policy import PageInPolicy

class Page(PageInPolicy):
    def pages(self, *, fault):
        return range(fault.page, fault.page + 1)

class All(PageInPolicy):
    def pages(self, *, fault):
        stop = fault.transfer.stop
        return range(fault.page, stop if fault.at_destination else min(stop, fault.page + 4))

def say_when():
    '''The moment at which a rank fails: its own clocks are virtual.'''
    open("sign", "w").close()

class Tired(PageInPolicy):
    '''Raises at the third fault.'''

    def __init__(self):
        self.num_faults = 0

    def pages(self, *, fault):
        self.num_faults += 1
        if self.num_faults == 3:
            say_when()
            raise RuntimeError("no more")
        return range(fault.page, fault.page + 1)
"""

LEAVING_OPERATION = """
from mpi4py import MPI

def leave(one, other):
    open("sign", "w").close()
    raise SystemExit(0)

MPI.COMM_WORLD.allreduce(1, leave)
"""

PROGRAM = """
import mmap, sys
import numpy as np
{imports}

comm = MPI.COMM_WORLD

def fresh(num_bytes):
    pages = mmap.mmap(-1, num_bytes + 16384, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(pages, np.uint8)
    start = -whole.ctypes.data % 16384  # blocks end at 16 KB of the address
    return whole[start : start + num_bytes]

for turn in range(6):
    num_bytes = (1 << 14, 100_000, 1 << 20)[turn % 3]
    sent, buffer = fresh(num_bytes), fresh(num_bytes)
    sent[:] = turn + 1
    try:
        for peer in range(1, comm.size):
            if comm.rank == 0:
                comm.Send(sent, peer)
            elif comm.rank == peer:
                comm.Recv(buffer, 0)
                assert (buffer == turn + 1).all()
    except {caught}:
        print("caught", flush=True)
comm.Barrier()
"""


@pytest.fixture
def program(tmp_path):
    """Writes the program beside the policies."""
    (tmp_path / "near.py").write_text(POLICIES)

    def write(imports="from mpi4py import MPI", caught="()"):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(imports=imports, caught=caught))
        return str(path)

    return write


PHYSICAL = {
    "wall_time_s", "peak_rss_bytes", "bursts_sent", "bursts_received", "yields", "sleeps",
    "bursts_short", "bursts_in_place", "bursts_copied", "bursts_by_message",
}  # fmt: skip


@pytest.mark.parametrize("built_in,own", [("page", "near:Page"), ("all", "near:All")])
def test_class_that_does_what_a_built_in_policy_does_gives_its_report(
    built_in, own, program, tmp_path
):
    path = program()
    reports = []
    for name in (built_in, own):
        # A walk depends on where buffers lie.
        words = ["--compute", "none", "--quiet", "--set", "smmu.walk_cache_entries=0", path]
        _, document = reported(tmp_path, 3, "--policy", name, *words)
        ranks = document["ranks"]
        reports.append([{key: rank[key] for key in rank.keys() - PHYSICAL} for rank in ranks])
    assert reports[0] == reports[1]
    assert sum(rank["pages_paged_in"] for rank in reports[1]) > 0


def test_example_brings_in_neighbours(tmp_path):
    name, app = "fault_around:FaultAround", ["lammps", "--size", "4", "--steps", "10"]
    words = ["--quiet", "--compute", "none", *app, "--fresh-buffers"]
    _, document = reported(tmp_path, 2, "--policy", name, *words, cwd=EXAMPLES)
    assert document["summary"]["policy"] == document["settings"]["run.policy"] == name
    assert document["summary"]["pages_paged_in"] > 0


@pytest.mark.parametrize("caught", ["()", "Exception"], ids=["not caught", "caught"])
def test_policy_that_raises_ends_every_rank_of_a_launch(caught, program, tmp_path):
    words = ["--quiet", "--policy", "near:Tired", program(caught=caught)]
    done = ran("launch", "-n", "3", *words, code=1, cwd=tmp_path)
    assert time.time() - (tmp_path / "sign").stat().st_mtime < SOON_S * SLACK
    (last,) = [line for line in done.stderr.splitlines() if line.startswith("pagewire: rank")]
    assert "page-in policy 'near:Tired' raised RuntimeError: no more" in last
    assert 'raise RuntimeError("no more")' in done.stderr  # the policy's own traceback


def test_operation_that_leaves_ends_every_rank_with_its_traceback(tmp_path):
    (tmp_path / "program.py").write_text(LEAVING_OPERATION)
    done = ran("launch", "-n", "3", "--quiet", "program.py", code=1, cwd=tmp_path)
    assert time.time() - (tmp_path / "sign").stat().st_mtime < SOON_S * SLACK
    assert "raise SystemExit(0)" in done.stderr


@pytest.mark.parametrize("caught", ["()", "Exception"], ids=["not caught", "caught"])
def test_policy_that_raises_ends_every_rank_of_a_plain_mpiexec(caught, program, tmp_path):
    path = program(imports="from pagewire.transport import MPI", caught=caught)
    environ = {"PAGEWIRE_RUN_POLICY": "near:Tired", "PAGEWIRE_RUN_QUIET": "1"}
    words = [str(BIN / "mpiexec"), "-n", "3", PAGEWIRE[0], path]
    done = started(words, cwd=tmp_path, environ=environ)
    assert done.returncode != 0
    assert "page-in policy 'near:Tired' raised RuntimeError: no more" in done.stderr
