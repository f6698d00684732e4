"""A rank that waits long says so once, with what it waits for, and goes on waiting."""

import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pagewire.transport.facade.watchdog import Watchdog, call_site

KEEP_WAITING = """
import subprocess, sys
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
def keep_waiting(turn):
    # Until the test has read so many reports; without reports for a while.
    wait = sys.argv[1] if len(sys.argv) > 1 else 'until [ -e "$0" ]; do sleep 0.02; done'
    subprocess.run(["sh", "-c", wait, f"{sys.argv[0]}.{turn + 1}"])
"""

WAITING = f"""
{KEEP_WAITING}
data = np.ones(100_000, np.uint8)
for turn in range(2):
    if world.rank == 0:
        keep_waiting(turn)
        world.Send(data, 1, 7)
    else:
        world.Recv(data, 0, 7)
if world.rank == 0:
    world.Send(data, 1, 8)
else:
    keep_waiting(2)
    world.Recv(data, 0, 8)
"""

COLLECTIVE = f"""
{KEEP_WAITING}
if world.rank == 0:
    keep_waiting(0)
world.Allreduce(np.ones(3), np.zeros(3))
"""

LIMIT = ("--set", "run.watchdog=1s")
"""More than a rank goes without a core on a busy host."""


def start(tmp_path: pathlib.Path, program: str, *words: str) -> "subprocess.Popen[str]":
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pagewire", "launch", "-n", "2", "-q"]
    return subprocess.Popen(
        [*command, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def errors_of(tmp_path: pathlib.Path, program: str) -> list[str]:
    """Lines that the ranks write; their waits last until the silence is reported."""
    lines, num_reports = [], 0
    with start(tmp_path, program, *LIMIT, "program.py") as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if "no event for 1 s" in line:
                num_reports += 1
            if "under way" in line:  # a report's last line
                (tmp_path / f"program.py.{num_reports}").touch()
    assert process.returncode == 0, lines
    return lines


def test_silence_in_a_collective_is_reported(tmp_path: pathlib.Path) -> None:
    said = "".join(errors_of(tmp_path, COLLECTIVE))
    assert "in: world.Allreduce(np.ones(3), np.zeros(3))" in said
    assert "a message of at most 24 bytes from rank 0 of its communicator" in said


def test_silence_is_reported_once_and_the_run_goes_on(tmp_path: pathlib.Path) -> None:
    lines = errors_of(tmp_path, WAITING)
    receiving = [line for line in lines if line.startswith("[rank 1]")]
    assert sum("no event for 1 s" in line for line in receiving) == 2
    assert sum("in: world.Recv(data, 0, 7)" in line for line in receiving) == 2
    expected = "a message of at most 100000 bytes from rank 0 of its communicator with tag 7"
    assert sum(expected in line for line in receiving) == 2
    sending = [line for line in lines if line.startswith("[rank 0]")]
    assert sum("no event for 1 s" in line for line in sending) == 1
    assert any("in: world.Send(data, 1, 8)" in line for line in sending)
    assert any("to read it: send of 100000 bytes to rank 1" in line for line in sending)


def test_it_says_nothing_by_default_and_when_it_is_off(tmp_path: pathlib.Path) -> None:
    for words in ((), ("--set", "run.watchdog=none")):
        with start(tmp_path, WAITING, *words, "program.py", "sleep 0.5") as process:
            _, said = process.communicate(timeout=120)
        assert process.returncode == 0 and "no event for" not in said


def test_it_tells_once_a_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    silent_ns = since_ns = 0
    told: list[str] = []
    fake = SimpleNamespace(
        pw_node_silent_ns=lambda _node: silent_ns, pw_node_silent_since_ns=lambda _node: since_ns
    )
    monkeypatch.setattr("pagewire.transport.facade.watchdog.lib", fake)
    monkeypatch.setattr(Watchdog, "_report", lambda _dog, waits_for: told.append(waits_for()))
    dog = Watchdog(None, 1000)

    def looked(now_ns: int, began_ns: int) -> int:
        nonlocal silent_ns, since_ns
        silent_ns, since_ns = now_ns - began_ns if began_ns else 0, began_ns
        before = len(told)
        for _ in range(10):
            dog.look(lambda: "a message")
        return len(told) - before

    assert looked(10, 0) == 0
    assert looked(1019, 20) == 0
    assert looked(1020, 20) == 1
    assert looked(6000, 20) == 0
    assert looked(7000, 0) == 0  # something happened
    assert looked(8010, 7010) == 1
    assert looked(9500, 8500) == 1  # something happened, and nobody looked
    assert told == ["a message"] * 3
    Watchdog(None, None).look(lambda: pytest.fail("asked without a limit"))


def test_call_site_is_the_line_that_called() -> None:
    assert "call_site()" in call_site()
    assert "test_watchdog.py" in call_site()
