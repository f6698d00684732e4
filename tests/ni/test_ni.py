"""One transfer through two engines: its log of times, against sums of the platform's costs."""

import pytest
from engine_costs import Steps
from engine_pair import ARRIVED, BLOCK, DONE, FETCHED, PAGE, Buffer, Pair, resident

from pagewire.native import lib

EXPOSED = lib.PW_HOST_EXPOSE_DONE


def moved(pair: Pair, source: Buffer, destination: Buffer, read: bool = False) -> dict[int, int]:
    """Move source to destination; time of each host event by kind."""
    pair.trace()
    if read:
        pair.read(source, destination)
    else:
        pair.write(source, destination)
    events = pair.run()
    assert destination.read() == source.read()
    assert all(event.error == 0 and event.num_bytes == source.num_bytes for event in events)
    pair.assert_quiet()
    assert len({event.kind for event in events}) == len(events) == 2
    return {event.kind: event.time_ns for event in events}


@pytest.mark.parametrize("read", [False, True], ids=["write", "read"])
@pytest.mark.parametrize("num_bytes", [1, 255, 256, 257, PAGE, BLOCK])
def test_single_block_takes_the_sum_of_its_steps(num_bytes: int, read: bool) -> None:
    pair = Pair()
    steps = Steps(pair.costs)
    times = moved(pair, *resident(num_bytes), read=read)
    noticed = steps.post_read() if read else steps.post_write() + steps.notice()
    started = noticed + steps.start_single()
    on_link = started + steps.walk()
    first = on_link + steps.first_packet(num_bytes) + steps.latency()
    last = on_link + steps.wire(num_bytes) + steps.latency()
    written = last + steps.walk()
    acknowledged = written + steps.acknowledged()
    stream = 2**31 if read else 0
    assert pair.log() == sorted(
        [
            (noticed, 0, "read_request", 1, stream)
            if read
            else (noticed, 0, "transfer_noticed", 0, num_bytes),
            (started, 0, "block_started", 0, 0),
            (first, 1, "block_first_packet", 0, 0),
            (last, 1, "block_last_packet", 0, 0),
            (written, 1, "ack_sent", 0, 0),
            (written, 1, "notified", stream, num_bytes),
            (acknowledged, 0, "ack", 0, 0),
            (acknowledged, 0, "transfer_done", stream, num_bytes),
        ]
    )
    assert times == (
        {FETCHED: written, EXPOSED: acknowledged}
        if read
        else {ARRIVED: written, DONE: acknowledged}
    )


def test_base_latency_is_about_4_us() -> None:
    pair = Pair()
    moved(pair, *resident(1))
    assert 3_500 < pair.time_of("block_first_packet") < 4_500  # [PART 4.1, Fig. 10]


def test_hardware_latency_is_below_1_us() -> None:
    steps = Steps(Pair().costs)
    assert steps.latency() + steps.first_packet(256) < 1_000  # [PART 4.1]


def test_large_transfer_uses_the_link_well() -> None:
    pair = Pair()
    num_bytes = 9 * 2**20 + 123  # also longer than one walk's snapshot
    times = moved(pair, *resident(num_bytes, 5, 77))
    gbps = num_bytes * 8 / times[ARRIVED]
    assert 13.6 < gbps < 17 * 256 / 288  # about 1.7 GB/s [R5 5.2]


@pytest.mark.parametrize("source_skew", [0, 1, 255, 4095, 10_001])
@pytest.mark.parametrize("destination_skew", [0, 3, 4095, 16_383])
@pytest.mark.parametrize("num_bytes", [1, 257, PAGE, BLOCK, 40_001])
def test_unaligned_transfer_is_cut_at_the_destination(
    num_bytes: int, source_skew: int, destination_skew: int
) -> None:
    pair = Pair()
    source, destination = resident(num_bytes, source_skew, destination_skew)
    before = destination.around()
    moved(pair, source, destination)
    first = min(num_bytes, BLOCK - destination_skew % BLOCK)
    num_blocks = 1 + -(-(num_bytes - first) // BLOCK)
    assert pair.counters(0).blocks == pair.counters(0).acks == num_blocks
    assert destination.around() == before


@pytest.mark.parametrize("read", [False, True], ids=["write", "read"])
def test_nothing_to_move_still_notifies(read: bool) -> None:
    pair = Pair()
    steps, c = Steps(pair.costs), pair.costs
    times = moved(pair, *resident(0), read=read)
    noticed = steps.post_read() if read else steps.post_write() + steps.notice()
    told = noticed + c.r5_completion_message_ns + steps.latency()
    assert times == ({FETCHED: told, EXPOSED: noticed} if read else {ARRIVED: told, DONE: noticed})
    assert pair.counters(0).blocks == 0


def test_to_itself_a_node_needs_no_hop() -> None:
    pair = Pair(1)
    steps, c = Steps(pair.costs), pair.costs
    steps.byte_ps_1000 = 8_000_000_000 // c.link_mbps  # nor the link's line code [R5 5.1]
    pair.trace()
    source, destination = resident(PAGE)
    pair.write(source, destination, peer=0)
    (arrived,) = (event for event in pair.run() if event.kind == ARRIVED)
    started = steps.post_write() + steps.notice() + steps.start_single()
    assert arrived.time_ns == (
        started + 2 * steps.walk() + steps.wire(PAGE) + steps.latency() - c.hop_ns
    )
    assert destination.read() == source.read()
    pair.assert_quiet()


def test_between_qfdbs_hops_and_slower_links_count() -> None:
    pair = Pair(9)
    steps, c = Steps(pair.costs), pair.costs
    times, buffers = {}, []  # kept, so that no page is in the TLB already
    for peer in (1, 4, 5, 8):
        source, destination = resident(PAGE)
        buffers += [source, destination]
        at_ns = 10**6 * peer
        pair.write(source, destination, peer=peer, at_ns=at_ns)
        (arrived,) = (event for event in pair.run() if event.kind == ARRIVED)
        times[peer] = arrived.time_ns - at_ns
        assert destination.read() == source.read()
    slower = Steps(pair.costs)
    slower.byte_ps_1000 = 8_000_000_000_000 // (c.link_between_mbps * c.link_coding_permille)
    assert times[4] == times[1] + slower.wire(PAGE) - steps.wire(PAGE)
    assert times[5] == times[4] + c.hop_ns  # the links of a QFDB are at its first node
    assert times[8] == times[4]  # three QFDBs in a ring: both others are next to the first


def test_translation_cached_by_an_earlier_transfer_saves_both_walks() -> None:
    pair = Pair()
    source, destination = resident(PAGE)
    first = moved(pair, source, destination)[DONE]
    pair.write(source, destination, at_ns=10**6)
    (again,) = (event.time_ns - 10**6 for event in pair.run() if event.kind == DONE)
    steps = Steps(pair.costs)
    assert first - again == 2 * (steps.walk() - steps.l1_hit())


def test_second_level_hit_costs_its_own_clocks() -> None:
    pair = Pair(l1_sets=1, l1_ways=1)
    source, destination = resident(2 * PAGE)
    moved(pair, source, destination)  # two pages through an L1 TLB of one entry
    c, steps = pair.costs, Steps(pair.costs)
    l2_hit = -(-c.tlb_l2_hit_clocks * c.smmu_clock_ps // 1000)
    pair.trace()
    pair.write(source, destination, at_ns=10**6, num_bytes=1)
    pair.run()
    started, last = pair.time_of("block_started"), pair.time_of("block_last_packet")
    assert last == started + l2_hit + steps.wire(1) + steps.latency()
    assert pair.time_of("ack_sent") == last + l2_hit
