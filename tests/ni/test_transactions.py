"""Transaction table: sequence numbers, answers to older attempts, NACK codes and what they
cause."""

import struct

import pytest
from engine_costs import Steps
from engine_pair import BLOCK, DONE, PAGE, PDID, Buffer, Pair, absent, resident
from test_frames import FRAME_BYTES_AT, KIND_AT, KIND_BLOCK, covered_bytes, frames, seal

from pagewire.native import lib

KIND_NACK, KIND_ERR = 3, 4
CODE_AT, ARGUMENT0_AT = 40, 48
PAGE_FAULT, BUFFER_FULL = 1, 7


def damage(burst: bytearray, start: int) -> None:
    """Flip a bit of a block's payload: the destination answers with NACK 4."""
    burst[start + covered_bytes(burst, start)] ^= 1


def repeat(burst: bytearray, start: int, num_copies: int) -> None:
    (num_bytes,) = struct.unpack_from("=I", burst, start + FRAME_BYTES_AT)
    burst.extend(bytes(burst[start : start + num_bytes]) * num_copies)


class Tamper:
    """Damages the first `num_damaged` blocks, repeats control frames of a kind, changes NACK
    codes."""

    def __init__(
        self, num_damaged: int = 0, kind: int = 0, num_copies: int = 0, code: int | None = None
    ) -> None:
        self.num_damaged = num_damaged
        self.kind = kind
        self.num_copies = num_copies
        self.code = code

    def __call__(self, node: int, peer: int, burst: bytearray) -> None:
        for start in frames(burst):
            kind = burst[start + KIND_AT]
            if kind == KIND_BLOCK and self.num_damaged:
                self.num_damaged -= 1
                damage(burst, start)
            if kind == KIND_NACK and self.code is not None:
                struct.pack_into("=I", burst, start + CODE_AT, self.code)
                seal(burst, start)
            if kind == self.kind and self.num_copies:
                repeat(burst, start, self.num_copies)
                self.num_copies = 0


def run(pair: Pair, tamper: Tamper, num_bytes: int = PAGE) -> tuple[Buffer, Buffer, dict[int, int]]:
    source, destination = resident(num_bytes)
    pair.tamper = tamper
    pair.trace(50_000)
    pair.write(source, destination)
    return source, destination, pair.errors()


def test_64_page_fault_nacks_wait_for_one_err() -> None:
    pair = Pair()
    pair.tamper = Tamper(kind=KIND_NACK, num_copies=63)
    pair.carry(*absent(PAGE))
    own = pair.counters(0)
    assert (own.nacks[PAGE_FAULT], own.err_messages, own.retransmitted_blocks) == (64, 1, 1)
    assert own.stale_answers == 0  # the sequence number is the current one until the ERR


@pytest.mark.parametrize("num_copies", [1, 5])
def test_duplicate_err_starts_the_block_once(num_copies: int) -> None:
    pair = Pair()
    pair.tamper = Tamper(kind=KIND_ERR, num_copies=num_copies)
    source, destination = absent(PAGE)
    pair.write(source, destination)
    pair.finish()
    own = pair.counters(0)
    assert (own.err_messages, own.retransmitted_blocks, own.stale_answers) == (1, 1, num_copies)
    assert pair.counters(1).duplicate_blocks == 0


def test_err_that_claims_another_domain_is_refused_and_the_timeout_recovers() -> None:
    """[R5 3.4]: the packetizer wires the sender's PDID in, whatever the message claims."""
    pair, done = Pair(timeout_ns=500_000), []

    def tamper(node: int, peer: int, burst: bytearray) -> None:
        for start in frames(burst):
            if burst[start + KIND_AT] == KIND_ERR and not done:
                (word,) = struct.unpack_from("=Q", burst, start + ARGUMENT0_AT)
                sequence, transaction = word >> 32 & 0xFFF, word >> 18 & 0x3FFF
                done.append((word & 3, word >> 2 & 0xFFFF, transaction, sequence, word >> 44))
                struct.pack_into("=Q", burst, start + ARGUMENT0_AT, word ^ 1 << 44)
                seal(burst, start)

    pair.tamper = tamper
    pair.carry(*absent(PAGE))
    assert done == [
        (2, PDID, 0, 0, PDID)
    ]  # opcode, wired PDID, transaction, sequence, claimed PDID
    own = pair.counters(0)
    assert own.errs_refused == 1 and own.malformed_frames == 0
    assert (own.err_messages, own.timeouts, own.retransmitted_blocks) == (0, 1, 1)


@pytest.mark.parametrize("ticket_queue", [0, 1])
def test_sequence_number_wraps_at_12_bits(ticket_queue: int) -> None:
    num_damaged = 2**12 + 3
    pair = Pair(ticket_queue=ticket_queue)
    source, destination, errors = run(pair, Tamper(num_damaged, code=BUFFER_FULL), num_bytes=16)
    assert set(errors.values()) == {0}
    assert destination.read() == source.read()
    own = pair.counters(0)
    assert own.retransmitted_blocks == own.nacks[BUFFER_FULL] == num_damaged
    assert own.stale_answers == 0 and own.acks == 1
    sequences = [row[4] for row in pair.log("block_started")]
    assert sequences == [i % 2**12 for i in range(num_damaged + 1)]
    pair.assert_quiet()


@pytest.mark.parametrize("code", [4, 7])
def test_retriable_nack_starts_the_block_again_at_once(code: int) -> None:
    pair = Pair()
    _, _, errors = run(pair, Tamper(1, code=code))
    assert set(errors.values()) == {0}
    steps = Steps(pair.costs)
    nack = pair.time_of("nack_sent")
    assert pair.time_of("block_started", 1) == (
        nack + steps.latency() + steps.read_mailbox() + steps.restart()
    )
    assert pair.counters(0).nacks[code] == 1
    pair.assert_quiet()


@pytest.mark.parametrize(
    "code,error",
    [(2, lib.PW_ERR_ADDRESS), (3, lib.PW_ERR_CONTEXT), (5, lib.PW_ERR_PROTECTION)],
)
def test_fatal_nack_ends_the_transfer(code: int, error: int) -> None:
    pair = Pair()
    _, _, errors = run(pair, Tamper(1, code=code), num_bytes=5 * BLOCK)
    assert errors[DONE] == error
    assert pair.counters(0).transfers_failed == pair.counters(0).nacks[code] == 1
    assert pair.counters(0).retransmitted_blocks == 0
    pair.assert_quiet()


@pytest.mark.parametrize("code", [0, 6, 8, 2**31])
def test_reserved_nack_code_is_malformed(code: int) -> None:
    pair = Pair()
    _, _, errors = run(pair, Tamper(1, code=code))
    assert set(errors.values()) == {0}  # the block's timeout ends it
    assert pair.num_refused_bursts == pair.counters(0).malformed_frames == 1
    assert sum(pair.counters(0).nacks) == 0
    assert pair.counters(0).timeouts == pair.counters(0).retransmitted_blocks == 1


@pytest.mark.parametrize("num_blocks", [1, 2, 4])
def test_full_receive_buffer_is_nack_7(num_blocks: int) -> None:
    """Three nodes write to one, whose engine is as fast as one link: what finds no room comes
    again."""
    pair = Pair(4, receive_buffer_blocks=num_blocks, window_blocks=4)
    buffers = [resident(20 * BLOCK + 5, 1, 2) for _ in range(6)]
    for i, (source, destination) in enumerate(buffers):
        pair.write(source, destination, node=i % 3, peer=3)
    pair.finish(*buffers)
    own = [pair.counters(node) for node in range(3)]
    refused = pair.counters(3).buffer_full
    assert refused == sum(each.nacks[BUFFER_FULL] for each in own) > 0
    assert sum(each.timeouts for each in own) == 0
    assert sum(each.retransmitted_blocks for each in own) == refused


def test_lone_sender_never_fills_the_receive_buffer() -> None:
    pair = Pair(receive_buffer_blocks=1, window_blocks=16)
    source, destination = resident(100 * BLOCK)
    pair.write(source, destination)
    pair.finish()
    assert pair.counters(1).buffer_full == 0
