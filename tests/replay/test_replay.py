"""Programs that are replayed: what each record does to the clock, who waits for whom, and that
nothing depends on the order in which nodes are made."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import (
    ABSENT,
    BLOCK_BYTES,
    CONTEXT,
    KEYS,
    MATCHES,
    OPS,
    PRESENT,
    REGIONS,
    TIMES,
    TURNS,
    HandMade,
    call,
    halo,
    present,
    receive,
    run,
    send,
)

from pagewire.driver.policy import PageFault, PageInPolicy
from pagewire.native.settings import ConfigError
from pagewire.replay import records as r
from pagewire.replay.replay import Replay, ReplayError, Settings
from pagewire.run.settings import platform

COSTS = platform.load("exanest-qfdb").costs
CALL, POLL, READ = COSTS.mpi_call_ns, COSTS.poll_ns, COSTS.clock_read_ns
POSTED = COSTS.packetizer_writes * COSTS.core_register_write_ns
"""A message of one packet."""
TAKEN = COSTS.mailbox_read_ns
NAMES = [r.Name(0, "Recv"), r.Name(1, "Send"), r.Name(2, "Barrier")]
LONG = 5 * BLOCK_BYTES


def clock_of(*records, assignments=(), **options):
    """Of one rank alone."""
    clocks, _ = run(HandMade([*NAMES, *records, r.End()]), *assignments, **options)
    return clocks[0]


@pytest.mark.parametrize(
    ("records", "expected_ns"),
    [
        ([], 0),
        (call(0), CALL),
        ([r.Enter(), r.Leave()], 0),
        ([r.Compute(1000), *call(0)], 1000 + CALL),
        ([r.Compute(1000), r.Enter(), r.Leave()], 1000),
        ([r.Compute(1000), r.Read()], 1000 + READ),
        (call(0, r.Read()), CALL + READ),
        (call(0, r.Sleep(500)), CALL + 500),
        (call(0, r.Pass(70)), CALL + 70),
        (call(0, r.Pass(70), r.Pass(-30)), CALL + 40),
        ([r.Looks(3, 900)], 900),
        (call(0, r.Enter(), r.Leave()), CALL),
        ([r.Region("phase"), *call(0), r.Left()], CALL),
        ([r.Pages(0, 0, 4, PRESENT), r.Lost("x")], 0),
    ],
)
def test_time_of_records_without_messages(records, expected_ns):
    assert clock_of(*records) == expected_ns


def test_compute_is_scaled_as_asked():
    records = [r.Compute(1000), *call(0)]
    assert clock_of(*records, assignments=["run.compute_scale=2.5"]) == 2500 + CALL
    assert clock_of(*records, assignments=["run.compute_scale=0"]) == CALL


def test_times_are_split_as_in_a_live_run():
    records = [r.Compute(1000), *call(0, r.Sleep(500)), r.Looks(2, 80)]
    _, outcome = run(HandMade([*NAMES, *records, r.End()]))
    counted = outcome.per_rank[0]
    assert (counted["compute_ns"], counted["sleep_ns"]) == (1000, 500)
    assert counted["mpi_ns"] == CALL + 80
    assert counted["virtual_time_ns"] == 1580 + CALL
    assert counted["mpi_calls"]["Recv"]["calls"] == 1


def arrival_ns():
    """Of an empty message that rank 0 sends in its first call, at rank 1."""
    receiver = [*NAMES, *call(0, receive(0, 0), r.Done(0)), r.End()]
    clocks, _ = run(HandMade([*NAMES, *call(1, send(1, 0)), r.End()], receiver))
    assert clocks[0] == CALL + POSTED
    return clocks[1] - TAKEN - POLL


def pair(sender, receiver, *assignments, **options):
    """Clocks of two ranks."""
    return run(
        HandMade([*NAMES, *sender, r.End()], [*NAMES, *receiver, r.End()]), *assignments, **options
    )[0]


def test_eager_message_is_there_when_it_arrives():
    there_ns = arrival_ns()
    late = [r.Compute(1000), *call(1, send(1, 0))]
    assert pair(late, call(0, receive(0, 0), r.Done(0))) == [
        1000 + CALL + POSTED,
        1000 + there_ns + TAKEN + POLL,
    ]
    # The message waits for its receive.
    found = [r.Compute(9000), *call(0, receive(0, 0), r.Done(0))]
    assert pair(call(1, send(1, 0)), found)[1] == 9000 + CALL + TAKEN + POLL


def test_done_costs_a_look_and_told_none():
    sender = call(1, send(1, 0))
    done = pair(sender, call(0, receive(0, 0), r.Done(0)))[1]
    told = pair(sender, call(0, receive(0, 0), r.Told(0)))[1]
    assert done - told == POLL


def test_operations_are_named_from_the_latest_back():
    there_ns = arrival_ns()
    receiver = call(
        0, receive(0, 0, tag=5), receive(0, 0, tag=6), r.Done(1), r.Pass(1_000_000), r.Done(0)
    )
    sender = [*call(1, send(1, 0, tag=5)), *call(1, send(1, 0, tag=6))]
    assert pair(sender, receiver)[1] == there_ns + TAKEN + POLL + 1_000_000 + POLL


def test_probe_tells_of_a_message_and_takes_it():
    there_ns = arrival_ns()
    sender = call(1, send(1, 0))
    told = [r.Found(0, CONTEXT, 0, 0, r.WAITED)]
    assert pair(sender, [*call(0, *told)])[1] == there_ns + POLL
    assert (
        pair(sender, [r.Compute(50_000), *call(0, r.Found(0, CONTEXT, 0, 0))])[1] == 50_000 + CALL
    )
    taken = [r.Found(0, CONTEXT, 0, 0, r.WAITED | r.TAKEN), r.Take(0, 0, 1, 0), r.Done(0)]
    assert pair(sender, call(0, *taken))[1] == there_ns + POLL + TAKEN + POLL


def test_parts_of_a_receive_of_several_messages():
    there_ns = arrival_ns()
    whole = receive(None, 64, flags=r.MULTI | r.IGNORES)
    receiver = call(0, whole, r.Part(0, 0, 0), r.Done(0), r.Part(1, 0, 0), r.Done(0), r.Cancel(2))
    sender = [*call(1, send(1, 0, tag=5)), r.Compute(70_000), *call(1, send(1, 0, tag=6))]
    assert pair(sender, receiver)[1] == there_ns + 70_000 + CALL + POSTED + TAKEN + POLL


def test_receives_in_order_end_in_the_order_of_sending():
    sender = [present(0, LONG), *call(1, send(1, LONG), send(1, 0, tag=1), r.Done(1))]
    for flags, is_later in ((0, False), (r.IN_ORDER, True)):
        posted = [receive(0, LONG, flags=flags), receive(0, 0, tag=1, region=2, flags=flags)]
        long_ns = pair(sender, call(0, *posted, r.Done(1)))[1]
        short_ns = pair(sender, call(0, *posted, r.Done(0)))[1]
        assert (short_ns == long_ns) is is_later


def test_receive_that_is_taken_back():
    assert clock_of(*call(0, receive(0, 0), r.Cancel(0), r.Done(0))) == CALL + POLL


def test_ranks_that_meet_go_on_together():
    meeting = call(2, r.Meet(9, 2), r.Pass(5))
    clocks = pair([r.Compute(100), *meeting], [r.Compute(7000), *meeting])
    assert clocks == [7000 + CALL + 5] * 2
    # And again, with the other one late.
    clocks = pair([*meeting, r.Compute(800), *meeting], [r.Compute(300), *meeting, *meeting])
    assert clocks == [300 + CALL + 5 + 800 + CALL + 5] * 2


def test_groups_of_another_size_do_not_meet():
    with pytest.raises(ReplayError, match="rank 1 meets 3 ranks in group 9, rank 0 meets 2"):
        pair(call(2, r.Meet(9, 2)), call(2, r.Meet(9, 3)))


def exchange(num_bytes=LONG, *, receiver_pages=(), flags=0, before=()):
    """A long message from rank 0 to rank 1."""
    sender = [present(0, num_bytes), *before, *call(1, send(1, num_bytes, flags=flags), r.Done(0))]
    return sender, [*receiver_pages, *call(0, receive(0, num_bytes), r.Done(0))]


def test_pages_that_are_absent_cost_what_they_cost():
    resident = pair(*exchange(receiver_pages=[present(1, LONG)]))
    faulting = pair(*exchange())
    again = pair(*exchange(receiver_pages=[present(1, LONG), r.Pages(1, 0, 20, ABSENT)]))
    unmapped = pair(*exchange(receiver_pages=[present(1, LONG), r.Unmap(1, 0, 20)]))
    assert resident[1] < faulting[1]
    assert again == faulting
    assert unmapped[1] > resident[1]


def test_message_above_4_gib_is_one_message_in_two_transfers():
    num_bytes = 2**32 + 12_345
    sender, receiver = exchange(num_bytes, receiver_pages=[present(1, num_bytes)])
    trace = HandMade([*NAMES, *sender, r.End()], [*NAMES, *receiver, r.End()])
    clocks, outcome = run(trace)
    counted = outcome.per_rank[0]
    assert (counted["rdma_messages"], counted["rdma_bytes"]) == (1, num_bytes)
    assert (counted["reads_served"], counted["blocks"]) == (2, -(-num_bytes // BLOCK_BYTES))
    assert min(clocks) > num_bytes * 8000 // COSTS.link_mbps


def test_memory_of_equal_regions_does_not_depend_on_where_they_are():
    """But for their alignment."""
    made = []
    for base in (0, 1 << 45):
        trace = HandMade(*([*NAMES, *each, r.End()] for each in exchange()))
        if base:
            trace.add(0, REGIONS, 0, base, 1, base + (1 << 30))
            trace.add(1, REGIONS, 1, base)
        made.append(run(trace)[0])
    assert made[0] == made[1]


def test_fork_makes_the_next_write_copy():
    pages = [present(1, LONG)]
    plain = pair(*exchange(receiver_pages=pages))
    forked = pair(*exchange(receiver_pages=[*pages, r.Fork()]))
    assert forked[1] > plain[1]


def test_synchronous_message_is_over_when_it_is_received():
    sender = call(1, send(1, 0, flags=r.SYNCHRONOUS), r.Done(0))
    late = [r.Compute(500_000), *call(0, receive(0, 0), r.Done(0))]
    assert pair(sender, late)[0] > 500_000


def test_eager_limit_of_another_run():
    """What rode in its envelope is waited for at the end of its call; the rest needs no wait."""
    sender, receiver = exchange(64, flags=r.WAS_EAGER)
    sender = [each for each in sender if not isinstance(each, r.Done)]
    receiver = [r.Compute(500_000), *receiver]
    assert pair(sender, receiver)[0] == CALL + POSTED * 5  # packets
    assert pair(sender, receiver, "run.eager_limit=0B")[0] > 500_000
    sender, receiver = exchange(512)
    receiver = [r.Compute(500_000), *receiver]
    assert pair(sender, receiver)[0] > 500_000
    assert pair(sender, receiver, "run.eager_limit=4KiB")[0] < 500_000


def from_any(matched, **options):
    """Rank 2 receives twice from any: rank 0 is late."""
    receiver = [*NAMES, *call(0, receive(None, 0), receive(None, 0), r.Done(1), r.Done(0)), r.End()]
    late = [*NAMES, r.Compute(100_000), *call(1, send(2, 0)), r.End()]
    trace = HandMade(late, [*NAMES, *call(1, send(2, 0)), r.End()], receiver)
    trace.add(2, MATCHES, *matched)
    return run(trace, **options)


def test_receives_from_any_source_take_what_they_took():
    in_order = from_any([2, 0, 1, 0])[0]
    crossed = from_any([1, 0, 2, 0])[0]
    assert crossed[2] == in_order[2] + POLL  # the first look is the late one
    assert from_any([1, 0, 2, 0], matching="free")[0] == in_order


def test_receive_that_took_nothing_waits_for_ever():
    with pytest.raises(ReplayError, match="took no message when recorded, tag 0"):
        from_any([0, 0, 1, 0])


def test_cycle_of_waits_is_told():
    ring = [
        [
            *NAMES,
            *call(1, send((rank + 1) % 3, LONG, tag=4), r.Done(0)),
            *call(0, receive((rank - 1) % 3, LONG, tag=4), r.Done(0)),
            r.End(),
        ]
        for rank in range(3)
    ]
    with pytest.raises(ReplayError) as caught:
        run(HandMade(*ring))
    lines = str(caught.value).splitlines()
    assert lines[0] == "nothing can go on: 3 of 3 ranks wait"
    assert "  rank 0 in Send (call 0) waits for a send of 81,920 B to rank 1, tag 4" in lines, lines
    assert "a cycle of waits: rank 0 -> rank 1 -> rank 2 -> rank 0" in lines
    assert "  a send of rank 2, 81,920 B to rank 0, tag 4" in lines


def test_group_that_never_meets_is_told():
    with pytest.raises(ReplayError, match="rank 0 in Barrier .call 0. waits for all 2 ranks"):
        pair(call(2, r.Meet(9, 2)), [])


def test_messages_that_nobody_received_are_told():
    trace = HandMade([*NAMES, *call(1, send(1, 0, tag=3)), r.End()], [*NAMES, r.End()])
    _, outcome = run(trace)
    assert [str(each) for each in outcome.unmatched] == [
        "rank 1 never received 0 B from rank 0, tag 3"
    ]
    # A long one that nobody waits for does not keep the replay from its end.
    trace = HandMade([*NAMES, *call(1, send(1, LONG)), r.End()], [*NAMES, r.End()])
    _, outcome = run(trace)
    assert [str(each) for each in outcome.unmatched] == [
        "a send of rank 0, 81,920 B to rank 1, tag 0"
    ]


# -- verification


def verified(times, *assignments):
    trace = HandMade(*([*NAMES, *each, r.End()] for each in exchange()))
    for rank, each in enumerate(times):
        trace.add_times(rank, *each)
    with Replay(trace, Settings.of(trace.meta(), assignments), verify=True) as replay:
        return replay.run()


def test_recorded_times_come_out_or_the_first_that_does_not_is_named():
    sender, receiver = pair(*exchange())
    assert verified([[sender, sender], [receiver, receiver]]) is None
    wrong = verified([[sender, sender], [receiver + 1, receiver]])
    assert wrong is not None
    assert (wrong.rank, wrong.call, wrong.name, wrong.is_end) == (1, 0, "Recv", False)
    assert (wrong.recorded_ns, wrong.replayed_ns) == (receiver + 1, receiver)
    at_end = verified([[sender, sender - 1], [receiver, receiver]])
    assert at_end is not None
    assert (at_end.rank, at_end.is_end) == (0, True)
    assert "recorded" in str(at_end)
    assert verified([[sender, sender], [receiver, receiver]], "run.memory=ideal") is not None


# -- settings


def test_recorded_settings_count_and_those_asked_for_go_before():
    trace = HandMade([r.End()], settings={"run.memory": "pin", "run.json": "/nowhere/x.json"})
    assert Settings.of(trace.meta()).config.run.memory == "pin"
    assert Settings.of(trace.meta()).config.run.json == ""
    assert Settings.of(trace.meta(), ["run.memory=part"]).config.run.memory == "part"
    other = HandMade([r.End()], platform="exanest-10g")
    assert Settings.of(other.meta()).platform.name == "exanest-10g"
    assert Settings.of(other.meta(), ["run.platform=exanest-qfdb"]).platform.name == "exanest-qfdb"
    document = 'base = "exanest-qfdb"\ndescription = "mine"\n'
    assert Settings.of({"platform": document}).platform.description == "mine"
    with pytest.raises(ConfigError, match="no TOML"):
        Settings.of({"platform": "[\n"})
    with pytest.raises(ConfigError, match="--matching 'x': allowed is one of recorded, free"):
        Replay(trace, Settings.of({}), matching="x")


class WholeTransfer(PageInPolicy):
    """As `all` does."""

    def pages(self, *, fault: PageFault) -> range:
        return range(fault.page, fault.transfer.stop)


class Broken(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        raise ZeroDivisionError("by hand")


def test_classes_in_python_are_asked():
    built_in = pair(*exchange(), "run.memory=part", "run.policy=all")
    assert pair(*exchange(), "run.memory=part", "run.policy=page") != built_in
    own = f"run.policy={__name__}:WholeTransfer"
    assert pair(*exchange(), "run.memory=part", own) == built_in
    with pytest.raises(Exception, match="by hand"):
        pair(*exchange(), "run.memory=part", f"run.policy={__name__}:Broken")


# -- one-sided: rank 1's region 1 is the memory, rank 0 uses it from its region 0

WINDOW = r.Register(LONG, 1, 0)
RESIDENT = (present(1, LONG),)
BARRIER = r.Meet(1, 2)
PUT_POSTED = 6 * COSTS.core_register_write_ns
"""Five words of the descriptor, and the one that starts it."""


def one_sided(*operations, window=RESIDENT, target=(WINDOW,), assignments=()):
    """Clocks of both."""
    origin = [present(0, LONG), *call(2, BARRIER, *operations, BARRIER)]
    owner = [*window, *call(2, *target, BARRIER, BARRIER)]
    return pair(origin, owner, *assignments)


def test_a_put_is_over_when_the_peer_has_it_and_the_peer_takes_no_part():
    put = r.Put(1, LONG, 0, 0, 1, 0)
    posted = one_sided(put)
    assert posted == [CALL + PUT_POSTED] * 2  # nobody has waited
    resident, faulting = one_sided(put, r.Done(0))[0], one_sided(put, r.Done(0), window=())[0]
    assert CALL + PUT_POSTED + LONG // 10 < resident < faulting


def test_a_get_reads_the_peers_memory_into_pages_that_fault():
    get, into = r.Get(1, LONG, 0, 0, 1, 0), r.Get(1, LONG, 2, 0, 1, 0)
    resident, fresh = one_sided(get, r.Done(0))[0], one_sided(into, r.Done(0))[0]
    absent = one_sided(get, r.Done(0), window=())[0]
    assert resident < fresh and resident < absent


def test_a_put_brings_pages_in_for_the_next_one():
    put = r.Put(1, LONG, 0, 0, 1, 0)
    for_second = [
        one_sided(put, r.Done(0), put, r.Done(0), window=window)[0]
        - one_sided(put, r.Done(0), window=window)[0]
        for window in ((), RESIDENT)
    ]
    assert for_second[0] == for_second[1]


def test_an_atomic_operation_takes_its_messages_and_brings_its_page():
    """Each message is of as many packets as its bytes and one need."""
    atomic = r.Atomic(1, 8, 1, 0, 48, 24)
    packets = [1 + -(-each // COSTS.packetizer_payload_bytes) for each in (48, 24)]
    empty = arrival_ns() - CALL - POSTED  # on the wire
    far = (
        one_sided(atomic, r.Done(0), window=())[0]
        - CALL - POLL - sum(packets) * TAKEN
    )  # fmt: skip
    posted = [each * POSTED for each in packets]
    assert far > 2 * empty + sum(posted)
    assert far == one_sided(atomic, r.Done(0))[0] - CALL - POLL - sum(packets) * TAKEN
    put = r.Put(1, 8, 0, 0, 1, 0)
    after = one_sided(atomic, r.Done(0), put, r.Done(0), window=())[0]
    assert after == one_sided(atomic, r.Done(0), put, r.Done(0))[0]  # the page is there


def test_writes_wait_for_a_channel_of_the_32():
    puts = [r.Put(1, BLOCK_BYTES, 0, 0, 1, 0) for _ in range(33)]
    dones = [r.Done(32 - idx) for idx in range(33)]
    until_posted = call(2, *puts[:32], r.Read()), call(2, *puts, r.Read())
    times = [pair(each, [present(1, LONG), *call(2)])[0] - CALL - READ for each in until_posted]
    assert times[0] == 32 * PUT_POSTED
    assert times[1] == 33 * PUT_POSTED  # the last one when the CPU waits, at the end
    assert one_sided(*puts, *dones)[0] > CALL + times[1]


def test_memory_is_used_by_the_key_that_it_had():
    """Registered twice, and the later one is gone before the reads of the earlier come."""
    gets = [r.Get(1, 8, 0, 0, 1, 0), r.Done(0), r.Get(1, 8, 0, 0, 1, 0, 2), r.Done(0)]
    target = [WINDOW, WINDOW, r.Deregister(1)]
    trace = HandMade(
        [*NAMES, *call(2, BARRIER, *gets), r.End()],
        [*NAMES, present(1, LONG), *call(2, *target, BARRIER), r.End()],
    )
    trace.add(1, KEYS, 77, 78)
    trace.add(0, KEYS, 77)
    run(trace)
    trace.chunks[0, KEYS] = []
    trace.add(0, KEYS, 78)
    with pytest.raises(ReplayError, match="a get of 8 bytes with rank 1 has failed"):
        run(trace)


@pytest.mark.parametrize(
    ("operation", "target"),
    [
        (r.Put(1, 8, 0, 0, 1, 0), []),
        (r.Put(1, 8, 0, 0, 1, 0), [r.Register(LONG, 1, 0, r.REGISTER_READ)]),
        (r.Get(1, 8, 0, 0, 1, 0), [r.Register(LONG, 1, 0, r.REGISTER_WRITE)]),
        (r.Get(1, 8, 0, 0, 1, LONG), [WINDOW]),
        (r.Get(1, 8, 0, 0, 1, 0), [WINDOW, r.Deregister(0)]),
    ],
)
def test_memory_that_is_not_registered_so_is_refused(operation, target):
    with pytest.raises(ReplayError, match="8 bytes with rank 1 has failed"):
        one_sided(operation, r.Done(0), target=target, assignments=["ni.write_keys=needed"])


# -- when pages are touched


def touched(way, window, put_at_ns):
    """Rank 1 computes for 1 ms, in which it touches its window, and rank 0 puts into it."""
    put = r.Put(1, LONG, 0, 0, 1, 0)
    origin = [present(0, LONG), *call(2, BARRIER), r.Compute(put_at_ns), *call(1, put, r.Done(0))]
    owner = [*call(2, WINDOW, BARRIER), r.Compute(1_000_000), *call(2, *window)]
    trace = HandMade([*NAMES, *origin, r.End()], [*NAMES, *owner, r.End()])
    return run(trace, touch=way)[0][0]


def test_pages_that_peers_put_to_are_there_when_the_program_is_said_to_touch_them():
    early = 100_000
    absent, resident = (touched("start", [], early), touched("start", RESIDENT, early))
    assert resident < touched("spread", RESIDENT, early) < absent
    assert touched("end", RESIDENT, early) == absent


def test_a_rank_that_goes_on_when_another_touches_is_not_in_its_way():
    """At the same ns, whichever has the lower number."""
    put = [*call(1, r.Put(1, LONG, 0, 0, 1, 0))]
    left_ns = 900_000 - CALL - PUT_POSTED
    behind = [r.Compute(left_ns), r.Enter(), r.Leave(), *call(0, r.Done(0))]
    origin = [*NAMES, *call(2, BARRIER), r.Compute(100_000), *put, *behind, r.End()]
    owner = [*NAMES, *call(2, WINDOW, BARRIER), r.Compute(1_000_000), *call(2, *RESIDENT), r.End()]
    first = run(HandMade(origin, owner), touch="end")[0]
    for index, record in enumerate(origin):
        if isinstance(record, r.Put):
            origin[index] = r.Put(0, LONG, 0, 0, 1, 0)
    assert run(HandMade(owner, origin), touch="end")[0] == first[::-1]


def test_pages_that_are_touched_before_the_put_comes_are_there_in_every_way():
    late = 1_100_000
    assert len({touched(way, RESIDENT, late) for way in ("start", "spread", "end")}) == 1


def test_compute_takes_as_long_whenever_pages_are_touched():
    records = [r.Compute(1001), *call(0, r.Pages(0, 0, 3, PRESENT)), r.Compute(500), *call(0)]
    for way in ("start", "spread", "end"):
        assert clock_of(*records, touch=way) == 1501 + 2 * CALL, way


def test_where_no_transfer_is_under_way_touch_does_not_matter():
    made = {
        tuple(run(halo(4, [1], num_bytes=3 * BLOCK_BYTES), touch=way)[0])
        for way in ("start", "spread", "end")
    }
    assert len(made) == 1


def test_no_way_of_touching_is_refused():
    with pytest.raises(ConfigError, match="--touch 'late': allowed is one of start"):
        clock_of(touch="late")


# -- what makes no sense


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([r.Leave()], "a call ends that has not begun"),
        ([r.Call(7)], "call 7: it has no name"),
        ([r.Name(2**20, "x")], "name 1048576: they go to 65535"),
        ([r.Done(0)], "operation 0 before the latest: 0 were posted"),
        ([send(5, 0)], "rank 5, source 0: there are ranks 0 to 0"),
        ([r.Compute(2**63)], "a duration above"),
        ([r.Sleep(2**60)], "the clock goes from 0 to"),
        ([r.Pass(-1)], "the clock goes from 0 to"),
        ([r.Looks(1, 2**59 - 5), *call(0, r.Pass(4000))], "the clock is beyond"),
        ([receive(0, 2**40)], "a buffer of 1099511627776 bytes"),
        ([r.Pages(0, 0, 2**30, PRESENT)], "1073741824 pages at region 0"),
        ([r.Pages(0, 0, 1, 77)], "pages of state 77"),
        ([r.Pages(2**30, 0, 1, PRESENT)], "without a base address they go to 4194303"),
        ([r.Take(0, 0, 0, 0)], "operation 0 before the latest"),
        ([receive(0, 0), r.Part(0, 0, 0)], "a part of what is no receive of several"),
        ([receive(0, 0), r.Take(0, 0, 0, 0)], "that no probe has taken"),
        ([r.Region("a\nb")], "the name of a phase"),
        ([r.Enter()] * 1025, "1025 calls within calls"),
        ([r.Deregister(0)], "registration 0: there is none"),
        ([r.Put(1, 8, 0, 0, 0, 0)], "rank 1, source 0: there are ranks 0 to 0"),
        ([r.Put(0, 0, 0, 0, 0, 0)], "0 bytes of a peer's memory: allowed is from 1 on"),
        ([r.Put(0, 8, 0, 0, 2**30, 0)], "without a base address they go to 4194303"),
        ([r.Put(0, 8, 0, 0, 0, 0, 2)], "the key 0 before the latest: 0 were told"),
        ([r.Atomic(0, 8, 0, 0, 2**20, 8)], "an atomic of 8 bytes, 1048576 and 8 in its messages"),
    ],
)
def test_records_that_make_no_sense(records, reason):
    with pytest.raises(ReplayError) as caught:
        clock_of(*records)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("rank 0, record")


def raw(*chunks):
    """A trace of a rank with these bytes."""
    trace = HandMade([], chunk_records=1)
    trace.chunks[0, OPS] = list(chunks)
    return trace


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7f", "opcode 127, this version knows 0 to 29"),
        (b"\x01\x80", "its chunk ends within a number"),
        (b"\x01" + b"\xff" * 10, "a number of more than 64 bits"),
        (b"\x02\x00\x05ab", "its chunk ends within a text"),
    ],
)
def test_bytes_that_make_no_sense(data, reason):
    with pytest.raises(ReplayError) as caught:
        run(raw(data))
    assert str(caught.value) == f"rank 0, record 0: {reason}" or reason in str(caught.value)


@given(st.lists(st.binary(max_size=40), max_size=4), st.lists(st.integers(0, 2**64 - 1)))
def test_any_bytes_end_in_a_sentence_or_run(chunks, numbers):
    trace = raw(*chunks)
    for kind in (MATCHES, TIMES, REGIONS):
        trace.add(0, kind, *numbers)
    with_sentence(trace)


opcodes = st.sampled_from(r.CLASSES)
small = st.integers(0, 6)


@st.composite
def any_records(draw):
    """Whole records whose fields are small: they reach further than any bytes."""
    made = []
    for cls in draw(st.lists(opcodes, max_size=30)):
        fields = {}
        for each in dataclasses.fields(cls):
            fields[each.name] = "ab" if each.type is str else draw(small)
        if cls in (r.Send, r.Receive):
            fields["flags"] = draw(st.integers(0, 15))
        made.append(cls(**fields))
    return made


@given(any_records(), any_records())
def test_any_records_end_in_a_sentence_or_run(first, second):
    with_sentence(HandMade([*NAMES, *first], [*NAMES, *second]))


def with_sentence(trace):
    try:
        run(trace)
    except ReplayError as error:
        assert str(error)


# -- many


@pytest.mark.parametrize("num_ranks", [2, 5, 64, 1024])
def test_ring_does_not_depend_on_the_order_in_which_nodes_are_made(num_ranks):
    trace = halo(num_ranks, [1], steps=2)
    forward, outcome = run(trace)
    backward, _ = run(trace, order=range(num_ranks - 1, -1, -1))
    assert forward == backward
    assert not outcome.unmatched
    assert sum(each["rdma_messages"] for each in outcome.per_rank) == 2 * 2 * num_ranks


def test_halo_does_not_depend_on_the_size_of_chunks():
    offsets = (1, 4, 16)
    trace = halo(64, offsets)
    first, _ = run(trace)
    trace.chunk_records = 3
    assert run(trace, order=[*range(1, 64, 2), *range(0, 64, 2)])[0] == first


def test_cut_recording_is_replayed_up_to_its_end():
    trace = HandMade([*NAMES, *call(0)])
    _, outcome = run(trace)
    assert outcome.warnings == [
        "the recording of 1 ranks was cut, the first is rank 0: what they did later is missing"
    ]


@pytest.mark.parametrize(
    ("turn", "reason"),
    [([0, 0, 2**63], "rank 0, turn 0: a clock at 9223372036854775808"),
     ([0, 2 + 7, 1], "rank 0, turn 0: a burst of node 7")],
)  # fmt: skip
def test_turns_that_make_no_sense(turn, reason):
    trace = HandMade([*NAMES, *call(0), r.End()])
    trace.add(0, TURNS, *turn)
    with pytest.raises(ReplayError, match=reason):
        run(trace, verify=True)


def test_messages_before_any_call_has_a_name():
    clocks, _ = run(HandMade([send(1, 0), r.End()], [receive(0, 0), r.Done(0), r.End()]))
    assert clocks == [POSTED, arrival_ns() - CALL + TAKEN + POLL]


def test_texts_of_a_trace_are_fit_for_a_terminal():
    names = [r.Name(0, "a\x1b[2Jb")]
    with pytest.raises(ReplayError, match=r"rank 0 in a\?\[2Jb \(call 0\)"):
        run(HandMade([*names, *call(0, r.Meet(9, 2)), r.End()], [r.End()]))


def test_what_could_not_be_recorded_is_told():
    _, outcome = run(HandMade([*NAMES, r.Lost("a window"), r.End()]))
    assert (
        "1 things that could not be recorded, the first on rank 0: a window" in outcome.warnings[0]
    )


def two_writers(late_ns):
    """Ranks 1 and 2 write into absent pages of rank 0, the second one so much later."""
    ranks = [[r.Register(2 << 20, 1, 0), r.End()]]
    for i, compute_ns in enumerate((1000, 1000 + late_ns)):
        write = r.Put(0, 64, 0, 0, 1, i << 20)
        began = r.Compute(compute_ns), r.Enter(), r.Leave()
        ranks.append([present(0, 64), *began, write, r.Done(0), r.End()])
    return HandMade(*ranks)


@pytest.mark.parametrize("late_ns", [0, 10_000])
def test_an_err_waits_for_the_page_in_of_another_sender(late_ns):
    """The library's thread runs behind the tasklet, whose run goes on with the entry that came
    meanwhile; not with one that comes when the run is over."""
    settings = "network.topology=full", "run.memory=part"
    costs = platform.load("exanest-qfdb").costs
    entry_ns = costs.tasklet_other_ns + costs.page_in_fixed_ns + costs.page_in_page_ns
    alone_ns = run(two_writers(30_000), *settings)[0][1]
    _, first_ns, second_ns = run(two_writers(late_ns), *settings)[0]
    assert first_ns - alone_ns == costs.handler_ns + entry_ns + costs.netlink_ns == 21_000
    assert second_ns == first_ns + costs.err_send_ns
