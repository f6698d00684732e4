"""The machine's order of a page fault: handler, the tasklet's whole run, then the thread's ERRs; at
the source a stop at the first absent page [PART 4.4, 5.3; PSI 3.2.2, 4]. Times are
sums of costs.
"""

import random

import pytest
from engine_costs import Core, Steps
from engine_pair import BLOCK, PAGE, Pair, Policy, absent, resident, written

from pagewire.native import lib

A_PAGE = lib.PW_PAGE_IN_TOUCH_A_PAGE
AFTER_BLOCK, AFTER_PAGE = lib.PW_ERRS_AFTER_BLOCK, lib.PW_ERRS_AFTER_PAGE
PAGE_FAULT = 1
MS = 1_000_000
PAGE_PACKETS, BLOCK_PACKETS, BLOCK_PAGES = 16, 64, 4


def started_single(steps: Steps) -> int:
    return steps.post_write() + steps.notice() + steps.start_single()


def first_access(steps: Steps, link_ns: int) -> int:
    """The first packet's, when the block is on the link from then on and its first page is not
    cached."""
    return link_ns + steps.first_packet(BLOCK) + steps.latency() + steps.walk()


def accesses(steps: Steps, link_ns: int, packets: range = range(BLOCK_PACKETS)) -> list[int]:
    return [first_access(steps, link_ns) + steps.packet_offset(i) for i in packets]


def restarted(steps: Steps, err_ns: int) -> int:
    """The block leaves again for an ERR that was sent then."""
    return err_ns + steps.latency() + steps.read_mailbox() + steps.restart()


def arrival(steps: Steps, link_ns: int, delay_ns: int) -> int:
    """The block's last byte is written, with the translation of its first page."""
    return link_ns + steps.wire(BLOCK) + steps.latency() + delay_ns


def column(pair: Pair, kind: str) -> list[int]:
    return [row[0] for row in pair.log(kind)]


def test_err_of_the_first_block_waits_for_the_entries_of_the_second() -> None:
    source, destination = absent(2 * BLOCK)
    pair, arrived = written(source, destination, policy=Policy.PAGE, window_blocks=2)
    c, steps = pair.costs, Steps(pair.costs)
    # through the scheduler's queue, then one start after the other; the second waits for the link
    queue = 2 * c.r5_queue_op_ns
    started = [steps.post_write() + steps.notice() + queue + steps.start()]
    started.append(started[0] + steps.start())
    link = started[0] + steps.walk()
    second_link = link + steps.wire(BLOCK)
    core = Core(pair, accesses(steps, link) + accesses(steps, second_link))
    assert column(pair, "handler") == core.interrupts
    # the second block comes while the run is at the first one's entries
    assert core.in_run(core.entry(1)) > first_access(steps, second_link)
    entry = core.entry(1)
    assert column(pair, "tasklet_entry") == [core.in_run(i * entry) for i in range(8)]
    end = core.in_run(8 * entry)
    errs = [end + c.user_wakeup_ns + (i + 1) * c.err_send_ns for i in range(2)]
    assert [(row[0], row[3]) for row in pair.log("err_sent")] == [(errs[0], 0), (errs[1], 1)]
    again = [restarted(steps, err) for err in errs]
    # the R5 has done with the first ERR when the second comes
    assert again[0] < errs[1] + steps.latency()
    assert column(pair, "block_started") == started + again
    # the second block waits for the link once more; each block's first page is cold at the
    # destination
    link = again[0] + steps.l1_hit()
    assert link + steps.wire(BLOCK) > again[1] + steps.l1_hit()
    assert arrived == arrival(steps, link + steps.wire(BLOCK), steps.walk())
    counters = pair.counters(1)
    assert counters.tasklet_runs == 1 and counters.tasklet_entries == counters.pages_paged_in == 8
    assert counters.errs_sent == pair.counters(0).retransmitted_blocks == 2


@pytest.mark.parametrize("core_of_library", [lib.PW_LIBRARY_CORE_SAME, lib.PW_LIBRARY_CORE_OTHER])
def test_on_a_core_of_its_own_the_thread_sends_the_err_while_the_tasklet_works(
    core_of_library: int,
) -> None:
    """The block's first entry brings all four pages in; three more wait in the FIFO."""
    source, destination = absent(BLOCK)
    pair, arrived = written(source, destination, policy=Policy.BLOCK, library_core=core_of_library)
    c, steps = pair.costs, Steps(pair.costs)
    started = started_single(steps)
    core = Core(pair, accesses(steps, started + steps.walk()))
    first, further = core.entry(4), core.entry(0)
    end = core.in_run(first + 3 * further)
    messages = [core.in_run(first + i * further) for i in range(BLOCK_PAGES)]
    assert column(pair, "netlink_sent") == messages and messages[-1] == end
    wakes = end if core_of_library == lib.PW_LIBRARY_CORE_SAME else messages[0]
    err = wakes + c.user_wakeup_ns + c.err_send_ns
    assert column(pair, "err_sent") == [err]
    again = restarted(steps, err)
    assert column(pair, "block_started") == [started, again]
    assert arrived == arrival(steps, again + steps.l1_hit(), steps.walk())
    assert (err < end) == (arrived < end) == (core_of_library == lib.PW_LIBRARY_CORE_OTHER)


def test_destinations_errs_take_the_place_of_the_sources_timeouts() -> None:
    """Both ends absent, Touch-A-Page. The first attempt stops at once, and only the timeout ends
    that. Each further one reaches one page further, and that page's ERR comes when the source has
    touched the next."""
    source, destination = absent(BLOCK, "both")
    settings = {"page_in": A_PAGE, "policy": Policy.PAGE, "timeout_ns": MS}
    pair, arrived = written(source, destination, bytes(BLOCK), **settings)
    c, steps = pair.costs, Steps(pair.costs)
    started = [started_single(steps)]
    started.append(started[0] + MS + steps.restart())
    for page in range(BLOCK_PAGES):
        # cold in the first attempt that finds the block's first page present: the second at the
        # source, the third at the destination
        delay = steps.walk() if page == 0 else steps.l1_hit()
        there = steps.walk() if page <= 1 else steps.l1_hit()
        link = started[-1] + delay
        first = link + steps.first_packet(BLOCK) + steps.latency() + there
        packets = range(page * PAGE_PACKETS, (page + 1) * PAGE_PACKETS)
        core = Core(pair, [first + steps.packet_offset(i) for i in packets])
        end = core.in_run(c.tasklet_other_ns + c.netlink_ns)
        err = end + c.user_wakeup_ns + c.touch_absent_page_ns + c.err_send_ns
        started.append(restarted(steps, err))
        if page + 1 < BLOCK_PAGES:  # at the source: no entry to read
            stopped = link + steps.packet_offset((page + 1) * PAGE_PACKETS)
            told = stopped + c.handler_ns + c.tasklet_other_ns + c.netlink_ns
            assert told + c.user_wakeup_ns + c.touch_absent_page_ns < started[-1]
    assert column(pair, "block_started") == started
    assert arrived == arrival(steps, started[-1] + steps.l1_hit(), steps.l1_hit())
    counters = pair.counters(0)
    assert counters.timeouts == 1 and counters.err_messages == pair.counters(1).errs_sent == 4
    # only the last but one attempt was whole; a block that lacks packets has an ERR, but no NACK
    assert counters.nacks[PAGE_FAULT] == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": Policy.PAGE},
        {"policy": Policy.ALL, "window_blocks": 4},
        {"policy": Policy.BLOCK, "page_in": A_PAGE},
        {"policy": Policy.BLOCK, "library_core": lib.PW_LIBRARY_CORE_OTHER},
        {"policy": Policy.BLOCK, "driver_variant": lib.PW_DRIVER_PSI},
        {"policy": Policy.PAGE, "err_by": lib.PW_ERRS_BY_KERNEL},
        {"policy": Policy.ALL, "err_by": lib.PW_ERRS_BY_KERNEL, "err_after": AFTER_PAGE},
        {"policy": Policy.PAGE, "err_by": lib.PW_ERRS_BY_KERNEL, "err_after": AFTER_BLOCK},
        {"policy": Policy.ALL, "library_core": lib.PW_LIBRARY_CORE_OTHER, "err_after": AFTER_BLOCK},
        {"policy": Policy.PAGE, "timeout_ns": 100_000},
        {"policy": Policy.PAGE, "hupcf": 0},
    ],
)
@pytest.mark.parametrize("ends", ["destination", "both"])
def test_one_transfers_times_do_not_depend_on_when_frames_are_handed_over(
    settings: dict[str, int], ends: str
) -> None:
    source, destination = resident(5 * BLOCK)
    seen = []
    for order in (None, 1, 2, 3):
        destination.touch()
        destination.drop()
        source.touch()
        if ends == "both":
            source.drop(1)
            source.drop(9)
        pair = Pair(**settings)
        pair.trace(100_000)
        if order is not None:
            pair.pick = random.Random(order).choice
        pair.write(source, destination)
        events = sorted((e.node, e.time_ns, e.kind, e.error) for e in pair.run())
        assert destination.read() == source.read()
        pair.assert_quiet()
        seen.append((pair.log(), events))
    assert all(each == seen[0] for each in seen)


def test_err_of_an_attempt_that_a_timeout_overtook_is_ignored() -> None:
    """The timer of 72 us runs out while the tasklet is at the third page. The second attempt meets
    the fourth page only, whose new entry joins the run; of the two ERRs behind it the second is of
    that attempt."""
    timeout_ns = 72_000
    source, destination = absent(BLOCK)
    pair, arrived = written(source, destination, policy=Policy.PAGE, timeout_ns=timeout_ns)
    c, steps = pair.costs, Steps(pair.costs)
    started = started_single(steps)
    second = started + timeout_ns + steps.restart()
    link = second + steps.l1_hit()
    fourth_page = range(3 * PAGE_PACKETS, BLOCK_PACKETS)
    late = accesses(steps, link, fourth_page)
    core = Core(pair, accesses(steps, started + steps.walk()) + late)
    entry = core.entry(1)
    present = [core.in_run(i * entry + core.until_present(1)) for i in range(BLOCK_PAGES)]
    assert column(pair, "page_in_done")[:4] == present
    assert present[2] < accesses(steps, link)[2 * PAGE_PACKETS] and late[-1] < present[3]
    assert column(pair, "handler") == core.interrupts
    end = core.in_run(4 * entry + core.entry(0))
    errs = [end + c.user_wakeup_ns + (i + 1) * c.err_send_ns for i in range(2)]
    assert [(row[0], row[4]) for row in pair.log("err_sent")] == [(errs[0], 0), (errs[1], 1)]
    third = restarted(steps, errs[1])
    assert [(row[0], row[4]) for row in pair.log("block_started")] == [
        (started, 0),
        (second, 1),
        (third, 2),
    ]
    assert [row[4] for row in pair.log("err")] == [1]
    assert arrived == arrival(steps, third + steps.l1_hit(), steps.l1_hit())
    assert pair.counters(1).tasklet_runs == 1 and pair.counters(1).tasklet_entries == 5
    counters = pair.counters(0)
    assert counters.timeouts == counters.err_messages == counters.stale_answers == 1


@pytest.mark.parametrize("num_pages", [1, 4])
def test_err_of_the_kernel_follows_the_run_without_message_and_wake_up(num_pages: int) -> None:
    """PSI 5.2 (1)."""
    times = {}
    for err_by in (lib.PW_ERRS_BY_LIBRARY, lib.PW_ERRS_BY_KERNEL):
        pair, arrived = written(*absent(num_pages * PAGE), policy=Policy.PAGE, err_by=err_by)
        times[err_by] = arrived
        c, counters = pair.costs, pair.counters(1)
        by_library = err_by == lib.PW_ERRS_BY_LIBRARY
        assert counters.netlink_messages == len(pair.log("netlink_sent")) == num_pages * by_library
        assert counters.errs_sent == 1 and pair.counters(0).timeouts == 0
        last_page = pair.log("page_in_done")[-1][0]
        told_ns = (c.netlink_ns + c.user_wakeup_ns) * by_library
        assert pair.log("err_sent")[0][0] == last_page + told_ns + c.err_send_ns
    saved_ns = num_pages * c.netlink_ns + c.user_wakeup_ns
    assert times[lib.PW_ERRS_BY_LIBRARY] - times[lib.PW_ERRS_BY_KERNEL] >= saved_ns - c.handler_ns


def test_fsr_keeps_the_first_fault_in_virtual_time_whichever_block_started_first() -> None:
    """PSI 3.2.1: while FSR is not zero a fault only sets MULTI. Two blocks whose timers expire
    together: the one that starts first reads a page before it faults, the other faults at once,
    behind its read but earlier."""
    pair = Pair(page_in=lib.PW_PAGE_IN_TOUCH_A_PAGE)
    pair.trace()
    source, destination = absent(2 * BLOCK, "source")
    pair.write(source, destination)
    pair.finish()
    kept: list[tuple[int, int]] = []
    inverted = 0
    last_start: dict[int, int] = {}
    faults: list[tuple[int, int]] = []
    for time_ns, _, kind, a, b in pair.log("block_started", "fault_source"):
        if kind == "block_started":
            last_start[a] = time_ns
            continue
        if faults and time_ns < kept[-1][0] + pair.costs.handler_ns:
            inverted += last_start[b] < faults[-1][1]
        else:
            kept.append((time_ns, a))
        faults.append((time_ns, last_start[b]))
    assert [(row[0], row[3]) for row in pair.log("handler")] == kept
    assert inverted > 0
    assert pair.counters(0).faults_multi == len(faults) - len(kept) > 0
    pair.assert_quiet()
