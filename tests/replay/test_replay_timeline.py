"""`pagewire replay --trace`: the hottest links beside the ranks."""

from itertools import pairwise

import pytest
from programs import written
from test_network import MIB, flows

from pagewire.cli.commands import replay_timeline
from pagewire.cli.main import main
from pagewire.network import use
from pagewire.replay.replay import Replay, Settings
from pagewire.replay.trace import Reader

pytest.importorskip("perfetto", reason="Perfetto's messages: pip install 'pagewire[test]'")
from timeline_file import Timeline

SHARED = ["--set", "network.topology=mesh:4", "--set", "network.model=links"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return written(tmp_path_factory.mktemp("trace") / "x.pwt", flows(4, [(0, 2), (1, 3)]))


def traced(trace, path, *words):
    assert main(["replay", trace, "--trace", str(path), *words]) == 0
    return Timeline(path)


def test_links_have_tracks_of_percent_over_time(trace, tmp_path):
    """Both messages pass one link, one block behind the other: it is full but for the ends."""
    made = traced(trace, tmp_path / "x.pftrace", *SHARED)
    assert made.processes == ["links", "rank 0", "rank 1", "rank 2", "rank 3"]
    tracks = [name for process, name in made.values if process == "links"]
    assert tracks == ["1 to 2", "0 to 1", "2 to 3"]
    points = made.values["links", "1 to 2"]
    spans = [(value, after - at) for (at, value), (after, _) in pairwise(points)]
    busy_ns = 2 * MIB * 288 / 256 * 8 / 9.7
    assert points[0][0] == 0 and points[-1][1] == 0
    assert sum(value * ns / 100 for value, ns in spans) == pytest.approx(busy_ns, rel=0.01)
    assert sum(ns for value, ns in spans if value == 100) > 0.9 * busy_ns
    assert points[-1][0] == pytest.approx(busy_ns, rel=0.05)


def test_ranks_have_their_own_tracks(trace, tmp_path):
    made = traced(trace, tmp_path / "x.pftrace")
    assert made.processes == [f"rank {rank}" for rank in range(4)]
    calls = made.spans("rank 0", "Program and MPI calls")
    assert [span.name for span in calls if span.name == "Isend"] == ["Isend"]
    assert len(made.spans("rank 0", "Link")) == 64


def test_no_more_links_than_a_reader_can_look_at(trace, tmp_path):
    pairs = [(source, target) for source in range(8) for target in range(8) if source != target]
    many = written(tmp_path / "many.pwt", flows(8, pairs, MIB // 16))
    words = ["--set", "network.topology=full", "--set", "network.model=links"]
    made = traced(many, tmp_path / "x.pftrace", *words)
    assert len([name for process, name in made.values if process == "links"]) == use.DRAWN


def test_of_many_ranks_the_links_alone_are_written(trace, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(replay_timeline, "RANKS_MAX", 3)
    made = traced(trace, tmp_path / "x.pftrace", *SHARED)
    assert made.processes == ["links"]
    assert "the timeline has the links alone" in capsys.readouterr().err
    assert main(["replay", trace, "--trace", str(tmp_path / "y.pftrace")]) == 2
    assert "no links to show" in capsys.readouterr().err


def test_several_rows_are_refused(trace, tmp_path, capsys):
    words = ["--memory", "part,pin", "--trace", str(tmp_path / "x.pftrace")]
    assert main(["replay", trace, *words]) == 2
    assert "--trace studies one row" in capsys.readouterr().err
    assert main(["replay", trace, "--verify", *words[2:]]) == 2


def test_a_timeline_changes_no_time(trace, tmp_path):
    settings = ["network.topology=mesh:4", "network.model=links"]
    times = []
    with Reader(trace) as reader:
        for is_traced in (False, True):
            with Replay(reader, Settings.of(reader.meta(), settings)) as made:
                if is_traced:
                    made.keep_records(tmp_path)
                made.run()
                times.append([made.time_ns(rank) for rank in range(4)])
    assert times[0] == times[1]
