"""PCIe ATS and PRI as translation unit of whole engines: the device's cache, page requests and what
limits them, what the receiver does meanwhile, invalidations. Every wait is a sum of the platform's
costs."""

import mmap

import pytest
from engine_pair import BLOCK, PAGE, PDID, Buffer, Pair, absent, resident, write
from faulting_pair import HUGE_BYTES, MODEL, needs_procmap
from mappings import LIBC, READ_WRITE

from pagewire.native import lib
from pagewire.run.settings.config import ConfigError, load

LATER_NS = 50_000_000
BUFFER, PAUSE, DROP = lib.PW_PENDING_BUFFER, lib.PW_PENDING_PAUSE, lib.PW_PENDING_DROP
ARRIVED = lib.PW_HOST_ARRIVED


def ats_pair(injected: dict[str, str | int] | None = None, **values: int) -> Pair:
    pair = Pair(injected=injected, translation=lib.PW_TRANSLATION_ATS, **values)
    pair.trace()
    return pair


def request_ns(pair: Pair) -> int:
    """A translation request that the IOMMU answers by a walk."""
    return 2 * pair.costs.ats_message_ns + pair.costs.walk_ns


def reader_ns(pair: Pair, num_pages: int) -> int:
    return pair.costs.ats_wakeup_ns + num_pages * pair.costs.ats_entry_ns


def handler_ns(pair: Pair, num_pages: int) -> int:
    c = pair.costs
    page_in = c.page_in_fixed_ns + num_pages * c.page_in_page_ns
    return c.ats_wakeup_ns + page_in + c.ats_response_ns


def group_ns(pair: Pair, num_pages: int) -> int:
    """From an access to absent pages until the device has their translations: request, page
    requests, the queue's thread, the handler, the response, the request again."""
    return (
        pair.costs.ats_lookup_ns + request_ns(pair) + pair.costs.ats_message_ns
        + reader_ns(pair, num_pages) + handler_ns(pair, num_pages)
        + pair.costs.ats_message_ns + request_ns(pair)
    )  # fmt: skip


def in_engine_ns(pair: Pair, attempt: int = 0) -> int:
    """From the start of a block at its source until its first packet arrives."""
    started, arrived = (
        pair.time_of(kind, attempt) for kind in ("block_started", "block_first_packet")
    )
    return arrived - started


# --- the device's cache ---------------------------------------------------------------------------


def test_miss_asks_the_iommu_and_a_hit_does_not() -> None:
    pair = ats_pair()
    source, destination = resident(PAGE)
    write(pair, source, destination)
    write(pair, source, destination, LATER_NS)
    assert in_engine_ns(pair, 0) - in_engine_ns(pair, 1) == request_ns(pair)
    sender = pair.counters(0)
    assert (sender.ats_hits, sender.ats_misses, sender.ats_requests) == (1, 1, 1)
    assert sender.ats_groups == pair.counters(1).ats_groups == 0


def test_small_cache_forgets_what_the_iommu_still_knows() -> None:
    pair = ats_pair(ats_cache_entries=1)
    source, destination = resident(BLOCK)
    write(pair, source, destination)
    write(pair, source, destination, LATER_NS)
    assert pair.counters(0).ats_hits == 0 and pair.counters(0).ats_requests == 8
    assert pair.counters(0).walks == 4  # once a page: the IOMMU's own TLB is larger


# --- page requests --------------------------------------------------------------------------------


def test_absent_page_of_the_source_waits_for_the_whole_way() -> None:
    pair = ats_pair()
    source, destination = absent(PAGE, "source")
    write(pair, source, destination)
    write(pair, source, destination, LATER_NS)
    assert in_engine_ns(pair, 0) - in_engine_ns(pair, 1) == group_ns(pair, 1) - (
        pair.costs.ats_lookup_ns
    )
    assert pair.counters(0).ats_wait_ns == group_ns(pair, 1)


def test_absent_page_of_the_destination_is_waited_for_in_the_buffer() -> None:
    pair = ats_pair()
    source, destination = absent(PAGE)
    write(pair, source, destination)
    receiver, sender = pair.counters(1), pair.counters(0)
    seen_ns = pair.time_of("fault_destination")
    assert pair.time_of("ack_sent") == seen_ns + group_ns(pair, 1)
    assert (receiver.blocks_kept, receiver.ats_groups, receiver.pages_paged_in) == (1, 1, 1)
    assert sender.retransmitted_blocks == sender.timeouts == 0 and sender.nacks == [0] * 8
    assert receiver.fault_interrupts == receiver.fifo_pushed == 0


def test_group_asks_for_the_absent_pages_of_a_block_and_has_one_answer() -> None:
    pair = ats_pair()
    write(pair, *absent(BLOCK))
    receiver = pair.counters(1)
    assert (receiver.ats_groups, receiver.ats_page_requests) == (1, 4)
    assert receiver.ats_wait_ns == group_ns(pair, 4)
    assert receiver.ats_pending == 3  # the block's other pages


def test_group_ends_at_a_page_that_is_there() -> None:
    pair = ats_pair()
    source, destination = resident(BLOCK)
    for page in (0, 1, 3):
        destination.drop(page)
    write(pair, source, destination)
    assert (pair.counters(1).ats_groups, pair.counters(1).ats_page_requests) == (2, 3)


def test_pages_of_a_huge_page_come_in_together_for_the_time_of_one() -> None:
    pair = ats_pair(memory_backend=MODEL, of_node={1: {"model_collapse_millionths": 1_000_000}})
    source, destination = resident(BLOCK)[0], Buffer(2 * HUGE_BYTES)
    destination.start += -destination.address % HUGE_BYTES
    destination.address += -destination.address % HUGE_BYTES
    destination.num_bytes = BLOCK
    destination.touch()
    pages = destination.first_page, HUGE_BYTES // PAGE
    assert lib.pw_memory_begin_transfer(pair.memories[1], *pages) == 1
    lib.pw_ni_invalidate(pair.nis[1], PDID, *pages)
    write(pair, source, destination)
    receiver = pair.counters(1)
    assert (receiver.ats_page_requests, receiver.pages_along) == (4, 3)
    assert receiver.ats_wait_ns == group_ns(pair, 4) - 3 * pair.costs.page_in_page_ns


@needs_procmap
def test_page_of_a_group_that_is_forbidden_does_not_make_the_first_ones_page_in_free() -> None:
    pair = ats_pair()
    source, destination = absent(2 * PAGE)
    read_only = destination.address + PAGE, PAGE
    assert LIBC.mprotect(*read_only, mmap.PROT_READ) == 0
    pair.write(source, destination)
    pair.run()
    assert LIBC.mprotect(*read_only, READ_WRITE) == 0
    receiver = pair.counters(1)
    assert (receiver.ats_groups, receiver.ats_page_requests) == (1, 1)
    assert receiver.pages_paged_in == 1 and receiver.ats_wait_ns == group_ns(pair, 1)


def test_handlers_work_at_the_same_time_and_one_alone_does_not() -> None:
    took_ns = {}
    for handlers in (1, 4):
        pair = ats_pair(ats_group_pages=1, ats_handlers=handlers)
        took_ns[handlers] = write(pair, *absent(BLOCK))
        assert pair.counters(1).ats_groups == 4
    c = pair.costs
    work_ns = c.page_in_fixed_ns + c.page_in_page_ns + c.ats_response_ns
    # four are behind each other, or each behind its entry's reading
    assert took_ns[1] - took_ns[4] == 3 * (work_ns - c.ats_entry_ns)


def test_device_with_one_request_at_a_time_sends_the_next_behind_the_answer() -> None:
    pair = ats_pair(ats_outstanding=1)
    write(pair, *absent(2 * PAGE))
    receiver = pair.counters(1)
    assert (receiver.ats_groups, receiver.ats_requests_held) == (2, 1)
    c = pair.costs
    # the second waits in the device until the first is answered, not for the first's translation
    first_answered = pair.time_of("fault_destination") + group_ns(pair, 1) - request_ns(pair)
    second = first_answered + c.ats_message_ns + reader_ns(pair, 1) + handler_ns(pair, 1)
    assert pair.time_of("ack_sent") == second + c.ats_message_ns + request_ns(pair)


def test_full_queue_is_answered_at_once_and_the_group_comes_again() -> None:
    pair = ats_pair(ats_queue_entries=1)
    write(pair, *absent(2 * PAGE))
    receiver = pair.counters(1)
    assert receiver.ats_groups == 2 and receiver.ats_overflows > 0
    c = pair.costs
    first_ns = pair.time_of("fault_destination") + c.ats_lookup_ns + request_ns(pair)
    read_ns = first_ns + c.ats_message_ns + reader_ns(pair, 1)
    again_ns = 2 * c.ats_message_ns + 2 * c.ats_message_ns + c.walk_ns
    # the second page's requests, one behind the other, until the thread has read the first's
    second_ns = pair.time_of("fault_destination", 1) + c.ats_lookup_ns + request_ns(pair)
    second_ns += c.ats_message_ns
    assert receiver.ats_overflows == -(-(read_ns - second_ns) // again_ns)


# --- meanwhile ------------------------------------------------------------------------------------


def two_transfers(**values: int) -> tuple[Pair, int, int]:
    """A write to an absent page and one behind it to a page that is there: when each arrived."""
    pair = ats_pair(**values)
    slow, fast = absent(PAGE), resident(PAGE)
    ids = [pair.write(*slow), pair.write(*fast, at_ns=1)]
    arrived = [event.time_ns for event in pair.finish(slow, fast) if event.kind == ARRIVED]
    assert len(ids) == len(arrived) == 2
    return pair, max(arrived), min(arrived)


def test_buffer_lets_others_pass_and_a_pause_holds_them() -> None:
    _, slow_ns, fast_ns = two_transfers(ats_while_pending=BUFFER)
    assert slow_ns - fast_ns > 20_000
    pair, slow_ns, fast_ns = two_transfers(ats_while_pending=PAUSE)
    assert pair.counters(1).blocks_kept == 1 and pair.counters(1).blocks_dropped == 0
    assert 0 < slow_ns - fast_ns < 5_000  # the second is behind the first
    assert fast_ns > group_ns(pair, 1)


@pytest.mark.parametrize("how", [{"ats_while_pending": DROP}, {"ats_buffer_blocks": 0}])
def test_dropped_block_comes_again_by_the_timeout(how: dict[str, int]) -> None:
    pair = ats_pair(timeout_ns=100_000, **how)
    took_ns = write(pair, *absent(PAGE))
    assert (pair.counters(0).timeouts, pair.counters(1).blocks_dropped) == (1, 1)
    assert pair.counters(1).blocks_kept == pair.counters(1).blocks_behind == 0
    assert took_ns > 100_000


def test_attempt_that_comes_again_meanwhile_is_not_acknowledged_before_the_page_is_there() -> None:
    pair = ats_pair(timeout_ns=10_000)
    write(pair, *absent(PAGE))
    ready_ns = pair.time_of("fault_destination") + group_ns(pair, 1)
    assert pair.counters(1).duplicate_blocks > 0
    assert {row[0] >= ready_ns for row in pair.log("ack_sent")} == {True}


# --- the OS ---------------------------------------------------------------------------------------


def test_invalidation_waits_for_iommu_and_device_and_the_next_access_asks_again() -> None:
    pair = ats_pair()
    source, destination = resident(PAGE)
    write(pair, source, destination)
    waited_ns = lib.pw_ni_invalidate(pair.nis[0], PDID, source.first_page, 1)
    assert waited_ns == pair.costs.ats_invalidate_ns + 2 * pair.costs.ats_message_ns
    assert pair.counters(0).ats_invalidations == 1
    write(pair, source, destination, LATER_NS)
    assert pair.counters(0).ats_misses == 2 and pair.counters(0).ats_groups == 0
    assert in_engine_ns(pair, 0) == in_engine_ns(pair, 1)


def test_page_that_the_os_took_is_asked_for_again() -> None:
    pair = ats_pair()
    source, destination = absent(BLOCK)
    write(pair, source, destination)
    destination.drop(2)
    write(pair, source, destination, LATER_NS)
    receiver = pair.counters(1)
    assert (receiver.ats_groups, receiver.ats_page_requests) == (2, 5)
    assert receiver.pages_paged_in == 5 and receiver.ats_invalidations == 1


def test_lost_ack_and_damaged_block_are_repeated() -> None:
    pair = ats_pair({"lost_ack": "1:1:0:1", "packet_corruption": "1:1:0:1"})
    write(pair, *absent(4 * BLOCK))
    assert pair.counters(0).retransmitted_blocks >= 2
    pair.assert_quiet()


# --- settings -------------------------------------------------------------------------------------


def test_strategy_brings_its_unit_and_wants_a_timeout() -> None:
    config = load(["run.memory=ats", "ats.while_pending=pause", "ats.outstanding=8"], environ={})
    values = config.unit_settings()
    assert values["translation"] == lib.PW_TRANSLATION_ATS
    assert (values["ats_while_pending"], values["ats_outstanding"]) == (PAUSE, 8)
    for memory in ("ats", "backup-ring"):
        with pytest.raises(ConfigError, match=r"run.timeout = none.*set run.timeout"):
            load([f"run.memory={memory}", "run.timeout=none"], environ={})
        with pytest.raises(ConfigError, match=r"smmu.mode = 'stall'"):
            load([f"run.memory={memory}", "smmu.mode=stall"], environ={})
