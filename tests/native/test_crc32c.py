"""CRC-32C against a bitwise reference, at every alignment and around the borders of packets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewire.native import ffi, lib

BLOCK = bytes((i * 167 + (i >> 8) * 13 + 5) & 0xFF for i in range(16384 + 64))


def reference(data: bytes, seed: int = 0) -> int:
    """CRC-32C one bit at a time."""
    crc = seed ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def packets(data: bytes, offset: int, copies: bool) -> list[int]:
    """CRCs of the engine for data placed at an offset from an aligned address; checks the copy."""
    num_packets = -(-len(data) // 256)
    source = ffi.new("uint8_t[]", b"\xaa" * offset + data)
    crcs = ffi.new("uint32_t[]", num_packets + 1)
    crcs[num_packets] = 0xDEADBEEF
    if copies:
        target = ffi.new("uint8_t[]", len(data) + 16)
        target[7 + len(data)] = 0x5A
        lib.pw_crc32c_packets(target + 7, source + offset, len(data), crcs)
        assert ffi.buffer(target + 7, len(data))[:] == data
        assert (target[6], target[7 + len(data)]) == (0, 0x5A)
    else:
        lib.pw_crc32c_packets(ffi.NULL, source + offset, len(data), crcs)
    assert crcs[num_packets] == 0xDEADBEEF
    return list(crcs[0:num_packets])


@pytest.mark.parametrize(
    ("data", "crc"),  # RFC 3720, B.4, and the usual check value
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, crc: int) -> None:
    assert lib.pw_crc32c(0, data, len(data)) == crc
    assert lib.pw_crc32c_tables(0, data, len(data)) == crc


@pytest.mark.parametrize("function", [lib.pw_crc32c, lib.pw_crc32c_tables])
def test_every_alignment_and_short_length(function) -> None:
    block = ffi.new("uint8_t[]", BLOCK[:400])
    for offset in range(9):
        for length in (*range(41), *range(185, 200), *range(250, 262), 383, 384, 385):
            expected = reference(BLOCK[offset : offset + length])
            assert function(0, block + offset, length) == expected, (offset, length)


@given(st.binary(max_size=700), st.binary(max_size=700))
def test_seed_continues_a_crc(a: bytes, b: bytes) -> None:
    for function in (lib.pw_crc32c, lib.pw_crc32c_tables):
        assert function(function(0, a, len(a)), b, len(b)) == reference(a + b)


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize(
    "num_bytes", [1, 255, 256, 257, 1023, 1024, 1025, 1280, 2047, 2048, 2049, 16384]
)
def test_packets_around_borders(num_bytes: int, copies: bool) -> None:
    data = BLOCK[:num_bytes]
    expected = [reference(data[i : i + 256]) for i in range(0, num_bytes, 256)]
    for offset in range(8):
        assert packets(data, offset, copies) == expected


@given(st.integers(0, 2500), st.integers(0, 15), st.booleans())
def test_any_length(num_bytes: int, offset: int, copies: bool) -> None:
    data = BLOCK[:num_bytes]
    parts = [data[i : i + 256] for i in range(0, num_bytes, 256)]
    expected = [lib.pw_crc32c_tables(0, part, len(part)) for part in parts]
    assert packets(data, offset, copies) == expected
