"""Read requests: channels, the FCFS buffer, the mailbox; the deadlock that the naive design runs
into."""

import random
from types import SimpleNamespace

import pytest
from engine_costs import READ_REQUEST_WORDS, Steps
from engine_pair import BLOCK, FETCHED, FOREVER, PAGE, Buffer, Event, Pair, resident
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import lib

DEADLOCK = lib.PW_HOST_DEADLOCK
CHANNELS = 32
SHARED, SEPARATE = 0, 1


def post(pair: Pair, num_reads: int, num_bytes: int, **nodes: int) -> list[tuple[Buffer, Buffer]]:
    buffers = [resident(num_bytes) for _ in range(num_reads)]
    for source, destination in buffers:
        pair.read(source, destination, **nodes)
    return buffers


def assert_moved(pair: Pair, buffers: list[tuple[Buffer, Buffer]], events: list[Event]) -> None:
    assert all(event.error == 0 for event in events)
    assert len([event for event in events if event.kind == FETCHED]) == len(buffers)
    for source, destination in buffers:
        assert destination.read() == source.read()
    pair.assert_quiet()


def serve_in_order(num_reads: int, **settings: int) -> SimpleNamespace:
    """So many reads, served in their order; the counters of who serves."""
    pair = Pair(**settings)
    pair.trace()
    buffers = post(pair, num_reads, 3 * BLOCK)
    assert_moved(pair, buffers, pair.run())
    served = [row[4] for row in pair.log("read_request")]
    assert served == sorted(served) and len(served) == num_reads
    return pair.counters(0)


@pytest.mark.parametrize("room", [0, 1, 8, 64])
def test_separate_mailbox_serves_all_in_order_whatever_the_buffers_room(room: int) -> None:
    own = serve_in_order(100, read_mailbox_separate=SEPARATE, read_buffer_requests=room)
    assert own.reads_served == 100
    assert (own.reads_queued > 0) == (room > 0)
    assert (own.reads_held > 0) == (room < 68)
    assert own.timeouts == 0


@pytest.mark.parametrize("retry_ns", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("design", [SHARED, SEPARATE])
def test_periodic_retry_serves_in_order(retry_ns: int, design: int) -> None:
    own = serve_in_order(60, read_retry_ns=retry_ns, read_mailbox_separate=design)
    assert own.reads_queued == 28
    assert own.read_retries >= 28


def one_more_than_channels(at_ns: int, **settings: int) -> tuple[Pair, int]:
    """A last request comes when every channel serves a long read; when the first of them is free
    again."""
    pair = Pair(high_limit_bytes=1, **settings)
    pair.trace()
    buffers = post(pair, CHANNELS, 4 * BLOCK)
    buffers.append(resident(PAGE))
    pair.read(*buffers[-1], at_ns=at_ns)
    assert_moved(pair, buffers, pair.run())
    freed = pair.log("transfer_done")[0][0]
    assert freed > at_ns + 10_000
    return pair, freed


@pytest.mark.parametrize("room", [0, 64])
def test_request_that_waits_in_the_mailbox_is_read_when_a_channel_is_free(room: int) -> None:
    """One that waits in the buffer was read before: it saves its twelve words then."""
    pair, freed = one_more_than_channels(200_000, read_buffer_requests=room)
    c = pair.costs
    words = 0 if room else READ_REQUEST_WORDS * c.r5_read_request_word_ns
    assert pair.log("read_request")[-1][0] == freed + words + c.r5_queue_op_ns
    own = pair.counters(0)
    assert (own.reads_queued, own.reads_held) == ((1, 0) if room else (0, 1))


def test_one_read_more_than_channels_blocks_the_naive_design_for_ever() -> None:
    pair = Pair(read_mailbox_separate=SHARED, read_buffer_requests=0)
    buffers = post(pair, CHANNELS + 1, 3 * BLOCK)
    source, destination = resident(PAGE)
    pair.write(source, destination)
    events = pair.run()  # comes to rest by itself
    # the deadlock takes the write along, whose acknowledgement is behind the request
    assert destination.read() == source.read()
    assert lib.PW_HOST_WRITE_DONE not in {event.kind for event in events}
    told = [event for event in events if event.kind == DEADLOCK]
    assert [(event.node, event.error) for event in told] == [(0, lib.PW_ERR_DEADLOCK)]
    assert lib.pw_ni_num_pending(pair.nis[0]) > 0
    assert lib.pw_ni_num_pending(pair.nis[1]) > 0
    assert lib.pw_ni_num_transactions(pair.nis[0]) > 0
    assert all(lib.pw_ni_next_ns(ni) == FOREVER for ni in pair.nis)
    own = pair.counters(0)
    assert own.reads_held == 1 and own.acks < 3 * CHANNELS
    assert pair.run() == []  # told once
    assert len(buffers) == CHANNELS + 1


@pytest.mark.parametrize(
    "design,dies",
    [
        ({"read_mailbox_separate": SHARED, "read_buffer_requests": 0}, True),
        ({"read_mailbox_separate": SHARED, "read_buffer_requests": 7}, True),
        ({"read_mailbox_separate": SHARED, "read_buffer_requests": 8}, False),
        ({"read_mailbox_separate": SHARED, "read_buffer_requests": 64}, False),
        ({"read_mailbox_separate": SEPARATE, "read_buffer_requests": 0}, False),
        ({"read_mailbox_separate": SEPARATE, "read_buffer_requests": 7}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("timeout_ns", [-1, 20_000, 1_000_000])
def test_nodes_that_read_from_each_other(
    design: dict[str, int], dies: bool, timeout_ns: int
) -> None:
    """40 reads each way for 32 channels: 8 requests find none free on either node."""
    pair = Pair(timeout_ns=timeout_ns, **design)
    buffers = []
    for node in (0, 1):
        buffers += post(pair, CHANNELS + 8, 3 * BLOCK, node=node, peer=1 - node)
    events = pair.run()
    if dies:
        assert {event.node for event in events if event.kind == DEADLOCK} == {0, 1}
        assert all(lib.pw_ni_num_pending(ni) > 0 for ni in pair.nis)
        return
    assert_moved(pair, buffers, events)


def test_retry_happens_at_whole_periods_and_costs_a_queue_operation() -> None:
    period_ns, at_ns = 50_000, 200_000
    pair, freed = one_more_than_channels(at_ns, read_retry_ns=period_ns)
    c, steps = pair.costs, Steps(pair.costs)
    kept = at_ns + steps.post_read()
    num_looks = -(-(freed - kept) // period_ns)
    assert num_looks > 1 and pair.counters(0).read_retries == num_looks
    # The last look, and the claim of the channel; acknowledgements may keep the R5 for a
    # microsecond.
    served = kept + num_looks * period_ns + 2 * c.r5_queue_op_ns
    assert served <= pair.log("read_request")[-1][0] < served + 2_000


def test_late_request_does_not_overtake_one_that_waits_for_its_retry() -> None:
    pair = Pair(read_retry_ns=50_000)
    pair.trace()
    buffers = [resident(BLOCK) for _ in range(200)]
    gaps = random.Random(5)
    at_ns, ids = 0, []
    for source, destination in buffers:
        at_ns += gaps.randrange(15_000)
        ids.append(pair.read(source, destination, at_ns=at_ns))
    assert_moved(pair, buffers, pair.run())
    assert pair.counters(0).reads_queued > 0
    assert [row[4] for row in pair.log("read_request")] == ids


def test_full_mailbox_holds_back_and_changes_no_time() -> None:
    logs = {}
    buffers = [resident(2 * BLOCK) for _ in range(40)]
    for depth in (1, 2, 4096):
        pair = Pair(mailbox_entries=depth, window_blocks=8)
        pair.trace()
        for source, destination in buffers:
            pair.read(source, destination)
        pair.finish()
        logs[depth] = (pair.log(), pair.counters(0).mailbox_full)
    assert logs[1][0] == logs[2][0] == logs[4096][0]
    assert logs[1][1] > logs[2][1] > logs[4096][1] == 0


def test_reads_of_two_domains_do_not_wait_for_each_other() -> None:
    """The second domain's channels are free while the first one's requests wait in the buffer."""
    pair = Pair(read_buffer_requests=64)
    pair.trace()
    other = 8
    for ni in pair.nis:
        assert lib.pw_ni_open_domain(ni, other) == lib.PW_OK
    buffers = post(pair, CHANNELS + 10, 20 * BLOCK)
    source, destination = resident(PAGE)
    key = pair.expose(source)
    buffers.append((source, destination))
    pair.fetch_raw(source.address, key, destination.address, PAGE, 0, 1, 0, other)
    events = pair.run()
    assert_moved(pair, buffers, events)
    last = max(event.time_ns for event in events)
    mine = [event.time_ns for event in events if event.num_bytes == PAGE]
    assert max(mine) < last / 2


@given(
    st.fixed_dictionaries(
        {
            "read_mailbox_separate": st.integers(0, 1),
            "read_buffer_requests": st.sampled_from([0, 1, 5, 64]),
            "read_retry_ns": st.sampled_from([0, 0, 3_000, 50_000]),
            "mailbox_entries": st.sampled_from([1, 16, 512]),
            "timeout_ns": st.sampled_from([-1, 100_000, 1_000_000]),
            "timeout_implementation": st.integers(0, 2),
            "queue_counters": st.integers(0, 1),
        }
    ),
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 3 * BLOCK), st.sampled_from([0, 0, 700])),
        min_size=1,
        max_size=90,
    ),
    st.one_of(st.none(), st.integers(0, 99)),
)
@settings(max_examples=60, deadline=None)
def test_reads_end_or_the_deadlock_is_told(
    values: dict[str, int], reads: list[tuple[int, int, int]], order: int | None
) -> None:
    pair = Pair(**values)
    if order is not None:
        pair.pick = random.Random(order).choice
    buffers, at_ns = [], 0
    for node, num_bytes, gap_ns in reads:
        source, destination = resident(num_bytes)
        buffers.append((source, destination))
        at_ns += gap_ns
        pair.read(source, destination, at_ns=at_ns, node=node, peer=1 - node)
    events = pair.run(limit=20_000)
    told = {event.node for event in events if event.kind == DEADLOCK}
    if told:
        assert values["read_mailbox_separate"] == SHARED
        assert len(reads) > CHANNELS + values["read_buffer_requests"]
        assert all(pair.counters(node).reads_held > 0 for node in told)
        return
    assert_moved(pair, buffers, events)
    for node in (0, 1):
        own = pair.counters(node)
        assert own.reads_served == len([each for each in reads if each[0] != node])
        assert own.reads_queued + own.reads_held <= 2 * own.reads_served
        assert own.acks == own.blocks
