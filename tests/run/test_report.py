"""Report of a run: sums over ranks, the table, the JSON."""

import io
import json

import pytest

from pagewire.native import ffi
from pagewire.native.output import OutputError
from pagewire.run.report import report
from pagewire.run.settings.config import Config, load


def call(calls: int, num_bytes: int = 0, around: int = 0, around_bytes: int = 0):
    return {
        "calls": calls,
        "bytes": num_bytes,
        "not_carried_calls": around,
        "not_carried_bytes": around_bytes,
    }


def rank(number: int, **more):
    return {
        "mpi_calls": {
            "Send": call(number, 100 * number),
            "Recv": call(1),
            "Win.Put": call(2, 0, 2, 9),
        },
        "nacks_by_code": [0, number, 0, 0, 0, 0, 0, 2],
        "nacks": number + 2,
        "blocks": 1000 * number,
        "virtual_time_ns": number * 1_000_000,
        "compute_ns": 500_000,
        "wall_time_s": number / 2,
        "peak_rss_bytes": number << 20,
        **more,
    }


def test_counters_are_summed_and_times_are_maxima():
    total = report.totals([rank(1), rank(3)])
    assert total["blocks"] == 4000
    assert total["virtual_time_ns"] == 3_000_000
    assert total["peak_rss_bytes"] == 3 << 20
    assert total["nacks_by_code"] == [0, 4, 0, 0, 0, 0, 0, 4]
    assert total["mpi_calls"] == {
        "Recv": call(2),
        "Send": call(4, 400),
        "Win.Put": call(4, 0, 4, 18),
    }
    assert total["not_carried"] == {"calls": 4, "bytes": 18, "names": ["Win.Put"]}
    assert total["timeouts"] == 0


def test_ranks_without_marks_are_named_and_others_are_not():
    marked = report.table([rank(1), rank(1)], Config())
    assert "not marked" not in marked
    text = report.table([rank(1), rank(1, without_marks=1), rank(1, without_marks=1)], Config())
    assert "MPI calls not marked on rank 1, 2: libpagewire-mpi.so was not preloaded" in text
    assert report.totals([rank(1), rank(1, without_marks=1)])["without_marks"] == [1]
    many = report.table([rank(1, without_marks=1)] * 11, Config())
    assert "on rank 0, 1, 2, 3, 4, 5, 6, 7 and 3 more: lib" in many


def test_summary_has_the_keys_of_a_comparison():
    entry = report.summary([rank(1), rank(2)], Config())
    keys = "memory policy ranks virtual_time_s wall_time_s mpi_sends mpi_bytes blocks nacks"
    faults = "translation_faults fault_interrupts err_messages pages_paged_in"
    assert entry.keys() >= {*f"{keys} {faults} timeouts retransmitted_blocks".split()}
    assert (entry["virtual_time_s"], entry["ranks"]) == (0.002, 2)


def test_table_has_a_column_for_each_rank_and_the_settings_that_were_changed():
    text = report.table([rank(1), rank(2)], load(["run.memory=pin"], environ={}), "ring")
    lines = text.splitlines()
    assert "ring, 2 ranks" in text
    assert next(line.split() for line in lines if "blocks" in line) == [
        "blocks",
        "3,000",
        "1,000",
        "2,000",
    ]
    assert any(line.split() == ["1", "page", "fault", "3", "1", "2"] for line in lines)
    assert any(line.split() == ["7", "destination", "full", "4", "2", "2"] for line in lines)
    assert "MPI calls, with the bytes that they sent: Recv 2, Send 3 (300 B)\n" in text
    assert "not carried by the NI: 4 calls, 18 bytes (Win.Put)" in text
    assert "run.memory = pin" in text


def test_nothing_is_said_of_calls_around_the_ni_when_there_were_none():
    assert "not carried" not in report.table([rank(1, mpi_calls={"Send": call(1)})], Config())


def test_many_ranks_are_shown_as_minimum_mean_and_maximum():
    text = report.table([rank(number) for number in range(1, 17)], Config())
    row = next(line.split() for line in text.splitlines() if "blocks" in line)
    assert row == ["blocks", "136,000", "1,000", "8,500", "16,000"]


def test_counter_not_known_is_summed_and_shown():
    assert report.totals([rank(1, frames_dropped=2), rank(1)])["frames_dropped"] == 2
    text = report.table([rank(1, frames_dropped=2, note="x"), rank(1)], Config())
    assert "frames_dropped" in text
    assert "note" not in text


@pytest.mark.parametrize("per_rank", [[], [{}], [{}, rank(1)]])
def test_missing_counters_are_zero(per_rank):
    assert "ranks" in report.table(per_rank, Config())
    assert report.summary(per_rank, Config())["blocks"] in (0, 1000)


def test_finish_prints_and_writes_json(tmp_path):
    stream = io.StringIO()
    path = tmp_path / "report.json"
    report.finish([rank(1)], Config(), str(path), program="ring", stream=stream)
    assert "pagewire report: ring" in stream.getvalue()
    document = json.loads(path.read_text())
    assert document["program"] == "ring"
    assert document["ranks"][0]["blocks"] == document["summary"]["blocks"] == 1000
    assert document["settings"]["run.memory"] == "part"
    assert document["settings_not_default"] == {}
    assert list(tmp_path.iterdir()) == [path]


def test_quiet_prints_nothing(capsys):
    report.finish([rank(1)], Config(), quiet=True)
    assert capsys.readouterr().out == ""


def test_path_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OutputError, match="x.json' was not written"):
        report.finish([rank(1)], Config(), str(tmp_path / "no" / "x.json"), quiet=True)


def test_impairments_are_shown_when_a_site_is_on():
    lossy = rank(1, impairments={"packet_loss": {"eligible": 1000, "injected": 9}})
    text = report.table([lossy, rank(2)], Config())
    assert "packet loss, eligible" in text and "1,000" in text
    assert report.totals([lossy, lossy])["impairments"]["packet_loss"] == {
        "eligible": 2000,
        "injected": 18,
    }
    assert report.summary([lossy, rank(2)], Config())["packet_loss_injected"] == 9
    assert "injected" not in report.table([rank(1)], Config())


def test_lines_that_are_zero_everywhere_are_left_out_of_the_table_alone():
    text = report.table([rank(1, reads_served=0), rank(2, fifo_pushed=7)], Config())
    assert "NI FIFO entries" in text and "left out" in text
    for label in ("reads served", "TLB", "SMMU", "pin"):
        assert label not in text
    for label in ("timeouts", "translation faults", "compute"):  # of interest when they are zero
        assert label in text
    assert report.totals([rank(1)])["reads_served"] == 0


def test_every_counter_of_the_engine_has_a_label():
    fields = {name for name, _ in ffi.typeof("pw_counters").fields}
    labelled = {key for group in report.COUNTER_GROUPS.values() for key in group}
    assert fields - labelled - {"page_in_ns"} == set()


def test_what_ranks_leave_is_what_the_launcher_collects(tmp_path):
    left = [rank(number, note='"\u00e9\n', big=2**64 - 1) for number in range(3)]
    for number in (2, 0, 1):
        (tmp_path / f"{number}.report").write_text(json.dumps(left[number]))
    assert report.collect(tmp_path, 3) == left


def test_program_without_mpi_leaves_nothing_to_collect(tmp_path):
    (tmp_path / "0.start").write_text("{}")
    assert report.collect(tmp_path, 4) == []


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("2.report", "{}", "rank 1 left no report, the others did"),
        ("1.report", '{"blocks": 1', "rank 1 left a report that is no JSON"),
        ("1.report", "[1]", "rank 1 left a report that is no JSON object"),
    ],
)
def test_half_a_report_is_none(tmp_path, name, text, reason):
    for number in (0, 2):
        (tmp_path / f"{number}.report").write_text(json.dumps(rank(1)))
    (tmp_path / name).write_text(text)
    with pytest.raises(report.IncompleteError, match=reason):
        report.collect(tmp_path, 3)
