"""The two ways to page in, step by step: Touch-Ahead and Touch-A-Page [PSI 3.2, MECHANISMS 5]."""

from __future__ import annotations

import mmap
import tempfile

import pytest
from engine_costs import Steps
from engine_pair import BLOCK, PAGE, Buffer, Pair, pattern, resident
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import EngineError, ffi, lib
from pagewire.transport.platform import load, names

DONE, ARRIVED = lib.PW_HOST_WRITE_DONE, lib.PW_HOST_ARRIVED
UNRECOVERABLE, ADDRESS, PROTECTION = (
    lib.PW_ERR_UNRECOVERABLE,
    lib.PW_ERR_ADDRESS,
    lib.PW_ERR_PROTECTION,
)
AHEAD, A_PAGE = lib.PW_PAGE_IN_TOUCH_AHEAD, lib.PW_PAGE_IN_TOUCH_A_PAGE
POLICY_PAGE, POLICY_BLOCK, POLICY_ALL = 0, 1, 2
MS = 1_000_000
SOURCE, DESTINATION = 0, 1
DRIVER = ("handler", "tasklet_entry", "page_in_done", "netlink_sent", "page_touched", "err_sent")
BLOCK_PAGES = BLOCK // PAGE


def buffers(num_bytes: int, sides: str) -> tuple[Buffer, Buffer]:
    source, destination = resident(num_bytes)
    if "source" in sides:
        source.drop()
    if "destination" in sides:
        destination.drop()
    return source, destination


def errors(pair: Pair) -> dict[int, int]:
    return {event.kind: event.error for event in pair.run()}


class Driver:
    """What the tasklet and the thread do with the first attempt of a block, as a list of log rows.

    Pages are counted from `first_page`; `wanted` pages are asked for by each entry, or fewer at the end.
    Each page faults, and every handler invocation but the first falls into the tasklet's first entry.
    """

    def __init__(self, pair: Pair, node: int, first_page: int, num_pages: int) -> None:
        self.c, self.pair, self.node = pair.costs, pair, node
        self.first_page, self.num_pages = first_page, num_pages
        self.present: set[int] = set()
        self.rows: list[tuple[int, str, int, int]] = []
        self.err: int | None = None

    def handlers(self, first_fault_ns: int, num_packets: int) -> int:
        """Invocations: a fault while FSR is not clear raises none. Returns when the first one ends."""
        steps = Steps(self.c)
        last, self.num_handlers = None, 0
        for packet in range(num_packets):
            at_ns = first_fault_ns + steps.packet_offset(packet)
            if last is None or at_ns >= last + self.c.handler_ns:
                page = self.first_page + packet // 16
                self.rows.append((at_ns, "handler", page, lib.PW_FSR_TF))
                last = at_ns
                self.num_handlers += 1
        return first_fault_ns + self.c.handler_ns

    def entries(self, tasklet_ns: int, way: int, wanted: list[int]) -> None:
        c = self.c
        thread_ns = 0
        for index, num_wanted in enumerate(wanted):
            page = self.first_page + index
            self.rows.append((tasklet_ns, "tasklet_entry", page, num_wanted))
            if self.node == DESTINATION:
                tasklet_ns += 2 * c.core_register_read_ns
            tasklet_ns += c.tasklet_other_ns
            if index == 0:
                tasklet_ns += (self.num_handlers - 1) * c.handler_ns
            pages = range(page, page + num_wanted)
            if way == AHEAD:
                absent = [each for each in pages if each not in self.present]
                tasklet_ns += c.page_in_fixed_ns + len(absent) * c.page_in_page_ns
                self.rows.append((tasklet_ns, "page_in_done", page, len(absent)))
                if self.node == DESTINATION:
                    tasklet_ns += c.netlink_ns
                    self.rows.append((tasklet_ns, "netlink_sent", page, 0))
                    self.resolved(tasklet_ns + c.user_wakeup_ns)
            else:
                for each in pages:
                    tasklet_ns += c.netlink_ns
                    self.rows.append((tasklet_ns, "netlink_sent", each, 0))
                    absent_here = each not in self.present
                    cost = c.touch_absent_page_ns if absent_here else c.touch_resident_page_ns
                    thread_ns = max(thread_ns, tasklet_ns + c.user_wakeup_ns) + cost
                    self.rows.append((thread_ns, "page_touched", each, int(absent_here)))
                    self.present.add(each)
                thread_ns = self.resolved(thread_ns)
            self.present.update(pages)

    def resolved(self, at_ns: int) -> int:
        """The ERR of the block, once; when the thread is free again."""
        if self.node == SOURCE or self.err is not None:
            return at_ns
        self.err = at_ns + self.c.err_send_ns
        self.rows.append((self.err, "err_sent", 0, 0))
        return self.err

    def assert_logged(self, until_ns: int) -> None:
        logged = [
            (time_ns, kind, a, b)
            for time_ns, node, kind, a, b in self.pair.log(*DRIVER)
            if node == self.node and time_ns < until_ns
        ]
        assert logged == sorted(row for row in self.rows if row[0] < until_ns)


WANTED = {POLICY_PAGE: [1, 1, 1, 1], POLICY_BLOCK: [4, 3, 2, 1], POLICY_ALL: [4, 3, 2, 1]}


@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
@pytest.mark.parametrize("policy", [POLICY_PAGE, POLICY_BLOCK, POLICY_ALL])
@pytest.mark.parametrize("num_pages", [1, 4])
def test_fault_at_the_destination(way: int, policy: int, num_pages: int) -> None:
    """The log until the retransmission, which the ERR brings, and when the data are there."""
    pair = Pair(page_in=way, policy=policy)
    pair.trace()
    source, destination = buffers(num_pages * PAGE, "destination")
    pair.write(source, destination)
    events = {event.kind: event for event in pair.run()}
    assert destination.read() == source.read()
    pair.assert_quiet()

    steps = Steps(pair.costs)
    num_bytes = num_pages * PAGE
    started = steps.post_write() + steps.notice() + steps.start_single()
    first = started + steps.walk() + steps.first_packet(num_bytes) + steps.latency() + steps.walk()
    driver = Driver(pair, DESTINATION, destination.first_page, num_pages)
    tasklet = driver.handlers(first, num_pages * 16)
    wanted = [min(want, num_pages - i) for i, want in enumerate(WANTED[policy][:num_pages])]
    driver.entries(tasklet, way, wanted)
    assert driver.err is not None
    restarted = driver.err + steps.latency() + steps.read_mailbox() + steps.restart()
    assert [row[0] for row in pair.log("block_started")][:2] == [started, restarted]
    arrives = restarted + steps.l1_hit() + steps.first_packet(num_bytes) + steps.latency()
    driver.assert_logged(arrives)
    if num_pages == 1 or policy != POLICY_PAGE:  # every page is in: the second attempt is the last
        assert pair.counters(SOURCE).retransmitted_blocks == 1
        last_packet = restarted + steps.l1_hit() + steps.wire(num_bytes) + steps.latency()
        assert events[ARRIVED].time_ns == last_packet + steps.walk()
    counters = pair.counters(DESTINATION)
    assert counters.pages_paged_in == num_pages
    assert counters.pages_touched == (0 if way == AHEAD else counters.netlink_messages)
    assert counters.touch_segfaults == 0


@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
@pytest.mark.parametrize("policy", [POLICY_PAGE, POLICY_BLOCK, POLICY_ALL])
@pytest.mark.parametrize("touch_ahead_pages", [1, 2, 4])
def test_fault_at_the_source(way: int, policy: int, touch_ahead_pages: int) -> None:
    """No FIFO and no ERR: what FAR held is paged in, then the timeout sends the block again."""
    pair = Pair(page_in=way, policy=policy, touch_ahead_pages=touch_ahead_pages, timeout_ns=MS)
    pair.trace()
    source, destination = buffers(BLOCK, "source")
    pair.write(source, destination)
    events = {event.kind: event for event in pair.run()}
    assert destination.read() == bytes(BLOCK)
    pair.assert_quiet()

    steps = Steps(pair.costs)
    started = steps.post_write() + steps.notice() + steps.start_single()
    driver = Driver(pair, SOURCE, source.first_page, BLOCK_PAGES)
    tasklet = driver.handlers(started + steps.walk(), 64)
    most = touch_ahead_pages if way == AHEAD else 1
    driver.entries(tasklet, way, [min(want, most) for want in WANTED[policy]])
    driver.assert_logged(10 * MS)
    assert pair.time_of("timeout") == started + MS
    again = started + MS + steps.restart() + steps.walk()
    assert events[ARRIVED].time_ns == again + steps.wire(BLOCK) + steps.latency() + steps.walk()
    assert pair.counters(SOURCE).timeouts == 1 and pair.counters(DESTINATION).errs_sent == 0


@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
@pytest.mark.parametrize("policy", [POLICY_PAGE, POLICY_BLOCK, POLICY_ALL])
def test_fault_at_both_ends(way: int, policy: int) -> None:
    """The source's timeout brings the block to the destination, whose ERR then needs no other one."""
    pair = Pair(page_in=way, policy=policy, timeout_ns=MS)
    pair.trace()
    source, destination = buffers(PAGE, "source and destination")
    pair.write(source, destination)
    events = {event.kind: event for event in pair.run()}
    assert destination.read() == bytes(PAGE)
    pair.assert_quiet()

    steps = Steps(pair.costs)
    started = steps.post_write() + steps.notice() + steps.start_single()
    at_source = Driver(pair, SOURCE, source.first_page, 1)
    at_source.entries(at_source.handlers(started + steps.walk(), 16), way, [1])
    at_source.assert_logged(10 * MS)
    again = started + MS + steps.restart() + steps.walk()
    first = again + steps.first_packet(PAGE) + steps.latency() + steps.walk()
    there = Driver(pair, DESTINATION, destination.first_page, 1)
    there.entries(there.handlers(first, 16), way, [1])
    there.rows = [row[:3] + (1,) if row[1] == "err_sent" else row for row in there.rows]
    there.assert_logged(10 * MS)
    assert there.err is not None
    third = there.err + steps.latency() + steps.read_mailbox() + steps.restart()
    arrived = third + steps.l1_hit() + steps.wire(PAGE) + steps.latency() + steps.walk()
    assert events[ARRIVED].time_ns == arrived
    assert [row[0] for row in pair.log("block_started")] == [started, again - steps.walk(), third]
    assert pair.counters(SOURCE).timeouts == pair.counters(SOURCE).err_messages == 1


def test_touch_a_page_of_a_long_transfer_sends_a_message_for_each_page_of_each_entry() -> None:
    pair = Pair(page_in=A_PAGE, policy=POLICY_ALL)
    source, destination = buffers(4 * BLOCK, "destination")
    pair.write(source, destination)
    assert set(errors(pair).values()) == {0}
    assert destination.read() == source.read()
    counters = pair.counters(DESTINATION)
    assert counters.pages_paged_in == 16
    # stale messages cost time too: each entry asks again for all that follows it
    assert counters.netlink_messages == counters.pages_touched > 16
    pair.assert_quiet()


def test_thread_touches_one_page_after_the_other() -> None:
    """A touch of 30 us keeps the thread; the messages of 7 us wait for it."""
    pair = Pair(page_in=A_PAGE, policy=POLICY_BLOCK, costs={"touch_absent_page_ns": 30_000})
    pair.trace()
    source, destination = buffers(BLOCK, "destination")
    pair.write(source, destination)
    assert set(errors(pair).values()) == {0}
    touched = [row[0] for row in pair.log("page_touched") if row[4]]
    assert touched == [touched[0] + i * 30_000 for i in range(4)]
    assert pair.time_of("err_sent") == touched[3] + pair.costs.err_send_ns
    pair.assert_quiet()


@pytest.mark.parametrize("name", names())
def test_the_threads_touch_costs_what_the_platforms_tables_say_for_one_page(name: str) -> None:
    platform = load(name)
    assert platform.costs.touch_absent_page_ns == platform.table("touch_absent").cost_ns(PAGE)
    assert platform.costs.touch_resident_page_ns == platform.table("touch_resident").cost_ns(PAGE)


@pytest.mark.parametrize(
    "wrong", [{"touch_ahead_pages": 0}, {"touch_ahead_pages": 5}, {"page_in": A_PAGE, "stall": 1}]
)
def test_engine_refuses_settings_that_the_driver_cannot_follow(wrong: dict[str, int]) -> None:
    with pytest.raises(EngineError, match="engine"):
        Pair(**wrong)


# What may bring a block through, or end it: (ERR, timeout, NTO).
RECOVERIES = [(1, MS, 0), (0, MS, 0), (1, MS, 1), (1, -1, 0), (1, -1, 1), (0, -1, 0), (0, MS, 1)]


def set_state(pair: Pair, node: int, page: int, state: int) -> None:
    assert lib.pw_memory_set(pair.memories[node], page, 1, state) == lib.PW_OK


def holed(sides: str, way: int, recovery: tuple[int, int, int]) -> tuple[Pair, Buffer, Buffer]:
    """Model memory, two blocks: the first one's pages absent, a page of the second one unmapped."""
    err, timeout_ns, nto = recovery
    settings = {"err_enabled": err, "timeout_ns": timeout_ns, "nack_cancels_timer": nto}
    pair = Pair(page_in=way, policy=POLICY_ALL, memory_backend=1, window_blocks=1, **settings)
    source, destination = resident(2 * BLOCK)
    node, buffer = (SOURCE, source) if sides == "source" else (DESTINATION, destination)
    for page in range(BLOCK_PAGES):
        set_state(pair, node, buffer.first_page + page, lib.PW_PAGE_ABSENT)
    set_state(pair, node, buffer.first_page + BLOCK_PAGES + 1, lib.PW_PAGE_UNMAPPED)
    return pair, source, destination


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
def test_message_for_an_unmapped_page_is_a_segmentation_fault_that_the_thread_survives(
    way: int, recovery: tuple[int, int, int]
) -> None:
    pair, source, destination = holed("destination", way, recovery)
    pair.write(source, destination)
    found = errors(pair)
    err, timeout_ns, nto = recovery
    resumes = err or (timeout_ns > 0 and not nto)
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
    sides: str, recovery: tuple[int, int, int]
) -> None:
    """The block faults; its page goes before it is sent again. It ends either way, everywhere."""
    err, timeout_ns, nto = recovery
    settings = {"err_enabled": err, "timeout_ns": timeout_ns, "nack_cancels_timer": nto}
    pair = Pair(page_in=A_PAGE, memory_backend=1, **settings)
    source, destination = resident(PAGE)
    node, buffer = (SOURCE, source) if sides == "source" else (DESTINATION, destination)
    set_state(pair, node, buffer.first_page, lib.PW_PAGE_ABSENT)
    pair.write(source, destination)
    pair.run(5_000)  # the first attempt is out and has faulted
    assert pair.counters(SOURCE).blocks == 1 and pair.counters(node).pages_touched == 1
    set_state(pair, node, buffer.first_page, lib.PW_PAGE_UNMAPPED)
    found = errors(pair)
    timer = timeout_ns > 0 and (sides == "source" or not nto)
    resumes = timer or (err and sides == "destination")
    expected = ADDRESS if resumes else UNRECOVERABLE
    ends = [DONE] if sides == "source" else [DONE, ARRIVED]  # no packet reached the destination
    assert found == dict.fromkeys(ends, expected)
    pair.assert_quiet()


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
def test_page_that_is_mapped_but_can_never_be_touched_ends_the_transfer(
    way: int, recovery: tuple[int, int, int]
) -> None:
    """A page behind its file's end: the walk finds it absent for ever, so the driver must end it."""
    err, timeout_ns, nto = recovery
    settings = {"err_enabled": err, "timeout_ns": timeout_ns, "nack_cancels_timer": nto}
    pair = Pair(page_in=way, **settings)
    source, _ = resident(PAGE)
    with tempfile.TemporaryFile() as file:
        file.truncate(2 * PAGE)
        mapping = mmap.mmap(file.fileno(), 2 * PAGE)
        file.truncate(PAGE)
        mapping[0] = 1
        view = ffi.from_buffer(mapping)
        address = int(ffi.cast("uintptr_t", view))
        pair.write_raw(source.address, address + PAGE, PAGE)
        assert errors(pair) == {DONE: ADDRESS, ARRIVED: ADDRESS}
        assert pair.counters(DESTINATION).touch_segfaults == (way == A_PAGE)
        pair.write_raw(address + PAGE, source.address, PAGE)
        assert set(errors(pair).values()) == {ADDRESS}
        pair.assert_quiet()
        pair.write_raw(source.address, address, PAGE, at_ns=MS)  # both live on
        assert set(errors(pair).values()) == {0}
        assert mapping[:PAGE] == source.read() == pattern(PAGE)
        ffi.release(view)


@pytest.mark.parametrize("way", [AHEAD, A_PAGE])
def test_absent_page_of_a_read_only_mapping_ends_the_transfer(way: int) -> None:
    pair = Pair(page_in=way)
    source, _ = resident(PAGE)
    locked = mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    view = ffi.from_buffer(locked)
    pair.write_raw(source.address, int(ffi.cast("uintptr_t", view)), PAGE)
    assert errors(pair) == {DONE: PROTECTION, ARRIVED: PROTECTION}
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
    recovery: tuple[int, int, int],
    policy: int,
    hupcf: int,
) -> None:
    err, timeout_ns, nto = recovery
    pair = Pair(
        page_in=page_in,
        policy=policy,
        hupcf=hupcf,
        err_enabled=err,
        timeout_ns=timeout_ns,
        nack_cancels_timer=nto,
        memory_backend=1,
        model_fault_millionths=absent_millionths,
    )
    transfers = [resident(num_bytes) for num_bytes in sizes]
    ids = [pair.write(*both) for both in transfers]
    for at_ns, node, page, state in sorted(changes):
        pair.run(at_ns, limit=20_000)
        source, destination = transfers[page % len(transfers)]
        set_state(pair, node, (source, destination)[node].first_page + page, state)
    pair.run(limit=20_000)
    done = {event.id: event.error for event in pair.events if event.kind == DONE}
    assert set(done) == set(ids)
    assert set(done.values()) <= {0, ADDRESS, UNRECOVERABLE}
    for id_, (source, destination) in zip(ids, transfers, strict=True):
        assert done[id_] or destination.read() == source.read()
    pair.assert_quiet()
