"""Stall mode: faulting accesses wait for RESUME. And all four terminate/stall x HUPCF side by
side."""

import pytest
from engine_costs import Steps
from engine_pair import (
    ARRIVED,
    BLOCK,
    PAGE,
    PDID,
    Buffer,
    Pair,
    Policy,
    absent,
    resident,
    times,
    written,
)

from pagewire.native import lib
from pagewire.smmu.registers import Fsr, Fsynr0, Resume, Sctlr

BUFFER_FULL = 7


def service(pair: Pair, num_pages: int) -> int:
    """From the fault to RESUME: handler, tasklet, page-in, the register's write."""
    c = pair.costs
    page_in = c.page_in_fixed_ns + num_pages * c.page_in_page_ns
    return c.handler_ns + c.tasklet_other_ns + page_in + c.core_register_write_ns


def assert_nothing_was_terminated(pair: Pair) -> None:
    for node in range(len(pair.nis)):
        own = pair.counters(node)
        assert sum(own.nacks) == own.err_messages == own.errs_sent == own.fifo_pushed == 0
        assert own.resumes_terminate == own.retransmitted_blocks == own.timeouts == 0


def first_access(pair: Pair, num_bytes: int) -> int:
    """When the destination's first packet has been translated."""
    steps = Steps(pair.costs)
    started = pair.time_of("block_started")
    return started + steps.walk() + steps.first_packet(num_bytes) + steps.latency() + steps.walk()


def test_a_stalled_write_goes_on_at_resume_without_nack_or_err() -> None:
    source, destination = absent(PAGE)
    pair, arrived = written(source, destination, stall=1, err_enabled=0, timeout_ns=-1)
    fault = first_access(pair, PAGE)
    assert pair.time_of("fault_destination") == pair.time_of("handler") == fault
    resumed = fault + service(pair, 1)
    assert [row[0] for row in pair.log("resume")] == [resumed]
    # the first packet's access is retried with a walk; the others find its translation then
    assert arrived == resumed + Steps(pair.costs).walk()
    own = pair.counters(1)
    assert own.translation_faults_destination == own.resumes_retry == own.fault_interrupts == 1
    assert own.accesses_stalled == 16 and own.faults_multi == 15
    assert own.stalled_ns > 15 * (service(pair, 1) - Steps(pair.costs).packet_offset(15))
    assert_nothing_was_terminated(pair)
    bank = pair.bank(1)
    assert bank.sctlr == Sctlr.M | Sctlr.CFRE | Sctlr.CFIE | Sctlr.CFCFG | Sctlr.HUPCF
    assert bank.fsr == Fsr.TF | Fsr.SS | Fsr.MULTI and bank.fsynr0 == Fsynr0.WNR
    assert (bank.fault_ns, bank.clear_ns, bank.resume) == (fault, resumed, Resume.RETRY)
    assert bank.address == destination.address


@pytest.mark.parametrize(("policy", "num_faults"), [(Policy.PAGE, 4), (Policy.BLOCK, 1)])
def test_stall_serves_one_page_after_the_other(policy: int, num_faults: int) -> None:
    """While one access is stalled FSR keeps its fault: the next page's is known only after
    RESUME."""
    pair, arrived = written(*absent(BLOCK), stall=1, policy=policy)
    fault = first_access(pair, BLOCK)
    pages = 4 // num_faults
    resumes = [fault + (i + 1) * service(pair, pages) for i in range(num_faults)]
    assert [row[0] for row in pair.log("resume")] == resumes
    assert [row[0] for row in pair.log("fault_destination")] == [fault, *resumes[:-1]]
    assert arrived == resumes[-1] + Steps(pair.costs).walk()
    assert_nothing_was_terminated(pair)


@pytest.mark.parametrize("policy", [Policy.PAGE, Policy.ALL])
def test_a_stalled_read_needs_no_timeout(policy: int) -> None:
    """At the source terminate knows the timeout only; a stalled read goes on by itself."""
    source, destination = absent(PAGE, "source")
    destination.fill(b"\xff" * PAGE)
    settings = {"stall": 1, "timeout_ns": -1, "policy": policy}
    pair, arrived = written(source, destination, bytes(PAGE), **settings)
    steps = Steps(pair.costs)
    fault = pair.time_of("block_started") + steps.walk()
    assert pair.time_of("fault_source") == fault
    leaves = fault + service(pair, 1) + steps.walk()
    assert arrived == leaves + steps.wire(PAGE) + steps.latency() + steps.walk()
    assert pair.bank(0).fsynr0 == 0
    assert_nothing_was_terminated(pair)


@pytest.mark.parametrize("stall", [0, 1])
@pytest.mark.parametrize("hupcf", [1, 0])
def test_present_page_meets_a_source_fault_of_its_bank_only_without_hupcf(
    stall: int, hupcf: int
) -> None:
    """Node 1 reads an absent page for node 2, and 500 ns later a packet for a present page
    comes."""
    pair = Pair(3, hupcf=hupcf, stall=stall)
    pair.trace()
    c, steps = pair.costs, Steps(pair.costs)
    at_ns, ahead_ns = 100_000, 500
    source, destination = resident(PAGE)
    read_at_1, written_at_2 = resident(PAGE)
    read_at_1.drop()
    arrives = steps.first_packet(PAGE) + steps.latency() + steps.walk()
    pair.write(source, destination, node=0, peer=1, at_ns=at_ns)
    pair.write(read_at_1, written_at_2, node=1, peer=2, at_ns=at_ns + arrives - ahead_ns)
    arrived = {event.node: event.time_ns for event in pair.run() if event.kind == ARRIVED}
    assert destination.read() == source.read() and written_at_2.read() == bytes(PAGE)

    start = at_ns + steps.post_write() + steps.notice() + steps.start_single()
    fault = start + steps.walk() + arrives - ahead_ns
    assert pair.time_of("fault_source") == fault
    undisturbed = start + 2 * steps.walk() + steps.wire(PAGE) + steps.latency()
    blocked = pair.counters(1).accesses_blocked
    nacks = pair.counters(0).nacks[1]
    if hupcf:  # the packets for the present page go on
        assert (arrived[1], blocked, nacks) == (undisturbed, 0, 0)
    elif stall:  # all 16 wait for RESUME, and nothing is sent again
        assert (blocked, nacks) == (16, 0)
        assert arrived[1] == fault + service(pair, 1) + steps.l1_hit()
    else:  # they are terminated: NACK 1, page-in that finds the page, ERR, once more
        # The engine of node 1 has stopped, so only packets from node 0 meet its fault: those before
        # the handler has cleared FSR.
        offsets = [ahead_ns + steps.packet_offset(i) for i in range(16)]
        assert blocked == sum(offset < c.handler_ns for offset in offsets) == 4 and nacks == 1
        assert arrived[1] > undisturbed  # step by step in test_logs.py
    if stall:
        assert (
            arrived[2]
            == fault + service(pair, 1) + 2 * steps.walk() + steps.wire(PAGE) + steps.latency()
        )
    else:
        assert arrived[2] > fault + 1_000_000  # the default timeout
    pair.assert_quiet()


@pytest.mark.parametrize("at_source", [False, True])
def test_resume_terminates_the_access_to_an_address_without_mapping(at_source: bool) -> None:
    pair = Pair(stall=1)
    pair.trace()
    source, destination = resident(PAGE)
    hole = Buffer(PAGE)
    address = hole.address
    hole.pages.close()
    if at_source:
        pair.write_raw(address, destination.address, PAGE)
    else:
        pair.write_raw(source.address, address, PAGE)
    events = pair.run()
    assert {event.error for event in events} == {lib.PW_ERR_ADDRESS}
    c = pair.costs
    fault = pair.time_of("fault_source" if at_source else "fault_destination")
    refused = fault + c.handler_ns + c.tasklet_other_ns + c.page_in_fixed_ns
    assert pair.time_of("resume") == refused + c.core_register_write_ns
    bank = pair.bank(0 if at_source else 1)
    assert bank.resume == Resume.TERMINATE
    assert pair.counters(0 if at_source else 1).resumes_terminate == 1
    assert destination.read() == bytes(PAGE)
    pair.carry(source, destination)


def test_timeout_that_is_shorter_than_the_stall_sends_again_and_writes_once() -> None:
    slow = {"page_in_page_ns": 90_000}
    pair, arrived = written(*absent(PAGE), stall=1, timeout_ns=20_000, costs=slow)
    assert arrived == pair.time_of("resume") + Steps(pair.costs).walk()
    copies = pair.counters(0).timeouts
    assert copies >= 4 and pair.counters(1).duplicate_blocks == copies
    # no copy is acknowledged before the bytes are there
    assert min(row[0] for row in pair.log("ack_sent")) >= pair.time_of("resume")
    assert pair.counters(1).resumes_retry == 1


def test_more_accesses_than_can_be_outstanding_hold_the_receive_engine() -> None:
    pair, arrived = written(*absent(PAGE), stall=1, outstanding_accesses=4)
    resumed = pair.time_of("resume")
    own = pair.counters(1)
    # four wait for RESUME; the fifth enters when the first of them leaves
    assert own.accesses_stalled == 4 and own.outstanding_full > 0
    assert arrived == resumed + Steps(pair.costs).walk()
    assert own.faults_multi == 3


def test_blocks_that_hold_the_receive_engine_at_the_same_time_do_not_add_up() -> None:
    """One access at a time, each 3 ms late: timeouts send blocks again that wait for the same
    pages."""
    num_pages, late_ns = 20, 3_000_000
    pair, arrived = written(
        *absent(num_pages * PAGE),
        stall=1,
        outstanding_accesses=1,
        timeout_ns=100_000,
        window_blocks=4,
        receive_buffer_blocks=2,
        injected={"late_tasklet": "1:1:0", "tasklet_late_by_ns": late_ns},
    )
    c = pair.costs
    page_ns = c.handler_ns + late_ns + c.page_in_fixed_ns + c.page_in_page_ns + 10_000
    assert num_pages * late_ns < arrived < num_pages * page_ns
    assert pair.counters(0).timeouts > 0 and pair.counters(0).nacks[BUFFER_FULL] > 0


# -- what a walk costs

TABLE = 512 * PAGE
UPPER_TABLE = 512 * TABLE


class TableBuffer(Buffer):
    """A buffer that starts `num_pages` pages before the end of a last-level table, which is not the
    last one of the table above it."""

    def __init__(self, num_bytes: int, num_pages: int) -> None:
        super().__init__(num_bytes + 3 * TABLE)
        border = -(-(self.address + BLOCK) // TABLE) * TABLE
        border += TABLE if border % UPPER_TABLE == 0 else 0
        self.start += border - num_pages * PAGE - self.address
        self.address = border - num_pages * PAGE
        self.num_bytes = num_bytes


def walks_of(pair: Pair, destination: Buffer, num_bytes: int) -> tuple[int, int]:
    """Walks and their memory accesses at the destination."""
    source, _ = resident(num_bytes)
    destination.touch()
    before = pair.counters(1)
    pair.write_raw(source.address, destination.address, num_bytes)
    times(pair.run())
    after = pair.counters(1)
    return after.walks - before.walks, after.walk_accesses - before.walk_accesses


@pytest.mark.parametrize(
    ("entries", "accesses"),
    [
        (0, 16 * 3),
        (64, 3 + 3 + 2 + 11),  # full; rest of the first table; a new last table; its rest
        (1, 3 + 3 + 3 + 11),  # only the pointer entered last is kept: the lowest level's
    ],
)
def test_walk_cache_saves_the_upper_levels(entries: int, accesses: int) -> None:
    """16 pages, four of them before a table's border."""
    pair = Pair(walk_cache_entries=entries, lookahead_blocks=0)
    destination = TableBuffer(16 * PAGE, 4)
    assert walks_of(pair, destination, 16 * PAGE) == (16, accesses)


def test_invalidation_by_address_drops_the_tables_too() -> None:
    pair = Pair(walk_cache_entries=64)
    destination = TableBuffer(4 * PAGE, 4)
    assert walks_of(pair, destination, PAGE) == (1, 3)
    lib.pw_ni_invalidate(pair.nis[1], PDID, destination.first_page, 1)
    assert walks_of(pair, destination, PAGE) == (1, 3)
    assert walks_of(pair, destination, PAGE) == (0, 0)


def test_prefetch_buffer_leaves_one_walk_for_the_stream() -> None:
    pair = Pair(walk_cache_entries=64, prefetch_entries=8)
    pair.trace()
    destination = TableBuffer(8 * PAGE, 8)
    assert walks_of(pair, destination, 8 * PAGE) == (1, 3 + 7)
    own = pair.counters(1)
    assert own.prefetches == own.prefetch_hits == 7
    assert walks_of(pair, destination, 8 * PAGE) == (0, 0)
    # an absent page is not fetched ahead, and a table's last page has no next
    other = TableBuffer(8 * PAGE, 1)
    other.touch()
    other.drop(2)
    source, _ = resident(8 * PAGE)
    pair.write_raw(source.address, other.address, 8 * PAGE, 10**9)
    times(pair.run())
    assert pair.counters(1).stale_translations == 0


@pytest.mark.parametrize("walkers", [1, 16])
def test_walks_share_the_walkers(walkers: int) -> None:
    """Node 1 reads a page for node 2 while a packet comes: two walks, 100 ns apart."""
    pair = Pair(3, parallel_walks=walkers)
    pair.trace()
    steps = Steps(pair.costs)
    at_ns, ahead_ns = 100_000, 100
    arrives = steps.first_packet(PAGE) + steps.latency() + steps.walk()
    buffers = [resident(PAGE), resident(PAGE)]
    pair.write(*buffers[0], node=1, peer=2, at_ns=at_ns + arrives - ahead_ns)
    pair.write(*buffers[1], node=0, peer=1, at_ns=at_ns)
    arrived = {event.node: event.time_ns for event in pair.run() if event.kind == ARRIVED}
    start = at_ns + steps.post_write() + steps.notice() + steps.start_single()
    undisturbed = start + 2 * steps.walk() + steps.wire(PAGE) + steps.latency()
    waits = steps.walk() - ahead_ns if walkers == 1 else 0
    assert arrived[1] == undisturbed + waits
    assert pair.counters(1).walks_delayed == (walkers == 1)
