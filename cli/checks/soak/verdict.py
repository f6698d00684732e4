"""Is a phase of a soak well? Sums over its ranks, and what has grown over the last half."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

ALLOWED_GROWTH_BYTES = 1 << 20
"""Of a rank's resident memory or heap over the last half: pages of Python's own pools come and go,
while one byte lost in each of 1e6 transfers of 4 ranks would be a quarter of it."""

ALLOWED_GROWTH_ENTRIES = 16
"""Of a pool: one that has never been so full grows by a few."""

NUM_SAMPLES_TO_JUDGE = 8
"""With fewer of them there are no quarters."""

TRANSFERS_TO_JUDGE = 20_000
"""Of a rank; before it has done so many, what it holds still grows to what it needs."""

TRANSACTION_IDS = 1 << 14
"""Blocks of a node until its ids begin anew."""

COUNTERS = (
    "transfers",
    "blocks",
    "retransmitted_blocks",
    "timeouts",
    "err_messages",
    "translation_faults_source",
    "translation_faults_destination",
    "crc_errors",
    "duplicate_blocks",
    "stale_answers",
    "transfers_failed",
    "reads_refused",
    "answers_refused",
    "malformed_frames",
    "transaction_wraps",
    "sequence_wraps",
)
"""Of the NI's counters, those that the table shows."""

MUST_BE_ZERO = ("transfers_failed", "reads_refused", "answers_refused", "malformed_frames")
"""In a run in which nobody is hostile."""


def growth(per_rank: Sequence[Mapping[str, Any]], name: str) -> tuple[float, float] | None:
    """Medians of the third and of the last quarter of the samples, of the rank on which it grew
    most; None with too few samples, or none of that name."""
    found = []
    for rank in per_rank:
        values = [each[name] for each in rank["samples"] if name in each]
        if len(values) < NUM_SAMPLES_TO_JUDGE:
            return None
        half, quarter = len(values) // 2, len(values) // 4
        last = values[-quarter:]
        found.append((statistics.median(values[half:-quarter]), statistics.median(last)))
    return max(found, key=lambda each: each[1] - each[0], default=None)


def quantities(per_rank: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of what the ranks sampled."""
    samples = [each for rank in per_rank for each in rank["samples"]]
    return [name for name in samples[-1] if name != "transfers"] if samples else []


def is_judged(per_rank: Sequence[Mapping[str, Any]]) -> bool:
    """Were there enough transfers to tell growth from the filling of pools?"""
    return all(rank["transfers"] >= TRANSFERS_TO_JUDGE for rank in per_rank)


def complaints(
    per_rank: Sequence[Mapping[str, Any]],
    totals: Mapping[str, Any],
    must_wrap: Sequence[str],
    *,
    num_nodes: int,
) -> list[str]:
    """What is not as it must be, in words; empty when all is well."""
    found = []
    wrong = sum(rank["wrong"] for rank in per_rank)
    if wrong:
        found.append(f"{wrong} transfers with wrong bytes")
    found += [f"{name} = {totals[name]}, not 0" for name in MUST_BE_ZERO if totals[name]]
    for name in quantities(per_rank) if is_judged(per_rank) else ():
        grown = growth(per_rank, name)
        limit = ALLOWED_GROWTH_BYTES if name.endswith("_bytes") else 0
        if name.startswith("pool_"):
            limit = ALLOWED_GROWTH_ENTRIES
        if grown is not None and grown[1] - grown[0] > limit:
            found.append(f"{name} grew from {grown[0]:,.0f} to {grown[1]:,.0f} over the last half")
    enough = totals["blocks"] >= 2 * num_nodes * TRANSACTION_IDS
    for name in must_wrap:
        if not totals[name] and (name != "transaction_wraps" or enough):
            found.append(f"{name} = 0: the numbers never began anew")
    return found
