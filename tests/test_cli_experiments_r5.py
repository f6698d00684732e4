"""The R5 thesis's experiments: what must come out of the mechanism, in the quick form."""

import itertools
import os

import pytest
from engine_costs import Steps

from pagewire.cli.experiments import r5_bench, r5_optimisations, registry
from pagewire.cli.experiments.r5_bench import READ, WRITE, Bench
from pagewire.cli.experiments.result import Options, Result
from pagewire.native.settings import ConfigError
from pagewire.transport import platform
from pagewire.transport.config import load

PAYLOAD_GBPS = 10 * 0.97 * 256 / 288
SIZE_OF_16_KIB = 16 << 10


def options(**given: str) -> Options:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PAGEWIRE_RUN")}
    return Options(environ={**environ, **given}, quick=True)


def run(name: str, chosen: Options | None = None) -> Result:
    experiment = registry.EXPERIMENTS[name]
    return experiment.run(experiment.options(chosen or options()))


def column(result: Result, key: str) -> list[float]:
    return [row[key] for row in result.rows]


def prototype(*assignments: str) -> Bench:
    return Bench(load([*assignments, "run.platform=exanest-10g"], environ={}), 1 << 20)


def steps() -> Steps:
    return Steps(platform.load("exanest-10g").costs)


def test_experiments_run_on_the_prototype_unless_the_user_chooses():
    experiment = registry.EXPERIMENTS["r5-fig5.3"]
    assert experiment.options(options()).settings().run.platform == "exanest-10g"
    chosen = options(PAGEWIRE_RUN_PLATFORM="exanest-qfdb")
    assert experiment.options(chosen).settings().run.platform == "exanest-qfdb"
    part = registry.EXPERIMENTS["part-fig9"]
    assert part.options(options()).settings().run.platform == "exanest-qfdb"


@pytest.mark.parametrize("operation", [WRITE, READ])
@pytest.mark.parametrize("num_bytes", [16, 4096, SIZE_OF_16_KIB])
def test_bench_takes_the_sum_of_the_steps(num_bytes, operation):
    bench, s = prototype(), steps()
    started = s.post_read() if operation == READ else s.post_write() + s.notice()
    started += s.start() + s.c.r5_completion_message_ns
    # data at both ends and the notification hit the TLBs: 16 KB are in the second level only
    expected = started + s.wire(num_bytes) + s.latency() + 3 * s.l1_hit()
    times = bench.transfer(num_bytes, operation)
    assert expected <= times.notified_ns <= expected + 3 * s.l1_hit()
    assert bench.transfer(num_bytes, operation) == times


def test_loopback_is_a_hop_quicker():
    costs = platform.load("exanest-10g").costs
    for slow, quick in zip(
        column(run("r5-fig5.3"), "notified"), column(run("r5-fig5.1"), "notified"), strict=True
    ):
        assert slow - quick == pytest.approx(costs.hop_ns / 1e3, abs=0.5)


@pytest.mark.parametrize("name", ["r5-fig5.2", "r5-fig5.4"])
def test_streams_reach_the_links_payload_and_singles_come_near(name):
    result = run(name)
    for row in result.rows:
        assert row["single"] <= row["stream"] * 1.0001 < PAYLOAD_GBPS * 1.001
    assert result.rows[-1]["stream"] > 8  # [R5 5.2]
    assert result.rows[-1]["stream"] == pytest.approx(PAYLOAD_GBPS, rel=0.01)


def test_read_costs_its_request_more_than_a_write():
    s = steps()
    more_ns = s.post_read() - s.post_write() - s.notice()
    assert more_ns > 0
    for row in run("r5-fig5.5").rows:
        # a write of several blocks waits while the R5 drops its copy in the mailbox
        of_mailbox_ns = s.c.r5_ack_read_ns if row["num_bytes"] > SIZE_OF_16_KIB else 0
        difference_ns = (row["read"] - row["write"]) * 1e3
        assert difference_ns == pytest.approx(more_ns - of_mailbox_ns)


def test_kernel_is_start_and_rate():
    for row in run("r5-fig5.7").rows:
        transfer_us = 11 + row["num_bytes"] * 8 / 3e3
        assert row["kernel"] == pytest.approx(transfer_us + steps().latency() / 1e3, abs=0.001)
        assert row["user"] < row["kernel"]
    for row in run("r5-fig5.8").rows:
        assert row["kernel"] < 3 and row["kernel"] < row["user"]


def test_platform_without_comparison_is_named(tmp_path):
    text = (platform.FOLDER / "exanest-10g.toml").read_text(encoding="utf-8")
    begin, end = text.index("[comparison.kernel_start]"), text.index("# Costs of one operation")
    own = tmp_path / "own.toml"
    own.write_text(text[:begin] + text[end:], encoding="utf-8")
    with pytest.raises(ConfigError, match=r"'own' has no \[comparison\]"):
        run("r5-fig5.7", options(PAGEWIRE_RUN_PLATFORM=str(own)))


def test_each_optimisation_saves_what_its_steps_cost():
    costs = platform.load("exanest-10g").costs
    saving_ns = {
        "fast_path": costs.r5_mailbox_notice_ns - costs.r5_notice_transfer_ns,
        "bypass": 2 * costs.r5_queue_op_ns + costs.r5_ack_read_ns,
        "ticket_queue": costs.r5_id_search_ns - costs.r5_queue_op_ns,
    }
    for row in run("r5-fig5.9").rows:
        for name, expected_ns in saving_ns.items():
            assert (row[name] - row["all_on"]) * 1e3 == pytest.approx(expected_ns), name
        assert row["queue_counters"] > row["all_on"]
        assert row["all_off"] > max(row[name] for name in r5_optimisations.SWITCHES)


def test_optimisations_matter_for_small_transfers_alone():
    rows = run("r5-fig5.10").rows
    for row in rows:
        for key in r5_optimisations.variants():
            assert row[key] <= row["all_on"] * 1.0001
    assert rows[0]["all_off"] < 0.6 * rows[0]["all_on"]
    assert rows[-1]["all_off"] > 0.99 * rows[-1]["all_on"]


def test_block_is_the_sum_of_its_components():
    rows = run("r5-fig3.8").rows
    parts = {row["component"]: row["time_us"] for row in rows}
    total, whole = parts.pop("measured total"), parts.pop("sum of the components")
    assert sum(parts.values()) == pytest.approx(whole) == pytest.approx(total)
    costs = platform.load("exanest-10g").costs
    assert min(parts.values()) > 0
    assert parts["completion message"] * 1e3 == pytest.approx(costs.r5_completion_message_ns)
    assert parts["R5 notices the transfer"] * 1e3 == pytest.approx(costs.r5_notice_transfer_ns)


@pytest.mark.parametrize("operation", [WRITE, READ])
def test_stream_rises_with_size_and_repeats(operation):
    bench = prototype()
    rates = [bench.stream_gbps(16 << i, operation, 40) for i in range(9)]
    assert all(left < right for left, right in itertools.pairwise(rates))
    assert bench.stream_gbps(256, operation, 40) == prototype().stream_gbps(256, operation, 40)


def test_stream_of_fewer_transfers_than_channels():
    assert prototype().stream_gbps(4096, WRITE, r5_bench.NUM_OUTSTANDING - 3) > 0


def test_bench_refuses_model_memory():
    with pytest.raises(ConfigError, match="memory_backend.backend"):
        prototype("memory_backend.backend=model")


def test_one_timeout_delays_by_the_timeout_and_a_restart():
    s = steps()
    rows = run("r5-fig5.11").rows
    assert [row["timeouts"] for row in rows] == [1] * len(rows)
    for row in rows:
        if row["num_bytes"] <= SIZE_OF_16_KIB:
            assert row["more"] * 1e3 == pytest.approx(20_000_000 + s.restart())
        else:  # the other blocks are sent meanwhile
            assert 0 < row["more"] * 1e3 < 20_000_000 + s.restart()
    assert rows[-1]["num_bytes"] > SIZE_OF_16_KIB


def test_one_timeout_leaves_large_transfers_more_of_their_throughput():
    shares = column(run("r5-fig5.12"), "share")
    assert all(left < right for left, right in itertools.pairwise(shares))
    assert 0 < shares[0] < 1


def test_blocks_bound_what_a_lost_packet_costs():
    rows = run("r5-livelock").rows
    assert rows[0]["num_bytes"] == SIZE_OF_16_KIB and rows[-1]["num_bytes"] == 1 << 20
    for row in rows:
        num_packets = row["num_bytes"] / 256
        assert row["attempts"] == pytest.approx(0.999**-num_packets)
        assert row["segmented"] >= row["plain"]
    last = rows[-1]
    # 64 blocks, of which 1 - 0.999^64 fail at every attempt: a few are sent again, not all of them
    expected = 64 * (0.999**-64 - 1)
    assert last["resent"] == pytest.approx(expected, rel=0.5)
    assert last["segmented"] < last["unsegmented"] / 5


def test_livelock_needs_a_timeout():
    with pytest.raises(ConfigError, match=r"run\.timeout = none"):
        run("r5-livelock", options(PAGEWIRE_RUN_TIMEOUT="none"))
