"""The page that puts the application tables beside the paper's."""

import json

import pytest

from pagewire.cli.experiments import paper
from pagewire.native.output import OutputError

COLUMNS = [
    {"key": "ranks", "title": "ranks", "unit": ""},
    {"key": "memory", "title": "memory", "unit": ""},
    {"key": "rate", "title": "GFLOP/s", "unit": ""},
    {"key": "time", "title": "time", "unit": "ms"},
    {"key": "own_slowdown", "title": "of time", "unit": "%"},
]
ROWS = [
    {"ranks": 1, "memory": "pre-touch", "rate": 3.0, "time": 7.5, "own_slowdown": 0.0},
    {"ranks": 16, "memory": "PART", "rate": 5.9, "time": 4.0, "own_slowdown": 1.25},
]


def document(**more):
    recorded = {"date": "2026-11-24", "command": "pagewire experiment", "host": {"name": "here"}}
    return {
        "name": "part-table3",
        "title": "HPL-like app",
        "notes": ["hpl --N 16384"],
        "settings_varied": {"run.compute": "model"},
        "settings_not_default": {"run.timeout": "2ms"},
        "sizes": "full",
        "repetitions": 1,
        "platform": {"name": "exanest-qfdb"},
        "columns": COLUMNS,
        "rows": ROWS,
        "recorded": recorded,
        **more,
    }


def write(folder, name="part-table3", **more):
    (folder / f"{name}.json").write_text(json.dumps(document(name=name, **more)))


def page_of(folder) -> str:
    paper.write_page(folder)
    return (folder / paper.PAGE).read_text()


def test_what_the_paper_says_stands_beside_what_came_out(tmp_path):
    write(tmp_path)
    lines = page_of(tmp_path).splitlines()
    rate = "| rate on one rank | about 3.12 GFLOP/s, our input [PART 6.2.3] | 3 GFLOP/s |"
    assert rate in lines
    (slowdown,) = [each for each in lines if each.startswith("| time under PART over pre-touch")]
    assert "at most 1 %" in slowdown and slowdown.endswith("| 1.25 % |")
    heads = lines.index("| ranks | memory | GFLOP/s | time (ms) | of time (%) |")
    assert lines[heads + 2] == "| 1 | pre-touch | 3 | 7.5 | 0 |"
    assert any(
        each.startswith("2026-11-24, here; `pagewire experiment`; sizes full, repetitions 1; ")
        and "platform exanest-qfdb; run.compute model; run.timeout 2ms." in each
        for each in lines
    )


def test_reasons_written_by_hand_stay(tmp_path):
    write(tmp_path)
    page = page_of(tmp_path)
    reason = "The rate is an input."
    (tmp_path / paper.PAGE).write_text(
        page.partition(paper.REASONS)[0] + paper.REASONS + f"\n\n{reason}\n"
    )
    write(tmp_path, "part-table4")
    again = page_of(tmp_path)
    assert again.endswith(f"{paper.REASONS}\n\n{reason}\n") and "## part-table4" in again


def test_results_that_are_not_on_record_make_no_page(tmp_path):
    whole = document()
    del whole["recorded"]
    (tmp_path / "part-table3.json").write_text(json.dumps(whole))
    paper.write_page(tmp_path)
    assert not (tmp_path / paper.PAGE).exists()


def test_damaged_result_is_named(tmp_path):
    write(tmp_path)
    (tmp_path / "part-table2.json").write_text("{")
    with pytest.raises(OutputError, match=r"part-table2.json' cannot be read .*run its experiment"):
        paper.write_page(tmp_path)
