"""Copies of a recorded run: each has ranks, peers and meetings of its own, and the one's times."""

import pytest
from programs import MATCHES, PRESENT, call
from trace_texts import receive, send, write_trace

from pagewire.cli.main import main
from pagewire.replay import patterns
from pagewire.replay.check import check
from pagewire.replay.made import Copies
from pagewire.replay.records import Compute, Done, Found, Meet, Name, Pages, Part, TraceError
from pagewire.replay.replay import Replay, Settings
from pagewire.replay.trace import REGIONS, Reader


def clocks(trace):
    with Replay(trace, Settings.of(trace.meta())) as replay:
        assert replay.run() is None
        return [replay.time_ns(rank) for rank in range(trace.num_ranks)]


@pytest.fixture
def path(tmp_path):
    """Rank 0 sends twice to rank 1, which knows from whom but once; they meet."""
    ranks = [
        [send(1), send(1), Meet(7, 2)],
        [receive(0), receive(None), Meet(7, 2), Found(0, 0, 0, 0), Part(1, 0, 0)],
    ]
    return write_trace(tmp_path / "a.pwt", ranks, matches=[[], [1, 5]], regions=[[0, 4096], []])


def test_peers_and_meetings_of_a_copy_are_its_own(path):
    with Reader(path) as reader:
        copies = Copies(reader, 3)
        assert copies.num_ranks == 6
        assert [record.peer for record in list(copies.records(4))[:2]] == [5, 5]
        known, unknown, meet, found, part, _ = copies.records(3)
        assert (known.peer, unknown.peer, found.peer, part.peer) == (2, None, 2, 2)
        assert list(copies.numbers(3, MATCHES)) == [3, 5]
        assert list(copies.numbers(4, REGIONS)) == [0, 4096]
        groups = {rank: list(copies.records(rank))[2].group for rank in range(6)}
        assert [groups[rank] for rank in (0, 2, 4)] == [groups[rank] for rank in (1, 3, 5)]
        assert len(set(groups.values())) == 3
        assert meet.members == 2
        assert copies.meta()["copies"] == 3


def test_a_receive_that_took_nothing_takes_nothing_in_a_copy(tmp_path):
    path = write_trace(tmp_path / "a.pwt", [[receive(None)]], matches=[[0, 0]])
    with Reader(path) as reader:
        assert list(Copies(reader, 2).numbers(1, MATCHES)) == [0, 0]


def test_copies_of_copies_meet_apart(path, tmp_path):
    with Reader(path) as reader:
        Copies(reader, 2).write(str(tmp_path / "b.pwt"))
    with Reader(str(tmp_path / "b.pwt")) as reader:
        copies = Copies(reader, 3)
        groups = {list(copies.records(rank))[2].group for rank in range(12)}
        assert len(groups) == 6


@pytest.mark.parametrize(
    ("pattern", "fresh"), [("halo3d:6", 0.0), ("alltoall", 0.5), ("random", 0.5)]
)
def test_each_copy_takes_the_time_of_the_one(tmp_path, pattern, fresh):
    path = str(tmp_path / "a.pwt")
    shape = patterns.Shape(num_bytes=20_000, steps=2, compute_ns=3000, fresh=fresh)
    patterns.synthesize(pattern, 8, shape, path)
    with Reader(path) as reader:
        assert clocks(Copies(reader, 3)) == clocks(reader) * 3


def test_a_meeting_waits_for_the_ranks_of_its_copy(tmp_path):
    meeting = call(0, Meet(7, 2))
    ranks = [[Name(0, "Barrier"), Compute(5000 * rank), *meeting] for rank in range(2)]
    with Reader(write_trace(tmp_path / "a.pwt", ranks)) as reader:
        assert clocks(Copies(reader, 3)) == clocks(reader) * 3


def test_the_command_writes_a_sound_trace(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    ranks = [
        [Pages(0, 0, 1, PRESENT), Name(0, "MPI_Send"), *call(0, send(1, num_bytes=8, flags=4))],
        [Name(0, "MPI_Recv"), *call(0, receive(0, num_bytes=8), Done(0))],
    ]
    write_trace("a.pwt", ranks)
    assert main(["trace", "copies", "a.pwt", "--times", "4", "-o", "b.pwt"]) == 0
    assert "b.pwt: 8 ranks, 48 records" in capfd.readouterr().err
    with Reader("b.pwt") as reader:
        assert list(check(reader)) == []


def test_too_many_copies_are_refused(path):
    with Reader(path) as reader, pytest.raises(TraceError, match="2,097,152 ranks; allowed"):
        Copies(reader, 1 << 20)
