"""Whole runs with page-in policies of the user's."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from test_runs import command

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

class Leaving(PageInPolicy):
    def pages(self, *, fault):
        say_when()
        raise SystemExit(0)

class Interrupted(PageInPolicy):
    def pages(self, *, fault):
        say_when()
        raise KeyboardInterrupt
"""

LEAVING_SCHEDULER = """
from pagewire.r5sched.scheduling import SchedulingPolicy

class Leaving(SchedulingPolicy):
    def schedule(self, *, transfer):
        open("sign", "w").close()
        raise SystemExit(0)
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


def counted(path):
    document = json.loads(path.read_text())
    physical = {
        "wall_time_s", "peak_rss_bytes", "bursts_sent", "bursts_received", "yields", "sleeps",
        "bursts_short", "bursts_in_place", "bursts_copied", "bursts_by_message",
    }  # fmt: skip
    return [
        {name: value for name, value in rank.items() if name not in physical}
        for rank in document["ranks"]
    ]


@pytest.mark.parametrize("built_in,own", [("page", "near:Page"), ("all", "near:All")])
def test_class_that_does_what_a_built_in_policy_does_gives_its_report(
    built_in, own, program, tmp_path
):
    reports = []
    for name in (built_in, own):
        path = tmp_path / f"{name.replace(':', '-')}.json"
        done = command("launch", "-n", "3", "--policy", name, "--compute", "none", "--quiet",
                       "--set", "smmu.walk_cache_entries=0",  # a walk depends on where buffers lie
                       "--json", str(path), program())  # fmt: skip
        assert done.returncode == 0, done.stderr
        reports.append(counted(path))
    assert reports[0] == reports[1]
    assert sum(rank["pages_paged_in"] for rank in reports[1]) > 0


SOON_S = 10
"""From a rank's failure to the launch's end."""


def ended_soon(folder):
    return time.time() - (folder / "sign").stat().st_mtime < SOON_S


def run_in(folder, *words, environ=None):
    return subprocess.run(
        words,
        env={**os.environ, **(environ or {})},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_example_brings_in_neighbours(tmp_path):
    path = tmp_path / "report.json"
    done = run_in(EXAMPLES, sys.executable, "-P", "-m", "pagewire", "launch", "-n", "2",
                     "--quiet", "--policy", "fault_around:FaultAround", "--json", str(path),
                     "--compute", "none",
                     "lammps", "--size", "4", "--steps", "10", "--fresh-buffers")  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    assert document["summary"]["policy"] == "fault_around:FaultAround"
    assert document["settings"]["run.policy"] == "fault_around:FaultAround"
    assert document["summary"]["pages_paged_in"] > 0


@pytest.mark.parametrize("caught", ["()", "Exception"], ids=["not caught", "caught"])
def test_policy_that_raises_ends_every_rank_of_a_launch(caught, program, tmp_path):
    done = run_in(tmp_path, sys.executable, "-P", "-m", "pagewire", "launch", "-n", "3",
                          "--quiet", "--policy", "near:Tired", program(caught=caught))  # fmt: skip
    assert done.returncode == 1
    (last,) = [line for line in done.stderr.splitlines() if line.startswith("pagewire: rank")]
    assert "page-in policy 'near:Tired' raised RuntimeError: no more" in last
    assert 'raise RuntimeError("no more")' in done.stderr  # the policy's own traceback
    assert ended_soon(tmp_path)


@pytest.mark.parametrize(
    "words,raised",
    [
        (("--policy", "near:Leaving"), "SystemExit"),
        (("--policy", "near:Interrupted"), "KeyboardInterrupt"),
        (("--set", "firmware.scheduling=leaving:Leaving"), "SystemExit"),
    ],
)
def test_policy_that_leaves_ends_every_rank_with_its_traceback(words, raised, program, tmp_path):
    (tmp_path / "leaving.py").write_text(LEAVING_SCHEDULER)
    done = run_in(tmp_path, sys.executable, "-P", "-m", "pagewire", "launch", "-n", "3",
                          "--quiet", *words, program())  # fmt: skip
    assert done.returncode not in (0, None) and ended_soon(tmp_path)
    assert f"raise {raised}" in done.stderr and raised in done.stderr.splitlines()[-1]


def test_operation_that_leaves_ends_every_rank_with_its_traceback(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(LEAVING_OPERATION)
    done = run_in(tmp_path, sys.executable, "-P", "-m", "pagewire", "launch", "-n", "3",
                          "--quiet", str(path))  # fmt: skip
    assert done.returncode == 1 and ended_soon(tmp_path)
    assert "raise SystemExit(0)" in done.stderr


@pytest.mark.parametrize("caught", ["()", "Exception"], ids=["not caught", "caught"])
def test_policy_that_raises_ends_every_rank_of_a_plain_mpiexec(caught, program, tmp_path):
    path = program(imports="from pagewire.transport import MPI", caught=caught)
    mpiexec = pathlib.Path(sys.prefix, "bin", "mpiexec")
    command = str(mpiexec) if mpiexec.exists() else "mpiexec"
    environ = {"PAGEWIRE_RUN_POLICY": "near:Tired", "PAGEWIRE_RUN_QUIET": "1"}
    done = run_in(tmp_path, command, "-n", "3", sys.executable, path, environ=environ)
    assert done.returncode != 0
    assert "page-in policy 'near:Tired' raised RuntimeError: no more" in done.stderr


def test_module_beside_the_program_is_found_from_another_folder(program, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    done = run_in(other, sys.executable, "-P", "-m", "pagewire", "launch", "-n", "2", "--quiet",
                     "--policy", "near:Page", program())  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_bad_class_is_refused_before_a_rank_starts(program, tmp_path):
    done = run_in(tmp_path, sys.executable, "-P", "-m", "pagewire", "launch", "-n", "2",
                     "--policy", "near:Pge", program())  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "did you mean 'Page'" in line
