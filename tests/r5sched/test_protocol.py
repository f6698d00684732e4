"""The firmware's table of a block's life: complete, drawn as it is, and what the engine really
does."""

import collections
import itertools
import struct
from collections.abc import Callable
from typing import Any

from engine_pair import BLOCK, PAGE, Pair, resident
from hypothesis import given, settings
from hypothesis import strategies as st
from mappings import FarBuffer, unmap
from test_frames import CONTROL_BYTES, KIND_AT, KIND_BLOCK, covered_bytes, frames, seal
from test_impairments_properties import PLANS
from test_properties import JOBS, SETTINGS, Job, prepare, run

from pagewire.native import ffi, lib
from pagewire.r5sched import protocol
from pagewire.r5sched.protocol import EVENTS, REACTIONS, STATES, TRANSITIONS

TRACE = 200_000
PENDING = ("issued", "nacked", "retransmitted")
Step = tuple[str, str, str]
Pairing = tuple[str, str]
KIND_NACK, KIND_ERR, FLAGS_AT, CODE_AT = 3, 4, 3, 40
ERR_FOLLOWS = 1


def records(pair: Pair, node: int) -> list[object]:
    """The trace of a node in the order in which it was written."""
    out = ffi.new("pw_trace_record **")
    count = lib.pw_ni_trace_read(pair.nis[node], out)
    return list(out[0][0:count])


def steps_of_blocks(pair: Pair, node: int) -> dict[int, list[Step]]:
    """(state, event, next state) of each transaction id, in order."""
    paths: dict[int, list[Step]] = collections.defaultdict(list)
    for record in records(pair, node):
        if record.kind == lib.PW_TRACE_TRANSITION:
            state, event, after = record.b & 255, record.b >> 8 & 255, record.b >> 16
            paths[record.a & 0xFFFF].append((STATES[state], EVENTS[event], STATES[after]))
    return paths


def assert_paths(pair: Pair) -> set[Pairing]:
    """Every block's steps are a path from free to free; the pairs that were met.

    With a timeout below the time of a fault, early attempts can fill the NI FIFO for long, each
    with a fault a packet, and the trace too: its paths then end where it does, and the counters
    tell of more.
    """
    met = set()
    whole = not pair.trace_is_full()
    for node in range(len(pair.nis)):
        reactions: collections.Counter[str] = collections.Counter()
        for path in steps_of_blocks(pair, node).values():
            present = "free"
            for state, event, after in path:
                assert state == present
                assert TRANSITIONS[state, event].next == after
                reactions[TRANSITIONS[state, event].reaction] += 1
                met.add((state, event))
                present = after
            assert present == "free" or not whole
        if not whole:
            continue
        counters = pair.counters(node)
        assert reactions["send"] == counters.blocks
        assert reactions["retransmit"] == counters.retransmitted_blocks
        assert reactions["complete"] + reactions["hold"] - reactions["reopen"] == counters.acks
        started = [r for r in records(pair, node) if r.kind == lib.PW_TRACE_BLOCK_STARTED]
        attempts = reactions["send"] + reactions["retransmit"]
        assert len(started) <= attempts
        assert len(started) == attempts or counters.transfers_failed
    return met


def test_every_name_has_a_text() -> None:
    assert set(protocol.STATE_TEXTS) == set(STATES)
    assert set(protocol.EVENT_TEXTS) == set(EVENTS)
    assert {*protocol.REACTION_TEXTS, "none"} == set(REACTIONS)


def test_every_pending_state_has_a_step_for_whatever_can_come() -> None:
    anywhere = {"start", "foreseen_ack", "confirmed", "refuted"}
    for state in PENDING:
        for event in set(EVENTS) - anywhere:
            assert (state, event) in TRANSITIONS, (state, event)
    assert {state for state, _ in TRANSITIONS} == set(STATES)
    assert {each.reaction for each in TRANSITIONS.values()} == set(REACTIONS) - {"none"}


def test_out_of_range_is_no_step() -> None:
    for state, event in ((len(STATES), 0), (0, len(EVENTS)), (2**32 - 1, 2**32 - 1)):
        assert lib.pw_block_transition_of(state, event).reaction == lib.PW_REACT_NONE


def test_document_tells_every_step_and_name() -> None:
    lines = protocol.document().splitlines()
    for (state, event), step in TRANSITIONS.items():
        cells = next(line.split(" | ") for line in lines if line.startswith(f"| {event} | "))
        assert cells[1 + STATES.index(state)].strip("| ") == f"{step.reaction} → {step.next}"
    told = {line.split(" | ")[0].removeprefix("| ") for line in lines}
    assert {*STATES, *EVENTS, *REACTIONS} - {"none"} <= told


@given(JOBS, SETTINGS, PLANS, st.booleans(), st.one_of(st.none(), st.integers(0, 99)))
@settings(max_examples=100, deadline=None)
def test_steps_of_blocks_are_paths_of_the_table(
    jobs: list[Job],
    values: dict[str, int],
    plan: dict[str, str | int],
    with_faults: bool,
    order: int | None,
) -> None:
    pair = Pair(3, injected=plan if with_faults else None, **values)
    pair.trace(TRACE)
    buffers = [prepare(job, seed) for seed, job in enumerate(jobs)]
    run(pair, jobs, buffers, order, 0)
    assert_paths(pair)


def traffic(
    injected: dict[str, str | int] | None = None,
    absent_at_destination: bool = False,
    num_bytes: int = 20 * BLOCK,
    absent_at_source: bool = False,
    num_transfers: int = 1,
    tamper: Callable[[int, int, bytearray], None] | None = None,
    **more: Any,
) -> set[Pairing]:
    """What some reads meet."""
    pair = Pair(injected=injected, **more)
    pair.tamper = tamper
    pair.trace(TRACE)
    buffers = [resident(num_bytes) for _ in range(num_transfers)]
    for source, destination in buffers:
        if absent_at_destination:
            destination.drop()
        if absent_at_source:
            source.drop()
        pair.read(source, destination)
    pair.run()
    return assert_paths(pair)


def unmapped_at(node: int, injected: dict[str, str | int] | None = None) -> set[Pairing]:
    """A buffer of which only the beginning is mapped, at the source (0) or at the destination
    (1)."""
    pair = Pair(injected=injected, timeout_ns=50_000)
    pair.trace(TRACE)
    num_bytes = 40 * BLOCK
    whole, _ = resident(num_bytes)
    half = FarBuffer(num_bytes, 0)
    unmap(half.address + num_bytes // 2, num_bytes // 2)
    pair.read(*((half, whole) if node == 0 else (whole, half)))
    assert {event.error for event in pair.run()} == {lib.PW_ERR_ADDRESS}
    half.unmap()
    return assert_paths(pair)


def second_nack(code: int) -> Callable[[int, int, bytearray], None]:
    """The destination's NACK 1 is followed by another one for the same attempt, once."""
    done: list[int] = []

    def tamper(node: int, peer: int, burst: bytearray) -> None:
        for start in frames(burst):
            if burst[start + KIND_AT] == KIND_NACK and not done:
                done.append(start)
                second = burst[start : start + CONTROL_BYTES]
                struct.pack_into("=I", second, CODE_AT, code)
                seal(second, 0)
                burst += second

    return tamper


def early_nack() -> Callable[[int, int, bytearray], None]:
    """A NACK 1 before the first ERR, which no engine sends while the block is not there as a
    whole."""
    done: list[int] = []

    def tamper(node: int, peer: int, burst: bytearray) -> None:
        for start in frames(burst):
            if burst[start + KIND_AT] == KIND_ERR and not done:
                done.append(start)
                early = burst[start : start + CONTROL_BYTES]
                early[KIND_AT], early[FLAGS_AT] = KIND_NACK, ERR_FOLLOWS
                struct.pack_into("=I", early, CODE_AT, 1)
                seal(early, 0)
                burst[start:start] = early
                return

    return tamper


def damage() -> Callable[[int, int, bytearray], None]:
    """A bit of each fifth block is flipped: not planned, so answers are foreseen all the same."""
    count = itertools.count()

    def tamper(node: int, peer: int, burst: bytearray) -> None:
        for start in frames(burst):
            if burst[start + KIND_AT] == KIND_BLOCK and next(count) % 5 == 4:
                burst[start + covered_bytes(burst, start)] ^= 1

    return tamper


QUICK = dict.fromkeys(
    ("handler_ns", "tasklet_other_ns", "page_in_fixed_ns", "page_in_page_ns", "netlink_ns",
     "user_wakeup_ns", "err_send_ns", "core_register_read_ns"), 0
)  # fmt: skip
"""Costs with which the ERR comes while the block is still being sent."""


def test_traffic_meets_every_step_of_the_table() -> None:
    met = traffic(num_bytes=60 * BLOCK)
    met |= traffic({"packet_corruption": "1:300:1"}, True, timeout_ns=30_000, policy=2)
    met |= traffic({"packet_loss": "1:100:1", "lost_nack": "1:2:1"}, True, timeout_ns=100_000)
    met |= traffic(
        {"duplication": "1:1:1", "duplicate_after_ns": 19_000}, True, PAGE, timeout_ns=-1
    )
    met |= traffic(absent_at_source=True, timeout_ns=-1)
    met |= traffic({"packet_loss": "1:600:1"}, timeout_ns=-1, window_blocks=4)
    met |= traffic({"lost_err": "1:2:1"}, True, timeout_ns=-1)
    for seed in range(5):
        sites: dict[str, str | int] = dict.fromkeys(
            ("packet_corruption", "packet_loss"), f"1:300:{seed}"
        )
        met |= traffic(sites, timeout_ns=-1)
    met |= traffic(tamper=damage())
    for code in (1, 2, 4):
        met |= traffic(None, True, PAGE, tamper=second_nack(code))
    met |= traffic(num_transfers=20, timeout_ns=10_000)
    met |= traffic(None, True, BLOCK, costs=QUICK, timeout_ns=9_000)
    met |= traffic(None, True, num_transfers=8, costs=QUICK, timeout_ns=9_000)
    met |= traffic({"packet_loss": "1:1:0:64"}, True, BLOCK, costs=QUICK, timeout_ns=50_000)
    for timeout_ns in (5_000, 50_000):
        met |= traffic(None, True, BLOCK, costs=QUICK, timeout_ns=timeout_ns, tamper=early_nack())
    met |= unmapped_at(0) | unmapped_at(1)
    met |= unmapped_at(1, {"packet_corruption": "1:100:1", "lost_nack": "1:2:1"})
    odp = {"translation": lib.PW_TRANSLATION_ODP, "window_blocks": 8, "odp_rnr_ns": 20_000}
    met |= traffic({"packet_loss": "1:50:1"}, **odp)
    for code in (8, 9):
        met |= traffic(None, True, tamper=second_nack(code), **odp)
    missing = set(TRANSITIONS) - met
    assert not missing, sorted(missing)
