"""ni.interleave = packet: two blocks that are issued together share the link packet by packet."""

import itertools

import pytest
from engine_costs import Steps
from engine_pair import BLOCK, PACKET, PAGE, Pair, absent, resident, written
from hypothesis import given, settings
from hypothesis import strategies as st
from test_properties import JOBS, SETTINGS, Job, prepare, run

from pagewire.native import lib

PACKETS = BLOCK // PACKET
PAGE_PACKETS = PAGE // PACKET
PAGE_FAULT = 1


def transfer(num_bytes: int, interleave: int, **values: int) -> Pair:
    """A write of which every page of the destination is absent; its data are checked."""
    return written(*absent(num_bytes), interleave=interleave, **values)[0]


def slots(num_first: int, num_second: int, head: int) -> tuple[list[int], list[int]]:
    """The packets' places on the link, one after the other as the link sends them."""
    order = ["a"] * head
    left = {"a": num_first - head, "b": num_second}
    turn = "a"
    while left["a"] or left["b"]:
        if not left[turn]:
            turn = "b" if turn == "a" else "a"
        order.append(turn)
        left[turn] -= 1
        turn = "b" if turn == "a" else "a"
    first = [place for place, block in enumerate(order) if block == "a"]
    return first, [place for place, block in enumerate(order) if block == "b"]


@pytest.mark.parametrize("second_bytes", [BLOCK, PAGE, PACKET])
def test_faults_of_a_pair_come_in_turn(second_bytes: int) -> None:
    pair = transfer(BLOCK + second_bytes, 1, policy=1)
    steps = Steps(pair.costs)
    starts = pair.log("block_started")[:2]
    # both have a walk at the source before them
    wait_ns = starts[1][0] - starts[0][0]
    head = next(k for k in range(PACKETS) if steps.packet_offset(k) >= wait_ns)
    assert 0 < head < PACKETS
    first_packet = starts[0][0] + steps.walk() + steps.first_packet(BLOCK) + steps.latency()
    places = slots(PACKETS, second_bytes // PACKET, head)
    faults = pair.log("fault_destination")
    blocks = [row[4] for row in faults]
    ids = list(dict.fromkeys(blocks))
    for block, own in enumerate(places):
        times = [row[0] for row in faults if row[4] == ids[block]]
        assert times == [first_packet + steps.walk() + steps.packet_offset(at) for at in own]
    # two changes a packet of the second block, until the first is out of packets
    in_turn = sum(a != b for a, b in itertools.pairwise(blocks))
    assert in_turn == min(2 * (second_bytes // PACKET), 2 * (PACKETS - head) - 1)
    source, counters = pair.counters(0), pair.counters(1)
    assert source.nacks[PAGE_FAULT] == source.err_messages == source.retransmitted_blocks == 2
    assert counters.errs_sent == 2
    nacks = sorted(row[0] for row in pair.log("nack_sent"))
    ends = sorted(first_packet + steps.walk() + steps.packet_offset(own[-1]) for own in places)
    # the pair ends with the link, which rounds up at each block
    assert nacks == pytest.approx(ends, abs=4)


def test_entries_of_a_pair_with_every_page_absent() -> None:
    """Each change from one block's packet to the other's is an entry; without, one a page."""
    alone, pair = (transfer(2 * BLOCK, interleave).counters(1) for interleave in (0, 1))
    assert alone.fifo_pushed == 8
    assert alone.fifo_pushed + alone.fifo_filtered == 2 * PACKETS
    assert pair.fifo_pushed + pair.fifo_filtered == 2 * PACKETS
    assert pair.fifo_pushed > PACKETS
    assert pair.errs_sent == alone.errs_sent == 2


def test_a_fifo_that_remembers_two_blocks_logs_a_page_once() -> None:
    """PSI 5.2 (3)."""
    counters = transfer(2 * BLOCK, 1, ni_fifo_remembers=2).counters(1)
    assert counters.fifo_pushed == counters.tasklet_entries == 8
    assert counters.fifo_filtered == 2 * PACKETS - 8 and counters.fifo_duplicates == 0


@pytest.mark.parametrize("variant", [lib.PW_DRIVER_PART, lib.PW_DRIVER_PSI])
def test_driver_knows_the_duplicates_of_a_pair(variant: int) -> None:
    """Both variants remember two: each page is brought in once."""
    counters = transfer(2 * BLOCK, 1, driver_variant=variant).counters(1)
    assert counters.pages_paged_in == 8
    assert counters.fifo_duplicates == counters.tasklet_entries - 8
    assert counters.tasklet_entries == counters.fifo_pushed


@pytest.mark.parametrize("variant", [lib.PW_DRIVER_PART, lib.PW_DRIVER_PSI])
def test_page_that_is_taken_away_before_the_retransmission_comes_in_again(variant: int) -> None:
    """A driver that took it for a duplicate would let the block fault for ever."""
    pair = Pair(driver_variant=variant)
    pair.trace()
    source, destination = absent(PAGE)
    pair.write(source, destination)
    pair.run(30_000)
    assert len(pair.log("page_in_done")) == 1 and not pair.log("err")
    destination.drop()
    assert [event.error for event in pair.run()] == [0, 0]
    assert destination.read() == source.read()
    assert len(pair.log("page_in_done")) == 2 and pair.counters(1).fifo_duplicates == 0
    pair.assert_quiet()


@pytest.mark.parametrize("variant", [lib.PW_DRIVER_PART, lib.PW_DRIVER_PSI])
@pytest.mark.parametrize("policy", [0, 1, 2])
def test_64_kb_log_pages_more_often_and_arrive_whole(variant: int, policy: int) -> None:
    alone, pair = (
        transfer(4 * BLOCK, interleave, driver_variant=variant, policy=policy).counters(1)
        for interleave in (0, 1)
    )
    assert pair.fifo_pushed > alone.fifo_pushed
    assert pair.fifo_duplicates > alone.fifo_duplicates
    assert pair.pages_paged_in == alone.pages_paged_in == 16


@pytest.mark.parametrize("num_bytes", [PACKET, PAGE, BLOCK, BLOCK + 1, 3 * BLOCK - 77, 20 * BLOCK])
@pytest.mark.parametrize("values", [{}, {"hupcf": 0}, {"window_blocks": 5}])
def test_without_faults_nothing_changes(num_bytes: int, values: dict[str, int]) -> None:
    source, destination = resident(num_bytes)
    logs = []
    for interleave in (0, 1):
        pair = Pair(interleave=interleave, **values)
        pair.trace()
        pair.write(source, destination)
        pair.read(source, destination)
        logs.append((pair.run(), pair.log()))
    assert logs[0] == logs[1]


def test_one_block_of_a_pair_is_refused_the_other_arrives() -> None:
    for absent_page in (1, 5):
        pair = Pair(interleave=1)
        source, destination = resident(2 * BLOCK)
        destination.drop(absent_page)
        pair.carry(source, destination)
        assert pair.counters(0).nacks[PAGE_FAULT] == pair.counters(0).retransmitted_blocks == 1
        assert pair.counters(1).fifo_pushed == 1
        assert pair.counters(1).fifo_filtered == PAGE_PACKETS - 1
        pair.assert_quiet()


def test_physical_order_of_two_senders_does_not_matter_to_the_data() -> None:
    logs = []
    for pick in (0, 0, -1):
        pair = Pair(3, interleave=1)
        pair.pick = lambda ready, pick=pick: ready[pick]
        pair.trace()
        buffers = [resident(4 * BLOCK) for _ in range(2)]
        for node, (source, destination) in enumerate(buffers):
            destination.drop()
            # far apart: nothing of one meets the other
            pair.write(source, destination, node=node, peer=2, at_ns=node * 50_000_000)
        pair.run()
        assert all(destination.read() == source.read() for source, destination in buffers)
        base = [row[:3] for row in pair.log() if row[2] in ("ack", "nack", "err", "err_sent")]
        logs.append(base)
    assert logs[0] == logs[1] == logs[2]


def test_hupcf_0_terminates_packets_of_present_pages_of_the_other_block() -> None:
    pair = Pair(interleave=1, hupcf=0)
    source, destination = resident(2 * BLOCK)
    destination.drop(0)
    pair.carry(source, destination)
    assert pair.counters(1).accesses_blocked > 0
    assert pair.counters(0).nacks[PAGE_FAULT] >= 2
    pair.assert_quiet()


def test_pairs_are_in_one_burst_whatever_the_host_takes() -> None:
    """Eight blocks fill a burst: a pair that does not fit goes into the next one whole."""
    source, destination = resident(32 * BLOCK)
    logs = []
    for at_once in (False, True):
        destination.touch()
        destination.drop()
        pair = Pair(interleave=1, window_blocks=9)
        pair.trace(100_000)
        pair.write(source, destination)
        if at_once:
            for horizon_ns in range(0, 3_000_000, 1_000):
                pair.run(horizon_ns)
        pair.run()
        assert destination.read() == source.read()
        logs.append(pair.log())
    assert logs[0] == logs[1]


def allowed(values: dict[str, int]) -> dict[str, int]:
    return values | {"interleave": 1, "stall": 0}


@given(JOBS, SETTINGS.map(allowed), st.one_of(st.none(), st.integers(0, 999)))
@settings(max_examples=40, deadline=None)
def test_data_arrive_once_with_interleaving(
    jobs: list[Job], values: dict[str, int], order: int | None
) -> None:
    recoverable = {"timeout_ns": 100_000, "nack_cancels_timer": 0}
    pair = Pair(3, **values | recoverable)
    buffers = [prepare(job, seed) for seed, job in enumerate(jobs)]
    events = run(pair, jobs, buffers, order, 0)
    assert all(event.error == 0 for event in events)
    assert len(events) == 2 * len(jobs)
    for _, destination, expected in buffers:
        assert destination.map[:] == expected
    counters = [pair.counters(node) for node in range(3)]
    assert sum(each.acks for each in counters) == sum(each.blocks for each in counters)
    assert sum(each.malformed_frames for each in counters) == 0
    pair.assert_quiet()
