"""Memory strategies: built-in ones on real pages, what is refused, and the check for authors."""

import mmap

import pytest
from memories import backend

from pagewire.native import EngineError, ffi, lib
from pagewire.node.strategies import built_in, conformance, host
from pagewire.node.strategies.host import StrategyHost
from pagewire.node.strategies.native_strategy import NativeStrategy
from pagewire.node.strategies.pages import Pages
from pagewire.node.strategies.strategy import (
    PAGE_BYTES,
    Access,
    Cost,
    Lease,
    MemoryStrategy,
    Span,
    StrategyError,
)
from pagewire.run.settings import platform

TABLES = platform.load("exanest-qfdb").tables
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


@pytest.fixture
def pages() -> Pages:
    return Pages(backend(lib.PW_MEMORY_HOST), TABLES)


def cost(table: str, num_pages: int) -> int:
    return TABLES[table].cost_ns(num_pages * PAGE_BYTES)


def test_span_counts_the_pages_that_it_touches():
    assert (Span(4096, 1).first_page, Span(4096, 1).num_pages) == (1, 1)
    assert Span(8191, 2).num_pages == 2
    assert Span(4096, 8192).num_pages == 2


def test_span_that_is_not_mapped_is_an_error_that_names_strategy_and_address(pages):
    for name, tried in (("pin", "pin"), ("pretouch", "touch")):
        text = f"run.memory = '{name}': {tried} of 1 bytes at 0x300000000000: part of it is not"
        with pytest.raises(EngineError, match=text) as caught:
            host.create(name, pages).acquire(3 << 44, 1, Access.READ)
        assert caught.value.code == lib.PW_ERR_ADDRESS


@pytest.mark.parametrize("name", ["pin", "pretouch"])
def test_span_behind_the_end_of_the_address_space_is_refused(name, pages):
    with pytest.raises(EngineError, match="18446744073709551615 bytes at 0xfff: it reaches"):
        host.create(name, pages).acquire(4095, 2**64 - 1, Access.READ)


def test_pretouch_only_reads_what_is_mapped_read_only(pages):
    buffer = mmap.mmap(-1, PAGE_BYTES, flags=FLAGS, prot=mmap.PROT_READ)
    address = int(ffi.cast("uintptr_t", ffi.from_buffer(buffer)))
    lease = host.create("pretouch", pages).acquire(address, PAGE_BYTES, Access.WRITE)
    assert lease.cost == Cost(touch_ns=cost("touch_absent", 1))
    assert pages.resident(Span(address, PAGE_BYTES)) == (True,)


def test_limit_of_locked_memory_is_named_with_what_to_do():
    model = backend(lib.PW_MEMORY_MODEL, detached=1, frame_limit_pages=4)
    strategy = host.create("pin", Pages(model, TABLES))
    lease = strategy.acquire(0, 3 * PAGE_BYTES, Access.READ)
    text = "run.memory = 'pin': 20480 bytes cannot be pinned, the limit.*ulimit -l.*run.memory"
    with pytest.raises(EngineError, match=text) as caught:
        strategy.acquire(0, 5 * PAGE_BYTES, Access.READ)
    assert caught.value.code == lib.PW_ERR_FULL
    assert strategy.release(lease) == Cost(pin_ns=cost("unpin", 3))
    strategy.close()


def test_buffer_that_went_during_its_transfer_can_be_released(pages):
    buffer = mmap.mmap(-1, 2 * PAGE_BYTES, flags=FLAGS)
    address = int(ffi.cast("uintptr_t", ffi.from_buffer(buffer)))
    strategy = host.create("pin", pages)
    lease = strategy.acquire(address, 2 * PAGE_BYTES, Access.READ)
    buffer.close()
    assert strategy.release(lease) == Cost(pin_ns=cost("unpin", 2))


def test_unknown_table_lists_the_known(pages):
    with pytest.raises(KeyError, match="unpin"):
        pages.cost_ns("touch", 1)


class Raises(MemoryStrategy):
    """Raises what it is told to, where it is told to."""

    hook = "acquire"
    error: BaseException = SystemExit(0)

    def _at(self, hook):
        if hook == self.hook:
            raise self.error

    def bind(self, pages):
        self._at("bind")

    def acquire(self, *, span, access):
        self._at("acquire")
        return Lease(span)

    def release(self, *, lease):
        self._at("release")
        return Cost()

    def invalidated(self, *, first_page, num_pages):
        self._at("invalidated")


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit(), KeyError()])
@pytest.mark.parametrize("hook", ["bind", "acquire", "release", "invalidated"])
def test_anything_raised_by_a_hook_is_an_error_that_names_it(hook, error, pages, monkeypatch):
    monkeypatch.setattr(Raises, "hook", hook)
    monkeypatch.setattr(Raises, "error", error)
    with pytest.raises(StrategyError, match=f"'mine': {hook}.* raised {type(error).__name__}"):
        asked = StrategyHost(Raises(), "mine", pages)
        asked.release(asked.acquire(4096, 1, Access.READ))
        asked.invalidated(1, 1)


class Answers(MemoryStrategy):
    """Answers what it is told to."""

    lease: object = None
    cost: object = Cost()

    def acquire(self, *, span, access):
        return self.lease

    def release(self, *, lease):
        return self.cost


SPAN = Span(4096, 1)


@pytest.mark.parametrize(
    ("lease", "cost", "text"),
    [
        (None, Cost(), "a NoneType (None) instead of a Lease"),
        (Lease(Span(0, 1)), Cost(), "a lease of Span(address=0, num_bytes=1)"),
        (Lease(SPAN, 5), Cost(), "a int (5) instead of a Cost"),
        (Lease(SPAN, Cost(pin_ns=-1)), Cost(), "pin_ns -1: allowed is a whole number of ns from 0"),
        (Lease(SPAN, Cost(touch_ns=1.5)), Cost(), "touch_ns 1.5"),
        (Lease(SPAN, Cost(touch_ns=2**62 + 1)), Cost(), "from 0 to 2**62"),
        (Lease(SPAN), None, "release(Span(address=4096, num_bytes=1)) answered a NoneType"),
    ],
)
def test_answer_that_cannot_be_names_value_and_limit(lease, cost, text, pages, monkeypatch):
    monkeypatch.setattr(Answers, "lease", lease)
    monkeypatch.setattr(Answers, "cost", cost)
    asked = StrategyHost(Answers(), "mine", pages)
    with pytest.raises(StrategyError) as caught:
        asked.release(asked.acquire(*SPAN, Access.READ))
    assert text in str(caught.value) and "'mine'" in str(caught.value)


def test_node_in_c_asks_a_class_in_python(pages):
    """Through the table of functions, as the node does; the class's own tokens come back."""

    class Tokens(MemoryStrategy):
        told: tuple[int, int] | None = None

        def acquire(self, *, span, access):
            return Lease(span, Cost(touch_ns=span.num_bytes), token=[access])

        def release(self, *, lease):
            return Cost(pin_ns=len(lease.token) + lease.span.address)

        def invalidated(self, *, first_page, num_pages):
            self.told = first_page, num_pages

    strategy = Tokens()
    asked = StrategyHost(strategy, "mine", pages)
    ops, cost = asked.ops, ffi.new("pw_strategy_cost *")
    leases = [ffi.new("pw_lease *"), ffi.new("pw_lease *")]
    assert ffi.string(ops.name) == b"mine"
    for idx, lease in enumerate(leases):
        assert ops.acquire(asked.handle, (4096 * idx, 7), lib.PW_ACCESS_WRITE, lease) == 0
        assert (lease.span.address, lease.span.num_bytes) == (4096 * idx, 7)
        assert (lease.cost.touch_ns, lease.cost.pin_ns) == (7, 0)
    for idx, lease in enumerate(leases):
        assert ops.release(asked.handle, lease, cost) == 0
        assert (cost.touch_ns, cost.pin_ns) == (0, 1 + 4096 * idx)
    assert ops.invalidated(asked.handle, 5, 2**52) == 0 and strategy.told == (5, 2**52)
    assert asked.take_failure() is None
    assert ops.release(asked.handle, leases[0], cost) == lib.PW_ERR_HOST  # twice
    assert "'mine': release raised KeyError" in str(asked.take_failure())


@pytest.mark.parametrize("hook", ["acquire", "release", "invalidated"])
def test_what_a_class_raises_is_kept_for_the_caller_of_c(hook, pages, monkeypatch):
    monkeypatch.setattr(Raises, "hook", hook)
    monkeypatch.setattr(Raises, "error", SystemExit(3))
    asked = StrategyHost(Raises(), "mine", pages)
    ops, lease = asked.ops, ffi.new("pw_lease *")
    codes = [
        ops.acquire(asked.handle, SPAN, lib.PW_ACCESS_READ, lease),
        ops.release(asked.handle, lease, ffi.new("pw_strategy_cost *")),
        ops.invalidated(asked.handle, 1, 1),
    ]
    assert codes[["acquire", "release", "invalidated"].index(hook)] == lib.PW_ERR_HOST
    failure = asked.take_failure()
    assert isinstance(failure, StrategyError) and f"'mine': {hook}" in str(failure)
    assert isinstance(failure.__cause__, SystemExit)
    assert asked.take_failure() is None


def test_error_of_pages_keeps_its_code_through_c(pages):
    class Pins(MemoryStrategy):
        def acquire(self, *, span, access):
            self.pages.pin(span)
            return Lease(span)

    asked = StrategyHost(Pins(), "mine")
    asked.bind(pages)
    span, lease = (3 << 44, 1), ffi.new("pw_lease *")
    assert asked.ops.acquire(asked.handle, span, lib.PW_ACCESS_READ, lease) == lib.PW_ERR_HOST
    failure = asked.take_failure()
    assert isinstance(failure, EngineError) and failure.code == lib.PW_ERR_ADDRESS
    assert "run.memory = 'mine': pin of 4096 bytes" in str(failure)


def test_built_in_strategies_are_those_in_c():
    entries = built_in.REGISTRY.entries()
    expected = {
        "part": "let pages fault; the driver pages in and the ERR resumes the block (PART)",
        "pretouch": "touch each page of a buffer before each transfer",
        "ideal": "accesses never fault, at no extra cost",
        "pin": "pin buffers for each transfer",
    }
    assert {name: entries[name].help for name in expected} == expected
    assert "pin-cache" in entries, "an underscore in C is a dash"
    assert all(built_in.REGISTRY.is_native(name) for name in expected)
    with pytest.raises(
        KeyError, match="no memory strategy 'pim' in C; there are part, part-prefetch"
    ):
        NativeStrategy("pim")


@pytest.mark.parametrize("name", [name for name in built_in.REGISTRY.names() if name != "pin-all"])
def test_built_in_strategies_conform(name):
    """Not pin-all: its costs depend on what else this process maps meanwhile."""
    assert conformance.check_strategy(lambda: NativeStrategy(name)) > 100


class Scribbles(MemoryStrategy):
    def acquire(self, *, span, access):
        ffi.cast("uint8_t *", span.address)[0] ^= 255
        return Lease(span)


class Remembers(MemoryStrategy):
    num_asked = 0

    def acquire(self, *, span, access):
        Remembers.num_asked += 1
        return Lease(span, Cost(pin_ns=Remembers.num_asked))


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (Raises, "acquire.* raised SystemExit"),
        (Answers, "instead of a Lease"),
        (Scribbles, "leave the data alone"),
        (Remembers, "nothing that outlives the object"),
    ],
)
def test_check_finds_a_bad_strategy(bad, text):
    with pytest.raises(AssertionError, match=text):
        conformance.check_strategy(bad)
