"""The translation cache against a short reference: any geometry, any sequence of calls."""

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import EngineError, check, ffi, lib

GEOMETRIES = [
    (1, 1, 1),
    (1, 3, 1),
    (1, 16, 1),
    (1, 17, 1),
    (1, 128, 1),
    (4, 2, 1),
    (8, 4, 1),
    (4, 16, 2),
    (2, 20, 4),
    (1, 2, 128),
    (2, 3, 64),
    (1, 18, 128),
    (16, 1, 8),
]


class Reference:
    """A set is an OrderedDict, least recently used first: (pdid, line) -> [{page: frame},
    locks]."""

    def __init__(self, num_sets: int, num_ways: int, line_pages: int) -> None:
        self.num_ways, self.line_pages = num_ways, line_pages
        self.sets: list[OrderedDict] = [OrderedDict() for _ in range(num_sets)]
        self.counters = dict.fromkeys(
            [
                "lookups",
                "hits",
                "misses",
                "fills",
                "evictions",
                "fills_refused",
                "invalidated_address",
                "invalidated_pdid",
                "invalidated_all",
            ],
            0,
        )

    def place(self, pdid: int, page: int):
        line = page // self.line_pages
        return self.sets[line % len(self.sets)], (pdid, line)

    def lookup(self, pdid: int, page: int) -> int | None:
        lines, key = self.place(pdid, page)
        hit = key in lines and page in lines[key][0]
        self.counters["lookups"] += 1
        self.counters["hits" if hit else "misses"] += 1
        if not hit:
            return None
        lines.move_to_end(key)
        return lines[key][0][page]

    def fill(self, pdid: int, page: int, frame: int) -> int:
        lines, key = self.place(pdid, page)
        if key not in lines:
            if len(lines) == self.num_ways:
                victim = next((k for k, (_, locks) in lines.items() if not locks), None)
                if victim is None:
                    self.counters["fills_refused"] += 1
                    return lib.PW_ERR_FULL
                del lines[victim]
                self.counters["evictions"] += 1
            lines[key] = [{}, 0]
        lines.move_to_end(key)
        lines[key][0][page] = frame
        self.counters["fills"] += 1
        return 0

    def lock(self, pdid: int, page: int, bits: int) -> int:
        lines, key = self.place(pdid, page)
        if key not in lines or page not in lines[key][0]:
            return 0
        lines[key][1] |= bits
        return 1

    def unlock(self, pdid: int, page: int, bits: int) -> int:
        lines, key = self.place(pdid, page)
        if key not in lines:
            return 0
        lines[key][1] &= ~bits
        return 1

    def invalidate(self, counter: str, condition) -> int:
        dropped = 0
        for lines in self.sets:
            for key in list(lines):
                for page in [p for p in lines[key][0] if condition(key[0], p)]:
                    del lines[key][0][page]
                    dropped += 1
                if not lines[key][0]:
                    del lines[key]
        self.counters[counter] += dropped
        return dropped


class Cache:
    def __init__(self, num_sets: int, num_ways: int, line_pages: int) -> None:
        out = ffi.new("pw_tcache **")
        geometry = ffi.new("pw_tcache_geometry *", (num_sets, num_ways, line_pages))
        check(lib.pw_tcache_create(geometry, out), "create")
        self.cache = ffi.gc(out[0], lib.pw_tcache_destroy)
        self.frame = ffi.new("uint64_t *")

    def lookup(self, pdid: int, page: int) -> int | None:
        hit = lib.pw_tcache_lookup(self.cache, pdid, page, self.frame)
        return self.frame[0] if hit else None

    def fill(self, pdid: int, page: int, frame: int) -> int:
        return lib.pw_tcache_fill(self.cache, pdid, page, frame)

    def counters(self) -> dict[str, int]:
        out = ffi.new("pw_tcache_counters *")
        lib.pw_tcache_read_counters(self.cache, out)
        return {name: getattr(out, name) for name, _ in ffi.typeof("pw_tcache_counters").fields}


PDID = st.sampled_from([0, 1, 65535])
PAGE = st.one_of(st.integers(0, 24), st.integers(0, 400), st.integers(2**47 - 40, 2**47 - 1))
LOCK = st.integers(0, 3)
COUNT = st.one_of(st.integers(0, 5), st.integers(0, 300), st.just(2**64 - 1))
STEP = st.one_of(
    st.tuples(st.just("fill"), PDID, PAGE),
    st.tuples(st.just("fill"), PDID, PAGE),
    st.tuples(st.just("lookup"), PDID, PAGE),
    st.tuples(st.just("lookup"), PDID, PAGE),
    st.tuples(st.just("lock"), PDID, PAGE, LOCK),
    st.tuples(st.just("unlock"), PDID, PAGE, LOCK),
    st.tuples(st.just("range"), PDID, PAGE, COUNT),
    st.tuples(st.just("pdid"), PDID),
    st.tuples(st.just("all")),
)


def apply(cache: Cache, reference: Reference, step: tuple, frame: int) -> None:
    """One call on both, with the same answer."""
    kind, args = step[0], step[1:]
    if kind == "lookup":
        assert cache.lookup(*args) == reference.lookup(*args)
    elif kind == "fill":
        assert cache.fill(*args, frame) == reference.fill(*args, frame)
    elif kind in ("lock", "unlock"):
        function = getattr(lib, f"pw_tcache_{kind}")
        assert function(cache.cache, *args) == getattr(reference, kind)(*args)
    elif kind == "range":
        pdid, first, count = args
        expected = reference.invalidate(
            "invalidated_address", lambda d, p: d == pdid and first <= p < first + count
        )
        assert lib.pw_tcache_invalidate_range(cache.cache, pdid, first, count) == expected
    elif kind == "pdid":
        expected = reference.invalidate("invalidated_pdid", lambda d, _: d == args[0])
        assert lib.pw_tcache_invalidate_pdid(cache.cache, args[0]) == expected
    else:
        expected = reference.invalidate("invalidated_all", lambda *_: True)
        assert lib.pw_tcache_invalidate_all(cache.cache) == expected


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=120))
def test_same_as_reference(geometry, steps) -> None:
    cache, reference = Cache(*geometry), Reference(*geometry)
    for i, step in enumerate(steps):
        apply(cache, reference, step, i << 33 | i)
    assert cache.counters() == reference.counters


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_same_as_reference_over_long_random_run(geometry) -> None:
    cache, reference = Cache(*geometry), Reference(*geometry)
    num_pages = max(8, geometry[0] * geometry[1] * geometry[2] * 2)
    kinds = ["lookup"] * 40 + ["fill"] * 50 + ["lock", "unlock", "unlock", "unlock"] + ["range"] * 4
    value = 12345
    for i in range(6000):
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
        kind = kinds[(value >> 33) % len(kinds)]
        pdid, page = (value >> 40) % 2, (value >> 44) % num_pages
        if kind in ("lock", "unlock"):
            step = (kind, pdid, page, (value >> 20) % 4)
        elif kind == "range":
            step = (kind, pdid, page, (value >> 20) % 9)
        else:
            step = (kind, pdid, page)
        if i % 2500 == 2499:
            step = ("pdid", pdid)
        apply(cache, reference, step, value >> 3)
    assert cache.counters() == reference.counters


@pytest.mark.parametrize(
    "geometry",
    [
        (0, 4, 1),
        (3, 4, 1),
        (2**21, 1, 1),
        (1, 0, 1),
        (1, 1025, 1),
        (1, 4, 0),
        (1, 4, 3),
        (1, 4, 256),
        (2**20, 32, 1),
        (2**20, 16, 2),
    ],
)
def test_geometry_out_of_range_is_refused(geometry) -> None:
    with pytest.raises(EngineError) as error:
        Cache(*geometry)
    assert error.value.code == lib.PW_ERR_INVALID


def test_largest_geometries_are_accepted() -> None:
    Cache(2**20, 16, 1)
    Cache(2**14, 1024, 1)
    Cache(2**7, 1024, 128)


def test_page_of_more_than_47_bits_misses_and_is_refused() -> None:
    cache = Cache(1, 4, 1)
    page = 1 << 48 | 7  # its key would be that of page 7
    assert cache.fill(0, 7, 1) == 0
    assert cache.lookup(0, page) is None
    assert cache.fill(0, page, 2) == lib.PW_ERR_INVALID
    assert lib.pw_tcache_invalidate_range(cache.cache, 0, page, 1) == 0
    assert cache.lookup(0, 7) == 1


def test_set_with_all_ways_locked_refuses_until_unlocked() -> None:
    cache = Cache(2, 2, 1)
    for page in (0, 2):
        cache.fill(9, page, page)
        assert lib.pw_tcache_lock(cache.cache, 9, page, lib.PW_TCACHE_LOCK_SEND) == 1
    assert cache.fill(9, 4, 4) == lib.PW_ERR_FULL
    assert cache.fill(9, 5, 5) == 0
    lib.pw_tcache_lock(cache.cache, 9, 2, lib.PW_TCACHE_LOCK_RECEIVE)
    lib.pw_tcache_unlock(cache.cache, 9, 2, lib.PW_TCACHE_LOCK_SEND)
    assert cache.fill(9, 4, 4) == lib.PW_ERR_FULL
    lib.pw_tcache_unlock(cache.cache, 9, 2, lib.PW_TCACHE_LOCK_RECEIVE)
    assert cache.fill(9, 4, 4) == 0
    assert (cache.lookup(9, 0), cache.lookup(9, 2), cache.lookup(9, 4)) == (0, None, 4)
    assert cache.counters()["fills_refused"] == 2


def test_invalidation_ignores_and_clears_locks() -> None:
    cache = Cache(1, 1, 1)
    cache.fill(1, 5, 50)
    lib.pw_tcache_lock(cache.cache, 1, 5, lib.PW_TCACHE_LOCK_SEND)
    assert lib.pw_tcache_invalidate_range(cache.cache, 1, 5, 1) == 1
    assert cache.fill(1, 6, 60) == 0
