"""All kinds of extension alike: examples, conformance command, and runs that end in time."""

import pathlib
import shutil
import sys
import time

import pytest
from cli_runs import command, ran, reported
from process_place import SLACK, SOON_S

from pagewire.cli.checks.conformance import KINDS
from pagewire.cli.main import main
from pagewire.run.settings import config

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = {
    "--policy": "fault_around:FaultAround",
    "--errs": "block_first:BlockFirst",
    "--scheduling": "latency_first:LatencyFirst",
    "--impairments": "bad_cable:BadCable",
    "--memory": "pin_once:PinOnce",
}

MODULE = """
import sys

from pagewire.driver.policy import ErrPolicy, PageInPolicy
from pagewire.r5sched.scheduling import SchedulingPolicy
from pagewire.node.strategies.strategy import Lease, MemoryStrategy
from pagewire.run.settings.impairment_planners import ImpairmentPlanner

def leave():
    '''The moment is told by a file: a rank's own clocks are virtual.'''
    open("sign", "w").close()
    sys.exit(0)

class Policy(PageInPolicy):
    def pages(self, *, fault):
        leave()

class Errs(ErrPolicy):
    def err(self, *, fault, pages):
        leave()

class Interrupted(PageInPolicy):
    def pages(self, *, fault):
        open("sign", "w").close()
        raise KeyboardInterrupt

class Scheduling(SchedulingPolicy):
    def schedule(self, *, transfer):
        leave()

class Impairments(ImpairmentPlanner):
    def plan(self, *, rank, num_ranks, configured):
        leave()

class Memory(MemoryStrategy):
    def acquire(self, *, span, access):
        leave()

class MemoryRelease(MemoryStrategy):
    def acquire(self, *, span, access):
        return Lease(span)

    def release(self, *, lease):
        open("sign", "w").close()
        raise KeyboardInterrupt
"""

PROGRAM = """
import mmap
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.Send(np.ones(100_000, "u1"), 1)
else:
    comm.Recv(np.frombuffer(mmap.mmap(-1, 100_000), "u1"), 0)  # of absent pages
comm.Barrier()
"""


TELLS = """
from pagewire.node.strategies.strategy import Lease, MemoryStrategy

class Tells(MemoryStrategy):
    def acquire(self, *, span, access):
        return Lease(span)

    def invalidated(self, *, first_page, num_pages):
        print("told of", num_pages, "pages", flush=True)
"""

FREES = """
import os
from mpi4py import MPI
from pagewire.transport import rdma
buffer = rdma.Buffer(3 * 4096)
buffer.free()
if os.fork() == 0:
    os._exit(0)
MPI.COMM_WORLD.Barrier()
"""


def test_every_setting_that_takes_a_class_has_a_conformance_test_and_an_example():
    settings = {each.setting for each in config.EXTENSIONS}
    assert {kind.setting for kind in KINDS.values()} == settings
    assert set(EXAMPLES) == set(KINDS)
    files = {f"{name.partition(':')[0]}.py" for name in EXAMPLES.values()}
    of_no_class = {"lab_policies.py", "regions.py"}  # test_lab.py, test_transport_regions.py
    assert files | of_no_class == {path.name for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize("option", EXAMPLES)
def test_example_is_short_and_conforms(option, tmp_path):
    name = EXAMPLES[option]
    path = ROOT / "examples" / f"{name.partition(':')[0]}.py"
    assert len(path.read_text().splitlines()) < 30
    shutil.copy(path, tmp_path)
    done = ran("test", option, name, cwd=tmp_path)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == f"{KINDS[option].setting} {name}"
    assert all(line.startswith("ok ") for line in lines[1:]) and len(lines) >= 4


@pytest.mark.parametrize("option", EXAMPLES)
def test_example_stands_in_the_documentation(option):
    text = (ROOT / "docs" / "extending.md").read_text()
    code = (ROOT / "examples" / f"{EXAMPLES[option].partition(':')[0]}.py").read_text()
    _, _, body = code.partition('"""\n\n')
    assert body in text
    assert f"pagewire test {option} {EXAMPLES[option]}" in text


@pytest.mark.parametrize("option", EXAMPLES)
def test_command_says_what_is_wrong_and_refuses_other_words(option, tmp_path, monkeypatch, capsys):
    (tmp_path / "exits.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    name = f"exits:{option.removeprefix('--').capitalize()}"
    assert main(["test", f"{option}={name}"]) == 1
    output = capsys.readouterr().out
    assert "FAILED  raises nothing" in output and "raised SystemExit: 0" in output
    known = next(each for each in config.EXTENSIONS if each.setting == KINDS[option].setting)
    for words in ([], [known.names()[0]], ["a"], ["a:B", "more"], ["exits:Non"], ["sys:exit"]):
        assert main(["test", option, *words]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    sys.modules.pop("exits", None)


@pytest.mark.parametrize(
    ("setting", "name", "text"),
    [
        ("run.policy", "Policy", "page-in policy 'exits:Policy' raised SystemExit: 0"),
        ("run.policy", "Interrupted", "raised KeyboardInterrupt"),
        ("driver.err_by", "Errs", "ERR policy 'exits:Errs' raised SystemExit: 0"),
        ("firmware.scheduling", "Scheduling", "'exits:Scheduling' raised SystemExit: 0"),
        ("impairments.planner", "Impairments", "plan() raised SystemExit: 0"),
        ("run.memory", "Memory", "'exits:Memory': acquire("),
        ("run.memory", "MemoryRelease", "raised KeyboardInterrupt"),
    ],
)
def test_class_that_exits_ends_the_job_with_its_message_and_traceback(
    setting, name, text, tmp_path
):
    (tmp_path / "exits.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(PROGRAM)
    words = ("launch", "-n", "2", "--quiet", "--set", f"{setting}=exits:{name}", "program.py")
    done = command(*words, cwd=tmp_path)
    assert done.returncode != 0
    assert time.time() - (tmp_path / "sign").stat().st_mtime < SOON_S * SLACK
    assert text in done.stderr
    assert name == "Impairments" or "exits.py" in done.stderr  # the launcher's own sentence


def test_memory_strategy_of_the_users_own_runs_a_program(tmp_path):
    shutil.copy(ROOT / "examples" / "pin_once.py", tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    words = ("--memory", "pin_once:PinOnce", "program.py")
    totals = reported(tmp_path, 2, *words, cwd=tmp_path)[1]["totals"]
    assert totals["translation_faults"] == 0 < totals["pin_ns"]


def test_strategy_is_told_of_a_freed_buffer_and_of_a_fork(tmp_path):
    (tmp_path / "tells.py").write_text(TELLS)
    (tmp_path / "program.py").write_text(FREES)
    done = ran("launch", "-n", "2", "--memory", "tells:Tells", "program.py", cwd=tmp_path)
    assert done.stdout.count("told of 3 pages") == 2
    assert done.stdout.count(f"told of {2**52} pages") == 2
