"""OTF2 archives become traces: messages, collectives, communicators, computing."""

from collections import Counter

import pytest
from programs import MATCHES, HandMade, call, halo, receive, send, written

from pagewire.cli.main import main
from pagewire.replay.check import check
from pagewire.replay.formats.convert import Conversion
from pagewire.replay.formats.plain import Calc, PlainRank, Received, Sent, Survey, Tags, Waited
from pagewire.replay.formats.problems import Problems
from pagewire.replay.records import (
    Call,
    Compute,
    Done,
    End,
    Meet,
    Name,
    Put,
    Receive,
    Register,
    Send,
    TraceError,
)
from pagewire.replay.replay import replay_file
from pagewire.replay.trace import Reader

otf2 = pytest.importorskip("otf2")
from otf2 import events as e

BYTES = 40_000


class Made:
    """An archive of so many ranks, written with its own package; times in us."""

    def __init__(self, path, num_ranks):
        self.trace = otf2.writer.Writer(str(path), timer_resolution=1_000_000)
        self.file = str(path / "traces.otf2")
        definitions = self.trace.definitions
        root = definitions.system_tree_node("machine")
        groups = [
            definitions.location_group(
                f"rank {rank}",
                location_group_type=otf2.LocationGroupType.PROCESS,
                system_tree_parent=root,
            )
            for rank in range(num_ranks)
        ]
        self.locations = [definitions.location("main", group=each) for each in groups]
        self.writers = [self.trace.event_writer_from_location(each) for each in self.locations]
        definitions.group(
            "all",
            group_type=otf2.GroupType.COMM_LOCATIONS,
            paradigm=otf2.Paradigm.MPI,
            members=self.locations,
        )
        self.regions = {}
        self.world = self.comm(range(num_ranks))

    def comm(self, ranks):
        group = self.trace.definitions.group(
            f"group {list(ranks)}",
            group_type=otf2.GroupType.COMM_GROUP,
            paradigm=otf2.Paradigm.MPI,
            members=[self.locations[rank] for rank in ranks],
        )
        return self.trace.definitions.comm(f"comm {list(ranks)}", group)

    def region(self, name):
        if name not in self.regions:
            paradigm = otf2.Paradigm.MPI if name.startswith("MPI_") else otf2.Paradigm.USER
            self.regions[name] = self.trace.definitions.region(name, paradigm=paradigm)
        return self.regions[name]

    def call(self, rank, begin, end, name, *inside):
        """inside: what makes an event of a time."""
        writer = self.writers[rank]
        writer(e.Enter(begin, self.region(name)))
        for make in inside:
            writer(make(begin))
        writer(e.Leave(end, self.region(name)))


def plain(path):
    with Reader(str(path)) as reader:
        assert list(check(reader)) == []
        survey, tags, problems = Survey(reader), Tags(), Problems()
        ranks = range(reader.num_ranks)
        return [list(PlainRank(reader, rank, survey, tags, problems)) for rank in ranks]


def names(path, rank):
    with Reader(str(path)) as reader:
        known, called = {}, []
        for record in reader.records(rank):
            if isinstance(record, Name):
                known[record.idx] = record.text
            elif isinstance(record, Call):
                called.append(known[record.name_idx])
        return called


def converted(tmp_path, fill, num_ranks=2, **how):
    made = Made(tmp_path / "archive", num_ranks)
    fill(made)
    made.trace.close()
    conversion = Conversion(**how)
    conversion.run(made.file, str(tmp_path / "a.pwt"))
    return plain(tmp_path / "a.pwt"), conversion.problems


def sent(made, peer, tag=5, num_bytes=BYTES, comm=None):
    return lambda at: e.MpiSend(at, peer, comm or made.world, tag, num_bytes)


def received(made, peer, tag=5, num_bytes=BYTES, comm=None):
    return lambda at: e.MpiRecv(at, peer, comm or made.world, tag, num_bytes)


def test_blocking_messages_and_what_is_computed_between(tmp_path):
    def fill(made):
        made.call(0, 100, 200, "MPI_Init")
        made.writers[0](e.Enter(210, made.region("main")))
        made.call(0, 250, 300, "MPI_Send", sent(made, 1))
        made.writers[0](e.Leave(390, made.region("main")))
        made.call(1, 100, 190, "MPI_Init")
        made.call(1, 200, 900, "MPI_Recv", received(made, 0))

    (first, second), _ = converted(tmp_path, fill)
    assert first == [Calc(50_000), Sent(1, 5, BYTES), Waited(0), Calc(90_000)]
    assert second == [Calc(10_000), Received(0, 5, BYTES), Waited(0)]
    assert names(tmp_path / "a.pwt", 0) == ["MPI_Init", "MPI_Send"]


def test_receive_is_as_long_as_what_it_took(tmp_path):
    def fill(made):
        made.call(1, 10, 20, "MPI_Irecv", lambda at: e.MpiIrecvRequest(at, 7))
        made.call(0, 10, 20, "MPI_Isend", lambda at: e.MpiIsend(at, 1, made.world, 3, BYTES, 1))
        made.call(0, 25, 30, "MPI_Wait", lambda at: e.MpiIsendComplete(at, 1))
        over = lambda at: e.MpiIrecv(at, 0, made.world, 3, BYTES, 7)
        made.call(1, 60, 90, "MPI_Waitall", over)

    (first, second), _ = converted(tmp_path, fill)
    assert first == [Sent(1, 3, BYTES), Calc(5000), Waited(0)]
    assert second == [Received(0, 3, BYTES), Calc(40_000), Waited(0)]
    assert names(tmp_path / "a.pwt", 1) == ["MPI_Irecv", "MPI_Waitall"]


def test_exchange_in_one_call_does_not_wait_for_itself(tmp_path):
    def fill(made):
        for rank in range(2):
            own = sent(made, 1 - rank), received(made, 1 - rank)
            made.call(rank, 5, 50, "MPI_Sendrecv", *own)

    ranks, _ = converted(tmp_path, fill)
    assert ranks[0] == [Received(1, 5, BYTES), Sent(1, 5, BYTES), Waited(0), Waited(1)]
    assert replay_file(str(tmp_path / "a.pwt"))[2].unmatched == []


def test_ranks_of_a_communicator_are_its_own(tmp_path):
    def fill(made):
        comm = made.comm([3, 1])
        made.call(3, 5, 50, "MPI_Send", sent(made, 1, comm=comm))
        made.call(1, 5, 50, "MPI_Recv", received(made, 0, comm=comm))

    converted(tmp_path, fill, num_ranks=4)
    with Reader(str(tmp_path / "a.pwt")) as reader:
        (there,) = (each for each in reader.records(3) if isinstance(each, Send))
        (back,) = (each for each in reader.records(1) if isinstance(each, Receive))
    assert (there.peer, back.peer) == (1, 3) and there.context == back.context != 0


@pytest.mark.parametrize(
    ("name", "own", "at_root"),
    [
        ("BARRIER", (0, 0), None),
        ("BCAST", (0, BYTES), (3 * BYTES, BYTES)),
        ("REDUCE", (BYTES, 0), (BYTES, BYTES)),
        ("ALLREDUCE", (BYTES, BYTES), None),
        ("ALLGATHER", (BYTES, 3 * BYTES), None),
        ("ALLTOALL", (3 * BYTES, 3 * BYTES), None),
        ("GATHER", (BYTES, 0), (BYTES, 3 * BYTES)),
        ("SCATTER", (0, BYTES), (3 * BYTES, BYTES)),
        ("SCAN", (BYTES, BYTES), None),
    ],
)
def test_collectives_are_messages_that_fit(tmp_path, name, own, at_root):
    def fill(made):
        for rank in range(3):
            sizes = at_root if at_root and rank == 1 else own
            end = lambda at, sizes=sizes: e.MpiCollectiveEnd(
                at, getattr(otf2.CollectiveOp, name), made.world, 1, *sizes
            )
            made.call(rank, 5, 90, f"MPI_{name.title()}", e.MpiCollectiveBegin, end)

    ranks, _ = converted(tmp_path, fill, num_ranks=3)
    assert all(any(isinstance(each, (Sent, Received)) for each in own) for own in ranks)
    assert replay_file(str(tmp_path / "a.pwt"))[2].unmatched == []


def test_receive_that_was_taken_back_is_none(tmp_path):
    def fill(made):
        made.call(0, 10, 20, "MPI_Irecv", lambda at: e.MpiIrecvRequest(at, 7))
        made.call(0, 25, 30, "MPI_Cancel", lambda at: e.MpiRequestCancelled(at, 7))
        made.call(0, 35, 40, "MPI_Irecv", lambda at: e.MpiIrecvRequest(at, 8))
        made.call(1, 1, 2, "MPI_Init")

    (first, _), problems = converted(tmp_path, fill)
    assert not any(isinstance(each, Received) for each in first)
    assert len(problems.notes()) == 2


def unsupported(made):
    end = lambda at: e.MpiCollectiveEnd(
        at, otf2.CollectiveOp.ALLTOALLV, made.world, 0, BYTES, BYTES
    )
    for rank in range(2):
        made.call(rank, 5, 90, "MPI_Alltoallv", end)


def test_what_has_no_place_is_listed(tmp_path):
    with pytest.raises(TraceError, match="collective ALLTOALLV: 2 times, rank 0 at 5"):
        converted(tmp_path, unsupported)
    assert not (tmp_path / "a.pwt").exists()


def test_it_can_be_left_out(tmp_path):
    ranks, _ = converted(tmp_path, unsupported, skips=True)
    assert ranks == [[], []]


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (lambda made: made.call(0, 5, 9, "MPI_Send", sent(made, 9)), "rank 9 of 2"),
        (lambda made: made.writers[0](sent(made, 1)(5)), "outside of an MPI call"),
    ],
)
def test_what_makes_no_sense_is_told(tmp_path, fill, said):
    with pytest.raises(TraceError, match=said):
        converted(tmp_path, fill)


def test_command_converts_and_refuses(tmp_path, capsys):
    made = Made(tmp_path / "archive", 2)
    made.call(0, 5, 9, "MPI_Send", sent(made, 1))
    made.call(1, 5, 9, "MPI_Recv", received(made, 0))
    made.trace.close()
    assert main(["trace", "convert", made.file, str(tmp_path / "a.pwt"), "--buffers", "fresh"]) == 0
    (tmp_path / "no.otf2").write_bytes(b"nothing")
    capsys.readouterr()
    assert main(["trace", "convert", str(tmp_path / "no.otf2"), str(tmp_path / "b.pwt")]) == 2
    assert "cannot be read" in capsys.readouterr().err


# -- from a trace


def there_and_back(tmp_path, trace, *words):
    source = written(tmp_path / "a.pwt", trace)
    archive, back = str(tmp_path / "b.otf2"), str(tmp_path / "b.pwt")
    assert main(["trace", "convert", source, archive, *words]) == 0
    assert main(["trace", "convert", archive, back, *words]) == 0
    return source, archive, back


def events_of(archive):
    with otf2.reader.open(archive) as reader:
        order = {each._ref: rank for rank, each in enumerate(reader.definitions.locations)}
        return [(order[location._ref], event) for location, event in reader.events]


def test_trace_goes_there_and_back(tmp_path):
    source, _, back = there_and_back(tmp_path, halo(5, [1, 2], num_bytes=70_000))
    for rank, (before, after) in enumerate(zip(plain(source), plain(back), strict=True)):
        for kind in (Sent, Received):
            wanted = [(each.peer, each.num_bytes) for each in before if isinstance(each, kind)]
            got = [(each.peer, each.num_bytes) for each in after if isinstance(each, kind)]
            assert sorted(got) == sorted(wanted)
        computed = [sum(e.ns for e in own if isinstance(e, Calc)) for own in (before, after)]
        assert computed[0] == computed[1]
        assert names(source, rank) == names(back, rank)
    assert replay_file(back)[2].unmatched == []
    assert main(["trace", "check", back]) == 0


def test_archive_has_the_times_of_a_replay_and_its_faults(tmp_path):
    trace = halo(2, [1], num_bytes=40_000, steps=1)
    source, archive, _ = there_and_back(tmp_path, trace)
    outcome = replay_file(source)[2]
    events = events_of(archive)
    ends = [0, 0]
    counted, before = Counter(), [0, 0]
    for rank, event in events:
        assert event.time >= before[rank]
        before[rank] = ends[rank] = event.time
        for attribute, value in (event.attributes or {}).items():
            counted[type(event), attribute.name] += value
    assert max(ends) == round(outcome.performance.virtual_s * 1e9)
    for key, counter in (
        ((e.MpiIrecv, "page faults"), "translation_faults"),
        ((e.Leave, "pages brought in"), "pages_paged_in"),
    ):
        assert counted[key] == sum(each[counter] for each in outcome.per_rank) > 0


def test_short_messages_meetings_and_phases(tmp_path):
    ranks = []
    for rank in range(3):
        own = [Name(0, "MPI_Send"), Name(1, "MPI_Recv"), Name(2, "MPI_Comm_dup")]
        own += call(2, Meet(4, 3))
        if rank == 0:
            own += [*call(0, send(1, 8)), *call(0, send(1, 9))]
        if rank == 1:
            own += [*call(1, receive(None, 20), Done(0)), *call(1, receive(0, 20), Done(0))]
        ranks.append([*own, Compute(50), *call(2), End()])
    trace = HandMade(*ranks)
    trace.add(1, MATCHES, 1, 0)
    _, _, back = there_and_back(tmp_path, trace)
    ranks = plain(back)
    assert [each.num_bytes for each in ranks[1] if isinstance(each, Received)][-2:] == [8, 9]
    assert all(own[-1] == Calc(50) for own in ranks)
    assert replay_file(back)[2].unmatched == []


def test_what_an_archive_has_no_place_for_is_listed(tmp_path, capsys):
    meet = call(0, Meet(1, 2))
    target = [Name(0, "MPI_Put"), Register(64, 1, 0), *meet, *meet, End()]
    origin = [Name(0, "MPI_Put"), *meet, *call(0, Put(1, 8, 0, 0, 1, 0), Done(0)), *meet, End()]
    source = written(tmp_path / "a.pwt", HandMade(origin, target))
    assert main(["trace", "convert", source, str(tmp_path / "b.otf2")]) == 2
    assert "one-sided operations: 1 times, rank 0 at" in capsys.readouterr().err
    assert not list(tmp_path.glob("b*"))


def test_archive_is_not_written_over_another(tmp_path, capsys):
    source, archive, _ = there_and_back(tmp_path, halo(2, [1]))
    assert main(["trace", "convert", source, archive]) == 2
    assert "is there already" in capsys.readouterr().err


def test_package_that_is_missing_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "otf2", None)
    assert main(["trace", "convert", "a.otf2", str(tmp_path / "b.pwt")]) == 2
    assert "pip install otf2" in capsys.readouterr().err
