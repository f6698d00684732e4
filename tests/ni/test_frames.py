"""Bursts that are damaged: never a crash, always counted; a damaged packet is sent again."""

import random
import struct
from collections.abc import Callable

import pytest
from engine_pair import BLOCK, PAGE, Pair, absent, pattern, resident
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib

MALFORMED = lib.PW_ERR_MALFORMED
HEADER_BYTES, CONTROL_BYTES, READ_REQUEST_BYTES, BLOCK_HEADER_BYTES = 32, 64, 88, 136
KIND_AT, FRAME_BYTES_AT, CRC_AT, BLOCK_BYTES_AT, NUM_PACKETS_AT = 2, 4, 24, 72, 76
KIND_BLOCK, KIND_READ_REQUEST = 1, 6
CORRUPT = 4


def frames(burst: bytearray) -> list[int]:
    """Where each frame of a sound burst starts."""
    starts, at = [], 0
    while at < len(burst):
        starts.append(at)
        at += struct.unpack_from("=I", burst, at + FRAME_BYTES_AT)[0]
    return starts


def covered_bytes(burst: bytearray, start: int) -> int:
    """Length of what the frame's own CRC covers."""
    if burst[start + KIND_AT] == KIND_READ_REQUEST:
        return READ_REQUEST_BYTES
    if burst[start + KIND_AT] != KIND_BLOCK:
        return CONTROL_BYTES
    (num_packets,) = struct.unpack_from("=H", burst, start + NUM_PACKETS_AT)
    return BLOCK_HEADER_BYTES + (4 * num_packets + 7) // 8 * 8


def seal(burst: bytearray, start: int) -> None:
    covered = min(covered_bytes(burst, start), len(burst) - start)
    struct.pack_into("=I", burst, start + CRC_AT, 0)
    crc = lib.pw_crc32c(0, ffi.from_buffer(burst) + start, covered)
    struct.pack_into("=I", burst, start + CRC_AT, crc)


def flipping(
    chance: random.Random, probability: float, hits: list[int]
) -> Callable[[int, int, bytearray], None]:
    """Damages blocks on the way: a bit of the payload; notes where each begins."""

    def tamper(node: int, peer: int, burst: bytearray) -> None:
        for start in frames(burst):
            if burst[start + KIND_AT] == KIND_BLOCK and chance.random() < probability:
                first = start + covered_bytes(burst, start)
                (block_bytes,) = struct.unpack_from("=I", burst, start + BLOCK_BYTES_AT)
                burst[first + chance.randrange(block_bytes)] ^= 1 << chance.randrange(8)
                hits.append(start)

    return tamper


KEPT: list[object] = []
"""Buffers that bursts name: an engine that takes a burst's sound part writes there."""


def sound_bursts() -> list[tuple[int, int, bytearray]]:
    """What two engines say to each other in a few transfers with faults."""
    pair, seen = Pair(timeout_ns=50_000), []

    def keep(node: int, peer: int, burst: bytearray) -> None:
        seen.append((node, peer, bytearray(burst)))

    pair.tamper = keep
    buffers = [resident(num_bytes) for num_bytes in (100, 3 * BLOCK, 0)]
    KEPT.append(buffers)
    for (source, destination), dropped in zip(buffers, (0, 2, 0), strict=True):
        destination.drop(dropped)
        source.drop(dropped + 1)
        pair.write(source, destination)
        pair.read(source, destination)
    pair.run()
    return seen


@pytest.mark.parametrize("num_bytes", [1, 300, BLOCK, 3 * BLOCK + 5])
def test_flipped_payload_bit_is_nack_4_and_sent_again(num_bytes: int) -> None:
    source, destination = resident(num_bytes, 3, 9)
    for seed in range(20):
        pair, hits = Pair(), []
        source.fill(pattern(num_bytes, seed))
        pair.tamper = flipping(random.Random(seed), 0.5, hits)
        pair.carry(source, destination)
        assert pair.counters(1).crc_errors == pair.counters(0).nacks[CORRUPT] == len(hits)
        assert pair.counters(0).retransmitted_blocks == len(hits)
        assert pair.num_refused_bursts == 0


@pytest.mark.parametrize(
    ("injected", "is_sealed"), [({}, False), ({"late_tasklet": "1:1000000:1"}, True)]
)
def test_payload_that_nothing_can_damage_has_no_crcs(injected: dict, is_sealed: bool) -> None:
    """With an impairment planned, whichever, it has them."""
    source, destination = resident(BLOCK, 3, 9)
    pair, hits = Pair(injected=injected), []
    for ni in pair.nis:
        lib.pw_ni_set_unsealed(ni, True)
    pair.tamper = flipping(random.Random(1), 0.5 if is_sealed else 1, hits)
    pair.write(source, destination)
    pair.run()
    assert pair.counters(1).crc_errors == (len(hits) if is_sealed else 0)
    different = sum(a != b for a, b in zip(source.read(), destination.read(), strict=True))
    assert len(hits) > 0 and different == (0 if is_sealed else len(hits))


def test_times_are_the_same_without_crcs() -> None:
    ended = []
    for is_unsealed in (False, True):
        pair, crcs = Pair(timeout_ns=50_000), []

        def look(node: int, peer: int, burst: bytearray, crcs: list = crcs) -> None:
            crcs += [
                int.from_bytes(burst[at + CRC_AT : at + CRC_AT + 4], "little")
                for at in frames(burst)
            ]

        pair.tamper = look
        for ni in pair.nis:
            lib.pw_ni_set_unsealed(ni, is_unsealed)
        for num_bytes in (100, 3 * BLOCK + 5, 5 * BLOCK):
            source, destination = resident(num_bytes)
            KEPT.append((source, destination))
            destination.drop(0)
            pair.write(source, destination)
            pair.read(source, destination)
        ended.append(pair.run())
        assert len(crcs) > 10 and any(crcs) != is_unsealed
        assert source.read() == destination.read()
    assert ended[0] == ended[1]


@pytest.mark.parametrize("cut", ["tail", "header", "nothing left"])
def test_truncated_burst_is_counted(cut: str) -> None:
    for node, peer, burst in sound_bursts():
        pair = Pair()
        keep = {"tail": len(burst) - 8, "header": HEADER_BYTES - 1, "nothing left": 1}[cut]
        assert pair.receive(node, peer, burst[:keep]) == MALFORMED
        assert pair.counters(peer).malformed_frames > 0


def test_burst_of_another_node_is_refused() -> None:
    pair = Pair(3)
    for node, peer, burst in sound_bursts():
        for source in {0, 1, 2, 7} - {node}:
            assert pair.receive(source, peer, burst) == MALFORMED


def test_any_flipped_bit_of_a_header_is_seen() -> None:
    chance = random.Random(1)
    for node, peer, sound in sound_bursts():
        for start in frames(sound):
            for _ in range(20):
                burst = bytearray(sound)
                at = start + chance.randrange(covered_bytes(sound, start))
                burst[at] ^= 1 << chance.randrange(8)
                pair = Pair()
                assert pair.receive(node, peer, burst) == MALFORMED
                assert pair.counters(peer).malformed_frames > 0


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=200, deadline=None)
def test_random_bytes_never_crash(data: bytes, with_magic: bool) -> None:
    pair = Pair(1)
    burst = bytearray(data)
    if with_magic and len(burst) >= 64:
        struct.pack_into("=HBBII", burst, 0, 0x5057, burst[0] % 12, burst[1], len(burst) & ~7, 0)
        seal(burst, 0)
    pair.receive(0, 0, burst)
    pair.run()
    if data and not with_magic:
        assert pair.counters(0).malformed_frames > 0


def test_sealed_nonsense_never_crashes() -> None:
    """Headers whose checks hold but whose fields lie: each is refused, ignored or answered."""
    chance = random.Random(2)
    for _ in range(12):
        pair = Pair(timeout_ns=20_000)
        buffers = [resident(num_bytes, 5, 6) for num_bytes in (PAGE, 3 * BLOCK, 3 * BLOCK)]

        def lie(node: int, peer: int, burst: bytearray) -> None:
            for start in frames(burst):
                if chance.random() > 0.2:
                    continue
                at = start + chance.choice([2, 3, *range(12, 24), *range(28, 64)])
                if burst[start + KIND_AT] == KIND_BLOCK:
                    at = start + chance.choice([3, *range(12, 24), *range(28, 96)])
                burst[at] ^= 1 << chance.randrange(8)
                seal(burst, start)

        pair.tamper = lie
        for source, destination in buffers:
            pair.write(source, destination)
            pair.read(source, destination)
        try:
            pair.run(limit=2_000)
        except AssertionError as error:
            assert "rest" in str(error)  # answers that lie can make a transfer go on for ever
        for _, destination in buffers:
            assert len(destination.around()) == 2


@pytest.mark.parametrize("field,at", [("time", 16), ("interval", 80), ("last", 88)])
def test_time_that_cannot_be_is_malformed(field: str, at: int) -> None:
    for node, peer, burst in sound_bursts():
        start = frames(burst)[0]
        if field != "time" and burst[start + KIND_AT] != KIND_BLOCK:
            continue
        for value in (2**63 - 1, 2**63, 2**64 - 1):
            lying = bytearray(burst)
            struct.pack_into("=Q", lying, start + at, value)
            seal(lying, start)
            pair = Pair()
            pair.receive(node, peer, lying)
            assert pair.counters(peer).malformed_frames == 1


KIND_ACK, KIND_NACK, KIND_NO_ANSWER, KIND_ERR_LATER = 2, 3, 5, 13
ERR_FOLLOWS, COPY = 1, 4


def answer_of_stranger(block: bytearray, kind: int, flags: int = 0) -> bytearray:
    """Node 2's answer to a block that did not go to it, with all numbers right."""
    magic, _, _, _, _, pdid, _, time_ns, _, stream = struct.unpack_from("=HBBIIHHqII", block)
    numbers = struct.unpack_from("=IHH", block, HEADER_BYTES)
    header = (magic, kind, flags, CONTROL_BYTES, 2, pdid, 0, time_ns + 400, 0, stream)
    code, err_ns, sent_ns = int(kind == KIND_NACK), time_ns + 500, time_ns
    word = struct.pack("=HBBIIHHqIIIHHIIQQ", *header, *numbers, code, 0, err_ns, sent_ns)
    answer = bytearray(word)
    seal(answer, 0)
    return answer


@pytest.mark.parametrize(
    "kind,flags",
    [
        (KIND_ACK, 0),
        (KIND_NACK, 0),
        (KIND_NACK, ERR_FOLLOWS),
        (KIND_NO_ANSWER, 0),
        (KIND_ERR_LATER, ERR_FOLLOWS),
        (KIND_ERR_LATER, 0),
        (KIND_NACK, ERR_FOLLOWS | COPY),
    ],
)
@pytest.mark.parametrize("when", ["before", "behind"])
def test_answer_of_a_node_that_the_block_did_not_go_to_is_none(
    kind: int, flags: int, when: str
) -> None:
    pair = Pair(3)
    source, destination = absent(2 * BLOCK)
    strange: list[bytearray] = []

    def tamper(node: int, peer: int, burst: bytearray) -> None:
        if (node, peer) == (0, 1):
            blocks = [burst[at:] for at in frames(burst) if burst[at + KIND_AT] == KIND_BLOCK]
            strange.extend(answer_of_stranger(block, kind, flags) for block in blocks)
        if when == "before" or (node, peer) == (1, 0):
            while strange:
                pair.receive(2, 0, strange.pop(0))

    pair.tamper = tamper
    pair.write(source, destination)
    events = [event for event in pair.run() if event.kind == lib.PW_HOST_WRITE_DONE]
    assert [event.error for event in events] == [0]
    assert destination.read() == source.read()
    pair.assert_quiet()
