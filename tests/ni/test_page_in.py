"""The two ways to page in, step by step: Touch-Ahead and Touch-A-Page [PSI 3.2]."""

import itertools
import mmap
import tempfile

import pytest
from engine_costs import Core, Steps
from engine_pair import ARRIVED, BLOCK, DONE, PAGE, Pair, Policy, absent, pattern, resident, written
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib
from pagewire.run.settings.platform import load, names

UNRECOVERABLE, ADDRESS, PROTECTION = (
    lib.PW_ERR_UNRECOVERABLE,
    lib.PW_ERR_ADDRESS,
    lib.PW_ERR_PROTECTION,
)
AHEAD, A_PAGE = lib.PW_PAGE_IN_TOUCH_AHEAD, lib.PW_PAGE_IN_TOUCH_A_PAGE
MS = 1_000_000
SOURCE, DESTINATION = 0, 1
DRIVER = ("handler", "tasklet_entry", "page_in_done", "netlink_sent", "page_touched", "err_sent")
BLOCK_PAGES = BLOCK // PAGE


class Driver:
    """What handler, tasklet and thread do with one attempt of a block, as a list of log rows.

    Pages are counted from `first_page`; `wanted` pages are asked for by each entry, or fewer at the
    end. The tasklet runs from the first handler's end through all entries; each later handler that
    begins before an instant of the run delays it. The thread wakes up when the run is over: it
    touches the pages of all messages in order, then sends the block's one ERR.
    """

    def __init__(self, pair: Pair, node: int, first_page: int) -> None:
        self.c, self.pair, self.node = pair.costs, pair, node
        self.first_page = first_page
        self.present: set[int] = set()
        self.rows: list[tuple[int, str, int, int]] = []
        self.err: int | None = None

    def handlers(self, first_fault_ns: int, num_packets: int) -> None:
        """Each packet faults, but a fault while FSR is not clear raises no interrupt."""
        steps = Steps(self.c)
        faults = [first_fault_ns + steps.packet_offset(packet) for packet in range(num_packets)]
        core = Core(self.pair, faults)
        self.in_run, self.interrupts = core.in_run, core.interrupts
        for at_ns in self.interrupts:
            page = self.first_page + faults.index(at_ns) // 16
            self.rows.append((at_ns, "handler", page, lib.PW_FSR_TF))

    def entries(self, way: int, wanted: list[int]) -> None:
        c = self.c
        work, messages = 0, []
        for index, num_wanted in enumerate(wanted):
            page = self.first_page + index
            self.rows.append((self.in_run(work), "tasklet_entry", page, num_wanted))
            work += c.tasklet_other_ns
            pages = range(page, page + num_wanted)
            if way == AHEAD:
                missing = [each for each in pages if each not in self.present]
                work += c.page_in_fixed_ns + len(missing) * c.page_in_page_ns
                self.rows.append((self.in_run(work), "page_in_done", page, len(missing)))
                self.present.update(pages)
            told = list(pages) if way == A_PAGE else [page] * (self.node == DESTINATION)
            for each in told:
                work += c.netlink_ns
                self.rows.append((self.in_run(work), "netlink_sent", each, 0))
            messages += told
        if messages:
            self.thread(self.in_run(work), messages if way == A_PAGE else [])

    def thread(self, run_end_ns: int, to_touch: list[int]) -> None:
        c = self.c
        assert run_end_ns > self.interrupts[-1] + c.handler_ns  # nothing preempts it
        at_ns = run_end_ns + c.user_wakeup_ns
        for page in to_touch:
            is_absent = page not in self.present
            self.present.add(page)
            at_ns += c.touch_absent_page_ns if is_absent else c.touch_resident_page_ns
            self.rows.append((at_ns, "page_touched", page, int(is_absent)))
        if self.node == DESTINATION:
            self.err = at_ns + c.err_send_ns
            self.rows.append((self.err, "err_sent", 0, 0))

    def assert_logged(self, until_ns: int) -> None:
        logged = [
            (time_ns, kind, a, b)
            for time_ns, node, kind, a, b in self.pair.log(*DRIVER)
            if node == self.node and time_ns < until_ns
        ]
        assert logged == sorted(row for row in self.rows if row[0] < until_ns)


WANTED = {Policy.PAGE: [1, 1, 1, 1], Policy.BLOCK: [4, 3, 2, 1], Policy.ALL: [4, 3, 2, 1]}


@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("num_pages", [1, 4])
def test_fault_at_the_destination(way: int, policy: int, num_pages: int) -> None:
    """The log until the retransmission, which the ERR brings, and when the data are there."""
    source, destination = absent(num_pages * PAGE)
    pair, arrived = written(source, destination, page_in=way, policy=policy)
    steps = Steps(pair.costs)
    num_bytes = num_pages * PAGE
    started = steps.post_write() + steps.notice() + steps.start_single()
    first = started + steps.walk() + steps.first_packet(num_bytes) + steps.latency() + steps.walk()
    driver = Driver(pair, DESTINATION, destination.first_page)
    driver.handlers(first, num_pages * 16)
    wanted = [min(want, num_pages - i) for i, want in enumerate(WANTED[policy][:num_pages])]
    driver.entries(way, wanted)
    assert driver.err is not None
    restarted = driver.err + steps.latency() + steps.read_mailbox() + steps.restart()
    # the run has read all entries before its ERR, so that the second attempt is the last
    assert [row[0] for row in pair.log("block_started")] == [started, restarted]
    driver.assert_logged(10 * MS)
    assert pair.counters(SOURCE).retransmitted_blocks == 1
    last_packet = restarted + steps.l1_hit() + steps.wire(num_bytes) + steps.latency()
    assert arrived == last_packet + steps.walk()
    counters = pair.counters(DESTINATION)
    assert counters.tasklet_runs == counters.errs_sent == 1
    assert counters.pages_paged_in == num_pages
    assert counters.pages_touched == (0 if way == AHEAD else counters.netlink_messages)
    assert counters.touch_segfaults == 0


@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("touch_ahead_pages", [1, 2, 4])
def test_fault_at_the_source(way: int, policy: int, touch_ahead_pages: int) -> None:
    """No FIFO and no ERR: an attempt ends at its first absent page, from which on touch_ahead_pages
    come in (by touch one), whatever the policy; then the timeout sends the block again."""
    source, destination = absent(BLOCK, "source")
    settings = {"page_in": way, "policy": policy, "touch_ahead_pages": touch_ahead_pages}
    pair, arrived = written(source, destination, bytes(BLOCK), timeout_ns=MS, **settings)
    steps = Steps(pair.costs)
    started = [steps.post_write() + steps.notice() + steps.start_single()]
    rows: list[tuple[int, str, int, int]] = []
    brought = touch_ahead_pages if way == AHEAD else 1
    for num_present in range(0, BLOCK_PAGES, brought):
        # the first page's translation is cached once it has been there at an attempt's start
        delay = steps.walk() if len(started) <= 2 else steps.l1_hit()
        driver = Driver(pair, SOURCE, source.first_page + num_present)
        fault = started[-1] + delay + steps.packet_offset(16 * num_present)
        driver.handlers(fault, 1)  # the engine stops: one fault an attempt
        driver.entries(way, [brought])
        rows += driver.rows
        started.append(started[-1] + MS + steps.restart())
    driver.rows = rows
    driver.assert_logged(10 * MS)
    assert [row[0] for row in pair.log("block_started")] == started
    num_timeouts = BLOCK_PAGES // brought
    assert [row[0] for row in pair.log("timeout")] == [at + MS for at in started[:-1]]
    assert len(started) == num_timeouts + 1
    # packets of the attempt before were at the destination, unless it had met its first page
    cached = num_timeouts > 1
    delay = steps.l1_hit() if cached else steps.walk()
    assert arrived == started[-1] + delay + steps.wire(BLOCK) + steps.latency() + delay
    counters = pair.counters(SOURCE)
    assert counters.timeouts == counters.fault_interrupts == num_timeouts
    assert counters.faults_multi == pair.counters(DESTINATION).errs_sent == 0
    # a block that lacks packets is no block: no answer at all
    assert sum(counters.nacks) == counters.err_messages == 0
    assert counters.packets == 16 * sum([*range(0, BLOCK_PAGES, brought), BLOCK_PAGES])


@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
@pytest.mark.parametrize("policy", Policy)
def test_fault_at_both_ends(way: int, policy: int) -> None:
    """The source's timeout brings the block to the destination, whose ERR then needs no other
    one."""
    source, destination = absent(PAGE, "both")
    settings = {"page_in": way, "policy": policy, "timeout_ns": MS}
    pair, arrived = written(source, destination, bytes(PAGE), **settings)
    steps = Steps(pair.costs)
    started = steps.post_write() + steps.notice() + steps.start_single()
    at_source = Driver(pair, SOURCE, source.first_page)
    at_source.handlers(started + steps.walk(), 1)  # nothing is read behind the first packet
    at_source.entries(way, [1])
    at_source.assert_logged(10 * MS)
    again = started + MS + steps.restart() + steps.walk()
    first = again + steps.first_packet(PAGE) + steps.latency() + steps.walk()
    there = Driver(pair, DESTINATION, destination.first_page)
    there.handlers(first, 16)
    there.entries(way, [1])
    there.rows = [row[:3] + (1,) if row[1] == "err_sent" else row for row in there.rows]
    there.assert_logged(10 * MS)
    assert there.err is not None
    third = there.err + steps.latency() + steps.read_mailbox() + steps.restart()
    last_packet = third + steps.l1_hit() + steps.wire(PAGE) + steps.latency()
    assert arrived == last_packet + steps.walk()
    assert [row[0] for row in pair.log("block_started")] == [started, again - steps.walk(), third]
    assert pair.counters(SOURCE).timeouts == pair.counters(SOURCE).err_messages == 1


def test_touch_a_page_of_a_long_transfer_sends_a_message_for_each_page_of_each_entry() -> None:
    pair, _ = written(*absent(4 * BLOCK), page_in=A_PAGE, policy=Policy.ALL)
    counters = pair.counters(DESTINATION)
    assert counters.pages_paged_in == 16
    # stale messages cost time too: each entry asks again for all that follows it
    assert counters.netlink_messages == counters.pages_touched > 16


@pytest.mark.parametrize("name", names())
def test_the_threads_touch_costs_what_the_platforms_tables_say_for_one_page(name: str) -> None:
    platform = load(name)
    assert platform.costs.touch_absent_page_ns == platform.table("touch_absent").cost_ns(PAGE)
    assert platform.costs.touch_resident_page_ns == platform.table("touch_resident").cost_ns(PAGE)


Recovery = dict[str, int]
RECOVERIES: list[Recovery] = [
    {"err_enabled": err, "timeout_ns": timeout_ns, "nack_cancels_timer": nto}
    for err, timeout_ns, nto in itertools.product([0, 1], [-1, MS], [0, 1])
    if err or timeout_ns > 0 or not nto
]
"""What may bring a block through, or end it."""


def set_state(pair: Pair, node: int, page: int, state: int) -> None:
    assert lib.pw_memory_set(pair.memories[node], page, 1, state) == lib.PW_OK


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
def test_message_for_an_unmapped_page_is_a_segmentation_fault_that_the_thread_survives(
    way: int, recovery: Recovery
) -> None:
    """The first block's pages are absent, a page of the second one is unmapped."""
    pair = Pair(page_in=way, policy=Policy.ALL, memory_backend=1, window_blocks=1, **recovery)
    source, destination = resident(2 * BLOCK)
    for page in range(BLOCK_PAGES):
        set_state(pair, DESTINATION, destination.first_page + page, lib.PW_PAGE_ABSENT)
    hole = destination.first_page + BLOCK_PAGES + 1
    set_state(pair, DESTINATION, hole, lib.PW_PAGE_UNMAPPED)
    pair.write(source, destination)
    found = pair.errors()
    has_timer = recovery["timeout_ns"] > 0 and not recovery["nack_cancels_timer"]
    resumes = recovery["err_enabled"] or has_timer
    # the first block gets through where something resumes it; the walk finds the hole in the second
    expected = ADDRESS if resumes else UNRECOVERABLE
    assert found == {DONE: expected, ARRIVED: expected}
    counters = pair.counters(DESTINATION)
    assert (counters.touch_segfaults > 0) == (way == A_PAGE)
    if way == A_PAGE:  # it went on: the pages behind the hole were touched too
        assert counters.pages_touched == counters.netlink_messages - counters.touch_segfaults
        assert counters.pages_touched >= 7
    assert pair.counters(SOURCE).nacks[2] == (1 if resumes else 0)
    if resumes:
        assert destination.read()[:BLOCK] == source.read()[:BLOCK]
    pair.assert_quiet()


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("sides", ["source", "destination"])
def test_page_unmapped_before_the_retransmission_ends_by_what_the_walk_finds(
    sides: str, recovery: Recovery
) -> None:
    """The block faults; its page goes before it is sent again. It ends either way, everywhere."""
    pair = Pair(page_in=A_PAGE, memory_backend=1, **recovery)
    source, destination = resident(PAGE)
    node, buffer = (SOURCE, source) if sides == "source" else (DESTINATION, destination)
    set_state(pair, node, buffer.first_page, lib.PW_PAGE_ABSENT)
    pair.write(source, destination)
    pair.run(5_000)  # the first attempt is out and has faulted
    assert pair.counters(SOURCE).blocks == 1 and pair.counters(node).pages_touched == 1
    set_state(pair, node, buffer.first_page, lib.PW_PAGE_UNMAPPED)
    pair.run()
    # without a timer a source's fault ends the transfer when the engine has stopped: in the first
    # run
    found = {event.kind: event.error for event in pair.events}
    nto = recovery["nack_cancels_timer"]
    timer = recovery["timeout_ns"] > 0 and (sides == "source" or not nto)
    resumes = timer or (recovery["err_enabled"] and sides == "destination")
    expected = ADDRESS if resumes else UNRECOVERABLE
    ends = [DONE] if sides == "source" else [DONE, ARRIVED]  # no packet reached the destination
    assert found == dict.fromkeys(ends, expected)
    pair.assert_quiet()


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
def test_page_that_is_mapped_but_can_never_be_touched_ends_the_transfer(
    way: int, recovery: Recovery
) -> None:
    """A page behind its file's end: the walk finds it absent for ever, so the driver must end
    it."""
    pair = Pair(page_in=way, **recovery)
    source, _ = resident(PAGE)
    with tempfile.TemporaryFile() as file:
        file.truncate(2 * PAGE)
        mapping = mmap.mmap(file.fileno(), 2 * PAGE)
        file.truncate(PAGE)
        mapping[0] = 1
        view = ffi.from_buffer(mapping)
        address = int(ffi.cast("uintptr_t", view))
        pair.write_raw(source.address, address + PAGE, PAGE)
        assert pair.errors() == {DONE: ADDRESS, ARRIVED: ADDRESS}
        assert pair.counters(DESTINATION).touch_segfaults == (way == A_PAGE)
        pair.write_raw(address + PAGE, source.address, PAGE)
        assert set(pair.errors().values()) == {ADDRESS}
        pair.assert_quiet()
        pair.write_raw(source.address, address, PAGE, at_ns=MS)  # both live on
        assert set(pair.errors().values()) == {0}
        assert mapping[:PAGE] == source.read() == pattern(PAGE)
        ffi.release(view)


@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
def test_absent_page_of_a_read_only_mapping_ends_the_transfer(way: int) -> None:
    pair = Pair(page_in=way)
    source, _ = resident(PAGE)
    locked = mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    view = ffi.from_buffer(locked)
    pair.write_raw(source.address, int(ffi.cast("uintptr_t", view)), PAGE)
    assert pair.errors() == {DONE: PROTECTION, ARRIVED: PROTECTION}
    assert pair.counters(DESTINATION).touch_segfaults == (way == A_PAGE)
    pair.assert_quiet()
    ffi.release(view)


SIZES = st.sampled_from([1, PAGE, BLOCK, 3 * BLOCK + 5, 6 * BLOCK])
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 400_000),  # when
        st.sampled_from([SOURCE, DESTINATION]),
        st.integers(0, 24),  # page
        st.sampled_from([lib.PW_PAGE_UNMAPPED, lib.PW_PAGE_ABSENT, lib.PW_PAGE_PRESENT]),
    ),
    max_size=12,
)


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=3),
    changes=CHANGES,
    absent_millionths=st.sampled_from([0, 300_000, 1_000_000]),
    page_in=st.sampled_from([AHEAD, A_PAGE, A_PAGE]),
    recovery=st.sampled_from(RECOVERIES),
    policy=st.integers(0, 2),
    hupcf=st.sampled_from([0, 1]),
)
@settings(max_examples=100, deadline=None)
def test_every_transfer_ends_whatever_is_mapped_and_unmapped_meanwhile(
    sizes: list[int],
    changes: list[tuple[int, int, int, int]],
    absent_millionths: int,
    page_in: int,
    recovery: Recovery,
    policy: int,
    hupcf: int,
) -> None:
    pair = Pair(
        page_in=page_in,
        policy=policy,
        hupcf=hupcf,
        memory_backend=1,
        model_fault_millionths=absent_millionths,
        **recovery,
    )
    transfers = [resident(num_bytes) for num_bytes in sizes]
    ids = [pair.write(*both) for both in transfers]
    for at_ns, node, page, state in sorted(changes):
        pair.run(at_ns)
        source, destination = transfers[page % len(transfers)]
        set_state(pair, node, (source, destination)[node].first_page + page, state)
    pair.run()  # a block that nothing can bring in is tried 8192 times
    done = {event.id: event.error for event in pair.events if event.kind == DONE}
    assert set(done) == set(ids)
    assert set(done.values()) <= {0, ADDRESS, UNRECOVERABLE}
    for id_, (source, destination) in zip(ids, transfers, strict=True):
        assert done[id_] or destination.read() == source.read()
    pair.assert_quiet()
