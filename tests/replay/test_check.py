"""`check` finds what is wrong with a trace, in a sentence each, and nothing in one that is well."""

import pytest
from trace_texts import receive, send, write_trace

from pagewire.replay.check import check
from pagewire.replay.records import (
    IGNORES,
    MULTI,
    TAKEN,
    WAS_EAGER,
    Atomic,
    Call,
    Cancel,
    Compute,
    Deregister,
    Done,
    Enter,
    Found,
    Get,
    Leave,
    Left,
    Meet,
    Name,
    Pages,
    Part,
    Put,
    Register,
    Take,
    Told,
)
from pagewire.replay.trace import OPS, Reader, Writer

EXCHANGE = [
    [Name(0, "MPI_Send"), Call(0), send(1), Done(0), Leave()],
    [Enter(), receive(0), Done(0), Leave()],
]


def found_in(path):
    with Reader(path) as reader:
        return list(check(reader))


@pytest.mark.parametrize(
    "ranks, more",
    [
        (EXCHANGE, {}),
        (EXCHANGE, {"times": [[5, 6], [5, 6]]}),
        ([[send(1), Done(0)], [receive(None), Done(0)]], {"matches": [[], [1, 0]]}),
        ([[send(1), Done(0)], [receive(None), Done(0)]], {}),
        ([[], [receive(None), Cancel(0)]], {"matches": [[], [0, 0]]}),
        ([[], [receive(0), Cancel(0)]], {}),
        ([[send(1, flags=WAS_EAGER)], [Found(0, 0, 7, 0, TAKEN), Take(0, 9, 0, 0), Told(0)]], {}),
        ([[send(1, flags=WAS_EAGER)], [Found(0, 0, 7, 0), receive(0), Done(0)]], {}),
        (
            [
                [send(1, flags=WAS_EAGER), send(1, flags=WAS_EAGER)],
                [receive(0, flags=MULTI), Part(0, 0, 0), Part(1, 0, 0), Done(2)],
            ],
            {},
        ),
        (
            [
                [send(1, tag=5), Done(0), send(1, tag=6), Done(0)],
                [
                    receive(0, tag=0, flags=IGNORES, ignored=7),
                    Done(0),
                    receive(0, tag=5),
                    Done(0),
                ],
            ],
            {},
        ),
        ([[Meet(0, 2)], [Meet(0, 2)]], {}),
        ([[receive(None, flags=MULTI)]], {}),
        (
            [
                [Put(1, 8, 0, 0, 1, 0), Get(1, 8, 0, 0, 1, 0, 2), Atomic(1, 8, 1, 0, 48, 24),
                 Done(0), Done(1), Done(2)],
                [Register(8, 0, 0), Deregister(0)],
            ],
            {},
        ),
    ],
)  # fmt: skip
def test_nothing_is_said_of_a_trace_that_is_well(tmp_path, ranks, more):
    assert found_in(write_trace(tmp_path / "a.pwt", ranks, **more)) == []


@pytest.mark.parametrize(
    "ranks, more, sentences",
    [
        (
            [[send(1), Done(0), send(1), Done(0)], [receive(0), Done(0)]],
            {},
            ["rank 0: 1 message to rank 1 (context 0, tag 7), which nobody receives"],
        ),
        (
            [[], [receive(0), Done(0), receive(0), Done(0)]],
            {},
            ["rank 1: 2 receives from rank 0 (context 0, tag 7), for which nobody sends"],
        ),
        (
            [[send(1), Done(0)], [receive(None), Done(0), receive(None), Done(0)]],
            {},
            ["rank 1: 1 receive from any rank (context 0, tag 7), for which nobody sends"],
        ),
        (
            [[send(1), Done(0)], [receive(None), Done(0)], []],
            {"matches": [[], [3, 2], []]},
            [
                "rank 0: 1 message to rank 1 (context 0, tag 7), which nobody receives",
                "rank 1: 1 receive from rank 2 (context 0, tag 7), for which nobody sends",
            ],
        ),
        (
            [[send(1, tag=16), Done(0)], [receive(0, tag=8, flags=IGNORES, ignored=7), Done(0)]],
            {},
            [
                "rank 0: 1 message to rank 1 (context 0, tag 16), which nobody receives",
                (
                    "rank 1: 1 receive from rank 0 (context 0, tag 8 but for bits 0x7), for "
                    "which nobody sends"
                ),
            ],
        ),
        (
            [[send(1)], [Compute(1), receive(0)]],
            {},
            [
                "rank 0: record 0: SEND to rank 1 (65536 bytes, tag 7) is never waited for",
                "rank 1: record 1: RECEIVE from rank 0 (65536 bytes, tag 7) is never waited for",
            ],
        ),
        (
            [[Done(0), send(0, flags=WAS_EAGER), Done(0)], [Cancel(3)]],
            {},
            [
                "rank 0: record 0: DONE names operation -1 of 0",
                "rank 0: record 2: DONE names operation 0, which is not under way",
                "rank 1: record 0: CANCEL names operation -4 of 0",
                "rank 0: 1 message to rank 0 (context 0, tag 7), which nobody receives",
            ],
        ),
        (
            [[send(1), Done(0), Done(0)], [receive(0), Done(0), send(5), Done(0)]],
            {},
            [
                "rank 0: record 2: DONE names operation 0, which is not under way",
                "rank 1: record 2: SEND has peer 5, and the trace 2 ranks",
                "rank 1: 1 message to rank 5 (context 0, tag 7), which nobody receives",
            ],
        ),
        (
            [[Call(3), Leave(), Leave(), Left(), Pages(0, 0, 1, 9), Meet(0, 3), Meet(0, 0)]],
            {},
            [
                "rank 0: record 0: CALL has name 3, which no NAME gives",
                "rank 0: record 2: LEAVE leaves no call",
                "rank 0: record 3: LEFT ends no phase",
                "rank 0: record 4: PAGES has state 9; allowed is 0 to 4",
                "rank 0: record 5: MEET is of 3 ranks, and the trace has 1",
                "rank 0: record 6: MEET is of 0 ranks, and the trace has 1",
            ],
        ),
        (
            [
                [
                    Put(1, 0, 0, 0, 0, 0),
                    Get(0, 8, 0, 0, 0, 0, 2),
                    Done(0),
                    Register(8, 0, 0, 8),
                    Deregister(1),
                ]
            ],
            {},
            [
                "rank 0: record 0: PUT has peer 1, and the trace 1 ranks",
                "rank 0: record 0: PUT is of 0 bytes; allowed is 1 to 4294967295",
                "rank 0: record 3: REGISTER has flags 0x8, which this version does not know",
                "rank 0: record 4: DEREGISTER names registration 1: there is none",
                "rank 0: record 0: PUT with rank 1 (0 bytes) is never waited for",
            ],
        ),
        (
            [[Get(0, 8, 0, 0, 0, 0, 2), Done(0)]],
            {},
            ["rank 0: record 0: GET names key 2, which was not told"],
        ),
        (
            [[receive(None, flags=16), Done(0), send(0), Done(0)]],
            {"matches": [[1, 0, 1, 0]], "times": [[1, 2]]},
            [
                "rank 0: record 0: RECEIVE has flags 0x10, which this version does not know",
                "rank 0: MATCHES tells of 2 receives from any source; there are 1",
                "rank 0: TIMES has 2 times for 1 calls and the END",
            ],
        ),
    ],
)
def test_what_is_wrong_is_told(tmp_path, ranks, more, sentences):
    assert found_in(write_trace(tmp_path / "a.pwt", ranks, **more)) == sentences


def test_damage_is_told_and_the_other_ranks_are_looked_at(tmp_path):
    path = tmp_path / "a.pwt"
    write_trace(path, [[Compute(1)], [Leave()], [Compute(3)]])
    with Reader(str(path)) as reader:
        chunk = next(each for each in reader.chunks if (each.rank, each.kind) == (0, OPS))
    data = bytearray(path.read_bytes())
    data[chunk.offset + 33] ^= 1
    path.write_bytes(data)
    assert found_in(str(path)) == [
        f"'{path}': chunk 0 of OPS of rank 0 at byte {chunk.offset} is damaged: its CRC is wrong",
        "rank 1: record 0: LEAVE leaves no call",
    ]


def test_a_killed_run_is_told(tmp_path):
    path = tmp_path / "a.pwt"
    with Writer(str(path), 2) as writer:
        writer.write(0, [Compute(1)])
    path.write_bytes(path.read_bytes()[:-16])
    sentences = found_in(str(path))
    assert "the run was killed" in sentences[0]
    assert sentences[1:] == [
        f"rank {rank} has no END: it was killed, or its trace is cut off" for rank in range(2)
    ]


def test_records_behind_the_end_are_told(tmp_path):
    path = tmp_path / "a.pwt"
    write_trace(path, [[Compute(1)]])
    with Writer(str(path), 1) as writer:
        writer.add(0, OPS, b"\0\x05", 2)
    assert found_in(str(path)) == ["rank 0: record 1: LEAVE stands behind the END"]
