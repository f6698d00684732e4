"""Numbers of experiments: sizes, means; and the bytes that they send."""

import math
import statistics
from collections.abc import Sequence


def size_text(num_bytes: float) -> str:
    """16 B, 4 KiB, 1.5 MiB."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:g} {unit}"
    return f"{num_bytes:g} B"


def content(num_bytes: int) -> bytes:
    """Bytes of which no two blocks or pages are alike."""
    unit = bytes((i * 7 + 1) % 251 for i in range(251))
    return (unit * (num_bytes // 251 + 1))[:num_bytes]


def powers_of_two(first: int, last: int) -> list[int]:
    """first, 2 first, 4 first ... last."""
    return [first << i for i in range(int(math.log2(last // first)) + 1)]


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of a sample; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0
