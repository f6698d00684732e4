"""Foreseen acknowledgements: quicker for the host, and nothing else may change."""

import random

import pytest
from engine_pair import BLOCK, Pair, pattern, resident
from test_frames import flipping

SIZES = (3 * BLOCK, 5 * BLOCK + 77, 64 * BLOCK, 300 * BLOCK + 1)


def run_once(
    num_bytes: int, lookahead_blocks: int, absent: range, **settings: int
) -> tuple[Pair, list[tuple[int, int, str]], bool]:
    pair = Pair(lookahead_blocks=lookahead_blocks, **settings)
    source, destination = BUFFERS[num_bytes]
    source.fill(pattern(num_bytes, lookahead_blocks))
    destination.touch()
    for page in absent:
        destination.drop(page)
    pair.trace(100_000)
    pair.read(source, destination)
    pair.run()
    pair.assert_quiet()
    # Not the transaction ids: an entry is kept until its answer is physically here.
    return (
        pair,
        [(row[0], row[1], row[2]) for row in pair.log()],
        destination.read() == source.read(),
    )


BUFFERS = {num_bytes: resident(num_bytes, 100, 777) for num_bytes in SIZES}


@pytest.mark.parametrize("num_bytes", SIZES)
@pytest.mark.parametrize("absent", [range(0), range(7, 9)], ids=["resident", "two pages absent"])
@pytest.mark.parametrize("policy", [0, 2])
def test_times_and_events_are_those_without_lookahead(
    num_bytes: int, absent: range, policy: int
) -> None:
    plain, expected, intact = run_once(num_bytes, 0, absent, policy=policy)
    assert intact and plain.counters(0).lookahead_blocks == 0
    for lookahead_blocks in (1, 4, 64):
        pair, log, intact = run_once(num_bytes, lookahead_blocks, absent, policy=policy)
        assert intact
        assert log == expected
        assert pair.counters(0).lookahead_misses == 0
        for name in ("l1_hits", "l2_hits", "walks", "translation_faults_destination"):
            assert getattr(pair.counters(1), name) == getattr(plain.counters(1), name)
    assert pair.counters(0).lookahead_blocks > 0


@pytest.mark.parametrize(
    "settings",
    [
        {"timeout_implementation": 2, "tick_ns": 50_000},
        {"timeout_implementation": 1, "tick_ns": 10_000, "timeout_ns": 20_000},
        {"requeue_dynamic": 1, "strict_priority": 1, "bypass": 0},
        {"queue_counters": 0, "fast_path": 0},
        {"ticket_queue": 0, "window_blocks": 5},
        {"read_mailbox_separate": 0, "read_buffer_requests": 0, "mailbox_entries": 1},
    ],
    ids=str,
)
def test_times_are_those_without_lookahead_whatever_the_firmware(settings: dict[str, int]) -> None:
    for num_bytes in SIZES:
        _, expected, intact = run_once(num_bytes, 0, range(7, 9), **settings)
        assert intact
        pair, log, intact = run_once(num_bytes, 64, range(7, 9), **settings)
        assert intact
        assert log == expected
    assert pair.counters(0).lookahead_blocks > 0


def test_block_damaged_on_the_way_is_sent_again_though_its_ack_was_foreseen() -> None:
    source, destination = BUFFERS[64 * BLOCK]
    for seed in range(20):
        pair, hits = Pair(lookahead_blocks=64), []
        source.fill(pattern(64 * BLOCK, seed))
        pair.tamper = flipping(random.Random(seed), 0.1, hits)
        pair.read(source, destination)
        pair.finish((source, destination))
        assert pair.counters(1).crc_errors == len(hits) == pair.counters(0).retransmitted_blocks
        assert pair.counters(0).lookahead_misses > 0 or not hits
        assert pair.counters(0).acks == pair.counters(0).blocks


def test_no_lookahead_beside_another_transfer() -> None:
    pair = Pair(lookahead_blocks=64)
    pairs = [resident(20 * BLOCK), resident(20 * BLOCK)]
    for source, destination in pairs:
        pair.read(source, destination)
    pair.run()
    assert all(destination.read() == source.read() for source, destination in pairs)
    # Only what was left of the second one when the first was over may be foreseen.
    assert pair.counters(0).lookahead_blocks < 20
    pair.assert_quiet()


def test_nothing_is_foreseen_when_the_receive_buffer_may_refuse_a_block() -> None:
    """Another node's write may fill it: NACK 7 to a block whose ACK was taken for certain."""
    pair = Pair(3, receive_buffer_blocks=1)
    pair.trace()
    written, read = resident(BLOCK + 505), resident(2 * BLOCK + 1)
    pair.write(*written, node=0, peer=1)
    pair.read(*read, node=1, peer=2)
    pair.run()
    assert sum(pair.counters(node).nacks[7] for node in (0, 2)) > 0
    assert sum(pair.counters(node).lookahead_blocks for node in range(3)) == 0
    assert len(pair.log("ack")) == 5
    for source, destination in (written, read):
        assert destination.read() == source.read()
    pair.assert_quiet()
