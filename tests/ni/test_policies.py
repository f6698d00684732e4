"""Page-in policies of the host: the engine asks, nothing goes on before the answer, times are the
same."""

import ctypes
import gc
from collections.abc import Callable

import mappings
import pytest
from engine_pair import BLOCK, FOREVER, PAGE, PDID, Buffer, Pair, resident
from hypothesis import given, settings
from hypothesis import strategies as st
from mappings import LIBC, READ_WRITE
from page_in_policies import twin
from test_properties import JOBS, SETTINGS, TRACE, Job, drop_again, prepare, run

from pagewire.driver.policy import After, By, Err, ErrPolicy, PageFault, PageInPolicy
from pagewire.driver.policy_host import PolicyError
from pagewire.native import ffi, lib


def answering(decide: Callable[[PageFault], range], asked: list[PageFault]) -> type[PageInPolicy]:
    class Answering(PageInPolicy):
        def pages(self, *, fault: PageFault) -> range:
            asked.append(fault)
            return decide(fault)

    return Answering


def counted(pair: Pair) -> list[dict[str, object]]:
    # how frames are packed in bursts depends on when the host calls, and means nothing
    fields = [name for name, _ in ffi.typeof("pw_counters").fields if "burst" not in name]
    return [
        {
            name: list(value) if name == "nacks" else value
            for name, value in ((name, getattr(pair.counters(node), name)) for name in fields)
        }
        for node in range(len(pair.nis))
    ]


def err_answering(plan: Err, asked: list[tuple[PageFault, range]]) -> type[ErrPolicy]:
    class Answering(ErrPolicy):
        def err(self, *, fault: PageFault, pages: range) -> Err:
            asked.append((fault, pages))
            return plan

    return Answering


@pytest.mark.parametrize("by", By)
@pytest.mark.parametrize("after", After)
@pytest.mark.parametrize("policy", [lib.PW_POLICY_PAGE, lib.PW_POLICY_ALL])
def test_err_policy_that_answers_as_the_settings_do_changes_nothing(
    by: By, after: After, policy: int
) -> None:
    asked: list[tuple[PageFault, range]] = []
    seen = []
    source, destination = resident(3 * BLOCK)
    for values in (
        {"err_by": int(by), "err_after": int(after)},
        {"own_err": err_answering(Err(by, after), asked)},
    ):
        destination.drop()
        source.drop(5)  # nobody asks about the source
        pair = Pair(policy=policy, **values)
        pair.trace(TRACE)
        pair.write(source, destination)
        events = sorted((e.node, e.time_ns, e.kind, e.error) for e in pair.run())
        assert destination.read() == source.read()
        pair.assert_quiet()
        seen.append((pair.log(), events, counted(pair)))
    assert seen[0] == seen[1]
    assert asked and all(fault.at_destination for fault, _ in asked)
    last = {lib.PW_POLICY_PAGE: asked[0][0].page, lib.PW_POLICY_ALL: asked[0][0].transfer.stop - 1}
    assert asked[0][1] == range(asked[0][0].page, last[policy] + 1)


def test_both_policies_of_the_host_are_asked_about_one_fault() -> None:
    asked: list[tuple[PageFault, range]] = []
    pair = Pair(
        own_policy=answering(lambda fault: range(fault.page, fault.page + 2), []),
        own_err=err_answering(Err(By.KERNEL, After.PAGE), asked),
    )
    source, destination = resident(2 * PAGE)
    destination.drop()
    pair.write(source, destination)
    pair.finish()
    assert destination.read() == source.read()
    page = destination.first_page
    assert asked[0][1] == range(page, page + 2)
    assert pair.counters(1).netlink_messages == 0


def test_policies_that_are_false_by_themselves_are_asked() -> None:
    class Learnt(list[PageFault], PageInPolicy, ErrPolicy):
        def pages(self, *, fault: PageFault) -> range:
            return range(fault.page, fault.page + 2)

        def err(self, *, fault: PageFault, pages: range) -> Err:
            return Err(By.KERNEL, After.PAGE)

    assert not Learnt()
    pair = Pair(own_policy=Learnt, own_err=Learnt)
    source, destination = resident(2 * PAGE)
    destination.drop()
    pair.write(source, destination)
    pair.finish()
    assert destination.read() == source.read()
    assert pair.counters(1).netlink_messages == 0


def test_bad_err_decision_is_refused_and_still_wanted() -> None:
    pair = Pair(own_err=err_answering(Err(By.KERNEL, After.PAGE), []))
    source, destination = resident(PAGE)
    destination.drop()
    pair.write(source, destination)
    ni, refused = pair.nis[1], []

    def decide(decision: int) -> None:
        for by, after in ((lib.PW_ERRS_BY_HOST, 0), (0, lib.PW_ERRS_AFTER_PAGE + 1)):
            refused.append(lib.pw_ni_decide_err(ni, decision, by, after))
        refused.append(lib.pw_ni_decide_err(ni, decision + 1, 0, 0))
        answer(decision)

    host = pair.engines[1]._policy
    answer, host.answer = host.answer, decide
    pair.finish()
    assert refused == [lib.PW_ERR_INVALID] * 3 and pair.counters(1).errs_sent == 1


@pytest.mark.parametrize(
    "answer", [None, (By.KERNEL, After.PAGE), Err(1, After.RUN), Err(By.KERNEL, 2)]
)
def test_answer_that_is_no_err_ends_the_run_with_the_policys_name(answer: object) -> None:
    pair = Pair(own_err=err_answering(answer, []))
    source, destination = resident(PAGE)
    destination.drop()
    pair.write(source, destination)
    with pytest.raises(PolicyError, match="ERR policy 'test' answered"):
        pair.run()


@given(
    st.one_of(JOBS, JOBS.map(lambda jobs: jobs[-1:])),
    SETTINGS,
    st.one_of(st.none(), st.integers(0, 999)),
    st.sampled_from([0, 0, 700, 30_000]),
)
@settings(max_examples=120, deadline=None)
def test_host_that_answers_like_a_built_in_policy_changes_nothing(
    jobs: list[Job], values: dict[str, int], order: int | None, step_ns: int
) -> None:
    buffers = [prepare(job, seed) for seed, job in enumerate(jobs)]
    seen = []
    values = values | {"stall": 0}  # where a policy of the host is refused
    touch_a_page = values["page_in"] == lib.PW_PAGE_IN_TOUCH_A_PAGE
    source_pages = 1 if touch_a_page else values["touch_ahead_pages"]
    for own_policy in (None, twin(values["policy"], source_pages)):
        drop_again(jobs, buffers)
        pair = Pair(3, own_policy=own_policy, **values)
        pair.trace(TRACE)
        run(pair, jobs, buffers, order, step_ns)
        pair.assert_quiet()
        events = sorted(
            pair.events, key=lambda event: (event.node, event.time_ns, event.kind, event.id)
        )
        seen.append((pair.log(), events, counted(pair)))
    if sum(job.num_bytes > 0 for job in jobs) == 1:
        assert seen[0] == seen[1]
        return
    # While the engine waits for the host, frames of other transfers arrive: contention in another
    # order.
    ends = [sorted((e.node, e.kind, e.id, e.num_bytes) for e in events) for _, events, _ in seen]
    failed = any(event.error for _, events, _ in seen for event in events)
    assert failed or ends[0] == ends[1]


def test_question_tells_of_fault_block_and_transfer_at_the_destination() -> None:
    asked: list[PageFault] = []
    pair = Pair(own_policy=answering(lambda fault: range(fault.page, fault.page + 1), asked))
    pair.trace()
    source, destination = resident(3 * BLOCK, 0, 1000)
    destination.drop(6)  # in the second block, which ends with page 7
    pair.carry(source, destination)
    (fault,) = asked
    first = destination.first_page
    assert fault.page == first + 6
    assert fault.block == range(first + 4, first + 8)
    assert fault.transfer == range(first, first + 13)
    assert fault.at_destination and fault.is_write
    assert (fault.pdid, fault.bank, fault.source_node, fault.sequence) == (PDID, 0, 0, 0)
    costs = pair.costs
    before_ns = costs.tasklet_other_ns
    assert fault.time_ns >= pair.time_of("tasklet_entry") + before_ns  # and a handler's invocations
    paged_in_ns = costs.page_in_fixed_ns + costs.page_in_page_ns
    assert pair.time_of("page_in_done") >= fault.time_ns + paged_in_ns


def test_question_tells_of_fault_block_and_transfer_at_the_source() -> None:
    asked: list[PageFault] = []
    pair = Pair(own_policy=answering(lambda fault: range(fault.page, fault.page + 1), asked))
    source, destination = resident(2 * BLOCK, 5000, 100)
    source.drop(7)
    pair.write(source, destination)
    pair.finish()
    (fault,) = asked
    first = source.first_page
    # Blocks end at the destination's borders: the second begins 16284 bytes into the transfer.
    offset = BLOCK - 100
    assert fault.page == first + 7
    assert fault.block.start == (source.address + offset) // PAGE
    assert fault.block.stop == (source.address + offset + BLOCK - 1) // PAGE + 1
    assert fault.transfer == range(first, first + source.num_pages)
    assert not fault.at_destination and not fault.is_write
    assert destination.read()[:PAGE] == source.read()[:PAGE]


def test_resident_tells_what_is_in_memory() -> None:
    seen = []

    def decide(fault: PageFault) -> range:
        seen.append(fault.resident(fault.transfer.start, len(fault.transfer)))
        with pytest.raises(ValueError, match="resident"):
            fault.resident(-1, 1)
        assert fault.resident(fault.page, 0) == ()
        return range(fault.page, fault.page + 2)

    pair = Pair(own_policy=answering(decide, []))
    source, destination = resident(BLOCK)
    destination.drop(1)
    destination.drop(2)
    pair.write(source, destination)
    pair.run()
    assert seen[0] == (True, False, False, True)
    assert seen[1:] == [(True, True, True, True)]  # its entry was logged before
    assert destination.read() == source.read()


@pytest.mark.parametrize("before,behind", [(0, 0), (2, 0), (0, 3), (5, 4)])
def test_range_outside_of_the_transfer_costs_its_absent_pages(before: int, behind: int) -> None:
    def decide(fault: PageFault) -> range:
        return range(fault.page - before, fault.page + 1 + behind)

    pair = Pair(own_policy=answering(decide, []))
    pair.trace()
    source, whole = resident(10 * PAGE)
    whole.drop()
    pair.write_raw(source.address, whole.address + 5 * PAGE, PAGE)
    assert all(event.error == 0 for event in pair.run())
    num_pages = before + 1 + behind
    counters, costs = pair.counters(1), pair.costs
    assert counters.pages_paged_in == num_pages
    in_page_in = costs.page_in_fixed_ns + num_pages * costs.page_in_page_ns + costs.handler_ns
    began = pair.time_of("tasklet_entry") + costs.tasklet_other_ns
    assert pair.time_of("page_in_done") == began + in_page_in
    # The neighbours are there for the next transfer.
    faults = counters.translation_faults_destination
    pair.write_raw(source.address, whole.address + (5 - before) * PAGE, num_pages * PAGE, 10**6)
    pair.finish()
    assert pair.counters(1).translation_faults_destination == faults
    at = (5 - before) * PAGE
    assert whole.read()[at : at + num_pages * PAGE] == source.read()[: num_pages * PAGE]


def test_neighbour_is_not_there_before_its_turn_in_virtual_time() -> None:
    """The page behind is in memory at once on the host, and 3 us later than this one on the
    node."""
    pair = Pair(own_policy=answering(lambda fault: range(fault.page, fault.page + 2), []))
    source, whole = resident(2 * PAGE)
    whole.drop()
    pair.write_raw(source.address, whole.address, 16)
    pair.write_raw(source.address, whole.address + PAGE, 16)
    pair.finish()
    assert pair.counters(1).translation_faults_destination == 2
    assert pair.counters(1).pages_paged_in >= 2


def unmap(address: int) -> None:
    mappings.unmap(address, PAGE)


def forbid(address: int) -> None:
    assert LIBC.mprotect(address, PAGE, 0) == 0


@pytest.mark.parametrize(
    "end_at,reach,num_pages", [(unmap, 2, 2), (unmap, 5000, 2), (forbid, 2, 1), (forbid, 3, 2)]
)
def test_range_is_cut_where_pages_are_not_there_to_be_brought_in(
    end_at: Callable[[int], None], reach: int, num_pages: int
) -> None:
    def decide(fault: PageFault) -> range:
        return range(max(fault.page - reach, 0), fault.page + 1 + reach)

    pair = Pair(own_policy=answering(decide, []))
    source, whole = resident(8 * PAGE)
    whole.drop()
    end_at(whole.address + 2 * PAGE)
    end_at(whole.address + 5 * PAGE)
    pair.write_raw(source.address, whole.address + 4 * PAGE, PAGE)
    pair.finish()
    # Pages 3 and 4 lie between the holes. A forbidden page takes what is behind it in its side
    # along.
    assert pair.counters(1).pages_paged_in == num_pages
    assert ctypes.string_at(whole.address + 4 * PAGE, PAGE) == source.read()[:PAGE]


@pytest.mark.parametrize("at_destination", [True, False])
def test_page_that_is_forbidden_fails_the_transfer_as_with_a_built_in_policy(
    at_destination: bool,
) -> None:
    source, destination = resident(3 * BLOCK)
    faulty = destination if at_destination else source
    seen = []
    for own_policy in (None, twin(lib.PW_POLICY_PAGE, source_pages=4)):
        faulty.drop(5)
        forbid(faulty.address + 5 * PAGE)
        pair = Pair(own_policy=own_policy, touch_ahead_pages=4)
        pair.trace()
        pair.write(source, destination)
        events = pair.run()
        assert {event.error for event in events} == {lib.PW_ERR_PROTECTION}
        seen.append((pair.log(), events, counted(pair)))
        assert LIBC.mprotect(faulty.address + 5 * PAGE, PAGE, READ_WRITE) == 0
        pair.assert_quiet()
    assert seen[0] == seen[1]


@pytest.mark.parametrize("at_destination", [True, False])
def test_page_unmapped_before_the_answer_fails_the_transfer(at_destination: bool) -> None:
    source, destination = resident(3 * BLOCK)
    faulty = destination if at_destination else source
    faulty.drop(5)

    def decide(fault: PageFault) -> range:
        unmap(fault.page * PAGE)
        return fault.block

    pair = Pair(own_policy=answering(decide, []))
    pair.write(source, destination)
    assert {event.error for event in pair.run()} == {lib.PW_ERR_ADDRESS}
    pair.assert_quiet()


def until_asked(pair: Pair, node: int) -> int:
    """Run without answering; the decision's id."""
    out = ffi.new("pw_host_event[16]")
    for _ in range(100):
        pair.collect()
        for (origin, peer), bursts in pair._links.items():
            while bursts:
                data = bursts.popleft()
                code = lib.pw_ni_rx_burst(pair.nis[peer], origin, ffi.from_buffer(data), len(data))
                assert code == lib.PW_OK
        for idx, ni in enumerate(pair.nis):
            count = lib.pw_ni_run(ni, FOREVER, out, 16)
            for event in out[0:count]:
                if event.kind == lib.PW_HOST_DECISION:
                    assert idx == node
                    return int(event.id)
    raise AssertionError("no decision was wanted")


def asked_pair(num_nodes: int = 2) -> tuple[Pair, int, Buffer, Buffer]:
    """Node 1 wants to know what to bring in for the buffer's only page that is absent, its
    second."""
    pair = Pair(num_nodes, policy=lib.PW_POLICY_HOST)
    source, destination = resident(2 * BLOCK)
    destination.drop(1)
    pair.write(source, destination)
    return pair, until_asked(pair, 1), source, destination


def test_nothing_goes_on_before_the_answer() -> None:
    pair, decision, source, destination = asked_pair(3)
    ni, out = pair.nis[1], ffi.new("pw_host_event[16]")
    before = counted(pair)[1]
    other, inbound = resident(BLOCK)
    pair.write(other, inbound, node=2, peer=1)
    lib.pw_ni_run(pair.nis[2], FOREVER, out, 16)
    pair.collect()
    num_held = 0
    for (origin, peer), bursts in pair._links.items():
        while peer == 1 and bursts:
            data = bursts.popleft()
            assert lib.pw_ni_rx_burst(ni, origin, ffi.from_buffer(data), len(data)) == lib.PW_OK
            data[:] = bytes(len(data))  # it was copied
            num_held += 1
    assert num_held > 0
    for _ in range(3):
        assert lib.pw_ni_next_ns(ni) == -(2**63)
        assert lib.pw_ni_run(ni, FOREVER, out, 16) == 0
    assert counted(pair)[1] == before
    assert lib.pw_ni_num_pending(ni) > 0
    assert lib.pw_ni_decide(ni, decision, destination.first_page + 1, 1) == lib.PW_OK
    assert lib.pw_ni_next_ns(ni) != -(2**63)
    pair.finish()
    assert destination.read() == source.read() and inbound.read() == other.read()


class Mallinfo2(ctypes.Structure):
    """glibc's `struct mallinfo2`: `hblkhd` is what malloc maps on its own, `uordblks` the rest that
    is in use."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def allocated_bytes() -> int:
    """What is allocated and not freed. Resident memory would not tell: an allocator, and
    AddressSanitizer's above all, keeps what was freed."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "__sanitizer_get_current_allocated_bytes"):
        sanitizer_bytes = libc.__sanitizer_get_current_allocated_bytes
        sanitizer_bytes.restype = ctypes.c_size_t
        return int(sanitizer_bytes())
    libc.mallinfo2.restype = Mallinfo2
    info = libc.mallinfo2()
    return int(info.hblkhd + info.uordblks)


def test_engine_that_is_taken_down_with_a_decision_open_leaks_nothing() -> None:
    junk, allocated = bytes(lib.PW_BURST_BYTES), []
    for num_turns in (20, 200):
        for _ in range(num_turns):
            pair, _, _, _ = asked_pair()
            assert lib.pw_ni_rx_burst(pair.nis[1], 0, junk, len(junk)) == lib.PW_OK
            del pair
        allocated.append(allocated_bytes())
    assert allocated[1] - allocated[0] < 1_000_000  # the held bursts alone are 26 MB


@pytest.mark.parametrize(
    "first,num_pages",
    [(0, 1), (2, 1), (0, 0), (1, 0), (1, 2**64 - 1), (2, 2**64 - 1)],
    ids=["before", "behind", "nothing", "nothing there", "past the end", "wrapping"],
)
def test_answer_without_the_page_is_refused_and_the_decision_stays_open(
    first: int, num_pages: int
) -> None:
    pair, decision, source, destination = asked_pair()
    ni, page = pair.nis[1], destination.first_page
    assert lib.pw_ni_decide(ni, decision, page + first, num_pages) == lib.PW_ERR_INVALID
    out = ffi.new("pw_decision *")
    assert lib.pw_ni_read_decision(ni, decision, out) == lib.PW_OK and out.page == page + 1
    for other in (0, decision + 1):
        assert lib.pw_ni_read_decision(ni, other, out) == lib.PW_ERR_INVALID
        assert lib.pw_ni_decide(ni, other, page + 1, 1) == lib.PW_ERR_INVALID
    assert lib.pw_ni_decide(ni, decision, page + 1, 1) == lib.PW_OK
    assert lib.pw_ni_decide(ni, decision, page + 1, 1) == lib.PW_ERR_INVALID
    assert lib.pw_ni_read_decision(ni, decision, out) == lib.PW_ERR_INVALID
    pair.run()
    assert destination.read() == source.read()


def test_malformed_burst_that_was_kept_is_reported_by_the_answer() -> None:
    pair, decision, _, destination = asked_pair()
    ni, junk = pair.nis[1], bytes(128)
    assert lib.pw_ni_rx_burst(ni, 0, junk, len(junk)) == lib.PW_OK
    assert pair.counters(1).malformed_frames == 0
    code = lib.pw_ni_decide(ni, decision, destination.first_page + 1, 1)
    assert code == lib.PW_ERR_MALFORMED and pair.counters(1).malformed_frames == 1


def raising(fault: PageFault) -> range:
    raise ZeroDivisionError("nought")


@pytest.mark.parametrize(
    "decide,text",
    [
        (raising, "page-in policy 'test' raised ZeroDivisionError: nought .*page="),
        (lambda fault: range(1), r"answered range\(0, 1\): the faulting page \d+ must be in it"),
        (lambda fault: range(fault.page, fault.page + 4, 2), "the step must be 1"),
        (lambda fault: [fault.page], "a list .* instead of a range"),
        (lambda fault: None, "a NoneType"),
    ],
)
def test_bad_answer_is_an_error_that_names_the_policy(
    decide: Callable[[PageFault], range], text: str
) -> None:
    pair = Pair(own_policy=answering(decide, []))
    source, destination = resident(BLOCK)
    destination.drop(2)
    pair.write(source, destination)
    with pytest.raises(PolicyError, match=text):
        pair.run()
    with pytest.raises(PolicyError, match=text):
        pair.run()


@pytest.mark.parametrize("reach", [0, 2, 1 << 40, 1 << 90])
def test_touch_a_page_touches_the_answer_up_to_the_end_of_the_mapping(reach: int) -> None:
    def decide(fault: PageFault) -> range:
        return range(fault.page - reach, fault.page + 1 + reach)

    way = {"page_in": lib.PW_PAGE_IN_TOUCH_A_PAGE}
    pair = Pair(own_policy=answering(decide, []), **way)
    source, whole = resident(8 * PAGE)
    whole.drop()
    unmap(whole.address + 2 * PAGE)
    unmap(whole.address + 6 * PAGE)
    pair.write_raw(source.address, whole.address + 4 * PAGE, PAGE)
    pair.finish()
    assert (
        pair.counters(1).netlink_messages == pair.counters(1).pages_paged_in == (3 if reach else 1)
    )
    assert ctypes.string_at(whole.address + 4 * PAGE, PAGE) == source.read()[:PAGE]
