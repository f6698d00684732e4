"""Whatever traffic meets whatever impairments: it ends, the data are right, the counts add up."""

from engine_pair import BLOCK, PACKET, Pair
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_properties import (
    BUFFER_FULL,
    CORRUPT,
    JOBS,
    SETTINGS,
    TRACE,
    Job,
    assert_both_ends_of_each,
    assert_bytes,
    prepare,
    run,
)

from pagewire.native import lib
from pagewire.native.impairments import SITES

PER_PACKET = ("packet_loss", "packet_corruption")
RECOVERED_BY_TIMEOUT = ("packet_loss", "lost_ack", "lost_nack", "lost_err", "fifo_full")
PACKETS = BLOCK // PACKET


def site(name: str) -> st.SearchStrategy[str]:
    rates = ("1:1000", "1:60") if name in PER_PACKET else ("1:50", "1:3", "2:3")
    limited = st.builds("1:1:{}:{}".format, st.integers(0, 9), st.integers(1, 70))
    return st.one_of(
        st.just("0:1:0"),
        limited,
        st.builds("{}:{}".format, st.sampled_from(rates), st.integers(0, 2**31)),
    )


AMOUNTS = st.sampled_from([0, 500, 5_000, 40_000, 150_000, 3_000_000])
PLANS = st.fixed_dictionaries(
    {
        **{name: site(name) for name in SITES},
        "duplicate_after_ns": AMOUNTS,
        "delay_by_ns": AMOUNTS,
        "tasklet_late_by_ns": AMOUNTS,
    }
)
A_FAULTING_JOB = Job(True, 0, 1, 9 * BLOCK, 0, 0, frozenset(), frozenset(range(36)), 0)
ALL_ON = {**dict.fromkeys(SITES, "1:5:1"), "packet_loss": "1:200:1", "packet_corruption": "1:200:1"}
BASE = {
    "policy": 1, "timeout_ns": 100_000, "err_enabled": 1, "nack_cancels_timer": 0,
    "window_blocks": 4, "ni_fifo_depth": 512, "tasklet_entries": 16,
    "l1_ways": 128, "l2_sets": 512, "hupcf": 1, "high_limit_bytes": BLOCK,
}  # fmt: skip


def is_on(plan: dict[str, str | int], name: str) -> bool:
    return not str(plan[name]).startswith("0:")


def assert_counts_add_up(pair: Pair, plan: dict[str, str | int], failed: bool) -> None:
    nodes = range(len(pair.nis))
    counters = [pair.counters(node) for node in nodes]
    injected = {name: 0 for name in SITES}
    eligible = dict(injected)
    late_after_end = 0
    for node in nodes:
        assert set(pair.injected(node)) == {name for name in SITES if is_on(plan, name)}
        for name, counts in pair.injected(node).items():
            assert 0 <= counts["injected"] <= counts["eligible"]
            assert 0 <= counts.get("late_after_end", 0) <= counts["injected"]
            injected[name] += counts["injected"]
            eligible[name] += counts["eligible"]
            late_after_end += counts.get("late_after_end", 0)
    if is_on(plan, "packet_loss"):
        assert eligible["packet_loss"] == sum(own.packets for own in counters)
    if is_on(plan, "packet_corruption"):
        sent = sum(own.packets for own in counters)
        assert eligible["packet_corruption"] == sent - injected["packet_loss"]
    found = sum(own.crc_errors for own in counters)
    # of a block refused with NACK 7, or that came too late, no packet is looked at
    unseen = sum(own.buffer_full for own in counters) + late_after_end
    assert found <= injected["packet_corruption"] * (2 if is_on(plan, "duplication") else 1)
    assert failed or found >= injected["packet_corruption"] - PACKETS * unseen
    assert sum(own.nacks[CORRUPT] for own in counters) <= found
    assert sum(own.fifo_lost for own in counters) >= injected["fifo_full"]
    assert all(own.malformed_frames == 0 for own in counters)
    for own in counters:
        assert failed or own.acks == own.blocks
        restarts = own.timeouts + own.err_messages + own.nacks[CORRUPT] + own.nacks[BUFFER_FULL]
        assert own.retransmitted_blocks == restarts or failed
    if pair.trace_is_full():
        return
    assert len(pair.log("injected")) == sum(injected.values())
    if is_on(plan, "lost_ack"):
        assert eligible["lost_ack"] == len(pair.log("ack_sent")) + injected["lost_ack"]
    if is_on(plan, "lost_nack"):
        assert eligible["lost_nack"] == len(pair.log("nack_sent")) + injected["lost_nack"]
    if is_on(plan, "lost_err"):
        assert eligible["lost_err"] == sum(own.errs_sent for own in counters)


@example(
    [A_FAULTING_JOB],
    BASE,
    {
        **ALL_ON,
        "duplicate_after_ns": 10_000,
        "delay_by_ns": 150_000,
        "tasklet_late_by_ns": 0,
    },
    None,
)
@given(JOBS, SETTINGS, PLANS, st.one_of(st.none(), st.integers(0, 999)))
@settings(max_examples=150, deadline=None)
def test_impairments_never_spoil_data_nor_hang(
    jobs: list[Job], values: dict[str, int], plan: dict[str, str | int], order: int | None
) -> None:
    pair = Pair(3, injected=plan, **values)
    pair.trace(TRACE)
    buffers = [prepare(job, seed) for seed, job in enumerate(jobs)]
    events = run(pair, jobs, buffers, order, 0)
    failed = [event for event in events if event.error]
    assert {event.error for event in failed} <= {lib.PW_ERR_UNRECOVERABLE}
    needs_timer = any(is_on(plan, name) for name in RECOVERED_BY_TIMEOUT)
    faults_at_source = not values["hupcf"] or any(job.absent_at_source for job in jobs)
    timer = values["timeout_ns"] >= 20_000 and not (
        values["nack_cancels_timer"]
        and (is_on(plan, "lost_err") or is_on(plan, "fifo_full") or is_on(plan, "lost_nack"))
    )
    errs = values["err_enabled"] and values["ni_fifo_depth"] == 512
    too_early = (
        values["timeout_ns"] == 5_000
    )  # less than a round trip: every answer may be a late one
    recoverable = (timer and (errs or not values["nack_cancels_timer"])) or (
        errs and not faults_at_source and not needs_timer and not too_early
    )
    assert not (failed and recoverable)
    if not failed:
        assert_both_ends_of_each(jobs, events)
    assert_bytes(buffers, bool(failed))
    assert_counts_add_up(pair, plan, bool(failed))
    pair.assert_quiet()


@given(JOBS, PLANS, st.integers(0, 99), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_first_attempts_fail_alike_in_every_physical_order(
    jobs: list[Job], plan: dict[str, str | int], one: int, other: int
) -> None:
    """What is drawn for an event depends on the event alone: with NACKs as the only reaction, and
    no limit, the same packets of the same attempts are hit."""
    plan = {**dict.fromkeys(SITES, "0:1:0"), "packet_corruption": f"1:40:{plan['delay_by_ns']}"}
    hit = []
    for order in (one, other):
        pair = Pair(3, injected=plan, timeout_ns=-1)
        buffers = [prepare(job, seed, with_faults=False) for seed, job in enumerate(jobs)]
        run(pair, jobs, buffers, order, 0)
        hit.append([pair.injected(node) for node in range(3)])
        assert all(destination.map[:] == expected for _, destination, expected in buffers)
    assert hit[0] == hit[1]
