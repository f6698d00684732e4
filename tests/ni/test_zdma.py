"""ZDMA [PSI 1.3.2]: small packets, few of them outstanding, notification a round trip later, and no
retransmission; times against sums of the platform's costs."""

import pytest
from engine_costs import Steps
from engine_pair import ARRIVED, BLOCK, DONE, FETCHED, PAGE, Pair, absent, resident

from pagewire.native import EngineError, ffi, lib

ZDMA = {"engine": int(lib.PW_ENGINE_ZDMA)}


def zdma(**settings: int) -> Pair:
    return Pair(**ZDMA, **settings)


def leaves_ns(pair: Pair, idx: int) -> int:
    """A packet behind the first: `zdma_outstanding` in turn, the next ones with the responses."""
    c, s = pair.costs, Steps(pair.costs)
    packet_ps = (c.zdma_packet_bytes + c.packet_header_bytes) * s.byte_ps_1000 // 1000
    round_ps = max(packet_ps + 2000 * s.latency(), c.zdma_outstanding * packet_ps)
    rounds, rest = divmod(idx, c.zdma_outstanding)
    return (rounds * round_ps + rest * packet_ps) // 1000


def sent_ns(pair: Pair, num_bytes: int) -> int:
    """From the first packet's start to the last one's end."""
    c, s = pair.costs, Steps(pair.costs)
    last = -(-num_bytes // c.zdma_packet_bytes) - 1
    last_bytes = num_bytes - last * c.zdma_packet_bytes + c.packet_header_bytes
    return leaves_ns(pair, last) + last_bytes * s.byte_ps_1000 // 1_000_000


@pytest.mark.parametrize("num_bytes", [1, 64, 65, 6 * 64, 6 * 64 + 1, PAGE, BLOCK])
def test_packets_wait_for_responses_and_the_notification_for_all(num_bytes: int) -> None:
    pair = zdma()
    s = Steps(pair.costs)
    source, destination = resident(num_bytes)
    pair.write(source, destination)
    times = {event.kind: event.time_ns for event in pair.run()}
    written = s.post_write() + 2 * s.walk() + sent_ns(pair, num_bytes) + s.latency()
    done = written + s.latency()
    if num_bytes <= 64 or num_bytes > 256:  # else the link is told in packets of 256 B
        assert times == {DONE: pytest.approx(done, abs=2), ARRIVED: times[DONE] + s.latency()}
    assert destination.read() == source.read()
    pair.assert_quiet()


def test_blocks_of_a_transfer_go_on_where_the_last_one_stopped() -> None:
    pair = zdma()
    s = Steps(pair.costs)
    num_bytes = 10 * BLOCK
    source, destination = resident(num_bytes)
    pair.write(source, destination)
    times = {event.kind: event.time_ns for event in pair.run()}
    expected = s.post_write() + s.walk() + sent_ns(pair, num_bytes) + 2 * s.latency()
    assert times[DONE] == pytest.approx(expected, abs=10 * s.walk())
    assert times[ARRIVED] == times[DONE] + s.latency()
    assert destination.read() == source.read()
    assert num_bytes * 8 / times[DONE] < 6 * 64 * 8 / (2 * s.latency())  # 6 packets a round trip


def test_channels_share_the_link_and_a_ninth_is_refused() -> None:
    pair = zdma()
    num_bytes = 4 * BLOCK
    ends = [resident(num_bytes) for _ in range(9)]
    for source, destination in ends[:8]:
        pair.write(source, destination)
    with pytest.raises(EngineError, match="full"):
        pair.write(*ends[8])
    last_ns = max(event.time_ns for event in pair.run())
    assert all(source.read() == destination.read() for source, destination in ends[:8])
    c = pair.costs
    payload = c.zdma_packet_bytes / (c.zdma_packet_bytes + c.packet_header_bytes)
    gbps = 8 * num_bytes * 8 / last_ns
    assert 0.85 < gbps / (c.link_mbps * c.link_coding_permille / 1e6 * payload) <= 1


def test_a_read_is_told_by_its_last_data() -> None:
    pair = zdma()
    s = Steps(pair.costs)
    source, destination = resident(PAGE)
    pair.read(source, destination)
    times = {event.kind: event.time_ns for event in pair.run()}
    asked = s.post_write() + s.latency()
    written = asked + 2 * s.walk() + sent_ns(pair, PAGE) + s.latency()
    assert times[FETCHED] == pytest.approx(written, abs=2)
    assert destination.read() == source.read()


@pytest.mark.parametrize("ends", ["source", "destination"])
def test_a_page_fault_ends_the_transfer(ends: str) -> None:
    pair = zdma()
    source, destination = absent(2 * BLOCK, ends)
    pair.write(source, destination)
    errors = {event.kind: event.error for event in pair.run()}
    assert errors[DONE] == lib.PW_ERR_UNRECOVERABLE
    assert errors.get(ARRIVED, lib.PW_ERR_UNRECOVERABLE) == lib.PW_ERR_UNRECOVERABLE
    assert pair.counters(0).retransmitted_blocks == 0
    pair.assert_quiet()
    remedy = ffi.string(lib.pw_status_text(lib.PW_ERR_UNRECOVERABLE)).decode()
    assert "touch or pin" in remedy


@pytest.mark.parametrize("site", ["packet_loss", "packet_corruption", "lost_ack"])
def test_a_loss_ends_the_transfer(site: str) -> None:
    pair = Pair(injected={site: "1:1:1:1"}, **ZDMA)
    source, destination = resident(BLOCK)
    pair.write(source, destination)
    errors = {event.kind: event.error for event in pair.run()}
    assert errors[DONE] == lib.PW_ERR_UNRECOVERABLE
    assert pair.counters(0).retransmitted_blocks == 0


def test_stalled_accesses_need_no_retransmission() -> None:
    pair = zdma(stall=1)
    source, destination = absent(BLOCK)
    pair.write(source, destination)
    assert {event.error for event in pair.run()} == {0}
    assert destination.read() == source.read()


def test_engine_and_units_that_send_again_do_not_go_together() -> None:
    with pytest.raises(EngineError):
        zdma(translation=int(lib.PW_TRANSLATION_ODP))
    with pytest.raises(EngineError):
        zdma(interleave=int(lib.PW_INTERLEAVE_PACKET))
