"""Trace files: what is written is read again, killed runs up to the kill, damage by its chunk."""

import os
import pathlib
import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_texts import ANY_RECORD

from pagewire.native import ffi, lib
from pagewire.replay import records, trace
from pagewire.replay.records import Call, Compute, End, Leave, Name, Send, TraceError

HEADER = pathlib.Path(__file__).resolve().parents[2] / "node" / "record" / "pwt_format.h"
PROGRAM = [Name(0, "MPI_Send"), Call(0), Send(1, 0, 7, 0, 65536, 0, -8), Leave(), End()]


def write(path, num_ranks=2, records_of=PROGRAM, **options):
    with trace.Writer(str(path), num_ranks, {"program": "a"}, **options) as writer:
        for rank in range(num_ranks):
            writer.write(rank, records_of)
            writer.write_times(rank, 0, [500, 400])
            writer.end_rank(rank)


def test_every_opcode_of_the_header_has_a_class():
    assert sorted(cls.op for cls in records.CLASSES) == list(range(lib.PW_OPS))
    names = {cls.__name__.upper(): cls.op for cls in records.CLASSES}
    assert names == {name: getattr(lib, f"PW_OP_{name}") for name in names}


def test_the_page_has_every_opcode_and_kind_of_the_header():
    page = (HEADER.parents[2] / "docs" / "trace-format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([A-Z]+) \|", page, re.MULTILINE)
    text = HEADER.read_text(encoding="utf-8").replace("\\\n", " ")
    defined = re.findall(r"#define PW_(OP|PWT)_(\w+) +(\d+)\b", text)
    others = ("VERSION", "CHUNK_BYTES", "CODEC_NONE", "CODEC_ZSTD", "OPEN_CHUNKS")
    expected = [(number, name) for _, name, number in defined if name not in others]
    assert sorted(rows) == sorted(expected)


def test_texts_are_those_of_the_header():
    found = dict(re.findall(r"#define (PW_PWT_\w*MAGIC) (.*?)(?: /\*.*)?\n", HEADER.read_text()))
    assert found == {
        "PW_PWT_MAGIC": '"PWTRACE\\n"',
        "PW_PWT_END_MAGIC": '"PWTEND.\\n"',
        "PW_PWT_CHUNK_MAGIC": "UINT32_C(0x4b4e4843)",
    }
    assert (trace.MAGIC, trace.END_MAGIC) == (b"PWTRACE\n", b"PWTEND.\n")
    assert trace.CHUNK_MAGIC == 0x4B4E4843


@pytest.mark.parametrize(
    "record, expected",
    [
        (Compute(300), b"\x01\xac\x02"),
        (Name(1, "é"), b"\x02\x01\x02\xc3\xa9"),
        (Send(1, 2, 3, 4, 5, 6, -1, 4), b"\x06\x01\x02\x03\x04\x05\x06\x01\x04"),
        (Send(1, 0, 0, 0, 2, 0, 1, 2, 128), b"\x06\x01\0\0\0\x02\0\x02\x02\x80\1"),
        (records.Receive(None, 0, 0, 0, 1, 0, 0), b"\x07\0\0\0\0\x01\0\0\0"),
        (records.Receive(4, 0, 0, 0, 1, 0, 0, 2, 128), b"\x07\5\0\0\0\x01\0\0\2\x80\1"),
        (records.Pass(-3), b"\x0d\x05"),
        (records.Pages(0, -2, 3, 1), b"\x12\x00\x03\x03\x01"),
        (records.Register(128, 1, -1, 3), b"\x19\x80\x01\x01\x01\x03"),
        (records.Deregister(2), b"\x1a\x02"),
        (records.Put(1, 8, 0, -1, 2, 1, 0), b"\x1b\x01\x08\0\x01\x02\x02\0"),
        (records.Get(1, 8, 0, -1, 2, 1, 2), b"\x1c\x01\x08\0\x01\x02\x02\x02"),
        (records.Atomic(1, 8, 2, -1, 48, 24), b"\x1d\x01\x08\x02\x01\x30\x18"),
    ],
)
def test_records_have_the_bytes_of_the_format(record, expected):
    assert records.encode(record) == expected
    assert list(records.decode(expected)) == [record]


@given(st.lists(ANY_RECORD, max_size=20))
def test_records_are_read_as_they_were_written(written):
    assert list(records.decode(b"".join(map(records.encode, written)))) == written


@given(st.binary(max_size=200))
def test_any_bytes_are_records_or_an_error(data):
    try:
        list(records.decode(data))
    except TraceError as error:
        assert re.match(r"byte \d+: ", str(error))


@pytest.mark.parametrize(
    "data, text",
    [
        (b"\x05\x1e", "byte 1: 30 is no opcode"),
        (b"\x05\x06\x01", "byte 1: Send is cut off"),
        (b"\x02\x01\x05ab", "byte 0: Name is cut off"),
        (b"\x02\x01\x01\xff", "byte 0: Name has no text in UTF-8"),
        (b"\x01" + b"\xff" * 9 + b"\x02", "byte 0: Compute: a number is longer than 64 bits"),
    ],
)
def test_a_wrong_record_is_named_with_its_byte(data, text):
    with pytest.raises(TraceError, match=text):
        list(records.decode(data))


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_numbers_out_of_range_are_refused(value):
    with pytest.raises(TraceError, match="allowed is 0 to 2\\^64 - 1"):
        records.encode(Compute(value))


@pytest.mark.parametrize("compresses", [False, True])
def test_a_file_is_read_as_it_was_written(tmp_path, compresses):
    many = [Compute(ns) for ns in range(1000)]
    write(tmp_path / "a.pwt", 3, [*PROGRAM[:-1], *many, End()], compresses=compresses,
          chunk_bytes=256)  # fmt: skip
    with trace.Reader(str(tmp_path / "a.pwt")) as reader:
        assert reader.num_ranks == 3 and reader.cut == ""
        assert reader.meta() == {"program": "a"}
        for rank in range(3):
            assert list(reader.records(rank)) == [*PROGRAM[:-1], *many, End()]
            assert list(reader.times(rank)) == [500, 400]
            assert list(reader.numbers(rank, trace.MATCHES)) == []
        chunks = [chunk for chunk in reader.chunks if chunk.rank == 1]
        assert len(chunks) > 5 and all(chunk.raw_bytes <= 256 for chunk in chunks)
        assert {chunk.codec for chunk in chunks} >= {int(compresses)}


def test_a_file_that_could_not_be_finished_is_not_there(tmp_path):
    path = tmp_path / "a.pwt"
    with pytest.raises(ZeroDivisionError), trace.Writer(str(path), 1) as writer:
        writer.write(0, PROGRAM)
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_a_killed_run_is_read_up_to_the_kill_wherever_it_came(tmp_path):
    """Cut at every byte: whole chunks are read, and nothing else."""
    path, part = tmp_path / "a.pwt", tmp_path / "b.pwt"
    write(path, 1, PROGRAM, chunk_bytes=16)
    data = path.read_bytes()
    with trace.Reader(str(path)) as reader:
        chunks = list(reader.chunks)
    ends = [chunk.offset + ffi.sizeof("pw_pwt_chunk_header") + chunk.stored_bytes
            for chunk in chunks]  # fmt: skip
    for length in range(32, len(data)):
        part.write_bytes(data[:length])
        with trace.Reader(str(part)) as reader:
            whole = sum(end <= length for end in ends)
            assert list(reader.chunks) == chunks[:whole]
            if length < ends[-1]:
                assert f"{whole} chunks are whole" in reader.cut
                lost = length - ([32, *ends][whole])
                assert f"{lost} bytes behind them are left out" in reader.cut
            read = list(reader.records(0))
            assert read == PROGRAM[: len(read)]


def test_a_last_chunk_that_was_not_written_whole_is_left_out(tmp_path):
    path = tmp_path / "a.pwt"
    write(path, 1, PROGRAM, chunk_bytes=16)
    with trace.Reader(str(path)) as reader:
        last = reader.chunks[-1]
        end = last.offset + 32 + last.stored_bytes
    data = bytearray(path.read_bytes()[:end])
    data[-1] ^= 1
    path.write_bytes(data)
    with trace.Reader(str(path)) as reader:
        assert last not in reader.chunks and f"{32 + last.stored_bytes} bytes" in reader.cut


@pytest.mark.parametrize("place", [4, 12, 28, 32])
def test_damage_is_named_by_its_chunk(tmp_path, place):
    path = tmp_path / "a.pwt"
    write(path)
    with trace.Reader(str(path)) as reader:
        chunk = next(each for each in reader.chunks if (each.rank, each.kind) == (1, trace.OPS))
    data = bytearray(path.read_bytes())
    data[chunk.offset + place] ^= 1
    path.write_bytes(data)
    with trace.Reader(str(path)) as reader:
        assert list(reader.records(0)) == PROGRAM
        named = f"chunk 0 of OPS of rank 1 at byte {chunk.offset} is damaged"
        with pytest.raises(TraceError, match=named):
            list(reader.records(1))


def test_a_wrong_record_in_a_sound_chunk_is_named(tmp_path):
    with trace.Writer(str(tmp_path / "a.pwt"), 1) as writer:
        writer.add(0, trace.OPS, b"\x05\xff", 2)
        writer.add(0, trace.TIMES, b"\x80", 1)
    with trace.Reader(str(tmp_path / "a.pwt")) as reader:
        with pytest.raises(TraceError, match="chunk 0 of OPS of rank 0 at byte 32: byte 1: 255"):
            list(reader.records(0))
        with pytest.raises(TraceError, match="the number at byte 0 is cut off"):
            list(reader.times(0))


def test_a_missing_chunk_is_missed(tmp_path):
    path = tmp_path / "a.pwt"
    write(path, 1, [Compute(ns) for ns in range(100)], chunk_bytes=64)
    with trace.Reader(str(path)) as reader:
        first, second = [each for each in reader.chunks if each.kind == trace.OPS][:2]
    data = path.read_bytes()
    path.write_bytes(data[: first.offset] + data[second.offset : -16])
    with (
        trace.Reader(str(path)) as reader,
        pytest.raises(TraceError, match="chunk 0 is missing"),
    ):
        list(reader.records(0))


@pytest.mark.parametrize(
    "content, text",
    [
        (b"", "no trace of pagewire"),
        (b"ELF" * 20, "no trace of pagewire"),
        (struct.pack("<8sIIQQ", b"PWTRACE\n", 9, 2, 0, 0), "version 9 of the format"),
        (struct.pack("<8sIIQQ", b"PWTRACE\n", 1, 0, 0, 0), "a trace of 0 ranks"),
        (
            struct.pack("<8sIIQQ", b"PWTRACE\n", 1, 1, 0, 0)
            + struct.pack("<Q8s", 1 << 63, b"PWTEND.\n"),
            "the index is damaged",
        ),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, content, text):
    path = tmp_path / "a.pwt"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=f"a.pwt.*{text}"):
        trace.Reader(str(path))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(TraceError, match="'nowhere.pwt' cannot be read: No such file"):
        trace.Reader("nowhere.pwt")


@given(st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=200)
def test_a_changed_byte_never_gives_another_program(tmp_path_factory, place, bits):
    path = tmp_path_factory.mktemp("damaged") / "a.pwt"
    write(path)
    data = bytearray(path.read_bytes())
    place %= len(data)
    data[place] ^= bits
    path.write_bytes(data)
    try:
        with trace.Reader(str(path)) as reader:
            for rank in range(min(reader.num_ranks, 2)):
                assert list(reader.records(rank)) in (PROGRAM, []) or place < 32
    except TraceError as error:
        assert "a.pwt" in str(error)


def parts(tmp_path, num_ranks=3):
    """What ranks write: each a file of its own, not compressed."""
    paths = [str(tmp_path / f"run.pwt.{rank}") for rank in range(num_ranks)]
    for rank, path in enumerate(paths):
        with trace.Writer(path, num_ranks, {"rank": rank}, compresses=False,
                          chunk_bytes=64) as writer:  # fmt: skip
            writer.write(rank, [Compute(rank * 1000 + ns) for ns in range(200)])
            writer.write_times(rank, 0, [1, 2])
    return paths


def test_parts_become_one_file(tmp_path):
    out = str(tmp_path / "run.pwt")
    assert trace.merge(parts(tmp_path), out) == []
    with trace.Reader(out) as reader:
        assert reader.num_ranks == 3 and reader.meta() == {"rank": 0}
        for rank in range(3):
            expected = [Compute(rank * 1000 + ns) for ns in range(200)]
            assert list(reader.records(rank)) == expected
            assert list(reader.times(rank)) == [1, 2]


def test_parts_that_were_cut_off_give_what_is_whole(tmp_path):
    paths = parts(tmp_path)
    out = str(tmp_path / "run.pwt")
    data = pathlib.Path(paths[1]).read_bytes()
    pathlib.Path(paths[1]).write_bytes(data[:300])
    pathlib.Path(paths[2]).write_bytes(b"")
    told = trace.merge(paths, out, {"program": "b"})
    assert len(told) == 2
    assert "run.pwt.1' has no index: the run was killed" in told[0]
    assert "nothing of rank 2 is kept" in told[1]
    with trace.Reader(out) as reader:
        assert reader.meta() == {"program": "b"}
        kept = list(reader.records(1))
        assert kept == [Compute(1000 + ns) for ns in range(len(kept))] and 0 < len(kept) < 200
        assert list(reader.records(2)) == []


def test_a_part_with_damage_is_kept_up_to_it(tmp_path):
    paths = parts(tmp_path, 1)
    with trace.Reader(paths[0]) as reader:
        chunk = [each for each in reader.chunks if each.kind == trace.OPS][2]
    data = bytearray(pathlib.Path(paths[0]).read_bytes())
    data[chunk.offset + 40] ^= 1
    pathlib.Path(paths[0]).write_bytes(data)
    (told,) = trace.merge(paths, str(tmp_path / "run.pwt"))
    assert f"chunk 2 of OPS of rank 0 at byte {chunk.offset} is damaged" in told
    assert "OPS of rank 0 ends before it" in told
