"""Parts of traces: what is in them, with which pages they begin, and which are refused."""

import os

import pytest
from trace_texts import receive, send, write_trace

from pagewire.native import lib
from pagewire.replay.anonymise import anonymise
from pagewire.replay.check import check
from pagewire.replay.cut import Calls, Phase, cut
from pagewire.replay.records import (
    HAS_DATA,
    Atomic,
    Call,
    Compute,
    Deregister,
    Done,
    End,
    Enter,
    Get,
    Leave,
    Left,
    Meet,
    Name,
    Pages,
    Put,
    Region,
    Register,
    Send,
    TraceError,
    Unmap,
    number,
)
from pagewire.replay.trace import KEYS, REGIONS, TURNS, Reader, Writer

PRESENT, ABSENT = int(lib.PW_PAGE_PRESENT), int(lib.PW_PAGE_ABSENT)


def call(*inside):
    return [Call(0), *inside, Leave()]


def step(operation, ns):
    return [Region("step"), Compute(ns), *call(operation, Done(0)), Left()]


def two_steps(peer=0):
    """Two ranks; in each of two phases of one name the second takes a message of `peer`."""
    first, second = send(1), receive(peer)
    return [
        [Name(0, "MPI_Wait"), Pages(2, 0, 5, PRESENT), Pages(2, 0, 5, ABSENT),
         *step(first, 10), Unmap(3, 1, 1), *step(first, 30)],
        [Name(0, "MPI_Wait"), *step(second, 20), *step(second, 40)],
    ]  # fmt: skip


def parts_of(path):
    with Reader(path) as reader:
        assert list(check(reader)) == []
        return [list(reader.records(rank)) for rank in range(reader.num_ranks)]


def make(tmp_path, ranks, part, **more):
    with Reader(write_trace(tmp_path / "a.pwt", ranks, **more)) as reader:
        cut(reader, part, str(tmp_path / "b.pwt"))
    return parts_of(str(tmp_path / "b.pwt"))


def test_a_phase_is_cut_out(tmp_path):
    made = make(tmp_path, two_steps(), Phase("step"), times=[[1, 2, 3], [1, 2, 3]])
    assert made == [
        [Name(0, "MPI_Wait"), Pages(2, 0, 5, ABSENT), *step(send(1), 10), End()],
        [Name(0, "MPI_Wait"), *step(receive(0), 20), End()],
    ]
    with Reader(str(tmp_path / "b.pwt")) as reader:
        assert reader.meta()["cut"] == "phase 'step'"
        assert list(reader.times(0)) == []


def test_a_later_phase_begins_with_the_pages_that_the_earlier_left(tmp_path):
    """The buffers of the messages before are present: 65536 bytes from offset 0 of region 0."""
    made = make(tmp_path, two_steps(), Phase("step", 2))
    sixteen = Pages(0, 0, 16, PRESENT)
    assert made[0] == [
        Name(0, "MPI_Wait"), Pages(2, 0, 5, ABSENT), sixteen, Unmap(3, 1, 1),
        *step(send(1), 30), End(),
    ]  # fmt: skip
    assert made[1] == [Name(0, "MPI_Wait"), sixteen, *step(receive(0), 40), End()]


def test_marks_stand_in_calls_that_cost_nothing(tmp_path):
    """As regions() of the facade records them; these calls are begun and ended once more."""
    rank = [
        Enter(), Region("step"), Leave(), Compute(7), Enter(), Left(), Leave(), Compute(9),
    ]  # fmt: skip
    made = make(tmp_path, [rank], Phase("step"))
    assert made == [[Enter(), Region("step"), Leave(), Compute(7), Enter(), Left(), Leave(), End()]]


def test_an_unaligned_base_counts(tmp_path):
    made = make(tmp_path, two_steps(), Phase("step", 2), regions=[[0, 4097], []])
    assert Pages(0, 0, 17, PRESENT) in made[0] and Pages(0, 0, 16, PRESENT) in made[1]


def test_calls_are_cut_out_with_the_phases_around_them(tmp_path):
    made = make(tmp_path, two_steps(), Calls(1, 2))
    assert made[1] == [
        Name(0, "MPI_Wait"), Region("step"), Pages(0, 0, 16, PRESENT),
        *call(receive(0), Done(0)), Left(), End(),
    ]  # fmt: skip


def one_sided(tmp_path):
    """Rank 0's region 1 is rank 1's region 0: a page behind it."""
    ranks = [
        [Name(0, "MPI_Put"), Put(1, 8192, 0, 0, 1, 0, 1), Done(0), Region("step"),
         *call(Get(1, 8, 0, 0, 1, 8, 2), Atomic(1, 8, 1, 0, 48, 24), Done(1), Done(0)), Left()],
        [Name(0, "MPI_Put"), Register(9, 0, 0), Deregister(0), Register(99, 0, 4096),
         Region("step"), *call(Register(5, 0, 0), Deregister(1), Deregister(2)), Left()],
    ]  # fmt: skip
    path = write_trace(tmp_path / "a.pwt", ranks, regions=[[0, 1 << 30, 1, (5 << 40) + 4096],
                                                           [0, 5 << 40]])  # fmt: skip
    with Reader(path) as reader, Writer(str(tmp_path / "c.pwt"), 2, {}) as writer:
        for rank, keys in enumerate([[71], [70, 71, 72]]):
            writer.write(rank, reader.records(rank))
            for region, base in reader.regions(rank).items():
                writer.add(rank, REGIONS, number(region) + number(base), 1)
            for key in keys:
                writer.add(rank, KEYS, number(key), 1)
            writer.end_rank(rank)
    return str(tmp_path / "c.pwt")


def test_what_is_registered_before_the_part_is_registered_anew(tmp_path):
    """And what peers have written is present."""
    with Reader(one_sided(tmp_path)) as reader:
        cut(reader, Phase("step"), str(tmp_path / "b.pwt"))
    origin, owner = parts_of(str(tmp_path / "b.pwt"))
    assert origin[2] == Region("step")
    assert origin[4:6] == [Get(1, 8, 0, 0, 1, 8, 1), Atomic(1, 8, 1, 0, 48, 24)]
    assert owner[1:3] == [Pages(0, 1, 2, PRESENT), Register(99, 0, 4096)]
    assert owner[3:] == [
        Region("step"), *call(Register(5, 0, 0), Deregister(0), Deregister(1)), Left(), End(),
    ]  # fmt: skip
    with Reader(str(tmp_path / "b.pwt")) as reader:
        assert [list(reader.numbers(rank, KEYS)) for rank in range(2)] == [[71], [71, 72]]


def test_a_put_that_is_under_way_crosses_the_end(tmp_path):
    ranks = [[Put(0, 8, 0, 0, 0, 0), *step(send(0), 1), Done(1)]]
    with pytest.raises(TraceError, match=r"PUT with rank 0 \(8 bytes\) of record 0 is under way"):
        make(tmp_path, ranks, Phase("step"))


def test_addresses_of_peers_are_hidden_with_theirs(tmp_path):
    with Reader(one_sided(tmp_path)) as reader:
        anonymise(reader, str(tmp_path / "b.pwt"))
    with Reader(str(tmp_path / "b.pwt")) as reader:
        assert reader.regions(1) == {0: 1 << 40}
        assert reader.regions(0) == {0: 1 << 40, 1: (1 << 40) + 4096}
        assert list(reader.numbers(0, KEYS)) == [71]


def test_matches_are_those_of_the_part(tmp_path):
    ranks = two_steps(None)
    make(tmp_path, ranks, Phase("step", 2), matches=[[], [1, 0, 1, 0]])
    with Reader(str(tmp_path / "b.pwt")) as reader:
        assert list(reader.numbers(1, 3)) == [1, 0]


@pytest.mark.parametrize(
    "ranks, part, why",
    [
        (two_steps(), Phase("solve"), "rank 0 has no phase 'solve'"),
        (two_steps(), Phase("step", 3), "rank 0 is in phase 'step' 2 times only"),
        (two_steps(), Calls(1, 3), "rank 0 has 2 calls, and no calls 1:3"),
        (two_steps(), Calls(2, 3), "rank 0 has 2 calls, and no calls 2:3"),
        (
            [[*step(send(1), 1)], [*step(send(0, rank=1), 1), receive(0), Done(0)]],
            Phase("step"),
            "in phase 'step': rank 0: 1 message to rank 1 .*crosses an end",
        ),
        (
            [[send(1), Done(0), *step(send(1), 1)], [*step(receive(0), 1), receive(0), Done(0)]],
            Phase("step"),
            "before phase 'step': rank 0: 1 message to rank 1 .*crosses an end",
        ),
        (
            [[receive(1), *step(send(1), 1)], []],
            Phase("step"),
            "rank 0: RECEIVE from rank 1 .* of record 0 is under way where the part begins",
        ),
        (
            [[Region("step"), send(1), Left(), Done(0)], []],
            Phase("step"),
            "rank 0: SEND to rank 1 .* of record 1 is under way where the part ends",
        ),
        (
            [[Call(0), Region("step"), Left(), Leave()]],
            Phase("step"),
            "rank 0: the part begins within a call, at record 1",
        ),
        (
            [[Region("step"), Meet(0, 2), Left()], [Meet(0, 2), Region("step"), Left()]],
            Phase("step"),
            "1 of the 2 ranks of group 0 meet",
        ),
    ],
)
def test_what_is_not_whole_is_refused_with_the_reason(tmp_path, ranks, part, why):
    path = write_trace(tmp_path / "a.pwt", ranks)
    with Reader(path) as reader, pytest.raises(TraceError, match=why):
        cut(reader, part, str(tmp_path / "b.pwt"))
    assert os.listdir(tmp_path) == ["a.pwt"]


def test_a_trace_without_names_has_the_same_messages(tmp_path):
    secret = [
        Name(0, "MPI_Send"), Name(1, "Isend"), Region("secret"),
        Call(0), Send(0, 0, 7, 0, 9, 0, 4, HAS_DATA, 77), Done(0), Leave(), Left(),
    ]  # fmt: skip
    meta = {
        "program": ["secret.py"],
        "version": 1,
        "eager_limit": 512,
        "host": "secret",
        "settings": {"memory": "part", "platform": "/secret/p.toml", "policy": "secret:Policy"},
    }
    path = write_trace(
        tmp_path / "a.pwt", [secret], meta=meta, regions=[[0, 0x7F12345678AB]], times=[[5, 6]]
    )
    with Writer(str(tmp_path / "turns.pwt"), 1, meta) as writer, Reader(path) as reader:
        writer.write(0, reader.records(0))
        writer.write_times(0, 0, [5, 6])
        writer.add(0, REGIONS, number(0) + number(0x7F12345678AB), 1)
        writer.add(0, TURNS, bytes((3, 2, 1)), 3)
    with Reader(str(tmp_path / "turns.pwt")) as reader:
        told = anonymise(reader, str(tmp_path / "b.pwt"))
    with Reader(str(tmp_path / "b.pwt")) as reader:
        assert list(reader.records(0)) == [
            Name(0, "MPI_Send"), Name(1, "Isend"), Region("phase 1"),
            Call(0), Send(0, 0, 7, 0, 9, 0, 4, HAS_DATA, 0), Done(0), Leave(), Left(), End(),
        ]  # fmt: skip
        assert reader.meta() == {
            "version": 1,
            "eager_limit": 512,
            "settings": {"memory": "part", "platform": "", "policy": ""},
        }
        assert reader.regions(0) == {0: (1 << 40) + 0x7F12345678AB % (1 << 21)}
        assert list(reader.times(0)) == [5, 6]
        assert list(reader.numbers(0, TURNS)) == [3, 2, 1]
    assert told[0] == "META: host, program left out"
