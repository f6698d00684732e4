"""Firehoses: what a reader holds of its peers' pages, moves of them, messages of more pages than
there are, and every byte over both transports. And the NIC's cache of utlb."""

from __future__ import annotations

import pytest
from test_transport_node_pieces import MIX, run

AGAIN = """
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
memory = np.ones(4 << 20, np.uint8) * (world.rank + 1)
memory = memory[-memory.ctypes.data % 4096 :]
def pages(first, number):
    return memory[first * 4096 : (first + number) * 4096]
for first, number in SPANS:
    if world.rank == 0:
        world.Send(pages(first, number), 1)
    else:
        pages(first, number)[:] = 0
        world.Recv(pages(first, number), 0)
        assert (pages(first, number) == 1).all()
"""


def spans(*of: tuple[int, int]) -> str:
    return AGAIN.replace("SPANS", str(of))


def firehose(limit: str, victims: str = "16MiB") -> tuple[str, ...]:
    limits = (f"strategy.firehose_limit={limit}", f"strategy.firehose_victims={victims}")
    return ("--memory", "firehose", *(word for each in limits for word in ("--set", each)))


@pytest.mark.parametrize("transport", ["facade", "fabric"])
@pytest.mark.parametrize("limit", ["64MiB", "40KiB"])
def test_every_byte_arrives_through_firehoses(transport, limit, tmp_path):
    """With 40 KiB each of three nodes holds five pages of each other: chunks, waits and moves."""
    words = (*firehose(limit, "64KiB"), "--transport", transport)
    out, totals = run(tmp_path, MIX, 3, *words)
    assert out.count("fine") == 3 and out.count("truncated") == 1
    assert totals["translation_faults"] == 0
    assert totals["firehose_moves"] > 0
    assert (totals["firehose_waits"] > 0) == (limit == "40KiB")


def test_first_read_takes_a_round_trip_and_later_ones_none(tmp_path):
    _, once = run(tmp_path, spans((0, 16)), 2, *firehose("1MiB"))
    _, often = run(tmp_path, spans(*[(0, 16)] * 5, (4, 8)), 2, *firehose("1MiB"))
    assert once["firehose_moves"] == often["firehose_moves"] == 1
    assert once["firehose_pages"] == often["firehose_pages"] == 16
    assert often["strategy_evictions"] == 0


def test_firehoses_that_no_read_uses_are_moved_the_oldest_first(tmp_path):
    """Sixteen pages at the peer. Three times eight are one too many: the third takes the place of
    the first, which was idle for longest, and the second is still held after it."""
    turns = spans((0, 8), (8, 8), (16, 8), (8, 8))
    _, moved = run(tmp_path, turns, 2, *firehose("64KiB"))
    assert (moved["firehose_moves"], moved["firehose_pages"]) == (3, 24)
    assert moved["strategy_evictions"] == 1
    again = spans((0, 8), (8, 8), (16, 8), (0, 8))
    _, moved = run(tmp_path, again, 2, *firehose("64KiB"))
    assert (moved["firehose_moves"], moved["firehose_pages"]) == (4, 32)


def test_what_peers_hold_stays_within_the_limit_and_victims_within_theirs(tmp_path):
    """One node sends, so what it has pinned is held by its peer, or was."""
    turns = spans((0, 64), (64, 64), (128, 64), (192, 64))
    _, none = run(tmp_path, turns, 2, *firehose("256KiB", "0"))
    assert none["pinned_peak_bytes"] == 64 * 4096
    _, some = run(tmp_path, turns, 2, *firehose("256KiB", "128KiB"))
    assert some["pinned_peak_bytes"] == 96 * 4096


def test_hits_take_as_long_as_reads_of_pinned_memory(tmp_path):
    """A further message costs what it does when all is pinned, and two look-ups: its receiver's
    own pages, and those that it holds."""
    lookup_ns = 200
    times = {}
    for words in (firehose("1MiB"), ("--memory", "pin-cache")):
        for number in (2, 3):
            _, totals = run(tmp_path, spans(*[(0, 16)] * number), 2, *words)
            times[words[1], number] = totals["virtual_time_ns"]
    more_ns = {name: times[name, 3] - times[name, 2] for name in ("firehose", "pin-cache")}
    assert abs(more_ns["firehose"] - more_ns["pin-cache"]) <= lookup_ns


def test_mapping_that_went_is_pinned_anew_by_its_owner(tmp_path):
    churn = """
import mmap
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
keep = np.empty(65536, np.uint8)
for i in range(1, 5):
    pages = mmap.mmap(-1, 65536)
    data = np.frombuffer(pages, np.uint8)
    if world.rank == 0:
        data[:] = i
        world.Send(data, 1)
    else:
        world.Recv(keep, 0)
        assert (keep == i).all()
    del data
    pages.close()
"""
    _, totals = run(tmp_path, churn, 2, *firehose("1MiB"))
    assert totals["strategy_invalidations"] > 0 == totals["translation_faults"]
    assert totals["firehose_moves"] + totals["strategy_invalidations"] >= 4


def test_limit_without_a_page_for_each_peer_is_refused(tmp_path):
    with pytest.raises(AssertionError, match=r"strategy\.firehose_limit has no page"):
        run(tmp_path, MIX, 3, *firehose("4KiB"))


def test_nic_reads_the_table_once_while_its_cache_has_room(tmp_path):
    words = ("--memory", "utlb", "--set", "strategy.utlb_fetch_entries=4")
    _, fits = run(tmp_path, spans(*[(0, 64)] * 4), 2, *words)
    assert fits["utlb_misses"] == 2 * 64 // 4
    assert fits["utlb_prefetched"] == 3 * fits["utlb_misses"]
    assert fits["utlb_hits"] >= 2 * 64 * 4 - fits["utlb_misses"]
    small = ("--set", "strategy.utlb_cache_entries=32")
    _, thrashes = run(tmp_path, spans(*[(0, 64)] * 4), 2, *words, *small)
    assert thrashes["utlb_misses"] == 4 * fits["utlb_misses"]
    assert thrashes["virtual_time_ns"] > fits["virtual_time_ns"]
    assert fits["translation_faults"] == thrashes["walks"] == fits["l2_misses"] == 0


@pytest.mark.parametrize("transport", ["facade", "fabric"])
def test_every_byte_arrives_through_utlb(transport, tmp_path):
    limit = ("--set", "strategy.utlb_limit=256KiB", "--set", "strategy.utlb_cache_ways=2")
    out, totals = run(tmp_path, MIX, 3, "--memory", "utlb", "--transport", transport, *limit)
    assert out.count("fine") == 3 and out.count("truncated") == 1
    assert totals["translation_faults"] == 0 < totals["strategy_evictions"]
