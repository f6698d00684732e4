"""NP-RDMA as translation unit of whole engines: no faults, a signature page, two-sided retries."""

from engine_costs import Steps
from engine_pair import BLOCK, PAGE, PDID, Pair, absent, resident, write

from pagewire.native import lib

LATER_NS = 50_000_000


def np_pair(injected: dict[str, str | int] | None = None, **values: int) -> Pair:
    return Pair(injected=injected, translation=lib.PW_TRANSLATION_NP, **values)


def notice_ns(pair: Pair) -> int:
    """The access's answer, the comparison of versions, a message to the other end."""
    c = pair.costs
    message_ns = c.packetizer_writes * c.core_register_write_ns + c.mailbox_read_ns
    return 2 * Steps(c).latency() + c.np_check_ns + message_ns


def test_resident_pages_take_what_they_take_with_an_smmu() -> None:
    source, destination = resident(4 * BLOCK)
    pair = np_pair()
    took_ns = write(pair, source, destination)
    assert took_ns == write(Pair(lookahead_blocks=0), source, destination)
    for node in (0, 1):
        counted = pair.counters(node)
        assert counted.signature_reads == counted.signature_writes == counted.blocks_missed == 0


def test_block_on_the_signature_page_is_sent_again_when_software_is_ready() -> None:
    pair = np_pair()
    pair.trace()
    write(pair, *absent(PAGE))
    sender, receiver = pair.counters(0), pair.counters(1)
    assert sender.blocks_missed == sender.two_sided_retries == sender.retransmitted_blocks == 1
    assert receiver.signature_writes == receiver.pages_paged_in == 1
    assert sender.timeouts == sender.err_messages == 0 and sender.nacks == [0] * 8
    assert receiver.fault_interrupts == receiver.fifo_pushed == 0
    steps, costs = Steps(pair.costs), pair.costs
    ready_ns = (
        pair.time_of("block_first_packet") + notice_ns(pair)
        + costs.touch_absent_page_ns
    )  # fmt: skip
    resumed_ns = ready_ns + steps.latency() + costs.r5_ack_read_ns + steps.restart()
    assert pair.time_of("block_started", 1) == resumed_ns


def test_only_the_blocks_that_missed_are_sent_again() -> None:
    pair = np_pair(window_blocks=8)
    source, destination = resident(8 * BLOCK)
    for page in (5, 6, 21):
        destination.drop(page)
    write(pair, source, destination)
    assert pair.counters(0).retransmitted_blocks == pair.counters(0).blocks_missed == 2
    assert pair.counters(1).signature_writes == 3


def test_what_is_read_from_the_signature_page_waits_for_software() -> None:
    source, destination = resident(PAGE)
    write(np_pair(), source, destination)
    warm_ns = write(np_pair(), source, destination)
    source.drop()
    pair = np_pair()
    cold_ns = write(pair, source, destination)
    assert pair.counters(0).signature_reads == 1 and pair.counters(0).blocks_missed == 0
    assert cold_ns - warm_ns == notice_ns(pair) + pair.costs.touch_absent_page_ns


def test_page_that_went_is_noticed_each_time() -> None:
    pair = np_pair()
    source, destination = resident(BLOCK)
    for round_idx in range(3):
        destination.drop(2)
        write(pair, source, destination, round_idx * LATER_NS)
    assert pair.counters(0).blocks_missed == pair.counters(1).signature_writes == 3


def test_page_from_swap_takes_a_major_fault_more() -> None:
    took_ns = []
    for is_swapped in (False, True):
        pair = np_pair(memory_backend=lib.PW_MEMORY_MODEL, model_frame_limit_pages=4)
        source, destination = resident(PAGE)
        other, _ = resident(4 * PAGE)
        if is_swapped:
            lib.pw_memory_set(pair.memories[1], destination.first_page, 1, lib.PW_PAGE_PRESENT)
            lib.pw_memory_set(pair.memories[1], other.first_page, 4, lib.PW_PAGE_PRESENT)
        else:
            lib.pw_memory_set(pair.memories[1], destination.first_page, 1, lib.PW_PAGE_ABSENT)
        took_ns.append(write(pair, source, destination, LATER_NS))
        assert pair.counters(1).major_faults == is_swapped
    assert took_ns[1] - took_ns[0] == pair.costs.major_fault_ns


def test_lost_word_of_software_costs_the_timeout() -> None:
    pair = np_pair({"lost_nack": "1:1:0:1"})
    write(pair, *absent(PAGE))
    assert (pair.counters(0).timeouts, pair.counters(0).two_sided_retries) == (1, 0)


def test_timeout_below_the_retry_comes_first_and_the_late_word_is_stale() -> None:
    pair = np_pair(timeout_ns=4_000)
    write(pair, *absent(PAGE))
    assert pair.counters(0).timeouts > 0 and pair.counters(0).stale_answers > 0


def test_shootdown_is_of_no_consequence_to_what_is_in_memory() -> None:
    pair = np_pair()
    source, destination = resident(BLOCK)
    write(pair, source, destination)
    lib.pw_ni_invalidate(pair.nis[1], PDID, destination.first_page, 4)
    write(pair, source, destination, LATER_NS)
    assert pair.counters(0).blocks_missed == 0
