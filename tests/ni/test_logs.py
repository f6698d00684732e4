"""The complete log of one transfer of each kind, with times as sums of what the steps cost.

Every list is what happens, in order, at both nodes: (time, node, kind, a, b), sorted as the
engine's trace is. `SOURCE` initiates writes, `DESTINATION` fetches. A transfer is one packet where
nothing more is needed, so that each list can be read from the top to the bottom.
"""

from __future__ import annotations

import ctypes
import mmap

import pytest
from engine_costs import Steps
from engine_pair import BLOCK, PAGE, Pair, resident

from pagewire.native import lib

SOURCE, DESTINATION = 0, 1
PACKET = 256
MS = 1_000_000
FIRST, AGAIN, THIRD = 0, 1, 2
"""Sequence numbers of a block's attempts."""
BLOCK_0, BLOCK_1, BLOCK_2 = 0, 1, 2
"""Transaction ids, which a new engine gives out from 0 on."""
CHANNEL, STREAM = 0, 0
READ_STREAM = 1 << 31
WRITE_FAULT = lib.PW_FSR_TF
PAGE_FAULT, DECODE, PROTECTION = 1, 2, 5
CHECKS_ACCESS = bool(lib.pw_memory_checks_access(Pair().memories[0]))

Row = tuple[int, int, str, int, int]


def traced(**settings: int) -> tuple[Pair, Steps]:
    pair = Pair(**settings)
    pair.trace()
    return pair, Steps(pair.costs)


def traced_write(
    num_bytes: int = PACKET, absent: str = "", **settings: int
) -> tuple[Pair, Steps, tuple[int, int]]:
    """A write until all is quiet, and the first pages of both ends; absent: these ends' pages."""
    pair, steps = traced(**settings)
    source, destination = resident(num_bytes)
    if "source" in absent:
        source.drop()
    if "destination" in absent:
        destination.drop()
    pair.write(source, destination)
    pair.run()
    return pair, steps, (source.first_page, destination.first_page)


def noticed_at(steps: Steps) -> int:
    """The user writes the descriptor, the R5 finds it."""
    return steps.post_write() + steps.notice()


def started_at(steps: Steps, noticed_ns: int) -> int:
    """Ticket, table, start; the only block takes its completion message along."""
    return noticed_ns + steps.start_single()


def arrival(steps: Steps, on_link_ns: int, sequence: int) -> tuple[list[Row], int, int]:
    """One packet crosses the link, and is the first and the last of its block: when.

    The two differ by a nanosecond: the arrival of a first packet is rounded down, a block's end up.
    """
    first = on_link_ns + steps.first_packet(PACKET) + steps.latency()
    last = on_link_ns + steps.wire(PACKET) + steps.latency()
    rows = [
        (first, DESTINATION, "block_first_packet", BLOCK_0, sequence),
        (last, DESTINATION, "block_last_packet", BLOCK_0, sequence),
    ]
    return rows, first, last


def read_at_source(steps: Steps, at_ns: int) -> int:
    """The R5 has read what the destination sent at at_ns."""
    return at_ns + steps.latency() + steps.read_mailbox()


def three_blocks(
    steps: Steps, ready_ns: int, stream: int, num_bytes: int
) -> tuple[list[Row], dict[str, int]]:
    """Blocks of 16 KB, 16 KB and 4 KB in a window of two, from when the R5 has the transfer."""
    queue = 2 * steps.c.r5_queue_op_ns  # into the scheduler's queue and out again
    started_0 = ready_ns + queue + steps.start()
    started_1 = started_0 + steps.start()
    # one after the other on the link; the second and third wait for it
    link_0 = started_0 + steps.walk()
    link_1 = link_0 + steps.wire(BLOCK)
    link_2 = link_1 + steps.wire(BLOCK)
    first = [
        link + steps.first_packet(BLOCK) + steps.latency() for link in (link_0, link_1, link_2)
    ]
    last = [
        link + steps.wire(num_bytes) + steps.latency()
        for link, num_bytes in ((link_0, BLOCK), (link_1, BLOCK), (link_2, PAGE))
    ]
    written = [at + steps.walk() for at in last]
    acked = [at + steps.acknowledged() for at in written]
    started_2 = acked[0] + queue + steps.start()  # the first ACK opens the window
    assert started_2 + steps.walk() < link_2
    # the penultimate ACK releases the notification, which is here before the last block
    assert acked[1] + steps.c.r5_completion_message_ns + steps.latency() < written[2]
    rows = [
        (started_0, SOURCE, "block_started", BLOCK_0, FIRST),
        (started_1, SOURCE, "block_started", BLOCK_1, FIRST),
        (first[0], DESTINATION, "block_first_packet", BLOCK_0, FIRST),
        (last[0], DESTINATION, "block_last_packet", BLOCK_0, FIRST),
        (first[1], DESTINATION, "block_first_packet", BLOCK_1, FIRST),
        (written[0], DESTINATION, "ack_sent", BLOCK_0, FIRST),
        (acked[0], SOURCE, "ack", BLOCK_0, FIRST),
        (started_2, SOURCE, "block_started", BLOCK_2, FIRST),
        (last[1], DESTINATION, "block_last_packet", BLOCK_1, FIRST),
        (first[2], DESTINATION, "block_first_packet", BLOCK_2, FIRST),
        (written[1], DESTINATION, "ack_sent", BLOCK_1, FIRST),
        (acked[1], SOURCE, "ack", BLOCK_1, FIRST),
        (last[2], DESTINATION, "block_last_packet", BLOCK_2, FIRST),
        (written[2], DESTINATION, "ack_sent", BLOCK_2, FIRST),
        (written[2], DESTINATION, "notified", stream, num_bytes),
        (acked[2], SOURCE, "ack", BLOCK_2, FIRST),
        (acked[2], SOURCE, "transfer_done", stream, num_bytes),
    ]
    return rows


def test_write_of_several_blocks() -> None:
    num_bytes = 2 * BLOCK + PAGE
    pair, steps, _ = traced_write(num_bytes=num_bytes)
    noticed = noticed_at(steps)
    assert pair.log() == [
        (noticed, SOURCE, "transfer_noticed", CHANNEL, num_bytes),
        *three_blocks(steps, noticed, STREAM, num_bytes),
    ]


def test_read_of_several_blocks_is_served_as_a_write() -> None:
    pair, steps = traced()
    num_bytes = 2 * BLOCK + PAGE
    source, destination = resident(num_bytes)
    pair.read(source, destination)
    pair.run()
    requested = steps.post_read()  # read word by word from the mailbox
    assert pair.log() == [
        (requested, SOURCE, "read_request", DESTINATION, READ_STREAM),
        *three_blocks(steps, requested, READ_STREAM, num_bytes),
    ]


def driver(steps: Steps, fault_ns: int, node: int, page: int) -> tuple[list[Row], int]:
    """Fault, handler and tasklet up to the page; when it is in."""
    c = steps.c
    tasklet = fault_ns + c.handler_ns
    read_fifo = 2 * c.core_register_read_ns if node == DESTINATION else 0
    paged_in = tasklet + read_fifo + c.tasklet_other_ns + c.page_in_fixed_ns + c.page_in_page_ns
    kind = "fault_source" if node == SOURCE else "fault_destination"
    rows = [
        (fault_ns, node, kind, page, BLOCK_0),
        (fault_ns, node, "handler", page, WRITE_FAULT),
        (tasklet, node, "tasklet_entry", page, 1),
        (paged_in, node, "page_in_done", page, 1),
    ]
    return rows, paged_in


def err(steps: Steps, paged_in_ns: int, page: int, sequence: int) -> tuple[list[Row], int]:
    """Netlink message, wake-up, ERR to the source's R5, which starts the block again; when."""
    c = steps.c
    message = paged_in_ns + c.netlink_ns
    sent = message + c.user_wakeup_ns + c.err_send_ns
    read = read_at_source(steps, sent)
    again = read + steps.restart()
    rows = [
        (message, DESTINATION, "netlink_sent", page, BLOCK_0),
        (sent, DESTINATION, "err_sent", BLOCK_0, sequence),
        (read, SOURCE, "err", BLOCK_0, sequence),
        (again, SOURCE, "block_started", BLOCK_0, sequence + 1),
    ]
    return rows, again


def first_attempt(steps: Steps) -> tuple[list[Row], int]:
    """The block of a one-packet write is started; when."""
    noticed = noticed_at(steps)
    started = started_at(steps, noticed)
    rows = [
        (noticed, SOURCE, "transfer_noticed", CHANNEL, PACKET),
        (started, SOURCE, "block_started", BLOCK_0, FIRST),
    ]
    return rows, started


def nack(steps: Steps, sent_ns: int, code: int) -> list[Row]:
    """The NACK leaves, and the source's R5 has read it."""
    return [
        (sent_ns, DESTINATION, "nack_sent", BLOCK_0, code),
        (read_at_source(steps, sent_ns), SOURCE, "nack", BLOCK_0, code),
    ]


def delivery(steps: Steps, on_link_ns: int, sequence: int) -> list[Row]:
    """A last attempt goes through: the destination's translation is walked."""
    arrival_rows, _, last = arrival(steps, on_link_ns, sequence)
    written = last + steps.walk()
    acked = written + steps.acknowledged()
    return [
        *arrival_rows,
        (written, DESTINATION, "ack_sent", BLOCK_0, sequence),
        (written, DESTINATION, "notified", STREAM, PACKET),
        (acked, SOURCE, "ack", BLOCK_0, sequence),
        (acked, SOURCE, "transfer_done", STREAM, PACKET),
    ]


def timeout(steps: Steps, started_ns: int, timeout_ns: int) -> tuple[list[Row], int]:
    """The timer of the first attempt runs out; when the block is started again."""
    expired = started_ns + timeout_ns
    again = expired + steps.restart()
    rows = [
        (expired, SOURCE, "timeout", BLOCK_0, FIRST),
        (again, SOURCE, "block_started", BLOCK_0, AGAIN),
    ]
    return rows, again


def test_fault_at_the_source_recovered_by_the_timeout() -> None:
    pair, steps, (source_page, _) = traced_write(absent="source", timeout_ns=MS)
    started_rows, started = first_attempt(steps)
    # the walk finds no page, no packet leaves
    fault_rows, _ = driver(steps, started + steps.walk(), SOURCE, source_page)
    timeout_rows, again = timeout(steps, started, MS)
    assert pair.log() == sorted(
        [
            *started_rows,
            *fault_rows,
            *timeout_rows,
            *delivery(steps, again + steps.walk(), AGAIN),
        ]
    )


def test_fault_at_the_destination_recovered_by_the_err() -> None:
    pair, steps, (_, page) = traced_write(absent="destination", timeout_ns=MS)
    started_rows, started = first_attempt(steps)
    arrival_rows, first, last = arrival(steps, started + steps.walk(), FIRST)
    fault = first + steps.walk()
    fault_rows, paged_in = driver(steps, fault, DESTINATION, page)
    err_rows, again = err(steps, paged_in, page, FIRST)
    assert pair.log() == sorted(
        [
            *started_rows,
            *arrival_rows,
            *fault_rows,
            *nack(steps, last + steps.walk(), PAGE_FAULT),
            *err_rows,
            *delivery(steps, again + steps.l1_hit(), AGAIN),
        ]
    )


def test_fault_at_the_destination_recovered_by_the_timeout_only() -> None:
    pair, steps, (_, page) = traced_write(absent="destination", timeout_ns=MS, err_enabled=0)
    started_rows, started = first_attempt(steps)
    arrival_rows, first, last = arrival(steps, started + steps.walk(), FIRST)
    fault = first + steps.walk()
    fault_rows, _ = driver(steps, fault, DESTINATION, page)
    timeout_rows, again = timeout(steps, started, MS)
    assert pair.log() == sorted(
        [
            *started_rows,
            *arrival_rows,
            *fault_rows,
            *nack(steps, last + steps.walk(), PAGE_FAULT),
            *timeout_rows,
            *delivery(steps, again + steps.l1_hit(), AGAIN),
        ]
    )


@pytest.mark.parametrize("nto", [1, 0])
def test_nack_stops_a_timer_that_would_expire_before_the_err(nto: int) -> None:
    """Without NTO a timeout of 20 us sends the block once more, while the page is not in yet."""
    timeout_ns = 20_000
    pair, steps, (_, page) = traced_write(
        absent="destination", timeout_ns=timeout_ns, nack_cancels_timer=nto
    )
    started_rows, started = first_attempt(steps)
    arrival_rows, first, last = arrival(steps, started + steps.walk(), FIRST)
    fault = first + steps.walk()
    fault_rows, paged_in = driver(steps, fault, DESTINATION, page)
    refused = nack(steps, last + steps.walk(), PAGE_FAULT)
    common = [*started_rows, *arrival_rows, *fault_rows, *refused]
    err_rows, again = err(steps, paged_in, page, FIRST)
    assert started + timeout_ns < again
    if nto:
        assert pair.log() == sorted(
            [*common, *err_rows, *delivery(steps, again + steps.l1_hit(), AGAIN)]
        )
        return
    # The page is in when the second attempt comes; the ERR of the first one comes too late.
    timeout_rows, again = timeout(steps, started, timeout_ns)
    message, sent, _, _ = err_rows
    assert paged_in < again
    assert pair.log() == sorted(
        [*common, message, sent, *timeout_rows, *delivery(steps, again + steps.l1_hit(), AGAIN)]
    )
    assert pair.counters(SOURCE).stale_answers == 1


def test_faults_at_both_ends() -> None:
    """Timeout for the source's page, then ERR for the destination's."""
    pair, steps, (source_page, page) = traced_write(absent="source destination", timeout_ns=MS)
    started_rows, started = first_attempt(steps)
    source_rows, _ = driver(steps, started + steps.walk(), SOURCE, source_page)
    timeout_rows, again = timeout(steps, started, MS)
    arrival_rows, first, last = arrival(steps, again + steps.walk(), AGAIN)
    fault = first + steps.walk()
    fault_rows, paged_in = driver(steps, fault, DESTINATION, page)
    err_rows, third = err(steps, paged_in, page, AGAIN)
    assert pair.log() == sorted(
        [
            *started_rows,
            *source_rows,
            *timeout_rows,
            *arrival_rows,
            *fault_rows,
            *nack(steps, last + steps.walk(), PAGE_FAULT),
            *err_rows,
            *delivery(steps, third + steps.l1_hit(), THIRD),
        ]
    )


def test_hupcf_0_terminates_the_access_to_a_present_page_while_a_fault_is_active() -> None:
    """Both nodes write to each other. DESTINATION's own read of its source faults; 500 ns later,
    with that fault's handler still at work, SOURCE's packet comes for a page that is there."""
    pair, steps = traced(hupcf=0, timeout_ns=MS)
    c = steps.c
    source, destination = resident(PACKET)
    there, here = resident(PACKET)
    there.drop()
    ahead_ns = 500
    flight = steps.first_packet(PACKET) + steps.latency() + steps.walk()
    pair.write(source, destination, at_ns=0)
    pair.write(there, here, node=DESTINATION, peer=SOURCE, at_ns=flight - ahead_ns)
    pair.run()
    noticed = noticed_at(steps)
    started = started_at(steps, noticed)
    arrival_rows, first, last = arrival(steps, started + steps.walk(), FIRST)
    blocked = first + steps.walk()
    # DESTINATION's own transfer, which is the other way round
    own_noticed = noticed + flight - ahead_ns
    own_started = started + flight - ahead_ns
    own_fault = own_started + steps.walk()
    assert blocked == own_fault + ahead_ns < own_fault + c.handler_ns
    own_rows, own_paged_in = driver(steps, own_fault, SOURCE, there.first_page)
    own_rows = [(at, DESTINATION, *rest) for at, _, *rest in own_rows]
    own_timeout = own_started + MS
    own_again = own_timeout + steps.restart()
    own_arrival_rows, _, own_last = arrival(steps, own_again + steps.walk(), AGAIN)
    own_written = own_last + steps.walk()
    own_acked = own_written + steps.acknowledged()
    # the entry of the terminated packet: read behind the first fault's, its page found present
    looked = own_paged_in + 2 * c.core_register_read_ns + c.tasklet_other_ns + c.page_in_fixed_ns
    page = destination.first_page
    err_rows, again = err(steps, looked, page, FIRST)
    again_rows, _, again_last = arrival(steps, again + steps.l1_hit(), AGAIN)
    again_written = again_last + steps.l1_hit()
    again_acked = again_written + steps.acknowledged()
    assert pair.log() == sorted(
        [
            (noticed, SOURCE, "transfer_noticed", CHANNEL, PACKET),
            (started, SOURCE, "block_started", BLOCK_0, FIRST),
            (own_noticed, DESTINATION, "transfer_noticed", CHANNEL, PACKET),
            (own_started, DESTINATION, "block_started", BLOCK_0, FIRST),
            *own_rows,
            *arrival_rows,
            (blocked, DESTINATION, "fault_destination", page, BLOCK_0),
            *nack(steps, last + steps.walk(), PAGE_FAULT),
            (own_paged_in, DESTINATION, "tasklet_entry", page, 1),
            (looked, DESTINATION, "page_in_done", page, 0),
            *err_rows,
            *again_rows,
            (again_written, DESTINATION, "ack_sent", BLOCK_0, AGAIN),
            (again_written, DESTINATION, "notified", STREAM, PACKET),
            (again_acked, SOURCE, "ack", BLOCK_0, AGAIN),
            (again_acked, SOURCE, "transfer_done", STREAM, PACKET),
            (own_timeout, DESTINATION, "timeout", BLOCK_0, FIRST),
            (own_again, DESTINATION, "block_started", BLOCK_0, AGAIN),
            *((at, SOURCE, *rest) for at, _, *rest in own_arrival_rows),
            (own_written, SOURCE, "ack_sent", BLOCK_0, AGAIN),
            (own_written, SOURCE, "notified", STREAM, PACKET),
            (own_acked, DESTINATION, "ack", BLOCK_0, AGAIN),
            (own_acked, DESTINATION, "transfer_done", STREAM, PACKET),
        ]
    )


def fatal(
    pair: Pair, steps: Steps, refused_after_ns: int, code: int, forbidden_page: int | None = None
) -> None:
    """One attempt, a fatal NACK, both ends told.

    A page that may not be written is a permission fault, and the driver finds out that it stays
    one.
    """
    started_rows, started = first_attempt(steps)
    arrival_rows, first, last = arrival(steps, started + steps.walk(), FIRST)
    if forbidden_page is not None:
        fault, c = first + steps.walk(), steps.c
        entry = fault + c.handler_ns
        given_up = entry + 2 * c.core_register_read_ns + c.tasklet_other_ns + c.page_in_fixed_ns
        arrival_rows += [
            (fault, DESTINATION, "fault_destination", forbidden_page, BLOCK_0),
            (fault, DESTINATION, "handler", forbidden_page, lib.PW_FSR_PF),
            (entry, DESTINATION, "tasklet_entry", forbidden_page, 1),
            (given_up, DESTINATION, "page_in_done", forbidden_page, 0),
        ]
    refused = last + refused_after_ns
    failed = read_at_source(steps, refused)
    told = failed + steps.latency()
    assert pair.log() == sorted(
        [
            *started_rows,
            *arrival_rows,
            *nack(steps, refused, code),
            (failed, SOURCE, "transfer_done", STREAM, PACKET),
            (told, DESTINATION, "notified", STREAM, PACKET),
        ]
    )


def test_unmapped_page_is_refused() -> None:
    pair, steps = traced()
    source, _ = resident(PACKET)
    pair.write_raw(source.address, 0x10_0000, PACKET)
    assert {event.error for event in pair.run()} == {lib.PW_ERR_ADDRESS}
    fatal(pair, steps, steps.walk(), DECODE)


@pytest.mark.skipif(not CHECKS_ACCESS, reason="needs PROCMAP_QUERY, Linux 6.11")
def test_page_that_may_not_be_written_is_refused() -> None:
    pair, steps = traced()
    source, destination = resident(PACKET)
    libc = ctypes.CDLL(None)
    start = ctypes.c_void_p(destination.first_page * PAGE)
    assert libc.mprotect(start, ctypes.c_size_t(PAGE), mmap.PROT_READ) == 0
    pair.write(source, destination)
    assert {event.error for event in pair.run()} == {lib.PW_ERR_PROTECTION}
    assert libc.mprotect(start, ctypes.c_size_t(PAGE), mmap.PROT_READ | mmap.PROT_WRITE) == 0
    fatal(pair, steps, steps.walk(), PROTECTION, forbidden_page=destination.first_page)


def test_unmapped_source_page_is_refused_before_a_packet_leaves() -> None:
    pair, steps = traced()
    _, destination = resident(PACKET)
    pair.write_raw(0x10_0000, destination.address, PACKET)
    assert {event.error for event in pair.run()} == {lib.PW_ERR_ADDRESS}
    started_rows, started = first_attempt(steps)
    assert pair.log() == [
        *started_rows,
        (started + steps.walk(), SOURCE, "transfer_done", STREAM, PACKET),
    ]
