"""`pagewire soak`: that it runs, and that what is not well would be seen."""

import json
from typing import Any

import pytest
from cli_runs import ran
from json_schemas import check as check_schema
from refusals import refused

from pagewire.cli.checks.soak import verdict
from pagewire.cli.checks.soak.phases import PHASES

ALL_WELL = dict.fromkeys(verdict.COUNTERS, 0) | {"blocks": 10**6, "transaction_wraps": 3}


def process(values: list[int], **more: Any) -> dict[str, Any]:
    """What one sampled: the same values as resident memory and as files."""
    samples = [{"transfers": i, "resident_bytes": v} for i, v in enumerate(values)]
    return {"samples": samples, "transfers": 10**6, "wrong": 0, **more}


def complaints(per_rank: list[dict[str, Any]], **totals: int) -> list[str]:
    return verdict.complaints(per_rank, ALL_WELL | totals, ("transaction_wraps",), num_nodes=4)


def test_phases_in_one_process_pass_and_are_written(tmp_path):
    path = tmp_path / "soak.json"
    words = ["--transfers", "2000", "--json", str(path), "--plot", str(tmp_path / "soak.svg")]
    assert "soak passed" in ran("soak", *words, timeout_s=240).stdout
    written = json.loads(path.read_text())
    check_schema("soak", written)
    assert [phase["phase"] for phase in written["phases"]] == [phase.name for phase in PHASES]
    losses, timeouts, numbers = (phase["counters"] for phase in written["phases"])
    assert losses["retransmitted_blocks"] > 0 and losses["crc_errors"] > 0
    assert losses["duplicate_blocks"] > 0 and losses["translation_faults_destination"] > 0
    assert timeouts["timeouts"] > 0
    assert timeouts["translation_faults_source"] > timeouts["transfers"] / 10
    assert numbers["sequence_wraps"] >= 4
    assert all(rank["wrong"] == 0 for phase in written["phases"] for rank in phase["per_rank"])
    assert (tmp_path / "soak.svg").stat().st_size > 0


def test_ranks_as_processes_pass(tmp_path):
    path = tmp_path / "soak.json"
    words = ("-n", "2", "--transfers", "600", "--transport", "facade", "--phase", "losses")
    ran("soak", *words, "--json", str(path), timeout_s=240)
    written = json.loads(path.read_text())
    check_schema("soak", written)
    (phase,) = written["phases"]
    assert len(phase["per_rank"]) == 2 and phase["transfers"] >= 600
    assert phase["counters"]["retransmitted_blocks"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--transfers", "many"), "--transfers many: must be a number"),
        (("--minutes", "0"), "--minutes 0.0: must be above 0"),
        (("--phase", "losse"), "unknown phase 'losse' (did you mean 'losses'?)"),
        (("-n", "1"), "a soak needs 2 ranks or more"),
        (("-n", "17"), "take --transport facade"),
        (("--set", "run.timeout=0.5"), "run.timeout"),
    ],
)
def test_bad_words_are_refused_before_anything_runs(words, said):
    assert said in refused("soak", *words)


def test_flat_memory_is_well():
    assert complaints([process([50 << 20] * 100)]) == []


def test_memory_that_grows_over_the_last_half_is_seen():
    grows = [(50 << 20) + i * (64 << 10) for i in range(100)]
    (text,) = complaints([process([50 << 20] * 100), process(grows)])
    assert text.startswith("resident_bytes grew")
    filling = [*grows[:50], *[grows[50]] * 50]
    assert complaints([process(filling)]) == []


def test_few_transfers_are_not_judged():
    grows = [(50 << 20) + i * (64 << 10) for i in range(100)]
    assert complaints([process(grows, transfers=1000)]) == []


def test_wrong_bytes_failures_and_numbers_that_never_wrap_are_seen():
    flat = process([1] * 100)
    assert complaints([flat | {"wrong": 2}]) == ["2 transfers with wrong bytes"]
    assert complaints([flat], transfers_failed=1) == ["transfers_failed = 1, not 0"]
    (text,) = complaints([flat], transaction_wraps=0)
    assert text.startswith("transaction_wraps = 0")
    assert complaints([flat], transaction_wraps=0, blocks=1000) == []
