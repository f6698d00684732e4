"""Page faults at either end: who recovers, when, and what it costs [PART 4.4, 5.2; PSI 3.2]."""

import itertools

import pytest
from engine_costs import Steps
from engine_pair import ARRIVED, BLOCK, DONE, PAGE, Pair, Policy, absent, resident, times

from pagewire.native import lib

UNRECOVERABLE = lib.PW_ERR_UNRECOVERABLE
PAGE_FAULT = 1


def test_write_to_an_absent_page_takes_38_us() -> None:
    """Step by step in test_page_in.py; here what is counted of 16 packets and two handlers."""
    pair = Pair()
    arrived = times(pair.carry(*absent(PAGE)))[ARRIVED]
    assert 0.9 * 38_000 < arrived < 1.1 * 38_000  # [PART 5.2]
    c = pair.costs
    source_counters, counters = pair.counters(0), pair.counters(1)
    entry_ns = c.tasklet_other_ns + c.netlink_ns
    page_in_ns = c.page_in_fixed_ns + c.page_in_page_ns
    assert counters.page_in_ns == 2 * c.handler_ns + entry_ns + page_in_ns
    assert counters.fifo_pushed == 1 and counters.fifo_filtered == 15
    assert counters.fault_interrupts == 2 and counters.faults_multi == 14
    assert counters.interrupts_in_tasklet == 1
    assert source_counters.nacks[PAGE_FAULT] == source_counters.err_messages == 1
    assert source_counters.timeouts == source_counters.stale_answers == 0


@pytest.mark.parametrize(
    "policy,page_ins,errs",
    # 16 pages in 4 blocks. page: an entry for each page. block: the first entry brings the block's
    # pages in, the other three find them present. all: the first brings everything in, and only the
    # two blocks that were under way have faulted. The ERR follows the tasklet: one a block.
    [(Policy.PAGE, 16, 4), (Policy.BLOCK, 4, 4), (Policy.ALL, 1, 2)],
)
def test_policy_brings_in_its_range(policy: int, page_ins: int, errs: int) -> None:
    pair = Pair(policy=policy)
    pair.trace()
    pair.carry(*absent(4 * BLOCK))
    counters = pair.counters(1)
    assert counters.pages_paged_in == 16
    useful = [row for row in pair.log("page_in_done") if row[4] > 0]
    assert len(useful) == page_ins
    assert counters.tasklet_entries == counters.page_ins_present + page_ins
    assert counters.errs_sent == pair.counters(0).retransmitted_blocks == errs
    first_asked = pair.log("tasklet_entry")[0][4]
    assert first_asked == {Policy.PAGE: 1, Policy.BLOCK: 4, Policy.ALL: 16}[policy]
    assert pair.counters(0).acks == 4


@pytest.mark.parametrize("policy", Policy)
def test_one_absent_page_of_a_block_costs_one_nack_and_one_err(policy: int) -> None:
    pair = Pair(policy=policy)
    source, destination = resident(BLOCK)
    destination.drop(2)
    pair.carry(source, destination)
    counters = pair.counters(1)
    assert counters.pages_paged_in == counters.errs_sent == counters.tasklet_entries == 1
    assert pair.counters(0).nacks[PAGE_FAULT] == pair.counters(0).retransmitted_blocks == 1


def test_source_fault_without_a_timeout_ends_in_an_error_on_both_sides() -> None:
    pair = Pair(timeout_ns=-1)
    source, destination = resident(3 * BLOCK)
    source.drop(5)
    pair.write(source, destination)
    errors = {(event.node, event.kind): event.error for event in pair.run()}
    assert errors == {(0, DONE): UNRECOVERABLE, (1, ARRIVED): UNRECOVERABLE}
    assert pair.counters(0).transfers_failed == 1
    pair.assert_quiet()
    for _ in range(40):  # both live on, with every channel
        source, destination = resident(BLOCK)
        pair.carry(source, destination, at_ns=10**6)


@pytest.mark.parametrize("policy", Policy)
def test_faults_at_both_ends_recover(policy: int) -> None:
    pair = Pair(policy=policy)
    source, destination = resident(5 * BLOCK, 100, 5000)
    before = destination.around()
    expected = bytearray(source.read())
    for page in (0, 3, 9, 19):
        source.drop(page)
        first = max(0, page * PAGE - source.address % PAGE)
        end = min((page + 1) * PAGE - source.address % PAGE, len(expected))
        expected[first:end] = bytes(end - first)
    destination.fill(b"\xff" * destination.num_bytes)
    for page in (4, 5, 18):
        destination.drop(page)
    pair.write(source, destination)
    pair.finish()
    assert destination.read() == expected
    assert destination.around()[0] == before[0]
    assert pair.counters(0).timeouts > 0 and pair.counters(1).errs_sent > 0


def test_err_can_come_before_the_timeout_of_a_block_that_faulted_at_both_ends() -> None:
    pair = Pair()
    source, destination = resident(BLOCK)
    source.drop(3)
    destination.drop(0)
    pair.write(source, destination)
    assert times(pair.finish())[ARRIVED] < 100000
    assert pair.counters(0).timeouts == 0 and pair.counters(0).err_messages == 1
    assert pair.counters(0).nacks[PAGE_FAULT] == 0  # a block that lacks packets never ends


@pytest.mark.parametrize("timeout_ns", [-1, 1_000_000])
def test_destination_faults_need_no_timeout_when_errs_come(timeout_ns: int) -> None:
    pair = Pair(timeout_ns=timeout_ns, policy=Policy.BLOCK)
    pair.carry(*absent(10 * BLOCK))
    assert pair.counters(0).timeouts == 0
    assert pair.counters(0).nacks[PAGE_FAULT] == pair.counters(0).err_messages == 10


def round_trip(pair: Pair) -> int:
    """From the start of a page's block to its acknowledgement, all translations cold."""
    steps = Steps(pair.costs)
    return 2 * steps.walk() + steps.wire(PAGE) + 2 * steps.latency()


def test_timeout_below_the_round_trip_sends_twice_and_writes_once() -> None:
    cold = round_trip(Pair())
    for timeout_ns, early in ((cold - 1, 1), (cold, 0)):
        pair = Pair(
            timeout_ns=timeout_ns
        )  # long enough for the second attempt, whose pages are cached
        pair.trace()
        pair.carry(*resident(PAGE))
        source_counters, counters = pair.counters(0), pair.counters(1)
        assert source_counters.timeouts == source_counters.retransmitted_blocks == early
        assert counters.duplicate_blocks == source_counters.stale_answers == early
        assert source_counters.acks == len(pair.log("notified")) == 1


def test_timeout_that_no_answer_can_beat_fails_instead_of_going_on_for_ever() -> None:
    pair = Pair(timeout_ns=1_000)
    source, destination = resident(PAGE)
    pair.write(source, destination)
    errors = pair.errors()
    assert errors == {DONE: UNRECOVERABLE, ARRIVED: 0}  # it did arrive; the source cannot know
    assert destination.read() == source.read()
    pair.assert_quiet()


@pytest.mark.parametrize("num_sources", [1, 3])
@pytest.mark.parametrize("timeout_ns", [10_000, 100_000, 1_000_000])
def test_timer_does_not_run_while_a_block_waits_in_its_ni(
    num_sources: int, timeout_ns: int
) -> None:
    """Blocks queue for the link and for the receive engine for longer than the timeout; were the
    timers to run, each copy would make the queue longer and no answer would be in time."""
    pair = Pair(num_sources + 1, timeout_ns=timeout_ns)
    buffers = [resident(8 * BLOCK) for _ in range(30 * num_sources)]
    for i, (source, destination) in enumerate(buffers):
        pair.write(source, destination, node=i % num_sources, peer=num_sources)
    assert len(times(pair.finish(*buffers))) == 2
    timeouts = sum(pair.counters(node).timeouts for node in range(num_sources))
    # A timer may run out in the microsecond between the block's leaving and its answer: one in a
    # hundred blocks is generous for 100 us and more; 10 us is close to the block's own round trip.
    num_blocks = 8 * len(buffers)
    assert timeouts <= (num_blocks if timeout_ns == 10_000 else num_blocks // 100)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_full_fifo_loses_entries_and_the_timeout_recovers(depth: int) -> None:
    pair = Pair(3, ni_fifo_depth=depth, window_blocks=4)
    buffers = [absent(8 * BLOCK) for _ in range(4)]
    for i, (source, destination) in enumerate(buffers):
        pair.write(source, destination, node=i % 2, peer=2)
    pair.finish(*buffers)
    assert pair.counters(2).fifo_lost > 0
    assert pair.counters(0).timeouts + pair.counters(1).timeouts > 0


def test_ideal_memory_never_faults() -> None:
    pair = Pair(ideal=1)
    source, destination = absent(4 * BLOCK)
    source.drop(2)
    expected = source.read()
    source.drop(2)
    pair.write(source, destination)
    times(pair.run())
    assert destination.read() == expected
    assert pair.counters(1).translation_faults_destination == 0
    assert pair.counters(0).translation_faults_source == 0


def test_block_that_arrives_before_a_page_is_in_faults_in_virtual_time() -> None:
    """The host's page is there at once; the second write is earlier in virtual time than its
    page-in."""
    pair = Pair()
    source, destination = absent(PAGE)
    pair.write(source, destination, num_bytes=16)
    pair.write(source, destination, num_bytes=16)
    pair.finish()
    assert pair.counters(0).nacks[PAGE_FAULT] == 2
    assert pair.counters(1).pages_paged_in == pair.counters(1).page_ins_present == 1


def test_fault_does_not_wait_for_one_that_is_later_in_virtual_time() -> None:
    """A rank that lags behind may be physically last: its fault is served when it happens."""
    arrived = []
    for with_later in (False, True):
        pair = Pair(3)
        buffers = [absent(PAGE), absent(PAGE)]
        if with_later:
            pair.write(*buffers[0], node=0, peer=2, at_ns=50_000_000)
            times(pair.run())
        pair.write(*buffers[1], node=1, peer=2, at_ns=1_000_000)
        arrived.append(times(pair.run())[ARRIVED])
        assert pair.counters(2).faults_multi == 14 * (1 + with_later)
        pair.assert_quiet()
    assert arrived[0] == arrived[1]


def test_short_timeout_does_not_bury_the_tasklet_under_source_faults() -> None:
    """A page that the tasklet has in hand is not put before it again at each retry."""
    pair = Pair(timeout_ns=5_000, window_blocks=1, policy=Policy.BLOCK)
    source, destination = absent(17 * BLOCK, "source")
    pair.write(source, destination)
    assert times(pair.finish())[DONE] < 17 * 80000
    assert pair.counters(0).tasklet_entries < 8 * 17


@pytest.mark.parametrize("policy", Policy)
def test_faults_at_both_ends_of_a_loopback_recover_without_hupcf(policy: int) -> None:
    pair = Pair(1, hupcf=0, policy=policy, timeout_ns=100_000)
    buffers = [absent(5 * BLOCK) for _ in range(4)]
    for source, destination in buffers:
        source.drop(3)
        pair.write(source, destination, node=0, peer=0)
    pair.finish(*buffers)
    assert pair.counters(0).accesses_blocked > 0
    assert pair.counters(0).pages_paged_in == 4 * 21


def test_interleaved_packets_of_two_senders_log_pages_twice_and_the_driver_knows_them() -> None:
    pair = Pair(3)
    pair.trace()
    buffers = [absent(PAGE), absent(PAGE)]
    for node, (source, destination) in enumerate(buffers):
        pair.write(source, destination, node=node, peer=2)
    pair.finish(*buffers)
    first, second = (destination.first_page for _, destination in buffers)
    packets = [row[3] for row in pair.log("fault_destination")]
    # the second block's entry is new at its first packet, and after each of the first block's
    # packets
    starts = sum(
        packet == second and before == first for before, packet in itertools.pairwise(packets)
    )
    own = pair.counters(2)
    assert starts > 1
    assert own.fifo_pushed == 1 + starts
    assert own.fifo_duplicates == starts - 1
    assert own.tasklet_entries == own.fifo_pushed and own.errs_sent == own.pages_paged_in == 2
