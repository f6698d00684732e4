"""What a program needs in its environment to run over the libfabric provider `pagewire`.

The provider and the library that marks MPI calls lie in pagewire/fabric/. All of it is chosen by
variables, which the ranks inherit from mpiexec: the same ones serve `pagewire
launch` and, by `pagewire env`, an mpiexec of the user's own. A variable that the user has set
otherwise would lead the program's bytes around the NI, so it is an error before the run.
"""

import ctypes
import dataclasses
import os
import pathlib
from collections.abc import Mapping

import pagewire
from pagewire.cli.launch import elf
from pagewire.cli.launch.mpi_choice import LIBRARIES, Mpi
from pagewire.native.output import OutputError
from pagewire.native.settings import ConfigError

PROVIDER = "libpagewire-fi.so"
MARKS = "libpagewire-mpi.so"
MARKS_OPENMPI = "libpagewire-openmpi.so"
"""The same without what Open MPI up to 5 does not have, the calls with large counts above all:
mpi4py's wheel takes those that the process has."""

NAME = "pagewire"
"""Of the provider, as libfabric knows it."""

_OF_LARGE_COUNTS = "MPI_Send_c"

_OTHER_NAMES = {"libmpich.so.12": "libmpi.so.12"}
"""Names that programs of Debian's MPICH ask for, and what MPICH itself calls that library."""

_YES = ("1", "true", "yes", "on", "t", "y")


@dataclasses.dataclass(frozen=True, slots=True)
class _Variable:
    """A variable that must have a value, and why."""

    name: str
    value: str
    reason: str
    others: tuple[str, ...] = ()
    """Further values that mean the same."""


_VARIABLES = {
    "mpich": (
        _Variable("MPIR_CVAR_CH4_NETMOD", "ofi", "MPICH reaches the NI by libfabric alone"),
        _Variable("MPIR_CVAR_NOLOCAL", "1", "MPICH's shared memory goes around the NI", _YES),
    ),
    "openmpi": (
        _Variable("OMPI_MCA_pml", "cm", "Open MPI reaches the NI by libfabric alone"),
        _Variable("OMPI_MCA_mtl", "ofi", "Open MPI reaches the NI by libfabric alone"),
        # Windows go by the btl `ofi`; `osc` sm is for those that the program wants shared alone.
        _Variable(
            "OMPI_MCA_btl", "self,ofi", "Open MPI's shared memory goes around the NI", ("self",)
        ),
        _Variable("OMPI_MCA_osc", "rdma,sm", "Open MPI's UCX goes around the NI", ("rdma",)),
        _Variable("OMPI_MCA_osc_sm_priority", "1", "shared memory goes around the NI", ("0",)),
        _Variable("OMPI_MCA_mtl_ofi_provider_include", NAME, "another provider is no NI"),
    ),
    "intel": (
        _Variable("I_MPI_FABRICS", "ofi", "Intel MPI's shared memory goes around the NI"),
        _Variable("I_MPI_OFI_PROVIDER", NAME, "another provider is no NI"),
    ),
}
_FOR_ALL = (
    # Else MPICH takes the provider that libfabric lists first.
    _Variable("FI_PROVIDER", NAME, "another provider is no NI"),
)
_PREFERRED = {
    # MPICH 5.0.2 takes the address of a probed message's sender from nowhere when its type has gaps
    # and it lets the provider fill these. The provider gathers them in a buffer as MPICH does.
    "mpich": {"MPIR_CVAR_CH4_OFI_ENABLE_PT2PT_NOPACK": "0"},
}
"""Set unless the user has."""
_REFUSED = {
    "mpich": (_Variable("MPIR_CVAR_OFI_USE_PROVIDER", NAME, "another provider is no NI"),),
    "openmpi": (
        _Variable("OMPI_MCA_opal_common_ofi_provider_include", NAME, "another provider is no NI"),
    ),
}
"""Not needed, but telling of another intention."""


def folder() -> pathlib.Path:
    """Where provider and marks are installed, if they are."""
    return pathlib.Path(pagewire.__path__[0], "fabric")


def missing() -> list[str]:
    """Names of the parts that are not installed."""
    here = folder()
    return [name for name in (PROVIDER, MARKS, MARKS_OPENMPI) if not here.joinpath(name).is_file()]


def check_installed() -> None:
    """Refuse a run without the provider."""
    absent = missing()
    if absent:
        raise ConfigError(
            f"run.transport = 'fabric' needs {', '.join(absent)} in {folder()}: ./mpirun.sh build "
            "makes them; without it, install libfabric's headers (apt-get install libfabric-dev) "
            "and pagewire again (pip install)"
        )


def check_environment(environ: Mapping[str, str], mpi: Mpi) -> None:
    """Refuse variables that lead a program's bytes around the NI."""
    for each in (*_FOR_ALL, *_VARIABLES[mpi.kind], *_REFUSED.get(mpi.kind, ())):
        for name in _spellings(each.name):
            given = environ.get(name, "").strip()
            if given and given not in (each.value, *each.others):
                raise ConfigError(
                    f"{name}={given} in the environment: {each.reason}; unset it "
                    f"(run.transport = 'fabric' needs {each.value})"
                )


def environment(environ: Mapping[str, str], mpi: Mpi, directory: str = "") -> dict[str, str]:
    """The environment with all that leads the program's messages to the NI; it must have been
    checked.

    directory: of the run, for links to the MPI's library under the names that distributions give
    it; empty: none are made.
    """
    result = dict(environ)
    for each in (*_FOR_ALL, *_VARIABLES[mpi.kind]):
        if result.get(each.name, "").strip() not in each.others:
            result[each.name] = each.value
    for name, value in _PREFERRED.get(mpi.kind, {}).items():
        if not any(each in environ for each in _spellings(name)):
            result[name] = value
    here = folder()
    result["FI_PROVIDER_PATH"] = _joined(str(here), environ.get("FI_PROVIDER_PATH", ""))
    marks, libraries = here / _marks(mpi), environ.get("LD_LIBRARY_PATH", "")
    by_name = " " in str(marks)  # where the loader cuts LD_PRELOAD, but not LD_LIBRARY_PATH
    if by_name:
        result["LD_LIBRARY_PATH"] = libraries = _joined(libraries, str(here))
    # The user's first: a sanitizer's library must be.
    before = environ.get("LD_PRELOAD", "").split()
    result["LD_PRELOAD"] = _joined(*before, marks.name if by_name else str(marks))
    if mpi.library_folder:
        folders = [mpi.library_folder]
        if directory and mpi.kind == "mpich":
            folders.append(_make_links(mpi.library_folder, directory))
        # The libfabric of the wheel, before one that the user's folders have.
        folders += [each for each in (f"{mpi.library_folder}/mpich",) if os.path.isdir(each)]
        result["LD_LIBRARY_PATH"] = _joined(*folders, libraries)
    return {**result, **mpi.variables()}


def _make_links(library_folder: str, directory: str) -> str:
    """A folder of the directory with the library under its other names."""
    made = pathlib.Path(directory, "lib")
    try:
        made.mkdir(exist_ok=True)
        for name, own in _OTHER_NAMES.items():
            link = made / name
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.join(library_folder, own))
    except OSError as error:
        raise OutputError(f"'{made}': {error.strerror}") from None
    return str(made)


def _marks(mpi: Mpi) -> str:
    """Name of the marking library for an MPI. Where its library lies is not known of the system's;
    those have no large counts."""
    if mpi.kind != "openmpi":
        return MARKS
    library = pathlib.Path(mpi.library_folder, LIBRARIES[mpi.kind])
    has_large_counts = mpi.library_folder and elf.names(str(library), _OF_LARGE_COUNTS)
    return MARKS if has_large_counts else MARKS_OPENMPI


def libfabric(mpi: Mpi) -> str:
    """Version and path of the libfabric that an MPI brings, as text."""
    root = pathlib.Path(mpi.library_folder or "/nonexistent")
    for path in (root / "mpich" / "libfabric.so.1", root / "openmpi" / "libfabric.so.1"):
        if path.exists():
            try:
                return "{}.{} ({})".format(*version_of(str(path)), path)
            except (OSError, AttributeError) as error:
                return f"cannot be loaded: {error}"
    return "not beside the MPI; the system's, if there is one"


def version_of(path: str) -> tuple[int, int]:
    """Of a libfabric; OSError or AttributeError when it is none."""
    version = ctypes.CDLL(path).fi_version()
    return version >> 16 & 0xFFFF, version & 0xFFFF


def _spellings(name: str) -> list[str]:
    """MPICH reads its variables under three prefixes."""
    rest = name.removeprefix("MPIR_CVAR_")
    if rest == name:
        return [name]
    return [f"{prefix}{rest}" for prefix in ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_")]


def _joined(*paths: str) -> str:
    """Paths as the loader takes them, each once."""
    return ":".join(dict.fromkeys(each for path in paths for each in path.split(":") if each))
