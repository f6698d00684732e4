"""Checks histories of words under read, write, swap, fetch-and-add and compare-and-swap.

A history is linearizable when each operation can be given a moment between its call and its
response so that, in the order of these moments, every result is that of a plain memory. Words are
independent of each other [Herlihy and Wing 1990], so each is searched by itself: Wing and Gong's
search with a memory of the states that were seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

WORD = 2**64


class Done(NamedTuple):
    """An operation that is over: "read", "write", "swap", "faa" or "cas" of one word."""

    word: int
    kind: str
    arguments: tuple[int, ...]
    result: int
    called_ns: int
    ended_ns: int


def after(value: int, done: Done) -> int | None:
    """The word after the operation, None: its result does not fit the word's value."""
    match done.kind, done.arguments:
        case "read", ():
            return value if done.result == value else None
        case "write", (wanted,):
            return wanted
        case "swap", (wanted,):
            return wanted if done.result == value else None
        case "faa", (addend,):
            return (value + addend) % WORD if done.result == value else None
        case "cas", (expected, wanted):
            if bool(done.result) != (value == expected):
                return None
            return wanted if done.result else value
    raise ValueError(done.kind)


def is_linearizable(history: Iterable[Done], initial: int = 0) -> bool:
    by_word: dict[int, list[Done]] = {}
    for done in history:
        by_word.setdefault(done.word, []).append(done)
    return all(_has_order(sorted(each, key=lambda d: d.called_ns), initial)
               for each in by_word.values())  # fmt: skip


def _has_order(history: list[Done], initial: int) -> bool:
    """Depth first over what could have come next; a set of operations done and a value that have
    been tried need not be tried again."""
    everything = (1 << len(history)) - 1
    stack, seen = [(0, initial)], set()
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        done_mask, value = state
        if done_mask == everything:
            return True
        left = [idx for idx in range(len(history)) if not done_mask >> idx & 1]
        first_end_ns = min(history[idx].ended_ns for idx in left)
        for idx in left:
            if history[idx].called_ns > first_end_ns:
                break  # one that ended before it was called must come first
            following = after(value, history[idx])
            if following is not None:
                stack.append((done_mask | 1 << idx, following))
    return False
