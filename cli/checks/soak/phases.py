"""The phases of a soak: which settings each has, and which part of the transfers.

What a phase sets stands behind what the user sets, who can change it: a soak of other losses is a
soak too.
"""

import dataclasses
from collections.abc import Mapping

ONE_PERCENT = (
    "packet_loss",
    "packet_corruption",
    "duplication",
    "delay",
    "lost_ack",
    "lost_nack",
    "lost_err",
)
"""Impairments of which every phase with losses has 1 %."""

FAULT_FRACTION = 0.2
"""Of the pages that a message arrives in, taken away before it comes."""

_LOSSES = {f"impairments.{site}": f"1:100:{seed}" for seed, site in enumerate(ONE_PERCENT, 1)}
_COMMON = {"run.eager_limit": "0B", "run.compute": "none"}


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """One run of the ranks."""

    name: str
    says: str
    settings: Mapping[str, str]
    share: float
    """of the transfers asked for"""
    least_transfers: int
    fault_fraction: float
    """of the destination's pages, taken away by madvise before each message"""
    burst: int = 64
    """messages of a rank that are under way together"""
    must_wrap: tuple[str, ...] = ()
    """counters of numbers that must have begun anew"""


PHASES = (
    Phase(
        "losses",
        "1 % of packets lost and damaged, of blocks doubled and delayed, of answers lost; 20 % of "
        "the destination's pages absent",
        {**_COMMON, **_LOSSES, "run.timeout": "1ms"},
        1.0,
        0,
        FAULT_FRACTION,
        must_wrap=("transaction_wraps",),
    ),
    Phase(
        "timeouts",
        "the same losses, timeouts of 100 us, and fewer frames than the buffers have pages",
        {
            **_COMMON,
            **_LOSSES,
            "run.timeout": "100us",
            "memory_backend.backend": "model",
            "memory_backend.fault_fraction": str(FAULT_FRACTION),
            "memory_backend.frame_limit_pages": "64",
        },
        0.25,
        0,
        0.0,
        must_wrap=("transaction_wraps",),
    ),
    Phase(
        "sequence numbers",
        "each rank's first tasklet starts 450 ms late and timeouts are 100 us, so that a block is "
        "sent again more than 4096 times",
        {
            **_COMMON,
            "run.timeout": "100us",
            "impairments.late_tasklet": "1:1:8:1",
            "impairments.tasklet_late_by": "450ms",
        },
        0.0,
        80,
        FAULT_FRACTION,
        burst=1,
        must_wrap=("sequence_wraps",),
    ),
)
