"""What private links would have been asked for had they been shared, by arithmetic."""

import json

import pytest
from programs import run, written
from test_network import MIB, flows

from pagewire.cli.main import main
from pagewire.network import use
from pagewire.run.report import links, report
from pagewire.run.settings.config import load

BYTE_NS = 8 / 9.7
"""On a link between QFDBs: 10 Gb/s, line code 0.97."""


def asked(trace, topology, *more, model="private"):
    clocks, outcome = run(trace, f"network.topology={topology}", f"network.model={model}", *more)
    return outcome.links, max(clocks)


def test_two_pairs_ask_for_twice_what_a_link_carries():
    """Each takes 0.97 ms with the headers, all of it within the first ms."""
    own, run_ns = asked(flows(4, [(0, 2), (1, 3)]), "mesh:4")
    (hottest,) = own["hottest"]
    num_bytes = 2 * MIB * 288 // 256
    assert (hottest["name"], hottest["pairs"], hottest["bytes"]) == ("1 to 2", 2, num_bytes)
    assert hottest["blocks"] == 2 * 64
    assert hottest["busiest"] == pytest.approx(num_bytes * BYTE_NS / 1e6, rel=1e-5)
    assert hottest["busiest_at_s"] == 0
    assert hottest["busy"] == pytest.approx(num_bytes * BYTE_NS / run_ns, rel=1e-5)
    assert (own["links"], own["used"], own["shared"]) == (6, 3, 1)
    assert own["mean_busy"] == pytest.approx(4 / 2 * hottest["busy"] / 6, rel=1e-5)
    told = use.lines(own, 4)
    assert told[0].endswith("met on 1 of mesh:4's 6; the busiest:")
    assert told[1] == (
        f"  1 to 2: 2 pairs ask for {hottest['busy']:.0%} of it, at most 195% in a ms "
        "(from 0 ms on)"
    )
    assert told[2].startswith("  Above 100% blocks would have waited")


def test_one_pair_has_nothing_to_say():
    own, _ = asked(flows(2, [(0, 1), (1, 0)]), "qfdb")
    assert (own["shared"], own["used"], own["hottest"]) == (0, 2, [])
    assert use.lines(own, 4) == []


@pytest.mark.parametrize("topology", ["torus:8", "qfdb", "fat-tree:2;4,2;1,2;1,1", "full"])
def test_links_are_asked_for_what_shared_ones_carry(topology):
    pairs = [(source, target) for source in range(8) for target in range(8) if source != target]
    trace = flows(8, pairs, MIB // 4)
    own, own_ns = asked(trace, topology)
    shared, shared_ns = asked(trace, topology, model="links")
    assert own["used"] == shared["used"]
    assert own["mean_busy"] * own_ns == pytest.approx(shared["mean_busy"] * shared_ns, rel=1e-4)
    if own["hottest"]:
        assert own["hottest"][0]["bytes"] == shared["hottest"][0]["bytes"]


def test_ways_that_are_drawn_are_spread_over_them():
    fly = "dragonfly:9,1;1,1;4,1;2"
    trace = flows(72, [(node, (node + 8) % 72) for node in range(72)], MIB // 16)
    minimal, drawn = (asked(trace, fly + way)[0]["hottest"][0] for way in ("", ";valiant"))
    assert minimal["pairs"] == 8
    assert drawn["busiest"] < 0.5 * minimal["busiest"]


def test_two_ways_share_the_bytes_evenly():
    pairs = [(0, 10), (1, 10), (2, 10)]
    one, two = (
        asked(flows(16, pairs), "torus:4x4", *more)[0]["hottest"][0]
        for more in ((), ("firmware.multipath=2",))
    )
    assert one["bytes"] == 3 * MIB * 288 // 256
    assert two["bytes"] < one["bytes"]


def told_by(*demands):
    """What ranks of 2 ms leave of these, each a dict of peers."""
    return [{"demands": each, "virtual_time_ns": 2_000_000} for each in demands]


def demand(most_bytes, span_windows=1):
    return {
        "blocks": len(most_bytes),
        "bytes": sum(most_bytes.values()),
        "span_windows": span_windows,
        "most_bytes": {str(span): num_bytes for span, num_bytes in most_bytes.items()},
    }


def test_live_ranks_tell_their_demands():
    config = load(["network.topology=mesh:3"], environ={})
    ranks = told_by({"2": demand({1: 300_000})}, {"2": demand({0: 100_000, 1: 200_000})}, {})
    own = links.of_run(ranks, config)
    (hottest,) = own["hottest"]
    assert (hottest["name"], hottest["pairs"], hottest["bytes"]) == ("1 to 2", 2, 600_000)
    assert hottest["busiest"] == pytest.approx(0.5 * BYTE_NS, rel=1e-5)
    assert hottest["busiest_at_s"] == 0.001
    assert hottest["busy"] == pytest.approx(0.3 * BYTE_NS, rel=1e-5)
    text = report.table([{**each, "mpi_calls": {}} for each in ranks], config, "x", own)
    assert "1 to 2: 2 pairs ask for 25% of it, at most 41% in a ms (from 1 ms on)" in text
    assert "Above 100%" not in text


def test_longer_spans_of_one_rank_are_those_of_all():
    """Busiest windows of 4 ms count together: 30 kB of window 2, 20 kB of one of them."""
    config = load(["network.topology=mesh:3"], environ={})
    ranks = told_by(
        {"2": demand({2: 30_000, 3: 10_000})}, {"2": demand({0: 20_000}, span_windows=4)}, {}
    )
    own = links.of_run(ranks, config)
    assert own["span_s"] == 0.004
    assert own["hottest"][0]["busiest"] == pytest.approx(0.05 * BYTE_NS, rel=1e-4)


def test_nothing_is_told_of_a_rank_alone_or_of_an_older_report():
    config = load([], environ={})
    assert links.of_run(told_by({}), config) is None
    assert links.of_run([{"virtual_time_ns": 1}, {"virtual_time_ns": 1}], config) is None


def test_blocks_to_spawned_ranks_are_not_those_of_the_machine():
    config = load([], environ={})
    own = links.of_run(told_by({"7": demand({0: 5})}, {}), config)
    assert (own["used"], own["shared"]) == (0, 0)


def test_replay_prints_and_keeps_it(tmp_path, capsys):
    file, out = written(tmp_path / "x.pwt", flows(4, [(0, 2), (1, 3)])), tmp_path / "out.json"
    words = ["--set", "network.topology=mesh:4", "--json", str(out)]
    assert main(["replay", file, *words]) == 0
    shown = capsys.readouterr().out
    assert "links were private, part/" in shown or "links were private, " in shown
    assert "1 to 2: 2 pairs" in shown
    document = json.loads(out.read_text())
    (row,) = document["replay"]["links"].values()
    (own,) = (each["links"] for each in document["reports"])
    assert {**row, "picture": own["picture"]} == own


def test_rows_in_which_blocks_would_have_waited_are_named():
    own, _ = asked(flows(4, [(0, 2), (1, 3)]), "mesh:4")
    alone, _ = asked(flows(2, [(0, 1)]), "qfdb")
    assert use.crowded([("pin", own), ("part", alone), ("odp", None)]) == [
        "links were private; blocks would have waited for shared ones:",
        "  pin: 1 to 2: at most 195% in a ms (from 0 ms on)",
    ]
    assert use.crowded([("part", alone)]) == []
