"""`--trace`: the timeline is read back and held against the report of the same run."""

import collections
import os
import pathlib
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from cli_runs import BIN, PAGEWIRE, compared, reported, started
from refusals import refused

from pagewire.cli.commands.repetitions import OF_THE_HOST
from pagewire.cli.experiments import registry
from pagewire.cli.experiments import run as experiments
from pagewire.cli.kit.conditions import Line
from pagewire.cli.kit.result import Options, Result
from pagewire.lab import Lab
from pagewire.native import ffi, lib
from pagewire.native.output import OutputError
from pagewire.run.settings import config
from pagewire.run.timeline import timeline

pytest.importorskip("perfetto", reason="Perfetto's messages: pip install 'pagewire[test]'")
from timeline_file import Timeline

Row = tuple[int, str, int, int, int]
"""Of a rank's records: time, kind, peer, a, b."""
RECORD = np.dtype(
    [("time_ns", "<i8"), ("kind", "<u4"), ("peer", "<u4"), ("a", "<u8"), ("b", "<u8")]
)
KINDS: dict[str, int] = {
    name.removeprefix("PW_TRACE_"): value
    for enum in ("enum pw_trace_kind", "enum pw_trace_detail")
    for value, name in ffi.typeof(enum).elements.items()
}
NO_CALL = 2**32 - 1

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
    # A walk depends on where buffers lie.
    "facade": (["--transport", "facade", "--set", "smmu.walk_cache_entries=0"], MANY_TURNS),
    "fabric": (["--transport", "fabric"], "4"),
    "touch": (["--set", "driver.page_in=touch-a-page"], "4"),
    "lossy": (
        ["--no-err", "--timeout", "300us", "--set", "impairments.packet_loss=1:50:1"],
        "4",
    ),
}
OTHER_UNITS = {
    "odp": (["--set", "run.memory=odp"], "4"),
    "np-rdma": (["--set", "run.memory=np-rdma"], "4"),
}
"""The NIC or its software pages in. An absent page at the source keeps the block waiting."""


def report_of(folder: pathlib.Path, *options: str, num_turns: str) -> dict:
    """Of a run of the program."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    words = ("--quiet", "--compute", "none", *options, str(program), num_turns)
    return reported(folder, 2, *words)[1]


class Run:
    """A run's timeline and report."""

    def __init__(self, folder: pathlib.Path, options: list[str], num_turns: str) -> None:
        trace = folder / "run.pftrace"
        self.report = report_of(folder, *options, "--trace", str(trace), num_turns=num_turns)
        self.timeline = Timeline(trace)
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
            made[name] = Run(tmp_path_factory.mktemp(name), *{**RUNS, **OTHER_UNITS}[name])
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


@pytest.mark.parametrize("name", OTHER_UNITS)
def test_lifelines_of_other_units_lead_over_their_page_in(runs, name):
    run = runs(name)
    passed = collections.defaultdict(list)
    for process, track in run.timeline.tracks():
        for span in run.timeline.spans(process, track):
            for line in (*span.flows, *span.ended_flows):
                passed[line].append((span.start_ns, track, span))
    for rank, report in enumerate(run.ranks):
        faults = run.timeline.spans(f"rank {rank}", "Page faults")
        at_source = [fault for fault in faults if "at the source" in fault.name]
        if name == "odp":
            assert len(at_source) == report["translation_faults_source"] > 0
            assert len(faults) == report["odp_faults"] > len(at_source)
        else:
            assert len(faults) == report["signature_reads"] + report["signature_writes"] > 0
        for fault in faults:
            (line,) = fault.flows
            steps = sorted(passed[line], key=lambda step: step[0])
            paged_in = next(span for _, track, span in steps if track == "Page-in by the NIC")
            _, track, delivered = steps[-1]
            assert track == "Receive engine" and delivered.ended_flows.count(line) == 1
            assert delivered.start_ns == fault.end_ns > paged_in.end_ns > fault.start_ns
            assert (", attempt " in delivered.name) == (fault not in at_source)
        if faults:
            assert max(value for _, value in run.timeline.values[f"rank {rank}", "Absent pages"])


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
    report = report_of(tmp_path, *RUNS["facade"][0], num_turns=MANY_TURNS)
    summary, traced = (dict(each["summary"]) for each in (report, runs("facade").report))
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


def write(folder: pathlib.Path, *ranks: list[Row]) -> timeline.Counts:
    """Make run.pftrace of these records, by rank."""
    paths = {}
    for rank, rows in enumerate(ranks):
        paths[rank] = str(folder / f"{rank}.trace")
        np.array([(at, KINDS[kind], *rest) for at, kind, *rest in rows], RECORD).tofile(paths[rank])
    return timeline.write(str(folder / "run.pftrace"), paths, config.load(environ={}))


def written(folder: pathlib.Path, *ranks: list[Row]) -> Timeline:
    """The same, read back."""
    write(folder, *ranks)
    return Timeline(folder / "run.pftrace")


@pytest.mark.parametrize("num_between", [0, 3000], ids=["near", "pieces later"])
def test_record_that_moved_later_has_its_last_time(num_between, tmp_path):
    work = [(100 + 2 * idx, "R5", 0, 1, 0) for idx in range(num_between)]
    moved = [(9, "MOVED", 0, 0, 0), (7, "MOVED", 0, 0, 0)]
    rows = [(5, "HANDLER", 0, 1, 0), (6, "HANDLER", 0, 2, 0), *work, *moved]
    found = written(tmp_path, rows)
    spans = found.spans("rank 0", "Interrupt handler")
    assert [(span.start_ns, span.name) for span in spans] == [(6, "page 0x2"), (7, "page 0x1")]
    assert len(found.spans("rank 0", "R5")) == num_between


FIRST_NS, TURN_NS = 10_000, 2000


def turn_of_a_fault(start_ns: int) -> tuple[list[Row], list[Row]]:
    """Records of a block that faults once, at its source and at its destination, within TURN_NS;
    in either rank's file they stand out of order. Addresses of both ranks are the same."""

    def block(sequence: int) -> int:
        return 3 | sequence << 16 | 4 << 32

    def transition(state: int) -> int:
        return state << 16

    source = [
        (0, "BLOCK_STARTED", 0, 3, 0),
        (100, "NACK", 0, 3, 1),
        (2, "FAULT_SOURCE", 0, 8, 3),
        (3, "TASKLET_ENTRY", 0, 8, 1),
        (4, "PAGE_IN_DONE", 0, 8, 1),
        (10, "LINK", 1, 20, block(0)),
        (500, "BLOCK_STARTED", 0, 3, 1),
        (510, "LINK", 1, 20, block(1)),
        (450, "ERR", 0, 3, 0),
        (700, "ACK", 0, 3, 1),
        (700, "TRANSITION", 0, 3, transition(lib.PW_TRANSACTION_FREE)),
        (0, "CALL", 0, 900, NO_CALL),
    ]
    destination = [
        (60, "NACK_SENT", 0, 3, 1),
        (30, "RECEIVE_ENGINE", 0, 20, block(0)),
        (40, "FAULT_DESTINATION", 0, 8, 3),
        (45, "HANDLER", 1, 8, 0),
        (250, "TASKLET_ENTRY", 1, 8, 1),
        (400, "PAGE_IN_DONE", 1, 8, 1),
        (530, "RECEIVE_ENGINE", 0, 20, block(1)),
        (440, "ERR_SENT", 0, 3, 0),
    ]
    return tuple(
        [(start_ns + at, *rest) for at, *rest in rows] for rows in (source, destination)
    )  # fmt: skip


@pytest.fixture(scope="module")
def turns():
    """Records of four ranks, by the number of faults of each of two pairs."""

    def make(num_turns: int) -> list[list[Row]]:
        ranks: list[list[Row]] = [[], [], [], []]
        for idx in range(num_turns):
            source, destination = turn_of_a_fault(FIRST_NS + TURN_NS * idx)
            for pair in (0, 2):
                # The pairs' peers are each other's ranks.
                ranks[pair] += [(at, kind, peer + pair, *rest) for at, kind, peer, *rest in source]
                ranks[pair + 1] += [
                    (at, kind, peer + pair, *rest) for at, kind, peer, *rest in destination
                ]
        return ranks

    return make


def test_lifelines_of_several_ranks_do_not_mix(turns, tmp_path):
    num_turns = 50
    found = written(tmp_path, *turns(num_turns))
    for pair in (0, 2):
        source, destination = f"rank {pair}", f"rank {pair + 1}"
        faults = found.spans(destination, "Page faults")
        assert [(span.start_ns, span.end_ns, span.name) for span in faults] == [
            (at_ns + 40, at_ns + 530, f"page 0x8: block 3 of rank {pair}")
            for at_ns in range(FIRST_NS, FIRST_NS + TURN_NS * num_turns, TURN_NS)
        ]
        passed = collections.defaultdict(list)
        for process, track in found.tracks():
            for span in found.spans(process, track):
                for line in (*span.flows, *span.ended_flows):
                    passed[line].append((span.start_ns, process, track))
        assert len(found.spans(source, "Page faults")) == num_turns
        for idx, fault in enumerate(faults):
            (line,) = fault.flows
            begun_ns = FIRST_NS + TURN_NS * idx
            assert sorted((at - begun_ns, *where) for at, *where in passed[line]) == [
                (10, source, "Link"),
                (30, destination, "Receive engine"),
                (40, destination, "Page faults"),
                (60, destination, "NACKs sent"),
                (100, source, "R5: NACK, ERR, timeout"),
                (250, destination, "Tasklet"),
                (400, destination, "Page-in done"),
                (440, destination, "Library thread"),
                (450, source, "R5: NACK, ERR, timeout"),
                (510, source, "Link"),
                (530, destination, "Receive engine"),
            ]
        for process, name in (
            (source, "Outstanding blocks"),
            (source, "Absent pages"),
            (destination, "Absent pages"),
        ):
            assert [value for _, value in found.values[process, name]] == [0, *[1, 0] * num_turns]


def test_memory_is_what_is_in_flight_however_long_the_run(turns, tmp_path):
    """A call that lasts all the run is recorded at its end, and keeps nothing back."""
    held = {}
    for num_turns in (500, 3000):
        ranks = turns(num_turns)
        ranks[1].append((0, "CALL", 1, FIRST_NS + TURN_NS * num_turns, NO_CALL))
        counts = write(tmp_path, *ranks)
        assert counts.num_records == sum(map(len, ranks))
        held[num_turns] = counts.num_held_max
    assert held[3000] < held[500] + 64 < 4 * 2 * 1024  # pieces end elsewhere in a turn


def test_records_that_end_within_one_are_refused(tmp_path):
    path = tmp_path / "0.trace"
    path.write_bytes(bytes(RECORD.itemsize + 1))
    with pytest.raises(OutputError, match="records '.*0.trace'"):
        timeline.write(str(tmp_path / "x"), {0: str(path)}, config.load(environ={}))
    assert [each.name for each in tmp_path.iterdir()] == ["0.trace"]


def test_records_of_a_rank_that_are_missing_are_refused(tmp_path):
    with pytest.raises(OutputError, match="rank 1 left no records"):
        timeline.write(str(tmp_path / "x"), {0: "0", 2: "2"}, config.load(environ={}))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk_is_told(turns, tmp_path, monkeypatch):
    (tmp_path / f"x.{os.getpid()}.partial").symlink_to("/dev/full")
    path = tmp_path / "0.trace"
    path.write_bytes(b"")
    with pytest.raises(OutputError, match="'.*x' was not written: .*No space left"):
        timeline.write(str(tmp_path / "x"), {0: str(path)}, config.load(environ={}))


def test_compare_has_its_runs_side_by_side(tmp_path):
    program, trace = tmp_path / "program.py", tmp_path / "all.pftrace"
    program.write_text(PROGRAM)
    words = ["--memory", "pin,part", "--compute", "none", "--trace", str(trace)]
    _, result = compared(tmp_path, *words, str(program), "2")
    timeline = Timeline(trace)
    assert timeline.processes == [
        "pin rank 0", "pin rank 1", "part/page rank 0", "part/page rank 1",
    ]  # fmt: skip
    assert timeline.spans("part/page rank 1", "Page faults")
    for rank, counted_here in enumerate(result["reports"][0]["ranks"]):
        process = f"pin rank {rank}"
        assert not timeline.spans(process, "Page faults")
        pinned = [value for _, value in timeline.values[process, "Pinned bytes"]]
        assert max(pinned) == counted_here["pinned_peak_bytes"] > 0 == pinned[-1]
        resident = [value for _, value in timeline.values[process, "Resident bytes"]]
        assert max(pinned) <= max(resident) <= counted_here["resident_peak_bytes"]
        costs = timeline.spans(process, "Memory strategy")
        assert sum(span.length_ns for span in costs) == counted_here["pin_ns"] > 0


class Launching:
    """In the place of an experiment: leaves what its launches would leave."""

    name = points_of = "launching"

    def __init__(self, num_launches: int) -> None:
        self.num_launches = num_launches

    def options(self, given: Options) -> Options:
        return given

    def lines(self, rows: Sequence[object]) -> list[Line]:
        return []

    def run(self, given: Options) -> Result:
        for idx in range(self.num_launches):
            environ = dict(given.environ)
            group = given.group(environ, f"run {idx}")
            assert group == (idx, f"run {idx}")
            pathlib.Path(environ["PAGEWIRE_RUN_TRACE"]).write_bytes(bytes([idx]))
        return Result([], [], [])


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
        assert "these experiments launch no ranks; Lab(trace=FILE)" in capsys.readouterr().err


SENT = ("blocks", "retransmitted_blocks")


def test_lab_writes_a_timeline_of_what_was_asked_for(tmp_path):
    trace = tmp_path / "lab.pftrace"
    with Lab(trace=str(trace)) as lab:
        plain = lab.write("64KiB")
        faulting = lab.write("64KiB", absent="all", traced=True)
        again = lab.write("64KiB", absent="all", memory="odp")
    found = Timeline(trace)
    assert found.processes == [
        f"{label} rank {node}" for label in ("part/page", "odp/page") for node in range(2)
    ]
    for label, outcomes in (("part/page", [plain, faulting]), ("odp/page", [again])):
        faults = found.spans(f"{label} rank 1", "Page faults")
        assert len(faults) == sum(
            each.counters["translation_faults_destination"] for each in outcomes
        )
        assert all(fault.end_ns > fault.start_ns for fault in faults)
    # Not those that warm the TLBs, which are as long as the first.
    blocks = [each.counters[name] for each in (plain, faulting) for name in SENT]
    assert len(found.spans("part/page rank 0", "Link")) == sum(blocks)
    assert {record.kind for record in faulting.trace} >= {"handler", "tasklet_entry"}
    with Lab() as lab:
        assert lab.write("64KiB") == plain
        assert lab.write("64KiB", absent="all", traced=True).trace == faulting.trace


def test_lab_tells_when_the_timeline_cannot_be_written(tmp_path):
    lab = Lab(trace=f"{tmp_path}/no/lab.pftrace")
    lab.write(4096)
    with pytest.raises(OutputError, match="no/lab.pftrace' was not written"):
        lab.close()


@pytest.mark.parametrize(
    "words",
    [
        ["soak", "--transfers", "2"],
        ["stress", "-n", "2", "--output", "/tmp/x.py"],
        ["selftest"],
        ["bench", "--quick"],
    ],
)
def test_commands_of_many_runs_refuse_to_overwrite_it(words, tmp_path):
    for setting in ("run.trace", "run.html"):
        variable = "PAGEWIRE_" + setting.upper().replace(".", "_")
        said = refused(*words, env={variable: str(tmp_path / "x")})
        assert f"{setting} = '{tmp_path}/x': {words[0]} makes many runs" in said
        assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_records_that_a_rank_could_not_write_leave_no_timeline(tmp_path):
    """Under an mpiexec of the user's own each rank writes beside the timeline."""
    program, trace = tmp_path / "program.py", tmp_path / "run.pftrace"
    program.write_text(PROGRAM)
    pathlib.Path(f"{trace}.1").symlink_to("/dev/full")
    words = ["--quiet", "--set", "run.compute=none", "--trace", str(trace), str(program), "2"]
    mpiexec, environ = [str(BIN / "mpiexec"), "-n", "2"], {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    done = started([*mpiexec, *PAGEWIRE, "run", *words], environ=environ)
    assert done.returncode != 0
    assert f"'{trace}.1' was not written: No space left" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["program.py"]
    assert os.path.exists("/dev/full")
