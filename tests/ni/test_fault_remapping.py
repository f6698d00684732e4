"""Translations after the OS has changed a mapping, and shootdowns."""

import mmap

import pytest
from engine_pair import BLOCK, PDID, Buffer, Pair, Policy, resident, times
from faulting_pair import ABSENT, ENDS, MODEL, assert_both_live_on, faults, needs_procmap
from mappings import LIBC, FarBuffer, map_at, unmap

from pagewire.native import check, lib


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("change", ["munmap and mmap", "dontneed"])
def test_buffer_that_was_freed_and_allocated_again_at_the_same_address_faults_again(
    change: str, ends: str
) -> None:
    pair = Pair(policy=Policy.ALL)
    source, destination = resident(2 * BLOCK)
    pair.write(source, destination)
    times(pair.run())
    assert faults(pair, 0) == faults(pair, 1) == (0, 0, 0, 0)
    for turn in (1, 2):
        for buffer in ([source] * (ends != "destination")) + ([destination] * (ends != "source")):
            if change == "dontneed":
                LIBC.madvise(buffer.address, buffer.num_bytes, mmap.MADV_DONTNEED)
            else:
                unmap(buffer.address, buffer.num_bytes)
                map_at(buffer.address, buffer.num_bytes)
        pair.carry(source, destination, at_ns=turn * 10**8)
        for node, changed in ((0, ends != "destination"), (1, ends != "source")):
            counters = pair.counters(node)
            assert counters.pages_paged_in == turn * 8 * changed
            # nobody told: each cached translation that was met while its page was absent was found
            # stale and shot down by its address. The send engine meets one a block: it stops there,
            # and at the next attempt Touch-Ahead has brought in the rest of the block. The second
            # block's fault falls in the first one's handler, so that it comes a timeout later to
            # the destination, which has brought in the whole transfer by then
            stale = 2 if node == 0 else 8 if ends == "destination" else 4
            assert counters.stale_translations == turn * stale * changed
            assert counters.shootdowns_address == turn * stale * changed
            assert counters.translations_dropped == turn * 2 * stale * changed
    pair.assert_quiet()


@pytest.mark.parametrize("end", ["source", "destination"])
def test_buffer_moved_by_mremap_keeps_its_pages_and_its_old_address_is_bad(end: str) -> None:
    pair = Pair()
    source, destination = resident(2 * BLOCK)
    expected = source.read()
    buffer = source if end == "source" else destination
    pair.write(source, destination)
    times(pair.run())
    hole = Buffer(2 * BLOCK)
    maymove_fixed = 3
    old = buffer.address
    moved = LIBC.mremap(old, 2 * BLOCK, 2 * BLOCK, maymove_fixed, hole.address)
    assert moved == hole.address
    hole.num_bytes = 2 * BLOCK
    pair.write(*((hole, destination) if end == "source" else (source, hole)), at_ns=10**8)
    times(pair.run())
    assert (destination if end == "source" else hole).read() == expected
    assert faults(pair, 0) == faults(pair, 1) == (0, 0, 0, 0)
    pair.write(source, destination, at_ns=2 * 10**8)
    found = pair.errors()
    map_at(old, 2 * BLOCK)
    assert set(found.values()) == {lib.PW_ERR_ADDRESS}
    assert_both_live_on(pair)


@needs_procmap
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("change", ["munmap", "mprotect"])
@pytest.mark.parametrize("end", ["source", "destination"])
def test_buffer_taken_away_during_its_own_transfer_is_an_error_and_no_crash(
    end: str, change: str, is_read: bool
) -> None:
    """Also for blocks that the destination has promised to take (a read's lookahead)."""
    pair = Pair()
    num_bytes = 400 * BLOCK
    source, destination = FarBuffer(num_bytes, 0), FarBuffer(num_bytes, 1)
    gone = source if end == "source" else destination
    (pair.read if is_read else pair.write)(source, destination)
    pair.step(4, 300_000)
    assert pair.counters(0).blocks > 0 and not pair.events
    if change == "munmap":
        gone.unmap()
    else:
        gone.protect(0)
    found = pair.errors()
    for buffer in (source, destination):
        buffer.unmap()
    wanted = lib.PW_ERR_ADDRESS if change == "munmap" else lib.PW_ERR_PROTECTION
    assert set(found.values()) == {wanted}
    assert_both_live_on(pair)


def shoot_down(ni: object, how: str, *pages: int) -> None:
    """Of these pages, of the context or of all contexts."""
    addressed = pages if how == "address" else (0, 2**64 - 1)
    lib.pw_ni_invalidate(ni, 0 if how == "all" else PDID, *addressed)


@pytest.mark.parametrize("by_setting", [False, True])
@pytest.mark.parametrize("how", ["address", "context", "all"])
def test_shootdown_drops_translations_and_is_counted(how: str, by_setting: bool) -> None:
    """By what the OS asks for, or by smmu.invalidate whatever it asks for [PART 4.3]."""
    pair = Pair(invalidate=("address", "context", "all").index(how) if by_setting else 0)
    lib.pw_ni_open_domain(pair.nis[1], PDID + 1)
    lib.pw_ni_open_domain(pair.nis[0], PDID + 1)
    source, destination = resident(2 * BLOCK)
    for pdid in (PDID, PDID + 1):
        pair.write(source, destination, pdid=pdid)
        times(pair.run())
    ni, first = pair.nis[1], destination.first_page
    shoot_down(ni, "address" if by_setting else how, first + 1, 3)
    pages = {"address": 3, "context": 8, "all": 16}[how]
    counters = pair.counters(1)
    found = counters.shootdowns_address, counters.shootdowns_context, counters.shootdowns_all
    assert found == tuple(int(how == each) for each in ("address", "context", "all"))
    assert counters.translations_dropped == 2 * pages
    walks = counters.walks
    for pdid in (PDID, PDID + 1):
        pair.write(source, destination, pdid=pdid, at_ns=10**8)
        times(pair.run())
    assert pair.counters(1).walks - walks == pages
    assert faults(pair, 1) == (0, 0, 0, 0)
    assert pair.counters(1).stale_translations == 0
    pair.assert_quiet()


@pytest.mark.parametrize("how", ["address", "context", "all", "nothing"])
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("end", ["source", "destination"])
def test_change_in_the_middle_of_a_transfer_is_seen_by_the_next_block_when_it_is_announced(
    end: str, is_read: bool, how: str
) -> None:
    pair = Pair(memory_backend=MODEL, timeout_ns=100_000)
    source, destination = resident(300 * BLOCK)
    buffer, node = (source, 0) if end == "source" else (destination, 1)
    (pair.read if is_read else pair.write)(source, destination)
    pair.step(4, 300_000)
    assert 0 < pair.counters(0).blocks < 300
    first, count = buffer.first_page, buffer.num_pages
    last_pages = first + count - 40, 40
    check(lib.pw_memory_set(pair.memories[node], *last_pages, ABSENT), "set")
    ni = pair.nis[node]
    if how != "nothing":
        shoot_down(ni, how, *last_pages)
    pair.finish((source, destination))
    if how != "nothing":
        assert pair.counters(node).pages_paged_in == 40
