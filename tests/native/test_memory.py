"""Page residency: the host's pages of real mappings, and the model against a short reference."""

import ctypes
import mmap
import subprocess
import sys
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mappings import LIBC, FarPages, map_at
from memories import backend

from pagewire.native import EngineError, check, ffi, lib

ABSENT, PRESENT, UNMAPPED = lib.PW_PAGE_ABSENT, lib.PW_PAGE_PRESENT, lib.PW_PAGE_UNMAPPED
HUGE_PAGES = lib.PW_HUGE_PAGES
WRITE_PROTECTED, FORBIDDEN = lib.PW_PAGE_WRITE_PROTECTED, lib.PW_PAGE_FORBIDDEN


class Memory:
    def __init__(
        self,
        kind: int,
        *,
        seed: int = 0,
        faults: int = 0,
        limit: int = 0,
        huge: int = 0,
        collapse: int = 0,
    ) -> None:
        self.memory = backend(
            kind, seed=seed, fault_millionths=faults, frame_limit_pages=limit, huge_pages=huge,
            collapse_millionths=collapse, detached=1,
        )  # fmt: skip

    def probe(self, first: int, count: int) -> list[int]:
        state = ffi.new("uint8_t[]", b"\xee" * (count + 1))
        check(lib.pw_memory_probe(self.memory, first, count, state), "probe")
        assert state[count] == 0xEE
        return list(state[0:count])

    def populate(self, first: int, count: int, for_write: bool = True) -> tuple[int, int]:
        num_absent = ffi.new("uint64_t *")
        code = lib.pw_memory_populate(self.memory, first, count, for_write, num_absent)
        return code, num_absent[0]

    def walk(self, first: int, count: int, for_write: bool) -> list[int]:
        state = ffi.new("uint8_t[]", b"\xee" * (count + 1))
        check(lib.pw_memory_walk(self.memory, first, count, for_write, state), "walk")
        assert state[count] == 0xEE
        return list(state[0:count])

    def page_in(self, first: int, count: int, for_write: bool = True) -> tuple[int, list[int]]:
        effects = ffi.new("uint8_t[]", b"\xee" * (count + 1))
        code = lib.pw_memory_page_in(self.memory, first, count, for_write, effects)
        assert effects[count] == 0xEE
        return code, list(effects[0:count])

    def fork(self, first: int, count: int) -> int:
        return lib.pw_memory_fork(self.memory, first, count)

    def collapse(self, first: int, count: int) -> int:
        return int(lib.pw_memory_begin_transfer(self.memory, first, count))

    def extent(self, page: int) -> tuple[int, int]:
        first, count = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        lib.pw_memory_extent(self.memory, page, first, count)
        return int(first[0]), int(count[0])

    def pin(self, first: int, count: int) -> tuple[int, int]:
        num_absent = ffi.new("uint64_t *")
        return lib.pw_memory_pin(self.memory, first, count, num_absent), num_absent[0]

    def unpin(self, first: int, count: int) -> int:
        return lib.pw_memory_unpin(self.memory, first, count)

    def set(self, first: int, count: int, state: int) -> int:
        return lib.pw_memory_set(self.memory, first, count, state)

    def counters(self) -> dict[str, int]:
        out = ffi.new("pw_memory_counters *")
        lib.pw_memory_read_counters(self.memory, out)
        return {name: getattr(out, name) for name, _ in ffi.typeof("pw_memory_counters").fields}


class Mapping:
    """Fresh anonymous pages without huge pages; `first` is the first page's number."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self.pages = FarPages(num_pages * 4096)
        self.address = self.pages.address
        self.first = self.address >> 12

    def write(self, page: int) -> None:
        ctypes.memset(self.address + page * 4096, 7, 1)

    def protect(self, protection: int) -> None:
        assert LIBC.mprotect(self.address, self.num_pages * 4096, protection) == 0

    def protect_part(self, page: int, count: int, protection: int) -> None:
        assert LIBC.mprotect(self.address + page * 4096, count * 4096, protection) == 0

    def unmap(self, page: int, count: int) -> None:
        assert LIBC.munmap(self.address + page * 4096, count * 4096) == 0


@pytest.fixture
def host() -> Memory:
    return Memory(lib.PW_MEMORY_HOST)


@pytest.fixture
def make_mapping():
    mappings = []

    def make(num_pages: int) -> Mapping:
        mappings.append(Mapping(num_pages))
        return mappings[-1]

    yield make
    for mapping in mappings:
        mapping.pages.close()


def test_host_fresh_pages_are_absent_and_written_ones_present(host, make_mapping) -> None:
    mapping = make_mapping(16)
    assert host.probe(mapping.first, 16) == [ABSENT] * 16
    mapping.write(3)
    mapping.write(15)
    assert host.probe(mapping.first, 16) == [int(i in (3, 15)) for i in range(16)]


@pytest.mark.parametrize("for_write", [True, False])
def test_host_populate_counts_pages_that_are_absent_each_time(
    host, make_mapping, for_write
) -> None:
    mapping = make_mapping(8)
    for _ in range(3):
        mapping.write(2)
        assert host.populate(mapping.first, 8, for_write) == (0, 7)
        assert host.probe(mapping.first, 8) == [PRESENT] * 8
        assert host.populate(mapping.first, 8, for_write) == (0, 0)
        LIBC.madvise(mapping.address, 8 * 4096, mmap.MADV_DONTNEED)
        lib.pw_memory_changed(host.memory)
        assert host.probe(mapping.first, 8) == [ABSENT] * 8


def test_host_read_only_mapping_refuses_writes(host, make_mapping) -> None:
    mapping = make_mapping(4)
    mapping.protect(mmap.PROT_READ)
    assert host.populate(mapping.first, 4, True)[0] == lib.PW_ERR_PROTECTION
    assert host.populate(mapping.first, 4, False)[0] == 0


def test_host_mapping_without_access_refuses_reads(host, make_mapping) -> None:
    mapping = make_mapping(4)
    mapping.protect(0)
    assert host.populate(mapping.first, 4, False)[0] == lib.PW_ERR_PROTECTION
    assert host.pin(mapping.first, 4)[0] == lib.PW_ERR_PROTECTION


@pytest.mark.parametrize(
    "holes", [[(5, 1)], [(0, 1)], [(15, 1)], [(0, 16)], [(2, 3), (6, 1), (9, 5)]]
)
def test_host_holes_are_unmapped(host, make_mapping, holes) -> None:
    mapping = make_mapping(16)
    expected = [ABSENT] * 16
    for i in range(0, 16, 2):
        mapping.write(i)
        expected[i] = PRESENT
    for first, count in holes:
        mapping.unmap(first, count)
        expected[first : first + count] = [UNMAPPED] * count
    assert host.probe(mapping.first, 16) == expected
    before = expected.index(UNMAPPED)
    assert host.pin(mapping.first, 16) == (lib.PW_ERR_ADDRESS, 0)
    assert host.probe(mapping.first, 16) == expected
    num_absent = expected[:before].count(ABSENT)
    assert host.populate(mapping.first, 16) == (lib.PW_ERR_ADDRESS, num_absent)
    expected[:before] = [PRESENT] * before
    assert host.probe(mapping.first, 16) == expected


def test_host_page_in_spans_the_counting_buffer(host, make_mapping) -> None:
    mapping = make_mapping(5000)
    mapping.write(4500)
    mapping.unmap(4990, 10)
    assert host.populate(mapping.first, 5000) == (lib.PW_ERR_ADDRESS, 4989)
    assert host.probe(mapping.first, 5000) == [PRESENT] * 4990 + [UNMAPPED] * 10


def test_host_addresses_no_process_has(host) -> None:
    for page in (0, 2**48, 2**51, 2**52 - 3):
        assert host.probe(page, 3) == [UNMAPPED] * 3
        assert host.populate(page, 3) == (lib.PW_ERR_ADDRESS, 0)
    with pytest.raises(EngineError, match="PW_ERR_INVALID"):
        host.probe(2**52 - 2, 3)
    assert host.set(0, 1, PRESENT) == lib.PW_ERR_INVALID


def test_host_pin_pages_in_and_unpin(host, make_mapping) -> None:
    mapping = make_mapping(4)
    mapping.write(0)
    assert host.pin(mapping.first, 4) == (0, 3)
    assert host.probe(mapping.first, 4) == [PRESENT] * 4
    assert lib.pw_memory_is_pinned(host.memory, mapping.first, 4) == 1
    assert host.unpin(mapping.first, 4) == 0
    assert lib.pw_memory_is_pinned(host.memory, mapping.first, 4) == 0
    assert host.counters()["pinned_pages"] == host.counters()["unpinned_pages"] == 4


OVER_THE_LIMIT = """
import mmap, os, resource
from pagewire.native import check, ffi, lib
resource.setrlimit(resource.RLIMIT_MEMLOCK, ({limit}, {limit}))
if os.getuid() == 0:
    os.setuid(65534)  # without CAP_IPC_LOCK
out = ffi.new("pw_memory **")
check(lib.pw_memory_create(lib.PW_MEMORY_HOST, ffi.NULL, out), "create")
pages = mmap.mmap(-1, 64 * 4096)
first = int(ffi.cast("uintptr_t", ffi.from_buffer(pages))) >> 12
print(lib.pw_memory_pin(out[0], first, 64, ffi.NULL))
"""


@pytest.mark.parametrize("limit", [0, 4096])
def test_host_pin_over_the_limit(limit) -> None:
    script = OVER_THE_LIMIT.format(limit=limit)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(run.stdout) == lib.PW_ERR_FULL


MASK = 2**64 - 1


def mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


class Reference:
    """The model said shortly: states of changed pages, frames least recently used first."""

    def __init__(self, *, seed: int, faults: int, limit: int) -> None:
        self.seed, self.impairments, self.limit = seed, faults, limit
        self.states: dict[int, int] = {}
        self.frames: OrderedDict[int, None] = OrderedDict()  # not pinned
        self.pinned: set[int] = set()
        self.swapped: set[int] = set()
        self.protected: set[int] = set()  # a write faults: the zero page, or shared with a child
        self.major_faults = 0

    def state(self, page: int) -> int:
        if page in self.states:
            return self.states[page]
        draw = (mix(self.seed ^ mix(page)) >> 32) * 1_000_000 >> 32
        return ABSENT if draw < self.impairments else PRESENT

    def probe(self, first: int, count: int) -> list[int]:
        return [self.state(page) for page in range(first, first + count)]

    def touch(self, page: int) -> bool:
        if page not in self.frames and page not in self.pinned:
            if self.limit and len(self.frames) + len(self.pinned) >= self.limit:
                if not self.frames:
                    return False
                victim, _ = self.frames.popitem(last=False)
                self.states[victim] = ABSENT
                self.swapped.add(victim)
            self.frames[page] = None
        elif page in self.frames:
            self.frames.move_to_end(page)
        self.states[page] = PRESENT
        return True

    def walk(self, first: int, count: int, for_write: bool) -> list[int]:
        states = self.probe(first, count)
        for i, page in enumerate(range(first, first + count)):
            if states[i] == PRESENT and for_write and page in self.protected:
                states[i] = WRITE_PROTECTED
        return states

    def bring(self, page: int, for_write: bool) -> int | None:
        """The effect; None when there is no frame."""
        absent = self.state(page) == ABSENT
        if not self.touch(page):
            return None
        effect = lib.PW_EFFECT_NONE
        if absent:
            effect = lib.PW_EFFECT_SWAPPED if page in self.swapped else lib.PW_EFFECT_NEW
        elif for_write and page in self.protected:
            effect = lib.PW_EFFECT_COPIED
        if for_write:
            self.protected.discard(page)
        elif effect == lib.PW_EFFECT_NEW:
            self.protected.add(page)
        self.major_faults += effect == lib.PW_EFFECT_SWAPPED
        self.swapped.discard(page)
        return effect

    def populate(self, first: int, count: int, for_write: bool = True) -> tuple[int, int]:
        num_absent = 0
        for page in range(first, first + count):
            if self.state(page) == UNMAPPED:
                return lib.PW_ERR_ADDRESS, num_absent
            effect = self.bring(page, for_write)
            if effect is None:
                return lib.PW_ERR_FULL, num_absent
            num_absent += effect != lib.PW_EFFECT_NONE
        return 0, num_absent

    def fork(self, first: int, count: int) -> int:
        pages = range(first, first + count)
        shared = [page for page in pages if self.state(page) == PRESENT or page in self.swapped]
        self.protected.update(shared)
        return 0

    def pin(self, first: int, count: int) -> tuple[int, int]:
        pages = range(first, first + count)
        if UNMAPPED in map(self.state, pages):
            return lib.PW_ERR_ADDRESS, 0
        if self.limit and len(self.pinned | set(pages)) > self.limit:
            return lib.PW_ERR_FULL, 0
        num_absent = 0
        for page in pages:
            effect = self.bring(page, True)
            num_absent += effect != lib.PW_EFFECT_NONE
            self.frames.pop(page, None)
            self.pinned.add(page)
        return 0, num_absent

    def unpin(self, first: int, count: int) -> int:
        pages = range(first, first + count)
        if UNMAPPED in map(self.state, pages):
            return lib.PW_ERR_ADDRESS
        for page in pages:
            if page in self.pinned:
                self.pinned.remove(page)
                self.frames[page] = None
        return 0

    def set(self, first: int, count: int, state: int) -> int:
        for page in range(first, first + count):
            self.frames.pop(page, None)
            self.pinned.discard(page)
            self.swapped.discard(page)
            self.protected.discard(page)
            if state == WRITE_PROTECTED:
                self.protected.add(page)
                state = PRESENT
            self.states[page] = state
            if state == PRESENT and not self.touch(page):
                self.states[page] = ABSENT
                return lib.PW_ERR_FULL
            state = WRITE_PROTECTED if page in self.protected else state
        return 0


FIRST, COUNT = st.integers(0, 30), st.integers(0, 8)
STEP = st.one_of(
    st.tuples(st.sampled_from(["probe", "populate", "populate", "pin", "unpin"]), FIRST, COUNT),
    st.tuples(
        st.just("set"), FIRST, COUNT, st.sampled_from([ABSENT, PRESENT, UNMAPPED, WRITE_PROTECTED])
    ),
    st.tuples(st.just("populate"), FIRST, COUNT, st.booleans()),
    st.tuples(st.just("fork"), FIRST, COUNT),
)


@settings(deadline=None)
@given(
    seed=st.integers(0, MASK),
    faults=st.sampled_from([0, 300_000, 1_000_000]),
    limit=st.sampled_from([0, 1, 2, 7, 20]),
    steps=st.lists(STEP, max_size=60),
)
def test_model_same_as_reference(seed, faults, limit, steps) -> None:
    memory = Memory(lib.PW_MEMORY_MODEL, seed=seed, faults=faults, limit=limit)
    reference = Reference(seed=seed, faults=faults, limit=limit)
    for step in steps:
        assert getattr(memory, step[0])(*step[1:]) == getattr(reference, step[0])(*step[1:])
        assert memory.probe(0, 40) == reference.probe(0, 40)
        for for_write in (False, True):
            assert memory.walk(0, 40, for_write) == reference.walk(0, 40, for_write)
    assert memory.counters()["major_faults"] == reference.major_faults


NONE, NEW, COPIED, SWAPPED, ALONG, HOLE = (
    lib.PW_EFFECT_NONE,
    lib.PW_EFFECT_NEW,
    lib.PW_EFFECT_COPIED,
    lib.PW_EFFECT_SWAPPED,
    lib.PW_EFFECT_ALONG,
    lib.PW_EFFECT_UNMAPPED,
)


def test_model_page_in_tells_what_it_did_to_each_page() -> None:
    memory = Memory(lib.PW_MEMORY_MODEL, limit=4)
    memory.set(0, 4, PRESENT)
    memory.set(4, 1, PRESENT)  # swaps page 0 out
    memory.set(1, 1, WRITE_PROTECTED)
    memory.set(2, 1, ABSENT)
    memory.set(5, 1, UNMAPPED)
    assert memory.page_in(1, 1) == (0, [COPIED])
    assert memory.page_in(0, 3) == (0, [SWAPPED, NONE, NEW])
    assert memory.page_in(4, 3) == (lib.PW_ERR_ADDRESS, [NONE, HOLE, HOLE])
    assert memory.walk(3, 3, True) == [ABSENT, PRESENT, UNMAPPED]


@pytest.mark.parametrize("limit", [0, 600, 512, 100, 2])
def test_model_huge_page_comes_in_whole_as_far_as_there_are_frames(limit: int) -> None:
    memory = Memory(lib.PW_MEMORY_MODEL, faults=1_000_000, limit=limit, huge=1)
    code, effects = memory.page_in(512 + 7, 2)
    assert code == 0 and effects[0] == NEW
    states = memory.probe(512, 512)
    assert states[7] == PRESENT
    whole = limit == 0 or limit >= 512
    assert memory.extent(600) == ((512, 512) if whole else (600, 1))
    if whole:
        assert states == [PRESENT] * 512 and effects[1] == ALONG
        assert memory.set(600, 1, ABSENT) == 0
        assert memory.extent(512 + 7) == (512 + 7, 1)
        assert memory.page_in(600, 2) == (0, [NEW, NONE])
    assert memory.probe(0, 512) == [ABSENT] * 512


def test_model_collapse_wants_whole_resident_writable_unpinned_regions() -> None:
    memory = Memory(lib.PW_MEMORY_MODEL, collapse=1_000_000)
    assert memory.collapse(100, 300) == 1  # the whole region around
    assert memory.collapse(0, 512) == 0
    assert memory.probe(0, 512) == [ABSENT] * 512
    assert memory.page_in(3, 2, for_write=False) == (0, [NEW, ALONG])
    assert memory.walk(0, 512, True) == [PRESENT] * 512  # data, not the zero page
    for region, spoil in enumerate(
        (
            lambda first: memory.set(first + 5, 1, ABSENT),
            lambda first: memory.pin(first + 6, 1)[0],
            lambda first: memory.fork(first, 512),
        ),
        start=1,
    ):
        assert spoil(512 * region) == 0
        assert memory.collapse(512 * region, 512) == 0
    assert memory.counters()["collapsed_regions"] == 1


def test_model_fork_of_everything_reaches_pages_that_were_never_seen() -> None:
    memory = Memory(lib.PW_MEMORY_MODEL)
    memory.populate(5, 1)
    assert memory.fork(0, MASK) == 0
    assert memory.walk(4, 3, True) == [WRITE_PROTECTED] * 3
    assert memory.walk(4, 3, False) == [PRESENT] * 3
    assert memory.populate(4, 3) == (0, 3)
    assert memory.walk(4, 3, True) == [PRESENT] * 3


def test_only_the_model_takes_its_states_from_outside(host) -> None:
    for code in (
        host.set(1, 1, WRITE_PROTECTED),
        Memory(lib.PW_MEMORY_MODEL).set(1, 1, FORBIDDEN),
    ):
        assert code == lib.PW_ERR_INVALID
    assert host.fork(0, MASK) == 0  # the kernel has done it already


CHECKS = lib.pw_memory_checks_access(Memory(lib.PW_MEMORY_HOST).memory)
needs_pagemap = pytest.mark.skipif(
    not CHECKS & lib.PW_CHECKS_WRITE_PROTECTION,
    reason="PROCMAP_QUERY (Linux 6.11) and a readable /proc/self/pagemap",
)


@needs_pagemap
def test_host_write_walk_tells_what_a_write_would_find(host, make_mapping) -> None:
    mapping = make_mapping(8)
    mapping.write(0)
    ctypes.string_at(mapping.address + 1 * 4096, 1)  # the zero page
    mapping.write(2)
    mapping.unmap(4, 1)
    expected = [PRESENT, WRITE_PROTECTED, PRESENT, ABSENT, UNMAPPED, ABSENT, ABSENT, ABSENT]
    assert host.walk(mapping.first, 8, True) == expected
    expected[1] = PRESENT
    assert host.walk(mapping.first, 8, False) == host.probe(mapping.first, 8) == expected
    assert host.page_in(mapping.first, 4) == (0, [NONE, COPIED, NONE, NEW])
    assert host.walk(mapping.first, 4, True) == [PRESENT] * 4
    mapping.protect_part(0, 4, mmap.PROT_READ)
    assert host.walk(mapping.first, 6, True) == [FORBIDDEN] * 4 + [UNMAPPED, ABSENT]
    assert host.walk(mapping.first, 4, False) == [PRESENT] * 4


@needs_pagemap
def test_host_populate_and_pin_count_a_zero_page_that_is_written(host, make_mapping) -> None:
    for page_in in (host.populate, host.pin):
        mapping = make_mapping(4)
        assert host.populate(mapping.first, 4, False) == (0, 4)
        assert host.populate(mapping.first, 4, False) == (0, 0)
        assert page_in(mapping.first, 4) == (0, 4)
        assert page_in(mapping.first, 4) == (0, 0)


@needs_pagemap
@pytest.mark.parametrize("announce", ["enter", "changed", "populate", "pin"])
def test_host_mapping_is_asked_for_again_when_the_program_may_have_run(
    host, make_mapping, announce
) -> None:
    """Kept between two announcements; a call that comes from the program is one itself."""
    mapping = make_mapping(4)
    tells = {
        "enter": lambda: lib.pw_memory_enter(host.memory),
        "changed": lambda: lib.pw_memory_changed(host.memory),
        "populate": lambda: host.populate(mapping.first, 4),
        "pin": lambda: host.pin(mapping.first, 4),
    }
    lib.pw_memory_enter(host.memory)
    assert host.page_in(mapping.first, 4) == (0, [NEW] * 4)
    assert host.walk(mapping.first, 4, True) == [PRESENT] * 4
    mapping.protect(mmap.PROT_READ)
    tells[announce]()
    assert host.walk(mapping.first, 4, True) == [FORBIDDEN] * 4
    assert host.page_in(mapping.first, 4)[0] == lib.PW_ERR_PROTECTION
    mapping.protect(mmap.PROT_READ | mmap.PROT_WRITE)
    mapping.unmap(2, 1)
    tells[announce]()
    assert host.walk(mapping.first, 4, True) == [PRESENT, PRESENT, UNMAPPED, PRESENT]
    assert host.page_in(mapping.first, 4) == (lib.PW_ERR_ADDRESS, [NONE, NONE, HOLE, HOLE])


@needs_pagemap
def test_host_keeps_more_mappings_than_it_has_room_for_apart(host, make_mapping) -> None:
    mappings = [make_mapping(3) for _ in range(7)]
    for mapping in mappings:
        mapping.protect_part(1, 1, mmap.PROT_READ)
    lib.pw_memory_enter(host.memory)
    for _ in range(2):
        for mapping in mappings:
            assert host.page_in(mapping.first, 1)[0] == 0
            assert host.walk(mapping.first, 3, True) == [PRESENT, ABSENT, ABSENT]
            code = lib.pw_memory_mapping(
                host.memory, mapping.first + 1, 1, ffi.new("uint64_t *"), ffi.new("uint64_t *")
            )
            assert code == lib.PW_ERR_PROTECTION


def test_host_huge_page_is_found_where_the_program_has_given_small_ones_back(
    host, make_mapping
) -> None:
    """What is known of a region's pages holds until the program has run."""
    mapping = make_mapping(2 * HUGE_PAGES)
    region = -(-mapping.first // HUGE_PAGES) * HUGE_PAGES
    address, num_bytes = region * 4096, HUGE_PAGES * 4096
    lib.pw_memory_enter(host.memory)
    for page in (region, region + 1):
        assert host.page_in(page, 1) == (0, [NEW])
        assert host.extent(page) == (page, 1)
    for announce in (
        lambda: lib.pw_memory_enter(host.memory),
        lambda: lib.pw_memory_changed(host.memory),
    ):
        LIBC.madvise(address, num_bytes, mmap.MADV_DONTNEED)
        LIBC.madvise(address, num_bytes, mmap.MADV_NOHUGEPAGE)
        assert host.page_in(region, 1) == (0, [NEW])
        map_at(address, num_bytes)
        LIBC.madvise(address, num_bytes, 14)  # MADV_HUGEPAGE
        announce()
        assert host.page_in(region, 2)[0] == 0
        if host.extent(region)[1] != HUGE_PAGES:
            pytest.skip("the kernel has no huge page for a first touch here")
        assert host.extent(region + 7) == (region, HUGE_PAGES)


def test_model_grows_to_many_pages() -> None:
    memory = Memory(lib.PW_MEMORY_MODEL, faults=500_000)
    absent = memory.probe(7, 50_000).count(ABSENT)
    assert memory.populate(7, 50_000) == (0, absent)
    assert memory.populate(7, 50_000) == (0, 0)


def test_bad_options_are_refused() -> None:
    out = ffi.new("pw_memory **")
    assert lib.pw_memory_create(2, ffi.NULL, out) == lib.PW_ERR_INVALID
    assert lib.pw_memory_create(lib.PW_MEMORY_MODEL, ffi.NULL, out) == lib.PW_ERR_INVALID
    with pytest.raises(EngineError):
        Memory(lib.PW_MEMORY_MODEL, faults=1_000_001)
