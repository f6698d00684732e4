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
    """A set is an OrderedDict, least recently used first: (pdid, line) -> {page: frame}."""

    def __init__(self, num_sets: int, num_ways: int, line_pages: int) -> None:
        self.num_ways, self.line_pages = num_ways, line_pages
        self.sets: list[OrderedDict] = [OrderedDict() for _ in range(num_sets)]

    def place(self, pdid: int, page: int):
        line = page // self.line_pages
        return self.sets[line % len(self.sets)], (pdid, line)

    def lookup(self, pdid: int, page: int) -> int | None:
        lines, key = self.place(pdid, page)
        if key not in lines or page not in lines[key]:
            return None
        lines.move_to_end(key)
        return lines[key][page]

    def fill(self, pdid: int, page: int, frame: int) -> int:
        lines, key = self.place(pdid, page)
        if key not in lines:
            if len(lines) == self.num_ways:
                lines.popitem(last=False)
            lines[key] = {}
        lines.move_to_end(key)
        lines[key][page] = frame
        return 0

    def invalidate(self, condition) -> int:
        dropped = 0
        for lines in self.sets:
            for key in list(lines):
                for page in [p for p in lines[key] if condition(key[0], p)]:
                    del lines[key][page]
                    dropped += 1
                if not lines[key]:
                    del lines[key]
        return dropped


class Cache:
    def __init__(self, num_sets: int, num_ways: int, line_pages: int) -> None:
        out = ffi.new("pw_tcache **")
        geometry = ffi.new("pw_tcache_geometry *", (num_sets, num_ways, line_pages))
        check(lib.pw_tcache_create(geometry, out), "create")
        self.cache = ffi.gc(out[0], lib.pw_tcache_destroy)
        self.frame = ffi.new("uint64_t *")

    def lookup(self, pdid: int, page: int) -> int | None:
        has = lib.pw_tcache_has(self.cache, pdid, page)  # leaves the line as old as it is
        hit = lib.pw_tcache_lookup(self.cache, pdid, page, self.frame)
        assert has == hit
        return self.frame[0] if hit else None

    def fill(self, pdid: int, page: int, frame: int) -> int:
        return lib.pw_tcache_fill(self.cache, pdid, page, frame)


PDID = st.sampled_from([0, 1, 65535])
PAGE = st.one_of(st.integers(0, 24), st.integers(0, 400), st.integers(2**47 - 40, 2**47 - 1))
COUNT = st.one_of(st.integers(0, 5), st.integers(0, 300), st.just(2**64 - 1))
STEP = st.one_of(
    st.tuples(st.just("fill"), PDID, PAGE),
    st.tuples(st.just("fill"), PDID, PAGE),
    st.tuples(st.just("lookup"), PDID, PAGE),
    st.tuples(st.just("lookup"), PDID, PAGE),
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
    elif kind == "range":
        pdid, first, count = args
        expected = reference.invalidate(lambda d, p: d == pdid and first <= p < first + count)
        assert lib.pw_tcache_invalidate_range(cache.cache, pdid, first, count) == expected
    elif kind == "pdid":
        expected = reference.invalidate(lambda d, _: d == args[0])
        assert lib.pw_tcache_invalidate_range(cache.cache, *args, 0, 2**64 - 1) == expected
    else:
        expected = reference.invalidate(lambda *_: True)
        assert lib.pw_tcache_invalidate_all(cache.cache) == expected


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=120))
def test_same_as_reference(geometry, steps) -> None:
    cache, reference = Cache(*geometry), Reference(*geometry)
    for i, step in enumerate(steps):
        apply(cache, reference, step, i << 33 | i)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_same_as_reference_over_long_random_run(geometry) -> None:
    cache, reference = Cache(*geometry), Reference(*geometry)
    num_pages = max(8, geometry[0] * geometry[1] * geometry[2] * 2)
    kinds = ["lookup"] * 40 + ["fill"] * 50 + ["range"] * 4
    value = 12345
    for i in range(6000):
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
        kind = kinds[(value >> 33) % len(kinds)]
        pdid, page = (value >> 40) % 2, (value >> 44) % num_pages
        if kind == "range":
            step = (kind, pdid, page, (value >> 20) % 9)
        else:
            step = (kind, pdid, page)
        if i % 2500 == 2499:
            step = ("pdid", pdid)
        apply(cache, reference, step, value >> 3)


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
