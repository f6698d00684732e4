"""A rank that waits long says so once, with what it waits for, and goes on waiting."""

import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pagewire.native.settings import ConfigError
from pagewire.transport.node.watchdog import Watchdog, call_site
from pagewire.transport.settings.config import load

WAITING = """
import subprocess, sys
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
data = np.ones(int(sys.argv[1]), np.uint8)
def keep_waiting(turn):
    # However late the other one comes, it waits for 0.8 s.
    wait = 'until [ -e "$0" ]; do sleep 0.02; done; sleep 0.8'
    subprocess.run(["sh", "-c", wait, f"{sys.argv[0]}.{turn}"])
def wait(turn):
    open(f"{sys.argv[0]}.{turn}", "w").close()
for turn in range(2):
    if world.rank == 0:
        keep_waiting(turn)
        world.Send(data, 1, 7)
    else:
        wait(turn)
        world.Recv(data, 0, 7)
if world.rank == 0:
    wait(2)
    world.Send(data, 1, 8)
else:
    keep_waiting(2)
    world.Recv(data, 0, 8)
"""


def launch(tmp_path: pathlib.Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-P", "-m", "pagewire", "launch", "-n", "2", "-q", *words, path, "100000"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


COLLECTIVE = """
import subprocess
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    subprocess.run(["sleep", "0.8"])
world.Allreduce(np.ones(3), np.zeros(3))
"""


def test_silence_in_a_collective_is_reported(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, COLLECTIVE, "--set", "run.watchdog=100ms")
    assert done.returncode == 0, done.stderr
    assert "in: world.Allreduce(np.ones(3), np.zeros(3))" in done.stderr
    assert "a message of at most 24 bytes from rank 0 of its communicator" in done.stderr


def test_silence_is_reported_once_and_the_run_goes_on(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, WAITING, "--set", "run.watchdog=100ms")
    assert done.returncode == 0, done.stderr
    receiving = [line for line in done.stderr.splitlines() if line.startswith("[rank 1]")]
    assert sum("no event for 0.1 s" in line for line in receiving) == 2
    assert sum("in: world.Recv(data, 0, 7)" in line for line in receiving) == 2
    expected = "a message of at most 100000 bytes from rank 0 of its communicator with tag 7"
    assert sum(expected in line for line in receiving) == 2
    sending = [line for line in done.stderr.splitlines() if line.startswith("[rank 0]")]
    assert sum("no event for 0.1 s" in line for line in sending) == 1
    assert any("in: world.Send(data, 1, 8)" in line for line in sending)
    assert any("to read it: send of 100000 bytes to rank 1" in line for line in sending)


def test_it_says_nothing_by_default_and_when_it_is_off(tmp_path: pathlib.Path) -> None:
    for words in ((), ("--set", "run.watchdog=none")):
        assert "no event for" not in launch(tmp_path, WAITING, *words).stderr


def test_it_tells_once_a_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    silent_ns = since_ns = 0
    told: list[str] = []
    fake = SimpleNamespace(
        pw_node_silent_ns=lambda _node: silent_ns, pw_node_silent_since_ns=lambda _node: since_ns
    )
    monkeypatch.setattr("pagewire.transport.node.watchdog.lib", fake)
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
    assert "test_transport_watchdog.py" in call_site()


def test_limit_is_a_duration_or_none() -> None:
    assert load(environ={}).run.watchdog_ns == 60_000_000_000
    assert load(["run.watchdog=none"], environ={}).run.watchdog_ns is None
    with pytest.raises(ConfigError, match="run.watchdog"):
        load(["run.watchdog=1ns"], environ={})
