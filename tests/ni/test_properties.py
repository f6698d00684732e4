"""Whatever the sizes, faults, settings and physical order: data arrive once, and nothing is
left."""

import dataclasses
import random

import pytest
from engine_pair import BLOCK, FOREVER, PAGE, Buffer, Event, Pair, pattern
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib

ENDS = {
    False: (lib.PW_HOST_WRITE_DONE, lib.PW_HOST_ARRIVED),
    True: (lib.PW_HOST_EXPOSE_DONE, lib.PW_HOST_FETCH_DONE),
}
PAGE_FAULT, CORRUPT, BUFFER_FULL = 1, 4, 7
TRACE = 50_000
GUARD = b"\xa5"


@dataclasses.dataclass(frozen=True)
class Job:
    """One transfer from `source` to `destination`, and which of its pages are not there."""

    is_read: bool
    source: int
    destination: int
    num_bytes: int
    source_skew: int
    destination_skew: int
    absent_at_source: frozenset[int]
    absent_at_destination: frozenset[int]
    at_ns: int


SIZES = st.one_of(
    st.integers(0, 300),
    st.integers(0, 5 * PAGE),
    st.integers(0, 300_000),
    st.integers(0, 18).map(lambda n: n * BLOCK),
)
SKEWS = st.one_of(st.just(0), st.integers(0, 2 * BLOCK))
PAGES = st.one_of(
    st.just(frozenset()),
    st.frozensets(st.integers(0, 80), max_size=10),
    st.just(frozenset(range(81))),
)
NODES = st.integers(0, 2)
JOBS = st.lists(
    st.builds(
        Job, st.booleans(), NODES, NODES, SIZES, SKEWS, SKEWS, PAGES, PAGES, st.integers(0, 200_000)
    ),
    min_size=1,
    max_size=5,
)


def allowed(values: dict[str, int]) -> dict[str, int]:
    """What else must be so. A thread that touches pages behind the tasklet never runs when timeouts
    below the time of the page-ins bring new entries for ever: then it has a core of its own, and
    time."""
    if values["stall"]:
        return {"page_in": 0}
    if values["page_in"]:
        by_library = {"err_by": 0, "err_after": 0}
        if values["timeout_ns"] < 0:
            return by_library
        return by_library | {"library_core": 1, "timeout_ns": 1_000_000}
    return {}


SETTINGS = st.fixed_dictionaries(
    {
        "policy": st.integers(0, 2),
        "page_in": st.integers(0, 1),
        "touch_ahead_pages": st.integers(1, 4),
        "timeout_ns": st.sampled_from([-1, 5_000, 20_000, 100_000, 100_000, 1_000_000]),
        "err_enabled": st.sampled_from([1, 1, 0]),
        "nack_cancels_timer": st.sampled_from([0, 0, 1]),
        "window_blocks": st.integers(1, 8),
        "ni_fifo_depth": st.sampled_from([1, 3, 512, 512]),
        "tasklet_entries": st.sampled_from([1, 16]),
        "l1_ways": st.sampled_from([1, 128]),
        "l2_sets": st.sampled_from([1, 512]),
        "hupcf": st.sampled_from([1, 0]),
        "stall": st.sampled_from([0, 0, 1]),
        "walk_cache_entries": st.sampled_from([0, 1, 64]),
        "prefetch_entries": st.sampled_from([0, 1, 8]),
        "parallel_walks": st.sampled_from([1, 16]),
        "outstanding_accesses": st.sampled_from([1, 20, 256]),
        "high_limit_bytes": st.sampled_from([1, BLOCK, 10 * BLOCK]),
        "requeue_dynamic": st.sampled_from([0, 1]),
        "strict_priority": st.sampled_from([0, 1]),
        "bypass": st.sampled_from([1, 0]),
        "fast_path": st.sampled_from([1, 0]),
        "ticket_queue": st.sampled_from([1, 0]),
        "queue_counters": st.sampled_from([1, 1, 0]),
        "timeout_implementation": st.integers(0, 2),
        "tick_ns": st.sampled_from([10_000, 100_000, 1_000_000]),
        "read_mailbox_separate": st.sampled_from([1, 0]),
        "read_retry_ns": st.sampled_from([0, 0, 5_000]),
        "mailbox_entries": st.sampled_from([1, 512]),
        "receive_buffer_blocks": st.sampled_from([0, 0, 2]),
        "driver_variant": st.sampled_from([0, 0, 1]),
        "library_core": st.sampled_from([0, 0, 1]),
        "err_by": st.sampled_from([0, 0, 1]),
        "err_after": st.sampled_from([0, 0, 1, 2]),
    }
).map(lambda values: values | allowed(values))


def prepare(job: Job, seed: int, with_faults: bool = True) -> tuple[Buffer, Buffer, bytes]:
    """The buffers, and what the destination's whole mapping shall hold afterwards."""
    source = Buffer(job.num_bytes, job.source_skew)
    source.touch()
    source.fill(pattern(job.num_bytes, seed))
    destination = Buffer(job.num_bytes, job.destination_skew)
    destination.map[:] = GUARD * len(destination.map)
    expected = bytearray(destination.map)
    data = bytearray(source.read())
    if with_faults:
        for page in job.absent_at_source:
            if page < source.num_pages:
                source.drop(page)
                at = page * PAGE - source.start % PAGE
                data[max(at, 0) : at + PAGE] = bytes(len(data[max(at, 0) : at + PAGE]))
        for page in job.absent_at_destination:
            if page < destination.num_pages:
                destination.drop(page)
                at = destination.start // PAGE * PAGE + page * PAGE
                expected[at : at + PAGE] = bytes(PAGE)
    expected[destination.start : destination.start + job.num_bytes] = data
    return source, destination, bytes(expected)


def lose(buffer: Buffer, pages: frozenset[int]) -> None:
    """Only these pages are absent; contents do not matter."""
    buffer.touch()
    for page in sorted(pages):
        if page < buffer.num_pages:
            buffer.drop(page)


def drop_again(jobs: list[Job], buffers: list[tuple[Buffer, Buffer, bytes]]) -> None:
    """The pages as they were before the run."""
    for job, (source, destination, _) in zip(jobs, buffers, strict=True):
        lose(source, job.absent_at_source)
        lose(destination, job.absent_at_destination)


def run(pair: Pair, jobs: list[Job], buffers: list, order: int | None, step_ns: int) -> list[Event]:
    """Post everything, then run: with an order, bursts of different pairs come in a random one."""
    if order is not None:
        pair.pick = random.Random(order).choice
    for job, (source, destination, _) in zip(jobs, buffers, strict=True):
        if job.is_read:
            nodes = {"node": job.destination, "peer": job.source}
            pair.read(source, destination, at_ns=job.at_ns, **nodes)
        else:
            nodes = {"node": job.source, "peer": job.destination}
            pair.write(source, destination, at_ns=job.at_ns, **nodes)
    if step_ns:
        for horizon_ns in range(0, 100 * step_ns, step_ns):
            pair.run(horizon_ns)
    # Not less: with a timeout below the time of a page-in, early attempts refill the NI FIFO, each
    # of whose 512 entries costs the driver 17 us, so a page may take 9 ms and some thousand
    # attempts go in vain.
    pair.run(FOREVER, limit=200_000)
    return pair.events


def assert_both_ends_of_each(jobs: list[Job], events: list[Event]) -> None:
    """Each transfer ended once at its source and once at its destination, whole."""
    wanted = sorted(
        (node, kind, job.num_bytes)
        for job in jobs
        for node, kind in zip((job.source, job.destination), ENDS[job.is_read], strict=True)
    )
    assert sorted((event.node, event.kind, event.num_bytes) for event in events) == wanted


def assert_bytes(buffers: list, failed: bool) -> None:
    """The data are there unless a transfer failed, and nothing beside them was written."""
    for _, destination, expected in buffers:
        end = destination.start + destination.num_bytes
        assert failed or destination.map[:] == expected
        assert destination.map[: destination.start] == expected[: destination.start]
        assert destination.map[end:] == expected[end:]


def assert_counters_add_up(pair: Pair, failed: bool, faults_at_source: bool, stalls: int) -> None:
    counters = [pair.counters(node) for node in range(len(pair.nis))]
    for own in counters:
        restarts = own.timeouts + own.err_messages + own.nacks[CORRUPT] + own.nacks[BUFFER_FULL]
        assert own.retransmitted_blocks == restarts
        assert own.crc_errors == own.malformed_frames == 0
        assert own.l1_hits + own.l1_misses > 0 or own.blocks == 0
        assert own.tasklet_entries >= own.fifo_duplicates
        by_kernel = pair.engines[0].settings.err_by == lib.PW_ERRS_BY_KERNEL
        assert by_kernel or own.netlink_messages >= own.errs_sent
        assert own.fifo_pushed <= own.tasklet_entries
        assert own.resumes_retry + own.resumes_terminate == (own.fault_interrupts if stalls else 0)
        if stalls:  # nothing is terminated: no NACK, no ERR, nothing in the NI FIFO
            assert (
                own.nacks[PAGE_FAULT] == own.err_messages == own.errs_sent == own.fifo_pushed == 0
            )
            assert (own.accesses_stalled > 0) == (own.resumes_retry > 0)
            assert own.resumes_terminate == 0
            assert own.stalled_ns > 0 or own.accesses_stalled == 0
        else:
            assert own.accesses_stalled == own.outstanding_full == 0
        if not failed:
            assert own.acks == own.blocks
            assert own.nacks[0] == sum(own.nacks[2:7]) == 0
    if pair.trace_is_full():
        return  # the log may have lost some
    if not failed and not faults_at_source:
        # every block was acknowledged once as new and once for each copy
        acknowledged = len(pair.log("ack_sent"))
        duplicates = sum(own.duplicate_blocks for own in counters)
        assert acknowledged == sum(own.blocks for own in counters) + duplicates
    if failed:
        return
    assert len(pair.log("transfer_done")) == len(pair.log("notified"))
    # every block has exactly one ACK that counts, and a block that was NACKed has it later
    last_ack = {(node, block): at_ns for at_ns, node, _, block, _ in pair.log("ack")}
    assert len(pair.log("ack")) == sum(own.blocks for own in counters)
    for at_ns, node, _, block, _ in pair.log("nack"):
        assert last_ack[node, block] > at_ns


@given(
    JOBS, SETTINGS, st.one_of(st.none(), st.integers(0, 999)), st.sampled_from([0, 0, 700, 30_000])
)
@settings(max_examples=150, deadline=None)
def test_data_arrive_once_and_nothing_is_left(
    jobs: list[Job], values: dict[str, int], order: int | None, step_ns: int
) -> None:
    pair = Pair(3, **values)
    pair.trace(TRACE)
    buffers = [prepare(job, seed) for seed, job in enumerate(jobs)]
    events = run(pair, jobs, buffers, order, step_ns)
    # with HUPCF = 0 a fault elsewhere on the node terminates reads at the source too
    faults_at_source = not values["hupcf"] or any(job.absent_at_source for job in jobs)
    timer = values["timeout_ns"] >= 20_000
    too_early = (
        values["timeout_ns"] == 5_000
    )  # less than a round trip: every answer may be a late one
    errs = values["err_enabled"] and values["ni_fifo_depth"] == 512
    recoverable = (
        (values["stall"] and (timer or values["timeout_ns"] < 0))
        or (timer and (errs or not values["nack_cancels_timer"]))
        or (errs and not faults_at_source and not too_early)
    )
    failed = [event for event in events if event.error]
    assert not (failed and recoverable)
    assert {event.error for event in failed} <= {lib.PW_ERR_UNRECOVERABLE}
    if not failed:
        assert_both_ends_of_each(jobs, events)
        assert all(event.time_ns >= min(job.at_ns for job in jobs) for event in events)
    assert_bytes(buffers, bool(failed))
    assert_counters_add_up(pair, bool(failed), faults_at_source, values["stall"])
    pair.assert_quiet()


def resident_pages(pair: Pair, buffer: Buffer) -> list[int]:
    """Index of each page of the buffer's mapping that is there."""
    num_pages = len(buffer.map) // PAGE
    first_page = (buffer.address - buffer.start) // PAGE
    state = ffi.new("uint8_t[]", num_pages)
    assert lib.pw_memory_probe(pair.memories[0], first_page, num_pages, state) == 0
    return [page for page in range(num_pages) if state[page] == lib.PW_PAGE_PRESENT]


@given(JOBS, SETTINGS)
@settings(max_examples=50, deadline=None)
def test_no_page_outside_of_the_transfers_is_touched(
    jobs: list[Job], values: dict[str, int]
) -> None:
    """No page of either buffer is there at the start; afterwards only pages of the transfer may
    be."""
    pair = Pair(3, **values | {"timeout_ns": 100_000, "nack_cancels_timer": 0})
    buffers = []
    for job in jobs:
        source, destination = (
            Buffer(job.num_bytes, job.source_skew),
            Buffer(job.num_bytes, job.destination_skew),
        )
        buffers.append((source, destination, b""))
        assert resident_pages(pair, source) == resident_pages(pair, destination) == []
    assert all(event.error == 0 for event in run(pair, jobs, buffers, None, 0))
    for pages_of in buffers:
        for buffer in pages_of[:2]:
            first = buffer.start // PAGE
            wanted = list(range(first, first + buffer.num_pages)) if buffer.num_bytes else []
            assert resident_pages(pair, buffer) == wanted


@given(
    JOBS,
    SETTINGS,
    st.sampled_from([50_000, 300_000, 1_000_000]),
    st.sampled_from([0, 400]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([0, 0, 500_000]),
    st.frozensets(st.integers(0, 80), max_size=10),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=80, deadline=None)
def test_model_memory_faults_without_losing_data(
    jobs: list[Job],
    values: dict[str, int],
    fault_millionths: int,
    frames: int,
    huge: int,
    collapse: int,
    protected: frozenset[int],
    fork: bool,
    seed: int,
) -> None:
    """First touch, swap (frames are short), copy on write, huge pages that collapse."""
    timeout_ns = 1_000_000 if values["page_in"] else 100_000
    recoverable = {"timeout_ns": timeout_ns, "nack_cancels_timer": 0}
    pair = Pair(
        3,
        memory_backend=1,
        model_fault_millionths=fault_millionths,
        model_frame_limit_pages=frames,
        model_seed=seed,
        model_huge_pages=huge,
        # a huge page needs 512 frames: with fewer they are taken apart
        model_collapse_millionths=collapse,
        **values | recoverable,
    )
    pair.trace(TRACE)
    buffers = [prepare(job, seed, with_faults=False) for seed, job in enumerate(jobs)]
    for job, (source, destination, _) in zip(jobs, buffers, strict=True):
        for node, buffer in ((job.source, source), (job.destination, destination)):
            for page in protected:
                if page < buffer.num_pages:
                    at = buffer.first_page + page
                    lib.pw_memory_set(pair.memories[node], at, 1, lib.PW_PAGE_WRITE_PROTECTED)
    if fork:
        for memory in pair.memories:
            lib.pw_memory_fork(memory, 0, 2**64 - 1)
    events = run(pair, jobs, buffers, None, 0)
    assert all(event.error == 0 for event in events)
    assert len(events) == 2 * len(jobs)
    for _, destination, expected in buffers:
        assert destination.map[:] == expected
    assert_counters_add_up(pair, failed=False, faults_at_source=True, stalls=values["stall"])
    pair.assert_quiet()


@pytest.mark.parametrize(
    "interleave", [{}, {"interleave": 1, "stall": 0}], ids=["by block", "by packet"]
)
@given(JOBS, SETTINGS)
@settings(max_examples=30, deadline=None)
def test_two_runs_give_the_same_log(
    interleave: dict[str, int], jobs: list[Job], values: dict[str, int]
) -> None:
    logs = []
    buffers = [prepare(job, seed) for seed, job in enumerate(jobs)]
    for _ in range(2):
        drop_again(jobs, buffers)
        pair = Pair(3, **values | interleave)
        pair.trace(TRACE)
        run(pair, jobs, buffers, None, 0)
        logs.append((pair.log(), pair.events))
    assert logs[0] == logs[1]
