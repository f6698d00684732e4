"""Costs, counted pins and strategies in C against short references in Python, under Hypothesis."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import backend

from pagewire.native import check, ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.node.strategies.native_strategy import NativeStrategy
from pagewire.node.strategies.pages import Pages, engine_tables
from pagewire.node.strategies.strategy import PAGE_BYTES, Access, Cost, Lease, MemoryStrategy, Span
from pagewire.run.settings import platform
from pagewire.run.settings.platform import CostTable
from pagewire.run.settings.platform_document import cost_table

NUM_PAGES = 40
PLATFORM = platform.load("exanest-qfdb")


def model(**options: int):
    """Pages of no process; all absent at first."""
    absent = {"detached": 1, "fault_millionths": 1_000_000}
    return backend(lib.PW_MEMORY_MODEL, **{**absent, **options})


def is_pinned(memory, page: int) -> bool:
    """A page that is not is absent afterwards."""
    if lib.pw_memory_is_pinned(memory, page, 1) == 1:
        return True
    check(lib.pw_memory_set(memory, page, 1, lib.PW_PAGE_ABSENT), "set")
    return False


# Costs.


@st.composite
def tables(draw) -> CostTable:
    num_points = draw(st.integers(1, 16))
    largest = draw(st.sampled_from([50_000, 2**40, 2**62]))
    sizes = draw(st.sets(st.integers(0, largest), min_size=num_points, max_size=num_points))
    costs = draw(st.lists(st.integers(0, largest), min_size=num_points, max_size=num_points))
    return CostTable(tuple(sorted(sizes)), tuple(sorted(costs)))


@settings(max_examples=300, deadline=None)
@given(table=tables(), more=st.lists(st.integers(0, 2**52), max_size=20))
def test_cost_is_that_of_the_platforms_table_to_the_ns(table, more):
    in_c = engine_tables({**PLATFORM.tables, "unpin": table})
    corners = [size // PAGE_BYTES + delta for size in table.sizes_bytes for delta in (-1, 0, 1, 2)]
    for num_pages in (0, 1, *(page for page in corners if page >= 0), *more):
        expected_ns = min(table.cost_ns(num_pages * PAGE_BYTES), 2**63 - 1)
        assert lib.pw_cost_ns(in_c, lib.PW_COST_UNPIN, num_pages) == expected_ns


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (CostTable((), ()), "no points or more than 16; give it 1 to 16"),
        (CostTable(tuple(range(17)), (1,) * 17), "17 sizes and 17 costs; .* up to 16"),
        (CostTable((1, 2), (1,)), "2 sizes and 1 costs"),
        (CostTable((1, 1), (1, 1)), "sizes of a cost table do not rise"),
        (CostTable((1, 2), (2, 1)), "times of a cost table fall"),
        (CostTable((-1,), (2,)), "below 0"),
    ],
)
def test_table_that_c_cannot_take_is_refused(table, text):
    with pytest.raises(ValueError, match=text):
        engine_tables({**PLATFORM.tables, "touch_absent": table})


def test_platform_file_with_too_many_points_names_the_limit():
    entry = {"size_unit": "KiB", "time_unit": "us", "points": [[i, i] for i in range(1, 18)]}
    with pytest.raises(ConfigError, match="tables.unpin.points: 17 are too many; at most 16"):
        cost_table("tables.unpin", entry, points_max=16)


# Strategies.


class PretouchReference(MemoryStrategy):
    def acquire(self, *, span: Span, access: Access) -> Lease:
        absent = self.pages.touch(span)
        cost_ns = self.pages.cost_ns("touch_resident", span.num_pages - absent)
        return Lease(span, Cost(touch_ns=cost_ns + self.pages.cost_ns("touch_absent", absent)))


class PinReference(MemoryStrategy):
    """Unpins the whole span and pins again what others need."""

    def __init__(self) -> None:
        self.pinned: list[Span] = []

    def acquire(self, *, span: Span, access: Access) -> Lease:
        absent = self.pages.pin(span)
        self.pinned.append(span)
        cost_ns = self.pages.cost_ns("pin_resident", span.num_pages - absent)
        return Lease(span, Cost(pin_ns=cost_ns + self.pages.cost_ns("pin_absent", absent)))

    def release(self, *, lease: Lease) -> Cost:
        span = lease.span
        self.pinned.remove(span)
        self.pages.unpin(span)
        for other in self.pinned:
            self.pages.pin(other)
        return Cost(pin_ns=self.pages.cost_ns("unpin", span.num_pages))


class NothingReference(MemoryStrategy):
    def acquire(self, *, span: Span, access: Access) -> Lease:
        return Lease(span)


REFERENCES = {
    "part": NothingReference,
    "ideal": NothingReference,
    "pretouch": PretouchReference,
    "pin": PinReference,
}


@dataclass
class Bound:
    """A strategy with pages of its own, and its leases under way."""

    strategy: MemoryStrategy
    memory: object
    leases: list[Lease]


def bound(strategy: MemoryStrategy) -> Bound:
    memory = model()
    strategy.bind(Pages(memory, PLATFORM.tables))
    return Bound(strategy, memory, [])


SPAN = st.builds(
    Span,
    st.integers(0, 20 * PAGE_BYTES),
    st.one_of(st.integers(1, 3), st.integers(1, 20 * PAGE_BYTES)),
)
HOOKS = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), SPAN, st.sampled_from(Access)),
        st.tuples(st.just("release"), st.integers(0, 1000)),
        st.tuples(st.just("drop"), st.integers(0, NUM_PAGES)),
        st.tuples(st.just("invalidated")),
    ),
    max_size=40,
)


def pages_of(lease: Lease) -> set[int]:
    return set(range(lease.span.first_page, lease.span.first_page + lease.span.num_pages))


@pytest.mark.parametrize("name", REFERENCES)
@settings(max_examples=60, deadline=None)
@given(steps=HOOKS)
def test_strategy_in_c_costs_and_does_what_its_reference_does(name, steps):
    native, reference = bound(NativeStrategy(name)), bound(REFERENCES[name]())
    num_unpinned, counters = 0, ffi.new("pw_memory_counters *")
    for kind, *arguments in steps:
        costs = []
        for each in (native, reference):
            if kind == "acquire":
                lease = each.strategy.acquire(span=arguments[0], access=arguments[1])
                each.leases.append(lease)
                costs.append(lease.cost)
            elif kind == "release" and each.leases:
                lease = each.leases.pop(arguments[0] % len(each.leases))
                costs.append(each.strategy.release(lease=lease))
            elif kind == "drop":
                costs.append(is_pinned(each.memory, arguments[0]))
            else:
                each.strategy.invalidated(first_page=0, num_pages=2**52)
        assert costs[:1] == costs[1:]
        if kind == "release" and costs and name == "pin":
            num_unpinned += len(pages_of(lease) - set().union(*map(pages_of, native.leases)))
            lib.pw_memory_read_counters(native.memory, counters)
            assert counters.unpinned_pages == num_unpinned, "each by its last holder, once"
    pinned = [
        [is_pinned(each.memory, page) for page in range(NUM_PAGES)] for each in (native, reference)
    ]
    assert pinned[0] == pinned[1]
    for _ in range(2):  # it can be closed again
        native.strategy.close()
    assert not any(is_pinned(native.memory, page) for page in range(NUM_PAGES))
