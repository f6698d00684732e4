"""Which rank a failed run is blamed on, from the records that the ranks' witnesses write."""

import contextlib
import json
import os
import signal
import subprocess
import threading

import pytest

from pagewire.cli.kit.error_stream import ErrorStream
from pagewire.cli.kit.watch import Watch
from pagewire.cli.launch import witness
from pagewire.cli.launch.launch import _outcome, launch_command


@pytest.fixture
def ended(tmp_path):
    """Writes a record of a rank."""

    def write(rank, kind, time_ns, **record):
        text = json.dumps({"rank": rank, "time_ns": time_ns, **record})
        (tmp_path / f"{rank}.{kind}").write_text(text)

    return write


WITHOUT_FINALIZE = "left with exit code 0 but without MPI Finalize"


@pytest.mark.parametrize(
    ("records", "code", "unfinished", "exit_code", "failure"),
    [
        # Another rank noted what the killed one did to it.
        ([(2, "end", 100, {"code": -9}),
          (0, "note", 200, {"reason": "raised Exception: connection lost", "code": 1}),
          (0, "end", 300, {"code": 1})], 1, [], 137, "rank 2 was killed by signal 9 (SIGKILL)"),
        # What a rank noted is told instead of its code.
        ([(1, "note", 100, {"reason": "raised ValueError: why", "code": 1}),
          (1, "end", 110, {"code": 1}), (0, "end", 120, {"code": -9})],
         1, [], 1, "rank 1 raised ValueError: why"),
        # MPI killed the others of one that left past it.
        ([(0, "end", 90, {"code": 0}), (0, "leave", 80, {}), (2, "end", 100, {"code": 0})],
         137, [], 1, f"rank 2 {WITHOUT_FINALIZE}"),
        # mpiexec saw nothing; rank 0 was ended by the launcher, which found it running.
        ([(1, "end", 90, {"code": 0}), (0, "end", 120, {"code": -9})],
         0, [0], 1, f"rank 1 {WITHOUT_FINALIZE}"),
        ([(1, "note", 90, {"code": 1, "reason": "called MPI_Abort with code 0"}),
          (1, "end", 95, {"code": 0}), (0, "end", 120, {"code": -9})],
         0, [0], 1, "rank 1 called MPI_Abort with code 0"),
        ([(0, "leave", 80, {}), (0, "end", 90, {"code": 0})],
         0, [1], 1, "rank 1 still ran when mpiexec ended"),
        ([(0, "leave", 80, {}), (0, "end", 90, {"code": 0})], 0, [], 0, ""),
    ],
    ids=["killed", "noted", "past MPI", "unseen", "aborted", "outlives mpiexec", "all well"],
)  # fmt: skip
def test_rank_that_ended_a_run_is_named(
    records, code, unfinished, exit_code, failure, ended, tmp_path
):
    for rank, kind, time_ns, record in records:
        ended(rank, kind, time_ns, **record)
    outcome = _outcome(code, tmp_path, -1, unfinished)
    assert outcome.exit_code == exit_code
    assert outcome.failure.startswith(failure) and bool(outcome.failure) == bool(failure)


def test_record_bears_the_hosts_time_however_long_the_program_has_slept(tmp_path, monkeypatch):
    monkeypatch.setattr("time.monotonic_ns", lambda: 0)
    witness.write_record(str(tmp_path), "note", {})
    (path,) = tmp_path.glob("*.note")
    assert json.loads(path.read_text())["time_ns"] > 0


def test_rank_over_the_fabric_says_goodbye_by_its_report(ended, tmp_path):
    ended(0, "end", 90, code=0)
    ended(1, "report", 100)
    ended(1, "end", 110, code=0)
    outcome = _outcome(0, tmp_path, -1, [2], goodbye="report")
    assert outcome.failure == "rank 0 left with exit code 0 but without MPI Finalize"


@pytest.fixture
def mpiexec():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("left", "code"), [([], 1), (["leave"], None), (["report"], None), (["report", "leave"], None)]
)
def test_rank_that_leaves_past_mpi_ends_a_run_that_mpiexec_lets_go_on(
    ended, tmp_path, mpiexec, monkeypatch, left, code
):
    monkeypatch.setattr("pagewire.cli.kit.watch.GRACE_S", 0.1)
    ended(0, "start", 90, pid=os.getpid())
    ended(1, "start", 90, pid=os.getpid())
    for kind in left:
        ended(1, kind, 95)
    ended(1, "end", 100, code=0)
    watch = Watch(
        mpiexec, 2, tmp_path, "none", errors=ErrorStream(""), goodbyes=("report", "leave")
    )
    threading.Timer(1.0, mpiexec.terminate).start()
    assert watch.wait() == (code or -signal.SIGTERM)


def test_rank_without_a_sign_is_unseen_when_another_has_given_one(ended, tmp_path, mpiexec):
    ended(1, "start", 100, pid=os.getpid())
    watch = Watch(mpiexec, 3, tmp_path, "none", errors=ErrorStream(""), first_sign_s=0.2)
    assert watch.wait() == 1
    assert watch.unseen == [0, 2]


def test_ranks_that_all_gave_a_sign_are_waited_for(ended, tmp_path):
    for rank in range(2):
        ended(rank, "start", 100, pid=os.getpid())
    with subprocess.Popen(["sleep", "0.5"]) as process:
        watch = Watch(process, 2, tmp_path, "none", errors=ErrorStream(""), first_sign_s=0.1)
        assert (watch.wait(), watch.unseen) == (0, [])


def test_process_number_of_another_host_is_not_followed(ended, tmp_path):
    """A process here may have the number of a rank there, and end at any time."""
    with subprocess.Popen(["sleep", "0.1"]) as stranger, subprocess.Popen(["sleep", "0.6"]) as own:
        ended(0, "start", 100, pid=stranger.pid)
        watch = Watch(own, 1, tmp_path, "marker", errors=ErrorStream(""))
        assert watch.wait() == 0
    assert watch.first_gone == -1


def test_witness_makes_the_launchers_pipe_its_standard_error(tmp_path, capfd):
    with contextlib.closing(ErrorStream(str(tmp_path))):
        subprocess.run(
            [witness.STARTER, "sh", "-c", "echo last words >&2"],
            env={**os.environ, "PAGEWIRE_LAUNCH_DIR": str(tmp_path)},
            stderr=subprocess.DEVNULL,  # mpiexec's pipe, of which the end is not read
            timeout=60,
            check=True,
        )
    assert capfd.readouterr().err == "last words\n"


def test_rank_of_another_host_keeps_its_standard_error(tmp_path):
    os.mkfifo(tmp_path / "stderr")  # nobody reads it here
    done = subprocess.run(
        [witness.STARTER, "sh", "-c", "echo last words >&2"],
        env={**os.environ, "PAGEWIRE_LAUNCH_DIR": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == b"last words\n"


def test_mpiexec_outlives_a_broken_pipe_and_says_what_the_ranks_wrote(tmp_path):
    """As Hydra's does that passes on the end of its input to a proxy that has ended."""
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text("#!/bin/sh\nkill -s PIPE $$\necho what the ranks wrote\n")
    mpiexec.chmod(0o755)
    environ = {**os.environ, "PAGEWIRE_RUN_MPI": str(mpiexec)}
    path = tmp_path / "output"
    with path.open("w") as stdout:
        outcome = launch_command(1, ["true"], environ, program="true", stdout=stdout)
    assert (outcome.exit_code, outcome.failure) == (0, "")
    assert path.read_text() == "what the ranks wrote\n"
