"""Links that have failed, and links that lose: by arithmetic."""

import pytest
from programs import run
from test_network import MIB, flows, link_ns, time_ns

from pagewire.cli.main import main
from pagewire.native import EngineError
from pagewire.native.settings import ConfigError
from pagewire.network.topology import Topology

TREE = "fat-tree:2;4,4;1,2;1,1"  # switches 16 to 19, each below 20 and 21


@pytest.mark.parametrize("model", ["private", "links", "packets"])
@pytest.mark.parametrize("num_bytes", [100, 5000, MIB])
def test_a_neighbour_on_a_ring_without_their_link_is_7_hops_away(model, num_bytes):
    near, far = flows(8, [(0, 1)], num_bytes), flows(8, [(0, 7)], num_bytes)
    ring = time_ns(near, "torus:8", "network.failed=0 to 1", model=model)
    assert ring == time_ns(far, "mesh:8", model=model) > time_ns(near, "torus:8", model=model)


def test_a_fat_tree_without_one_of_two_upper_switches_has_half_of_its_bandwidth():
    trace = flows(16, [(source, (source + 4) % 16) for source in range(16)])
    whole, half = time_ns(trace, TREE), time_ns(trace, TREE, "network.failed=router 21")
    assert half == pytest.approx(2 * whole, rel=0.03)
    assert half > 4 * link_ns(MIB)
    with Topology(TREE, 16) as made, Topology(TREE, 16, failed="router 21") as less:
        assert (made.bisection(), less.bisection()) == (4, 2)


def test_nothing_passes_a_failed_link_and_what_passed_it_goes_round():
    trace = flows(16, [(0, 1), (4, 5)])
    outcome = run(trace, "network.topology=torus:4x4", "network.model=links",
                  "network.failed=0 to 1")[1]  # fmt: skip
    names = {each["name"] for each in outcome.links["hottest"] if each["bytes"] > MIB}
    assert "0 to 1" not in names and "4 to 5" in names and len(names) == 4
    assert outcome.links["links"] == 4 * 16 - 2


def test_info_shows_what_has_failed_and_what_is_left(capsys, monkeypatch):
    monkeypatch.setenv("PAGEWIRE_NETWORK_TOPOLOGY", "torus:8")
    monkeypatch.setenv("PAGEWIRE_NETWORK_FAILED", "3 to 4")
    assert main(["info", "--topology", "--ranks", "8"]) == 0
    shown = capsys.readouterr().out
    assert "2: 3 to 4; 4 to 3" in shown and "1, each way" in shown


def test_where_no_way_is_left_both_nodes_and_the_links_are_named(tmp_path):
    trace = flows(8, [(0, 1)])
    with pytest.raises(EngineError, match="from node 0 to node 1: failed are '0 to 1; 4 to 5'"):
        time_ns(trace, "torus:8", "network.failed=0 to 1; 4 to 5")
    names = tmp_path / "names"
    names.write_text("0 to 1\n4 to 5\n")
    with pytest.raises(EngineError, match="from node 0 to node 1"):
        time_ns(trace, "torus:8", f"network.failed={names}")


def test_a_graph_without_a_link_has_the_shortest_ways_that_are_left(tmp_path):
    path = tmp_path / "ring.graphml"
    import networkx

    networkx.write_graphml(networkx.cycle_graph(8), path)
    near, far = flows(8, [(0, 1)]), flows(8, [(0, 7)])
    assert time_ns(near, path, "network.failed=0 to 1") == time_ns(far, "mesh:8")
    with pytest.raises(EngineError, match="no way is left from node 0 to node 4"):
        time_ns(near, path, "network.failed=router 4")


# ---- links that lose

PACKET = 256


def few_packets(num_ranks, pairs, num_messages=40):
    """Messages of a packet each, one block of one packet each by RDMA."""
    return flows(num_ranks, pairs * num_messages, PACKET)


@pytest.mark.parametrize("model", ["private", "links", "packets"])
def test_what_a_link_loses_is_sent_again_and_only_what_passes_it(model):
    """On a ring of 8: 0 to 2 and 7 to 2 pass 1 to 2, and 2 to 4 and 5 to 6 do not."""
    trace = few_packets(8, [(0, 2), (7, 2), (2, 4), (5, 6)])
    words = ["network.topology=torus:8", f"network.model={model}", "run.memory=ideal"]
    lossy = [*words, "network.lossy=1 to 2", "impairments.link_loss=1:4:7"]
    per_rank = run(trace, *lossy)[1].per_rank
    lost = [each["impairments"]["link_loss"]["injected"] for each in per_rank]
    again = [each["retransmitted_blocks"] for each in per_rank]
    assert again == lost and sum(each > 0 for each in lost) == 2 and lost[0] and lost[7]
    eligible = [each["impairments"]["link_loss"]["eligible"] for each in per_rank]
    assert eligible == [(40 + lost[rank]) if rank in (0, 7) else 0 for rank in range(8)]
    assert sum(each["retransmitted_blocks"] for each in run(trace, *words)[1].per_rank) == 0


def test_a_draw_depends_on_the_seed_and_the_link_alone():
    trace = few_packets(8, [(0, 3)])
    words = ["network.topology=torus:8", "impairments.link_loss=1:4:7", "run.memory=ideal"]
    one, same, other, router, both = (
        run(trace, *words, f"network.lossy={names}")[1].per_rank[0]["retransmitted_blocks"]
        for names in ("1 to 2", "2 to 1", "2 to 3", "router 2", "1 to 2; 2 to 3")
    )
    assert one == same == router
    assert both > max(one, other)


def test_a_loss_on_no_link_is_refused():
    with pytest.raises(ConfigError, match="name some in network.lossy"):
        time_ns(few_packets(8, [(0, 3)]), "torus:8", "impairments.link_loss=1:4:7")
