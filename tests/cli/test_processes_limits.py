"""Runs that lack something of the host: room on a disk or in shared memory, files, memory that may
be locked, write permission. They end with a sentence that names it, and leave nothing half done."""

import errno
import mmap
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import pytest
from cli_runs import PAGEWIRE
from process_place import PROGRAM, TRANSPORTS, Place, Run, made, needs_namespaces, program_of

from pagewire.cli.kit import shared_memory, space
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.launch import launch
from pagewire.native.output import OutputError

FACADE = ["-q", PROGRAM, "rounds"]


def said_by(run: Run, place: Place, code: int) -> str:
    """The last sentence of a run that has failed so, without a trace."""
    assert run.ends(60) == code, run.stderr
    assert "Traceback" not in run.stderr
    assert place.left() == []
    return run.said()


@needs_namespaces
def test_too_little_room_for_the_launchs_folder_is_refused_before_the_run(place):
    disk = place.small_disk("32k")
    run = place.launch(2, *FACADE, environ={"TMPDIR": str(disk)})
    said = said_by(run, place, 1)
    assert f"'{disk}' has 32 KiB free" in said and "make room, or set TMPDIR" in said
    assert list(place.seen(disk).iterdir()) == []


@needs_namespaces
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_report_on_a_full_disk_leaves_the_old_one(place, transport):
    disk = place.small_disk("8k")
    old = place.seen(disk / "report.json")
    old.write_text("old", encoding="utf-8")
    run = place.launch(2, "--json", str(disk / "report.json"), *program_of(transport), "rounds")
    assert "report.json' was not written: No space left on device" in said_by(run, place, 1)
    assert [path.name for path in place.seen(disk).iterdir()] == ["report.json"]
    assert old.read_text(encoding="utf-8") == "old"


@needs_namespaces
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_shared_memory_that_is_full_is_named(tmp_path, transport):
    with made(tmp_path, "size=1m") as place:
        run = place.launch(2, *program_of(transport), "rounds")
        said = said_by(run, place, 135)
    assert "/dev/shm, which MPI needs, is full" in said


@needs_namespaces
def test_experiment_on_a_full_disk_leaves_whole_files(place):
    disk = place.small_disk("12k")
    words = ["experiment", "part-fig16", "--quick", "--output", str(disk / "out")]
    run = place.start([*PAGEWIRE, *words])
    assert "No space left on device" in said_by(run, place, 1)
    left = sorted(path.name for path in place.seen(disk / "out").iterdir())
    assert left == ["part-fig16.csv", "part-fig16.json"]


@needs_namespaces
@pytest.mark.parametrize("num_files", [9, 20])
def test_too_few_files_end_the_run(place, num_files):
    command = f'ulimit -n {num_files}; exec "$0" "$@"'
    run = place.start(["sh", "-c", command, *PAGEWIRE, "launch", "-n", "2", *FACADE])
    assert "mpiexec failed" in said_by(run, place, 255)


@needs_namespaces
@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv (util-linux)")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_memory_that_may_not_be_locked_is_named(place, transport):
    no_rights = "setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all"
    command = f'ulimit -l 64; exec {no_rights} "$0" "$@"'
    words = ["launch", "-n", "2", "--memory", "pin", *program_of(transport), "rounds"]
    run = place.start(["sh", "-c", command, *PAGEWIRE, *words])
    assert run.ends(60) == 1
    assert "cannot be pinned" in run.said() and "ulimit -l" in run.said()
    assert place.left() == []


def no_process() -> int:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_too_few_processes_are_a_sentence_and_leave_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fork", no_process)
    with (
        pytest.raises(OutputError, match="ulimit -u"),
        guarded_folder("pagewire-", parent=str(tmp_path)),
    ):
        pytest.fail("went on without a guard")
    assert list(tmp_path.iterdir()) == []


def test_mpiexec_that_cannot_be_started_is_a_sentence():
    with pytest.raises(OutputError, match="'/nowhere/mpiexec' was not started"):
        launch._start(["/nowhere/mpiexec"], {}, None)


def test_file_system_that_does_not_count_is_never_full(tmp_path, monkeypatch):
    class Uncounted:
        f_blocks = f_bavail = 0
        f_frsize = 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Uncounted)
    space.check(str(tmp_path), 1024)
    assert space.explain(str(tmp_path)) == ""


def test_short_address_space_is_named_behind_a_failure(tmp_path, monkeypatch):
    limits = {resource.RLIMIT_AS: (200 << 20, resource.RLIM_INFINITY)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    assert "200 MiB of addresses: raise ulimit -v" in space.explain(str(tmp_path))


@pytest.fixture
def shared_folder(monkeypatch):
    """Is cleaned instead of /dev/shm, and is memory too."""
    with tempfile.TemporaryDirectory(prefix="pagewire-test-", dir="/dev/shm") as folder:
        monkeypatch.setattr(shared_memory, "_FOLDER", folder)
        yield pathlib.Path(folder)


def test_shared_memory_of_others_stays(shared_folder):
    used, mapped, begun = (shared_folder / f"mpich_shm_1f_{number}" for number in range(3))
    names = ["mpich_shm_2e_0", "mpich_vci_2e_1", "mine", f"{os.getpid()}:0:0"]
    gone = "4194305:0:0"  # no process has a number so high
    for path in [used, mapped, *(shared_folder / name for name in [*names, gone])]:
        path.write_bytes(b"x")
    begun.write_bytes(b"")  # by a process that has not come to its size yet
    with used.open("rb"), mapped.open("r+b") as file:
        content = mmap.mmap(file.fileno(), 1)
        file.close()
        shared_memory.remove_left(used.stat().st_ctime + 60)
        assert len(list(shared_folder.iterdir())) == 8  # all are older than the launch
        shared_memory.remove_left(0)
        content.close()
    left = {path.name for path in shared_folder.iterdir()}
    assert left == {used.name, mapped.name, begun.name, "mine", f"{os.getpid()}:0:0"}


@needs_namespaces
def test_shared_memory_of_processes_that_cannot_be_seen_stays(shared_folder):
    used, unused = shared_folder / "mpich_shm_1f_0", shared_folder / "mpich_shm_2e_0"
    for path in (used, unused):
        path.write_bytes(b"x")
    words = ["unshare", *(["-Ur"] if os.geteuid() else []), "--pid", "--fork", "--mount-proc"]
    text = (
        "from pagewire.cli.kit import shared_memory\n"
        f"shared_memory._FOLDER = {str(shared_folder)!r}\n"
        "shared_memory.remove_left(0)\n"
    )
    with used.open("rb"):
        subprocess.run([*words, sys.executable, "-P", "-c", text], check=True, timeout=60)
    assert list(shared_folder.iterdir()) == [used]
