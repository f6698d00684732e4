"""Page faults of write-protected pages: the zero page, private file pages, pages shared with a
child."""

import contextlib
import mmap
import tempfile

import pytest
from engine_pair import ARRIVED, BLOCK, PAGE, PDID, Pair, Policy, absent, pattern, resident, times
from faulting_pair import (
    ABSENT,
    CHECKS,
    ENDS,
    HOST,
    MODEL,
    PAGE_FAULT,
    WRITE_PROTECTED,
    faults,
    mark,
    needs_pagemap,
    one_page,
    set_pages,
)
from mappings import forked_child

from pagewire.native import check, ffi, lib
from pagewire.smmu.registers import Fsr, Fsynr0


@needs_pagemap
def test_zero_page_that_is_read_and_then_written_takes_a_permission_fault() -> None:
    absent_ns, _ = one_page()
    pair = Pair()
    source, destination = absent(PAGE)
    assert destination.read() == bytes(PAGE)  # maps the shared zero page
    arrived_ns = times(pair.carry(source, destination))[ARRIVED]
    assert arrived_ns == absent_ns + pair.costs.tlb_invalidate_ns  # the frame is another
    assert faults(pair, 1) == (0, 0, 0, 1)
    counters = pair.counters(1)
    assert counters.pages_paged_in == counters.pages_copied == counters.shootdowns_address == 1
    registers = pair.bank(1)
    assert registers.fsr == Fsr.PF | Fsr.MULTI and registers.fsynr0 == Fsynr0.WNR
    assert registers.address == destination.address
    assert pair.counters(0).nacks[PAGE_FAULT] == pair.counters(0).err_messages == 1


@needs_pagemap
def test_zero_page_is_good_enough_for_a_source() -> None:
    pair = Pair()
    source, destination = absent(3 * BLOCK, "source")
    assert source.read() == bytes(3 * BLOCK)
    pair.write(source, destination)
    times(pair.run())
    assert destination.read() == bytes(3 * BLOCK)
    assert faults(pair, 0) == faults(pair, 1) == (0, 0, 0, 0)


@needs_pagemap
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("ends", ENDS)
def test_after_a_fork_the_first_write_to_each_page_faults(ends: str, is_read: bool) -> None:
    """Copy on write: only the writing side meets it."""
    pair = Pair(policy=Policy.BLOCK)
    source, destination = resident(3 * BLOCK)
    if ends == "source":  # then the fork comes before the destination has its pages
        destination.drop()
    with forked_child():
        if ends == "source":
            destination.touch()
        elif ends == "destination":
            source.fill(pattern(3 * BLOCK, 2))
        post = pair.read if is_read else pair.write
        post(source, destination)
        pair.finish((source, destination))
        written = 0 if ends == "source" else 12
        at_destination = faults(pair, 1)
        assert faults(pair, 0) == (0, 0, 0, 0)
        assert at_destination[:3] == (0, 0, 0) and (at_destination[3] > 0) == (written > 0)
        assert pair.counters(1).pages_copied == pair.counters(1).pages_paged_in == written
        post(source, destination, at_ns=10**7)  # they are its own now
        times(pair.run())
        assert faults(pair, 1) == at_destination
    pair.assert_quiet()


@needs_pagemap
def test_fork_of_a_shared_mapping_copies_nothing() -> None:
    pair = Pair()
    source, _ = resident(BLOCK)
    shared = mmap.mmap(-1, BLOCK)
    shared[:] = bytes([1]) * BLOCK
    address = int(ffi.cast("uintptr_t", ffi.from_buffer(shared)))
    with forked_child():
        pair.write_raw(source.address, address, BLOCK)
        times(pair.run())
    assert shared[:] == source.read()
    assert faults(pair, 1) == (0, 0, 0, 0)


@needs_pagemap
def test_write_to_a_private_file_mapping_copies_the_page_and_leaves_the_file() -> None:
    pair = Pair()
    source, _ = resident(PAGE)
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * PAGE)
        file.flush()
        area = mmap.mmap(file.fileno(), PAGE, access=mmap.ACCESS_COPY)
        assert area[0] == ord("x")
        pair.write_raw(source.address, int(ffi.cast("uintptr_t", ffi.from_buffer(area))), PAGE)
        times(pair.run())
        assert area[:] == source.read()
        file.seek(0)
        assert file.read() == b"x" * PAGE
    assert faults(pair, 1) == (0, 0, 0, 1)
    assert pair.counters(1).pages_copied == 1


@needs_pagemap
def test_ideal_memory_does_not_fault_after_a_fork() -> None:
    pair = Pair(ideal=1)
    source, destination = resident(5 * BLOCK)
    with forked_child():
        for post in (pair.write, pair.read):
            post(source, destination)
            times(pair.run())
    assert destination.read() == source.read()
    assert faults(pair, 1) == (0, 0, 0, 0)
    pair.assert_quiet()


@pytest.mark.parametrize("ends", ENDS)
def test_model_write_protected_pages_fault_where_they_are_written(ends: str) -> None:
    absent_ns, _ = one_page(memory_backend=MODEL)
    pair = Pair(memory_backend=MODEL)
    source, destination = resident(PAGE)
    mark(pair, ends, source, destination, WRITE_PROTECTED)
    arrived_ns = times(pair.carry(source, destination))[ARRIVED]
    assert faults(pair, 0) == (0, 0, 0, 0)
    assert faults(pair, 1) == (0, 0, 0, int(ends != "source"))
    copied_ns = absent_ns + pair.costs.tlb_invalidate_ns
    assert (arrived_ns == copied_ns) == (ends != "source")
    assert pair.counters(1).pages_copied == int(ends != "source")


def test_model_page_first_touched_by_a_read_is_the_zero_page() -> None:
    """The source's fault brings it in for reading; as a destination it faults once more, for
    writing."""
    pair = Pair(memory_backend=MODEL)
    source, destination = resident(PAGE)
    set_pages(pair, 0, source, ABSENT)
    pair.write(source, destination)
    times(pair.run())
    assert faults(pair, 0) == (1, 0, 0, 0)
    for _ in range(2):
        pair.write(destination, source, node=1, peer=0, at_ns=10**8)
        times(pair.run())
    assert faults(pair, 0) == (1, 0, 0, 1)
    assert pair.counters(0).pages_copied == 1
    pair.assert_quiet()


@pytest.mark.parametrize("whole", [True, False])
def test_model_fork_protects_what_is_resident(whole: bool) -> None:
    pair = Pair(memory_backend=MODEL, policy=Policy.ALL)
    source, destination = resident(2 * BLOCK)
    for at_ns in (0, 10**8):
        pages = (0, 2**64 - 1) if whole else (destination.first_page, destination.num_pages)
        check(lib.pw_memory_fork(pair.memories[1], *pages), "fork")
        lib.pw_ni_invalidate(pair.nis[1], PDID, 0, 2**64 - 1)
        pair.write(source, destination, at_ns=at_ns)
        times(pair.run())
    counters = pair.counters(1)
    assert counters.pages_copied == 2 * 8 and counters.shootdowns_context == 2
    assert faults(pair, 1)[:3] == (0, 0, 0)
    pair.assert_quiet()


@pytest.mark.parametrize("backend", [HOST, MODEL])
def test_copied_page_drops_the_translation_that_the_source_had(backend: int) -> None:
    """The NI reads the shared page, which caches its translation; the write needs another frame."""
    if backend == HOST and not CHECKS & lib.PW_CHECKS_WRITE_PROTECTION:
        pytest.skip("/proc/self/pagemap tells of no write protection")
    pair = Pair(memory_backend=backend)
    shared, other = resident(PAGE)
    with forked_child() if backend == HOST else contextlib.nullcontext():
        other.touch()
        if backend == MODEL:
            set_pages(pair, 0, shared, WRITE_PROTECTED)
        pair.write(shared, other)
        times(pair.run())
        assert pair.counters(0).translations_dropped == 0
        other.fill(pattern(PAGE, 3))
        pair.write(other, shared, node=1, peer=0, at_ns=10**8)
        times(pair.run())
    assert shared.read() == other.read() == pattern(PAGE, 3)
    counters = pair.counters(0)
    assert counters.permission_faults_destination == 1
    assert counters.translations_dropped == 2  # L1 and L2
    pair.assert_quiet()
