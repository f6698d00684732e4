"""How a program gets onto a node: over MPI, below MPI, by sockets, or directly.

The MPI library of the emulated machine: `from pagewire.transport import MPI`.

`MPI` is mpi4py.MPI itself with its data-moving methods replaced; with run.transport = fabric it is
mpi4py.MPI as it comes, because the NI lies below the MPI library. It is loaded on first use, so
importing this package alone neither loads nor initializes MPI.

`region` marks a phase of the program for the report: see docs/regions.md.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagewire.transport.facade import region as region


def compute(*, flops: float = 0.0, num_bytes: float = 0.0) -> None:
    """Declare work that this rank has done since its last MPI call, for `compute = model`.

    flops: floating-point operations; num_bytes: memory traffic in bytes. The platform's rates turn
    them into time on the emulated node (the longer of the two). Without effect in other modes, and
    with run.transport = fabric.
    """
    from pagewire.transport.facade import activate, here, is_over_fabric

    if is_over_fabric():
        return
    if not here.is_open:
        activate()
    here.clock.declare_compute(here.node.platform.rates.duration_ns(flops, num_bytes))


def __getattr__(name: str) -> Any:
    if name == "region":
        from pagewire.transport.facade import region

        return region
    if name == "MPI":
        from pagewire.transport.facade import load

        try:
            return load()
        except ModuleNotFoundError as error:
            if error.name != "mpi4py":
                raise
            raise ImportError(
                "mpi4py is not installed: pip install 'pagewire[mpi]'", name=error.name
            ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
