"""firmware.congestion and firmware.timeout = measured, where nodes share links."""

import pytest
from programs import run
from test_network import MIB, flows, time_ns

DELAY, MEASURED = "firmware.congestion=delay", "firmware.timeout=measured"
TREE = "fat-tree:1;16;1;1"
INCAST = [(source, 0) for source in range(1, 16)]


def counted(outcome, name):
    return sum(each[name] for each in outcome.per_rank)


def incast(num_bytes, *settings, is_present=True):
    words = (f"network.topology={TREE}", "network.model=links", *settings)
    clocks, outcome = run(flows(16, INCAST, num_bytes, is_present), *words)
    return max(clocks), outcome


@pytest.mark.parametrize("setting", [DELAY, MEASURED])
def test_a_flow_alone_is_never_slowed(setting):
    trace = flows(4, [(0, 2)])
    clocks, outcome = run(trace, "network.topology=mesh:4", "network.model=links", setting)
    assert counted(outcome, "rate_cuts") == counted(outcome, "timeouts") == 0
    # the R5 takes an operation more for each acknowledgement; the link is behind none of them
    alone_ns = time_ns(trace, "mesh:4")
    assert alone_ns <= max(clocks) < alone_ns + 1000


def test_senders_that_follow_the_delay_keep_queues_short():
    plain_ns, plain = incast(MIB)
    ns, outcome = incast(MIB, DELAY)
    assert counted(plain, "rate_cuts") == 0 < counted(outcome, "rate_cuts")
    hot, calm = (each.links["hottest"][0] for each in (plain, outcome))
    assert hot["name"] == calm["name"] == "switch 0 of level 1 to node 0"
    assert 2 * calm["mean_wait_s"] < hot["mean_wait_s"]
    assert plain_ns < ns < 1.1 * plain_ns  # a queue that runs empty costs some of the rate


def test_a_measured_timeout_follows_the_load():
    """Pages come in one after the other: much later than a quiet way's round trip says."""
    resent = {}
    for settings in (("firmware.timeout=auto",), (MEASURED,), (MEASURED, DELAY)):
        outcome = incast(MIB // 16, "run.memory=part", *settings, is_present=False)[1]
        resent[settings] = counted(outcome, "timeouts")
        assert counted(outcome, "transfers_failed") == 0
    auto, measured, both = resent.values()
    assert 4 * measured < auto and both <= measured
