"""The complete log of one transfer of each kind, with times as sums of what the steps cost.

A log is what happens at both nodes: rows of (time, node, kind, a, b), sorted as the engine's trace
is. `SOURCE` initiates writes, `DESTINATION` fetches. A transfer is one packet where nothing more is
needed, so that each test can be read as the steps of its log, one after the other.
"""

from __future__ import annotations

import itertools
import mmap

import pytest
from engine_costs import Steps
from engine_pair import BLOCK, PACKET, PAGE, Pair, absent, resident
from mappings import LIBC, READ_WRITE

from pagewire.native import lib

SOURCE, DESTINATION = 0, 1
MS = 1_000_000
FIRST, AGAIN = 0, 1
"""Sequence numbers of a block's attempts."""
BLOCK_0 = 0
"""The transaction id that a new engine gives out first."""
CHANNEL, STREAM = 0, 0
READ_STREAM = 1 << 31
PAGE_FAULT, DECODE, PROTECTION = 1, 2, 5
CHECKS_ACCESS = bool(lib.pw_memory_checks_access(Pair().memories[0]))

Row = tuple[int, int, str, int, int]


class Log:
    """The rows of one-packet writes from `source` to `destination`; a step returns when it ends."""

    def __init__(self, pair: Pair, source: int = SOURCE, destination: int = DESTINATION) -> None:
        self.pair, self.c, self.steps = pair, pair.costs, Steps(pair.costs)
        self.source, self.destination = source, destination
        self.rows: list[Row] = []

    def add(self, at_ns: int, node: int, kind: str, a: int, b: int) -> int:
        self.rows.append((at_ns, node, kind, a, b))
        return at_ns

    def started(self, posted_ns: int = 0) -> int:
        """The user writes the descriptor, the R5 finds it and starts the block."""
        noticed = posted_ns + self.steps.post_write() + self.steps.notice()
        self.add(noticed, self.source, "transfer_noticed", CHANNEL, PACKET)
        # ticket, table, start; the only block takes its completion message along
        started = noticed + self.steps.start_single()
        return self.add(started, self.source, "block_started", BLOCK_0, FIRST)

    def arrival(self, on_link_ns: int, sequence: int) -> tuple[int, int]:
        """One packet crosses the link, and is the first and the last of its block: when.

        The two differ by a nanosecond: the arrival of a first packet is rounded down, a block's
        end up.
        """
        steps = self.steps
        first = on_link_ns + steps.first_packet(PACKET) + steps.latency()
        last = on_link_ns + steps.wire(PACKET) + steps.latency()
        self.add(first, self.destination, "block_first_packet", BLOCK_0, sequence)
        self.add(last, self.destination, "block_last_packet", BLOCK_0, sequence)
        return first, last

    def read_at_source(self, at_ns: int) -> int:
        """The R5 has read what the destination sent at at_ns."""
        return at_ns + self.steps.latency() + self.steps.read_mailbox()

    def driver(
        self, fault_ns: int, node: int, page: int, fsr: int = lib.PW_FSR_TF, num_absent: int = 1
    ) -> int:
        """Fault, handler and tasklet up to the page; when it is in, or found to be no page."""
        c = self.c
        kind = "fault_source" if node == self.source else "fault_destination"
        self.add(fault_ns, node, kind, page, BLOCK_0)
        self.add(fault_ns, node, "handler", page, fsr)
        entry = self.add(fault_ns + c.handler_ns, node, "tasklet_entry", page, 1)
        page_in = c.page_in_fixed_ns + num_absent * c.page_in_page_ns
        done = entry + c.tasklet_other_ns + page_in
        return self.add(done, node, "page_in_done", page, num_absent)

    def nack(self, sent_ns: int, code: int) -> int:
        """The NACK leaves, and the source's R5 has read it."""
        self.add(sent_ns, self.destination, "nack_sent", BLOCK_0, code)
        return self.add(self.read_at_source(sent_ns), self.source, "nack", BLOCK_0, code)

    def err(self, paged_in_ns: int, page: int, sequence: int) -> int:
        """Netlink message, wake-up, ERR to the source's R5: when it has read it."""
        c, there = self.c, self.destination
        message = self.add(paged_in_ns + c.netlink_ns, there, "netlink_sent", page, BLOCK_0)
        sent = message + c.user_wakeup_ns + c.err_send_ns
        return self.read_at_source(self.add(sent, there, "err_sent", BLOCK_0, sequence))

    def retransmitted(self, at_ns: int, cause: str, sequence: int) -> int:
        """An ERR for that attempt, or its timeout, starts the block again."""
        self.add(at_ns, self.source, cause, BLOCK_0, sequence)
        again = at_ns + self.steps.restart()
        return self.add(again, self.source, "block_started", BLOCK_0, sequence + 1)

    def delivery(self, on_link_ns: int, sequence: int, translated_ns: int) -> None:
        """A last attempt goes through."""
        _, last = self.arrival(on_link_ns, sequence)
        written = last + translated_ns
        acked = written + self.steps.acknowledged()
        for at_ns, node, kind, told in (
            (written, self.destination, "ack_sent", "notified"),
            (acked, self.source, "ack", "transfer_done"),
        ):
            self.add(at_ns, node, kind, BLOCK_0, sequence)
            self.add(at_ns, node, told, STREAM, PACKET)

    def assert_complete(self, *others: Log) -> None:
        assert self.pair.log() == sorted(itertools.chain(self.rows, *(o.rows for o in others)))


def traced(**settings: int) -> Pair:
    pair = Pair(**settings)
    pair.trace()
    return pair


def three_blocks(pair: Pair, ready_ns: int, stream: int) -> list[Row]:
    """Blocks of 16 KB, 16 KB and 4 KB in a window of two, from when the R5 has the transfer."""
    steps, sizes = Steps(pair.costs), (BLOCK, BLOCK, PAGE)
    queue = 2 * steps.c.r5_queue_op_ns  # into the scheduler's queue and out again
    started = [ready_ns + queue + steps.start()]
    started.append(started[0] + steps.start())
    # one after the other on the link; the second and third wait for it
    link = [started[0] + steps.walk() + i * steps.wire(BLOCK) for i in range(3)]
    first = [at + steps.first_packet(BLOCK) + steps.latency() for at in link]
    last = [at + steps.wire(size) + steps.latency() for at, size in zip(link, sizes, strict=True)]
    written = [at + steps.walk() for at in last]
    acked = [at + steps.acknowledged() for at in written]
    started.append(acked[0] + queue + steps.start())  # the first ACK opens the window
    assert started[2] + steps.walk() < link[2]
    # the penultimate ACK releases the notification, which is here before the last block
    assert acked[1] + steps.c.r5_completion_message_ns + steps.latency() < written[2]
    rows = [
        (written[2], DESTINATION, "notified", stream, sum(sizes)),
        (acked[2], SOURCE, "transfer_done", stream, sum(sizes)),
    ]
    for node, kind, when in (
        (SOURCE, "block_started", started),
        (DESTINATION, "block_first_packet", first),
        (DESTINATION, "block_last_packet", last),
        (DESTINATION, "ack_sent", written),
        (SOURCE, "ack", acked),
    ):
        rows += [(at_ns, node, kind, block, FIRST) for block, at_ns in enumerate(when)]
    return rows


@pytest.mark.parametrize("reads", [False, True], ids=["write", "read"])
def test_transfer_of_several_blocks(reads: bool) -> None:
    """A read is served as a write, from when its request is read word by word."""
    pair = traced()
    steps = Steps(pair.costs)
    buffers = resident(2 * BLOCK + PAGE)
    if reads:
        pair.read(*buffers)
        ready, stream = steps.post_read(), READ_STREAM
        begin = (ready, SOURCE, "read_request", DESTINATION, READ_STREAM)
    else:
        pair.write(*buffers)
        ready, stream = steps.post_write() + steps.notice(), STREAM
        begin = (ready, SOURCE, "transfer_noticed", CHANNEL, 2 * BLOCK + PAGE)
    pair.run()
    assert pair.log() == sorted([begin, *three_blocks(pair, ready, stream)])


ERR, TIMEOUT, LATE_ERR = "err", "timeout", "an ERR that the timeout overtakes"


@pytest.mark.parametrize(
    ("ends", "recovery", "changes"),
    [
        ("source", TIMEOUT, {}),
        ("destination", ERR, {}),
        ("destination", TIMEOUT, {"err_enabled": 0}),
        # 20 us end before the page is in: with NTO the NACK stops the timer, without it the block
        # is sent once more; the page is in when that attempt comes, and the first one's ERR late
        ("destination", ERR, {"timeout_ns": 20_000, "nack_cancels_timer": 1}),
        ("destination", LATE_ERR, {"timeout_ns": 20_000, "nack_cancels_timer": 0}),
        ("both", ERR, {}),  # timeout for the source's page, then ERR for the destination's
    ],
)
def test_page_fault_and_its_recovery(ends: str, recovery: str, changes: dict[str, int]) -> None:
    settings = {"timeout_ns": MS} | changes
    pair = traced(**settings)
    log, steps = Log(pair), Steps(pair.costs)
    source, destination = absent(PACKET, ends)
    pair.write(source, destination)
    pair.run()
    started, sequence, timeout_ns = log.started(), FIRST, settings["timeout_ns"]
    if ends != "destination":  # the walk finds no page, no packet leaves
        log.driver(started + steps.walk(), SOURCE, source.first_page)
        started = log.retransmitted(started + timeout_ns, "timeout", sequence)
        sequence += 1
    translated = steps.walk()  # at the source
    if ends != "source":
        first, last = log.arrival(started + steps.walk(), sequence)
        paged_in = log.driver(first + steps.walk(), DESTINATION, destination.first_page)
        log.nack(last + steps.walk(), PAGE_FAULT)
        expired = started + timeout_ns
        if recovery != TIMEOUT:
            read = log.err(paged_in, destination.first_page, sequence)
            assert expired < read + steps.restart() or timeout_ns == MS
        if recovery == ERR:
            started = log.retransmitted(read, "err", sequence)
        else:
            started = log.retransmitted(expired, "timeout", sequence)
        assert paged_in < started
        sequence, translated = sequence + 1, steps.l1_hit()
    log.delivery(started + translated, sequence, steps.walk())
    log.assert_complete()
    assert pair.counters(SOURCE).stale_answers == (recovery == LATE_ERR)


def test_hupcf_0_terminates_the_access_to_a_present_page_while_a_fault_is_active() -> None:
    """Both nodes write to each other. DESTINATION's own read of its source faults; 500 ns later,
    with that fault's handler still at work, SOURCE's packet comes for a page that is there."""
    pair = traced(hupcf=0, timeout_ns=MS)
    c, steps = pair.costs, Steps(pair.costs)
    source, destination = resident(PACKET)
    there, here = resident(PACKET)
    there.drop()
    ahead_ns = 500
    flight = steps.first_packet(PACKET) + steps.latency() + steps.walk()
    pair.write(source, destination, at_ns=0)
    pair.write(there, here, node=DESTINATION, peer=SOURCE, at_ns=flight - ahead_ns)
    pair.run()
    log, page = Log(pair), destination.first_page
    first, last = log.arrival(log.started() + steps.walk(), FIRST)
    blocked = log.add(first + steps.walk(), DESTINATION, "fault_destination", page, BLOCK_0)
    # DESTINATION's own transfer, which is the other way round
    own = Log(pair, source=DESTINATION, destination=SOURCE)
    own_started = own.started(flight - ahead_ns)
    own_fault = own_started + steps.walk()
    assert blocked == own_fault + ahead_ns < own_fault + c.handler_ns
    own_paged_in = own.driver(own_fault, DESTINATION, there.first_page)
    own_again = own.retransmitted(own_started + MS, "timeout", FIRST)
    own.delivery(own_again + steps.walk(), AGAIN, steps.walk())
    # the entry of the terminated packet: read behind the first fault's, its page found present
    log.nack(last + steps.walk(), PAGE_FAULT)
    log.add(own_paged_in, DESTINATION, "tasklet_entry", page, 1)
    looked = own_paged_in + c.tasklet_other_ns + c.page_in_fixed_ns
    log.add(looked, DESTINATION, "page_in_done", page, 0)
    again = log.retransmitted(log.err(looked, page, FIRST), "err", FIRST)
    log.delivery(again + steps.l1_hit(), AGAIN, steps.l1_hit())
    log.assert_complete(own)


def assert_fatal(pair: Pair, code: int, forbidden_page: int | None = None) -> None:
    """One attempt, a fatal NACK, both ends told.

    A page that may not be written is a permission fault, and the driver finds out that it stays
    one.
    """
    log, steps = Log(pair), Steps(pair.costs)
    first, last = log.arrival(log.started() + steps.walk(), FIRST)
    if forbidden_page is not None:
        fault = first + steps.walk()
        log.driver(fault, DESTINATION, forbidden_page, fsr=lib.PW_FSR_PF, num_absent=0)
    failed = log.nack(last + steps.walk(), code)
    log.add(failed, SOURCE, "transfer_done", STREAM, PACKET)
    log.add(failed + steps.latency(), DESTINATION, "notified", STREAM, PACKET)
    log.assert_complete()


def test_unmapped_page_is_refused() -> None:
    pair = traced()
    source, _ = resident(PACKET)
    pair.write_raw(source.address, 0x10_0000, PACKET)
    assert {event.error for event in pair.run()} == {lib.PW_ERR_ADDRESS}
    assert_fatal(pair, DECODE)


@pytest.mark.skipif(not CHECKS_ACCESS, reason="needs PROCMAP_QUERY, Linux 6.11")
def test_page_that_may_not_be_written_is_refused() -> None:
    pair = traced()
    source, destination = resident(PACKET)
    start = destination.first_page * PAGE
    assert LIBC.mprotect(start, PAGE, mmap.PROT_READ) == 0
    pair.write(source, destination)
    assert {event.error for event in pair.run()} == {lib.PW_ERR_PROTECTION}
    assert LIBC.mprotect(start, PAGE, READ_WRITE) == 0
    assert_fatal(pair, PROTECTION, forbidden_page=destination.first_page)


def test_unmapped_source_page_is_refused_before_a_packet_leaves() -> None:
    pair = traced()
    _, destination = resident(PACKET)
    pair.write_raw(0x10_0000, destination.address, PACKET)
    assert {event.error for event in pair.run()} == {lib.PW_ERR_ADDRESS}
    log = Log(pair)
    refused = log.started() + Steps(pair.costs).walk()
    log.add(refused, SOURCE, "transfer_done", STREAM, PACKET)
    log.assert_complete()
