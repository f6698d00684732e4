"""Messages in pieces (bounce, pin-rendezvous), through firehoses and UTLB: every byte arrives over
both transports, pieces overlap, and a message that finds no buffer waits. And pages that come in
ahead (part-prefetch). What firehoses and UTLB take: tests/c/node."""

import pytest
from cli_runs import reported

from pagewire.run.settings import platform

MIX = """
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, num_ranks = world.rank, world.size
sizes = [1, 4096, 65536, 65537, 200000, 1 << 20]
for turn in range(2):
    requests, landed, sent = [], [], []
    for peer in range(num_ranks):
        for idx, size in enumerate(sizes):
            landed.append((np.empty(size + 7, np.uint8), peer, size, idx))
            requests.append(world.Irecv(landed[-1][0], peer, tag=idx))
    for peer in range(num_ranks):
        for idx, size in reversed([*enumerate(sizes)]):
            sent.append(np.full(size, (rank * 7 + peer * 3 + idx + turn) % 251, np.uint8))
            requests.append(world.Isend(sent[-1], peer, tag=idx))
    MPI.Request.Waitall(requests)
    for data, peer, size, idx in landed:
        assert (data[:size] == (peer * 7 + rank * 3 + idx + turn) % 251).all()
ones, total = np.ones(100000), np.empty(100000)
world.Allreduce(ones, total)
assert (total == num_ranks).all()
if rank == 0:
    world.Send(np.zeros(300000, np.uint8), 1, tag=99)
if rank == 1:
    try:
        world.Recv(np.empty(100000, np.uint8), 0, tag=99)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_TRUNCATE
        print("truncated")
print("fine", flush=True)
"""

STREAM = """
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
data = np.ones(1 << 20, np.uint8)
if world.rank == 0:
    world.Send(data, 1)
else:
    world.Recv(data, 0)
"""

FRESH = """
whole = (np.ones if world.rank == 0 else np.empty)((4 << 20) + 65536, np.uint8)
data = whole[-whole.ctypes.data % 65536 :][: 4 << 20]
"""


def run(folder, program: str, num_ranks: int, *words: str) -> tuple[str, dict]:
    (folder / "program.py").write_text(program)
    words = ("--compute", "none", *words, "program.py")
    printed, report = reported(folder, num_ranks, *words, cwd=folder, timeout_s=240)
    return printed, report["totals"]


LIMITS = {
    "bounce": ["strategy.bounce_buffers=4"],
    "pin-rendezvous": [],
    "firehose": ["strategy.firehose_limit=40KiB", "strategy.firehose_victims=64KiB"],
    "utlb": ["strategy.utlb_limit=256KiB", "strategy.utlb_cache_entries=4096"],
}
"""With these each of three nodes holds five pages of each other by firehoses."""


@pytest.mark.parametrize(
    ("memory", "transport"),
    [
        ("bounce", "facade"),
        ("pin-rendezvous", "fabric"),
        ("firehose", "fabric"),
        ("utlb", "facade"),
    ],
)
def test_every_byte_arrives(memory, transport, tmp_path):
    limits = [word for limit in LIMITS[memory] for word in ("--set", limit)]
    words = ("--memory", memory, "--transport", transport, *limits)
    out, totals = run(tmp_path, MIX, 3, *words)
    assert out.count("fine") == 3 and out.count("truncated") == 1
    assert totals["translation_faults"] == 0
    if memory == "bounce":
        assert totals["copied_bytes"] > 2 * totals["pinned_peak_bytes"]
        assert totals["pool_waits"] > 0
        assert totals["pinned_peak_bytes"] == 4 * 65536
    elif memory == "pin-rendezvous":
        assert totals["pin_ns"] > 0 == totals["copies"]
    elif memory == "firehose":
        assert totals["firehose_moves"] > 0 and totals["firehose_waits"] > 0
    else:
        assert totals["utlb_hits"] > totals["utlb_misses"] > 0 == totals["walks"]
        assert totals["strategy_evictions"] > 0


def test_copies_overlap_the_way_of_other_pieces(tmp_path):
    """One megabyte: less than both copies and the transfer after each other. With two buffers there
    is one at each end, and nothing overlaps."""
    words = ("--memory", "bounce")
    _, many = run(tmp_path, STREAM, 2, *words)
    _, few = run(tmp_path, STREAM, 2, *words, "--set", "strategy.bounce_buffers=2")
    _, alone = run(tmp_path, STREAM, 2, "--memory", "ideal")
    start_ns = platform.load("exanest-qfdb").tables["pin_absent"].cost_ns(1 << 20)
    many_ns = many["virtual_time_ns"] - start_ns
    assert many["copied_bytes"] == 2 << 20 and many["pool_waits"] == 0
    in_turn_ns = 2 * many["copy_ns"] + alone["virtual_time_ns"]
    assert alone["virtual_time_ns"] < many_ns < 0.8 * in_turn_ns
    assert few["pool_waits"] > 0 and few["virtual_time_ns"] > many_ns


def test_pins_of_a_fresh_buffer_overlap_the_handshake_and_other_pieces(tmp_path):
    fresh = STREAM.replace("data = np.ones(1 << 20, np.uint8)", FRESH)
    words = ("--memory", "pin-rendezvous", "--set", "strategy.piece=256KiB")
    _, pieces = run(tmp_path, fresh, 2, *words)
    _, whole = run(tmp_path, fresh, 2, "--memory", "pin")
    assert pieces["virtual_time_ns"] < whole["virtual_time_ns"]
    assert pieces["pinned_peak_bytes"] < whole["pinned_peak_bytes"]


def test_pages_come_in_while_the_request_travels(tmp_path):
    """The same pages as by faults, in less time; the emulator's look-ahead changes nothing."""
    fresh = STREAM.replace("data = np.ones(1 << 20, np.uint8)", FRESH)
    words = ("--memory", "part-prefetch")
    _, told = run(tmp_path, fresh, 2, *words)
    _, slowly = run(tmp_path, fresh, 2, *words, "--set", "ni.lookahead_blocks=0")
    _, asked = run(tmp_path, fresh, 2, "--memory", "part", "--policy", "all")
    assert told["pages_paged_in"] == asked["pages_paged_in"] >= 1024
    assert told["virtual_time_ns"] == slowly["virtual_time_ns"] < asked["virtual_time_ns"]
