"""Notice, classes, hints, bypass, re-queueing, ids: each switch against sums of the platform's
costs."""

import pytest
from engine_costs import Steps
from engine_pair import BLOCK, DONE, PAGE, Pair, resident
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import EngineError, lib

EXPOSED = lib.PW_HOST_EXPOSE_DONE
HIGH, MEDIUM, LOW = lib.PW_HINT_HIGH, lib.PW_HINT_MEDIUM, lib.PW_HINT_LOW


def ends(pair: Pair, kind: int = DONE) -> dict[int, int]:
    events = pair.run()
    assert all(event.error == 0 for event in events)
    return {event.id: event.time_ns for event in events if event.kind == kind}


def time_of_one(num_bytes: int, read: bool = False, **values: int) -> int:
    """Latency of a lone transfer at its source."""
    pair = Pair(**values)
    source, destination = resident(num_bytes)
    (pair.read if read else pair.write)(source, destination)
    (end,) = ends(pair, EXPOSED if read else DONE).values()
    pair.finish((source, destination))
    return end


# -- notice


def test_fast_path_saves_200_ns() -> None:
    pair = Pair(fast_path=0)
    pair.trace()
    source, destination = resident(PAGE)
    pair.write(source, destination)
    ends(pair)
    noticed = Steps(pair.costs).post_write() + pair.costs.r5_mailbox_notice_ns
    assert pair.time_of("transfer_noticed") == noticed
    assert pair.counters(0).fast_path_hits == pair.counters(0).mailbox_duplicates == 0
    assert time_of_one(PAGE, fast_path=0) - time_of_one(PAGE) == 200
    assert time_of_one(PAGE, read=True, fast_path=0) == time_of_one(PAGE, read=True)


def test_word_that_was_not_read_leaves_the_next_transfer_to_the_mailbox() -> None:
    pair = Pair()
    pair.trace()
    c, steps = pair.costs, Steps(pair.costs)
    buffers = [resident(PAGE) for _ in range(3)]
    first = steps.post_write() + steps.notice()
    for at_ns, (source, destination) in zip((0, 0, 10**6), buffers, strict=True):
        pair.write(source, destination, at_ns=at_ns)
    pair.finish(*buffers)
    # The first one's start and the drop of its duplicate come before the second's notice.
    issued = first + steps.start_single()
    second = issued + c.r5_ack_read_ns + c.r5_mailbox_notice_ns
    assert [row[0] for row in pair.log("transfer_noticed")] == [first, second, 10**6 + first]
    counters = pair.counters(0)
    assert counters.fast_path_hits == counters.mailbox_duplicates == 2
    assert counters.transfers == 3


def test_without_counters_empty_queues_are_read_in_each_pass() -> None:
    pair = Pair(queue_counters=0)
    c = pair.costs
    source, destination = resident(PAGE)
    pair.write(source, destination)
    (end,) = ends(pair).values()
    # At the notice: mailboxes of acknowledgements and read requests, three queues, timeout list,
    # read buffer; at the acknowledgement the timeout list holds the block.
    in_vain = (2 + 2) * c.r5_ack_read_ns + (5 + 4) * c.r5_queue_op_ns
    assert end - time_of_one(PAGE) == in_vain
    assert pair.counters(0).empty_queue_reads == 7 + 6
    pair.finish((source, destination))


# -- bypass, classes, hints


def test_bypass_saves_300_ns() -> None:
    costs = Pair().costs
    assert 2 * costs.r5_queue_op_ns - costs.r5_bypass_check_ns == 300
    for how in ({}, {"fast_path": 0}, {"read": True}):
        assert time_of_one(PAGE, bypass=0, **how) - time_of_one(PAGE, **how) == 300


def test_duplicate_is_dropped_behind_the_scheduler() -> None:
    """In the pass after the one that met the transfer in the word: before any other entry,
    though."""
    pair = Pair(bypass=0)
    pair.trace()
    c, steps = pair.costs, Steps(pair.costs)
    buffers = [resident(PAGE) for _ in range(2)]
    noticed = steps.post_write() + steps.notice()
    issued = noticed + 2 * c.r5_queue_op_ns + steps.start() + c.r5_completion_message_ns
    for at_ns, (source, destination) in zip((0, issued - steps.post_write()), buffers, strict=True):
        pair.write(source, destination, at_ns=at_ns)
    ends(pair)
    assert pair.time_of("block_started") == issued
    assert pair.time_of("transfer_noticed", 1) == issued + c.r5_ack_read_ns + steps.notice()
    assert pair.counters(0).mailbox_duplicates == 2


@pytest.mark.parametrize("bypass", [0, 1])
def test_bypasses_are_counted(bypass: int) -> None:
    pair = Pair(bypass=bypass)
    buffers = [resident(PAGE), resident(BLOCK), resident(BLOCK + 1)]
    for i, (source, destination) in enumerate(buffers):
        pair.write(source, destination, at_ns=i * 10**6)
    pair.finish(*buffers)
    assert pair.counters(0).scheduler_bypasses == 2 * bypass


def test_hints_override_the_class_by_size() -> None:
    pair = Pair(window_blocks=4)
    buffers = [resident(40 * BLOCK) for _ in range(3)]
    ids = [
        pair.write(source, destination, hint=hint)
        for hint, (source, destination) in zip((LOW, MEDIUM, HIGH), buffers, strict=True)
    ]
    end = ends(pair)
    assert sorted(ids, key=end.__getitem__) == ids[::-1]
    pair.finish(*buffers)


def test_hint_of_the_exposing_side_counts_for_a_read() -> None:
    by_hint = {}
    for hint in (0, HIGH, LOW):
        pair = Pair()
        source, destination = resident(PAGE)
        key = pair.expose(source, hint=hint)
        pair.read(source, destination, key=key)
        (by_hint[hint],) = ends(pair, EXPOSED).values()
        assert pair.counters(0).scheduler_bypasses == (hint != LOW)
        pair.finish((source, destination))
    assert by_hint[HIGH] == by_hint[0]
    assert by_hint[LOW] - by_hint[0] == 300  # what the bypass saves


@pytest.mark.parametrize("window", [1, 2, 7, 64])
@pytest.mark.parametrize("read", [False, True], ids=["write", "read"])
def test_window_of_one_transfer(window: int, read: bool) -> None:
    pair = Pair(lookahead_blocks=0)
    pair.trace()
    source, destination = resident(100 * BLOCK)
    if read:
        key = pair.expose(source, window_blocks=window)
        pair.read(source, destination, key=key)
    else:
        pair.write(source, destination, window_blocks=window)
    pair.finish((source, destination))
    outstanding = most = 0
    for row in pair.log("block_started", "ack"):
        outstanding += 1 if row[2] == "block_started" else -1
        most = max(most, outstanding)
    assert most == window


def test_hint_and_window_out_of_range_are_invalid() -> None:
    pair = Pair()
    source, destination = resident(PAGE)
    for values in ({"hint": 4}, {"window_blocks": 65}):
        with pytest.raises(EngineError, match="INVALID"):
            pair.write(source, destination, **values)
        with pytest.raises(EngineError, match="INVALID"):
            pair.expose(source, **values)
    pair.assert_quiet()


# -- re-queueing


@pytest.mark.parametrize(
    "values,hint,expected",
    [
        ({"requeue_dynamic": 0}, 0, (0, 0, 38)),
        ({"requeue_dynamic": 1}, 0, (1, 31, 6)),  # 38..33 blocks left, 32..2, 1
        ({"requeue_dynamic": 1, "high_limit_bytes": 4 * BLOCK}, 0, (4, 28, 6)),
        ({"requeue_dynamic": 1}, MEDIUM, (0, 38, 0)),
        ({"requeue_dynamic": 0}, HIGH, (38, 0, 0)),
    ],
)
def test_queue_that_is_entered_again(
    values: dict[str, int], hint: int, expected: tuple[int, int, int]
) -> None:
    """40 blocks, two at a time: each acknowledgement but the last two puts the transfer back."""
    pair = Pair(**values)
    pair.carry(*resident(40 * BLOCK), hint=hint)
    own = pair.counters(0)
    assert (own.requeues_high, own.requeues_medium, own.requeues_low) == expected


def end_of_two(num_blocks: tuple[int, int], **values: int) -> list[int]:
    """When each of two transfers ends that are posted one behind the other."""
    pair = Pair(**values)
    buffers = [resident(each * BLOCK) for each in num_blocks]
    ids = [pair.write(source, destination) for source, destination in buffers]
    end = ends(pair)
    pair.finish(*buffers)
    return [end[each] for each in ids]


def test_strict_priority_finishes_the_higher_class_as_if_it_were_alone() -> None:
    alone = time_of_one(30 * BLOCK)
    low, medium = end_of_two((100, 30), strict_priority=1)
    assert medium < 1.1 * alone + 30_000  # two blocks of the other are out when it comes
    shared_low, shared_medium = end_of_two((100, 30))
    assert shared_medium > 1.7 * alone  # turn by turn on the link
    assert low == pytest.approx(shared_low, rel=0.02)  # nothing is idle in either


def test_dynamic_requeueing_lets_the_one_that_is_nearly_done_go_first() -> None:
    """Both are low; the second one has fewer than 512 KB left after two blocks."""
    static, dynamic = (
        end_of_two((120, 34), strict_priority=1, requeue_dynamic=each) for each in (0, 1)
    )
    assert dynamic[1] < 0.7 * static[1]  # static: turn by turn
    assert dynamic[0] == pytest.approx(static[0], rel=0.02)


def test_class_that_fails_lets_lower_ones_go() -> None:
    pair = Pair(strict_priority=1, timeout_ns=-1)
    bad, good = resident(20 * BLOCK), resident(60 * BLOCK)
    bad[0].drop(30)  # a block in the middle, and nothing brings it through
    first, second = (pair.write(source, destination) for source, destination in (bad, good))
    errors = {event.id: event.error for event in pair.run() if event.kind == DONE}
    assert errors == {first: lib.PW_ERR_UNRECOVERABLE, second: 0}
    pair.finish(good)


# -- transaction ids


def test_ticket_queue_saves_200_ns_a_block() -> None:
    assert time_of_one(PAGE, ticket_queue=0) - time_of_one(PAGE) == 200
    assert time_of_one(PAGE, read=True, ticket_queue=0) - time_of_one(PAGE, read=True) == 200


@pytest.mark.parametrize("ticket_queue,slots", [(1, [0, 1, 2, 3, 4, 5]), (0, [0, 1, 0, 1, 0, 1])])
def test_ids_come_from_the_queue_or_from_the_tables_start(
    ticket_queue: int, slots: list[int]
) -> None:
    pair = Pair(ticket_queue=ticket_queue)
    pair.trace()
    pair.carry(*resident(6 * BLOCK))
    ids = [row[3] for row in pair.log("block_started")]
    assert [each % 1024 for each in ids] == slots
    assert len(set(ids)) == 6  # an id is not its predecessor's in the same entry


@pytest.mark.parametrize("ticket_queue", [0, 1])
def test_full_table_waits_and_loses_nothing(ticket_queue: int) -> None:
    pair = Pair(window_blocks=64, ticket_queue=ticket_queue)
    buffers = [resident(66 * BLOCK + i) for i in range(20)]
    for source, destination in buffers:
        pair.write(source, destination)
    assert len(ends(pair)) == 20
    assert pair.counters(0).table_full > 0
    assert pair.counters(0).blocks == pair.counters(0).acks == 66 * 20 + 19
    pair.finish(*buffers)


# -- whatever the settings


SETTINGS = st.fixed_dictionaries(
    {
        "requeue_dynamic": st.integers(0, 1),
        "bypass": st.integers(0, 1),
        "strict_priority": st.integers(0, 1),
        "fast_path": st.integers(0, 1),
        "ticket_queue": st.integers(0, 1),
        "queue_counters": st.integers(0, 1),
        "window_blocks": st.integers(1, 8),
        "high_limit_bytes": st.sampled_from([1, BLOCK, 4 * BLOCK]),
        "medium_limit_bytes": st.sampled_from([4 * BLOCK, 32 * BLOCK]),
    }
)
WRITES = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 300), st.integers(1, 12 * BLOCK)),
        st.integers(0, 3),
        st.sampled_from([0, 1, 3, 64]),
        st.sampled_from([0, 0, 400, 5_000]),
    ),
    min_size=1,
    max_size=12,
)


@given(SETTINGS, WRITES)
@settings(max_examples=60, deadline=None)
def test_every_transfer_is_noticed_once_and_ends(
    values: dict[str, int], writes: list[tuple[int, int, int, int]]
) -> None:
    pair = Pair(**values)
    pair.trace()
    buffers, at_ns = [], 0
    for num_bytes, hint, window, gap_ns in writes:
        source, destination = resident(num_bytes, num_bytes % 97, num_bytes % 31)
        buffers.append((source, destination))
        at_ns += gap_ns
        pair.write(source, destination, hint=hint, window_blocks=window, at_ns=at_ns)
    assert len(ends(pair)) == len(writes)
    own = pair.counters(0)
    assert own.transfers == len(writes) == len(pair.log("transfer_noticed"))
    assert own.fast_path_hits == own.mailbox_duplicates <= len(writes) * values["fast_path"]
    assert own.scheduler_bypasses <= len(writes) * values["bypass"]
    assert (own.empty_queue_reads == 0) == bool(values["queue_counters"])
    assert own.blocks == own.acks
    pair.finish(*buffers)
