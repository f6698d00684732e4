"""The first call of mpirun.sh, which makes an environment: interrupted, and two at a time."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest
from process_place import Place, Run, needs_namespaces, place

__all__ = ["place"]

ROOT = pathlib.Path(__file__).resolve().parents[1]

pytestmark = [
    needs_namespaces,
    pytest.mark.skipif(not (ROOT / "mpirun.sh").exists(), reason="needs the source tree"),
    pytest.mark.skipif(bool(shutil.which("uv")), reason="uv makes environments in no time"),
]


def first_call(place: Place, venv: pathlib.Path) -> Run:
    """Of mpirun.sh, with an environment that is not there."""
    return place.start(
        [str(ROOT / "mpirun.sh"), "--version"], {"PAGEWIRE_VENV": str(venv)}, cwd=str(ROOT)
    )


def wait_until(condition, run: Run) -> None:
    """Until something holds while the command runs."""
    deadline_s = time.monotonic() + 120
    while not condition():
        assert run.process.poll() is None, run.stderr
        assert time.monotonic() < deadline_s, run.stderr
        time.sleep(0.02)


def has_pip(venv: pathlib.Path) -> bool:
    command = [str(venv / "bin" / "python"), "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def interrupt(run: Run) -> None:
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.ends() != 0


def test_half_made_environment_is_made_again(place, tmp_path):
    venv = tmp_path / "venv"
    run = first_call(place, venv)
    wait_until((venv / "bin" / "python").exists, run)
    os.killpg(run.process.pid, signal.SIGKILL)
    run.ends()
    assert not has_pip(venv)
    again = first_call(place, venv)
    wait_until(lambda: not (venv / ".making").exists(), again)
    assert has_pip(venv)
    interrupt(again)


def test_second_first_call_waits_for_the_first(place, tmp_path):
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    beside = Place(other_folder, place.holder)
    venv = tmp_path / "venv"
    runs = [first_call(each, venv) for each in (place, beside)]
    wait_until((venv / "bin" / "python").exists, runs[0])
    time.sleep(0.5)  # for the other to begin too, if it did
    begun = [run for run in runs if "installing the dependencies" in run.stderr]
    assert len(begun) == 1
    for run in runs:
        interrupt(run)
    beside.end()
