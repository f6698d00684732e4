"""Extensions in C that call MPI themselves, as h5py (in HDF5) and petsc4py (in PETSc) do: below
mpi4py's methods, where the facade is, so around the NI.

Their libraries are loaded when Python imports them. One that comes in by another way (ctypes, with
`MPI._handleof`) is noticed at the run's end.
"""

from importlib.machinery import ExtensionFileLoader
from types import ModuleType

from mpi4py import MPI

from pagewire.native import ffi, lib
from pagewire.transport.facade.rank import here

_NAMES_BYTES = 4096


def look() -> None:
    """Say which loaded libraries call MPI themselves; NotCarriedError when run.strict is set."""
    names = ffi.new("char[]", _NAMES_BYTES)
    lib.pw_mpi_users(MPI.__file__.encode(), names, _NAMES_BYTES)
    here.calls.libraries_call(ffi.string(names).decode(errors="replace").split("\n")[:-1])


def install() -> None:
    """Look now, and from now on whenever Python has imported an extension."""
    look()
    execute = ExtensionFileLoader.exec_module

    def exec_module(self: ExtensionFileLoader, module: ModuleType) -> None:
        execute(self, module)
        if here.messaging:
            look()

    ExtensionFileLoader.exec_module = exec_module  # type: ignore[method-assign]
