"""The first call of mpirun.sh, which makes an environment: interrupted, two at a time, and after it
was moved. It lasts until it is interrupted: the package index that it asks never answers."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from process_place import Place, Run, needs_namespaces

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = [
    needs_namespaces,
    pytest.mark.skipif(not (ROOT / "mpirun.sh").exists(), reason="needs the source tree"),
    pytest.mark.skipif(bool(shutil.which("uv")), reason="uv makes environments in no time"),
]


HALF = """#!/bin/sh
# A Python whose module venv makes half an environment, and then goes on for ever.
case " $* " in
*' -m venv '*) for folder; do :; done; "$PYTHON" -m venv --without-pip "$folder" && cat "$FIFO" ;;
*) exec "$PYTHON" "$@" ;;
esac
"""


@pytest.fixture
def index():
    """URL of a package index that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple"


def first_call(place: Place, venv: pathlib.Path, index: str, **environ: str) -> Run:
    """Of mpirun.sh, with an environment that is not there."""
    names = {"PAGEWIRE_VENV": str(venv), "PIP_INDEX_URL": index, "PIP_TIMEOUT": "600"}
    return place.start([str(ROOT / "mpirun.sh"), "--version"], names | environ, cwd=str(ROOT))


def has_pip(venv: pathlib.Path) -> bool:
    command = [str(venv / "bin" / "python"), "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def num_waiting(lock: os.stat_result) -> int:
    """Processes that want a file's lock, which another one has."""
    place = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    lines = pathlib.Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    return sum("->" in line and place in line for line in lines)


def interrupt(run: Run) -> None:
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.ends() != 0


def test_half_made_environment_is_made_again_by_one_of_two_first_calls(place, tmp_path, index):
    venv, half, fifo, other_folder = (tmp_path / name for name in ("venv", "half", "fifo", "other"))
    half.write_text(HALF, encoding="utf-8")
    half.chmod(0o755)
    os.mkfifo(fifo)
    other_folder.mkdir()
    python = getattr(sys, "_base_executable", sys.executable)
    run = first_call(place, venv, index, PAGEWIRE_PYTHON=str(half), PYTHON=python, FIFO=str(fifo))
    run.until((venv / "bin" / "python").exists, timeout_s=120)
    os.killpg(run.process.pid, signal.SIGKILL)
    run.ends()
    assert not has_pip(venv)
    beside = Place(other_folder, place.holder)
    runs = [first_call(each, venv, index) for each in (place, beside)]
    runs[0].until((venv / "requirements.txt").exists, timeout_s=120)
    assert has_pip(venv)
    lock = (venv / ".mpirun.lock").stat()
    runs[0].until(lambda: num_waiting(lock) == 1, timeout_s=120)
    begun = [run for run in runs if "installing the dependencies" in run.stderr]
    assert len(begun) == 1
    for run in runs:
        interrupt(run)
    beside.end()


def test_environment_that_was_moved_is_made_again(place, tmp_path, index):
    venv, moved = tmp_path / "venv", tmp_path / "moved"
    for folder in (venv, moved):
        run = first_call(place, folder, index)
        run.until((folder / "requirements.txt").exists, timeout_s=120)
        interrupt(run)
        if folder is venv:
            (venv / "requirements.txt").unlink()
            venv.rename(moved)
    assert f"{moved} was made as {venv}, so it is made again" in run.stderr
    script = (moved / "bin" / "pip").read_text(encoding="utf-8")
    assert str(moved / "bin") in script and str(venv / "bin") not in script
