"""Many transfers at once: channels, the transaction table, shared engines, classes, the horizon."""

import pytest
from engine_pair import ARRIVED, BLOCK, DONE, FOREVER, PAGE, PDID, Event, Pair, absent, resident

from pagewire.native import EngineError, ffi, lib


def ends(events: list[Event], kind: int) -> dict[int, int]:
    assert all(event.error == 0 for event in events)
    return {event.id: event.time_ns for event in events if event.kind == kind}


def test_more_blocks_than_transaction_ids() -> None:
    """14-bit ids come round after 16384 blocks; an id's next holder meets no trace of the last."""
    pair = Pair(window_blocks=64)
    source, destination = resident(1024 * BLOCK)
    for i in range(17):
        pair.write(source, destination, at_ns=i * 10**9)
        ends(pair.run(), DONE)
    assert pair.counters(0).stale_answers == 0
    pair.finish((source, destination))


def test_three_into_one_share_the_receive_engine() -> None:
    num_bytes = 64 * BLOCK
    alone = Pair(4)
    buffers = [resident(num_bytes) for _ in range(3)]
    alone.write(*buffers[0], node=0, peer=3)
    (alone_ns,) = ends(alone.run(), ARRIVED).values()
    pair = Pair(4)
    for node, (source, destination) in enumerate(buffers):
        pair.write(source, destination, node=node, peer=3)
    arrived = [event.time_ns for event in pair.run() if event.kind == ARRIVED]
    engine_ns = num_bytes * 8 * 1_000 // pair.costs.receive_engine_mbps
    assert max(arrived) > 3 * engine_ns  # not faster than the engine
    assert max(arrived) < 1.05 * 3 * engine_ns + 20_000  # which never waits for long
    assert max(arrived) > 2 * alone_ns
    assert sum(pair.counters(node).timeouts for node in range(3)) == 0
    pair.finish(*buffers)


def test_one_into_three_share_the_send_engine() -> None:
    pair = Pair(4)
    buffers = [resident(64 * BLOCK) for _ in range(3)]
    for peer, (source, destination) in enumerate(buffers, 1):
        pair.write(source, destination, peer=peer)
    ends(pair.run(), DONE)
    engine_ns = 3 * 64 * BLOCK * 8 * 1_000 // pair.costs.receive_engine_mbps
    last = max(event.time_ns for event in pair.events)
    assert engine_ns < last < 1.05 * engine_ns + 20_000
    pair.finish(*buffers)


def test_both_directions_do_not_disturb_each_other_on_the_link() -> None:
    times = []
    for both in (False, True):
        pair = Pair()
        buffers = [resident(64 * BLOCK) for _ in range(2)]
        pair.write(*buffers[0], node=0, peer=1)
        if both:
            pair.write(*buffers[1], node=1, peer=0)
        events = pair.run()
        times.append(max(event.time_ns for event in events if event.kind == ARRIVED))
    assert times[0] <= times[1] < 1.02 * times[0]


def test_horizon_holds_later_events_back() -> None:
    pair = Pair()
    source, destination = resident(4 * BLOCK)
    pair.write(source, destination)
    pair.trace()
    seen: list[Event] = []
    for horizon_ns in range(0, 60_000, 500):
        seen += pair.run(horizon_ns)
        assert lib.pw_ni_next_ns(pair.nis[0]) > horizon_ns
        # the R5 may finish a job after the horizon that it began before
        started = pair.log("ack", "transfer_noticed")
        assert all(row[0] <= horizon_ns + 2_000 for row in started)
    assert len(seen) == 2
    stepped = pair.log()
    pair.finish((source, destination))
    pair = Pair()
    pair.write(source, destination)
    pair.trace()
    pair.run(FOREVER)
    assert pair.log() == stepped


def test_urgent_transfer_posted_later_overtakes_a_large_one() -> None:
    pair = Pair()
    large, small = resident(256 * BLOCK), resident(64)
    first = pair.write(*large)
    pair.run(horizon_ns=100_000)
    second = pair.write(*small, at_ns=100_000)
    end = ends(pair.run(), DONE)
    assert end[second] < end[first] / 2
    assert end[second] < 100_000 + 60_000  # two blocks are ahead of it on the link
    pair.finish(large, small)


def test_classes_go_small_before_medium_before_large() -> None:
    pair = Pair(window_blocks=4)
    sizes = {"low": 100 * BLOCK, "medium": 20 * BLOCK, "high": BLOCK}
    buffers = {name: resident(num_bytes) for name, num_bytes in sizes.items()}
    ids = {pair.write(*buffers[name]): name for name in ("low", "medium", "high")}
    end = ends(pair.run(), DONE)
    assert [ids[i] for i in sorted(end, key=end.__getitem__)] == ["high", "medium", "low"]
    pair.finish(*buffers.values())


def test_two_domains_have_their_own_channels() -> None:
    pair = Pair()
    for ni in pair.nis:
        assert lib.pw_ni_open_domain(ni, PDID + 1) == lib.PW_OK
    buffers = [resident(PAGE) for _ in range(64)]
    for i, (source, destination) in enumerate(buffers):
        pair.write(source, destination, pdid=PDID + i % 2)
    with pytest.raises(EngineError, match="FULL"):
        pair.write(*buffers[0], pdid=PDID + 1)
    pair.finish(*buffers)


def test_runs_of_the_tasklet_are_forgotten_though_no_message_follows_them() -> None:
    """One fault at the destination wakes the library's thread; those at the source never do."""
    num_turns = 300
    pair = Pair(timeout_ns=10**6)
    source, destination = absent(PAGE)
    pair.write(source, destination)
    pair.run()
    for turn in range(1, num_turns + 1):
        destination.drop()
        pair.write(destination, source, node=1, peer=0, at_ns=turn * 10**7)
        pair.run()
    assert pair.counters(1).tasklet_runs > num_turns
    pools = ffi.new("pw_ni_pools *")
    lib.pw_ni_read_pools(pair.nis[1], pools)
    assert pools.tasklet_runs <= 16
