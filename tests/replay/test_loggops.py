"""LogGOPS: LogGOPSim's published vector, and cases computed by hand; a Python reference under
Hypothesis."""

import dataclasses
import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewire.replay.formats import goal
from pagewire.replay.loggops import Costs, simulate
from pagewire.replay.patterns import Shape, synthesize
from pagewire.replay.records import TraceError


def run(tmp_path, ranks, costs=None):
    """Texts of the ranks' statements."""
    path = tmp_path / "a.goal"
    texts = [f"rank {rank} {{\n{text}\n}}\n" for rank, text in enumerate(ranks)]
    path.write_text(f"num_ranks {len(ranks)}\n{''.join(texts)}")
    return simulate(str(path), costs)


def reduce_tree(num_ranks, num_bytes):
    """A binomial tree to rank 0: a rank sends when all that it receives is there."""
    texts = []
    for rank in range(num_ranks):
        bit = 1 << rank.bit_length()
        lines, waited = [], []
        while rank + bit < num_ranks:
            lines.append(f"r{bit}: recv {num_bytes}b from {rank + bit}")
            waited.append(f"r{bit}")
            bit *= 2
        if rank:
            lines.append(f"s: send {num_bytes}b to {rank - (1 << rank.bit_length() - 1)}")
            lines += [f"s requires {each}" for each in waited]
        texts.append("\n".join(lines))
    return texts


def test_the_published_vector(tmp_path):
    """schedgen -s 8 -d 1024 -p binomialtreereduce in LogGOPSim's README."""
    found = run(tmp_path, reduce_tree(8, 1024))
    assert found.end_ns == [34914, 24776, 13138, 13138, 1500, 1500, 1500, 1500]
    assert found.num_events == 21


HAND = Costs(
    latency_ns=100, overhead_ns=10, gap_ns=7, gap_per_byte_ns=2.0, overhead_per_byte_ns=1.0,
    eager_bytes=50,
)  # fmt: skip


def test_an_eager_message(tmp_path):
    """CPU of the sender 10 + 10 * 1; it arrives at 110, and takes 10 + 10 * max(1, 2)."""
    assert run(tmp_path, ["send 11b to 1", "recv 11b from 0"], HAND).end_ns == [20, 140]


def test_the_sender_of_an_eager_message_does_not_wait(tmp_path):
    there = "a: send 11b to 1\nb: calc 5\nb requires a"
    back = "a: calc 1000\nb: recv 11b from 0\nb requires a"
    # The message takes the receiver's CPU at 110, while it computes: behind it, then.
    assert run(tmp_path, [there, back], HAND).end_ns == [25, 1030]


def test_the_sender_of_a_long_message_waits_for_the_receive(tmp_path):
    """101 bytes: the message comes at 110, the CPU is free at 1000, takes 10 + 200 until 1210; the
    receive is posted at 1000, before that."""
    there = "a: send 101b to 1\nb: calc 5\nb requires a"
    back = "a: calc 1000\nb: recv 101b from 0\nb requires a"
    assert run(tmp_path, [there, back], HAND).end_ns == [1005, 1210]


def test_a_long_message_that_came_before_its_receive(tmp_path):
    """It waits among those that came early; the receive comes at 830, and ends both."""
    there = "a: send 101b to 1\nb: calc 5\nb requires a"
    back = "a: recv 1b from 0 tag 1\nb: calc 500\nb requires a\nc: recv 101b from 0\nc requires b"
    first = "x: send 1b to 1 tag 1\n" + there + "\na irequires x"
    # x: CPU 0-10; a at 10 (the interface is free at 7), arrives at 120. x arrives at 110, takes
    # the CPU until 120, then a: 120 + 210 = 330. calc: 330-830, c at 830.
    assert run(tmp_path, [first, back], HAND).end_ns == [835, 830]


def test_incast_is_one_after_the_other_at_the_receiver(tmp_path):
    """Three arrive at 110: CPU 10 + 20, interface 7 + 20 each; the CPU is the later."""
    receives = "\n".join(f"recv 11b from {rank}" for rank in (1, 2, 3))
    assert run(tmp_path, [receives, *["send 11b to 0"] * 3], HAND).end_ns == [200, 20, 20, 20]


def test_sends_are_a_gap_apart(tmp_path):
    """Of one rank: the interface is busy for 7 + 10 * 2 = 27, the CPU for 20."""
    there = "send 11b to 1\nsend 11b to 1"
    assert run(tmp_path, [there, "recv 11b from 0\nrecv 11b from 0"], HAND).end_ns == [47, 170]


def test_irequires_waits_for_the_beginning(tmp_path):
    there = "a: send 101b to 1\nb: calc 5\nb irequires a"
    found = run(tmp_path, [there, "a: calc 1000\nb: recv 101b from 0\nb requires a"], HAND)
    assert found.end_ns[0] == 1000  # its CPU is taken on to the receive, as LogGOPSim has it


def test_cpus_are_beside_each_other(tmp_path):
    assert run(tmp_path, ["calc 50\ncalc 60 cpu 1\ncalc 30 cpu 1"], HAND).end_ns == [90]


def test_any_source_and_tag(tmp_path):
    there = "send 1b to 1 tag 5"
    assert run(tmp_path, [there, "recv 1b from -1 tag -1"], HAND).end_ns == [10, 120]


@pytest.mark.parametrize(
    "ranks, why",
    [
        (
            ["recv 8b from 1", "recv 8b from 0 tag 3"],
            r"nothing can go on: rank 0 operation 1: receive from rank 1 \(tag 0\) gets no mess"
            + r"age; rank 1 operation 1: receive from rank 0 \(tag 3\) gets no message",
        ),
        (["send 8b to 1", ""], "rank 1: 1 messages came that nobody received"),
        (["send 99999b to 1", ""], "send of 99999 bytes to rank 1 .* is not received"),
        (["a: calc 1\nb: calc 1\na requires b\nb requires a"], "2 operations depend on each"),
    ],
)
def test_what_waits_for_ever_is_told(tmp_path, ranks, why):
    with pytest.raises(TraceError, match=why):
        run(tmp_path, ranks)


@pytest.mark.parametrize("changed", [{"latency_ns": -1}, {"gap_per_byte_ns": float("nan")}])
def test_costs_that_cannot_be_are_refused(changed):
    with pytest.raises(TraceError, match="allowed is 0 to"):
        Costs(**changed)


@pytest.mark.parametrize("name", ["halo3d:6", "allreduce", "incast"])
def test_a_trace_and_its_goal_file_take_the_same_time(tmp_path, name):
    from pagewire.replay.formats.convert import Conversion

    synthesize(name, 9, Shape(steps=3, compute_ns=5000, num_bytes=70000), str(tmp_path / "a.pwt"))
    Conversion().run(str(tmp_path / "a.pwt"), str(tmp_path / "a.bin"))
    trace, graph = (simulate(str(tmp_path / name)) for name in ("a.pwt", "a.bin"))
    assert trace.end_ns == graph.end_ns and trace.run_ns > 3 * 5000


def test_times_end_at_36_years(tmp_path):
    """However long: a sum never turns negative."""
    longest = 1 << 60
    calcs = "\n".join(f"calc {longest}" for _ in range(40))
    assert run(tmp_path, [calcs]).end_ns == [longest]
    costs = Costs(*[longest] * 3, gap_per_byte_ns=1e18, overhead_per_byte_ns=1e18)
    there = f"send {longest}b to 1\nsend 9b to 1"
    back = f"recv {longest}b from 0\nrecv 9b from 0"
    assert run(tmp_path, [there, back], costs).end_ns == [longest, longest]


# ---- a reference


def reference(graphs, costs):
    """The rules, as shortly as they can be said: ends of the ranks."""
    over, ends = [[len(a) + len(b) for a, b in zip(g.requires, g.irequires, strict=True)]
                  for g in graphs], [[0, 0, 0] for _ in graphs]  # fmt: skip
    posted, early = [[] for _ in graphs], [[] for _ in graphs]
    queue, order = [], iter(range(10**9))
    cpu, out, into = range(3)

    def per_byte(cost, size):
        return int(cost * (size - 1))

    def begin_all(rank, nodes):
        for node in sorted(nodes, key=lambda each: graphs[rank].kinds[each]):
            kind = graphs[rank].kinds[node]
            free = max(ends[rank][cpu], ends[rank][out] if kind == goal.SEND else 0)
            heapq.heappush(queue, (free, next(order), kind, rank, node, rank))

    def end(rank, node, which):
        others = graphs[rank].requires if which == "done" else graphs[rank].irequires
        freed = []
        for other in range(len(graphs[rank])):
            for each in others[other]:
                if each == node:
                    over[rank][other] -= 1
                    freed += [other] * (over[rank][other] == 0)
        return freed

    def match(queue_of, fits):
        for idx, each in enumerate(queue_of):
            if fits(each):
                return queue_of.pop(idx)
        return None

    def free_sender(rank, node, now):
        if graphs[rank].sizes[node] > costs.eager_bytes:
            for which in (cpu, out):
                ends[rank][which] = max(ends[rank][which], now)
            begin_all(rank, end(rank, node, "done"))

    for rank in range(len(graphs)):
        begin_all(rank, [node for node, count in enumerate(over[rank]) if not count])
    while queue:
        now, number, kind, rank, node, source = heapq.heappop(queue)
        graph, mine = graphs[source], ends[rank]
        size = graph.sizes[node]
        busy = {goal.CALC: mine[cpu], goal.SEND: max(mine[cpu], mine[out]), goal.RECEIVE: 0,
                4: max(mine[cpu], mine[into])}[kind]  # fmt: skip
        if busy > now:
            heapq.heappush(queue, (busy, number, kind, rank, node, source))
        elif kind == goal.CALC:
            mine[cpu] = now + size
            begin_all(rank, end(rank, node, "begun") + end(rank, node, "done"))
        elif kind == goal.SEND:
            mine[cpu] = now + costs.overhead_ns + per_byte(costs.overhead_per_byte_ns, size)
            mine[out] = now + costs.gap_ns + per_byte(costs.gap_per_byte_ns, size)
            freed = end(rank, node, "begun")
            arrival = now + costs.overhead_ns + costs.latency_ns
            heapq.heappush(queue, (arrival, next(order), 4, graph.peers[node], node, rank))
            if size <= costs.eager_bytes:
                freed += end(rank, node, "done")
            begin_all(rank, freed)
        elif kind == goal.RECEIVE:
            freed = end(rank, node, "begun")
            wanted = graph.peers[node], graph.tags[node]
            found = match(early[rank], lambda e: (e[0], graphs[e[0]].tags[e[1]]) == wanted)
            if found is None:
                posted[rank].append(node)
                begin_all(rank, freed)
            else:
                begin_all(rank, freed + end(rank, node, "done"))
                free_sender(*found, now)
        else:
            gap = per_byte(costs.gap_per_byte_ns, size)
            over_bytes = per_byte(costs.overhead_per_byte_ns, size)
            mine[cpu] = now + costs.overhead_ns + max(gap, over_bytes)
            mine[into] = now + costs.gap_ns + gap
            wanted = source, graph.tags[node]
            found = match(
                posted[rank], lambda n: (graphs[rank].peers[n], graphs[rank].tags[n]) == wanted
            )
            if found is None:
                early[rank].append((source, node))
            else:
                free_sender(source, node, now)
                begin_all(rank, end(rank, found, "done"))
    return [each[cpu] for each in ends]


MESSAGES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.integers(1, 100)),
    max_size=15,
)


@given(messages=MESSAGES, data=st.data())
def test_the_engine_does_what_the_reference_does(tmp_path_factory, messages, data):
    """Graphs whose edges go back only, so that nothing waits in a circle: sends come first."""
    graphs = [goal.Graph() for _ in range(4)]
    for source, dest, tag, size in messages:
        graphs[source].add(goal.SEND, size, dest, tag)
        if data.draw(st.booleans()):
            graphs[dest].add(goal.CALC, size * 3)
    for source, dest, tag, size in messages:
        graphs[dest].add(goal.RECEIVE, size, source, tag)
    for graph in graphs:
        for node in range(1, len(graph)):
            back = data.draw(st.lists(st.integers(0, node - 1), max_size=2, unique=True))
            for other in back:
                # A short send ends by itself; what ends by others' doing may only be begun.
                is_free = graph.kinds[other] == goal.CALC or (
                    graph.kinds[other] == goal.SEND and graph.sizes[other] <= HAND.eager_bytes
                )
                of = graph.requires if is_free and data.draw(st.booleans()) else graph.irequires
                of[node].append(other)
    path = str(tmp_path_factory.mktemp("graphs") / "a.bin")
    goal.write_binary(path, 4, graphs)
    assert simulate(path, HAND).end_ns == reference(graphs, HAND)


def test_costs_are_those_of_the_engine():
    """Each counts: a change of any changes the time of a long and a short message."""
    graphs = [goal.Graph(), goal.Graph()]
    busy = graphs[1].add(goal.CALC, 1000)
    for size in (40, 60, 40):
        graphs[0].add(goal.SEND, size, 1)
        graphs[1].requires[graphs[1].add(goal.RECEIVE, size, 0)].append(busy)
    graphs[0].requires[2].append(1)
    base = reference(graphs, HAND)
    for field in dataclasses.fields(Costs):
        changed = dataclasses.replace(HAND, **{field.name: getattr(HAND, field.name) * 3})
        assert reference(graphs, changed) != base, field.name
