"""What a user of the lab asks for: one transfer, its size and which of its pages are absent."""

import dataclasses
import operator
import random
from collections.abc import Iterable
from typing import SupportsIndex

from pagewire.lab.buffer import PAGE_BYTES
from pagewire.native.settings import ConfigError, Declaration, parse_value

Absent = str | float | Iterable[int] | None
"""Pages that are not there at the user's call: "all", a fraction (each page by chance), indices."""
OPERATIONS = ("write", "read")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A write of the initiator to the target, or a read of the target's buffer."""

    size: int | str
    """bytes, or a text as "64KiB\""""
    operation: str = "write"
    absent: Absent = None
    """pages of the destination: of a write at the target, of a read at the initiator"""
    source_absent: Absent = None
    initiator: int = 0
    target: int | None = None
    """None: node 1; in a lab of one node that one itself"""
    process: int = 0
    """of both nodes: which of the processes that share each NI"""
    at_us: float = 0
    """virtual time of the user's call behind that of its group"""


_SIZE = Declaration("lab", "size_bytes", "size", PAGE_BYTES, "of a transfer", minimum=1)
_MAX_SIZE = Declaration(
    "lab", "max_size_bytes", "size", 16 << 20, "of its buffers", minimum=PAGE_BYTES, maximum=1 << 30
)


def parse_size(size: int | str) -> int:
    """Bytes of a transfer; raises ConfigError."""
    return int(parse_value(_SIZE, size))


def parse_max_size(size: int | str) -> int:
    """Bytes of a lab's buffers; raises ConfigError."""
    return int(parse_value(_MAX_SIZE, size))


def all_pages(num_bytes: int) -> range:
    """Indices of all pages of a transfer."""
    return range(-(-num_bytes // PAGE_BYTES))


def random_pages(num_bytes: int, fraction: float, draw: random.Random) -> list[int]:
    """Pages that are absent when each is so with this probability, on its own."""
    return [page for page in all_pages(num_bytes) if draw.random() < fraction]


def parse_absent(name: str, absent: Absent, num_bytes: int, draw: random.Random) -> list[int]:
    """Indices of the pages that are meant, in ascending order; raises ConfigError."""
    pages = all_pages(num_bytes)
    if absent is None:
        return []
    if absent == "all":
        return list(pages)
    if isinstance(absent, float):
        if not 0 <= absent <= 1:
            raise ConfigError(f"{name} = {absent!r}: allowed is a fraction from 0.0 to 1.0")
        return random_pages(num_bytes, absent, draw)
    if isinstance(absent, str | int):
        raise ConfigError(
            f"{name} = {absent!r}: allowed is 'all', a fraction from 0.0 to 1.0, or a list of "
            "pages, e.g. [0]"
        )
    chosen = set()
    for page in absent:
        if not isinstance(page, SupportsIndex) or operator.index(page) not in pages:
            raise ConfigError(
                f"{name} holds {page!r}: a transfer of {num_bytes} B has pages 0 to {pages[-1]}"
            )
        chosen.add(operator.index(page))
    return sorted(chosen)
