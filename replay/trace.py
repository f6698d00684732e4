"""Files of a recorded program (.pwt): chunks of every rank's streams, found by an index.

docs/trace-format.md has the format in words, node/record/pwt_format.h its structures. A file
without an index is that of a run that was killed: it is read up to there. Chunks are read when they
are asked for, so that a reader holds one chunk, and the index, which is 32 bytes for each.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import zstandard

from pagewire.native import ffi, lib
from pagewire.native.output import replacing
from pagewire.replay.records import (
    Record,
    TraceError,
    decode,
    encode,
    number,
    read_numbers,
    unzigzag,
    zigzag,
)

MAGIC = b"PWTRACE\n"
END_MAGIC = b"PWTEND.\n"
CHUNK_MAGIC = 0x4B4E4843

META = int(lib.PW_PWT_META)
OPS = int(lib.PW_PWT_OPS)
MATCHES = int(lib.PW_PWT_MATCHES)
TIMES = int(lib.PW_PWT_TIMES)
REGIONS = int(lib.PW_PWT_REGIONS)
INDEX = int(lib.PW_PWT_INDEX)
ALL_RANKS = int(lib.PW_PWT_ALL_RANKS)
TURNS = int(lib.PW_PWT_TURNS)
KEYS = int(lib.PW_PWT_KEYS)
ROOMS = int(lib.PW_PWT_ROOMS)
KINDS = {
    META: "META",
    OPS: "OPS",
    MATCHES: "MATCHES",
    TIMES: "TIMES",
    REGIONS: "REGIONS",
    TURNS: "TURNS",
    KEYS: "KEYS",
    ROOMS: "ROOMS",
}

_RAW, _ZSTD = int(lib.PW_PWT_CODEC_NONE), int(lib.PW_PWT_CODEC_ZSTD)
_CHUNK_BYTES = int(lib.PW_PWT_CHUNK_BYTES)
_FILE_HEADER = ffi.sizeof("pw_pwt_file_header")
_CHUNK_HEADER = ffi.sizeof("pw_pwt_chunk_header")
_INDEX_ROW = ffi.sizeof("pw_pwt_index_row")
_FOOTER = ffi.sizeof("pw_pwt_file_footer")
_CHUNKS_BYTES = 32 << 20
"""Of one chunk of each rank, which a replay holds: they are shorter where there are many ranks."""
_SHORTEST_CHUNK = 2048
_LONGEST_CHUNK = 1 << 30
"""More is damage: nobody wants to make room for that."""


class Chunk(NamedTuple):
    """Where a chunk is, as the index has it."""

    offset: int
    rank: int
    sequence: int
    raw_bytes: int
    num_records: int
    kind: int
    codec: int
    stored_bytes: int

    def __str__(self) -> str:
        owner = "all ranks" if self.rank == ALL_RANKS else f"rank {self.rank}"
        kind = KINDS.get(self.kind, f"kind {self.kind}")
        return f"chunk {self.sequence} of {kind} of {owner} at byte {self.offset}"


class Reader:
    """A trace that is read; a context manager, which closes it.

    `cut`: says how much at the end could not be used, if the run that wrote it was killed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.cut = ""
        try:
            self._file: BinaryIO = open(path, "rb")  # noqa: SIM115  close() does
            self._size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise TraceError(f"'{path}' cannot be read: {error.strerror}") from None
        try:
            self.num_ranks = self._read_header()
            self._chunks = self._read_index()
        except BaseException:
            self._file.close()
            raise
        self._streams: dict[tuple[int, int], list[Chunk]] = {}
        for chunk in self._chunks:
            self._streams.setdefault((chunk.rank, chunk.kind), []).append(chunk)
        for chunks in self._streams.values():
            chunks.sort(key=lambda each: each.sequence)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def chunks(self) -> Sequence[Chunk]:
        """All but the index, in the file's order."""
        return self._chunks

    def meta(self) -> dict[str, Any]:
        """What the run was: program, settings, platform, versions."""
        text = b"".join(self.stream(ALL_RANKS, META))
        try:
            made = json.loads(text) if text else {}
        except ValueError as error:
            raise self._error(f"META is no JSON: {error}") from None
        if not isinstance(made, dict):
            raise self._error("META is no JSON object")
        return made

    def records(self, rank: int) -> Iterator[Record]:
        """What a rank did, in its order."""
        for chunk in self.chunks_of(rank, OPS):
            raw = self.raw(chunk)
            try:
                yield from decode(raw)
            except TraceError as error:
                raise self._wrong(chunk, error) from None

    def numbers(self, rank: int, kind: int) -> Iterator[int]:
        """Those of MATCHES, TIMES or REGIONS."""
        for chunk in self.chunks_of(rank, kind):
            raw = self.raw(chunk)
            try:
                yield from read_numbers(raw)
            except TraceError as error:
                raise self._wrong(chunk, error) from None

    def times(self, rank: int) -> Iterator[int]:
        """The virtual clock at each LEAVE and the END, in ns."""
        now_ns = 0
        for value in self.numbers(rank, TIMES):
            now_ns += unzigzag(value)
            yield now_ns

    def regions(self, rank: int) -> dict[int, int]:
        """Base address of each region, where the trace has them."""
        values = list(self.numbers(rank, REGIONS))
        return dict(zip(values[::2], values[1::2], strict=False))

    def stream(self, rank: int, kind: int) -> Iterator[bytes]:
        """Raw bytes of a stream, chunk by chunk."""
        return map(self.raw, self.chunks_of(rank, kind))

    def raw(self, chunk: Chunk) -> bytes:
        """What is in a chunk, checked and unpacked; raises TraceError."""
        header = self._read_at(chunk.offset, _CHUNK_HEADER)
        stored = self._read_at(chunk.offset + _CHUNK_HEADER, chunk.stored_bytes)
        found = self._parse(header, chunk.offset)
        if found != chunk or len(stored) < chunk.stored_bytes:
            raise self._error(f"{chunk} is damaged: its header differs from the index")
        if _crc_of(header, stored) != int.from_bytes(header[28:32], "little"):
            raise self._error(f"{chunk} is damaged: its CRC is wrong")
        return self._unpack(chunk, stored)

    def _unpack(self, chunk: Chunk, stored: bytes) -> bytes:
        raw = stored
        if chunk.codec == _ZSTD:
            if chunk.raw_bytes > _LONGEST_CHUNK:
                raise self._error(f"{chunk} is damaged: {chunk.raw_bytes} bytes unpacked")
            try:
                raw = zstandard.ZstdDecompressor().decompress(
                    stored, max_output_size=chunk.raw_bytes
                )
            except zstandard.ZstdError as error:
                raise self._error(f"{chunk} cannot be unpacked: {error}") from None
        elif chunk.codec != _RAW:
            raise self._error(f"{chunk}: codec {chunk.codec} is none that this version knows")
        if len(raw) != chunk.raw_bytes:
            raise self._error(f"{chunk} holds {len(raw)} bytes instead of {chunk.raw_bytes}")
        return raw

    def chunks_of(self, rank: int, kind: int) -> Iterator[Chunk]:
        """Those of a stream, in its order; raises TraceError where one is missing."""
        for idx, chunk in enumerate(self._streams.get((rank, kind), ())):
            if chunk.sequence != idx:
                raise self._error(f"{chunk} is not the next: chunk {idx} is missing")
            yield chunk

    def _read_header(self) -> int:
        data = self._read_at(0, _FILE_HEADER)
        if len(data) < _FILE_HEADER or data[:8] != MAGIC:
            raise self._error(
                "this is no trace of pagewire; a run writes one with --record, and with --trace a "
                "timeline, which is none"
            )
        header = ffi.from_buffer("pw_pwt_file_header *", data)
        if header.version != lib.PW_PWT_VERSION:
            raise self._error(
                f"version {header.version} of the format; this pagewire reads "
                f"{lib.PW_PWT_VERSION}: read it with the one that wrote it"
            )
        if not header.num_ranks:
            raise self._error("a trace of 0 ranks")
        return int(header.num_ranks)

    def _read_index(self) -> list[Chunk]:
        footer = self._read_at(self._size - _FOOTER, _FOOTER) if self._size > _FOOTER else b""
        is_there = footer[8:] == END_MAGIC
        self._index_offset = int.from_bytes(footer[:8], "little") if is_there else None
        if not self._index_offset:
            return self._scan()
        index = self._parse_at(self._index_offset)
        if index is None or index.kind != INDEX:
            raise self._error("the index is damaged: the footer does not point at it")
        raw = self.raw(index)
        rows = ffi.from_buffer("pw_pwt_index_row[]", raw)
        if len(raw) % _INDEX_ROW:
            raise self._error("the index is damaged: it ends within a row")
        fields = Chunk._fields
        return [Chunk(*(int(getattr(row, name)) for name in fields)) for row in rows]

    def _scan(self) -> list[Chunk]:
        """The chunks of a run that was killed; the last may be half written."""
        found = []
        offset = _FILE_HEADER
        while (chunk := self._parse_at(offset)) is not None:
            found.append(chunk)
            offset += _CHUNK_HEADER + chunk.stored_bytes
        if found:
            try:
                self.raw(found[-1])
            except TraceError:
                offset = found.pop().offset
        if self._size - offset == _FOOTER and self._index_offset == 0:
            return found  # a rank's own file, which ended well
        self.cut = (
            f"'{self.path}' has no index: the run was killed. {len(found)} chunks are whole; "
            f"{self._size - offset} bytes behind them are left out"
        )
        return [chunk for chunk in found if chunk.kind != INDEX]

    def _parse_at(self, offset: int) -> Chunk | None:
        """The chunk that begins there, if one does and is within the file."""
        chunk = self._parse(self._read_at(offset, _CHUNK_HEADER), offset)
        if chunk is None or offset + _CHUNK_HEADER + chunk.stored_bytes > self._size:
            return None
        return chunk

    def _parse(self, data: bytes, offset: int) -> Chunk | None:
        if len(data) < _CHUNK_HEADER:
            return None
        header = ffi.from_buffer("pw_pwt_chunk_header *", data)
        if header.magic != CHUNK_MAGIC:
            return None
        names = Chunk._fields[1:]
        return Chunk(offset, *(int(getattr(header, name)) for name in names))

    def _read_at(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), length, offset)
        except OverflowError:  # an offset of a damaged footer
            return b""
        except OSError as error:
            raise self._error(f"byte {offset} cannot be read: {error.strerror}") from None

    def _wrong(self, chunk: Chunk, error: TraceError) -> TraceError:
        return self._error(f"{chunk}: {error}")

    def _error(self, text: str) -> TraceError:
        return TraceError(f"'{self.path}': {text}")


class Writer:
    """A trace that is made: a context manager; the file appears whole when the block ends well.

    meta: what the run was. Chunks are cut between records, at `chunk_bytes` of raw bytes; None: by
    the number of ranks.
    """

    def __init__(
        self,
        path: str,
        num_ranks: int,
        meta: dict[str, Any] | None = None,
        *,
        compresses: bool = True,
        chunk_bytes: int | None = None,
    ) -> None:
        if not 0 < num_ranks < ALL_RANKS:
            raise TraceError(f"a trace of {num_ranks} ranks; allowed is 1 to {ALL_RANKS - 1}")
        self.num_ranks = num_ranks
        self._path, self._meta = path, meta
        self._compressor = zstandard.ZstdCompressor() if compresses else None
        by_ranks = max(_SHORTEST_CHUNK, min(_CHUNK_BYTES, _CHUNKS_BYTES // num_ranks))
        self._chunk_bytes = by_ranks if chunk_bytes is None else chunk_bytes
        self._stack = contextlib.ExitStack()
        self._rows: list[bytes] = []
        self._sequences: dict[tuple[int, int], int] = {}
        self._buffers: dict[tuple[int, int], tuple[bytearray, list[int]]] = {}

    def __enter__(self) -> Self:
        self._file = self._stack.enter_context(replacing(self._path))
        header = ffi.new("pw_pwt_file_header *")
        header.magic, header.version = MAGIC, lib.PW_PWT_VERSION
        header.num_ranks = self.num_ranks
        self._file.write(bytes(ffi.buffer(header)))
        if self._meta is not None:
            self.add(ALL_RANKS, META, json.dumps(self._meta).encode(), 1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except BaseException as late:
            self._stack.__exit__(type(late), late, late.__traceback__)
            raise
        self._stack.__exit__(kind, error, trace)

    def write(self, rank: int, records: Iterable[Record]) -> None:
        """Records that come next in a rank's OPS."""
        for record in records:
            self.add(rank, OPS, encode(record), 1)

    def write_times(self, rank: int, before_ns: int, times_ns: Iterable[int]) -> None:
        """The clock at the next LEAVEs; before_ns: at the one before, 0 at first."""
        for now_ns in times_ns:
            self.add(rank, TIMES, number(zigzag(now_ns - before_ns)), 1)
            before_ns = now_ns

    def add(self, rank: int, kind: int, raw: bytes, num_records: int) -> None:
        """Bytes of whole records that come next in a stream."""
        buffer, count = self._buffers.setdefault((rank, kind), (bytearray(), [0]))
        if buffer and len(buffer) + len(raw) > self._chunk_bytes:
            self._flush((rank, kind))
            buffer, count = self._buffers.setdefault((rank, kind), (bytearray(), [0]))
        buffer += raw
        count[0] += num_records

    def end_rank(self, rank: int) -> None:
        """Nothing more comes of this rank: its memory is free."""
        for key in [key for key in self._buffers if key[0] == rank]:
            self._flush(key)

    def _flush(self, key: tuple[int, int]) -> None:
        buffer, count = self._buffers.pop(key)
        sequence = self._sequences.get(key, 0)
        self._sequences[key] = sequence + 1
        self._rows.append(self._put(*key, sequence, bytes(buffer), count[0]))

    def _put(self, rank: int, kind: int, sequence: int, raw: bytes, num_records: int) -> bytes:
        """Write a chunk; its row of the index."""
        stored, codec = raw, _RAW
        if self._compressor:
            packed = self._compressor.compress(raw)
            if len(packed) < len(raw):
                stored, codec = packed, _ZSTD
        header = ffi.new("pw_pwt_chunk_header *")
        row = ffi.new("pw_pwt_index_row *")
        row.offset = self._file.tell()
        header.magic = CHUNK_MAGIC
        for each in (header, row):
            each.kind, each.codec, each.rank, each.sequence = kind, codec, rank, sequence
            each.stored_bytes, each.raw_bytes = len(stored), len(raw)
            each.num_records = num_records
        header.crc = _crc_of(bytes(ffi.buffer(header)), stored)
        self._file.write(bytes(ffi.buffer(header)) + stored)
        return bytes(ffi.buffer(row))

    def _finish(self) -> None:
        for key in list(self._buffers):
            self._flush(key)
        footer = ffi.new("pw_pwt_file_footer *")
        footer.index_offset, footer.magic = self._file.tell(), END_MAGIC
        self._put(ALL_RANKS, INDEX, 0, b"".join(self._rows), len(self._rows))
        self._file.write(bytes(ffi.buffer(footer)))


def merge(parts: Sequence[str], out: str, meta: dict[str, Any] | None = None) -> list[str]:
    """Make one trace of what each rank wrote, in the order of ranks; its META is that of the first
    part that has one, if none is given.

    What is whole of a part that was cut off is kept. The result tells what was not, a sentence
    each.
    """
    told = []
    if meta is None:
        meta = _first_meta(parts)
    with Writer(out, len(parts), meta) as writer:
        for rank, path in enumerate(parts):
            try:
                with Reader(path) as reader:
                    told += [reader.cut] if reader.cut else []
                    told += _copy_part(reader, rank, writer)
                    _copy_tail(reader, rank, writer)
            except TraceError as error:
                told.append(f"{error}; nothing of rank {rank} is kept")
            writer.end_rank(rank)
    return told


def _first_meta(parts: Sequence[str]) -> dict[str, Any] | None:
    for path in parts:
        with contextlib.suppress(TraceError), Reader(path) as reader:
            if any(chunk.kind == META for chunk in reader.chunks):
                return reader.meta()
    return None


def _copy_part(reader: Reader, rank: int, writer: Writer) -> list[str]:
    """Append a rank's streams; what was wrong."""
    told = []
    for kind, name in KINDS.items():
        if kind == META:
            continue
        owners = {chunk.rank for chunk in reader.chunks if chunk.kind == kind}
        if owners - {rank, 0} or len(owners) > 1:
            names = ", ".join(map(str, sorted(owners)))
            told.append(
                f"'{reader.path}': {name} of rank {names}, which should be of rank {rank} "
                "alone, is not kept"
            )
            continue
        for owner in owners:
            try:
                for chunk in reader.chunks_of(owner, kind):
                    writer.add(rank, kind, reader.raw(chunk), chunk.num_records)
            except TraceError as error:
                told.append(f"{error}; {name} of rank {rank} ends before it")
    return told


def _copy_tail(reader: Reader, rank: int, writer: Writer) -> None:
    """Append what a killed rank had not written yet."""
    try:
        with open(f"{reader.path}.tail", "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return
    tail = ffi.from_buffer("pw_pwt_open_chunk[]", data)
    for each in tail[0 : len(data) // ffi.sizeof("pw_pwt_open_chunk")]:
        written = sum(chunk.kind == each.kind for chunk in reader.chunks)
        if each.rank == rank and each.whole_bytes and each.sequence == written:
            raw = bytes(ffi.buffer(each.bytes, each.whole_bytes))
            writer.add(rank, each.kind, raw, each.whole_records)


def _crc_of(header: bytes, stored: bytes) -> int:
    """Of a chunk, as if its field for it were 0."""
    crc = lib.pw_crc32c(0, header[:-4] + bytes(4), _CHUNK_HEADER)
    return int(lib.pw_crc32c(crc, stored, len(stored)))
