"""Links that the nodes of a lab share: as a replay has them; and what nodes at rest cost."""

import pytest
from programs import HandMade, present, run

from pagewire.lab import Lab, Transfer
from pagewire.native.settings import ConfigError
from pagewire.replay import records as r
from pagewire.run.settings.platform import load

MIB = 1 << 20
COSTS = ["costs.walk=0ns", "costs.tlb_l1_hit=0", "costs.tlb_l2_hit=0", "costs.poll=0ns"]
"""A lab's TLBs know the buffers already, those of a replay do not; and a program looks whether a
transfer is over."""
SWITCH = "fat-tree:1;8;1;1"
INCAST = [(sender, 0) for sender in range(1, 8)]


def replayed(pairs, topology, model):
    """When each first has put a MiB to its second, all at once."""
    ranks = []
    for rank in range(8):
        made = [r.Name(0, "Put")]
        for source in (source for source, target in pairs if target == rank):
            made += [present(10 + source, MIB), r.Register(MIB, 10 + source, 0)]
        for source, target in pairs:
            if source == rank:
                put = r.Put(target, MIB, 0, 0, 10 + source, 0)
                made += [present(0, MIB), r.Compute(1000), put, r.Done(0)]
        ranks.append([*made, r.End()])
    settings = [f"network.topology={topology}", f"network.model={model}"]
    clocks, _ = run(HandMade(*ranks), *COSTS, *settings)
    return [clocks[source] for source, _ in pairs]


def in_lab(pairs, topology, model, nodes=8, num_bytes=MIB):
    settings = {"network.topology": topology, "network.model": model}
    platform = load("exanest-qfdb").assigned(COSTS)
    with Lab(nodes=nodes, platform=platform, settings=settings, max_size=num_bytes) as lab:
        transfers = [Transfer(size=num_bytes, initiator=one, target=other) for one, other in pairs]
        return [each.latency_ns for each in lab.together(transfers)]


@pytest.mark.parametrize("model", ["private", "links", "packets"])
@pytest.mark.parametrize(
    ("pairs", "topology"), [([(0, 2), (1, 3)], "mesh:8"), (INCAST, SWITCH), (INCAST, "qfdb")]
)
def test_flows_of_a_lab_take_what_they_take_in_a_replay(pairs, topology, model):
    assert in_lab(pairs, topology, model) == replayed(pairs, topology, model)


def test_two_flows_on_one_link_take_half_each():
    (alone,) = in_lab([(0, 2)], "mesh:4", "links", nodes=4)
    for each in in_lab([(0, 2), (1, 3)], "mesh:4", "links", nodes=4):
        assert each == pytest.approx(2 * alone, rel=0.03)


@pytest.mark.parametrize("model", ["private", "links", "packets"])
@pytest.mark.parametrize("router_ns", [0, 70])
def test_placement_decides_who_is_near(tmp_path, model, router_ns):
    places = tmp_path / "places"
    places.write_text("0 3 1 2")
    platform = load("exanest-qfdb").assigned([f"costs.router={router_ns}ns"])
    times = []
    for placement in ("packed", str(places)):
        network = {"topology": "mesh:4", "model": model, "placement": placement}
        settings = {f"network.{name}": value for name, value in network.items()}
        with Lab(nodes=4, settings=settings, platform=platform) as lab:
            times.append(lab.write("4KiB").latency_ns)
    # two links and the routers before them more, there and back
    assert times[1] - times[0] == 4 * (platform.costs.hop_ns + router_ns)


def test_a_rate_limit_spaces_the_blocks_of_a_node_whomever_they_are_for():
    """Blocks of 16 KiB in packets of 256 B with 32 of header, at 1 Gb/s."""
    gap_ns = 16384 * 288 // 256 * 8
    with Lab(nodes=3, settings={"firmware.rate_limit": 1000}) as lab:
        two_blocks, sixteen = (lab.write(size).latency_ns for size in ("32KiB", "256KiB"))
        both = lab.together([Transfer(size="256KiB", target=target) for target in (1, 2)])
    assert sixteen - two_blocks == 14 * gap_ns
    later_ns = max(each.latency_ns for each in both) - sixteen
    assert later_ns == pytest.approx(16 * gap_ns, abs=2000)  # the R5 has two to begin


def test_networks_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="topology 'mesh:2' has 2 places for 3 nodes"):
        Lab(nodes=3, settings={"network.topology": "mesh:2"})
    with pytest.raises(ConfigError, match="placement 'random': a seed follows"):
        Lab(settings={"network.placement": "random"})
    with pytest.raises(ConfigError, match="run.ranks_per_node = 2: a lab has no ranks; let proc"):
        Lab(settings={"run.ranks_per_node": 2})


@pytest.mark.parametrize("model", ["private", "links", "packets"])
def test_a_write_takes_as_many_turns_among_two_nodes_as_among_many(model):
    turns = []
    for num_nodes in (2, 64, 500):
        with Lab(nodes=num_nodes, settings={"network.model": model}, max_size="64KiB") as lab:
            lab.write("64KiB", absent="all")
            before = lab.nodes.num_turns
            lab.write("64KiB", absent="all")
            turns.append(lab.nodes.num_turns - before)
    assert len(set(turns)) == 1 and turns[0] > 0


def test_looking_after_signals_changes_nothing(monkeypatch):
    before = in_lab(INCAST, SWITCH, "links")
    monkeypatch.setattr("pagewire.lab.joined._TURNS_AT_ONCE", 1)
    assert in_lab(INCAST, SWITCH, "links") == before


def test_a_hundred_nodes_write_at_once_and_each_time_alike():
    """Round a ring, seven links far: as many share each link, with 32 bytes of header a packet,
    line code 0.97 and 10 Gb/s."""
    pairs = [(node, (node + 7) % 100) for node in range(100)]
    times = [in_lab(pairs, "torus:100", "links", nodes=100, num_bytes=65536) for _ in range(2)]
    assert times[0] == times[1]
    least_ns = 7 * 65536 * (256 + 32) / 256 * 8 / 9.7
    assert least_ns < max(times[0]) < 1.2 * least_ns
