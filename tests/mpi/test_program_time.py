"""The program's sleeps and clocks: virtual, and nobody waits for them in reality."""

import select
import subprocess
import threading
import time

import numpy as np
import pytest

from pagewire.transport import MPI
from pagewire.transport.facade.clock import wall_ns

pytestmark = pytest.mark.mpi


def test_sleep_moves_the_virtual_clock_and_takes_no_real_time(node):
    before_ns, started_ns = node.clock.now_ns, wall_ns()
    slept_ns, mpi_ns = node.clock.sleep_ns, node.clock.mpi_ns
    time.sleep(50)
    assert node.clock.now_ns - before_ns >= 50_000_000_000
    assert node.clock.sleep_ns - slept_ns == 50_000_000_000
    assert node.clock.mpi_ns == mpi_ns
    assert wall_ns() - started_ns < 10_000_000_000


def test_loop_that_waits_for_wtime_ends():
    start, number = MPI.Wtime(), 0
    while MPI.Wtime() - start < 10.0:
        time.sleep(0.5)
        number += 1
    assert 15 <= number <= 20  # compute between the sleeps counts, too


@pytest.mark.parametrize("name", ["time", "monotonic", "perf_counter"])
def test_loop_that_waits_for_another_clock_ends(name):
    read = getattr(time, name)
    start, number = read(), 0
    while read() - start < 10.0:
        time.sleep(0.5)
        number += 1
    assert 15 <= number <= 20
    start_ns = getattr(time, f"{name}_ns")()
    time.sleep(2)
    assert getattr(time, f"{name}_ns")() - start_ns >= 2_000_000_000


def test_each_reading_of_wtime_costs(node):
    cost_ns = node.platform.costs.clock_read_ns
    before_ns = node.clock.now_ns
    for _ in range(100):
        MPI.Wtime()
    assert node.clock.now_ns - before_ns >= 100 * cost_ns > 0


def test_select_of_nothing_sleeps_and_of_files_waits():
    start = MPI.Wtime()
    assert select.select([], [], [], 5) == ([], [], [])
    assert MPI.Wtime() - start >= 5
    start = MPI.Wtime()
    process = subprocess.Popen(["sleep", "0.05"], stdout=subprocess.PIPE)
    assert select.select([process.stdout], [], [], 600)[0]
    process.wait(timeout=600)
    assert MPI.Wtime() - start < 5
    process.stdout.close()


def test_sleep_of_another_thread_is_real(node):
    slept_ns, started_ns = node.clock.sleep_ns, wall_ns()
    thread = threading.Thread(target=lambda: time.sleep(0.05))
    thread.start()
    thread.join()
    assert node.clock.sleep_ns == slept_ns
    assert wall_ns() - started_ns >= 50_000_000


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (-1, ValueError), (float("nan"), ValueError), (float("inf"), OverflowError),
        (1e12, OverflowError), ("1", TypeError), (None, TypeError),
    ],
)  # fmt: skip
def test_bad_sleep_raises_as_ever(bad, error, node):
    slept_ns = node.clock.sleep_ns
    with pytest.raises(error):
        time.sleep(bad)
    assert node.clock.sleep_ns == slept_ns


def test_rank_that_polls_with_sleeps_serves_its_peer(comm):
    rank, size = comm.Get_rank(), comm.Get_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    received = np.zeros(100_000)
    request = comm.Irecv(received, left)
    sending = comm.Isend(np.full(100_000, float(rank)), right)
    done = [False, False]
    while not all(done):
        time.sleep(0.001)
        done = [done[0] or request.Test(), done[1] or sending.Test()]
    assert (received == left).all()
