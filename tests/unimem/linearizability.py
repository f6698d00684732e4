"""Checks histories of shared memory under the operations of an atomic service.

A history is linearizable when each operation can be given a moment between its call and its
response so that, in the order of these moments, every result is that of a plain memory. Blocks of
memory are independent of each other [Herlihy and Wing 1990], so each is searched by itself: Wing
and Gong's search with a memory of the states that were seen. Operations of different widths overlap
within a block; which bits of an address are lost is written down here once more.
"""

from collections.abc import Iterable
from typing import NamedTuple

WORD = 2**64
IGNORED = {"read8": 0, "read32": 2, "write8": 2, "write32": 3}
"""Low bits of an address that are lost; 3 for all others."""
WIDTHS = {"read8": 1, "read32": 4, "write8": 1, "write32": 4, "write128": 16}


class Done(NamedTuple):
    """An operation that is over, at a byte of a block; a result is an int, of "read4k" the block's
    bytes."""

    block: int
    kind: str
    offset: int
    arguments: tuple[int, ...]
    result: int | bytes
    called_ns: int
    ended_ns: int


def after(block: bytes, done: Done) -> bytes | None:
    """The block after the operation, None: its result does not fit what the block was."""
    if done.kind == "read4k":
        return block if done.result == block else None
    offset = done.offset >> IGNORED.get(done.kind, 3) << IGNORED.get(done.kind, 3)
    width = WIDTHS.get(done.kind, 8)
    value = int.from_bytes(block[offset : offset + width], "little")
    match done.kind, done.arguments:
        case "read8" | "read32" | "read64", ():
            return block if done.result == value else None
        case "write8" | "write32" | "write64", (wanted,):
            new = wanted
        case "write128", (low, high):
            new = low | high << 64
        case "swap", (wanted,):
            if done.result != value:
                return None
            new = wanted
        case "faa", (addend,):
            if done.result != value:
                return None
            new = (value + addend) % WORD
        case "cas", (expected, wanted):
            if bool(done.result) != (value == expected):
                return None
            new = wanted if done.result else value
        case _:
            raise ValueError(done.kind)
    return block[:offset] + new.to_bytes(width, "little") + block[offset + width :]


def is_linearizable(history: Iterable[Done], num_bytes: int = 8) -> bool:
    """Of zeroed blocks of so many bytes."""
    by_block: dict[int, list[Done]] = {}
    for done in history:
        by_block.setdefault(done.block, []).append(done)
    return all(_has_order(sorted(each, key=lambda d: d.called_ns), bytes(num_bytes))
               for each in by_block.values())  # fmt: skip


def _has_order(history: list[Done], initial: bytes) -> bool:
    """Depth first over what could have come next; a set of operations done and a block that have
    been tried need not be tried again."""
    everything = (1 << len(history)) - 1
    stack, seen = [(0, initial)], set()
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        done_mask, block = state
        if done_mask == everything:
            return True
        left = [idx for idx in range(len(history)) if not done_mask >> idx & 1]
        first_end_ns = min(history[idx].ended_ns for idx in left)
        for idx in left:
            if history[idx].called_ns >= first_end_ns:
                break  # one that ended before must come first; at once: a thread's next one
            following = after(block, history[idx])
            if following is not None:
                stack.append((done_mask | 1 << idx, following))
    return False
