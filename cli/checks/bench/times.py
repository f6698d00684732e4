"""The same work by plain MPI and over the NI: what one operation takes."""

import dataclasses

Work = tuple[str, int]
"""Name of an operation as the ranks know it, and its bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """Of one message, or of one collective, in s."""

    plain_s: float
    ni_s: float
    virtual_s: float
    """over the NI"""
    blocks_per_s: float = 0.0
    """that the engines emulated in a second of wall time; 0: nobody has counted"""
    packets_per_s: float = 0.0
