"""Message rate of two ranks with a window of messages under way."""

from pagewire.cli.checks.bench.group import (
    NUM_BYTES,
    Column,
    Conditions,
    Group,
    Layout,
    Row,
    Rows,
)
from pagewire.cli.checks.bench.pairs import BOTH, measure
from pagewire.cli.checks.bench.times import Times

_SIZES_BYTES = {"facade": (8, 4096), "fabric": (8, 4096, 65536, 1 << 20)}
_SIZES_QUICK_BYTES = (8,)
_WINDOW = 64
"""The ranks have it too."""


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("message rate")
    sizes = _SIZES_QUICK_BYTES if conditions.quick else _SIZES_BYTES[conditions.transport]
    measured = measure(conditions, 2, [("rate", size) for size in sizes], 7, 0.06)
    return [_row(conditions.transport, size, each) for (_, size), each in measured.items()]


def _row(transport: str, num_bytes: int, times: Times) -> Row:
    return {
        "transport": transport,
        "num_bytes": num_bytes,
        "window": _WINDOW,
        "plain_per_s": 1 / times.plain_s,
        f"{transport}_per_s": 1 / times.ni_s,
        "ratio": times.plain_s / times.ni_s,
        f"{transport}_bytes_per_s": num_bytes / times.ni_s,
        "virtual_per_s": 1 / times.virtual_s,
    }


GROUP = Group(
    "rate",
    (
        Layout(
            "message rate of 2 ranks: Isend, Irecv, Waitall",
            (
                NUM_BYTES,
                Column("window", "window", 0),
                Column("plain_per_s", "plain\n(messages/s)", 0),
                Column("{}_per_s", "{}\n(messages/s)", 0),
                Column("ratio", "{}/\nplain", 3),
                Column("{}_bytes_per_s", "{}\n(GB/s)", 3, 1e-9),
            ),
        ),
    ),
    _measure,
    lambda rows: [],
    lambda quick, transport: 1,
    BOTH,
)
