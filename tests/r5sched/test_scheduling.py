"""Scheduling policies: registry, module:Class, answers that are refused, conformance, and whole
runs."""

import json
import pathlib

import pytest
from cli_runs import command

from pagewire.native.settings import ConfigError
from pagewire.r5sched import conformance, scheduling
from pagewire.r5sched.scheduling import Hint, PostedTransfer, Scheduling, SchedulingPolicy
from pagewire.run.settings.config import load

TRANSFER = PostedTransfer(num_bytes=100_000, peer=1, is_read=True, time_ns=5)


class Fixed(SchedulingPolicy):
    answer: object = Scheduling(Hint.LOW, window_blocks=3)

    def schedule(self, *, transfer: PostedTransfer) -> Scheduling:
        return self.answer  # type: ignore[return-value]


class Raises(SchedulingPolicy):
    def schedule(self, *, transfer: PostedTransfer) -> Scheduling:
        raise KeyError(transfer.peer)


class Remembers(SchedulingPolicy):
    asked = 0

    def schedule(self, *, transfer: PostedTransfer) -> Scheduling:
        Remembers.asked += 1
        return Scheduling(window_blocks=min(1 + Remembers.asked // 50, 64))


HERE = __name__


def test_size_asks_nobody() -> None:
    assert scheduling.REGISTRY.create("size") is None
    assert load(environ={}).firmware.scheduling == "size"


def test_registered_name_and_class_of_ones_own() -> None:
    scheduling.REGISTRY.register("fixed", Fixed)
    try:
        assert isinstance(scheduling.REGISTRY.create("fixed"), Fixed)
        assert load(["firmware.scheduling=fixed"], environ={}).firmware.scheduling == "fixed"
        with pytest.raises(ConfigError, match="did you mean 'fixed'"):
            load(["firmware.scheduling=fixd"], environ={})
    finally:
        scheduling.REGISTRY.unregister("fixed")
    assert isinstance(scheduling.REGISTRY.create(f"{HERE}:Fixed"), Fixed)


def test_decision_goes_to_the_engine() -> None:
    decision = scheduling.Scheduler(Fixed(), "fixed").decide(TRANSFER)
    assert (decision.hint, decision.window_blocks) == (Hint.LOW, 3)


@pytest.mark.parametrize(
    "answer,reason",
    [
        (None, "instead of a Scheduling"),
        (Scheduling(1), "hint 1"),  # type: ignore[arg-type]
        (Scheduling(window_blocks=0), "from 1 to 64"),
        (Scheduling(window_blocks=65), "from 1 to 64"),
        (Scheduling(window_blocks=True), "from 1 to 64"),
        (Scheduling(window_blocks=1.5), "from 1 to 64"),  # type: ignore[arg-type]
    ],
)
def test_answer_that_cannot_be_names_value_and_limit(answer: object, reason: str) -> None:
    policy = Fixed()
    policy.answer = answer
    with pytest.raises(scheduling.SchedulingError, match=reason) as raised:
        scheduling.Scheduler(policy, "mine").decide(TRANSFER)
    assert "mine" in str(raised.value) and "100000" in str(raised.value)


@pytest.mark.parametrize(
    "error", [KeyError(1), SystemExit(0), KeyboardInterrupt(), GeneratorExit()]
)
def test_anything_a_policy_raises_is_an_error_that_names_it(error: BaseException) -> None:
    class Exits(SchedulingPolicy):
        def schedule(self, *, transfer: PostedTransfer) -> Scheduling:
            raise error

    with pytest.raises(scheduling.SchedulingError, match=f"'mine' raised {type(error).__name__}"):
        scheduling.Scheduler(Exits(), "mine").decide(TRANSFER)


@pytest.mark.parametrize(
    "bad,text",
    [(Raises, "raised KeyError"), (Remembers, "nothing that outlives the object")],
)
def test_check_finds_a_bad_policy(bad: type[SchedulingPolicy], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        conformance.check_scheduling(bad)


def test_check_passes_a_good_policy() -> None:
    assert conformance.check_scheduling(Fixed) > 50


# -- whole runs

PROGRAM = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
count, size = 40, 100_000
if comm.rank == 0:
    data = [np.full(size, i, "u1") for i in range(count)]
    MPI.Request.Waitall([comm.Isend(each, 1, tag=i) for i, each in enumerate(data)])
else:
    data = [np.zeros(size, "u1") for _ in range(count)]
    MPI.Request.Waitall([comm.Irecv(each, 0, tag=i) for i, each in enumerate(data)])
    assert all((each == i).all() for i, each in enumerate(data))
comm.Barrier()
"""

POLICY = """
from pagewire.r5sched.scheduling import Hint, Scheduling, SchedulingPolicy
class Mine(SchedulingPolicy):
    def schedule(self, *, transfer):
        assert transfer.is_read and transfer.peer in (0, 1)
        return Scheduling(Hint.HIGH, window_blocks=1)
class Bad(SchedulingPolicy):
    def schedule(self, *, transfer):
        return Scheduling(window_blocks=1000)
"""


def run_program(
    tmp_path: pathlib.Path, *settings: str, program: str = PROGRAM, policy: str = POLICY
) -> tuple[int, str, dict]:
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "mine.py").write_text(policy)
    report = tmp_path / "report.json"
    # requests come as fast as the machine goes, however slow the host is
    words = [word for each in ("run.compute=none", *settings) for word in ("--set", each)]
    words = ["--json", str(report), *words, "program.py"]
    done = command("launch", "-n", "2", *words, cwd=tmp_path)
    totals = json.loads(report.read_text())["totals"] if report.exists() else {}
    return done.returncode, done.stdout + done.stderr, totals


def test_run_with_a_policy_gives_the_hints_to_the_firmware(tmp_path: pathlib.Path) -> None:
    code, text, totals = run_program(tmp_path, "firmware.scheduling=mine:Mine")
    assert code == 0, text
    assert totals["requeues_high"] > 0
    assert totals["requeues_medium"] == totals["requeues_low"] == 0
    code, text, totals = run_program(tmp_path)
    assert code == 0, text
    assert totals["requeues_medium"] > totals["requeues_high"] == 0


def test_policy_is_asked_for_the_writes_of_a_channel(tmp_path: pathlib.Path) -> None:
    policy = """
from pagewire.r5sched.scheduling import Hint, Scheduling, SchedulingPolicy
class Mine(SchedulingPolicy):
    def schedule(self, *, transfer):
        if transfer.is_read:  # an MPI message
            return Scheduling()
        assert (transfer.peer, transfer.num_bytes) == (1, 100_000)
        return Scheduling(Hint.HIGH, window_blocks=1)
"""
    program = """
import sys
from mpi4py import MPI
from pagewire.transport import rdma
comm = MPI.COMM_WORLD
buffer = rdma.Buffer(100_000)
remote = comm.allgather(buffer.remote)[1]
if comm.rank == 0:
    channel = rdma.Channel()
    for how in ({}, {"hint": rdma.Hint.LOW}):
        channel.insert(buffer, remote, **how)
        channel.trigger()
        assert channel.wait() is rdma.Status.FINISHED
comm.Barrier()
"""
    settings = "firmware.scheduling=mine:Mine"
    code, text, totals = run_program(tmp_path, settings, program=program, policy=policy)
    assert code == 0, text
    assert (totals["requeues_high"], totals["requeues_medium"]) == (6, 0)  # 7 blocks one by one
    assert totals["requeues_low"] > 0  # the user's own hint


def test_run_whose_policy_answers_nonsense_ends_with_its_name(tmp_path: pathlib.Path) -> None:
    code, text, _ = run_program(tmp_path, "firmware.scheduling=mine:Bad")
    assert code != 0
    assert "scheduling policy 'mine:Bad' answered window_blocks 1000" in text


def test_run_that_deadlocks_in_the_naive_mailbox_ends_with_the_remedy(
    tmp_path: pathlib.Path,
) -> None:
    naive = ["firmware.read_mailbox=shared", "firmware.read_buffer_requests=0"]
    code, text, _ = run_program(tmp_path, *naive)
    assert code != 0
    assert "PW_ERR_DEADLOCK" in text and "set firmware.read_mailbox to separate" in text
    for remedy in (["firmware.read_mailbox=separate", naive[1]], naive[:1]):
        code, text, totals = run_program(tmp_path, *remedy)
        assert code == 0, text
        assert totals["reads_served"] == 40
