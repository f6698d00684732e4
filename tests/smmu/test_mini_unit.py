"""miNI and its base system as translation units of whole engines."""

import mmap

import pytest
from engine_costs import Steps
from engine_pair import (
    BLOCK,
    DONE,
    NOWHERE,
    PAGE,
    PDID,
    Buffer,
    Pair,
    absent,
    pattern,
    resident,
    write,
)
from mappings import LIBC, MAP_FIXED, READ_WRITE, FarBuffer

from pagewire.native import EngineError, ffi, lib
from pagewire.run.settings.config import ConfigError, load
from pagewire.smmu.mini.nic_memory import nic_memory

MINI, STATIC = lib.PW_TRANSLATION_MINI, lib.PW_TRANSLATION_STATIC
TIMEOUT_NS = 250_000
LATER_NS = 50_000_000
LINE_PAGES = 4
"""A block's pages: lines lie as blocks do, wherever a buffer begins."""


def mini_pair(**settings: int) -> Pair:
    mini = {
        "translation": MINI,
        "vmh_line_pages": LINE_PAGES,
        "vmh_entries": 64,
        "vmh_ways": 2,
        "timeout_ns": TIMEOUT_NS,
        "write_keys": lib.PW_WRITE_KEYS_OPTIONAL,  # most of these tests are about pages alone
    }
    return Pair(**(mini | settings))


def static_pair(**settings: int) -> Pair:
    return Pair(translation=STATIC, write_keys=lib.PW_WRITE_KEYS_OPTIONAL, **settings)


def fill_ns(pair: Pair, num_pinned: int) -> int:
    """Interrupt until the slot is filled."""
    costs = pair.costs
    pinning = costs.miss_pin_fixed_ns + num_pinned * costs.miss_pin_page_ns if num_pinned else 0
    return costs.miss_delay_ns + costs.miss_fill_ns + pinning


def test_miss_on_arrival_is_dropped_and_the_timer_brings_it_again() -> None:
    pair = mini_pair()
    write(pair, *resident(PAGE))
    sender, receiver = pair.counters(0), pair.counters(1)
    assert receiver.blocks_dropped == receiver.vmh_misses_receive == 1
    assert receiver.miss_interrupts == sender.miss_interrupts == 1
    assert sender.timeouts == sender.retransmitted_blocks == 1
    assert sender.nacks == [0] * 8 and sender.err_messages == 0
    assert receiver.fault_interrupts == receiver.translation_faults_destination == 0
    pair.assert_quiet()


def test_miss_on_sending_waits_for_the_fill() -> None:
    pair = mini_pair()
    pair.trace()
    source, destination = resident(PAGE)
    write(pair, source, destination)
    warm = write(pair, source, destination, at_ns=LATER_NS)
    assert pair.counters(0).vmh_misses_send == 1
    assert pair.counters(1).blocks_dropped == 1
    # cold: the send waits for its fill, and the arrival for the timer behind that
    started = [row[0] for row in pair.log("block_started")]
    assert started[1] - started[0] == TIMEOUT_NS + Steps(pair.costs).restart()
    first = pair.log("block_first_packet")[0][0] - started[0]
    again = pair.log("block_first_packet")[2][0] - started[2]
    assert first - again == fill_ns(pair, LINE_PAGES)
    assert warm < TIMEOUT_NS


def test_line_is_filled_whole_and_serves_its_neighbours() -> None:
    pair = mini_pair()
    write(pair, *resident(BLOCK))
    for node, misses in ((0, "vmh_misses_send"), (1, "vmh_misses_receive")):
        counted = pair.counters(node)
        assert getattr(counted, misses) == 1
        assert counted.vmh_pages_pinned == LINE_PAGES
    assert pair.counters(0).vmh_lookups_send == 2 * LINE_PAGES  # the block goes twice
    assert pair.counters(1).vmh_pending == LINE_PAGES - 1


def test_single_page_lines_miss_for_each_page() -> None:
    pair = mini_pair(vmh_line_pages=1)
    write(pair, *resident(BLOCK))
    assert pair.counters(0).vmh_misses_send == 4
    assert pair.counters(1).vmh_misses_receive == 4
    assert pair.counters(1).vmh_cold_receive == 4


def write_two_rounds(pair: Pair, blocks: tuple[int, int, int]) -> None:
    """A page of each block, and once more."""
    source, destination = resident((blocks[-1] + 1) * BLOCK)
    for i, block in enumerate(2 * blocks):
        offset = block * BLOCK
        at_ns = i * LATER_NS
        pair.write_raw(source.address + offset, destination.address + offset, PAGE, at_ns)
        assert all(event.error == 0 for event in pair.run())


def test_replaced_line_misses_again_without_pinning_and_not_cold() -> None:
    # one set of two ways: three blocks that go round never find their line
    pair = mini_pair(vmh_entries=2 * LINE_PAGES)
    write_two_rounds(pair, (0, 1, 2))
    receiver = pair.counters(1)
    assert receiver.vmh_misses_receive == 6 and receiver.vmh_cold_receive == 3
    assert receiver.vmh_lines_replaced == 4
    assert receiver.vmh_pages_pinned == 3 * LINE_PAGES
    assert receiver.miss_work_ns == 3 * (fill_ns(pair, 4) + fill_ns(pair, 0)) - 6 * (
        pair.costs.miss_delay_ns
    )


@pytest.mark.parametrize(("apart", "ways", "misses"), [(1, 2, 3), (8, 2, 6), (8, 4, 3)])
def test_ways_count_for_lines_that_are_apart_by_the_sets(
    apart: int, ways: int, misses: int
) -> None:
    # 16 lines: eight sets of two ways, or four of four
    pair = mini_pair(vmh_ways=ways)
    write_two_rounds(pair, (0, apart, 2 * apart))
    assert pair.counters(1).vmh_misses_receive == misses
    assert pair.counters(1).vmh_cold_receive == 3


def test_absent_pages_are_brought_in_by_the_pin() -> None:
    pair = mini_pair()
    write(pair, *absent(4 * BLOCK))
    assert pair.counters(1).translation_faults_destination == 0


@pytest.mark.parametrize("misses", range(1, 9))
def test_measured_times_stay_in_their_bins(misses: int) -> None:
    pair = mini_pair(miss_times=misses, vmh_line_pages=1)
    source, destination = resident(16 * BLOCK)
    write(pair, source, destination)
    counted = pair.counters(1)
    bins = [value for name, value in vars(counted).items() if name.startswith("miss_works_")]
    assert sum(bins) == counted.miss_interrupts == 64
    assert counted.miss_work_ns > 64 * 10_000  # none of them has its weight below 10 us
    again = mini_pair(miss_times=misses, vmh_line_pages=1)
    write(again, source, destination)
    assert again.counters(1).miss_work_ns == counted.miss_work_ns


def test_water_marks_unpin_but_not_what_the_cache_holds() -> None:
    pair = mini_pair(
        vmh_entries=4 * LINE_PAGES,
        vmh_high_pages=5 * LINE_PAGES,
        vmh_low_pages=LINE_PAGES,
        vmh_check_ns=1,
    )
    write(pair, *resident(16 * BLOCK))
    receiver = pair.counters(1)
    assert receiver.vmh_evictions > 0
    assert receiver.vmh_pages_pinned == 16 * LINE_PAGES
    assert receiver.vmh_pinned_peak <= 6 * LINE_PAGES
    # the four lines of the cache stay pinned, below the low mark or not
    left = receiver.vmh_pages_pinned - receiver.vmh_pages_unpinned
    assert left >= 4 * LINE_PAGES


@pytest.mark.parametrize("unit", [MINI, STATIC], ids=["mini", "static"])
def test_what_the_unit_pins_counts_over_virtual_time(unit: int) -> None:
    pair = mini_pair(translation=unit)
    source, destination = resident(4 * PAGE)
    first_ns, last_ns, later_ns = 10_000_000, 50_000_000, 100_000_000
    write(pair, source, destination, at_ns=first_ns)
    write(pair, source, destination, at_ns=last_ns)
    pinned = lib.pw_ni_pinned(pair.nis[1])
    assert (pinned.num_pages, pinned.peak_pages) == (4, 4)
    lib.pw_ni_invalidate(pair.nis[1], PDID, destination.first_page, 3)
    assert (pinned.num_pages, pinned.peak_pages) == (1, 4)
    # four pages from the first arrival on, one from the last, both some us behind the call
    page_ns = 4 * (last_ns - first_ns) + (later_ns - last_ns)
    mean = lib.pw_pinned_mean_bytes(pinned, later_ns)
    assert mean == pytest.approx(page_ns * PAGE / later_ns, rel=0.01)


def test_smmu_keeps_nothing_pinned() -> None:
    assert lib.pw_ni_pinned(Pair().nis[0]) == ffi.NULL


@pytest.mark.parametrize("num_pages", [1, LINE_PAGES])
def test_mapping_that_went_is_noticed_and_costs_one_miss_a_line(num_pages: int) -> None:
    """The OS took the pages, and told nobody: a line's others are found gone with the first."""
    pair = mini_pair()
    source, destination = resident(num_pages * PAGE)
    write(pair, source, destination)
    for page in range(num_pages):
        assert lib.pw_memory_unpin(pair.memories[1], destination.first_page + page, 1) == 0
        destination.drop(page)
    write(pair, source, destination, at_ns=LATER_NS)
    assert pair.counters(1).stale_translations == 1
    assert pair.counters(1).vmh_misses_receive == 2


def test_invalidation_drops_lines_and_pins() -> None:
    pair = mini_pair()
    source, destination = resident(PAGE)
    write(pair, source, destination)
    lib.pw_ni_invalidate(pair.nis[1], PDID, destination.first_page, 1)
    assert pair.counters(1).vmh_pages_unpinned == 1
    write(pair, source, destination, at_ns=LATER_NS)
    assert pair.counters(1).vmh_misses_receive == 2
    assert pair.counters(1).vmh_cold_receive == 1


@pytest.mark.parametrize("end", [0, 1])
def test_page_of_the_line_that_cannot_be_pinned_is_left_out(end: int, tmp_path) -> None:
    """Nobody asked for it: a mapping of a file behind the file's end lies beside the buffer."""
    (tmp_path / "empty").touch()
    far, other = FarBuffer(LINE_PAGES * PAGE, end), Buffer(PAGE)
    other.touch()
    with open(tmp_path / "empty", "rb") as empty:
        flags = mmap.MAP_PRIVATE | MAP_FIXED
        beside = far.address + 2 * PAGE
        assert LIBC.mmap(beside, PAGE, READ_WRITE, flags, empty.fileno(), 0) == beside
    pair = mini_pair()
    addresses = (other.address, far.address) if end else (far.address, other.address)
    pair.write_raw(*addresses, PAGE)
    assert {event.error for event in pair.finish()} == {0}
    assert pair.counters(end).vmh_pages_pinned == LINE_PAGES - 1
    far.unmap()


# --- order of a node ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1])
def test_with_order_everything_of_its_node_is_dropped_behind_a_dropped_block(order: int) -> None:
    """A write that misses on arrival, and one to a page that is cached, posted behind it."""
    pair = mini_pair(keeps_order=order)
    source, destination = resident(2 * BLOCK)
    hot, cold = destination.address, destination.address + BLOCK
    pair.write_raw(source.address, hot, PAGE)
    pair.write_raw(source.address + BLOCK, NOWHERE, PAGE, 20_000_000)  # source's line is there too
    pair.run()
    first = pair.write_raw(source.address + BLOCK, cold, PAGE, LATER_NS)
    second = pair.write_raw(source.address, hot, PAGE, LATER_NS + 5_000)
    events = pair.finish()
    done = {event.id: event.time_ns - LATER_NS for event in events if event.kind == DONE}
    assert destination.read()[BLOCK : BLOCK + PAGE] == source.read()[BLOCK : BLOCK + PAGE]
    assert pair.counters(1).blocks_behind == order
    if order:
        assert TIMEOUT_NS < done[first] < done[second]
    else:
        assert done[second] < TIMEOUT_NS < done[first]


ONE_EVENT = {"num": 1, "denom": 1, "seed": 7, "limit": 1, "amount_ns": 0}


@pytest.mark.parametrize("unit", [MINI, STATIC], ids=["mini", "static"])
@pytest.mark.parametrize(
    "site",
    [lib.PW_IMPAIRMENT_PACKET_LOSS, lib.PW_IMPAIRMENT_PACKET_CORRUPTION],
    ids=["loss", "corruption"],
)
@pytest.mark.parametrize("order", [0, 1])
def test_block_that_the_network_spoils_is_missed_in_silence(
    order: int, site: int, unit: int
) -> None:
    pair = mini_pair(translation=unit, keeps_order=order, block_bytes=4096, window_blocks=4)
    source, destination = resident(4 * PAGE)
    write(pair, source, destination)  # the lines are there from now on: no misses
    plan = ffi.new("pw_impairment_site *", ONE_EVENT)
    assert lib.pw_ni_plan_impairment(pair.nis[0], site, plan) == 0
    before = pair.counters(0).timeouts, pair.counters(1).blocks_behind
    write(pair, source, destination, at_ns=LATER_NS)
    sender, receiver = pair.counters(0), pair.counters(1)
    assert sender.nacks == [0] * 8
    assert receiver.crc_errors == (site == lib.PW_IMPAIRMENT_PACKET_CORRUPTION)
    assert receiver.blocks_behind - before[1] == (3 if order else 0)
    assert sender.timeouts - before[0] == (4 if order else 1)
    pair.assert_quiet()


@pytest.mark.parametrize("unit", [MINI, STATIC], ids=["mini", "static"])
@pytest.mark.parametrize("seed", range(6))
def test_bytes_arrive_whatever_the_network_does(seed: int, unit: int) -> None:
    """Whoever waits for a block that never comes would end with an error, or never."""
    sites = ("packet_loss", "packet_corruption", "delay", "duplication", "lost_ack")
    injected: dict[str, str | int] = {name: f"1:{12 + seed}:{seed}" for name in sites}
    injected["delay_by_ns"] = 100_000 + seed * 37_000
    injected["duplicate_after_ns"] = 50_000 + seed * 53_000
    pair = mini_pair(
        translation=unit,
        block_bytes=4096,
        vmh_entries=256,
        window_blocks=seed + 1,
        injected=injected,
    )
    buffers = [resident(1 + (seed * 7919 + i * 5000) % (9 * PAGE)) for i in range(5)]
    for i, (source, destination) in enumerate(buffers):
        pair.write(source, destination, at_ns=i * seed * 1000)
    assert {event.error for event in pair.run()} == {0}
    assert all(destination.read() == source.read() for source, destination in buffers)
    assert pair.counters(0).nacks == [0] * 8
    pair.assert_quiet()


def test_transfer_that_ends_with_an_error_holds_up_nobody() -> None:
    pair = mini_pair(vmh_line_pages=1)
    source, destination = resident(2 * BLOCK)
    # its second page is not mapped: block by block, the first is dropped, then the transfer ends
    pair.write_raw(source.address, NOWHERE, PAGE)
    pair.run()
    write(pair, source, destination, at_ns=LATER_NS)
    pair.assert_quiet()


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("block_bytes", [4096, 8192, 16384])
@pytest.mark.parametrize("num_bytes,skew", [(1, 0), (4097, 100), (100_000, 4000), (262_144, 0)])
def test_bytes_arrive_whatever_block_and_order(
    num_bytes: int, skew: int, block_bytes: int, order: int
) -> None:
    pair = mini_pair(block_bytes=block_bytes, keeps_order=order, vmh_line_pages=1, vmh_entries=256)
    source, destination = resident(num_bytes, destination_skew=skew)
    destination.drop()
    write(pair, source, destination)
    num_blocks = -(-(num_bytes + skew % block_bytes) // block_bytes)
    assert pair.counters(0).blocks == num_blocks
    pair.assert_quiet()


# --- buffers -------------------------------------------------------------------------------------


def test_request_for_a_new_buffer_comes_again_until_its_entry_is_there() -> None:
    pair = mini_pair()
    source, destination = resident(PAGE)
    for at_ns in (0, 50_000_000):  # the second one finds pages and buffer
        key = pair.expose(source)
        pair.fetch_raw(source.address, key, destination.address, PAGE, at_ns)
        assert all(event.error == 0 for event in pair.run())
    owner = pair.counters(0)
    assert owner.cbh_misses == 2  # each exposure is a buffer
    assert owner.requests_retried == 2
    assert owner.cbh_lookups == 4  # the request that comes again is looked up again


def test_registered_buffer_is_found_in_the_cache() -> None:
    pair = mini_pair()
    source, destination = resident(PAGE)
    key = ffi.new("uint64_t *")
    assert lib.pw_ni_register(pair.nis[0], source.address, PAGE, lib.PW_REMOTE_READ, key) == 0
    for at_ns in (0, 50_000_000, 100_000_000):
        pair.fetch_raw(source.address, int(key[0]), destination.address, PAGE, at_ns)
        assert all(event.error == 0 for event in pair.run())
    assert pair.counters(0).cbh_lookups == 4 and pair.counters(0).cbh_misses == 1


def test_wrong_key_is_refused_and_counted_whichever_bit_is_wrong() -> None:
    pair = mini_pair()
    source, destination = resident(PAGE)
    key = ffi.new("uint64_t *")
    assert lib.pw_ni_register(pair.nis[0], source.address, PAGE, lib.PW_REMOTE_READ, key) == 0
    right = int(key[0])
    wrong = [right ^ 1 << bit for bit in range(64)]
    for i, each in enumerate(wrong):
        pair.fetch_raw(source.address, each, destination.address, PAGE, i * 1_000_000)
        assert {event.error for event in pair.run()} == {lib.PW_ERR_PROTECTION}
    owner = pair.counters(0)
    assert owner.cbh_invalid == owner.reads_refused_protection == owner.reads_refused == 64
    pair.fetch_raw(source.address, right, destination.address, PAGE, 100_000_000)
    assert [event.error for event in pair.run()] == [0]
    assert destination.read() == source.read()
    assert lib.pw_ni_unexpose(pair.nis[0], right) == 0
    pair.assert_quiet()


def test_deregistered_buffer_leaves_the_cache() -> None:
    pair = mini_pair()
    source, destination = resident(PAGE)
    key = ffi.new("uint64_t *")
    for at_ns in (0, 50_000_000):
        assert lib.pw_ni_register(pair.nis[0], source.address, PAGE, lib.PW_REMOTE_READ, key) == 0
        pair.fetch_raw(source.address, int(key[0]), destination.address, PAGE, at_ns)
        assert all(event.error == 0 for event in pair.run())
        assert lib.pw_ni_unexpose(pair.nis[0], int(key[0])) == 0
    assert pair.counters(0).cbh_misses == 2
    assert pair.counters(0).vmh_misses_send == 1  # translations of its pages stay


def keyed_pair(**settings: int) -> Pair:
    """Writes need keys, by default: node 1 owns what is written."""
    return mini_pair(**{"write_keys": lib.PW_WRITE_KEYS_UNIT, **settings})


def written_ns(pair: Pair, source: Buffer, destination: Buffer, at_ns: int, key: int) -> int:
    """A write of a page with the key, alone, until it is done."""
    id_ = pair.write_raw(source.address, destination.address, PAGE, at_ns, key=key)
    events = pair.run()
    assert {event.error for event in events} == {0}
    times = {event.id: event.time_ns for event in events if event.kind == DONE}
    assert destination.read()[:PAGE] == source.read()[:PAGE]
    return times[id_] - at_ns


def test_write_whose_buffer_misses_is_dropped_and_comes_a_timer_later() -> None:
    """MINI 3.4, and 3 for the miss: as of a page, on arrival, with the same recovery."""
    pair = keyed_pair()
    source, destination = resident(PAGE)
    known, new = (pair.register(destination) for _ in range(2))
    written_ns(pair, source, destination, 0, known)  # pages and the first buffer are there now
    before = pair.counters(1), pair.counters(0)
    hit = written_ns(pair, source, destination, LATER_NS, known)
    miss = written_ns(pair, source, destination, 2 * LATER_NS, new)
    assert miss - hit == TIMEOUT_NS + Steps(pair.costs).restart()
    owner, sender = pair.counters(1), pair.counters(0)
    assert owner.cbh_misses - before[0].cbh_misses == 1
    assert owner.cbh_lookups - before[0].cbh_lookups == 3  # the packet that comes again, too
    assert owner.blocks_dropped - before[0].blocks_dropped == 1
    assert owner.miss_interrupts - before[0].miss_interrupts == 1
    assert owner.vmh_lookups_receive - before[0].vmh_lookups_receive == 2  # not of what missed
    assert owner.requests_retried == 0
    assert sender.timeouts - before[1].timeouts == 1
    assert sender.nacks == [0] * 8


def test_buffer_and_page_that_miss_cost_a_timer_each() -> None:
    """The address stands in the buffer's entry: no page is looked up before it."""
    pair = keyed_pair()
    source, destination = resident(PAGE)
    key = pair.register(destination)
    written_ns(pair, source, destination, 0, key)
    owner = pair.counters(1)
    assert (owner.cbh_misses, owner.vmh_misses_receive, owner.blocks_dropped) == (1, 1, 2)


def test_look_up_of_a_buffer_takes_its_time() -> None:
    times = []
    for keys in (lib.PW_WRITE_KEYS_UNIT, lib.PW_WRITE_KEYS_OPTIONAL):
        pair = keyed_pair(write_keys=keys, cbh_ways=4)
        source, destination = resident(PAGE)
        key = pair.register(destination) if keys == lib.PW_WRITE_KEYS_UNIT else 0
        written_ns(pair, source, destination, 0, key)
        times.append(written_ns(pair, source, destination, LATER_NS, key))
    assert times[0] - times[1] == pair.costs.cbh_lookup_ns + 3 * pair.costs.vmh_way_ns


@pytest.mark.parametrize("order", [0, 1])
def test_behind_a_buffer_that_misses_its_node_is_dropped_too(order: int) -> None:
    pair = keyed_pair(keeps_order=order)
    source, destination = resident(PAGE)
    known, new = (pair.register(destination) for _ in range(2))
    written_ns(pair, source, destination, 0, known)
    pair.write_raw(source.address, destination.address, PAGE, LATER_NS, key=new)
    pair.write_raw(source.address, destination.address, PAGE, LATER_NS + 5_000, key=known)
    assert {event.error for event in pair.run()} == {0}
    assert pair.counters(1).blocks_behind == order


def test_write_with_a_wrong_key_or_none_is_refused_and_writes_nothing() -> None:
    pair = keyed_pair()
    source, destination = resident(PAGE)
    right = pair.register(destination)
    before = destination.read()
    wrong = [0, *(right ^ 1 << bit for bit in range(0, 64, 7))]
    for i, key in enumerate(wrong):
        pair.write_raw(source.address, destination.address, PAGE, i * 2_000_000, key=key)
        assert {event.error for event in pair.run()} == {lib.PW_ERR_PROTECTION}
    assert destination.read() == before
    owner = pair.counters(1)
    assert owner.blocks_refused_protection == len(wrong)
    assert owner.cbh_invalid == len(wrong) - 1  # without a key nothing is looked up
    written_ns(pair, source, destination, LATER_NS, right)
    assert lib.pw_ni_unexpose(pair.nis[1], right) == 0
    pair.assert_quiet()


# --- static --------------------------------------------------------------------------------------


def test_static_tables_never_miss() -> None:
    pair = static_pair()
    source, destination = absent(4 * BLOCK)
    source.fill(pattern(4 * BLOCK))
    write(pair, source, destination)
    receiver = pair.counters(1)
    assert receiver.static_pages == 16 and receiver.blocks_dropped == 0
    assert pair.counters(0).retransmitted_blocks == 0


def test_static_table_of_pages_is_full() -> None:
    pair = static_pair(static_pages=4)
    source, destination = resident(2 * BLOCK)
    pair.write(source, destination)
    assert any(event.error < 0 for event in pair.run())
    assert pair.counters(0).static_refused + pair.counters(1).static_refused > 0


def test_static_table_of_buffers_is_full() -> None:
    pair = static_pair(static_buffers=1)
    source, _ = resident(PAGE)
    pair.expose(source)
    with pytest.raises(EngineError):
        pair.expose(source)


# --- settings and memory -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignments,part",
    [
        (("run.memory=pin",), "run.memory"),
        (("run.memory=odp",), "run.memory"),
        (("run.timeout=none",), "run.timeout"),
        (("smmu.hupcf=0",), "smmu.hupcf"),
        (("mini.vmh_entries=1048576",), "mini.memory"),
        (("mini.vmh_line_pages=128", "mini.vmh_entries=256"), "mini.vmh_entries"),
        (("mini.high_water_pages=1", "mini.low_water_pages=2"), "mini.low_water_pages"),
    ],
)
def test_what_does_not_go_together_is_refused(assignments: tuple[str, ...], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        load(("run.translation=mini", *assignments), environ={})


def test_memory_of_the_nic_is_counted_by_part() -> None:
    def memory(*assignments: str) -> dict[str, int]:
        return nic_memory(load(assignments, environ={}).engine_settings())

    static, mini = memory("run.translation=static"), memory("run.translation=mini")
    assert static["vmh_bytes"] == 131072 * 4 and static["cbh_bytes"] == 1024 * 36
    assert static["imported_bytes"] == 8 * 4096 * 16 and mini["imported_bytes"] == 0
    assert mini["vmh_bytes"] == 16384 * 4 + 256 * 8 and mini["cbh_bytes"] == 1024 * 26
    more = memory("run.translation=static", "mini.static_pages=65536")
    assert static["total_bytes"] - more["total_bytes"] == 65536 * 4
    for each in (static, mini):
        parts = sum(size for part, size in each.items() if part != "total_bytes")
        assert each["total_bytes"] == parts
