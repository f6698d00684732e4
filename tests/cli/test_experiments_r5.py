"""The R5 thesis's experiments: what must come out of the mechanism, in the quick form."""

import itertools
import os

import pytest
from engine_costs import Steps

from pagewire.cli.experiments import r5_bench, r5_losses, r5_optimisations, registry
from pagewire.cli.experiments.r5_bench import READ, WRITE, Bench
from pagewire.cli.kit.result import Options, Result
from pagewire.native.settings import ConfigError
from pagewire.run.settings import platform
from pagewire.run.settings.config import load

PAYLOAD_GBPS = 10 * 0.97 * 256 / 288
SIZE_OF_16_KIB = 16 << 10


def options(**given: str) -> Options:
    return Options(environ={**os.environ, **given}, quick=True)


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
    started += s.start_single()
    # data at both ends and the notification hit the TLBs: 16 KB are in the second level only
    expected = started + s.wire(num_bytes) + s.latency() + 3 * s.l1_hit()
    times = bench.transfer(num_bytes, operation)
    assert expected <= times.notified_ns <= expected + 3 * s.l1_hit()
    assert bench.transfer(num_bytes, operation) == times


def test_loopback_is_a_hop_and_a_line_code_quicker():
    costs = platform.load("exanest-10g").costs
    pairs = zip(run("r5-fig5.3").rows, run("r5-fig5.1").rows, strict=True)
    for slow, quick in pairs:
        coding_us = slow["num_bytes"] * 288 / 256 * 8 / 10e3 * (1 / 0.97 - 1)
        expected_us = costs.hop_ns / 1e3 + coding_us
        assert slow["notified"] - quick["notified"] == pytest.approx(expected_us, abs=0.5)


@pytest.mark.parametrize(
    ("name", "payload_gbps"),
    [("r5-fig5.2", PAYLOAD_GBPS / 0.97), ("r5-fig5.4", PAYLOAD_GBPS)],  # loopback: no line code
)
def test_streams_reach_the_links_payload_and_singles_come_near(name, payload_gbps):
    result = run(name)
    for row in result.rows:
        assert row["single"] <= row["stream"] * 1.0001 < payload_gbps * 1.001
    assert result.rows[-1]["stream"] > 8  # [R5 5.2]
    assert result.rows[-1]["stream"] == pytest.approx(payload_gbps, rel=0.01)


def test_read_costs_its_request_more_than_a_write():
    s = steps()
    more_ns = s.post_read() - s.post_write() - s.notice()
    assert more_ns > 0
    for row in run("r5-fig5.5").rows:
        assert (row["read"] - row["write"]) * 1e3 == pytest.approx(more_ns)


def test_zdma_notifies_a_round_trip_later_and_has_no_firmware_to_wait_for():
    for row in run("r5-fig5.3").rows:
        assert (row["zdma"] < row["notified"]) == (row["num_bytes"] <= 512)
    streams = run("r5-fig5.4").rows
    assert streams[-1]["zdma"] == pytest.approx(10 * 0.97 * 64 / 96, rel=0.02)
    assert streams[-1]["zdma_single"] < 6 * 64 * 8 / (2 * steps().latency())


def test_kernel_asks_pins_and_wakes_up():
    costs = platform.load("exanest-10g").costs
    asked_us = (costs.system_call_ns + costs.page_in_fixed_ns) / 1e3
    for row in run("r5-fig5.7").rows:
        assert row["kernel"] == pytest.approx(asked_us + row["user"])
    for row in run("r5-fig5.8").rows:
        assert row["kernel"] < row["user"] and row["kernel_zdma"] < 3  # [R5 5.8]


def test_each_optimisation_saves_what_its_steps_cost():
    costs = platform.load("exanest-10g").costs
    saving_ns = {
        "fast_path": costs.r5_mailbox_notice_ns - costs.r5_notice_transfer_ns,
        "bypass": 2 * costs.r5_queue_op_ns - costs.r5_bypass_check_ns,
        "ticket_queue": costs.r5_id_search_ns - costs.r5_queue_op_ns,
    }
    assert saving_ns == {"fast_path": 200, "bypass": 300, "ticket_queue": 200}  # [R5 3.3]
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


def test_one_timeout_is_20_ms_longer_for_a_block():
    for row in run("r5-fig5.11").rows:
        assert row["timeouts"] == 1
        start_ns = steps().start_single() + steps().notice() + steps().post_write()
        restarted_us = (20_000_000 + start_ns + steps().restart()) / 1e3
        assert row["lossy"] > restarted_us
        if row["num_bytes"] <= SIZE_OF_16_KIB:
            added_ns = (row["lossy"] - row["clean"]) * 1e3
            assert added_ns == pytest.approx(20_000_000 + steps().restart())
        else:  # the other blocks went on meanwhile
            assert row["lossy"] - row["clean"] < 20_000


def test_one_timeout_weighs_less_the_longer_the_transfer():
    rows = run("r5-fig5.12").rows
    lost = [row["lossy_gbps"] / row["clean_gbps"] for row in rows]
    assert all(left < right for left, right in itertools.pairwise(lost))
    assert lost[0] < 0.001 and lost[-1] < 1


def test_unsegmented_transfers_live_in_retransmissions():
    result = run("r5-livelock")
    by_unit = {
        title: [row for row in result.rows if row["unit"] == title]
        for title in r5_losses.UNITS.values()
    }
    blocks, whole = by_unit.values()
    assert [row["sent"] for row in (blocks[0], whole[0])] == [1, 1]
    for row in blocks:
        assert 1 <= row["sent"] < 1.2
    assert whole[-1]["sent"] > 10 and whole[-1]["gbps"] < 0.1 * blocks[-1]["gbps"]
    assert run("r5-livelock").rows == result.rows  # seeded


def test_attempt_that_loses_a_packet_does_not_arrive():
    bench = prototype("run.timeout=none", "firmware.window_blocks=64")
    clean_ns = bench.transfer(1 << 20).done_ns
    bench.lose("1:1:0:1")
    assert not bench.arrives_whole(1 << 20, 2 * clean_ns)
    assert bench.arrives_whole(1 << 20, 2 * clean_ns)
    bench.lose()
    assert bench.transfer(1 << 20).done_ns == clean_ns
