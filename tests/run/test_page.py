"""`--html`: the page is read back and held against the report of the same run."""

import copy
import json
import os
import shutil
import subprocess

import pytest
from cli_runs import compared, reported
from json_schemas import check as check_schema
from page_file import Page, check_self_contained, text_of, values

from pagewire.cli.commands import dispatch
from pagewire.native.settings import ConfigError
from pagewire.run.page import page, warnings

SECTIONS = [
    "summary", "warnings", "times", "fault-times", "fault-waits", "fault-pages", "message-sizes",
    "matrix", "links", "calls", "settings", "counters",
]  # fmt: skip
PROGRAM = """
import mmap
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
for idx in range(3):
    data = np.frombuffer(mmap.mmap(-1, 256 * 1024), np.uint8)
    if world.Get_rank() == 0:
        data[:] = idx
        world.Send(data, 1)
        world.Send(data[:16], 1)
    else:
        world.Recv(data, 0)
        world.Recv(data[:16], 0)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with faults: its JSON, the page of the run, and the page of the JSON."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "program.py").write_text(PROGRAM)
    words = ("--quiet", "--compute", "none", "--html", f"{folder}/run.html")
    _, document = reported(folder, 2, *words, f"{folder}/program.py")
    check_schema("report", document)
    return folder, document


def saved(folder, document, name="other"):
    """The page that `pagewire report` makes of a document."""
    source, target = folder / f"{name}.json", folder / f"{name}.html"
    source.write_text(json.dumps(document))
    page.convert(str(source), str(target))
    return Page(target)


def test_page_of_a_run_is_whole_and_asks_nobody(run):
    folder, _ = run
    made = Page(folder / "run.html")
    assert made.sections() == SECTIONS
    check_self_contained(made.text)


def test_saved_report_gives_the_same_page(run):
    folder, _ = run
    assert dispatch.main(["report", f"{folder}/report.json", "--html", f"{folder}/again.html"]) == 0
    assert (folder / "again.html").read_bytes() == (folder / "run.html").read_bytes()


def test_figures_are_those_of_the_report(run):
    folder, report = run
    made, total, ranks = Page(folder / "run.html"), report["totals"], report["ranks"]
    tiles = values(made.section("summary"))
    assert tiles[:4] == [
        total["virtual_time_ns"], 2, total["translation_faults"], total["pages_paged_in"],
    ]  # fmt: skip
    parts = [rank[key] for rank in ranks for key in ("compute_ns", "mpi_ns", "sleep_ns")]
    assert values(made.section("times")) == parts
    assert sum(parts[:3]) == ranks[0]["virtual_time_ns"]
    counted = {
        each.get("data-counter"): json.loads(each.get("data-value"))
        for each in made.section("counters").iter("td")
        if each.get("data-counter")
    }
    assert counted and counted == {key: total[key] for key in counted}
    assert {"transfers", "nacks", "walks"} <= set(counted)
    names = [text_of(each[0]) for each in made.section("settings").iter("tr")][1:]
    assert names == list(report["settings_not_default"])
    assert "command line" in text_of(made.section("settings"))


def test_histograms_hold_all_that_was_counted(run):
    """The report's counters were there before, and are counted elsewhere."""
    folder, report = run
    made, total, ranks = Page(folder / "run.html"), report["totals"], report["ranks"]
    faults = total["translation_faults"] + total["permission_faults"]
    assert faults > 60
    assert sum(values(made.section("fault-times"))) == faults
    assert sum(values(made.section("fault-pages"))) == faults
    for rank in ranks:
        counted = sum(rank[kind] for kind in ("translation_faults", "permission_faults"))
        assert sum(rank["fault_times"]["bins"]) == counted
        assert sum(rank["fault_pages"]["faults"].values()) == counted
    assert 0 < sum(values(made.section("fault-waits"))) <= total["retransmitted_blocks"]
    assert sum(values(made.section("message-sizes"))) == (
        total["transfers"] + total["eager_messages"]
    )
    cells = values(made.section("matrix"))
    assert cells[0] == cells[3] == 0
    assert cells[1] == ranks[0]["peers"]["1"]["bytes"] >= 3 * 256 * 1024 + 3 * 16
    assert sum(traffic["messages"] for rank in ranks for traffic in rank["peers"].values()) == (
        total["transfers"] + total["eager_messages"]
    )


COUNTED_BY = {"odp": "odp_faults", "np-rdma": "pages_paged_in", "ats": "ats_groups"}


@pytest.mark.parametrize("memory", COUNTED_BY)
def test_faults_of_units_that_page_in_have_times_and_pages(tmp_path, memory):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = ("--quiet", "--memory", memory, f"{tmp_path}/program.py")
    _, report = reported(tmp_path, 2, *words)
    assert report["totals"]["pages_paged_in"] > 60
    for rank in report["ranks"]:
        # Each brings in the pages of a range, or the page itself.
        counted = rank[COUNTED_BY[memory]]
        assert sum(rank["fault_times"]["bins"]) == counted
        assert sum(rank["fault_pages"]["faults"].values()) == counted


def test_comparison_has_its_bars_and_each_run(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = ["--quiet-app", "--memory", "pretouch,part", "--compute", "none", "--html"]
    _, result = compared(tmp_path, *words, f"{tmp_path}/all.html", str(program))
    made = Page(tmp_path / "all.html")
    check_schema("compare", result)
    check_self_contained(made.text)
    assert values(made.section("slowdowns"), "span") == [
        entry["virtual_time_s"] for entry in result["entries"]
    ]
    assert f"({result['entries'][1]['slowdown']:+.2%})" in text_of(made.section("slowdowns"))
    runs = made.runs()
    assert list(runs) == ["pretouch", "part/page"]
    faults = [sum(values(made.section("fault-times", within))) for within in runs.values()]
    assert faults == [report["totals"]["translation_faults"] for report in result["reports"]]
    assert faults[0] < faults[1]
    assert saved(tmp_path, result).text == made.text


def test_names_cannot_become_markup(run):
    folder, report = run
    report = {**report, "program": "<script>&\"'\x01\udc80 a"}
    made = saved(folder, report, "named")
    check_self_contained(made.text)
    assert next(made.root.iter("h1")).text == "<script>&\"'\ufffd\ufffd a"


def test_warnings_name_what_spoils_figures(run):
    _, report = run
    assert warnings.of_run(report) == [] or "kernel" in warnings.of_run(report)[0]
    spoiled = copy.deepcopy(report)
    spoiled["totals"]["not_carried"] = {"calls": 2, "bytes": 1234, "names": ["Reduce"]}
    spoiled["totals"]["stale_transfers"] = 7
    spoiled["settings"]["run.compute"] = "measured"
    spoiled["ranks"].append(
        {**copy.deepcopy(report["ranks"][0]), "rank": 2}  # it too sends to rank 1
    )
    text = " ".join(warnings.of_run(spoiled))
    for word in ("1,234 bytes went around the NI (Reduce)", "measured", "several others", "7 tran"):
        assert word in text
    assert "replayed in the others" in " ".join(warnings.of_run(spoiled, replayed=True))
    entry = {"repetitions": {"runs": 3, "figures": 90, "virtual_times_ns": [100, 104, 102],
             "differences": [{"name": "mpi_ns", "spread": 0.04}]}}  # fmt: skip
    assert "100 to 104 ns, at most 4.00% (mpi_ns)" in warnings.of_entry("part", entry)[0]


def test_many_ranks_share_rows(run):
    folder, report = run
    wide = copy.deepcopy(report)
    wide["ranks"] = [{**copy.deepcopy(report["ranks"][0]), "rank": idx} for idx in range(100)]
    made = saved(folder, wide, "wide")
    cells = values(made.section("matrix"))
    assert len(cells) == 25 * 25
    assert sum(cells) == 100 * report["ranks"][0]["peers"]["1"]["bytes"]
    assert len(values(made.section("times"))) == 3 * 25


def test_older_report_says_what_it_lacks(run):
    folder, report = run
    old = copy.deepcopy(report)
    for rank in old["ranks"]:
        for key in ("message_sizes", "peers", "fault_waits_ns", "fault_times", "fault_pages"):
            del rank[key]
    made = saved(folder, old, "old")
    assert made.sections() == SECTIONS
    for name in ("fault-times", "fault-waits", "fault-pages", "message-sizes", "matrix"):
        assert "an older pagewire wrote it" in text_of(made.section(name))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"entries": [{}]}', '{"program": 1}'])
def test_what_is_no_report_is_refused(tmp_path, text):
    source = tmp_path / "x.json"
    source.write_text(text)
    with pytest.raises(ConfigError, match="is no report"):
        page.convert(str(source), str(tmp_path / "x.html"))
    assert not (tmp_path / "x.html").exists()


def test_saved_report_needs_a_page_to_write(run):
    folder, _ = run
    with pytest.raises(ConfigError, match="--html makes a page"):
        dispatch.main(["report", f"{folder}/report.json"])


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Debian's package chromium")
def test_browser_shows_the_page(run, tmp_path):
    """The tree that the browser makes of it has the sections in their order."""
    folder, _ = run
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path}", (folder / "run.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    places = [done.stdout.find(f'<section data-section="{name}"') for name in SECTIONS]
    assert -1 not in places and places == sorted(places)
