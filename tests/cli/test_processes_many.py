"""Many processes, requests and runs at a time."""

import os

from cli_runs import PAGEWIRE
from process_place import PROGRAM, Place, made, needs_namespaces

pytestmark = needs_namespaces


REQUESTS = """
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
peer = 1 - world.rank
shape = (5000, 16)
sent = np.arange(80_000, dtype=float).reshape(shape) + world.rank
received = np.zeros(shape)
requests = [world.Irecv(received[i], peer, i) for i in range(5000)]
requests += [world.Isend(sent[i], peer, i) for i in range(5000)]
MPI.Request.Waitall(requests)
assert (received - peer == sent - world.rank).all()
print("right", flush=True)
"""


def test_thousands_of_requests_of_a_rank_are_outstanding_at_a_time(place, tmp_path):
    program = tmp_path / "requests.py"
    program.write_text(REQUESTS, encoding="utf-8")
    run = place.launch(2, "-q", str(program))
    assert run.ends(120) == 0, run.stderr
    assert run.stdout.split() == ["right"] * 2
    assert place.left() == []


def test_two_runs_at_a_time_do_not_touch_each_other(tmp_path):
    """In one /dev/shm: the one that fails cleans up while the other goes on."""
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    with made(folders[0]) as place:
        beside = Place(folders[1], place.holder)
        long = place.launch(2, "-q", PROGRAM, "rounds", str(place.told()))
        failing = beside.launch(2, "-q", PROGRAM, "kill")
        long.wait_for("ready", 2)
        assert failing.ends(60) == 137
        place.told().touch()
        assert long.ends(120) == 0, long.stderr
        assert len(long.wait_for("result", 2)) == 2
        assert place.left() == beside.left() == []


def test_more_ranks_than_cores(place):
    """The last one leaves; all the others wait for it."""
    words = [*PAGEWIRE, "launch", "-n", "4", "-q", PROGRAM, "exit without Finalize"]
    run = place.start(["taskset", "-c", str(min(os.sched_getaffinity(0))), *words])
    assert run.ends(120) == 1
    assert "rank 3 left with exit code 0 but without MPI Finalize" in run.said()
    assert place.left() == []
