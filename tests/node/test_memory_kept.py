"""Strategies that keep something of a buffer: what is ready, what goes for a limit, and mappings
that went without a word."""

import pathlib
import subprocess
import sys

import pytest
from cli_runs import compared, reported
from mappings import FarBuffer, map_at, unmap
from memories import backend

from pagewire.native import EngineError, ffi
from pagewire.node.strategies.native_strategy import NativeStrategy
from pagewire.node.strategies.pages import Pages
from pagewire.node.strategies.strategy import PAGE_BYTES, Access, Cost, Span
from pagewire.run.settings import platform
from pagewire.run.settings.config import load

MACHINE = platform.load("exanest-qfdb")
LOOKUP_NS = MACHINE.costs.lookup_ns
WRITE = Access.WRITE


def cost(table: str, num_pages: int) -> int:
    return MACHINE.tables[table].cost_ns(num_pages * PAGE_BYTES)


class Bound:
    """A strategy in C on the host's pages, with settings, and what it counts."""

    def __init__(self, name: str, *assignments: str) -> None:
        values = load(assignments, environ={}).engine_settings()
        settings = ffi.new("pw_settings *", values)
        limit_pages = settings.model_frame_limit_pages
        self.memory = backend(settings.memory_backend, frame_limit_pages=limit_pages)
        costs = ffi.new("pw_costs *", MACHINE.costs.as_dict())
        self.pages = Pages(self.memory, MACHINE.tables, costs=costs, settings=settings)
        self.strategy = NativeStrategy(name)
        self.strategy.bind(self.pages)

    def use(self, span: Span, access: Access = WRITE) -> tuple[Cost, Cost]:
        """Costs of acquire and release of one transfer."""
        lease = self.strategy.acquire(span=span, access=access)
        return lease.cost, self.strategy.release(lease=lease)

    def count(self, name: str) -> int:
        return int(getattr(self.pages.context.counters, f"strategy_{name}"))

    @property
    def pinned_pages(self) -> int:
        return int(self.pages.context.pinned.num_pages)


@pytest.fixture
def bind():
    made: list[Bound] = []

    def make(name: str, *assignments: str) -> Bound:
        made.append(Bound(name, *assignments))
        return made[-1]

    yield make
    for each in made:
        each.strategy.close()


@pytest.fixture
def far():
    buffer = FarBuffer(64 * PAGE_BYTES, 5)
    yield lambda first, num_pages: Span(buffer.address + first * PAGE_BYTES, num_pages * PAGE_BYTES)
    map_at(buffer.address, buffer.num_bytes)
    unmap(buffer.address, buffer.num_bytes)


def test_pin_keeps_what_another_transfer_needs_and_one_that_fails_changes_nothing(bind, far):
    pin = bind("pin")
    first = pin.strategy.acquire(span=far(0, 5), access=WRITE)
    under_way = pin.strategy.acquire(span=far(4, 3), access=WRITE)
    pin.strategy.release(lease=first)
    unmap(far(7, 1).address, PAGE_BYTES)
    with pytest.raises(EngineError, match="not mapped"):
        pin.use(far(5, 3))
    assert pin.pages.is_pinned(far(4, 3)) and pin.pinned_pages == 3
    pin.strategy.release(lease=under_way)
    assert not any(pin.pages.is_pinned(far(page, 1)) for page in range(4, 7))


def test_release_of_pages_with_a_hole_unpins_the_others(bind, far):
    pin = bind("pin")
    under_way = pin.strategy.acquire(span=far(0, 8), access=WRITE)
    unmap(far(3, 1).address, PAGE_BYTES)
    assert pin.pages.is_pinned(far(0, 3)) and pin.pages.is_pinned(far(4, 4))
    pin.strategy.release(lease=under_way)
    assert not any(pin.pages.is_pinned(far(page, 1)) for page in (0, 1, 2, 4, 5, 6, 7))


def test_pin_cache_pins_once_and_then_costs_a_look_up(bind, far):
    cache = bind("pin-cache")
    span = far(0, 4)
    first, released = cache.use(span)
    assert first == Cost(pin_ns=LOOKUP_NS + cost("pin_resident", 4))
    assert released == Cost()
    assert cache.use(span) == (Cost(pin_ns=LOOKUP_NS), Cost())
    assert cache.use(far(1, 2))[0] == Cost(pin_ns=LOOKUP_NS)
    assert (cache.count("hits"), cache.count("misses"), cache.pinned_pages) == (2, 1, 4)
    assert cache.pages.is_pinned(span)


def test_pin_cache_pins_the_gaps_alone_and_joins_neighbours(bind, far):
    cache = bind("pin-cache", "strategy.pin_cache_limit_regions=1")
    cache.use(far(0, 2))
    assert cache.use(far(2, 2))[0].pin_ns == LOOKUP_NS + cost("pin_resident", 2)
    assert cache.use(far(0, 4))[0].pin_ns == LOOKUP_NS
    assert cache.count("evictions") == 0 and cache.pinned_pages == 4
    cache.use(far(8, 1))  # a second region is one too many
    assert cache.count("evictions") == 1 and cache.pinned_pages == 1


def test_pin_cache_gives_up_what_was_used_least_recently(bind, far):
    cache = bind("pin-cache", "strategy.pin_cache_limit=12KiB")
    for first in (0, 2, 4):
        cache.use(far(first, 1))
    cache.use(far(0, 1))
    cost_of_fourth, _ = cache.use(far(6, 1))
    assert cost_of_fourth.pin_ns == LOOKUP_NS + cost("pin_resident", 1) + cost("unpin", 1)
    pinned = [cache.pages.is_pinned(far(first, 1)) for first in (0, 2, 4, 6)]
    assert pinned == [True, False, True, True]


def test_pin_cache_keeps_what_a_transfer_uses_and_trims_after_it(bind, far):
    cache = bind("pin-cache", "strategy.pin_cache_limit=8KiB")
    under_way = cache.strategy.acquire(span=far(0, 2), access=WRITE)
    above, _ = cache.use(far(10, 3))
    assert above.pin_ns == LOOKUP_NS + cost("pin_resident", 3)
    assert cache.pages.is_pinned(far(0, 2)) and not cache.pages.is_pinned(far(10, 3))
    assert cache.pages.context.pinned.peak_pages == 5
    cache.strategy.release(lease=under_way)
    assert cache.pinned_pages == 2


@pytest.mark.parametrize("name", ["pin", "pin-all"])
def test_limit_of_locked_memory_refuses(name, bind, far):
    with pytest.raises(EngineError, match=r"strategy\.locked_limit"):
        bind(name, "strategy.locked_limit=8KiB").use(far(0, 3))


def test_limit_of_the_model_is_named_instead_of_the_hosts(bind, far):
    settings = ("memory_backend.backend=model", "memory_backend.frame_limit_pages=2")
    text = (
        r"12288 bytes cannot be pinned, memory_backend\.frame_limit_pages gives the model 2 frames"
    )
    with pytest.raises(EngineError, match=text) as caught:
        bind("pin", *settings).use(far(0, 3))
    assert "ulimit" not in str(caught.value)


def test_pin_cache_finds_a_mapping_that_went_without_a_word(bind, far):
    cache = bind("pin-cache")
    cache.use(far(0, 4))
    map_at(far(1, 1).address, 2 * PAGE_BYTES)  # munmap and mmap of the same place
    renewed, _ = cache.use(far(0, 4))
    assert cache.count("invalidations") == 1
    assert renewed.pin_ns == LOOKUP_NS + cost("unpin", 4) + cost("pin_resident", 2) + cost(
        "pin_absent", 2
    )
    assert cache.pages.is_pinned(far(0, 4))
    unmap(far(0, 1).address, PAGE_BYTES)
    with pytest.raises(EngineError, match="not mapped"):
        cache.use(far(0, 4))


@pytest.mark.parametrize("name", ["pin-cache", "utlb"])
def test_without_its_check_it_goes_astray_and_says_so(name, bind, far):
    kept = bind(name, "strategy.check_mappings=false")
    kept.use(far(0, 4))
    map_at(far(0, 1).address, 4 * PAGE_BYTES)
    lease = kept.strategy.acquire(span=far(0, 4), access=WRITE)
    assert lease.token[1] not in (0, far(0, 1).address)
    kept.strategy.release(lease=lease)
    assert kept.pages.context.counters.stale_transfers == 1


def test_pin_cache_is_told_of_a_fork(bind, far):
    cache = bind("pin-cache")
    cache.use(far(0, 4))
    cache.strategy.invalidated(first_page=0, num_pages=2**52)
    assert cache.pinned_pages == 0 and cache.count("invalidations") == 1
    assert cache.use(far(0, 4))[0].pin_ns == LOOKUP_NS + cost("pin_resident", 4)


@pytest.mark.parametrize("name", ["utlb", "firehose"])
def test_pages_stay_pinned_behind_their_use_and_cost_a_look_up(name, bind, far):
    kept = bind(name)
    first, released = kept.use(far(0, 4))
    assert first == Cost(pin_ns=LOOKUP_NS + cost("pin_resident", 4)) and released == Cost()
    assert kept.use(far(1, 2))[0] == Cost(pin_ns=LOOKUP_NS)
    gaps = LOOKUP_NS + 2 * cost("pin_resident", 1)
    assert kept.use(far(6, 1))[0].pin_ns == LOOKUP_NS + cost("pin_resident", 1)
    assert kept.use(far(3, 5))[0].pin_ns == gaps - cost("pin_resident", 1) + cost("pin_resident", 2)
    assert (kept.count("hits"), kept.count("misses"), kept.pinned_pages) == (1, 3, 8)


def test_utlb_gives_up_pages_that_were_used_least_recently(bind, far):
    kept = bind("utlb", "strategy.utlb_limit=16KiB")
    kept.use(far(0, 4))
    kept.use(far(0, 2))
    passed, _ = kept.use(far(8, 1))  # page 2 goes, not the buffer that it came with
    assert passed.pin_ns == LOOKUP_NS + cost("pin_resident", 1) + cost("unpin", 1)
    pinned = [kept.pages.is_pinned(far(first, 1)) for first in (0, 1, 2, 3, 8)]
    assert pinned == [True, True, False, True, True]
    under_way = kept.strategy.acquire(span=far(10, 6), access=WRITE)
    assert kept.pinned_pages == 6, "what is in use is let in above the limit"
    _, released = kept.strategy.release(lease=under_way), kept.pinned_pages
    assert released == 4


def test_firehose_keeps_so_many_victims(bind, far):
    kept = bind("firehose", "strategy.firehose_victims=8KiB")
    kept.use(far(0, 4))
    assert kept.pinned_pages == 2 and kept.count("evictions") == 1
    assert kept.pages.is_pinned(far(2, 2)) and not kept.pages.is_pinned(far(0, 1))


@pytest.mark.parametrize("name", ["utlb", "firehose"])
def test_pages_whose_mapping_went_are_pinned_anew(name, bind, far):
    kept = bind(name)
    kept.use(far(0, 4))
    map_at(far(1, 1).address, 2 * PAGE_BYTES)
    kept.use(far(0, 4))
    assert kept.count("invalidations") == 1 and kept.pages.is_pinned(far(0, 4))
    kept.strategy.invalidated(first_page=0, num_pages=2**52)
    assert kept.pinned_pages == 0
    kept.use(far(0, 4))
    unmap(far(0, 1).address, PAGE_BYTES)
    with pytest.raises(EngineError, match="not mapped"):
        kept.use(far(0, 4))
    assert kept.pinned_pages <= 4
    assert kept.use(far(8, 2))[0].pin_ns == LOOKUP_NS + cost("pin_resident", 2)


@pytest.mark.parametrize("name", ["pin-cache", "utlb", "firehose"])
def test_room_is_made_at_the_limit_of_locked_memory(name, bind, far):
    kept = bind(name, "strategy.locked_limit=8KiB")
    kept.use(far(0, 2))
    kept.use(far(4, 2))
    assert kept.count("evictions") == 1 and kept.pinned_pages == 2
    with pytest.raises(EngineError, match=r"3 pages would be locked, .*locked_limit allows 2"):
        kept.use(far(10, 3))
    kept.use(far(12, 1))
    assert kept.pinned_pages <= 2


def test_hybrid_touches_what_is_short_and_leaves_the_rest_to_fault(bind, far):
    hybrid = bind("hybrid", "strategy.touch_below=16KiB")
    map_at(far(0, 1).address, 8 * PAGE_BYTES)
    assert hybrid.use(far(0, 4))[0] == Cost()
    assert not any(hybrid.pages.resident(far(0, 4)))
    assert hybrid.use(far(4, 3))[0] == Cost(touch_ns=cost("touch_absent", 3))
    assert all(hybrid.pages.resident(far(4, 3)))


def test_kernel_is_asked_pins_and_wakes_the_process(bind, far):
    kernel, costs = bind("kernel"), MACHINE.costs
    asked_ns = costs.system_call_ns + costs.page_in_fixed_ns
    ended_ns = cost("unpin", 4) + costs.handler_ns + costs.user_wakeup_ns
    map_at(far(0, 1).address, 4 * PAGE_BYTES)
    absent_ns = asked_ns + 4 * costs.page_in_page_ns
    assert kernel.use(far(0, 4)) == (Cost(pin_ns=absent_ns), Cost(pin_ns=ended_ns))
    assert kernel.use(far(0, 4)) == (Cost(pin_ns=asked_ns), Cost(pin_ns=ended_ns))
    assert kernel.pinned_pages == 0


def test_pretouch_once_touches_again_when_the_mapping_changed(bind, far):
    once = bind("pretouch-once")
    map_at(far(0, 1).address, 4 * PAGE_BYTES)
    assert once.use(far(0, 4))[0] == Cost(touch_ns=LOOKUP_NS + cost("touch_absent", 4))
    assert once.use(far(1, 2))[0] == Cost(touch_ns=LOOKUP_NS)
    map_at(far(2, 1).address, PAGE_BYTES)
    expected_ns = LOOKUP_NS + cost("touch_absent", 1) + cost("touch_resident", 3)
    assert once.use(far(0, 4))[0] == Cost(touch_ns=expected_ns)
    assert (once.count("hits"), once.count("misses"), once.count("invalidations")) == (1, 2, 1)


def test_pretouch_once_without_its_check_leaves_new_pages_to_fault(bind, far):
    once = bind("pretouch-once", "strategy.check_mappings=false")
    once.use(far(0, 4))
    map_at(far(0, 1).address, 4 * PAGE_BYTES)
    assert once.use(far(0, 4))[0] == Cost(touch_ns=LOOKUP_NS)
    assert not any(once.pages.resident(far(0, 4)))


PIN_ALL = """
import mmap, sys
sys.path[:0] = ["tests/native", "tests/node", "tests/cli"]
from test_memory_kept import Bound
from pagewire.native import ffi
from pagewire.node.strategies.strategy import Span, Access
from pagewire.node.strategies.conformance import PAGE_BYTES

def span(made):
    return Span(int(ffi.cast("uintptr_t", ffi.from_buffer(made))), len(made))

before = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
everything = Bound("pin-all")
start = everything.pages.context.start_cost
assert start.pin_ns > 0 and everything.pages.is_pinned(span(before))
pinned = everything.pinned_pages
assert pinned >= 256
assert everything.use(span(before)) == ((0, 0, 0), (0, 0, 0))
after = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
passed, _ = everything.use(span(after))
assert passed.pin_ns > 0 and everything.pages.is_pinned(span(after))
assert everything.pinned_pages >= 512
assert (everything.count("hits"), everything.count("misses")) == (1, 1)
everything.strategy.close()
assert not everything.pages.is_pinned(span(before))
print("pinned", pinned)
"""


def test_pin_all_pins_what_there_is_and_each_new_mapping():
    """In a process of its own: all of this one's memory would come in."""
    root = pathlib.Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PIN_ALL], cwd=root, capture_output=True, text=True, check=False
    )
    if "limit of locked memory" in done.stderr:
        pytest.skip("this user may not lock so much memory (ulimit -l)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pinned")


CHURN = """
import mmap
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
num_bad = 0
for i in range(1, 5):
    pages = mmap.mmap(-1, 65536)
    data = np.frombuffer(pages, np.uint8)
    if world.rank == 0:
        data[:] = i
        world.Send(data, 1)
    else:
        world.Recv(data, 0)
        num_bad += not (data == i).all()
    del data
    pages.close()
print("bad", num_bad, flush=True)
"""


LARGE_BUFFER = """
import mmap
from pagewire.transport import MPI
comm = MPI.COMM_WORLD
buffer = mmap.mmap(-1, 256 << 12)
if comm.rank == 0:
    buffer[: 64 << 12] = bytes(64 << 12)
    comm.Send([memoryview(buffer)[: 64 << 12], MPI.BYTE], 1)
else:
    comm.Recv([buffer, MPI.BYTE], 0)
"""


def test_what_is_received_is_resident_or_the_whole_buffer(tmp_path):
    """64 pages arrive in a buffer of 256."""
    program = tmp_path / "large_buffer.py"
    program.write_text(LARGE_BUFFER)
    part = ("part", "part-prefetch", "pin-rendezvous", "odp", "np-rdma")
    whole = ("pretouch", "pin", "pin-cache", "utlb")
    words = ["--memory", ",".join([*part, *whole]), "--compute", "none"]
    _, result = compared(tmp_path, *words, str(program))
    receivers = {each["summary"]["memory"]: each["ranks"][1] for each in result["reports"]}
    pages = {name: rank["resident_peak_bytes"] >> 12 for name, rank in receivers.items()}
    assert pages == dict.fromkeys(part, 64) | dict.fromkeys(whole, 256)
    for rank in receivers.values():
        assert 0 < rank["resident_mean_bytes"] < rank["resident_peak_bytes"]
    assert receivers["part"]["pinned_peak_bytes"] == 0
    assert receivers["pin"]["pinned_peak_bytes"] >> 12 == 256


@pytest.mark.parametrize("checks", [True, False])
def test_corruption_by_a_stale_pin_is_counted_where_it_happens(checks, tmp_path):
    (tmp_path / "churn.py").write_text(CHURN)
    words = ["--memory", "pin-cache", "--set", f"strategy.check_mappings={str(checks).lower()}"]
    printed, report = reported(tmp_path, 2, *words, "churn.py", cwd=tmp_path)
    totals = report["totals"]
    num_bad = sum(int(line.split()[1]) for line in printed.splitlines() if "bad " in line)
    if checks:
        assert num_bad == totals["stale_transfers"] == 0 < totals["strategy_invalidations"]
    else:
        assert 0 < num_bad <= totals["stale_transfers"]
    assert totals["pinned_peak_bytes"] >= totals["pinned_mean_bytes"] > 0
