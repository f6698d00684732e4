"""On-demand paging as translation unit of whole engines: faults, pauses, go-back-N."""

import mmap

import pytest
from engine_costs import Steps
from engine_pair import BLOCK, NOWHERE, PAGE, PDID, Buffer, Pair, absent, resident, write
from hypothesis import given, settings
from hypothesis import strategies as st
from test_impairments_properties import PLANS
from test_properties import JOBS, Job, assert_both_ends_of_each, assert_bytes, prepare, run

from pagewire.native import check, ffi, lib
from pagewire.run.settings.config import load

RNR_NS = 640_000
LATER_NS = 50_000_000


def odp_pair(injected: dict[str, str | int] | None = None, **values: int) -> Pair:
    return Pair(injected=injected, translation=lib.PW_TRANSLATION_ODP, **values)


def fault_ns(pair: Pair, num_pages: int) -> int:
    return pair.costs.odp_fault_ns + (num_pages - 1) * pair.costs.odp_fault_page_ns


# --- faults ---------------------------------------------------------------------------------------


def test_fault_on_arrival_pauses_the_source_for_the_timer_and_not_for_the_fault() -> None:
    pair = odp_pair()
    pair.trace()
    write(pair, *resident(PAGE))
    sender, receiver = pair.counters(0), pair.counters(1)
    assert (sender.rnr_nacks, sender.timeouts, sender.retransmitted_blocks) == (1, 0, 1)
    assert sender.nacks == [0] * 8 and sender.rnr_wait_ns == RNR_NS
    assert (receiver.odp_faults, receiver.blocks_dropped) == (1, 1)
    assert receiver.fault_interrupts == receiver.fifo_pushed == 0
    resumed_ns = pair.time_of("nack") + RNR_NS + Steps(pair.costs).restart()
    assert pair.time_of("block_started", 1) == resumed_ns


def test_fault_on_sending_waits_in_the_engine() -> None:
    pair = odp_pair()
    pair.trace()
    write(pair, *resident(PAGE))
    assert pair.counters(0).odp_faults == 1
    cold, warm = (
        pair.time_of("block_first_packet", attempt) - pair.time_of("block_started", attempt)
        for attempt in (0, 1)
    )
    assert cold - warm == fault_ns(pair, 1)


def test_pages_of_the_os_are_not_those_of_the_nic() -> None:
    """Every page is resident, and the NIC faults all the same: once."""
    pair = odp_pair()
    source, destination = resident(4 * BLOCK)
    first_ns = write(pair, source, destination)
    assert pair.counters(1).pages_paged_in == 0
    assert pair.counters(1).odp_faults == 1 and pair.counters(1).odp_table_peak == 16
    second_ns = write(pair, source, destination, LATER_NS)
    assert pair.counters(1).odp_faults == 1 and pair.counters(0).rnr_nacks == 1
    assert first_ns - second_ns > RNR_NS


def test_fault_of_four_mebibytes_takes_what_the_sources_say() -> None:
    pair = odp_pair()
    write(pair, *absent(4 << 20))
    receiver = pair.counters(1)
    assert receiver.odp_faults == 1 and receiver.pages_paged_in == 1024
    assert receiver.odp_fault_ns == fault_ns(pair, 1024)
    assert abs(receiver.odp_fault_ns - 350_000) < 100


def test_fault_reaches_as_far_as_the_setting_says() -> None:
    for fault_pages, num_faults in ((1, 16), (4, 4), (16, 1), (1024, 1)):
        pair = odp_pair(odp_fault_pages=fault_pages)
        write(pair, *resident(4 * BLOCK))
        assert pair.counters(1).odp_faults == pair.counters(0).odp_faults == num_faults
        assert pair.counters(1).odp_fault_ns == num_faults * fault_ns(pair, 16 // num_faults)


def test_short_timer_asks_again_and_again_until_the_fault_is_handled() -> None:
    took_ns = {}
    for rnr_ns in (10_000, 100_000, RNR_NS):
        pair = odp_pair(odp_rnr_ns=rnr_ns)
        took_ns[rnr_ns] = write(pair, *resident(PAGE))
        assert pair.counters(1).odp_faults == 1
        nacks = pair.counters(0).rnr_nacks
        # each attempt costs the pause and less than 10 us besides
        assert fault_ns(pair, 1) // (rnr_ns + 10_000) < nacks <= fault_ns(pair, 1) // rnr_ns + 1
        assert pair.counters(1).odp_pending == nacks - 1
    assert took_ns[10_000] < took_ns[100_000] < took_ns[RNR_NS]


def test_read_only_source_is_entered_read_only_and_a_write_there_is_refused() -> None:
    pair = odp_pair()
    source, destination = Buffer(PAGE), Buffer(PAGE)
    destination.touch()
    with mmap.mmap(-1, PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ) as closed:
        address = int(ffi.cast("uintptr_t", ffi.from_buffer(closed)))
        pair.write_raw(address, destination.address, PAGE)
        assert [event.error for event in pair.run()] == [0, 0]
        pair.write_raw(source.address, address, PAGE, at_ns=LATER_NS)
        assert lib.PW_ERR_PROTECTION in {event.error for event in pair.run()}


@pytest.mark.parametrize(
    "translation", [lib.PW_TRANSLATION_ODP, lib.PW_TRANSLATION_NP, lib.PW_TRANSLATION_MINI]
)
def test_unmapped_page_ends_the_transfer_at_either_end(translation: int) -> None:
    for ends in (0, 1):
        pair = Pair(translation=translation, write_keys=lib.PW_WRITE_KEYS_OPTIONAL)
        whole, _ = resident(PAGE)
        addresses = (NOWHERE, whole.address) if ends else (whole.address, NOWHERE)
        pair.write_raw(*addresses, PAGE)
        assert lib.PW_ERR_ADDRESS in {event.error for event in pair.run()}
        assert pair.counters(1).vmh_pages_pinned == 0
        pair.assert_quiet()


def test_fewer_frames_than_a_fault_brings_in_are_enough() -> None:
    pair = odp_pair(memory_backend=lib.PW_MEMORY_MODEL, model_frame_limit_pages=12)
    write(pair, *resident(8 * BLOCK))
    assert pair.counters(1).odp_faults > 1


# --- the OS ---------------------------------------------------------------------------------------


def test_invalidation_takes_entries_out_and_the_next_access_faults() -> None:
    pair = odp_pair()
    source, destination = resident(BLOCK)
    write(pair, source, destination)
    lib.pw_ni_invalidate(pair.nis[1], PDID, destination.first_page + 1, 2)
    assert pair.counters(1).odp_invalidations == 2
    write(pair, source, destination, LATER_NS)
    assert pair.counters(1).odp_faults == 2 and pair.counters(0).rnr_nacks == 2
    lib.pw_ni_invalidate(pair.nis[1], PDID, 0, 2**64 - 1)
    assert pair.counters(1).odp_invalidations == 2 + 4
    write(pair, source, destination, 2 * LATER_NS)
    assert pair.counters(1).odp_faults == 3


def test_invalidation_waits_for_the_nic_when_it_has_an_entry() -> None:
    pair = odp_pair()
    source, destination = resident(BLOCK)
    write(pair, source, destination)
    c = pair.costs
    shootdown = (pair.nis[1], PDID, destination.first_page, 2)
    in_nic_ns = c.odp_invalidate_ns + 2 * c.odp_fault_page_ns
    assert lib.pw_ni_invalidate(*shootdown) == c.tlb_invalidate_ns + in_nic_ns
    assert lib.pw_ni_invalidate(*shootdown) == c.tlb_invalidate_ns  # it has none any more
    receiver = pair.counters(1)
    assert (receiver.odp_invalidation_requests, receiver.odp_invalidations) == (1, 2)


def test_page_that_the_os_took_is_no_page_of_the_nic_any_more() -> None:
    pair = odp_pair()
    source, destination = resident(BLOCK)
    write(pair, source, destination)
    destination.drop(2)
    write(pair, source, destination, LATER_NS)
    receiver = pair.counters(1)
    assert receiver.odp_invalidations == 1 and receiver.odp_faults == 2
    assert receiver.pages_paged_in == 1


def test_prefetch_in_time_saves_the_pause() -> None:
    pair = odp_pair()
    source, destination = absent(4 * BLOCK)
    check(lib.pw_ni_advise(pair.nis[1], PDID, destination.address, 4 * BLOCK, 0), "advise")
    write(pair, source, destination, LATER_NS)
    assert pair.counters(1).odp_prefetches == 1 and pair.counters(1).odp_faults == 0
    assert pair.counters(0).rnr_nacks == 0


# --- go-back-N ------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 8])
def test_what_was_sent_behind_the_fault_is_sent_again(window: int) -> None:
    pair = odp_pair(window_blocks=window)
    write(pair, *resident(12 * BLOCK))
    sender, receiver = pair.counters(0), pair.counters(1)
    assert sender.rnr_nacks == 1 and sender.timeouts == sender.sequence_nacks == 0
    assert sender.blocks_gone_back == receiver.blocks_behind == window - 1
    assert sender.retransmitted_blocks == window


def test_block_that_waits_for_its_fault_is_not_overtaken_by_the_next() -> None:
    pair = odp_pair(window_blocks=4)
    source, destination = resident(4 * BLOCK)
    write(pair, source, destination)
    lib.pw_ni_invalidate(pair.nis[0], PDID, source.first_page, 1)
    pair.trace()
    write(pair, source, destination, LATER_NS)
    started = [row[3] for row in pair.log("block_started")]
    assert [row[3] for row in pair.log("block_first_packet")] == started and len(started) == 4
    sender = pair.counters(0)
    assert (sender.odp_faults, sender.sequence_nacks, sender.rnr_nacks) == (2, 0, 1)


@pytest.mark.parametrize(
    ("num_packets", "num_blocks", "sequence_nacks", "timeouts"),
    [
        (64, 4, 1, 0),  # a block: told by the one behind it
        (1, 1, 1, 0),  # a packet: told by those of its block behind it
        (64, 1, 0, 1),  # the last block, which has only the timeout
    ],
)
def test_what_is_lost_is_told_by_what_comes_behind_it(
    num_packets: int, num_blocks: int, sequence_nacks: int, timeouts: int
) -> None:
    lost, timeout_ns = {"packet_loss": f"1:1:0:{num_packets}"}, 10_000_000
    pair = odp_pair(lost, timeout_ns=timeout_ns, window_blocks=4)
    source, destination = resident(num_blocks * BLOCK)
    check(lib.pw_ni_advise(pair.nis[1], PDID, destination.address, source.num_bytes, 0), "advise")
    took_ns = write(pair, source, destination, LATER_NS)
    sender = pair.counters(0)
    assert (sender.sequence_nacks, sender.timeouts) == (sequence_nacks, timeouts)
    assert sender.rnr_nacks == 0
    assert sender.retransmitted_blocks == num_blocks == sender.blocks_gone_back + 1
    assert (took_ns > timeout_ns) == timeouts


def test_loss_that_meets_a_fault_costs_a_timeout_besides() -> None:
    """The receiver has told of the block once, so that it is silent when it does not come again."""
    lost = {"packet_loss": "1:60:1"}
    times_ns: dict[bool, int] = {}
    for with_loss in (False, True):
        pair = odp_pair(lost if with_loss else None, timeout_ns=10_000_000, window_blocks=8)
        times_ns[with_loss] = write(pair, *resident(64 * BLOCK))
        sender = pair.counters(0)
        assert sender.rnr_nacks >= 1
        assert (sender.timeouts > 0) == (sender.sequence_nacks > 0) == with_loss
        assert (sender.blocks_gone_back > 3 * sender.sequence_nacks) or not with_loss
    assert times_ns[True] > times_ns[False] + 10_000_000


def test_timer_below_the_pause_does_not_run_in_it() -> None:
    pair = odp_pair(timeout_ns=100_000)
    write(pair, *resident(4 * BLOCK))
    assert pair.counters(0).rnr_nacks == 1 and pair.counters(0).timeouts == 0


def test_lost_word_of_a_receiver_that_is_not_ready_costs_the_timeout() -> None:
    pair = odp_pair({"lost_nack": "1:1:0:1"})
    write(pair, *resident(PAGE))
    assert (pair.counters(0).rnr_nacks, pair.counters(0).timeouts) == (0, 1)


def test_attempt_that_the_network_keeps_beyond_its_transfer_holds_up_nothing() -> None:
    plan = {"packet_loss": "1:1:6:48", "packet_corruption": "1:1:9:61", "delay": "1:1:8:32"}
    plan |= {"duplication": "1:3:265443"}
    pair = odp_pair({**plan, "delay_by_ns": 150_000}, timeout_ns=100_000, block_bytes=PAGE,
                    odp_rnr_ns=10_000, window_blocks=7, timeout_implementation=1)  # fmt: skip
    source, destination = resident(14 * BLOCK, source_skew=32767)
    pair.read(source, destination, at_ns=159)
    assert not any(event.error for event in pair.run())
    assert sum(site["late_after_end"] for site in pair.injected(0).values() if len(site) > 2) > 0
    pair.assert_quiet()


def test_physical_order_of_bursts_changes_no_virtual_time() -> None:
    times = set()
    for order in (None, 1, 2, 3):
        pair = odp_pair({"packet_loss": "1:200:3"}, window_blocks=4)
        job = Job(True, 0, 1, 30 * BLOCK, 100, 300, frozenset({3}), frozenset({1, 70}), 0)
        buffers = [prepare(job, 1)]
        events = run(pair, [job], buffers, order, 0)
        assert_bytes(buffers, False)
        assert pair.counters(0).rnr_nacks and pair.counters(0).sequence_nacks
        times.add(tuple(sorted((event.node, event.kind, event.time_ns) for event in events)))
    assert len(times) == 1


UNITS = [
    lib.PW_TRANSLATION_ODP,
    lib.PW_TRANSLATION_NP,
    lib.PW_TRANSLATION_ATS,
    lib.PW_TRANSLATION_BACKUP_RING,
]
VALUES = st.fixed_dictionaries(
    {
        "translation": st.sampled_from(UNITS),
        "odp_backup_blocks": st.sampled_from([0, 1, 64]),
        "ats_group_pages": st.sampled_from([1, 4, 512]),
        "ats_outstanding": st.sampled_from([1, 3, 32]),
        "ats_queue_entries": st.sampled_from([1, 5, 2048]),
        "ats_cache_entries": st.sampled_from([1, 16, 1024]),
        "ats_handlers": st.integers(1, 4),
        "ats_while_pending": st.integers(0, 2),
        "ats_buffer_blocks": st.sampled_from([0, 1, 64]),
        "window_blocks": st.integers(1, 8),
        "timeout_ns": st.sampled_from([20_000, 100_000, 1_000_000]),
        "odp_rnr_ns": st.sampled_from([1_000, 10_000, 640_000, 3_000_000]),
        "odp_fault_pages": st.sampled_from([1, 3, 1024]),
        "block_bytes": st.sampled_from([4096, BLOCK]),
        "l1_ways": st.sampled_from([1, 128]),
        "timeout_implementation": st.integers(0, 2),
        "requeue_dynamic": st.sampled_from([0, 1]),
        "strict_priority": st.sampled_from([0, 1]),
    }
)
NOT_OF_ODP = ("lost_err", "fifo_full", "late_tasklet")


@given(JOBS, VALUES, PLANS, st.booleans(), st.one_of(st.none(), st.integers(0, 999)))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_the_bytes_are_right_and_nothing_is_left(
    jobs: list[Job],
    values: dict[str, int],
    plan: dict[str, str | int],
    with_impairments: bool,
    order: int | None,
) -> None:
    plan = plan | dict.fromkeys(NOT_OF_ODP, "0:1:0")
    pair = Pair(3, injected=plan if with_impairments else None, **values)
    buffers = [prepare(job, seed) for seed, job in enumerate(jobs)]
    events = run(pair, jobs, buffers, order, 0)
    failed = [event for event in events if event.error]
    assert not failed
    assert_both_ends_of_each(jobs, events)
    assert_bytes(buffers, bool(failed))
    pair.assert_quiet()
    for node in range(3):
        own = pair.counters(node)
        assert own.acks == own.blocks
        told = own.rnr_nacks + own.sequence_nacks
        has_copies = with_impairments and plan["duplication"] != "0:1:0"  # of which each tells
        assert told <= own.retransmitted_blocks or has_copies
        assert own.fault_interrupts == own.err_messages == own.malformed_frames == 0


# --- settings -------------------------------------------------------------------------------------


def test_strategy_brings_its_unit() -> None:
    config = load(["run.memory=odp", "odp.rnr_timer=80us", "odp.prefetch=true"], environ={})
    values = config.unit_settings()
    assert values["translation"] == lib.PW_TRANSLATION_ODP
    assert (values["odp_rnr_ns"], values["odp_prefetch"]) == (80_000, 1)
    for name in ("part", "pin"):
        other = load([f"run.memory={name}"], environ={})
        assert other.unit_settings() == other.engine_settings()
