"""Impairments, site by site: what fails, when the block comes through, what is counted."""

import random
from typing import Any

import pytest
from engine_costs import Steps
from engine_pair import (
    ARRIVED,
    BLOCK,
    DONE,
    NOWHERE,
    PACKET,
    PAGE,
    PDID,
    Buffer,
    Event,
    Pair,
    Policy,
    resident,
    times,
)
from page_in_policies import twin

from pagewire.native import ffi, lib
from pagewire.native.impairments import SITES, Site

PAGE_FAULT, CORRUPT, BUFFER_FULL = 1, 4, 7
TIMEOUT_NS = 200_000


def write(
    num_bytes: int,
    injected: dict[str, str | int] | None,
    absent: bool = False,
    timeout_ns: int = TIMEOUT_NS,
    buffers: tuple[Buffer, Buffer] | None = None,
    **settings: Any,
) -> tuple[Pair, dict[int, int]]:
    """One write; its pair and the time of each end. The data are right, and nothing is left."""
    pair = Pair(injected=injected, timeout_ns=timeout_ns, **settings)
    pair.trace(50_000)
    source, destination = buffers or resident(num_bytes)
    if absent:
        destination.drop()
    return pair, times(pair.carry(source, destination))


def restarted_at(pair: Pair, attempt: int = 1) -> int:
    return pair.time_of("block_started", attempt)


def again(pair: Pair) -> int:
    """From a page's restart, translations cached, until its last byte is there."""
    steps = Steps(pair.costs)
    return 2 * steps.l1_hit() + steps.wire(PAGE) + steps.latency()


def test_the_sites_are_those_of_the_engine() -> None:
    names = ffi.typeof("enum pw_impairment_id").elements
    assert [f"PW_IMPAIRMENT_{name.upper()}" for name in SITES] == [
        names[i] for i in range(len(SITES))
    ]
    assert len(SITES) == lib.PW_IMPAIRMENT_SITES


def test_nothing_is_injected_by_default() -> None:
    pair, _ = write(BLOCK, None)
    assert pair.injected(0) == {} and pair.log("injected") == []


@pytest.mark.parametrize("text", ["1:100:7", "1:3:0", "999:1000:12345"])
def test_as_many_packets_are_lost_as_planned(text: str) -> None:
    site = Site.parse(text)
    pair = Pair(injected={"packet_loss": text}, timeout_ns=-1, window_blocks=64)
    source, destination = resident(64 * PACKET)
    for i in range(300):  # each fails, or comes through whole, without a second attempt
        pair.write(source, destination, at_ns=i * 10**6)
        pair.run()
    counts = pair.injected(0)["packet_loss"]
    assert counts["eligible"] == 300 * 64 == pair.counters(0).packets
    expected = counts["eligible"] * site.num / site.denom
    deviation = (expected * (1 - site.num / site.denom)) ** 0.5
    assert abs(counts["injected"] - expected) < 5 * deviation


def test_draws_depend_on_the_seed_and_not_on_the_order_of_arrival() -> None:
    buffers = [resident(20 * BLOCK) for _ in range(4)]
    seen = {}
    for seed in (1, 2):
        logs = set()
        for order in range(6):
            pair = Pair(3, injected={"packet_corruption": f"1:500:{seed}"})
            pair.pick = random.Random(order).choice
            for i, (source, destination) in enumerate(buffers):
                pair.write(source, destination, node=i % 2, peer=2)
            pair.run()
            logs.add(tuple(pair.injected(node)["packet_corruption"]["injected"] for node in (0, 1)))
            assert all(d.read() == s.read() for s, d in buffers)
        assert len(logs) == 1
        seen[seed] = logs.pop()
    assert seen[1] != seen[2] and min(seen[1]) > 0


def test_one_lost_packet_costs_one_timeout() -> None:
    pair, ended = write(PAGE, {"packet_loss": "1:1:0:1"})
    start = pair.time_of("block_started")
    assert restarted_at(pair) == start + TIMEOUT_NS + Steps(pair.costs).restart()
    assert ended[ARRIVED] == restarted_at(pair) + again(pair)
    counters = pair.counters(0)
    assert counters.timeouts == counters.retransmitted_blocks == 1
    assert counters.stale_answers == sum(counters.nacks) == 0
    assert pair.injected(0)["packet_loss"] == {"eligible": 32, "injected": 1}


def test_block_of_which_every_packet_is_lost_costs_one_timeout() -> None:
    pair, _ = write(PAGE, {"packet_loss": "1:1:0:16"})
    assert len(pair.log("block_first_packet")) == 1
    assert restarted_at(pair) == (
        pair.time_of("block_started") + TIMEOUT_NS + Steps(pair.costs).restart()
    )


def test_corrupted_packet_is_nack_4_and_sent_again_at_once() -> None:
    pair, ended = write(PAGE, {"packet_corruption": "1:1:0:1"})
    steps, started = Steps(pair.costs), pair.time_of("block_started")
    nacked = started + steps.walk() + steps.wire(PAGE) + 2 * steps.latency() + steps.read_mailbox()
    assert pair.time_of("nack") == nacked
    assert restarted_at(pair) == nacked + steps.restart()
    assert pair.counters(1).crc_errors == pair.counters(0).nacks[CORRUPT] == 1
    assert pair.counters(0).timeouts == 0
    # the damaged block was never translated at the destination
    assert ended[ARRIVED] == restarted_at(pair) + again(pair) - steps.l1_hit() + steps.walk()


def test_block_can_have_64_nacks_of_which_the_first_counts() -> None:
    pair, _ = write(BLOCK, {"packet_corruption": "1:1:0:64"})
    assert pair.counters(1).crc_errors == len(pair.log("nack_sent")) == 64
    counters = pair.counters(0)
    assert counters.nacks[CORRUPT] == counters.retransmitted_blocks == 1
    assert counters.stale_answers == 63
    assert counters.timeouts == 0


@pytest.mark.parametrize("num_attempts", [1, 64, 4095])
def test_block_comes_through_after_so_many_nacks_in_a_row(num_attempts: int) -> None:
    pair, _ = write(PACKET, {"packet_corruption": f"1:1:0:{num_attempts}"})
    counters = pair.counters(0)
    assert counters.nacks[CORRUPT] == counters.retransmitted_blocks == num_attempts
    assert pair.log("block_started")[-1][4] == num_attempts
    assert counters.stale_answers == counters.timeouts == 0


def test_sequence_number_wraps_while_a_page_is_awaited() -> None:
    """A page-in that takes longer than 4096 attempts: no attempt is taken for another."""
    late_ns, timeout_ns = 60_000_000, 10_000
    pair, _ = write(
        PACKET,
        {"late_tasklet": "1:1:0:1", "tasklet_late_by_ns": late_ns},
        absent=True,
        timeout_ns=timeout_ns,
        ni_fifo_depth=4,
    )
    assert pair.counters(0).retransmitted_blocks > 4096
    assert pair.counters(0).acks == 1


def test_duplicate_arrives_later_and_changes_nothing() -> None:
    _, plain = write(3 * BLOCK, None)
    pair, ended = write(3 * BLOCK, {"duplication": "1:1:0", "duplicate_after_ns": 7_000})
    assert pair.counters(1).duplicate_blocks == pair.counters(0).stale_answers == 3
    assert pair.injected(0)["duplication"] == {"eligible": 3, "injected": 3, "late_after_end": 0}
    first, second = (row[0] for row in pair.log("block_last_packet")[:2])
    assert second > first
    assert ended[ARRIVED] > plain[ARRIVED]  # the copies take the receive engine's time
    assert pair.counters(0).timeouts == pair.counters(0).retransmitted_blocks == 0


def test_duplicate_of_a_block_that_faulted_is_one_page_in_and_one_err() -> None:
    pair, _ = write(PAGE, {"duplication": "1:1:0:1"}, absent=True, timeout_ns=-1)
    assert pair.counters(0).nacks[PAGE_FAULT] == 2  # of the same attempt: the state stays NACKED
    assert pair.counters(0).err_messages == pair.counters(0).retransmitted_blocks == 1
    assert pair.counters(1).pages_paged_in == 1


def test_duplicate_can_deliver_what_the_block_itself_could_not() -> None:
    """The copy arrives when the page is in, before the ERR does: its ACK ends the block."""
    pair, _ = write(
        PAGE, {"duplication": "1:1:0:1", "duplicate_after_ns": 19_000}, absent=True, timeout_ns=-1
    )
    counters = pair.counters(0)
    assert counters.nacks[PAGE_FAULT] == counters.acks == 1
    assert counters.retransmitted_blocks == counters.err_messages == 0
    assert counters.stale_answers == 1  # the ERR, which came too late


def test_delayed_block_arrives_so_much_later() -> None:
    _, plain = write(PAGE, None)
    pair, ended = write(PAGE, {"delay": "1:1:0:1", "delay_by_ns": 123_456})
    assert {kind: at - plain[kind] for kind, at in ended.items()} == dict.fromkeys(plain, 123_456)
    assert pair.counters(0).timeouts == 0


def arrivals(pair: Pair) -> dict[int, int]:
    """When the last packet of each attempt of a page came."""
    return {row[4]: row[0] for row in pair.log("block_last_packet")}


def arrives(pair: Pair, attempt: int, delay_ns: int = 0) -> int:
    """When the attempt's last packet comes, given when it was started."""
    steps = Steps(pair.costs)
    translated = steps.l1_hit() if attempt else steps.walk()
    return restarted_at(pair, attempt) + translated + steps.wire(PAGE) + steps.latency() + delay_ns


@pytest.mark.parametrize(
    ("delay_ns", "others", "attempts", "first", "is_late"),
    [
        # so long that the ACK is late, but not the block: it comes before its retransmission
        (TIMEOUT_NS - 3_500, {}, {0, 1}, 0, False),
        # the first ACK is lost, and the transfer goes on when the delayed attempt comes
        (TIMEOUT_NS * 3 // 2, {"lost_ack": "1:1:0:1"}, {0, 1, 2}, 1, False),
        # beyond its transfer: dropped
        (2 * TIMEOUT_NS, {}, {1}, 1, True),
        (10 * TIMEOUT_NS, {}, {1}, 1, True),
    ],
)
def test_block_delayed_beyond_its_timeout_is_a_duplicate_or_dropped(
    delay_ns: int, others: dict[str, str], attempts: set[int], first: int, is_late: bool
) -> None:
    pair, ended = write(PAGE, {"delay": "1:1:0:1", "delay_by_ns": delay_ns, **others})
    counters, num_retransmitted = pair.counters(0), max(attempts)
    assert counters.timeouts == counters.retransmitted_blocks == num_retransmitted
    assert counters.acks == 1 and counters.stale_answers == (not is_late)
    assert pair.counters(1).duplicate_blocks == len(attempts) - 1
    when = {each: arrives(pair, each, 0 if each else delay_ns) for each in attempts}
    assert arrivals(pair) == when
    assert ended[ARRIVED] == when[first] + Steps(pair.costs).walk()
    counts = {"eligible": num_retransmitted + 1, "injected": 1, "late_after_end": is_late}
    assert pair.injected(0)["delay"] == counts


STALLING = {"stall": 1, "receive_buffer_blocks": 2, "outstanding_accesses": 1, "policy": 0}


def test_block_that_is_kept_beyond_its_transfer_is_as_good_as_lost() -> None:
    """Whatever its arrival would do then, in stall mode with a small receive buffer above all, must
    not be done before it: the pages it needs would be in, and the receive engine booked, in the
    future."""
    logs = []
    for injected in (
        {"delay": "1:1:0:1", "delay_by_ns": 3_000_000},
        {"packet_loss": "1:1:0:64"},
    ):
        pair, _ = write(BLOCK + PAGE, injected, absent=True, timeout_ns=5_000, **STALLING)
        logs.append([row[:3] for row in pair.log() if row[2] != "injected"])
        assert pair.counters(0).nacks[BUFFER_FULL] > 0 and pair.counters(1).accesses_stalled > 0
    assert logs[0] == logs[1]


def test_copies_that_come_after_the_end_change_nothing() -> None:
    logs = []
    for injected in (None, {"duplication": "1:1:0", "duplicate_after_ns": 3_000_000}):
        pair, _ = write(5 * BLOCK, injected, absent=True, timeout_ns=-1, **STALLING)
        logs.append([row[:3] for row in pair.log() if row[2] != "injected"])
    assert logs[0] == logs[1]
    counts, counters = pair.injected(0)["duplication"], pair.counters(0)
    attempts = counters.blocks + counters.retransmitted_blocks
    assert counts == dict.fromkeys(("eligible", "injected", "late_after_end"), attempts)
    assert counters.blocks == 5


def test_block_of_a_transfer_that_fails_meanwhile_is_dropped() -> None:
    pair = Pair(injected={"delay": "1:1:0:1", "delay_by_ns": 10**6}, timeout_ns=-1)
    source, _ = resident(2 * BLOCK)
    pair.write_raw(source.address, NOWHERE, 2 * BLOCK)
    events = pair.run(10**5)
    assert {event.kind: event.error for event in events} == dict.fromkeys(
        (DONE, ARRIVED), lib.PW_ERR_ADDRESS
    )
    assert lib.pw_ni_num_pending(pair.nis[0]) == 1  # the kept block; its source may go meanwhile
    assert pair.run() == []
    assert pair.injected(0)["delay"]["late_after_end"] == 1
    pair.assert_quiet()


def test_engine_can_go_while_blocks_are_kept_or_copies_not_answered() -> None:
    for delay, duplication in (("1:1:0", "0:1:0"), ("0:1:0", "1:1:0")):
        plan = {"delay": delay, "delay_by_ns": 10**6, "duplication": duplication}
        pair = Pair(injected={**plan, "duplicate_after_ns": 0}, timeout_ns=-1)
        source, destination = resident(4 * BLOCK)
        pair.write(source, destination)
        burst = ffi.new("pw_burst *")
        while lib.pw_ni_next_ns(pair.nis[0]) <= 10**5:
            lib.pw_ni_run(pair.nis[0], 10**5, ffi.new("pw_host_event[16]"), 16)
            while lib.pw_ni_tx_burst(pair.nis[0], burst):
                lib.pw_ni_tx_release(pair.nis[0], burst.data)
        assert lib.pw_ni_num_pending(pair.nis[0]) >= 3  # transfer, two blocks or copies
        assert lib.pw_ni_next_ns(pair.nis[0]) > 10**5


def test_copies_are_answered_when_the_host_decides_about_their_faults() -> None:
    """What the engine does with its own policy it does as well when it has to ask."""
    ends = []
    buffers = resident(3 * BLOCK)  # the same for both: logs name pages
    for how in ({"policy": Policy.BLOCK}, {"own_policy": twin(Policy.BLOCK, 4)}):
        pair, ended = write(
            3 * BLOCK, {"duplication": "1:1:0"}, absent=True, buffers=buffers, **how
        )
        ends.append((ended, pair.log()))
        assert pair.injected(0)["duplication"]["late_after_end"] == 0
    assert ends[0] == ends[1]


def test_lost_ack_is_found_by_the_timeout_and_the_block_written_once() -> None:
    pair, ended = write(PAGE, {"lost_ack": "1:1:0:1"})
    _, plain = write(PAGE, None)
    assert ended[ARRIVED] == plain[ARRIVED]
    steps = Steps(pair.costs)
    assert restarted_at(pair) == pair.time_of("block_started") + TIMEOUT_NS + steps.restart()
    assert pair.counters(0).timeouts == pair.counters(1).duplicate_blocks == 1
    assert pair.counters(0).acks == 1 and pair.counters(0).stale_answers == 0


def test_lost_nack_of_a_page_fault_does_not_matter_when_the_err_comes() -> None:
    _, plain = write(PAGE, None, absent=True)
    pair, ended = write(PAGE, {"lost_nack": "1:1:0:1"}, absent=True)
    assert ended[ARRIVED] == plain[ARRIVED]
    assert sum(pair.counters(0).nacks) == 0 and pair.counters(0).err_messages == 1
    assert pair.injected(1)["lost_nack"]["injected"] == 1


def test_lost_nack_of_a_corrupted_packet_is_found_by_the_timeout() -> None:
    pair, _ = write(PACKET, {"lost_nack": "1:1:0:1", "packet_corruption": "1:1:0:1"})
    assert pair.counters(0).timeouts == 1 and pair.counters(0).nacks[CORRUPT] == 0


def test_lost_err_is_found_by_the_timeout() -> None:
    pair, _ = write(PAGE, {"lost_err": "1:1:0:1"}, absent=True)
    steps = Steps(pair.costs)
    assert restarted_at(pair) == pair.time_of("block_started") + TIMEOUT_NS + steps.restart()
    assert pair.counters(0).err_messages == 0 and pair.counters(0).nacks[PAGE_FAULT] == 1
    assert pair.counters(1).errs_sent == pair.injected(1)["lost_err"]["injected"] == 1


def test_late_tasklet_is_late_by_the_amount() -> None:
    plain, before = write(PAGE, None, absent=True)
    pair, ended = write(
        PAGE, {"late_tasklet": "1:1:0:1", "tasklet_late_by_ns": 50_000}, absent=True
    )
    assert pair.time_of("page_in_done") - plain.time_of("page_in_done") == (
        50_000 - pair.costs.handler_ns  # the second handler no longer interrupts the tasklet
    )
    assert ended[ARRIVED] - before[ARRIVED] == 50_000 - pair.costs.handler_ns
    assert pair.counters(0).timeouts == 0


def test_full_fifo_loses_the_entry_and_the_timeout_recovers() -> None:
    pair, _ = write(PAGE, {"fifo_full": "1:1:0:16"}, absent=True)
    counters = pair.counters(1)
    assert counters.fifo_lost == pair.injected(1)["fifo_full"]["injected"] == 16
    assert pair.counters(0).timeouts == 1 and counters.fifo_pushed == 1
    assert pair.counters(0).nacks[PAGE_FAULT] == 2


@pytest.mark.parametrize(
    ("injected", "timeout_ns", "is_absent"),
    [
        # until the sequence numbers are used up
        ({"packet_corruption": "1:1:0:4096"}, -1, False),
        ({"packet_loss": "1:1:0:1000000"}, 20_000, False),
        ({"lost_ack": "1:1:0:1000000"}, 20_000, False),
        ({"packet_loss": "999999:1000000:5"}, 20_000, False),
        ({"delay": "1:1:0", "delay_by_ns": 10**9}, 20_000, False),
        # at once, when nothing sends the block again
        ({"packet_loss": "1:1:0:1"}, -1, False),
        ({"packet_loss": "1:1:0:16"}, -1, False),
        ({"lost_ack": "1:1:0:1"}, -1, False),
        ({"packet_corruption": "1:1:0:1", "lost_nack": "1:1:0:1"}, -1, False),
        ({"lost_err": "1:1:0:1"}, -1, True),
        ({"fifo_full": "1:1:0:16"}, -1, True),
    ],
)
def test_block_that_does_not_come_through_fails_and_leaves_nothing(
    injected: dict[str, str | int], timeout_ns: int, is_absent: bool
) -> None:
    pair = Pair(injected=injected, timeout_ns=timeout_ns)
    is_sent_again = timeout_ns > 0 or injected == {"packet_corruption": "1:1:0:4096"}
    source, destination = resident(PACKET if is_sent_again else PAGE)
    if is_absent:
        destination.drop()
    pair.write(source, destination)
    errors = pair.errors()
    assert errors[DONE] == lib.PW_ERR_UNRECOVERABLE
    if is_sent_again:
        assert pair.counters(0).retransmitted_blocks == 4095
    pair.assert_quiet()


def test_fatal_nack_that_was_lost_comes_again() -> None:
    pair = Pair(injected={"lost_nack": "1:1:0:3"}, timeout_ns=TIMEOUT_NS)
    source = Buffer(PAGE)
    source.touch()
    pair.write_raw(source.address, NOWHERE, PAGE, pdid=PDID)
    errors = pair.errors()
    assert errors[DONE] == lib.PW_ERR_ADDRESS
    assert pair.counters(0).timeouts == 3
    pair.assert_quiet()


def test_no_answer_is_foreseen_when_a_site_is_on() -> None:
    for injected in ({"packet_loss": "1:1000000000:1"}, {"late_tasklet": "1:2:1"}):
        pair = Pair(injected=injected)
        source, destination = resident(30 * BLOCK)
        pair.read(source, destination)
        pair.finish()
        assert pair.counters(0).lookahead_blocks == 0


def test_two_runs_with_every_site_on_give_the_same_log() -> None:
    logs = []
    source, destination = resident(12 * BLOCK)
    every: dict[str, str | int] = dict.fromkeys(SITES, "1:5:3")
    every |= {"packet_loss": "1:200:3", "packet_corruption": "1:200:3"}
    for _ in range(2):
        destination.drop()
        pair = Pair(injected=every, timeout_ns=TIMEOUT_NS, policy=Policy.BLOCK)
        pair.trace(100_000)
        pair.read(source, destination)
        events: list[Event] = pair.run()
        assert destination.read() == source.read() and len(events) == 2
        logs.append((pair.log(), events, [pair.injected(node) for node in (0, 1)]))
    assert logs[0] == logs[1]
    happened = {site for site in SITES if sum(each[site]["injected"] for each in logs[0][2])}
    assert happened == set(SITES) - {"link_loss"}  # no link loses: test_lossy_links.py


def test_a_copy_of_an_ended_read_is_dropped_when_a_waiting_read_got_its_channel() -> None:
    num_reads = 40  # more than the 32 read channels
    pair = Pair(injected={"duplication": "1:1:0", "duplicate_after_ns": 8_000}, timeout_ns=10**7)
    buffers = [resident(PAGE) for _ in range(num_reads)]
    for source, destination in buffers:
        pair.read(source, destination)
    pair.finish(*buffers)
    assert pair.counters(0).reads_queued > 0
    assert pair.counters(1).stale_frames == 0
    assert pair.counters(1).blocks_refused_protection == 0
