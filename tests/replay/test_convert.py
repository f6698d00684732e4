"""Traces of other tools: read by their grammar, written so that they are read again, and refused
with places where they say what a trace cannot."""

import collections
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_texts import receive, send, write_trace

from pagewire.cli.main import main
from pagewire.native import lib
from pagewire.native.settings import ConfigError
from pagewire.replay import program
from pagewire.replay.check import check
from pagewire.replay.formats import goal
from pagewire.replay.formats.convert import Conversion
from pagewire.replay.formats.plain import Calc, PlainRank, Received, Sent, Survey, Tags, Waited
from pagewire.replay.formats.problems import Problems
from pagewire.replay.records import (
    MULTI,
    SYNCHRONOUS,
    UNSIZED,
    WAS_EAGER,
    Call,
    Cancel,
    Compute,
    Done,
    Found,
    Lost,
    Meet,
    Name,
    Pages,
    Part,
    Receive,
    Region,
    Send,
    Sleep,
    Take,
    Told,
    TraceError,
)
from pagewire.replay.trace import OPS, Reader, Writer


def convert(source, target, **how):
    conversion = Conversion(**how)
    conversion.run(str(source), str(target))
    return conversion.problems


def plain(path):
    """Each rank's operations."""
    with Reader(str(path)) as reader:
        assert list(check(reader)) == []
        survey, tags, problems = Survey(reader), Tags(), Problems()
        return [
            list(PlainRank(reader, rank, survey, tags, problems))
            for rank in range(reader.num_ranks)
        ]


def records_of(path, *classes):
    with Reader(str(path)) as reader:
        return [
            [each for each in reader.records(rank) if not classes or isinstance(each, classes)]
            for rank in range(reader.num_ranks)
        ]


def from_text(tmp_path, text, name="in.goal", **how):
    (tmp_path / name).write_text(text)
    problems = convert(tmp_path / name, tmp_path / "out.pwt", **how)
    return plain(tmp_path / "out.pwt"), problems


# ---- GOAL

TWO = """num_ranks 2

rank 0 {{
{}
}}
rank 1 {{
{}
}}
"""


def test_goal_text_is_read_by_its_grammar(tmp_path):
    first = """\
// a comment
l1: calc 100 cpu 0
/* one
of two lines */ send1: send 10b to 1 tag 5 cpu 0 nic 0
send1 requires l1
l3 : recv 20 b from 1
l3 irequires send1
"""
    second = "recv 10b from 0 tag 5\r\nx: calc 7\nsend 20b to 0\n\tcalc 3\n"
    ranks, problems = from_text(tmp_path, TWO.format(first, second))
    assert ranks[0] == [Calc(100), Sent(1, 5, 10), Received(1, 0, 20), Waited(0), Waited(1)]
    assert ranks[1] == [Received(0, 5, 10), Sent(0, 0, 20), Calc(10), Waited(0), Waited(1)]
    assert problems.sentences() == []


def test_a_wait_stands_where_everything_behind_requires_it(tmp_path):
    first = "a: recv 8b from 1\nb: calc 5\nb requires a\nc: send 8b to 1\nc requires b\n"
    ranks, _ = from_text(tmp_path, TWO.format(first, "send 8b to 0\nrecv 8b from 0\n"))
    assert ranks[0] == [Received(1, 0, 8), Waited(0), Calc(5), Sent(1, 0, 8), Waited(1)]


def test_what_does_not_depend_on_a_message_does_not_wait_for_it(tmp_path):
    first = "a: recv 8b from 1\nb: calc 5\nb requires a\nc: send 8b to 1\n"
    ranks, problems = from_text(tmp_path, TWO.format(first, "send 8b to 0\nrecv 8b from 0\n"))
    assert ranks[0] == [Received(1, 0, 8), Sent(1, 0, 8), Waited(0), Calc(5), Waited(1)]
    assert problems.sentences() == []


BESIDE = (
    "a: recv 8b from 1\nb: recv 8b from 1 tag 1\nc: calc 5\nc requires a\nd: calc 6\nd requires b\n"
)


def test_what_goes_on_beside_each_other_is_refused_or_told(tmp_path):
    text = TWO.format(BESIDE, "send 8b to 0\nsend 8b to 0 tag 1\n")
    with pytest.raises(TraceError) as raised:
        from_text(tmp_path, text)
    assert str(raised.value) == (
        "cannot be converted: operations beside each other, of which a trace does one first: "
        "1 times, rank 0 operation 3. --skip-unsupported leaves these out"
    )
    assert not (tmp_path / "out.pwt").exists()
    ranks, problems = from_text(tmp_path, text, skips=True)
    assert ranks[0] == [
        Received(1, 0, 8), Received(1, 1, 8), Waited(0), Calc(5), Waited(1), Calc(6),
    ]  # fmt: skip
    assert len(problems.sentences()) == 1


def test_more_than_one_cpu_is_refused(tmp_path):
    with pytest.raises(TraceError, match="operations on cpu 1: .*1 times, rank 0 operation 1"):
        from_text(tmp_path, TWO.format("calc 5 cpu 1", "calc 1"))


def test_any_source_and_any_tag_stay(tmp_path):
    ranks, _ = from_text(tmp_path, TWO.format("recv 8b from -1 tag -1\n", "send 8b to 0 tag 3\n"))
    assert ranks[0] == [Received(None, None, 8), Waited(0)]
    convert(tmp_path / "out.pwt", tmp_path / "again.goal")
    assert "recv 8b from -1 tag -1" in (tmp_path / "again.goal").read_text()


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "the first statement is `num_ranks N`"),
        ("num_ranks 0\n", "the first statement is `num_ranks N`"),
        ("num_ranks 1\nrank 1 {\n}\n", "line 2: `rank 0 {` should stand here"),
        ("num_ranks 1\nrank 0 {\ncalc 1\n", "rank 0 has no closing brace"),
        ("num_ranks 1\nrank 0 {\nsend 1b from 0\n}\n", "line 3: this is no statement"),
        ("num_ranks 1\nrank 0 {\nsend 1b to 1\n}\n", "line 3: peer 1: the file has ranks 0 to 0"),
        ("num_ranks 1\nrank 0 {\ncalc 1 // no\n}\n", "line 3: this is no statement"),
        ("num_ranks 1\nrank 0 {\ncalc -1\n}\n", "line 3: this is no statement"),
        ("num_ranks 1\nrank 0 {\ncalc 1 cpu 256\n}\n", "cpu 256: allowed is up to 255"),
        ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1 requires l2\n}\n", "label 'l2' is not defined"),
        (
            "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n",
            "rank 0: 2 operations depend on each other in a circle",
        ),
    ],
)
def test_wrong_goal_is_refused_with_its_line(tmp_path, text, why):
    (tmp_path / "in.goal").write_text(text or "num_ranks\n")
    with pytest.raises(TraceError, match=why):
        convert(tmp_path / "in.goal", tmp_path / "out.pwt")


def test_goal_binary_has_the_bytes_of_the_format(tmp_path):
    """By hand, from the description of the format."""
    (tmp_path / "a.goal").write_text(
        TWO.format(
            "a: calc 9\nb: send 5b to 1 tag 2 cpu 1\nb requires a\n", "recv 5b from 0 tag 2\n"
        )
    )
    convert(tmp_path / "a.goal", tmp_path / "a.bin")

    def node(*fields):
        lengths = (4, 1, 4, 8, 4, 1, 1, 4, 4, 4, 4)
        return b"".join(
            each.to_bytes(length, "little") for each, length in zip(fields, lengths, strict=True)
        )

    first = (
        b"\2\0\0\0\1\0\0\0" + b"\0\0\0\0"  # two nodes, one root: 0
        + node(0, 3, 0, 9, 0, 0, 0, 1, 0, 0, 1) + node(1, 1, 1, 5, 2, 1, 0, 0, 1, 0, 1)
        + b"\1\0\0\0"
    )  # fmt: skip
    second = b"\1\0\0\0\1\0\0\0" + b"\0\0\0\0" + node(0, 2, 0, 5, 2, 0, 0, 0, 0, 0, 0)
    start = 6 + 2 * 16
    places = [start, start + len(first), start + len(first), start + len(first) + len(second)]
    header = (4223).to_bytes(8, "little") + (2).to_bytes(4, "little") + b"\1\0"
    header += b"".join(each.to_bytes(8, "little") for each in places)
    assert (tmp_path / "a.bin").read_bytes() == header + first + second
    convert(tmp_path / "a.bin", tmp_path / "b.goal")
    graphs = [list(goal.open_goal(str(tmp_path / name))) for name in ("a.goal", "b.goal", "a.bin")]
    assert graphs[0] == graphs[1] == graphs[2]


@pytest.mark.parametrize("length", [8, 13, 14, 40, 60, 100, 130])
def test_a_binary_file_that_is_cut_off_is_refused(tmp_path, length):
    (tmp_path / "a.goal").write_text(TWO.format("send 5b to 1", "recv 5b from 0"))
    convert(tmp_path / "a.goal", tmp_path / "a.bin")
    (tmp_path / "b.bin").write_bytes((tmp_path / "a.bin").read_bytes()[:length])
    with pytest.raises(TraceError, match="b.bin"):
        convert(tmp_path / "b.bin", tmp_path / "b.pwt")


@given(place=st.integers(8, 1000), value=st.integers(0, 255))
def test_a_changed_binary_file_is_read_or_refused(tmp_path_factory, place, value):
    folder = tmp_path_factory.mktemp("changed")
    (folder / "a.goal").write_text(
        TWO.format("a: send 5b to 1\nb: calc 9\nb requires a", "recv 5b from 0")
    )
    convert(folder / "a.goal", folder / "a.bin")
    data = bytearray((folder / "a.bin").read_bytes())
    data[place % len(data)] = value
    (folder / "b.bin").write_bytes(data)
    try:
        convert(folder / "b.bin", folder / "b.pwt")
    except ConfigError:
        pass


# ---- round trips

MESSAGE = st.tuples(
    st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.integers(1, 1 << 20),
    st.booleans(), st.booleans(), st.integers(0, 1000),
)  # fmt: skip


def write_program(path, messages, num_ranks=4):
    """Messages of ranks one after the other; some are waited for at once, the rest in the end."""
    with Writer(str(path), num_ranks, {}) as writer:
        ranks = [
            program.Program(
                rank, num_ranks,
                lambda data, count, rank=rank: writer.add(rank, OPS, data, count), program.Reused(),
            )
            for rank in range(num_ranks)
        ]  # fmt: skip
        left = [[] for _ in ranks]
        for source, dest, tag, num_bytes, waits_there, waits_here, ns in messages:
            for rank, other, is_sender, waits in (
                (source, dest, True, waits_there), (dest, source, False, waits_here),
            ):  # fmt: skip
                made = ranks[rank]
                made.compute(ns)
                if is_sender:
                    operation = made.isend(other, made.filled(other, num_bytes), tag)
                else:
                    operation = made.irecv(other, made.landing(other, num_bytes), tag)
                if waits and source != dest:
                    made.wait(operation)
                else:
                    left[rank].append(operation)
        for made, operations in zip(ranks, left, strict=True):
            made.waitall(operations)
            made.end()


@pytest.mark.parametrize("suffix", ["goal", "bin", "ti"])
@given(messages=st.lists(MESSAGE, max_size=12))
def test_a_round_trip_keeps_messages_sizes_and_compute(tmp_path_factory, suffix, messages):
    folder = tmp_path_factory.mktemp("trip")
    write_program(folder / "a.pwt", messages)
    convert(folder / "a.pwt", folder / f"a.{suffix}")
    convert(folder / f"a.{suffix}", folder / "b.pwt")
    before, after = plain(folder / "a.pwt"), plain(folder / "b.pwt")
    for one, other in zip(before, after, strict=True):
        assert [each for each in one if isinstance(each, (Sent, Received))] == [
            each for each in other if isinstance(each, (Sent, Received))
        ]
        assert computed(one) == computed(other)
    if suffix == "ti":
        assert before == after


def computed(operations):
    """The time before each message, and in all."""
    times, total = [], 0
    for each in operations:
        if isinstance(each, Calc):
            total += each.ns
        elif not isinstance(each, Waited):
            times.append(total)
    return [*times, total]


def test_what_a_trace_says_beyond_messages_is_told(tmp_path):
    path = write_trace(
        tmp_path / "a.pwt",
        [
            [
                Name(0, "MPI_X"), Region("phase"), Call(0), Pages(0, 0, 1, 1), Sleep(5),
                send(1, flags=SYNCHRONOUS), Done(0), send(1, flags=WAS_EAGER),
                send(1, num_bytes=0), Told(0),
            ],
            [
                receive(0), Done(0), Found(0, 0, 7, 0, 2), Take(0, 70000, 0, 0), Done(0),
                receive(0, tag=1), Cancel(0), receive(None), Done(0),
            ],
        ],
        matches=[[], [1, 0]],
    )  # fmt: skip
    problems = convert(path, tmp_path / "a.goal")
    assert problems.notes() == [
        "records of pages that the other format has no place for: 1",
        "synchronous sends, which GOAL takes as any: 1",
        "messages of 0 bytes, which have 1 in GOAL: 1",
    ]
    convert(path, tmp_path / "a.ti")
    assert (tmp_path / "a.ti").read_text().splitlines() == [
        "0 init", "0 compute 5", "0 send 1 7 65536", "0 send 1 7 65536", "0 send 1 7 0",
        "0 finalize", "1 init", "1 recv 0 7 65536", "1 recv 0 7 70000", "1 recv 0 7 65536",
        "1 finalize",
    ]  # fmt: skip


def test_what_cannot_be_said_is_listed_and_nothing_is_written(tmp_path):
    path = write_trace(
        tmp_path / "a.pwt",
        [[Meet(0, 2), Lost("MPI_Put"), Lost("MPI_Put")]],
    )
    with pytest.raises(TraceError) as raised:
        convert(path, tmp_path / "a.goal")
    text = str(raised.value)
    assert "meetings (MEET) of which some ranks have no record: 1 times, rank 0 record 0" in text
    assert "what was not recorded: MPI_Put: 2 times, rank 0 record 1, rank 0 record 2" in text
    assert not (tmp_path / "a.goal").exists()
    convert(path, tmp_path / "a.goal", skips=True)
    assert (tmp_path / "a.goal").exists()


def test_receives_of_several_and_ignored_bits_are_those_of_a_provider(tmp_path):
    """Bits 4 and 8 are ignored by every receive of context 0: they are of no tag. A receive that
    ignores more is one of any tag."""
    path = write_trace(
        tmp_path / "a.pwt",
        [
            [send(1, tag=1 + 4, flags=WAS_EAGER), send(1, tag=2 + 8, flags=WAS_EAGER),
             Send(1, 5, 0, 0, 70, 0, 0, WAS_EAGER), Send(1, 5, 0, 0, 80, 0, 0, WAS_EAGER)],
            [Receive(None, 5, 0, 0, 9999, 0, 0, MULTI), receive(0, tag=1, flags=2, ignored=12),
             Done(0), receive(0, tag=2, flags=2, ignored=15), Done(0), Part(2, 0, 0), Done(0),
             Part(3, 0, 0), Done(0)],
        ],
    )  # fmt: skip
    problems = convert(path, tmp_path / "a.ti")
    assert (tmp_path / "a.ti").read_text().splitlines() == [
        "0 init", "0 send 1 1 65536", "0 send 1 2 65536", "0 send 1 1073741824 70",
        "0 send 1 1073741824 80", "0 finalize", "1 init", "1 recv 0 1 65536", "1 recv 0 -444 65536",
        "1 recv 0 1073741824 -1", "1 recv 0 1073741824 -1", "1 finalize",
    ]  # fmt: skip
    assert problems.notes()[0] == "receives that ignore a part of the tag, as of any tag: 1"


def test_meetings_become_barriers(tmp_path):
    """Of three ranks, of which the middle one is elsewhere and alone."""
    meeting = [Compute(5), Meet(77, 2), Compute(6), Meet(77, 2)]
    path = write_trace(tmp_path / "a.pwt", [meeting, [Meet(8, 1)], meeting])
    problems = convert(path, tmp_path / "a.ti")
    assert problems.notes() == ["meetings of clocks (MEET), as barriers of empty messages: 5"]
    assert (tmp_path / "a.ti").read_text().splitlines()[:8] == [
        "0 init", "0 compute 5", "0 irecv 2 1073741824 0", "0 send 2 1073741824 0",
        "0 wait 2 0 1073741824", "0 compute 6", "0 irecv 2 1073741824 0", "0 send 2 1073741824 0",
    ]  # fmt: skip


def test_tags_of_other_contexts_are_told_apart(tmp_path):
    ranks = [[Send(0, context, 3, 0, 8, 0, 0), Done(0), Receive(0, context, 3, 0, 8, 0, 0), Done(0)]
             for context in (5, 9)]  # fmt: skip
    path = write_trace(tmp_path / "a.pwt", [[*ranks[0], *ranks[1]]])
    problems = convert(path, tmp_path / "a.ti")
    assert "0 send 0 3 8\n0 recv 0 3 8\n0 send 0 1073741824 8\n" in (tmp_path / "a.ti").read_text()
    assert problems.notes() == ["tags that have other numbers now: 1"]


# ---- buffers


@pytest.mark.parametrize(
    "buffers, num_sent, num_received", [("reuse", 2, 2), ("fresh", 6, 6), ("pool:3", 3, 3)]
)
def test_buffers_are_where_they_were_asked_for(tmp_path, buffers, num_sent, num_received):
    sends = "".join(f"send 5000b to 1 tag {tag}\n" for tag in (0, 1) * 3)
    receives = "".join(f"recv 5000b from 0 tag {tag}\n" for tag in (0, 1) * 3)
    from_text(tmp_path, TWO.format(sends, receives), buffers=buffers)
    sent, received = records_of(tmp_path / "out.pwt", Send, Receive, Pages)
    for records, number, cls in ((sent, num_sent, Send), (received, num_received, Receive)):
        places = {(r.region, r.offset) for r in records if isinstance(r, cls)}
        told = {(r.region, r.page * 4096) for r in records if isinstance(r, Pages)}
        assert len(places) == number
        is_untouched = cls is Receive and buffers == "fresh"
        assert told == (set() if is_untouched else places)


def test_wrong_buffers_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="--buffers pool:0: allowed is fresh, reuse, pool:K"):
        from_text(tmp_path, TWO.format("", ""), buffers="pool:0")
    with pytest.raises(ConfigError, match="--buffers recorded: '.*' does not say where"):
        from_text(tmp_path, TWO.format("", ""), buffers="recorded")


# ---- SimGrid's TI

RING = """\
# a comment
0 init
1 init 1

0 isend 1 0 1e3
0 irecv 1 7 10 1
0 compute 5e2
0 test 0 1 0
0 wait 0 1 0
0 wait 0 1 0
0 waitall 1
0 sleep 1e-6
1 recv 0 0 -1
1 send 0 7 5
1 finalize
0 finalize
"""


def test_ti_is_read_as_smpi_reads_it(tmp_path):
    ranks, problems = from_text(tmp_path, RING, "in.ti", ns_per_flop=2.0)
    assert ranks[0] == [
        Sent(1, 0, 1000), Received(1, 7, 40), Calc(1000), Waited(0), Waited(1), Calc(1000),
    ]  # fmt: skip
    assert ranks[1][2:] == [Sent(0, 7, 40), Waited(1)]  # 5 doubles, since init has an argument
    unsized = records_of(tmp_path / "out.pwt", Receive)[1][0]
    assert unsized.flags == UNSIZED
    assert problems.notes() == ["tests, which are waits where the trace waits: 1"]


def test_ti_has_the_numbers_of_smpi(tmp_path):
    """Of any source and tag, there and back; and a message to nobody is none."""
    text = "0 irecv -555 -444 8 6\n0 send -666 0 8 6\n0 recv -666 0 8 6\n0 wait -555 0 -444\n"
    ranks, problems = from_text(tmp_path, f"{text}1 send 0 5 8 6\n", "in.ti")
    assert ranks[0] == [Received(None, None, 8), Waited(0)]
    assert problems.notes() == ["messages with MPI_PROC_NULL, which are none: 2"]
    convert(tmp_path / "out.pwt", tmp_path / "again.ti")
    assert "0 recv -555 -444 8\n" in (tmp_path / "again.ti").read_text()


def test_ti_has_a_file_for_each_rank(tmp_path):
    (tmp_path / "rank0").write_text("0 send 1 0 8\n1 compute 5\n")
    (tmp_path / "rank1").write_text("1 recv 0 0 8\n")
    ranks, _ = from_text(tmp_path, "rank0\nrank1\n", "list.txt")
    assert ranks == [[Sent(1, 0, 8), Waited(0)], [Received(0, 0, 8), Waited(0)]]


COLLECTIVES = """\
barrier
bcast 1000 1 6
reduce 100 1e3 1 6
allreduce 100 1e3 6
alltoall 100 100 6 6
allgather 100 100 6 6
gather 100 100 1 6 6
scatter 100 100 1 6 6
gatherv 100 100 100 100 1 6 6
scatterv 100 100 100 100 1 6 6
allgatherv 100 100 100 100 6 6
alltoallv 0 10 20 30 0 10 20 30 6 6
reducescatter 10 20 30 1e3 6
scan 100 1e3 6
exscan 100 1e3 6
sendRecv 10 1 20 2 6 6
"""


def test_collectives_of_ti_become_messages(tmp_path):
    """Every rank sends what another receives; the sizes of alltoallv differ by rank."""
    lines = []
    for rank in range(3):
        for line in COLLECTIVES.splitlines():
            if line.startswith("alltoallv"):
                line = f"alltoallv 0 10 20 30 0 {' '.join([str((rank + 1) * 10)] * 3)} 6 6"
            elif line.startswith("sendRecv"):
                line = f"sendRecv 10 {(rank + 1) % 3} 10 {(rank - 1) % 3} 6 6"
            lines.append(f"{rank} {line}\n")
    ranks, problems = from_text(tmp_path, "".join(lines), "in.ti")
    sent, received = collections.defaultdict(list), collections.defaultdict(list)
    for rank, operations in enumerate(ranks):
        assert sum(each.ns for each in operations if isinstance(each, Calc)) == 5000
        for each in operations:
            if isinstance(each, Sent):
                sent[rank, each.peer, each.tag].append(each.num_bytes)
            elif isinstance(each, Received):
                received[each.peer, rank, each.tag].append(each.num_bytes)
    assert sent == received and problems.sentences() == []


@pytest.mark.parametrize(
    "text, why",
    [
        ("0 send\n", "line 1: the arguments of send are wrong"),
        ("0 send 1 0 x\n1 finalize\n", "line 1: the arguments of send are wrong: 1 0 x"),
        ("0 send 4 0 8\n", "line 1: rank 4: the trace has 1 ranks"),
        ("0 recv 0 0 8 99\n", "line 1: datatype 99 has no length"),
        ("0 init\nx\n", "line 2: an action is RANK ACTION ARGUMENTS"),
        (
            "0 waitAny\n0 compute 1\n0 waitAny\n0 ibarrier\n",
            r"action waitany: 2 times, '.*in.ti', line 1, '.*in.ti', line 3; action ibarrier",
        ),
    ],
)
def test_wrong_ti_is_refused_with_its_line(tmp_path, text, why):
    with pytest.raises(TraceError, match=why):
        from_text(tmp_path, text, "in.ti")


# ---- PMPI

WORLD = "1140850688,{},2"
PMPI = [
    """\
# liballprof
MPI_Init:-:140734714680652:140734714680640:1000.0
MPI_Comm_rank:1001.0:1140850688,0,2:140734714680652:1001.5
MPI_Isend:1010.0:20480100:3000:11,8,8:1:5:{world}:7000000:1012.0
MPI_Irecv:1014.0:20508000:3000:11,8,8:1:6:{world}:7000008:1015.0
MPI_Test:1016.0:7000000:1:140734714680640:1016.5
MPI_Waitall:1020.0:2:7000000:1:1030.0
MPI_Bcast:1031.0:20480100:10:1,4,4:0:{world}:1032.0
MPI_Send:1033.0:20480100:3000:11,8,8:1:5:{world}:1034.0
MPI_Barrier:1040.25:{world}:1041.0
MPI_Finalize:1050.0:-
""",
    """\
MPI_Init:-:140734714680652:140734714680640:500.0
MPI_Recv:510.0:99999999:3000:11,8,8:0:5:{world}:140734714680640:511.0
MPI_Send:512.0:88888:3000:11,8,8:0:6:{world}:513.0
MPI_Bcast:514.0:88888:10:1,4,4:0:{world}:515.0
MPI_Recv:516.0:99999999:3000:11,8,8:-1:-1:{world}:140734714680640:517.0
MPI_Barrier:540.0:{world}:541.0
MPI_Finalize:550.0:-
""",
]


def write_pmpi(folder, texts=PMPI):
    for rank, text in enumerate(texts):
        path = folder / f"pmpi-trace-rank-{rank}.txt"
        path.write_text(text.replace("{world}", WORLD.format(rank)))
    return folder / "pmpi-trace-rank-0.txt"


def test_pmpi_has_addresses_and_keeps_them(tmp_path):
    """Buffers of rank 0: 24,000 bytes at 20480100, and at 20508000, on adjacent pages: a region."""
    convert(write_pmpi(tmp_path), tmp_path / "out.pwt", buffers="recorded")
    ranks = plain(tmp_path / "out.pwt")
    assert ranks[0][:6] == [
        Calc(1000 + 8500), Sent(1, 5, 24000), Calc(2000), Received(1, 6, 24000), Calc(1000 + 3500),
        Waited(0),
    ]  # fmt: skip
    with Reader(str(tmp_path / "out.pwt")) as reader:
        regions = [reader.regions(rank) for rank in range(2)]
    base = 20480100 - 20480100 % 4096
    assert regions[0] == {4: base}
    sends, receives = (records_of(tmp_path / "out.pwt", cls)[0] for cls in (Send, Receive))
    assert (sends[0].region, sends[0].offset) == (4, 20480100 - base)
    assert (receives[0].region, receives[0].offset) == (4, 20508000 - base)
    first, last = 20480100 // 4096 - base // 4096, (20480100 + 23999) // 4096 - base // 4096
    pages = records_of(tmp_path / "out.pwt", Pages)[0]
    assert pages[0] == Pages(4, first, last - first + 1, lib.PW_PAGE_PRESENT)
    assert len([each for each in pages if each.count > 1]) == 1  # told once
    assert Received(None, None, 24000) in ranks[1]


def test_pmpi_buffers_can_be_others(tmp_path):
    convert(write_pmpi(tmp_path), tmp_path / "out.pwt", buffers="fresh")
    with Reader(str(tmp_path / "out.pwt")) as reader:
        assert reader.regions(0) == {}
        assert reader.meta()["converted"] == {"from": "PMPI", "buffers": "fresh"}


def test_collectives_of_pmpi_become_messages(tmp_path):
    calls = [
        "MPI_Allreduce:{t}:1000000:2000000:10:2,4,4:3:{world}:{t}",
        "MPI_Reduce:{t}:1000000:2000000:10:2,4,4:3:1:{world}:{t}",
        "MPI_Allgather:{t}:1000000:10:2,4,4:2000000:10:2,4,4:{world}:{t}",
        "MPI_Alltoall:{t}:1000000:10:2,4,4:2000000:10:2,4,4:{world}:{t}",
        "MPI_Gather:{t}:1000000:10:2,4,4:2000000:10:2,4,4:1:{world}:{t}",
        "MPI_Scatter:{t}:1000000:10000:2,4,4:2000000:10000:2,4,4:1:{world}:{t}",
        "MPI_Scan:{t}:1000000:2000000:10:2,4,4:3:{world}:{t}",
        "MPI_Sendrecv:{t}:1000000:10:2,4,4:{peer}:3:2000000:10:2,4,4:{peer}:3:{world}:5:{t}",
    ]
    texts = [
        "".join(f"{line}\n" for line in calls)
        .replace("{t}", "5.0")
        .replace("{peer}", str(1 - rank))
        for rank in range(2)
    ]
    convert(write_pmpi(tmp_path, texts), tmp_path / "out.pwt")
    sizes = [[each.num_bytes for each in rank if isinstance(each, Sent)]
             for rank in plain(tmp_path / "out.pwt")]  # fmt: skip
    assert sizes == [[40, 40, 40, 40, 40, 40, 40], [40, 40, 40, 40000, 40, 40]]


@pytest.mark.parametrize(
    "line, why",
    [
        ("MPI_Send:1.0", "line 1: a line is FUNCTION:T0:ARGUMENTS:T1"),
        ("MPI_Send:x:5:3:11,8,8:1:5:{world}:2.0", "'x' is no time"),
        ("MPI_Send:1.0:5:3:11:1:5:{world}:2.0", "buffer, count or datatype cannot be"),
        ("MPI_Send:1.0:5:3:11,8,8:7:5:{world}:2.0", "rank 7: the trace has 2 ranks"),
        (
            "MPI_Send:1.0:5:3:11,8,8:1:5:9,0,4:2.0",
            "calls on a communicator .*: rank 0 of 4: 1 times",
        ),
        ("MPI_Alltoallv:1.0:5:2.0", "MPI_Alltoallv: 1 times, '.*rank-0.txt', line 1"),
        ("MPI_Waitany:1.0:5:2.0", "MPI_Waitany: 1 times"),
    ],
)
def test_wrong_pmpi_is_refused_with_its_line(tmp_path, line, why):
    path = write_pmpi(tmp_path, [f"{line}\n", "MPI_Finalize:1.0:-\n"])
    with pytest.raises(TraceError, match=why):
        convert(path, tmp_path / "out.pwt")


def test_the_name_of_a_pmpi_file_has_its_rank(tmp_path):
    (tmp_path / "a-0-0.txt").write_text(PMPI[1].replace("{world}", "1,0,1"))
    with pytest.raises(TraceError, match="has one `-0`, which is its rank"):
        convert(tmp_path / "a-0-0.txt", tmp_path / "out.pwt")


# ---- anything

TEXT = """
num_ranks rank send recv calc to from tag cpu { } requires irequires l1 l1: b 0 1 2 -1 8b
init isend irecv wait waitall barrier bcast allreduce compute 1e3 x
MPI_Send MPI_Recv MPI_Waitall MPI_Bcast : 1.0 - 11,8,8 5,0,1
"""
WORDS = st.sampled_from([*TEXT.split(), "\n", "\n\n"])


@pytest.mark.parametrize("first", ["num_ranks 1\nrank 0 {\n", "0 init\n", "MPI_Init:-:1:1:1.0\n"])
@given(words=st.lists(WORDS, max_size=30), glue=st.sampled_from([" ", ":"]))
def test_any_text_is_converted_or_refused(tmp_path_factory, first, words, glue):
    path = tmp_path_factory.mktemp("any") / "a-0.txt"
    path.write_text(first + glue.join(words).replace("\n:", "\n"))
    try:
        convert(path, path.with_suffix(".pwt"))
    except ConfigError as error:
        assert str(error)


# ---- the command


def test_the_command_converts_and_tells(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("a.goal").write_text(TWO.format(BESIDE, "send 8b to 0\nsend 8b to 0 tag 1\n"))
    assert main(["trace", "convert", "a.goal", "a.pwt"]) == 2
    assert "rank 0 operation 3" in capfd.readouterr().err
    assert main(["trace", "convert", "a.goal", "a.pwt", "--skip-unsupported"]) == 0
    assert "pagewire: left out: operations beside each other" in capfd.readouterr().err
    assert main(["trace", "check", "a.pwt"]) == 0


@pytest.mark.parametrize(
    "source, target, why",
    [
        ("none.goal", "a.pwt", "'none.goal' cannot be read"),
        ("a.goal", "a.xyz", "'a.xyz': the end of a name says the format"),
        ("a.goal", "a.ti", "from goal to ti: make a .pwt first"),
        ("a.pwt", "b.pwt", "'a.pwt' is a trace already"),
        ("noise", "a.pwt", "'noise' is in no format that can be read"),
    ],
)
def test_what_cannot_be_converted_is_refused(tmp_path, monkeypatch, source, target, why):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("a.goal").write_text(TWO.format("calc 1", "calc 1"))
    pathlib.Path("noise").write_text("?? ?? ??\n")
    write_trace("a.pwt", [[Compute(1)]])
    with pytest.raises(ConfigError, match=why):
        convert(source, target)
