"""`pagewire test` as a tool: what it does with tests that fail, and its runs in a row."""

import re
import time

import pytest
from cli_runs import command
from process_place import SLACK, SOON_S

MARK = "import pytest\npytestmark = pytest.mark." + "mpi\n"  # in two: this file has no such mark

FAILS_ON_RANK_1 = f"""
{MARK}
import pathlib, time
from pagewire.transport import MPI

@pytest.fixture
def comm():
    duplicate = MPI.COMM_WORLD.Dup()
    yield duplicate
    duplicate.Free()  # rank 1 would wait here, as the others wait for rank 1

def test_each_rank_agrees(comm):
    if comm.rank == 1:
        pathlib.Path("failed_at").write_text(str(time.monotonic()))
    assert comm.rank != 1, "this rank does not"
    comm.recv(source=1)

def test_later(comm):
    assert False
"""
PASSES = f"{MARK}def test_of_another_file():\n    pass\n"


@pytest.fixture
def source(tmp_path):
    """Makes a source tree of tests by their files' text, and the command's result in it."""

    def run(words, **files):
        folder = tmp_path / "tests" / "ranks"
        folder.mkdir(parents=True)
        (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntimeout = 300\n")
        for name, text in files.items():
            (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
        environ = {"PAGEWIRE_SOURCE": str(tmp_path)}
        return command("test", *words, environ=environ, cwd=tmp_path, timeout_s=240)

    return run


def test_failure_on_one_rank_ends_the_others(source, tmp_path):
    done = source(["--ranks", "3"], a=FAILS_ON_RANK_1)
    failed_at_s = float((tmp_path / "failed_at").read_text())
    assert time.monotonic() - failed_at_s < SOON_S * SLACK
    assert done.returncode == 1
    report = done.stdout.partition("--- rank 1")[2]
    assert "FAILED tests/ranks/test_a.py::test_each_rank_agrees" in report, done.stdout
    assert "AssertionError: this rank does not" in report and "comm.rank != 1" in report
    assert "pagewire test: rank 1 ended with exit code 1" in done.stdout


def test_test_that_kills_its_process_ends_the_run_with_its_name(source):
    kills = "import os, time\ndef test_that_passes():\n    time.sleep(0.1)\n"
    kills += "def test_kills():\n    os.kill(os.getpid(), 9)\ndef test_after_it():\n    pass\n"
    others = "import time\ndef test_that_takes_long():\n    time.sleep(2)\ndef test_more(): pass\n"
    done = source([], kills=kills, a=others, b=others, c=others)
    assert done.returncode == 1
    assert "crashed while running 'tests/ranks/test_kills.py::test_kills'" in done.stdout


def test_files_after_a_failure_run_in_another_launch(source):
    done = source(["--ranks", "2"], a=PASSES, b=FAILS_ON_RANK_1, c=PASSES.replace("of", "in"))
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout.partition("--- rank 1")[2]
    assert done.stdout.rstrip().splitlines()[-1].startswith("====") and "1 passed" in done.stdout


def test_repeated_runs_have_a_line_each_with_what_failed(source, tmp_path, monkeypatch):
    # Most of the time of the runs, beside busy loops, would be the import of plugins.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    sometimes = """
import os, pathlib
def test_every_other_time():
    first = not pathlib.Path("seen").exists()
    pathlib.Path("seen").touch()
    assert first
def test_that_passes():
    pass
def test_beside_others():
    names = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")]
    assert sum(b"noise\\0computing" in name for name in names) >= 2
"""
    tests = str(tmp_path / "tests")
    done = source(["--repeat", "2", "--beside=2", tests, "-q"], a=sometimes)
    lines = [line for line in done.stdout.splitlines() if re.match(r"run \d|pagewire test", line)]
    assert re.fullmatch(r"run 1: \d+ s, 3 passed: ok", lines[0]), done.stdout
    assert re.fullmatch(
        r"run 2: \d+ s, 2 passed, 1 failed: failed: test_a.py::test_every_other_time", lines[1]
    )
    assert lines[2] == "pagewire test: 1 of 2 runs passed"
    assert done.returncode == 1
    assert "assert first" in done.stdout  # all that a failed run has said
