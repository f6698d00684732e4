"""`--trace`: the timeline is read back and held against the report of the same run."""

import collections
import importlib.util
import json
import os
import pathlib
import re
from itertools import pairwise

import numpy as np
import pytest
from test_cli_runs import command

from pagewire.cli.bench import command as bench
from pagewire.cli.experiments import registry
from pagewire.cli.experiments import run as experiments
from pagewire.cli.experiments.result import Options
from pagewire.cli.repetitions import OF_THE_HOST
from pagewire.native.settings import ConfigError
from pagewire.transport.timeline import request

pytest.importorskip("perfetto", reason="Perfetto's messages: pip install 'pagewire[trace]'")
from timeline_file import Timeline

PROGRAM = """
import mmap
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
other = 1 - world.Get_rank()
for idx in range(int(sys.argv[1])):
    fresh = np.frombuffer(mmap.mmap(-1, 256 * 1024), np.uint8)
    source = mmap.mmap(-1, 64 * 1024)
    if world.Get_rank() == idx % 2:
        fresh[:] = idx + 1
        world.Send(fresh, other)
        source[:] = bytes(64 * 1024)
        source.madvise(mmap.MADV_DONTNEED)
        world.Send(np.frombuffer(source, np.uint8), other)
    else:
        world.Recv(fresh, other)
        assert fresh[-1] == idx + 1
        world.Recv(fresh[: 64 * 1024], other)
        assert not fresh[0]
"""
MANY_TURNS = "24"
RUNS = {
    "facade": (["--transport", "facade"], MANY_TURNS),
    "fabric": (["--transport", "fabric"], "4"),
    "touch": (["--set", "driver.page_in=touch-a-page"], "4"),
    "lossy": (
        ["--no-err", "--timeout", "300us", "--set", "impairments.packet_loss=1:50:1"],
        "4",
    ),
}


class Run:
    """A run's timeline and report."""

    def __init__(self, folder: pathlib.Path, options: list[str], num_turns: str) -> None:
        program, trace = folder / "program.py", folder / "run.pftrace"
        program.write_text(PROGRAM)
        words = ["launch", "-n", "2", "--quiet", "--set", "run.compute=none"]
        report = folder / "report.json"
        written = ["--trace", str(trace), "--json", str(report)]
        done = command(*words, *options, *written, str(program), num_turns)
        assert done.returncode == 0, done.stderr
        self.timeline = Timeline(trace)
        self.report = json.loads(report.read_text())
        self.ranks = self.report["ranks"]
        assert sorted(path.name for path in folder.iterdir()) == [
            "program.py", "report.json", "run.pftrace",
        ]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each kind of run once, by name."""
    made: dict[str, Run] = {}

    def run(name: str) -> Run:
        if name not in made:
            made[name] = Run(tmp_path_factory.mktemp(name), *RUNS[name])
        return made[name]

    return run


def sums(run: Run) -> list[dict[str, int]]:
    """What the report counts, as the timeline shows it."""
    found = []
    for rank in range(2):
        process = f"rank {rank}"

        def spans(track, process=process):
            return run.timeline.spans(process, track)

        answers = collections.Counter(
            each.name.split()[0].rstrip(":") for each in spans("R5: NACK, ERR, timeout")
        )
        calls = [each for each in spans("Program and MPI calls") if each.name != "program"]
        found.append(
            {
                "mpi_ns": sum(each.length_ns for each in calls),
                "fault_interrupts": len(spans("Interrupt handler")),
                "tasklet_entries": len(spans("Tasklet")),
                "errs_sent": sum(each.name == "ERR leaves" for each in spans("Library thread")),
                "nacks": answers["NACK"],
                "err_messages": answers["ERR"],
                "timeouts": answers["timeout"],
                "faults": len(spans("Page faults")),
            }
        )
    return found


def counted(run: Run) -> list[dict[str, int]]:
    names = ("mpi_ns", "fault_interrupts", "tasklet_entries", "errs_sent", "err_messages",
             "timeouts")  # fmt: skip
    return [
        {
            **{name: each[name] for name in names},
            "nacks": sum(each["nacks"]) if isinstance(each["nacks"], list) else each["nacks"],
            "faults": each["translation_faults_source"]
            + each["translation_faults_destination"]
            + each["permission_faults_source"]
            + each["permission_faults_destination"],
        }
        for each in run.ranks
    ]


@pytest.mark.parametrize("name", RUNS)
def test_sums_are_those_of_the_report(runs, name):
    run = runs(name)
    assert sums(run) == counted(run)
    assert sum(each["faults"] for each in counted(run)) > 0


def test_walks_are_those_that_took_place_at_a_time(runs):
    """The others are of blocks whose answers are foreseen."""
    run = runs("facade")
    for rank, report in enumerate(run.ranks):
        assert 0 < len(run.timeline.spans(f"rank {rank}", "SMMU walks")) <= report["walks"]


@pytest.mark.parametrize("name", RUNS)
def test_every_fault_has_its_retransmission(runs, name):
    run = runs(name)
    ends = {}
    links = collections.Counter()
    for rank in range(2):
        for span in run.timeline.spans(f"rank {rank}", "Receive engine"):
            ends.update(dict.fromkeys(span.ended_flows, span))
        for span in run.timeline.spans(f"rank {rank}", "Link"):
            links.update(span.flows)
    num_faults = 0
    for rank in range(2):
        for fault in run.timeline.spans(f"rank {rank}", "Page faults"):
            (line,) = fault.flows
            delivered = ends[line]
            number = re.search(r"block (\d+)", fault.name)[1]
            assert delivered.name.startswith(f"block {number} with rank")
            assert ", attempt " in delivered.name
            assert delivered.start_ns == fault.end_ns > fault.start_ns
            assert links[line] >= 1
            num_faults += 1
    assert num_faults


@pytest.mark.parametrize("name", ["facade", "fabric"])
def test_lifeline_passes_every_part_of_the_machine(runs, name):
    timeline = runs(name).timeline
    tracks = collections.defaultdict(set)
    for process, track in timeline.tracks():
        for span in timeline.spans(process, track):
            for line in (*span.flows, *span.ended_flows):
                tracks[line].add(track)
    for rank in range(2):
        for fault in timeline.spans(f"rank {rank}", "Page faults"):
            if "at the source" in fault.name:
                expected = {"Page faults", "Tasklet", "Page-in done", "Link", "Receive engine"}
            else:
                expected = {"Page faults", "Tasklet", "Page-in done", "Link", "Receive engine",
                            "NACKs sent", "R5: NACK, ERR, timeout", "Library thread"}  # fmt: skip
            assert expected <= tracks[fault.flows[0]]


def test_messages_are_arrows_between_the_ranks(runs):
    timeline = runs("facade").timeline
    sent, here = {}, {}
    for rank in range(2):
        for instant in timeline.spans(f"rank {rank}", "Messages"):
            for line in instant.flows:
                sent[line] = (rank, instant)
            for line in instant.ended_flows:
                here[line] = (rank, instant)
    assert sent.keys() == here.keys() and len(sent) == sum(
        each["eager_messages"] + each["rdma_messages"] for each in runs("facade").ranks
    )
    for line, (rank, instant) in sent.items():
        assert here[line][0] == 1 - rank and here[line][1].start_ns > instant.start_ns


def test_counters_come_back_to_nothing(runs):
    timeline = runs("facade").timeline
    for rank in range(2):
        for name in ("Outstanding blocks", "Absent pages"):
            values = [value for _, value in timeline.values[f"rank {rank}", name]]
            assert values[0] == values[-1] == 0 and min(values) == 0 < max(values)


def test_trace_changes_no_time_and_no_counter(runs, tmp_path):
    program, report = tmp_path / "program.py", tmp_path / "report.json"
    program.write_text(PROGRAM)
    words = ["launch", "-n", "2", "--quiet", "--set", "run.compute=none"]
    done = command(*words, *RUNS["facade"][0], "--json", str(report), str(program), MANY_TURNS)
    assert done.returncode == 0, done.stderr
    summary, traced = (
        dict(each)
        for each in (json.loads(report.read_text())["summary"], runs("facade").report["summary"])
    )
    for each in (summary, traced):
        for name in OF_THE_HOST & each.keys():
            del each[name]
    assert summary == traced


def test_more_records_than_a_block_are_all_there(runs):
    run = runs("facade")
    assert min(each["interrupts_in_tasklet"] for each in run.ranks) > 1000
    for rank in range(2):
        jobs = run.timeline.spans(f"rank {rank}", "Tasklet")
        assert len(jobs) > 500
        assert all(one.end_ns <= next_one.start_ns for one, next_one in pairwise(jobs))


def test_record_that_moved_later_has_its_last_time(tmp_path):
    moved, handler = KINDS["MOVED"], KINDS["HANDLER"]
    rows = [(5, handler, 0, 1, 0), (6, handler, 0, 2, 0), (9, moved, 0, 0, 0), (7, moved, 0, 0, 0)]
    path = tmp_path / "0.trace"
    np.array(rows, RECORD).tofile(path)
    records = Records(str(path))
    assert records.rows["time_ns"][records.of("HANDLER")].tolist() == [7, 6]
    assert np.fromfile(path, RECORD)["time_ns"][0] == 5  # what the rank has left stays


def test_compare_has_its_runs_side_by_side(tmp_path):
    program, trace = tmp_path / "program.py", tmp_path / "all.pftrace"
    program.write_text(PROGRAM)
    report = tmp_path / "all.json"
    words = ["compare", "-n", "2", "--memory", "pin,part", "--compute", "none"]
    written = ["--trace", str(trace), "--json", str(report)]
    done = command(*words, *written, str(program), "2")
    assert done.returncode == 0, done.stderr
    timeline = Timeline(trace)
    assert timeline.processes == [
        "pin rank 0", "pin rank 1", "part/page rank 0", "part/page rank 1",
    ]  # fmt: skip
    assert timeline.spans("part/page rank 1", "Page faults")
    for rank, counted_here in enumerate(json.loads(report.read_text())["reports"][0]["ranks"]):
        process = f"pin rank {rank}"
        assert not timeline.spans(process, "Page faults")
        pinned = [value for _, value in timeline.values[process, "Pinned bytes"]]
        assert max(pinned) == counted_here["pinned_peak_bytes"] > 0 == pinned[-1]
        costs = timeline.spans(process, "Memory strategy")
        assert sum(span.length_ns for span in costs) == counted_here["pin_ns"] > 0


def test_missing_package_is_refused_before_the_run(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'pagewire\[trace\]'"):
        request.check_installed()
    assert "timeline" not in [group.name for group in bench.choose("")]
    assert "without timeline: run.trace needs" in capsys.readouterr().err


@pytest.mark.parametrize("transport", ["facade", "fabric"])
def test_missing_folder_is_refused_before_the_run(transport, tmp_path):
    done = command(
        "launch", "-n", "2", "--transport", transport, "--trace", f"{tmp_path}/no/x", "hpl"
    )
    assert done.returncode == 2
    assert f"run.trace = '{tmp_path}/no/x': there is no folder" in done.stderr


class Launching:
    """In the place of an experiment: leaves what its launches would leave."""

    name = "launching"

    def __init__(self, num_launches: int) -> None:
        self.num_launches = num_launches

    def options(self, given: Options) -> Options:
        return given

    def run(self, given: Options) -> None:
        for idx in range(self.num_launches):
            environ = dict(given.environ)
            group = given.group(environ, f"run {idx}")
            assert group == (idx, f"run {idx}")
            pathlib.Path(environ["PAGEWIRE_RUN_TRACE"]).write_bytes(bytes([idx]))


@pytest.mark.parametrize("num_launches", [0, 3])
def test_experiment_joins_the_runs_that_it_launches(num_launches, tmp_path, monkeypatch, capsys):
    trace = tmp_path / "all.pftrace"
    monkeypatch.setattr(registry, "choose", lambda names: [Launching(num_launches)])
    for name in ("print_result", "write_files"):
        monkeypatch.setattr(experiments.output, name, lambda *given: None)
    environ = {**os.environ, "PAGEWIRE_RUN_TRACE": str(trace)}
    code = experiments.run(["launching"], Options(environ=environ), tmp_path)
    if num_launches:
        assert code == 0 and trace.read_bytes() == bytes(range(num_launches))
    else:
        assert code == 1 and not trace.exists()
        assert "these experiments launch no ranks" in capsys.readouterr().err
