"""Recorded runs: what a trace holds, that recording changes no time, and what a kill leaves."""

import json
import re

import pytest
from cli_runs import command, ran
from native_programs import needs_mpicc, needs_provider, programs
from refusals import refused

from pagewire.cli.main import main
from pagewire.replay import records
from pagewire.replay.trace import Reader

RING = """
import mmap
import sys
import numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
memory = mmap.mmap(-1, 4 << 20)
memory.madvise(mmap.MADV_NOHUGEPAGE)
whole = numpy.frombuffer(memory, "u1")
first = -whole.ctypes.data % (2 << 20)  # in one page table: walks are as long in another run
sent, received = (whole[first + at :][:30000] for at in (0, 65536))
sent[:] = 1
for step in range(3):  # one message at a time: nothing contends
    request = world.Irecv(received, MPI.ANY_SOURCE, step)
    if rank == 0:
        world.Send(sent, 1, step)
    while "test" in sys.argv and not request.Test():
        pass
    request.Wait()
    if rank == 1:
        world.Send(sent, 0, step)
world.Sendrecv(sent[:8], (rank + 1) % size, 9, received[:8], (rank - 1) % size, 9)
if "alike" not in sys.argv:  # MPI's own buffers cross a page or not, by where a run's heap begins
    world.Dup().Free()
if "die" in sys.argv:
    import os
    for _ in range(2000):
        world.Sendrecv(sent[:8], (rank + 1) % size, 9, received[:8], (rank - 1) % size, 9)
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    path = tmp_path_factory.mktemp("ring") / "ring.py"
    path.write_text(RING)
    return str(path)


@pytest.fixture(scope="module")
def ring_trace(ring, tmp_path_factory):
    """Of the ring over the facade, with the memory strategy part."""
    path = tmp_path_factory.mktemp("trace") / "ring.pwt"
    recorded(path, ring)
    return path


def recorded(path, ring, *words, told=()):
    ran("record", "-n", "2", "-o", str(path), "--compute", "none", *words, ring, *told)


def streams(path, kind):
    with Reader(str(path)) as reader:
        return [b"".join(reader.stream(rank, kind)) for rank in range(2)]


def test_trace_holds_what_the_program_did_and_no_test_in_vain(ring, tmp_path):
    path = tmp_path / "ring.pwt"
    recorded(path, ring, told=["test"])
    with Reader(str(path)) as reader:
        meta, found = reader.meta(), list(reader.records(1))
    assert meta["num_ranks"] == 2 and meta["settings"] == {"run.compute": "none"}
    assert [path.name for path in tmp_path.iterdir() if ".pwt" in path.name] == ["ring.pwt"]
    names = {each.idx: each.text for each in found if isinstance(each, records.Name)}
    called = [names[each.name_idx] for each in found if isinstance(each, records.Call)]
    assert [name for name in called if name != "Test"][:-1] == [
        *(["Irecv", "Wait", "Send"] * 3), "Sendrecv", "Dup", "Free",
    ]  # fmt: skip
    assert 0 < called.count("Test") <= 3
    sends = [each for each in found if isinstance(each, records.Send)]
    assert [(each.peer, each.num_bytes, each.tag) for each in sends] == [
        (0, 30000, 0), (0, 30000, 1), (0, 30000, 2), (0, 8, 9),
    ]  # fmt: skip
    receives = [each for each in found if isinstance(each, records.Receive)]
    assert [each.peer for each in receives] == [None, None, None, 0]
    with Reader(str(path)) as reader:
        assert list(reader.numbers(1, int(records.lib.PW_PWT_MATCHES))) == [1, 0] * 3
    assert isinstance(found[-1], records.End)
    assert not any(isinstance(each, records.Lost) for each in found)


def test_pages_that_the_program_has_touched_stand_before_their_first_use(ring_trace):
    with Reader(str(ring_trace)) as reader:
        found = list(reader.records(0))
    first_use = next(i for i, each in enumerate(found) if isinstance(each, records.Send))
    present = [
        each.count for each in found[:first_use]
        if isinstance(each, records.Pages) and each.state == records.lib.PW_PAGE_PRESENT
    ]  # fmt: skip
    assert sum(present) >= 30000 // 4096


def test_equal_runs_have_equal_traces_and_recording_costs_no_virtual_time(
    ring, ring_trace, tmp_path
):
    first, second = ring_trace, tmp_path / "second.pwt"
    recorded(second, ring)
    for kind in (records.lib.PW_PWT_OPS, records.lib.PW_PWT_TIMES, records.lib.PW_PWT_MATCHES):
        assert streams(first, kind) == streams(second, kind)
    report = tmp_path / "report.json"
    ran("launch", "-n", "2", "--compute", "none", "--json", str(report), ring)
    ranks = json.loads(report.read_text(encoding="utf-8"))["ranks"]
    with Reader(str(first)) as reader:
        ends_ns = [list(reader.times(rank))[-1] for rank in range(2)]
    assert ends_ns == [rank["virtual_time_ns"] for rank in ranks]


def test_killed_run_leaves_a_trace_up_to_the_kill(ring, tmp_path):
    path = tmp_path / "ring.pwt"
    done = command("record", "-n", "2", "-o", str(path), "--compute", "none", ring, "die")
    assert done.returncode, done.stdout
    with Reader(str(path)) as reader:
        for rank in range(2):
            found = list(reader.records(rank))
            num_calls = sum(isinstance(each, records.Leave) for each in found)
            assert num_calls >= 9 + 3 + 2000 - 1, "the last one may not have ended"
            assert not isinstance(found[-1], records.End)


def test_record_without_a_file_is_refused(ring):
    assert "record needs -o FILE.pwt" in refused("record", "-n", "2", ring)


HPCG = "hpcg --size 16 --sets 1 --iterations 10"


@pytest.mark.parametrize(
    ("app", "transport", "num_ranks", "memory"),
    [
        (HPCG, "facade", 4, "part"),
        ("hpl --N 400 --NB 64", "facade", 2, "odp"),
        pytest.param(HPCG, "fabric", 4, "pretouch", marks=needs_provider),
        # in which mappings go and come anew while they are pinned
        pytest.param("lammps --size 8 --steps 20", "fabric", 2, "pin-cache", marks=needs_provider),
    ],
)
def test_replay_has_every_recorded_time(app, transport, num_ranks, memory, tmp_path, capsys):
    path = tmp_path / "app.pwt"
    words = ["--transport", transport, "--memory", memory]
    ran("record", "-n", str(num_ranks), "-o", str(path), *words, *app.split())
    assert main(["replay", str(path), "--verify"]) == 0
    said = capsys.readouterr().out
    assert re.match(rf"verified: all [\d,]+ recorded times of {num_ranks} ranks\n", said)


@needs_mpicc
@needs_provider
@pytest.mark.parametrize(
    ("num_ranks", "memory", "program"),
    [
        (2, "pretouch", "one_sided_dynamic"),
        (2, "odp", "one_sided_locks"),
        (3, "part", "atomics_native"),  # long ones are received by active messages
        (2, "part", "one_sided_fence"),
        (4, "bounce", "one_sided_pscw"),
        (4, "firehose", "atomics_native"),  # frames move the clock of the turn that takes them
    ],
)
def test_replay_has_every_time_of_windows(num_ranks, memory, program, tmp_path, capsys):
    path = tmp_path / "windows.pwt"
    words = ["--memory", memory, "--", programs(), program]
    ran("record", "-n", str(num_ranks), "-o", str(path), *words)
    with Reader(str(path)) as reader:
        found = [type(each) for rank in range(num_ranks) for each in reader.records(rank)]
    assert records.Lost not in found
    wanted = {records.Register, records.Deregister, records.Put, records.Get, records.Atomic}
    assert len(wanted & set(found)) > 2
    assert main(["trace", "check", str(path)]) == 0
    capsys.readouterr()
    assert main(["replay", str(path), "--verify"]) == 0
    assert re.match(r"verified: all ", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("transport", "memory", "others"),
    [
        ("facade", "pretouch", ["part", "odp"]),
        pytest.param("fabric", "part", ["pretouch", "pin"], marks=needs_provider),
    ],
)
def test_replay_under_another_strategy_is_what_a_run_under_it_is(
    transport, memory, others, ring, tmp_path
):
    path, table, report = (tmp_path / name for name in ("r.pwt", "t.json", "r.json"))
    recorded(path, ring, "--transport", transport, "--memory", memory, told=["alike"])
    assert main(["replay", str(path), "--memory", ",".join(others), "--json", str(table)]) == 0
    rows = json.loads(table.read_text(encoding="utf-8"))["entries"]
    assert [row["memory"] for row in rows] == others
    for row in rows:
        words = ["--compute", "none", "--transport", transport, "--memory", row["memory"]]
        ran("launch", "-n", "2", *words, "--json", str(report), ring, "alike")
        ranks = json.loads(report.read_text(encoding="utf-8"))["ranks"]
        live_ns = max(rank["virtual_time_ns"] for rank in ranks)
        assert round(row["virtual_time_s"] * 1e9) == live_ns, row["memory"]
