"""Links that nodes share, by arithmetic; and what does not depend on them."""

import json

import json_schemas
import pytest
from programs import HandMade, call, halo, present, receive, run, send, written

from pagewire.cli.main import main
from pagewire.native import EngineError
from pagewire.native.settings import ConfigError
from pagewire.network.topology import Topology
from pagewire.replay import records as r
from pagewire.replay.made import Jobs
from pagewire.replay.trace import Reader

MIB = 1 << 20


def flows(num_ranks, pairs, num_bytes=MIB, is_present=True):
    """Messages from each first to each second, all at once, between pages that are there, or are
    not."""
    ranks = []
    for rank in range(num_ranks):
        sources = [source for source, target in pairs if target == rank]
        targets = [target for source, target in pairs if source == rank]
        num_regions = is_present * (len(sources) + len(targets))
        pages = [present(idx, num_bytes) for idx in range(num_regions)]
        made = [r.Name(0, "Irecv"), r.Name(1, "Isend"), r.Name(2, "Waitall"), *pages]
        for idx, source in enumerate(sources):
            made += call(0, receive(source, num_bytes, region=idx))
        for idx, target in enumerate(targets):
            made += call(1, send(target, num_bytes, region=len(sources) + idx))
        waits = len(sources) + len(targets)
        made += [*call(2, *(r.Done(waits - 1 - idx) for idx in range(waits))), r.End()]
        ranks.append(made)
    return HandMade(*ranks)


def time_ns(trace, topology, *more, model="links"):
    assignments = [f"network.topology={topology}", f"network.model={model}", *more]
    return max(run(trace, *assignments)[0])


def link_ns(num_bytes):
    """On a link between QFDBs: 32 bytes of header a packet, line code 0.97, 10 Gb/s."""
    return num_bytes * (256 + 32) / 256 * 8 / 9.7


@pytest.mark.parametrize(
    "topology", ["qfdb", "torus:4x4", "mesh:4x4", "fat-tree:2;4,4;1,2;1,2",
                 "dragonfly:2,2;2,1;2,1;2", "full"],
)  # fmt: skip
@pytest.mark.parametrize("num_bytes", [100, 5000, MIB])
def test_one_flow_alone_takes_the_same_whether_links_are_shared(topology, num_bytes):
    trace = flows(16, [(0, 13)], num_bytes)
    alone_ns = time_ns(trace, topology, model="private")
    assert time_ns(trace, topology) == alone_ns
    for quantum in ("256", "1KiB", "16KiB"):
        assert time_ns(trace, topology, f"network.quantum={quantum}", model="packets") == alone_ns


def test_two_flows_on_one_link_take_half_each():
    alone = time_ns(flows(4, [(0, 2)]), "mesh:4")
    both = run(flows(4, [(0, 2), (1, 3)]), "network.topology=mesh:4", "network.model=links")[0]
    assert both[2] == pytest.approx(2 * alone, rel=0.03)
    assert both[3] == pytest.approx(2 * alone, rel=0.03)


PACKET_NS = link_ns(256)


def test_packets_of_two_blocks_take_turns():
    """Two senders of a block behind one switch: by blocks one ends a block before the other."""
    alone_ns = time_ns(flows(8, [(1, 0)], 16384), "fat-tree:1;8;1;1")
    trace = flows(8, [(1, 0), (2, 0)], 16384)
    ends_ns = {}
    for model, *more in (["links"], ["packets"], ["packets", "network.quantum=16KiB"]):
        clocks = run(trace, "network.topology=fat-tree:1;8;1;1", f"network.model={model}", *more)[0]
        ends_ns[model, *more] = sorted(clocks[1:3])
    early_ns, late_ns = ends_ns["packets",]
    assert late_ns - early_ns <= PACKET_NS + 1
    assert late_ns == max(ends_ns["links",])
    assert ends_ns["packets", "network.quantum=16KiB"] == ends_ns["links",]
    assert late_ns - min(ends_ns["links",]) == pytest.approx(64 * PACKET_NS, abs=2)
    assert late_ns < alone_ns + 64 * PACKET_NS + 2


@pytest.mark.parametrize("quantum", [256, 512, 4096])
def test_quanta_of_any_size_move_the_same_bytes(quantum):
    words = ("network.topology=mesh:4", "network.model=packets", f"network.quantum={quantum}")
    clocks, outcome = run(flows(4, [(0, 2), (1, 3)], MIB // 4), *words)
    hottest = outcome.links["hottest"][0]
    assert (hottest["name"], hottest["blocks"]) == ("1 to 2", 32)
    assert hottest["bytes"] == 2 * MIB // 4 * 288 // 256
    least_ns = 2 * link_ns(MIB // 4)
    assert least_ns < max(clocks) < 1.02 * least_ns


@pytest.mark.parametrize(
    ("quantum", "why"), [("128", "from 256B to 16KiB"), ("300", "take a multiple of 256")]
)
def test_a_quantum_is_whole_packets(quantum, why):
    with pytest.raises(ConfigError, match=why):
        time_ns(flows(4, [(0, 2)]), "full", f"network.quantum={quantum}", model="packets")


def test_late_blocks_are_no_packets():
    late = "impairments.delay=1:2:1"
    with pytest.raises(ConfigError, match="network.model = 'packets'"):
        time_ns(flows(4, [(0, 2)]), "full", late, model="packets")


def test_packets_depend_on_no_number_of_a_node():
    """A line of nodes, and the same one seen from its other end; each twice."""
    pairs = [(source, (5 * source + 3) % 16) for source in range(16)]
    mirrored = [(15 - source, 15 - target) for source, target in pairs]
    words = ("network.topology=mesh:16", "network.model=packets")
    once, again = (run(flows(16, pairs, MIB // 8), *words)[0] for _ in range(2))
    assert once == again
    assert run(flows(16, mirrored, MIB // 8), *words)[0] == once[::-1]
    assert len(set(once)) > 8


@pytest.mark.parametrize("memory", ["part", "odp"])
def test_a_flow_alone_faults_the_same_by_packets(memory):
    trace = flows(4, [(0, 2)], MIB // 8, is_present=False)
    words = ("torus:4", f"run.memory={memory}")
    assert time_ns(trace, *words, model="packets") == time_ns(trace, *words, model="private")


def test_a_receiver_writes_blocks_of_several_links_side_by_side():
    """Two at once on links of their own: an engine that is faster than both links holds up none."""
    trace = flows(3, [(0, 1), (2, 1)], 16384)
    alone_ns = time_ns(flows(3, [(0, 1)], 16384), "mesh:3")
    for model in ("links", "packets"):
        assert time_ns(trace, "mesh:3", model=model) == alone_ns
    assert time_ns(trace, "mesh:3", model="private") > alone_ns


@pytest.mark.parametrize("num_senders", [2, 7])
def test_incast_of_n_takes_n_times_one(num_senders):
    switch = "fat-tree:1;8;1;1"
    alone = time_ns(flows(8, [(1, 0)]), switch)
    trace = flows(8, [(1 + sender, 0) for sender in range(num_senders)])
    assert time_ns(trace, switch) == pytest.approx(num_senders * alone, rel=0.03)
    assert time_ns(trace, switch, model="packets") == pytest.approx(num_senders * alone, rel=0.03)
    assert time_ns(trace, switch, model="private") < 1.1 * num_senders * alone


def test_all_to_all_on_a_ring_is_as_long_as_its_busiest_link():
    """Halfway round a message goes up: a link up has 1 + 2 + 3 + 4 of them, one down 1 + 2 + 3."""
    pairs = [(source, target) for source in range(8) for target in range(8) if source != target]
    trace = flows(8, pairs, MIB // 4)
    clocks, outcome = run(trace, "network.topology=torus:8", "network.model=links")
    least_ns = 10 * link_ns(MIB // 4)
    assert least_ns < max(clocks) < 1.2 * least_ns
    hottest = outcome.links["hottest"]
    assert all(each["bytes"] == 10 * MIB // 4 * 288 // 256 for each in hottest)
    assert {each["name"] for each in hottest} == {f"{k} to {(k + 1) % 8}" for k in range(8)}


def test_shifts_on_a_full_fat_tree_take_as_long_as_one_flow():
    tree = "fat-tree:2;4,4;1,4;1,1"
    pairs = [(source, (source + 5) % 16) for source in range(16)]
    trace = flows(16, pairs)
    assert time_ns(trace, tree) == time_ns(trace, tree, model="private")
    thin = "fat-tree:2;4,4;1,2;1,1"
    assert time_ns(trace, thin) > 1.8 * time_ns(trace, tree)


@pytest.mark.parametrize("model", ["links", "packets"])
def test_ugal_beats_minimal_where_all_want_the_same_link(model):
    """Each group sends to the next one: eight flows on one cable, where others idle."""
    fly = "dragonfly:9,1;1,1;4,1;2"
    trace = flows(72, [(node, (node + 8) % 72) for node in range(72)])
    minimal, valiant, ugal = (
        time_ns(trace, fly + way, model=model) for way in ("", ";valiant", ";ugal")
    )
    assert minimal == pytest.approx(8 * time_ns(flows(72, [(0, 8)]), fly), rel=0.05)
    assert ugal < 0.5 * minimal and valiant < 0.5 * minimal


@pytest.mark.parametrize("model", ["links", "packets"])
def test_several_ways_share_a_load(model):
    """Two flows that meet on a torus go apart where blocks take several ways."""
    trace = flows(16, [(0, 10), (1, 10), (2, 10)])
    one = time_ns(trace, "torus:4x4", model=model)
    assert time_ns(trace, "torus:4x4", "firmware.multipath=2", model=model) < 0.8 * one


def test_copies_of_a_run_do_not_change_each_others_times(tmp_path):
    one = written(tmp_path / "one.pwt", halo(6, [1, 2], steps=3))
    with Reader(one) as reader:
        alone = run(Jobs([reader]), "run.memory=part", "network.topology=full")[0]
        both = run(Jobs([reader] * 3), "run.memory=part", "network.topology=full")[0]
    assert both == alone * 3


def test_jobs_slow_each_other_down_where_they_share_links(tmp_path, capsys):
    one = written(tmp_path / "one.pwt", flows(2, [(0, 1)]))
    other = written(tmp_path / "other.pwt", flows(2, [(1, 0)]))
    places, out = tmp_path / "places", tmp_path / "out.json"
    places.write_text("0 2 3 1")
    words = ["--set", "network.topology=mesh:4", "--set", f"network.placement={places}"]
    assert main(["replay", one, other, *words, "--set", "network.model=links",
                 "--json", str(out)]) == 0  # fmt: skip
    document = json.loads(out.read_text())
    json_schemas.check("compare", document)
    first, second = document["replay"]["jobs"]
    assert (first["first"], second["first"], second["ranks"]) == (0, 2, 2)
    for job in (first, second):
        (times,) = job["rows"].values()
        assert times["virtual_time_s"] == pytest.approx(2 * times["alone_s"], rel=0.1)
    shown = capsys.readouterr().out
    assert f"job {other}, ranks 2 to 3:" in shown and "1 to 2: " in shown
    assert main(["replay", one, other, "--verify"]) == 2


def test_placement_decides_who_is_near():
    trace = flows(8, [(0, 1)])
    near = time_ns(trace, "qfdb")
    assert time_ns(trace, "qfdb", "network.placement=round-robin") > near
    with (
        pytest.raises(ConfigError, match="a seed follows"),
        Topology("qfdb", 8, placement="random"),
    ):
        pass


def test_graphs_are_read(tmp_path):
    path = tmp_path / "ring.graphml"
    import networkx

    networkx.write_graphml(networkx.cycle_graph(8), path)
    trace = flows(8, [(0, 3), (4, 1)])
    assert time_ns(trace, path) == time_ns(trace, "torus:8")
    dot = tmp_path / "star.dot"
    dot.write_text("graph { hub [nodes=0]; " + "".join(f"hub -- n{k}; " for k in range(8)) + "}")
    assert time_ns(trace, dot) == time_ns(trace, "fat-tree:1;8;1;1")
    parts = tmp_path / "parts.gv"
    parts.write_text("graph { a -- b; c -- d }")
    with pytest.raises(EngineError, match="cannot reach"):
        time_ns(flows(4, [(0, 1)]), parts)
    with pytest.raises(ConfigError, match="No such file"):
        time_ns(flows(4, [(0, 1)]), tmp_path / "none.graphml")
