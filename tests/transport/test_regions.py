"""Regions of a program: the report, the page and the timeline split by them."""

import collections
import pathlib
import re

import json_schemas
import pytest
from cli_runs import reported
from native_programs import launch_with_report, needs_mpicc, needs_provider, programs
from page_file import Page, values

from pagewire.run.report.counters import TIME_KEYS, total_regions
from pagewire.run.report.report_table import table
from pagewire.run.settings.config import Config
from pagewire.transport import region

PROGRAM = """
import mmap
import os
import threading

import numpy as np
from mpi4py import MPI

from pagewire.transport import compute, region

world = MPI.COMM_WORLD
other = 1 - world.Get_rank()


def exchange(num_bytes):
    out, into = (np.frombuffer(mmap.mmap(-1, num_bytes), np.uint8) for _ in range(2))
    out[:] = 1
    world.Sendrecv(out, other, 0, into, other)
    assert into[-1] == 1


@region("again")
def call_again(depth):
    compute(num_bytes=1 << 20)
    if depth:
        call_again(depth - 1)


def beside():
    with region("beside"):
        pass


compute(num_bytes=3 << 20)
with region("step"):
    for _ in range(3):
        with region("halo"):
            exchange(512 * 1024)
    exchange(64)
    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
try:
    with region("fails"):
        call_again(2)
        raise KeyError
except KeyError:
    pass
world.Barrier()
twice = region("twice")
with twice, twice:
    exchange(64)
MPI.Pcontrol(1)
MPI.Pcontrol(0)
with region("fork"):
    child = os.fork()
    if not child:
        with region("of a child"):
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
ENTRIES = {
    "(no region)": 0, "step": 1, "step/halo": 3, "fails": 1, "fails/again": 1,
    "fails/again/again": 1, "fails/again/again/again": 1, "twice": 1, "twice/twice": 1,
    "fork": 1,
}  # fmt: skip
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "regions.py"
OPTIONS = {"facade": "model", "fabric": "none"}


@pytest.fixture(scope="module", params=["facade", pytest.param("fabric", marks=needs_provider)])
def run(request, tmp_path_factory):
    """The program's folder, its report, and where its NI is."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "program.py").write_text(PROGRAM)
    words = ["--transport", request.param, "--compute", OPTIONS[request.param]]
    words += ["--trace", f"{folder}/run.pftrace", "--html", f"{folder}/run.html"]
    printed, report = reported(folder, 2, *words, f"{folder}/program.py")
    (folder / "out.txt").write_text(printed)
    json_schemas.check("report", report)
    return folder, report, request.param


def rows_of(rank):
    return {row["name"]: row for row in rank["regions"]}


def test_regions_are_paths_that_are_entered_again(run):
    for rank in run[1]["ranks"]:
        assert {name: row["entries"] for name, row in rows_of(rank).items()} == ENTRIES
        assert rank["region_marks_of_threads"] == 1
        assert rank["region_leaves_unmatched"] == 0


def test_sums_over_regions_are_the_whole(run):
    for rank in run[1]["ranks"]:
        keys = {key for row in rank["regions"] for key in row} | set(TIME_KEYS)
        assert len(keys) > 50
        for key in keys - {"name", "entries", "wall_time_s", "nacks_by_code"}:
            assert sum(row.get(key, 0) for row in rank["regions"]) == rank[key], key
        codes = zip(*(row["nacks_by_code"] for row in rank["regions"]), strict=True)
        assert [sum(code) for code in codes] == rank["nacks_by_code"]
        wall_s = sum(row["wall_time_s"] for row in rank["regions"])
        assert wall_s == pytest.approx(rank["wall_time_s"], abs=0.5)


def test_what_happens_in_a_region_is_counted_there(run):
    for rank in run[1]["ranks"]:
        rows = rows_of(rank)
        halo, step = rows["step/halo"], rows["step"]
        assert halo["mpi_bytes"] == 3 * 512 * 1024 and step["mpi_bytes"] == 64
        assert halo["rdma_messages"] == 3 and "rdma_messages" not in step
        assert halo["translation_faults"] == rank["translation_faults"] > 0
        assert halo["retransmitted_blocks"] == rank["retransmitted_blocks"] > 0
        assert 0 < step["mpi_ns"] < halo["mpi_ns"] == halo["virtual_time_ns"]
        assert rows["twice/twice"]["mpi_sends"] == 1 and rows["twice"]["mpi_sends"] == 0


def test_declared_compute_goes_to_the_region_that_declares_it(run):
    _, report, transport = run
    rows = rows_of(report["ranks"][0])
    if transport == "fabric":  # nobody declares any there
        assert not any(row["compute_ns"] for row in rows.values())
        return
    once_ns = rows["fails/again"]["compute_ns"]
    assert once_ns > 0
    assert rows["fails/again/again/again"]["compute_ns"] == once_ns
    assert rows["(no region)"]["compute_ns"] == pytest.approx(3 * once_ns, abs=3)
    assert rows["step"]["compute_ns"] == rows["fails"]["compute_ns"] == 0


def test_totals_have_sums_and_the_longest_times(run):
    ranks, totals = run[1]["ranks"], run[1]["totals"]["regions"]
    assert [row["name"] for row in totals] == list(ENTRIES)
    for row in totals:
        of_ranks = [rows_of(rank)[row["name"]] for rank in ranks]
        times_ns = [each["virtual_time_ns"] for each in of_ranks]
        assert row["entries"] == 2 * ENTRIES[row["name"]]
        assert row["blocks" if "blocks" in row else "mpi_sends"] == sum(
            each.get("blocks" if "blocks" in row else "mpi_sends", 0) for each in of_ranks
        )
        assert row["virtual_time_ns"] == max(times_ns)
        assert row["virtual_time_sum_ns"] == sum(times_ns)


def test_report_has_a_table_of_them(run):
    text = (run[0] / "out.txt").read_text()
    lines = text[text.index("\nBy region") :].splitlines()[2:]
    heads = re.split(r"\s{2,}", lines[0].strip())
    assert heads[:4] == ["region", "entries", "ms", "share"]
    shown = [re.split(r"\s{2,}", line.strip()) for line in lines[1 : 1 + len(ENTRIES)]]
    assert [row[0] for row in shown] == list(ENTRIES)
    halo = dict(zip(heads, shown[2], strict=True))
    total = run[1]["totals"]["regions"][2]
    assert halo["bytes"] == f"{total['mpi_bytes']:,}" and halo["entries"] == "6"
    assert halo["ms"] == f"{total['virtual_time_ns'] / 1e6:,.3f}"
    assert sum(float(row[3].rstrip("%")) for row in shown) == pytest.approx(100, abs=1)


def test_page_has_a_section_of_them(run):
    section = Page(run[0] / "run.html").section("regions")
    parts = [
        sum(rows_of(rank)[name][key] for rank in run[1]["ranks"]) / 2
        for name in ENTRIES
        for key in ("compute_ns", "mpi_ns", "sleep_ns")
    ]
    assert values(section)[: len(parts)] == parts
    figures = values(section)[len(parts) :]
    assert figures[:: len(figures) // len(ENTRIES)] == [2 * count for count in ENTRIES.values()]


def test_timeline_has_their_spans(run):
    pytest.importorskip("perfetto", reason="Perfetto's messages: pip install 'pagewire[test]'")
    from timeline_file import Timeline

    timeline = Timeline(run[0] / "run.pftrace")
    for idx, rank in enumerate(run[1]["ranks"]):
        names = ["Regions", *(f"Regions within, {depth}" for depth in (1, 2, 3))]
        tracks = [timeline.spans(f"rank {idx}", name) for name in names]
        assert [len(spans) for spans in tracks] == [4, 5, 1, 1]
        assert [span.name for span in tracks[0]] == ["step", "fails", "twice", "fork"]
        lengths_ns = collections.Counter()
        for name, row in rows_of(rank).items():
            lengths_ns[name.partition("/")[0]] += row["virtual_time_ns"]
        assert {each.name: each.length_ns for each in tracks[0]} == {
            name: lengths_ns[name] for name in ("step", "fails", "twice", "fork")
        }
        for inner in tracks[1]:
            assert any(
                each.start_ns <= inner.start_ns and inner.end_ns <= each.end_ns
                for each in tracks[0]
            )


def test_example_tells_its_phases(tmp_path):
    _, report = reported(tmp_path, 2, "--quiet", "--compute", "model", str(EXAMPLE))
    rows = report["totals"]["regions"]
    assert {row["name"]: row["entries"] for row in rows} == {
        "(no region)": 0, "step": 8, "step/halo": 8, "step/work": 8, "check": 2,
    }  # fmt: skip


@needs_mpicc
@needs_provider
def test_pcontrol_of_a_c_program_marks_regions(tmp_path):
    _, report = launch_with_report(tmp_path, 2, programs(), "regions")
    for rank in report["ranks"]:
        rows = rows_of(rank)
        assert {name: row["entries"] for name, row in rows.items()} == {
            "(no region)": 0, "halo": 3, "halo/check": 3, "level 5": 1, "level 5/left with it": 1,
        }  # fmt: skip
        assert rows["halo"]["mpi_bytes"] == 3 << 20
        assert rows["halo/check"]["mpi_bytes"] == 3 * 64
        assert rows["level 5/left with it"]["mpi_bytes"] == 64
        assert rank["region_leaves_unmatched"] == 1
        for key in ("mpi_bytes", "blocks", "mpi_ns", "virtual_time_ns", "compute_ns"):
            assert sum(row.get(key, 0) for row in rank["regions"]) == rank[key], key


def test_of_many_regions_the_longest_are_shown():
    rows = [{"name": f"step {i}", "entries": 1, "virtual_time_ns": 1000 + i, "nacks_by_code": []}
            for i in range(40)]  # fmt: skip
    lines = table([{"regions": rows}], Config()).splitlines()
    shown = [line for line in lines if line.startswith("  step ")]
    assert [line.split()[1] for line in shown] == [str(i) for i in range(8, 40)]
    assert "  and 8 with less time; --json has all" in lines


def test_nothing_is_said_of_a_program_without_regions():
    assert total_regions([{"blocks": 1}]) == []
    assert "By region" not in table([{"blocks": 1}], Config())


@pytest.mark.parametrize("name", ["", "x" * 64, "ä" * 32, "two\nlines", "\x7f"])
def test_a_name_that_cannot_be_is_refused(name):
    with pytest.raises(ValueError, match="allowed are 1 to 63 bytes"):
        region(name)


def test_a_name_is_text():
    with pytest.raises(TypeError, match="a name is a str, not int"):
        region(5)


def test_without_emulation_a_region_is_nothing():
    @region("function")
    def add(a, *, b):
        return a + b

    with region("outer") as entered, entered:
        assert add(1, b=2) == 3
    with pytest.raises(KeyError), region("fails"):
        raise KeyError
