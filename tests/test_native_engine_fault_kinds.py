"""Faults of every kind, at either end and at both [MECHANISMS 5], on the host's pages and on the model's."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterator

import pytest
from engine_pair import BLOCK, MADV_NOHUGEPAGE, PAGE, PDID, Buffer, Event, Pair, pattern, resident

from pagewire.native import check, ffi, lib
from pagewire.smmu.registers import ContextBank, Fsr, Fsynr0

DONE, ARRIVED = lib.PW_HOST_WRITE_DONE, lib.PW_HOST_ARRIVED
ABSENT, PRESENT, UNMAPPED = lib.PW_PAGE_ABSENT, lib.PW_PAGE_PRESENT, lib.PW_PAGE_UNMAPPED
WRITE_PROTECTED = lib.PW_PAGE_WRITE_PROTECTED
POLICY_PAGE, POLICY_BLOCK, POLICY_ALL = 0, 1, 2
PAGE_FAULT, DECODE, PROTECTION = 1, 2, 5
HUGE_PAGES = int(lib.PW_HUGE_PAGES)
HUGE_BYTES = HUGE_PAGES * PAGE
HOST, MODEL = int(lib.PW_MEMORY_HOST), int(lib.PW_MEMORY_MODEL)
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25
ENDS = ["source", "destination", "both"]
CHECKS = lib.pw_memory_checks_access(Pair().memories[0])
needs_pagemap = pytest.mark.skipif(
    not CHECKS & lib.PW_CHECKS_WRITE_PROTECTION,
    reason="write protection needs PROCMAP_QUERY (Linux 6.11) and a readable /proc/self/pagemap",
)
needs_procmap = pytest.mark.skipif(
    not CHECKS & lib.PW_CHECKS_PERMISSION, reason="PROCMAP_QUERY: Linux 6.11 or newer"
)

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = LIBC.mremap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.mremap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 2, ctypes.c_int, ctypes.c_void_p]
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
MAP_FIXED = 0x10


def map_at(address: int, num_bytes: int, protection: int = READ_WRITE) -> None:
    """Fresh pages in place of what is there."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
    assert LIBC.mmap(address, num_bytes, protection, flags, -1, 0) == address


def unmap(address: int, num_bytes: int) -> None:
    assert LIBC.munmap(address, num_bytes) == 0


class FarBuffer:
    """Resident pages where no allocation will ever go, so that a hole in them stays a hole."""

    PLACE = 0x2000_0000_0000

    def __init__(self, num_bytes: int, slot: int) -> None:
        self.address = self.PLACE + slot * (1 << 32)
        self.num_bytes = num_bytes
        map_at(self.address, num_bytes)
        LIBC.madvise(self.address, num_bytes, MADV_NOHUGEPAGE)
        ctypes.memset(self.address, slot + 1, num_bytes)

    def unmap(self) -> None:
        unmap(self.address, self.num_bytes)

    def protect(self, protection: int) -> None:
        assert LIBC.mprotect(self.address, self.num_bytes, protection) == 0


@contextlib.contextmanager
def forked_child() -> Iterator[None]:
    """A child that shares this process's pages and does nothing."""
    end, begin = os.pipe()
    child = os.fork()
    if not child:
        os.close(begin)
        os.read(end, 1)
        os._exit(0)
    try:
        yield
    finally:
        os.close(begin)
        os.close(end)
        os.waitpid(child, 0)


def completions(events: list[Event]) -> dict[int, int]:
    """Time of each kind of event; nothing failed."""
    assert all(event.error == 0 for event in events), events
    return {event.kind: event.time_ns for event in events}


def errors(events: list[Event]) -> dict[int, int]:
    return {event.kind: event.error for event in events}


def bank(pair: Pair, node: int) -> ContextBank:
    out = ffi.new("pw_context_bank *")
    check(lib.pw_ni_read_bank(pair.nis[node], 0, out), "bank")
    return ContextBank.from_engine(0, out)


def faults(pair: Pair, node: int) -> tuple[int, int, int, int]:
    """Translation faults at source and destination, permission faults likewise."""
    counters = pair.counters(node)
    return (
        counters.translation_faults_source,
        counters.translation_faults_destination,
        counters.permission_faults_source,
        counters.permission_faults_destination,
    )


def assert_both_live_on(pair: Pair) -> None:
    """A good transfer either way works, and then nothing is left."""
    for node, peer in ((0, 1), (1, 0)):
        source, destination = resident(2 * BLOCK + 5)
        pair.write(source, destination, node=node, peer=peer, at_ns=10**8)
        completions(pair.run())
        assert destination.read() == source.read()
    pair.assert_quiet()


def one_page(**settings: int) -> tuple[int, Pair]:
    """What a write of one page to an absent page takes: the yardstick of the other kinds."""
    pair = Pair(**settings)
    source, destination = resident(PAGE)
    if settings.get("memory_backend") == MODEL:
        set_pages(pair, 1, destination, ABSENT)
    else:
        destination.drop()
    pair.write(source, destination)
    return completions(pair.run())[ARRIVED], pair


def set_pages(pair: Pair, node: int, buffer: Buffer, state: int) -> None:
    code = lib.pw_memory_set(pair.memories[node], buffer.first_page, buffer.num_pages, state)
    check(code, "set")


def mark(pair: Pair, ends: str, source: Buffer, destination: Buffer, state: int) -> None:
    if ends != "destination":
        set_pages(pair, 0, source, state)
    if ends != "source":
        set_pages(pair, 1, destination, state)


# -- first touch and dropped pages


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("how", ["first touch", "dropped"])
def test_pages_that_were_never_touched_and_dropped_ones_fault(how: str, ends: str) -> None:
    pair = Pair(policy=POLICY_BLOCK)
    num_bytes = 3 * BLOCK
    source, destination = resident(num_bytes)
    expected = source.read()
    if ends != "destination":
        expected = bytes(num_bytes)
        source.drop()
        if how == "first touch":
            source = Buffer(num_bytes)
    if ends != "source":
        destination.drop()
        if how == "first touch":
            destination = Buffer(num_bytes)
    pair.write(source, destination)
    completions(pair.run())
    assert destination.read() == expected
    at_source, at_destination = faults(pair, 0), faults(pair, 1)
    assert (at_source[0] > 0) == (ends != "destination")
    assert (at_destination[1] > 0) == (ends != "source")
    assert at_source[2:] == at_destination[2:] == (0, 0)
    assert pair.counters(0).pages_paged_in == 12 * (ends != "destination")
    assert pair.counters(1).pages_paged_in == 12 * (ends != "source")
    pair.assert_quiet()


# -- write protection: the zero page and pages shared with a child


@needs_pagemap
def test_zero_page_that_is_read_and_then_written_takes_a_permission_fault() -> None:
    absent_ns, _ = one_page()
    pair = Pair()
    source, destination = resident(PAGE)
    destination.drop()
    assert destination.read() == bytes(PAGE)  # maps the shared zero page
    pair.write(source, destination)
    assert completions(pair.run())[ARRIVED] == absent_ns
    assert destination.read() == source.read()
    assert faults(pair, 1) == (0, 0, 0, 1)
    counters = pair.counters(1)
    assert counters.pages_paged_in == counters.pages_copied == counters.shootdowns_address == 1
    registers = bank(pair, 1)
    assert registers.fsr == Fsr.PF | Fsr.MULTI and registers.fsynr0 == Fsynr0.WNR
    assert registers.address == destination.address
    assert pair.counters(0).nacks[PAGE_FAULT] == pair.counters(0).err_messages == 1
    pair.assert_quiet()


@needs_pagemap
def test_zero_page_is_good_enough_for_a_source() -> None:
    pair = Pair()
    source, destination = resident(3 * BLOCK)
    source.drop()
    assert source.read() == bytes(3 * BLOCK)
    pair.write(source, destination)
    completions(pair.run())
    assert destination.read() == bytes(3 * BLOCK)
    assert faults(pair, 0) == faults(pair, 1) == (0, 0, 0, 0)


@needs_pagemap
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("ends", ENDS)
def test_after_a_fork_the_first_write_to_each_page_faults(ends: str, is_read: bool) -> None:
    """Copy on write: only the writing side meets it."""
    pair = Pair(policy=POLICY_BLOCK)
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
        completions(pair.run())
        assert destination.read() == source.read()
        written = 0 if ends == "source" else 12
        at_destination = faults(pair, 1)
        assert faults(pair, 0) == (0, 0, 0, 0)
        assert at_destination[:3] == (0, 0, 0) and (at_destination[3] > 0) == (written > 0)
        assert pair.counters(1).pages_copied == pair.counters(1).pages_paged_in == written
        post(source, destination, at_ns=10**7)  # they are its own now
        completions(pair.run())
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
        completions(pair.run())
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
        completions(pair.run())
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
            completions(pair.run())
    assert destination.read() == source.read()
    assert faults(pair, 1) == (0, 0, 0, 0)
    pair.assert_quiet()


@pytest.mark.parametrize("ends", ENDS)
def test_model_write_protected_pages_fault_where_they_are_written(ends: str) -> None:
    absent_ns, _ = one_page(memory_backend=MODEL)
    pair = Pair(memory_backend=MODEL)
    source, destination = resident(PAGE)
    mark(pair, ends, source, destination, WRITE_PROTECTED)
    pair.write(source, destination)
    arrived_ns = completions(pair.run())[ARRIVED]
    assert destination.read() == source.read()
    assert faults(pair, 0) == (0, 0, 0, 0)
    assert faults(pair, 1) == (0, 0, 0, int(ends != "source"))
    assert (arrived_ns == absent_ns) == (ends != "source")
    assert pair.counters(1).pages_copied == int(ends != "source")
    pair.assert_quiet()


def test_model_page_first_touched_by_a_read_is_the_zero_page() -> None:
    """The source's fault brings it in for reading; as a destination it faults once more, for writing."""
    pair = Pair(memory_backend=MODEL)
    source, destination = resident(PAGE)
    set_pages(pair, 0, source, ABSENT)
    pair.write(source, destination)
    completions(pair.run())
    assert faults(pair, 0) == (1, 0, 0, 0)
    for _ in range(2):
        pair.write(destination, source, node=1, peer=0, at_ns=10**8)
        completions(pair.run())
    assert faults(pair, 0) == (1, 0, 0, 1)
    assert pair.counters(0).pages_copied == 1
    pair.assert_quiet()


@pytest.mark.parametrize("whole", [True, False])
def test_model_fork_protects_what_is_resident(whole: bool) -> None:
    pair = Pair(memory_backend=MODEL, policy=POLICY_ALL)
    source, destination = resident(2 * BLOCK)
    for at_ns in (0, 10**8):
        pages = (0, 2**64 - 1) if whole else (destination.first_page, destination.num_pages)
        check(lib.pw_memory_fork(pair.memories[1], *pages), "fork")
        lib.pw_ni_invalidate_context(pair.nis[1], PDID)
        pair.write(source, destination, at_ns=at_ns)
        completions(pair.run())
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
        completions(pair.run())
        assert pair.counters(0).translations_dropped == 0
        other.fill(pattern(PAGE, 3))
        pair.write(other, shared, node=1, peer=0, at_ns=10**8)
        completions(pair.run())
    assert shared.read() == other.read() == pattern(PAGE, 3)
    counters = pair.counters(0)
    assert counters.permission_faults_destination == 1
    assert counters.translations_dropped == 2  # L1 and L2
    pair.assert_quiet()


# -- swap


@pytest.mark.parametrize("ends", ENDS)
def test_model_page_from_swap_is_a_major_fault_that_waits_for_the_device(ends: str) -> None:
    def run(swapped: bool) -> tuple[int, Pair]:
        pair = Pair(memory_backend=MODEL, model_frame_limit_pages=1)
        source, destination = resident(PAGE)
        others = Buffer(PAGE), Buffer(PAGE)
        for node, buffer in ((0, source), (1, destination)):
            if (ends == "source") == (node == 1) and ends != "both":
                continue
            set_pages(pair, node, buffer, PRESENT if swapped else ABSENT)
            set_pages(pair, node, others[node], PRESENT)  # takes the only frame
        pair.write(source, destination)
        arrived_ns = completions(pair.run())[ARRIVED]
        assert destination.read() == source.read()
        pair.assert_quiet()
        return arrived_ns, pair

    minor_ns, minor = run(False)
    major_ns, major = run(True)
    in_source, in_destination = int(ends != "destination"), int(ends != "source")
    assert [minor.counters(node).major_faults for node in (0, 1)] == [0, 0]
    assert [major.counters(node).major_faults for node in (0, 1)] == [in_source, in_destination]
    assert [major.counters(node).pages_paged_in for node in (0, 1)] == [in_source, in_destination]
    # the source's page-in is over long before its timeout, major or not
    assert major_ns - minor_ns == in_destination * major.costs.major_fault_ns
    booked_ns = [major.counters(n).page_in_ns - minor.counters(n).page_in_ns for n in (0, 1)]
    expected = [end * major.costs.major_fault_ns for end in (in_source, in_destination)]
    assert booked_ns == expected


def test_model_thrashes_when_frames_are_short() -> None:
    settings = {"model_frame_limit_pages": 6, "window_blocks": 1}  # two blocks would not fit
    pair = Pair(memory_backend=MODEL, policy=POLICY_BLOCK, **settings)
    source, destination = resident(3 * BLOCK)
    set_pages(pair, 1, destination, ABSENT)
    for at_ns in (0, 10**8):
        pair.write(source, destination, at_ns=at_ns)
        completions(pair.run())
        assert destination.read() == source.read()
    assert pair.counters(1).major_faults >= 6
    pair.assert_quiet()


# -- huge pages


def huge_buffer(num_regions: int) -> Buffer:
    """Resident, with `num_regions` aligned 2 MB inside; `address` is the first of them."""
    buffer = Buffer((num_regions + 1) * HUGE_BYTES)
    buffer.start += -buffer.address % HUGE_BYTES
    buffer.address += -buffer.address % HUGE_BYTES
    buffer.num_bytes = num_regions * HUGE_BYTES
    buffer.touch()
    return buffer


def collapse(pair: Pair, node: int, buffer: Buffer) -> int:
    count = ffi.new("uint64_t *")
    memory = pair.memories[node]
    code = lib.pw_memory_collapse(memory, buffer.first_page, buffer.num_pages, count)
    check(code, "collapse")
    lib.pw_ni_invalidate(pair.nis[node], PDID, buffer.first_page, buffer.num_pages)
    return int(count[0])


@pytest.mark.parametrize("ends", ENDS)
def test_model_collapsed_pages_fault_once_for_all_512(ends: str) -> None:
    pair = Pair(memory_backend=MODEL, timeout_ns=100_000)
    source, destination = huge_buffer(1), huge_buffer(1)
    source.fill(pattern(HUGE_BYTES))
    at_source, at_destination = ends != "destination", ends != "source"
    if at_source:
        assert collapse(pair, 0, source) == 1
    if at_destination:
        assert collapse(pair, 1, destination) == 1
    pair.write(source, destination)
    completions(pair.run())
    assert destination.read() == source.read()
    for node, collapsed in ((0, at_source), (1, at_destination)):
        counters = pair.counters(node)
        assert counters.pages_paged_in == collapsed  # by page: the other 511 were not asked for
        assert counters.pages_copied == counters.major_faults == 0
        assert (sum(faults(pair, node)[:2]) > 0) == collapsed
        memory = ffi.new("pw_memory_counters *")
        lib.pw_memory_read_counters(pair.memories[node], memory)
        assert memory.collapsed_regions == collapsed
    before = faults(pair, 0), faults(pair, 1)
    pair.write(source, destination, at_ns=10**9)
    completions(pair.run())
    assert (faults(pair, 0), faults(pair, 1)) == before
    pair.assert_quiet()


def test_model_huge_page_in_costs_one_page_and_is_there_for_all_of_them_at_the_same_time() -> None:
    absent_ns, _ = one_page(memory_backend=MODEL)
    pair = Pair(memory_backend=MODEL, policy=POLICY_ALL)
    source, destination = huge_buffer(1), huge_buffer(1)
    assert collapse(pair, 1, destination) == 1
    pair.trace()
    pair.write(source, destination, num_bytes=PAGE)
    assert completions(pair.run())[ARRIVED] == absent_ns
    pair.write(source, destination, at_ns=10**8)
    completions(pair.run())
    assert pair.counters(1).pages_paged_in == 1

    # handlers would interrupt the tasklet
    pair = Pair(memory_backend=MODEL, policy=POLICY_ALL, costs={"handler_ns": 0})
    assert collapse(pair, 1, destination) == 1
    pair.trace()
    pair.write(source, destination)
    completions(pair.run())
    [useful] = [row for row in pair.log("page_in_done") if row[4]]
    assert useful[4] == HUGE_PAGES
    c = pair.costs
    entry = pair.log("tasklet_entry")[0][0]
    fixed = 2 * c.core_register_read_ns + c.tasklet_other_ns + c.page_in_fixed_ns
    assert useful[0] == entry + fixed + c.page_in_page_ns
    assert pair.counters(1).pages_along == HUGE_PAGES - 1
    pair.assert_quiet()


def test_model_collapse_in_the_middle_of_a_transfer_is_seen_by_its_next_block() -> None:
    pair = Pair(memory_backend=MODEL, lookahead_blocks=0)
    source, destination = huge_buffer(1), huge_buffer(1)
    source.fill(pattern(HUGE_BYTES, 5))
    pair.write(source, destination)
    pair.run(200_000)
    assert 0 < pair.counters(0).acks < 128
    assert faults(pair, 1) == (0, 0, 0, 0)
    assert collapse(pair, 1, destination) == 1
    completions(pair.run())
    assert destination.read() == source.read()
    assert faults(pair, 1)[1] > 0 and pair.counters(1).pages_paged_in == 1
    pair.assert_quiet()


@pytest.mark.parametrize("seed", [1, 2])
def test_model_collapses_by_chance_at_the_start_of_transfers(seed: int) -> None:
    def run() -> tuple[int, list[Event]]:
        pair = Pair(memory_backend=MODEL, model_collapse_millionths=300_000, model_seed=seed)
        pair.run()
        for i in range(20):
            post = pair.read if i % 2 else pair.write
            post(source, destination, at_ns=i * 10**8)
            completions(pair.run())
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
    pair.write(source, destination)
    completions(pair.run())
    assert destination.read() == source.read()
    assert pair.counters(1).pages_paged_in == 2
    lost = destination.first_page + 700
    check(lib.pw_memory_drop(pair.memories[1], lost, 1), "drop")
    pair.write(source, destination, at_ns=10**9)
    completions(pair.run())
    assert pair.counters(1).pages_paged_in == 3
    pair.assert_quiet()


def host_huge_pages(pair: Pair, node: int, buffer: Buffer) -> bool:
    """Whether the buffer's first 2 MB are one huge page."""
    first, count = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    lib.pw_memory_extent(pair.memories[node], buffer.first_page, first, count)
    return count[0] == HUGE_PAGES


def test_host_collapse_leaves_data_and_a_fault_on_a_huge_page_brings_in_2_mb() -> None:
    pair = Pair(policy=POLICY_PAGE)
    source, destination = huge_buffer(1), huge_buffer(1)
    source.fill(pattern(HUGE_BYTES))
    destination.map.madvise(MADV_HUGEPAGE)
    if LIBC.madvise(destination.address, HUGE_BYTES, MADV_COLLAPSE) != 0:
        pytest.skip(f"MADV_COLLAPSE (Linux 6.1): {os.strerror(ctypes.get_errno())}")
    if not host_huge_pages(pair, 1, destination):
        pytest.skip("PAGEMAP_SCAN (Linux 6.7) does not tell of huge pages")
    assert collapse(pair, 1, destination) == 1
    pair.write(source, destination)
    completions(pair.run())
    assert destination.read() == source.read()
    assert faults(pair, 1) == (0, 0, 0, 0)  # the kernel maps it again before it returns

    LIBC.madvise(destination.address, HUGE_BYTES, mmap.MADV_DONTNEED)
    pair.trace()
    pair.write(source, destination, at_ns=10**9)
    completions(pair.run())
    assert destination.read() == source.read()
    if not host_huge_pages(pair, 1, destination):
        pytest.skip("the kernel has no huge page for a first touch here")
    assert pair.counters(1).pages_paged_in == 1
    # an access that is earlier in virtual time than the page-in's end faults, although the page is there
    first_done = pair.log("page_in_done")[0][0]
    assert pair.log("fault_destination")[-1][0] < first_done
    pair.assert_quiet()


# -- permission


@pytest.mark.parametrize("resident_before", [True, False])
@pytest.mark.parametrize("backend", [HOST, MODEL])
@pytest.mark.parametrize("end", ["source", "destination"])
def test_mapping_that_forbids_the_access_ends_in_an_error_and_nothing_is_written(
    end: str, backend: int, resident_before: bool
) -> None:
    if backend == HOST and not CHECKS & lib.PW_CHECKS_PERMISSION and resident_before:
        pytest.skip("PROCMAP_QUERY: Linux 6.11 or newer")
    pair = Pair(memory_backend=backend)
    source, destination = resident(2 * BLOCK)
    destination.fill(b"\x55" * 2 * BLOCK)
    locked, node = (source, 0) if end == "source" else (destination, 1)
    allowed = 0 if end == "source" else mmap.PROT_READ
    if not resident_before:
        locked.drop()
    before = destination.read() if resident_before or end == "source" else bytes(2 * BLOCK)
    if backend == HOST:
        assert LIBC.mprotect(locked.address, 2 * BLOCK, allowed) == 0
    else:
        memory, pages = pair.memories[node], (locked.first_page, locked.num_pages)
        if not resident_before:
            check(lib.pw_memory_set(memory, *pages, ABSENT), "set")
        check(lib.pw_memory_protect(memory, *pages, allowed), "protect")
    pair.write(source, destination)
    found = errors(pair.run())
    if backend == HOST:
        assert LIBC.mprotect(locked.address, 2 * BLOCK, READ_WRITE) == 0
    assert found[DONE] == lib.PW_ERR_PROTECTION
    if end == "destination":
        assert found[ARRIVED] == lib.PW_ERR_PROTECTION
        assert pair.counters(0).nacks[PROTECTION] > 0
    assert destination.read() == before
    assert pair.counters(node).page_ins_failed > 0
    permission = faults(pair, node)[2 if end == "source" else 3]
    assert (permission > 0) == resident_before
    assert (Fsr.PF in bank(pair, node).fsr) == resident_before
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
    found = errors(pair.run())
    assert LIBC.mprotect(locked.address, 5 * BLOCK, READ_WRITE) == 0
    assert set(found.values()) == {lib.PW_ERR_PROTECTION}
    assert_both_live_on(pair)


# -- unmapped


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
    found = errors(pair.run())
    for buffer in gone if backend == HOST else []:
        map_at(buffer.address, buffer.num_bytes)
    assert set(found.values()) == {lib.PW_ERR_ADDRESS}
    assert (pair.counters(0).nacks[DECODE] > 0) == (ends == "destination")
    assert_both_live_on(pair)


@needs_procmap
@pytest.mark.parametrize("end", ["source", "destination"])
def test_model_believes_no_address_that_the_host_does_not_map(end: str) -> None:
    pair = Pair(memory_backend=MODEL)
    source, destination = resident(BLOCK)
    gone = source if end == "source" else destination
    unmap(gone.address, gone.num_bytes)
    pair.write(source, destination)
    found = errors(pair.run())
    map_at(gone.address, gone.num_bytes)
    assert set(found.values()) == {lib.PW_ERR_ADDRESS}
    assert_both_live_on(pair)


@pytest.mark.parametrize("end", ["source", "destination"])
def test_page_unmapped_between_the_fault_and_the_tasklet_is_an_error(end: str) -> None:
    """The fault is for an absent page; when the tasklet comes to it the program has unmapped it."""
    pair = Pair(memory_backend=MODEL)
    pair.trace()
    source, destination = resident(3 * BLOCK)
    buffer, node = (source, 0) if end == "source" else (destination, 1)
    page = buffer.first_page + 5
    check(lib.pw_memory_set(pair.memories[node], page, 1, ABSENT), "set")
    check(lib.pw_memory_set_at_page_in(pair.memories[node], page, 1, UNMAPPED), "set")
    pair.write(source, destination)
    found = errors(pair.run())
    assert set(found.values()) == {lib.PW_ERR_ADDRESS}
    kind = f"fault_{end}"
    assert pair.log(kind)[0][3] == page
    assert pair.time_of("tasklet_entry") > pair.time_of(kind)
    assert pair.counters(node).page_ins_failed == 1
    assert (pair.counters(0).nacks[DECODE] > 0) == (end == "destination")
    assert_both_live_on(pair)


# -- the OS changes a mapping


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("change", ["munmap and mmap", "dontneed"])
def test_buffer_that_was_freed_and_allocated_again_at_the_same_address_faults_again(
    change: str, ends: str
) -> None:
    pair = Pair(policy=POLICY_ALL)
    source, destination = resident(2 * BLOCK)
    pair.write(source, destination)
    completions(pair.run())
    assert faults(pair, 0) == faults(pair, 1) == (0, 0, 0, 0)
    for turn in (1, 2):
        for buffer in ([source] * (ends != "destination")) + ([destination] * (ends != "source")):
            if change == "dontneed":
                LIBC.madvise(buffer.address, buffer.num_bytes, mmap.MADV_DONTNEED)
            else:
                unmap(buffer.address, buffer.num_bytes)
                map_at(buffer.address, buffer.num_bytes)
        pair.write(source, destination, at_ns=turn * 10**8)
        completions(pair.run())
        assert destination.read() == source.read()
        for node, changed in ((0, ends != "destination"), (1, ends != "source")):
            counters = pair.counters(node)
            assert counters.pages_paged_in == turn * 8 * changed
            # nobody told: each cached translation was found stale and shot down by its address
            assert counters.stale_translations == counters.shootdowns_address == turn * 8 * changed
            assert counters.translations_dropped == turn * 16 * changed
    pair.assert_quiet()


@pytest.mark.parametrize("end", ["source", "destination"])
def test_buffer_moved_by_mremap_keeps_its_pages_and_its_old_address_is_bad(end: str) -> None:
    pair = Pair()
    source, destination = resident(2 * BLOCK)
    expected = source.read()
    buffer = source if end == "source" else destination
    pair.write(source, destination)
    completions(pair.run())
    hole = Buffer(2 * BLOCK)
    maymove_fixed = 3
    old = buffer.address
    moved = LIBC.mremap(old, 2 * BLOCK, 2 * BLOCK, maymove_fixed, hole.address)
    assert moved == hole.address
    hole.num_bytes = 2 * BLOCK
    pair.write(*((hole, destination) if end == "source" else (source, hole)), at_ns=10**8)
    completions(pair.run())
    assert (destination if end == "source" else hole).read() == expected
    assert faults(pair, 0) == faults(pair, 1) == (0, 0, 0, 0)
    pair.write(source, destination, at_ns=2 * 10**8)
    found = errors(pair.run())
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
    for _ in range(4):
        pair.deliver()
        for ni in pair.nis:
            lib.pw_ni_run(ni, 300_000, pair._out, 16)
    assert pair.counters(0).blocks > 0 and not pair.events
    if change == "munmap":
        gone.unmap()
    else:
        gone.protect(0)
    found = errors(pair.run())
    for buffer in (source, destination):
        buffer.unmap()
    wanted = lib.PW_ERR_ADDRESS if change == "munmap" else lib.PW_ERR_PROTECTION
    assert set(found.values()) == {wanted}
    assert_both_live_on(pair)


# -- shootdown


@pytest.mark.parametrize("how", ["address", "context", "all"])
def test_shootdown_drops_translations_and_is_counted(how: str) -> None:
    pair = Pair()
    lib.pw_ni_open_domain(pair.nis[1], PDID + 1)
    lib.pw_ni_open_domain(pair.nis[0], PDID + 1)
    source, destination = resident(2 * BLOCK)
    for pdid in (PDID, PDID + 1):
        pair.write(source, destination, pdid=pdid)
        completions(pair.run())
    ni, first = pair.nis[1], destination.first_page
    if how == "address":
        lib.pw_ni_invalidate(ni, PDID, first + 1, 3)
    elif how == "context":
        lib.pw_ni_invalidate_context(ni, PDID)
    else:
        lib.pw_ni_invalidate_all(ni)
    pages = {"address": 3, "context": 8, "all": 16}[how]
    counters = pair.counters(1)
    found = counters.shootdowns_address, counters.shootdowns_context, counters.shootdowns_all
    assert found == tuple(int(how == each) for each in ("address", "context", "all"))
    assert counters.translations_dropped == 2 * pages
    walks = counters.walks
    for pdid in (PDID, PDID + 1):
        pair.write(source, destination, pdid=pdid, at_ns=10**8)
        completions(pair.run())
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
    for _ in range(4):
        pair.deliver()
        for ni in pair.nis:
            lib.pw_ni_run(ni, 300_000, pair._out, 16)
    assert 0 < pair.counters(0).blocks < 300
    first, count = buffer.first_page, buffer.num_pages
    last_pages = first + count - 40, 40
    check(lib.pw_memory_set(pair.memories[node], *last_pages, ABSENT), "set")
    ni = pair.nis[node]
    if how == "address":
        lib.pw_ni_invalidate(ni, PDID, *last_pages)
    elif how == "context":
        lib.pw_ni_invalidate_context(ni, PDID)
    elif how == "all":
        lib.pw_ni_invalidate_all(ni)
    completions(pair.run())
    assert destination.read() == source.read()
    if how != "nothing":
        assert pair.counters(node).pages_paged_in == 40
    pair.assert_quiet()
