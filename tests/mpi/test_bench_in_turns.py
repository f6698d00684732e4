"""How the bench's ranks measure: the slowest rank counts, every rank has the same figures."""

import time

import numpy as np
import pytest

from pagewire.cli.checks.bench.ranks import in_turns
from pagewire.cli.checks.bench.ranks.in_turns import Contest
from pagewire.transport import MPI
from pagewire.transport.facade.patching import native

pytestmark = pytest.mark.mpi

SLOW_S = 2e-3


@pytest.fixture
def contest():
    made = Contest(num_rounds=2, round_s=1e-3)
    yield made
    made.close()


def spend(duration_s: float) -> None:
    until_s = time.perf_counter() + duration_s
    while time.perf_counter() < until_s:
        pass


class Clock:
    """The host's in place of a real one: a moment passes with each look, and what a test adds."""

    now_s = 0.0

    def perf_counter(self) -> float:
        self.now_s += 1e-6
        return self.now_s


def test_a_round_takes_as_long_as_its_slowest_rank(contest, monkeypatch):
    slow, clock = contest.num_ranks - 1, Clock()
    monkeypatch.setattr(in_turns, "time", clock)

    def on_one_rank(times: int) -> None:
        if contest.rank == slow:
            clock.now_s += times * SLOW_S

    figures = contest.measure(on_one_rank, lambda times: None)
    assert figures.plain_s >= SLOW_S > figures.ni_s
    figures = contest.measure(lambda times: None, on_one_rank)
    assert figures.ni_s >= SLOW_S > figures.plain_s
    everyone = native(MPI.Comm, "allgather")(contest.plain, figures)
    assert everyone == [figures] * contest.num_ranks


def test_compute_is_no_virtual_time_of_a_transfer(contest):
    figures = contest.measure(lambda times: None, lambda times: spend(times * SLOW_S))
    assert figures.virtual_s < SLOW_S / 10
    assert figures.blocks_per_s == figures.packets_per_s == 0


def test_plain_work_leaves_the_node_alone_and_the_facade_does_not(contest):
    num_bytes, peer = 1 << 16, contest.rank ^ 1
    if contest.num_ranks % 2:
        pytest.skip("pairs of ranks")
    data, received = np.ones(num_bytes, np.uint8), np.zeros(num_bytes, np.uint8)
    plain_sendrecv = native(MPI.Comm, "Sendrecv")

    def plain(times: int) -> None:
        for _ in range(times):
            plain_sendrecv(contest.plain, data, peer, 0, received, peer)

    def facade(times: int) -> None:
        for _ in range(times):
            contest.world.Sendrecv(data, peer, 0, received, peer)

    none = contest.measure(plain, plain)
    assert none.packets_per_s == 0
    some = contest.measure(plain, facade)
    sent = some.packets_per_s * some.ni_s
    assert sent >= contest.num_ranks * num_bytes / 256
    assert some.virtual_s > 0
