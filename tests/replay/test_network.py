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


def flows(num_ranks, pairs, num_bytes=MIB):
    """Messages from each first to each second, all at once, between pages that are there."""
    ranks = []
    for rank in range(num_ranks):
        sources = [source for source, target in pairs if target == rank]
        targets = [target for source, target in pairs if source == rank]
        pages = [present(idx, num_bytes) for idx in range(len(sources) + len(targets))]
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
    assert time_ns(trace, topology) == time_ns(trace, topology, model="private")


def test_two_flows_on_one_link_take_half_each():
    alone = time_ns(flows(4, [(0, 2)]), "mesh:4")
    both = run(flows(4, [(0, 2), (1, 3)]), "network.topology=mesh:4", "network.model=links")[0]
    assert both[2] == pytest.approx(2 * alone, rel=0.03)
    assert both[3] == pytest.approx(2 * alone, rel=0.03)


@pytest.mark.parametrize("num_senders", [2, 7])
def test_incast_of_n_takes_n_times_one(num_senders):
    switch = "fat-tree:1;8;1;1"
    alone = time_ns(flows(8, [(1, 0)]), switch)
    trace = flows(8, [(1 + sender, 0) for sender in range(num_senders)])
    assert time_ns(trace, switch) == pytest.approx(num_senders * alone, rel=0.03)
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


def test_ugal_beats_minimal_where_all_want_the_same_link():
    """Each group sends to the next one: eight flows on one cable, where others idle."""
    fly = "dragonfly:9,1;1,1;4,1;2"
    trace = flows(72, [(node, (node + 8) % 72) for node in range(72)])
    minimal, valiant, ugal = (time_ns(trace, fly + way) for way in ("", ";valiant", ";ugal"))
    assert minimal == pytest.approx(8 * time_ns(flows(72, [(0, 8)]), fly), rel=0.05)
    assert ugal < 0.5 * minimal and valiant < 0.5 * minimal


def test_several_ways_share_a_load():
    """Two flows that meet on a torus go apart where blocks take several ways."""
    trace = flows(16, [(0, 10), (1, 10), (2, 10)])
    one = time_ns(trace, "torus:4x4")
    assert time_ns(trace, "torus:4x4", "firmware.multipath=2") < 0.8 * one


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
