"""Ranks that share a node: its place, its links, and what its NI has once; by arithmetic."""

import pytest
from programs import HandMade, halo, present, run
from test_network import flows, time_ns

from pagewire.cli.main import main
from pagewire.driver.policy import PageFault, PageInPolicy
from pagewire.native import EngineError
from pagewire.native.settings import ConfigError
from pagewire.replay import records as r
from pagewire.run.settings.platform import load

MIB = 1 << 20
COSTS = load("exanest-qfdb").costs
"""Of the platform that traces by hand take."""


def puts(num_ranks, pairs, num_bytes, times=1):
    """Each first rank writes to its second, so often; all other ranks do nothing."""
    ranks = [[r.End()] for _ in range(num_ranks)]
    for source, target in pairs:
        ranks[target] = [present(1, num_bytes), r.Register(num_bytes, 1, 0), r.End()]
        write = r.Put(target, num_bytes, 0, 0, 1, 0)
        ranks[source] = [
            present(0, num_bytes),
            r.Compute(1000),
            *[write, r.Done(0)] * times,
            r.End(),
        ]
    return HandMade(*ranks)


def put(num_ranks, source, target, num_bytes):
    """One rank writes to another."""
    return puts(num_ranks, [(source, target)], num_bytes)


def test_a_packet_to_a_rank_of_the_same_node_passes_no_link():
    """Nor its line code: block and acknowledgement save a hop each."""
    trace, no_code = put(2, 0, 1, 64), "costs.link_coding=1000"
    apart, beside = (
        time_ns(trace, "qfdb", no_code, f"run.ranks_per_node={of_node}", model=model)
        for of_node, model in ((1, "private"), (2, "links"))
    )
    assert apart - beside == 2 * COSTS.hop_ns


def test_ranks_of_a_node_stand_at_one_place():
    """Two links lead from node 0 to node 2 of a line, whichever of their ranks it is about."""
    sizes = ["mesh:3", "run.ranks_per_node=4"]
    assert time_ns(put(12, 3, 8, 64), *sizes) == time_ns(put(12, 0, 11, 64), *sizes)
    assert time_ns(put(12, 3, 8, 64), *sizes) == time_ns(put(3, 0, 2, 64), "mesh:3")
    with pytest.raises(EngineError, match="'mesh:3' has 3 places for 4 nodes"):
        time_ns(put(13, 0, 1, 64), *sizes)


def test_a_placement_has_a_place_for_each_node(tmp_path):
    places = tmp_path / "places"
    places.write_text("0 2 1")
    near, far = (put(6, 0, target, 64) for target in (4, 2))
    where = ["mesh:3", "run.ranks_per_node=2"]
    placed = [time_ns(each, *where, f"network.placement={places}") for each in (near, far)]
    assert placed == [time_ns(each, *where) for each in (far, near)]


def test_ranks_of_a_node_share_its_links():
    alone = time_ns(flows(4, [(0, 2)]), "mesh:2", "run.ranks_per_node=2")
    both = flows(4, [(0, 2), (1, 3)])
    assert time_ns(both, "mesh:2", "run.ranks_per_node=2") == pytest.approx(2 * alone, rel=0.03)
    assert time_ns(both, "full") < 1.01 * alone


@pytest.mark.parametrize("pairs", [[(0, 2), (1, 3)], [(0, 2), (1, 4)], [(0, 2), (4, 3)]])
def test_ranks_of_a_node_share_its_engines(pairs):
    """At a slow memory: of the source's node, of the target's, or both; links are each pair's."""
    slow = "costs.receive_engine=1Gb/s"
    alone = time_ns(flows(6, pairs[:1]), "full", slow, model="private")
    apart = time_ns(flows(6, pairs), "full", slow, model="private")
    shared = time_ns(flows(6, pairs), "full", slow, "run.ranks_per_node=2", model="private")
    assert apart == alone
    assert shared == pytest.approx(2 * alone, rel=0.03)


def test_ranks_of_a_node_share_its_r5():
    """Two writes of a packet at once: the R5 notices the one after the other."""
    notice_ns = 5_000_000
    slow = f"costs.r5_mailbox_notice={notice_ns}ns", f"costs.r5_notice_transfer={notice_ns}ns"
    alone = time_ns(put(4, 0, 2, 64), "full", *slow, "run.ranks_per_node=2", model="private")
    both = puts(4, [(0, 2), (1, 3)], 64)
    apart, shared = (
        time_ns(both, "full", *slow, f"run.ranks_per_node={of_node}", model="private")
        for of_node in (1, 2)
    )
    assert apart == pytest.approx(alone, abs=10_000)
    assert shared == pytest.approx(alone + notice_ns, abs=10_000)


def translations(trace, *assignments):
    """Found in the L1 TLB, in the L2 TLB, by a walk; over all ranks."""
    rows = run(trace, "network.topology=full", *assignments)[1].per_rank
    return [sum(row[name] for row in rows) for name in ("l1_hits", "l2_hits", "l2_misses")]


def test_ranks_of_a_node_share_its_tlbs():
    """Each rank's 512 pages fit into the L2 TLB, those of two do not; nor does the one find what
    the other's walks have brought, though both use the same addresses."""
    sizes = "smmu.l2_sets=1", "smmu.l2_ways=640", "smmu.l1_sets=1", "smmu.l1_ways=1"
    again = puts(4, [(0, 2), (1, 3)], 2 * MIB, times=3)
    apart, shared = (
        translations(again, *sizes, f"run.ranks_per_node={of_node}") for of_node in (1, 2)
    )
    assert sum(apart) == sum(shared)
    assert apart[2] == 4 * 512 and shared[2] > 2 * apart[2]
    room = "smmu.l2_sets=1024", "smmu.l2_ways=16"
    assert translations(again, *room, "run.ranks_per_node=2")[2] == 4 * 512


DRIVER = {
    "part": [],
    "psi": ["driver.variant=psi"],
    "touches": ["driver.page_in=touch-a-page"],
    "other core": ["driver.page_in=touch-a-page", "driver.library_core=other"],
    "err by kernel": ["driver.err_by=kernel", "driver.err_after=page"],
    "err after block": ["driver.err_after=block"],
    "fsr by tasklet": ["driver.fsr_cleared_by=tasklet"],
    "stall": ["smmu.mode=stall"],
    "short fifo": ["ni.fifo_depth=4"],
    "two blocks in fifo": ["ni.fifo_remembers=2"],
    "own policy": [f"run.policy={__name__}:RestOfBlock"],
}


class RestOfBlock(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return range(fault.page, fault.block.stop)


def into_absent_pages(*targets, num_bytes):
    """Rank i writes to its target, where nobody else does."""
    ranks = [[r.End()] for _ in range(4)]
    for target in targets:
        ranks[target] = [r.Register(len(targets) * num_bytes, 1, 0), r.End()]
    for source, target in enumerate(targets):
        ranks[source] = [
            present(0, num_bytes),
            r.Compute(1000),
            r.Put(target, num_bytes, 0, 0, 1, source * num_bytes),
            r.Done(0),
            r.End(),
        ]
    return HandMade(*ranks)


def served(of_node, trace, settings):
    """Time, pages brought in, entries that the FIFO lost; over all ranks."""
    alone = "network.topology=full", "run.memory=part", f"run.ranks_per_node={of_node}"
    times, outcome = run(trace, *alone, *settings)
    names = "pages_paged_in", "fifo_lost"
    return max(times), *(sum(row[name] for row in outcome.per_rank) for name in names)


def test_tasklet_and_thread_serve_one_rank_of_a_node_after_the_other():
    """A page fault of each: the second costs handler, entry and ERR more, and no wake-up."""
    trace = into_absent_pages(2, 3, num_bytes=64)
    apart, shared = (served(of_node, trace, [])[0] for of_node in (1, 2))
    entry_ns = COSTS.tasklet_other_ns + COSTS.page_in_fixed_ns + COSTS.page_in_page_ns
    second_ns = COSTS.handler_ns + entry_ns + COSTS.netlink_ns + COSTS.err_send_ns
    assert shared - apart == second_ns == 22_000


@pytest.mark.parametrize("settings", DRIVER.values(), ids=DRIVER)
@pytest.mark.parametrize("num_bytes", [16 << 10, 64 << 10])
def test_faults_of_ranks_of_a_node_take_as_long_as_those_of_one_rank(settings, num_bytes):
    """But for the second rank's context bank, which raises interrupts of its own."""
    two, one = (into_absent_pages(2, to, num_bytes=num_bytes) for to in (3, 2))
    apart, shared = (served(of_node, two, settings) for of_node in (1, 2))
    of_one = served(2, one, settings)
    assert shared[0] == pytest.approx(of_one[0], rel=0.02)
    assert shared[0] > 1.5 * apart[0]
    assert shared[1] == of_one[1] == apart[1] == 2 * num_bytes // 4096
    assert shared[2] == of_one[2] >= apart[2]


def test_messages_within_a_node_use_no_link():
    for pairs, used in (([(0, 1), (2, 3)], 0), ([(0, 2)], 1)):
        settings = "network.model=links", "network.topology=mesh:2", "run.ranks_per_node=2"
        _, outcome = run(flows(4, pairs), *settings)
        assert outcome.links["used"] == used


@pytest.mark.parametrize("memory", ["pretouch", "part"])
@pytest.mark.parametrize("model", ["private", "links", "packets"])
def test_in_which_order_ranks_are_made_changes_nothing(model, memory):
    settings = f"network.model={model}", "run.ranks_per_node=3", f"run.memory={memory}"
    trace = halo(8, [1, 3])
    assert (
        run(trace, *settings)[0]
        == run(trace, *settings, order=range(7, -1, -1))[0]
        == run(trace, *settings, order=[3, 1, 7, 0, 2, 6, 4, 5])[0]
    )


def test_what_cannot_share_a_node_is_refused(capsys):
    with pytest.raises(ConfigError, match="run.ranks_per_node"):
        run(halo(2, [1]), "run.ranks_per_node=0")
    with pytest.raises(EngineError, match="take 1 to verify it"):
        run(halo(2, [1]), "run.ranks_per_node=2", verify=True)


def test_info_tells_that_ranks_of_a_node_are_no_hop_apart(capsys, monkeypatch):
    monkeypatch.setenv("PAGEWIRE_RUN_RANKS_PER_NODE", "4")
    monkeypatch.setenv("PAGEWIRE_NETWORK_TOPOLOGY", "mesh:2")
    assert main(["info", "--topology", "--ranks", "8"]) == 0
    shown = capsys.readouterr().out
    assert "8, 2, 2" in shown and "0: 42.9%, 1: 57.1%" in shown  # 24 and 32 of 56 pairs
    assert " 0  0  0  0  1  1  1  1" in shown and "1, each way" in shown
