"""Every transfer ends: whatever a program, a peer or the configuration does, with data or with an
error."""

import ctypes
import itertools
import mmap
import os
import struct

import pytest
from engine_pair import BLOCK, PAGE, Pair, Policy, resident
from mappings import LIBC, FarPages, unmap
from test_frames import KIND_AT, KIND_BLOCK, frames, seal

from pagewire.native import EngineError, ffi, lib

TOP = 2**64 - PAGE
MODEL = lib.PW_MEMORY_MODEL
ADDRESS, PROTECTION, UNRECOVERABLE = (
    lib.PW_ERR_ADDRESS,
    lib.PW_ERR_PROTECTION,
    lib.PW_ERR_UNRECOVERABLE,
)


def errors(pair: Pair) -> set[int]:
    return {event.error for event in pair.run(limit=20_000)}


def refused(post: object, *args: int) -> int:
    with pytest.raises(EngineError) as caught:
        post(*args)
    return caught.value.code


def test_range_that_wraps_is_refused_at_the_call() -> None:
    pair, (source, destination) = Pair(), resident(BLOCK)
    for address, num_bytes in ((TOP, PAGE), (TOP, PAGE + 1), (2**64 - 1, 1)):
        assert refused(pair.write_raw, source.address, address, num_bytes) == ADDRESS
        assert refused(pair.write_raw, address, destination.address, num_bytes) == ADDRESS
        assert refused(pair.fetch_raw, source.address, 1, address, num_bytes) == ADDRESS
        assert refused(pair.fetch_raw, address, 1, destination.address, num_bytes) == ADDRESS
        assert refused(pair.post, source.address, address, num_bytes) == ADDRESS
    assert lib.pw_ni_register(pair.nis[0], TOP, PAGE, 0, ffi.new("uint64_t *")) == ADDRESS
    pair.assert_quiet()


def test_highest_range_that_does_not_wrap_ends_with_an_error() -> None:
    pair, (source, _) = Pair(), resident(BLOCK)
    pair.write_raw(source.address, TOP - 1, PAGE)
    assert errors(pair) == {ADDRESS}
    pair.assert_quiet()


@pytest.mark.parametrize(
    "at,field,value",
    [
        (32, "I", 7),  # block_idx
        (40, "Q", TOP),  # destination_address
        (48, "Q", TOP),  # transfer_address
        (56, "Q", 0),  # transfer_bytes
        (56, "Q", 2**64 - 1),
        (64, "Q", 0),  # packet_mask
        (72, "I", 0),  # block_bytes
        (88, "q", -1),  # last_packet_ns
        (96, "q", -5),  # held_ns
        (104, "Q", 8),  # notification
    ],
)
@pytest.mark.parametrize("timeout_ns", [-1, 50_000])
def test_sound_block_whose_fields_lie_is_answered(
    at: int, field: str, value: int, timeout_ns: int
) -> None:
    pair, (source, destination) = Pair(timeout_ns=timeout_ns), resident(2 * BLOCK)

    def lie(node: int, peer: int, burst: bytearray) -> None:
        for start in frames(burst):
            if burst[start + KIND_AT] == KIND_BLOCK:
                struct.pack_into(f"={field}", burst, start + at, value)
                seal(burst, start)

    pair.tamper = lie
    pair.write(source, destination)
    assert errors(pair) & {ADDRESS, UNRECOVERABLE}
    assert pair.counters(1).malformed_frames > 0
    assert lib.pw_ni_num_transactions(pair.nis[0]) == 0


def unknown_kinds(pair: Pair, num_bursts: int) -> None:
    """The first bursts with a block have no known kind of frame when they arrive."""
    left = [num_bursts]

    def change(node: int, peer: int, burst: bytearray) -> None:
        if not left[0] or burst[KIND_AT] != KIND_BLOCK:
            return
        left[0] -= 1
        for start in frames(burst):
            burst[start + KIND_AT] = 200
            seal(burst, start)

    pair.tamper = change


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("num_blocks", [1, 2, 40])
def test_blocks_of_unknown_kind_are_sent_again_after_their_timeout(
    num_blocks: int, is_read: bool
) -> None:
    pair, (source, destination) = Pair(timeout_ns=50_000), resident(num_blocks * BLOCK)
    unknown_kinds(pair, 3)
    (pair.read if is_read else pair.write)(source, destination)
    found = errors(pair)
    if not is_read:
        assert found == {0}
        assert destination.read() == source.read()
    assert 0 < pair.num_refused_bursts <= 3
    assert lib.pw_ni_num_transactions(pair.nis[0]) == 0


def test_block_of_unknown_kind_without_a_timeout_is_unrecoverable() -> None:
    pair, (source, destination) = Pair(timeout_ns=-1), resident(3 * BLOCK)
    unknown_kinds(pair, 1)
    pair.write(source, destination)
    assert UNRECOVERABLE in errors(pair)
    assert lib.pw_ni_num_transactions(pair.nis[0]) == 0


def test_peer_that_never_understands_a_block_exhausts_its_sequence_numbers() -> None:
    pair, (source, destination) = Pair(timeout_ns=20_000), resident(100)
    unknown_kinds(pair, 10**9)
    pair.write(source, destination)
    assert UNRECOVERABLE in errors(pair)
    assert pair.num_refused_bursts == pair.counters(0).retransmitted_blocks + 1 == 4096
    pair.assert_quiet()


@pytest.mark.parametrize("kind", [2, 3, 5])
def test_unreadable_answers_do_not_keep_a_transfer(kind: int) -> None:
    pair, (source, destination) = Pair(timeout_ns=50_000), resident(20 * BLOCK)
    destination.drop()
    left = [3]

    def damage(node: int, peer: int, burst: bytearray) -> None:
        for start in frames(burst):
            if burst[start + KIND_AT] == kind and left[0]:
                burst[start + KIND_AT + 10] ^= 1
                left[0] -= 1

    pair.tamper = damage
    pair.carry(source, destination)
    assert lib.pw_ni_num_transactions(pair.nis[0]) == 0


def test_read_whose_request_cannot_be_read_ends() -> None:
    pair, (source, destination) = Pair(), resident(BLOCK)

    def damage(node: int, peer: int, burst: bytearray) -> None:
        if burst[KIND_AT] == 6:
            burst[40] ^= 1

    pair.tamper = damage
    pair.read(source, destination)
    assert errors(pair) == {lib.PW_ERR_MALFORMED}


@pytest.mark.parametrize("access", ["terminate", "stall"])
@pytest.mark.parametrize("gone", ["unmapped", "PROT_NONE"])
@pytest.mark.parametrize("end", ["source", "destination"])
@pytest.mark.parametrize(
    ("backend", "fault_millionths"),
    [(lib.PW_MEMORY_HOST, 0), (MODEL, 0), (MODEL, 1_000_000)],
)
def test_address_that_the_host_does_not_allow_ends_the_transfer(
    access: str, gone: str, end: str, fault_millionths: int, backend: int
) -> None:
    pair = Pair(
        memory_backend=backend,
        model_fault_millionths=fault_millionths,
        stall=int(access == "stall"),
        timeout_ns=1_000_000,
    )
    source, destination = resident(2 * BLOCK)
    buffer = source if end == "source" else destination
    pages = FarPages(2 * BLOCK)
    if gone == "unmapped":
        unmap(pages.address, 2 * BLOCK)
    else:
        assert LIBC.mprotect(pages.address, 2 * BLOCK, 0) == 0
    if buffer is source:
        pair.write_raw(pages.address, destination.address, 2 * BLOCK)
    else:
        pair.write_raw(source.address, pages.address, 2 * BLOCK)
    assert errors(pair) == {ADDRESS if gone == "unmapped" else PROTECTION}
    assert lib.pw_ni_num_transactions(pair.nis[0]) == 0


def mapped_file(num_bytes: int, flags: int) -> tuple[int, mmap.mmap, int]:
    """A file's number, its mapping with every page here, and where that lies."""
    file = os.memfd_create("mapped")
    os.ftruncate(file, num_bytes)
    mapping = mmap.mmap(file, num_bytes, flags=flags)
    for at in range(0, num_bytes, PAGE):
        mapping[at] = 1
    return file, mapping, ctypes.addressof(ctypes.c_char.from_buffer(mapping))


@pytest.mark.skipif(
    not lib.pw_memory_checks_access(Pair(1).memories[0]) & lib.PW_CHECKS_PERMISSION,
    reason="this kernel does not tell which mappings are of files",
)
@pytest.mark.parametrize("when", ["before", "in the middle"])
@pytest.mark.parametrize("end", ["source", "destination"])
@pytest.mark.parametrize("flags", [mmap.MAP_SHARED, mmap.MAP_PRIVATE], ids=["shared", "private"])
@pytest.mark.parametrize(
    "mode", [{}, {"memory_backend": MODEL}, {"ideal": 1}, {"stall": 1}], ids=str
)
@pytest.mark.parametrize("is_read", [False, True])
def test_file_that_is_truncated_under_its_mapping_is_a_bad_address(
    when: str, end: str, flags: int, mode: dict[str, int], is_read: bool
) -> None:
    """Also where the look at the pages has been before."""
    num_bytes = 60 * BLOCK
    pair, (source, destination) = Pair(timeout_ns=1_000_000, **mode), resident(num_bytes)
    file, _mapping, address = mapped_file(num_bytes, flags)
    addresses = [source.address, destination.address]
    addresses[end == "destination"] = address
    if is_read:
        key = ffi.new("uint64_t *")
        exposed = lib.pw_ni_expose(pair.nis[0], 1, addresses[0], num_bytes, ffi.NULL, key)
        assert exposed == 0
        pair.fetch_raw(addresses[0], key[0], addresses[1], num_bytes)
    else:
        pair.write_raw(*addresses, num_bytes)
    if when == "in the middle":
        pair.step(3, 100_000)
    os.ftruncate(file, 0)
    try:
        assert errors(pair) == {ADDRESS}
    finally:
        os.ftruncate(file, num_bytes)
        os.close(file)
    assert lib.pw_ni_num_transactions(pair.nis[0]) == 0


def ends_short_of_frames(num_frames: int, policy: int, **settings: int) -> Pair:
    """A write of 20 blocks ends with errors, and the shortage is told."""
    frames_short = {"model_frame_limit_pages": num_frames, "model_fault_millionths": 1_000_000}
    pair = Pair(memory_backend=MODEL, policy=policy, **frames_short, **settings)
    source, destination = resident(20 * BLOCK, 100, 300)
    pair.write(source, destination)
    events = pair.run(limit=20_000)
    told = [event for event in events if event.kind == lib.PW_HOST_FRAMES_SHORT]
    assert [event.error for event in told] == [lib.PW_ERR_FRAMES] * len(told) != []
    assert all(event.error < 0 for event in events)
    return pair


@pytest.mark.parametrize(
    ("num_frames", "policy"),
    # with 8 frames the ERR of a block that was brought in whole comes in time for it
    [*itertools.product([1, 4], Policy), (8, Policy.PAGE), (8, Policy.ALL)],
)
def test_fewer_frames_than_the_blocks_under_way_need_end_the_transfer_by_name(
    policy: int, num_frames: int
) -> None:
    pair = ends_short_of_frames(num_frames, policy, timeout_ns=1_000_000)
    assert lib.pw_ni_num_transactions(pair.nis[0]) == 0


@pytest.mark.parametrize("num_frames", [1, 4, 16])
def test_fewer_frames_than_the_policy_brings_in_end_a_stalled_transfer_by_name(
    num_frames: int,
) -> None:
    ends_short_of_frames(num_frames, Policy.ALL, stall=1, timeout_ns=100_000_000)


def test_frames_for_the_blocks_under_way_are_enough() -> None:
    pair = Pair(memory_backend=MODEL, model_frame_limit_pages=12, model_fault_millionths=1_000_000)
    pair.carry(*resident(20 * BLOCK, 100, 300))
