"""Work declared to the emulated node, for `--compute model`; does nothing on plain MPI."""

import sys


def declare(*, flops: float = 0.0, num_bytes: float = 0.0) -> None:
    """This rank has just done so many floating-point operations and memory accesses."""
    transport = sys.modules.get("pagewire.transport")
    compute = getattr(transport, "compute", None)
    if compute is not None:
        compute(flops=flops, num_bytes=num_bytes)
