"""Work declared to the emulated node, for `--compute model`; does nothing on plain MPI."""

import sys


def declare(*, flops: float = 0.0, num_bytes: float = 0.0) -> None:
    """This rank has just done so many floating-point operations and memory accesses in bytes.

    Belongs after the kernel and before the next MPI call, which books it.
    """
    # Not imported: on plain MPI the transport stays unloaded, and without its loader nobody emulates.
    if "pagewire.transport.loader" not in sys.modules:
        return
    compute = getattr(sys.modules["pagewire.transport"], "compute", None)
    if compute is not None:
        compute(flops=flops, num_bytes=num_bytes)
