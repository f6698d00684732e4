"""The MPI library of the emulated machine: `from pagewire.transport import MPI`.

`MPI` is mpi4py.MPI itself with its data-moving methods replaced. It is loaded on first use, so
importing this package alone neither loads nor initializes MPI.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "MPI":
        from pagewire.transport.loader import activate

        return activate()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
