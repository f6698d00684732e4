"""The three implementations of a block's timeout, to the nanosecond."""

import pytest
from engine_costs import Steps
from engine_pair import BLOCK, PAGE, Pair, absent, resident
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import lib

ABSOLUTE, TICK, COUNTDOWN = lib.PW_TIMEOUT_ABSOLUTE, lib.PW_TIMEOUT_TICK, lib.PW_TIMEOUT_COUNTDOWN
US, MS = 1_000, 1_000_000


def deadline(implementation: int, start_ns: int, timeout_ns: int, tick_ns: int) -> int:
    """When the timer of a block runs out that was started at start_ns."""
    if implementation == ABSOLUTE:
        return start_ns + timeout_ns
    num_ticks = -(-timeout_ns // tick_ns)
    return (start_ns // tick_ns + num_ticks) * tick_ns


def starts(
    implementation: int, timeout_ns: int, tick_ns: int, at_ns: int
) -> tuple[Pair, list[int]]:
    """A page's write to an absent page that no ERR recovers: when its block was started."""
    pair = Pair(
        err_enabled=0,
        timeout_implementation=implementation,
        timeout_ns=timeout_ns,
        tick_ns=tick_ns,
    )
    pair.trace()
    pair.carry(*absent(PAGE), at_ns=at_ns)
    assert pair.counters(0).timeouts == pair.counters(0).retransmitted_blocks == 1
    return pair, [row[0] for row in pair.log("block_started")]


CASES = [
    (timeout_ns, tick_ns)
    for timeout_ns in (100 * US, 500 * US, MS, 1_500 * US, 25 * MS, 200 * MS)
    for tick_ns in (100 * US, MS)
]


@pytest.mark.parametrize("implementation", [ABSOLUTE, TICK, COUNTDOWN])
@pytest.mark.parametrize("timeout_ns,tick_ns", CASES)
def test_expired_block_is_started_again(implementation: int, timeout_ns: int, tick_ns: int) -> None:
    pair, (first, second) = starts(implementation, timeout_ns, tick_ns, at_ns=12_345_678)
    expires = deadline(implementation, first, timeout_ns, tick_ns)
    num_ticks = 0
    if implementation == COUNTDOWN:  # the head is decremented at the last tick too
        expires += pair.costs.r5_queue_op_ns
        num_ticks = -(-timeout_ns // tick_ns)
    assert second == expires + Steps(pair.costs).restart()
    counted = pair.counters(0).countdown_decrements
    assert counted - num_ticks in (0, 1)  # the second attempt may see a tick too
    assert implementation == COUNTDOWN or counted == 0


@pytest.mark.parametrize("peer", [1, 4])
@pytest.mark.parametrize("timeout_from", [lib.PW_TIMEOUT_AUTO, lib.PW_TIMEOUT_MEASURED])
def test_auto_comes_from_distance_and_rate(peer: int, timeout_from: int) -> None:
    """Node 4 is the first of the next QFDB: one hop too, over a slower link. Where round trips
    are measured, it is what holds before the first one."""
    pair = Pair(5, err_enabled=0, timeout_from=timeout_from)
    pair.trace()
    c, steps = pair.costs, Steps(pair.costs)
    source, destination = absent(PAGE)
    pair.write(source, destination, peer=peer)
    pair.finish((source, destination))
    first, second = (row[0] for row in pair.log("block_started")[:2])
    mbps = c.link_mbps if peer == 1 else c.link_between_mbps
    byte_ps_1000 = 8_000_000_000_000 // (mbps * c.link_coding_permille)
    packet_ps = (256 + c.packet_header_bytes) * byte_ps_1000 // 1000
    window_ns = 2 * (64 * packet_ps // 1000)
    expected = 4 * (steps.start() + window_ns + 2 * steps.latency() + steps.read_mailbox())
    assert second == first + expected + steps.restart()


@given(
    st.sampled_from([TICK, COUNTDOWN]),
    st.integers(50 * US, 3 * MS),
    st.sampled_from([50 * US, 100 * US, 333_333, MS]),
    st.integers(0, 5 * MS),
)
@settings(max_examples=60, deadline=None)
def test_ticks_are_up_to_one_early(
    implementation: int, timeout_ns: int, tick_ns: int, at_ns: int
) -> None:
    """R5 4.2: it expires when the counter is further by the timeout."""
    timeout_ns += tick_ns  # the page is in before it can expire
    pair, (first, second) = starts(implementation, timeout_ns, tick_ns, at_ns)
    waited = second - first - Steps(pair.costs).restart()
    waited -= pair.costs.r5_queue_op_ns if implementation == COUNTDOWN else 0
    num_ticks = -(-timeout_ns // tick_ns)
    assert (num_ticks - 1) * tick_ns < waited <= num_ticks * tick_ns


@pytest.mark.parametrize("implementation", [ABSOLUTE, TICK, COUNTDOWN])
def test_blocks_that_expire_together_go_in_the_lists_order(implementation: int) -> None:
    pair = Pair(
        err_enabled=0, timeout_implementation=implementation, window_blocks=8, timeout_ns=MS
    )
    pair.trace()
    c, steps = pair.costs, Steps(pair.costs)
    pair.carry(*absent(8 * BLOCK))
    rows = pair.log("block_started")
    first, again = rows[:8], rows[8:16]
    assert [row[3] for row in again] == [row[3] for row in first]
    if implementation == ABSOLUTE:
        assert again[0][0] == first[0][0] + MS + steps.restart()
        return
    # Started within one tick, they expire at one tick; countdown first decrements the head.
    expire = MS + (c.r5_queue_op_ns if implementation == COUNTDOWN else 0)
    # All eight are read as expired, then each is sent again: the last block with its notification.
    assert [row[0] for row in again] == [expire + (i + 1) * steps.restart() for i in range(8)]


def test_countdown_takes_r5_time_at_each_tick_for_the_head() -> None:
    """A page's write that is noticed at a tick waits until the list's head is decremented."""
    noticed = {}
    for implementation in (TICK, COUNTDOWN):
        pair = Pair(
            err_enabled=0,
            timeout_implementation=implementation,
            window_blocks=8,
            timeout_ns=10 * MS,
        )
        pair.trace()
        steps = Steps(pair.costs)
        blocks, page = absent(8 * BLOCK), resident(PAGE)
        pair.write(*blocks)
        pair.write(*page, at_ns=3 * MS - steps.post_write() + 1)
        pair.run()
        noticed[implementation] = pair.log("transfer_noticed")[1][0]
        assert page[0].read() == page[1].read()
        pair.assert_quiet()
    assert noticed[TICK] == 3 * MS + 1 + steps.notice()
    assert noticed[COUNTDOWN] == 3 * MS + pair.costs.r5_queue_op_ns + steps.notice()


@pytest.mark.parametrize("implementation", [ABSOLUTE, TICK, COUNTDOWN])
def test_no_timeout_is_no_timer(implementation: int) -> None:
    pair = Pair(timeout_ns=-1, timeout_implementation=implementation)
    pair.carry(*absent(5 * BLOCK))
    assert pair.counters(0).timeouts == pair.counters(0).countdown_decrements == 0


@pytest.mark.parametrize("implementation", [TICK, COUNTDOWN])
@pytest.mark.parametrize("tick_ns", [10 * US, 100 * US, MS])
def test_acknowledged_blocks_leave_no_timer_behind(implementation: int, tick_ns: int) -> None:
    pair = Pair(timeout_implementation=implementation, tick_ns=tick_ns)
    source, destination = resident(200 * BLOCK, 5, 77)
    pair.read(source, destination)
    pair.finish((source, destination))
    assert pair.counters(0).timeouts == 0
    assert (pair.counters(0).countdown_decrements > 0) == (implementation == COUNTDOWN)
