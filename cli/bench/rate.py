"""Message rate of two ranks with a window of messages under way."""

from pagewire.cli.bench.group import (
    NUM_BYTES,
    Column,
    Conditions,
    Group,
    Layout,
    Rows,
    measure_on_ranks,
)

_SPEC = {"sizes_bytes": (8, 4096), "window": 64, "num_rounds": 7, "round_s": 0.06}
_SPEC_QUICK = {**_SPEC, "num_rounds": 1, "round_s": 0.001}


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("message rate")
    return measure_on_ranks(conditions, 2, "rate", _SPEC_QUICK if conditions.quick else _SPEC)


GROUP = Group(
    "rate",
    (
        Layout(
            "message rate of 2 ranks: Isend, Irecv, Waitall",
            (
                NUM_BYTES,
                Column("window", "window", 0),
                Column("plain_per_s", "plain\n(messages/s)", 0),
                Column("facade_per_s", "facade\n(messages/s)", 0),
                Column("ratio", "facade/\nplain", 3),
            ),
        ),
    ),
    _measure,
    lambda rows: [],
    lambda quick: 1,
)
