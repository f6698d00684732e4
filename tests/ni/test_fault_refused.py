"""Accesses that no page-in can serve: forbidden by the mapping, or not mapped at all."""

import mmap

import pytest
from engine_pair import ARRIVED, BLOCK, DONE, FETCHED, Pair, resident
from faulting_pair import (
    ABSENT,
    CHECKS,
    DECODE,
    ENDS,
    HOST,
    MODEL,
    PROTECTION,
    UNMAPPED,
    assert_both_live_on,
    faults,
    needs_procmap,
    set_pages,
)
from mappings import LIBC, READ_WRITE, map_at, unmap

from pagewire.driver.policy import PageFault, PageInPolicy
from pagewire.native import check, lib
from pagewire.smmu.registers import Fsr


@pytest.mark.parametrize("resident_before", [True, False])
@pytest.mark.parametrize("backend", [HOST, MODEL])
@pytest.mark.parametrize("end", ["source", "destination"])
def test_mapping_that_forbids_the_access_ends_in_an_error_and_nothing_is_written(
    end: str, backend: int, resident_before: bool
) -> None:
    if not CHECKS & lib.PW_CHECKS_PERMISSION and (resident_before or backend == MODEL):
        pytest.skip("PROCMAP_QUERY: Linux 6.11 or newer")
    pair = Pair(memory_backend=backend)
    source, destination = resident(2 * BLOCK)
    destination.fill(b"\x55" * 2 * BLOCK)
    locked, node = (source, 0) if end == "source" else (destination, 1)
    allowed = 0 if end == "source" else mmap.PROT_READ
    if not resident_before:
        locked.drop()
    before = destination.read() if resident_before or end == "source" else bytes(2 * BLOCK)
    if backend == MODEL and not resident_before:
        set_pages(pair, node, locked, ABSENT)
    assert LIBC.mprotect(locked.address, 2 * BLOCK, allowed) == 0
    pair.write(source, destination)
    found = pair.errors()
    assert LIBC.mprotect(locked.address, 2 * BLOCK, READ_WRITE) == 0
    assert found[DONE] == lib.PW_ERR_PROTECTION
    if end == "destination":
        assert found[ARRIVED] == lib.PW_ERR_PROTECTION
        assert pair.counters(0).nacks[PROTECTION] > 0
    assert destination.read() == before
    assert pair.counters(node).page_ins_failed > 0
    permission = faults(pair, node)[2 if end == "source" else 3]
    assert (permission > 0) == resident_before
    assert (Fsr.PF in pair.bank(node).fsr) == resident_before
    assert_both_live_on(pair)


@needs_procmap
@pytest.mark.parametrize("stall", [0, 1])
@pytest.mark.parametrize("absent", [True, False])
@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("end", ["source", "destination"])
def test_ideal_memory_allows_no_more_than_the_mapping_does(
    end: str, is_read: bool, absent: bool, stall: int
) -> None:
    pair = Pair(ideal=1, stall=stall)
    source, destination = resident(5 * BLOCK)
    locked = source if end == "source" else destination
    if absent:
        locked.drop()
    allowed = 0 if end == "source" else mmap.PROT_READ
    assert LIBC.mprotect(locked.address, 5 * BLOCK, allowed) == 0
    (pair.read if is_read else pair.write)(source, destination)
    found = pair.errors()
    assert LIBC.mprotect(locked.address, 5 * BLOCK, READ_WRITE) == 0
    assert set(found.values()) == {lib.PW_ERR_PROTECTION}
    assert_both_live_on(pair)


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("backend", [HOST, MODEL])
@pytest.mark.parametrize("ends", ENDS)
def test_unmapped_address_is_a_decode_error_and_both_sides_live_on(
    ends: str, backend: int, is_read: bool
) -> None:
    pair = Pair(memory_backend=backend)
    source, destination = resident(2 * BLOCK)
    gone = {"source": [source], "destination": [destination], "both": [source, destination]}[ends]
    for buffer in gone:
        if backend == HOST:
            unmap(buffer.address, buffer.num_bytes)
        else:
            set_pages(pair, 0 if buffer is source else 1, buffer, UNMAPPED)
    (pair.read if is_read else pair.write)(source, destination)
    found = pair.errors()
    for buffer in gone if backend == HOST else []:
        map_at(buffer.address, buffer.num_bytes)
    assert set(found.values()) == {lib.PW_ERR_ADDRESS}
    assert (pair.counters(0).nacks[DECODE] > 0) == (ends == "destination")
    assert pair.counters(0).transfers_failed == 1
    if not is_read:  # from nowhere not a byte left, so that there is nobody to tell
        assert set(found) == ({DONE, ARRIVED} if ends == "destination" else {DONE})
    elif ends == "destination":
        assert set(found) == {FETCHED, lib.PW_HOST_EXPOSE_DONE}
    assert_both_live_on(pair)


@pytest.mark.parametrize("end", ["source", "destination"])
def test_page_unmapped_between_the_fault_and_the_tasklet_is_an_error(end: str) -> None:
    """The fault is for an absent page; when the tasklet comes to it the program has unmapped it."""
    source, destination = resident(3 * BLOCK)
    buffer, node = (source, 0) if end == "source" else (destination, 1)
    page = buffer.first_page + 5

    class Unmaps(PageInPolicy):
        def pages(self, *, fault: PageFault) -> range:
            check(lib.pw_memory_set(pair.memories[node], fault.page, 1, UNMAPPED), "set")
            return range(fault.page, fault.page + 1)

    pair = Pair(memory_backend=MODEL, own_policy=Unmaps)
    pair.trace()
    check(lib.pw_memory_set(pair.memories[node], page, 1, ABSENT), "set")
    pair.write(source, destination)
    found = pair.errors()
    assert set(found.values()) == {lib.PW_ERR_ADDRESS}
    kind = f"fault_{end}"
    assert pair.log(kind)[0][3] == page
    assert pair.time_of("tasklet_entry") > pair.time_of(kind)
    assert pair.counters(node).page_ins_failed == 1
    assert (pair.counters(0).nacks[DECODE] > 0) == (end == "destination")
    assert_both_live_on(pair)
