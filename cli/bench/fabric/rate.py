"""Message rate of a C program's two ranks with a window of messages under way."""

from pagewire.cli.bench.fabric import c_program
from pagewire.cli.bench.group import NUM_BYTES, Column, Conditions, Group, Layout, Rows

_SIZES_BYTES = (8, 4096, 65536, 1 << 20)
_SIZES_QUICK_BYTES = (8,)


def _measure(conditions: Conditions) -> Rows:
    conditions.begin_step("message rate in C")
    sizes = _SIZES_QUICK_BYTES if conditions.quick else _SIZES_BYTES
    measured = c_program.measure(conditions, 2, [("rate", num_bytes) for num_bytes in sizes])
    return [
        {
            "num_bytes": num_bytes,
            "plain_per_s": 1 / times.plain_s,
            "fabric_per_s": 1 / times.fabric_s,
            "ratio": times.plain_s / times.fabric_s,
            "fabric_bytes_per_s": num_bytes / times.fabric_s,
        }
        for (_, num_bytes), times in measured.items()
    ]


GROUP = Group(
    "rate",
    (
        Layout(
            "message rate of 2 ranks in C: 64 MPI_Isend and MPI_Irecv, MPI_Waitall",
            (
                NUM_BYTES,
                Column("plain_per_s", "plain\n(messages/s)", 0),
                Column("fabric_per_s", "fabric\n(messages/s)", 0),
                Column("ratio", "fabric/\nplain", 3),
                Column("fabric_bytes_per_s", "fabric\n(GB/s)", 3, 1e-9),
            ),
        ),
    ),
    _measure,
    lambda rows: [],
    lambda quick: 1,
)
