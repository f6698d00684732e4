"""Page faults of huge pages and of pages that are collapsed into one."""

import ctypes
import mmap
import os

import pytest
from engine_pair import ARRIVED, PAGE, PDID, Buffer, Event, Pair, Policy, pattern, times
from faulting_pair import (
    ENDS,
    HUGE_BYTES,
    HUGE_PAGES,
    MADV_COLLAPSE,
    MADV_HUGEPAGE,
    MODEL,
    faults,
    one_page,
)
from mappings import LIBC

from pagewire.native import check, ffi, lib


def huge_buffer(num_regions: int) -> Buffer:
    """Resident, with `num_regions` aligned 2 MB inside; `address` is the first of them."""
    buffer = Buffer((num_regions + 1) * HUGE_BYTES)
    buffer.start += -buffer.address % HUGE_BYTES
    buffer.address += -buffer.address % HUGE_BYTES
    buffer.num_bytes = num_regions * HUGE_BYTES
    buffer.touch()
    return buffer


COLLAPSES = {"model_collapse_millionths": 1_000_000}
"""Settings of a node at which whatever can collapse does when a transfer begins."""


def collapse(pair: Pair, node: int, buffer: Buffer) -> int:
    pages = buffer.first_page, buffer.num_pages
    count = lib.pw_memory_begin_transfer(pair.memories[node], *pages)
    lib.pw_ni_invalidate(pair.nis[node], PDID, *pages)
    return int(count)


@pytest.mark.parametrize("ends", ENDS)
def test_model_collapsed_pages_fault_once_for_all_512(ends: str) -> None:
    at_source, at_destination = ends != "destination", ends != "source"
    of_node = {node: COLLAPSES for node, here in enumerate((at_source, at_destination)) if here}
    pair = Pair(memory_backend=MODEL, timeout_ns=100_000, of_node=of_node)
    source, destination = huge_buffer(1), huge_buffer(1)
    source.fill(pattern(HUGE_BYTES))
    if at_source:
        assert collapse(pair, 0, source) == 1
    if at_destination:
        assert collapse(pair, 1, destination) == 1
    pair.carry(source, destination)
    for node, collapsed in ((0, at_source), (1, at_destination)):
        counters = pair.counters(node)
        # the policy asks by page, the source for 4 from FAR on, which come along with the first
        asked = 4 if node == 0 else 1
        assert counters.pages_paged_in == asked * collapsed
        assert counters.pages_along == (asked - 1) * collapsed
        assert counters.pages_copied == counters.major_faults == 0
        assert (sum(faults(pair, node)[:2]) > 0) == collapsed
        memory = ffi.new("pw_memory_counters *")
        lib.pw_memory_read_counters(pair.memories[node], memory)
        assert memory.collapsed_regions == collapsed
    before = faults(pair, 0), faults(pair, 1)
    pair.write(source, destination, at_ns=10**9)
    pair.finish()
    assert (faults(pair, 0), faults(pair, 1)) == before


def test_model_huge_page_in_costs_one_page_and_is_there_for_all_of_them_at_the_same_time() -> None:
    absent_ns, _ = one_page(memory_backend=MODEL)
    pair = Pair(memory_backend=MODEL, policy=Policy.ALL, of_node={1: COLLAPSES})
    source, destination = huge_buffer(1), huge_buffer(1)
    assert collapse(pair, 1, destination) == 1
    pair.trace()
    pair.write(source, destination, num_bytes=PAGE)
    assert times(pair.run())[ARRIVED] == absent_ns
    pair.write(source, destination, at_ns=10**8)
    times(pair.run())
    assert pair.counters(1).pages_paged_in == 1

    # handlers would interrupt the tasklet
    costs = {"handler_ns": 0}
    pair = Pair(memory_backend=MODEL, policy=Policy.ALL, costs=costs, of_node={1: COLLAPSES})
    assert collapse(pair, 1, destination) == 1
    pair.trace()
    pair.write(source, destination)
    pair.finish()
    [useful] = [row for row in pair.log("page_in_done") if row[4]]
    assert useful[4] == HUGE_PAGES
    c = pair.costs
    entry = pair.log("tasklet_entry")[0][0]
    fixed = c.tasklet_other_ns + c.page_in_fixed_ns
    assert useful[0] == entry + fixed + c.page_in_page_ns
    assert pair.counters(1).pages_along == HUGE_PAGES - 1


def test_model_collapse_in_the_middle_of_a_transfer_is_seen_by_its_next_block() -> None:
    pair = Pair(memory_backend=MODEL, lookahead_blocks=0, of_node={1: COLLAPSES})
    source, destination = huge_buffer(1), huge_buffer(1)
    source.fill(pattern(HUGE_BYTES, 5))
    pinned = pair.memories[1], destination.first_page, 1  # and so not collapsed when it begins
    check(lib.pw_memory_pin(*pinned, ffi.NULL), "pin")
    pair.write(source, destination)
    pair.run(200_000)
    assert 0 < pair.counters(0).acks < 128
    assert faults(pair, 1) == (0, 0, 0, 0)
    check(lib.pw_memory_unpin(*pinned), "unpin")
    assert collapse(pair, 1, destination) == 1
    pair.finish((source, destination))
    assert faults(pair, 1)[1] > 0 and pair.counters(1).pages_paged_in == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_model_collapses_by_chance_at_the_start_of_transfers(seed: int) -> None:
    def run() -> tuple[int, list[Event]]:
        pair = Pair(memory_backend=MODEL, model_collapse_millionths=300_000, model_seed=seed)
        pair.run()
        for i in range(20):
            post = pair.read if i % 2 else pair.write
            post(source, destination, at_ns=i * 10**8)
            times(pair.run())
        assert destination.read() == source.read()
        memory = ffi.new("pw_memory_counters *")
        lib.pw_memory_read_counters(pair.memories[1], memory)
        pair.assert_quiet()
        return int(memory.collapsed_regions), pair.events

    source, destination = huge_buffer(2), huge_buffer(2)
    source.fill(pattern(2 * HUGE_BYTES))
    collapsed, events = run()
    assert collapsed == 2  # a huge page stays one
    assert run()[1] == events


def test_model_of_huge_pages_brings_in_2_mb_at_the_first_touch_until_they_are_taken_apart() -> None:
    settings = {"model_huge_pages": 1, "model_fault_millionths": 1_000_000}
    pair = Pair(memory_backend=MODEL, of_node={1: settings})
    source, destination = huge_buffer(2), huge_buffer(2)
    source.fill(pattern(2 * HUGE_BYTES))
    pair.carry(source, destination)
    assert pair.counters(1).pages_paged_in == 2
    lost = destination.first_page + 700
    check(lib.pw_memory_set(pair.memories[1], lost, 1, lib.PW_PAGE_ABSENT), "set")
    pair.write(source, destination, at_ns=10**9)
    pair.finish()
    assert pair.counters(1).pages_paged_in == 3


def host_huge_pages(pair: Pair, node: int, buffer: Buffer) -> bool:
    """Whether the buffer's first 2 MB are one huge page."""
    first, count = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    lib.pw_memory_extent(pair.memories[node], buffer.first_page, first, count)
    return count[0] == HUGE_PAGES


def test_host_collapse_leaves_data_and_a_fault_on_a_huge_page_brings_in_2_mb() -> None:
    pair = Pair(policy=Policy.PAGE)
    source, destination = huge_buffer(1), huge_buffer(1)
    source.fill(pattern(HUGE_BYTES))
    destination.pages.advise(MADV_HUGEPAGE)
    if LIBC.madvise(destination.address, HUGE_BYTES, MADV_COLLAPSE) != 0:
        pytest.skip(f"MADV_COLLAPSE (Linux 6.1): {os.strerror(ctypes.get_errno())}")
    if not host_huge_pages(pair, 1, destination):
        pytest.skip("PAGEMAP_SCAN (Linux 6.7) does not tell of huge pages")
    pair.carry(source, destination)
    assert faults(pair, 1) == (0, 0, 0, 0)  # the kernel maps it again before it returns

    LIBC.madvise(destination.address, HUGE_BYTES, mmap.MADV_DONTNEED)
    pair.trace()
    pair.carry(source, destination, at_ns=10**9)
    if not host_huge_pages(pair, 1, destination):
        pytest.skip("the kernel has no huge page for a first touch here")
    assert pair.counters(1).pages_paged_in == 1
    # an access that is earlier in virtual time than the page-in's end faults, although the page is
    # there
    first_done = pair.log("page_in_done")[0][0]
    assert pair.log("fault_destination")[-1][0] < first_done
