"""What a program needs in its environment to run over the libfabric provider `pagewire`.

The provider and the library that marks MPI calls lie in pagewire/fabric/. All of it is chosen by
variables, which the ranks inherit from mpiexec: the same ones serve `pagewire
launch` and, by `pagewire env`, an mpiexec of the user's own. A variable that the user has set
otherwise would lead the program's bytes around the NI, so it is an error before the run.
"""

import ctypes
import dataclasses
import mmap
import pathlib
import shutil
from collections.abc import Mapping

import pagewire
from pagewire.cli.launch.mpi_choice import LIBRARIES, TITLES, Mpi
from pagewire.cli.launch.program import Program
from pagewire.native.settings import ConfigError

PROVIDER = "libpagewire-fi.so"
MARKS = "libpagewire-mpi.so"
MARKS_OPENMPI = "libpagewire-openmpi.so"
"""The same without what Open MPI up to 5 does not have, the calls with large counts above all:
mpi4py's wheel takes those that the process has."""

NAME = "pagewire"
"""Of the provider, as libfabric knows it."""

_OF_LARGE_COUNTS = "MPI_Send_c"

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
}
_FOR_ALL = (
    # Else MPICH takes the provider that libfabric lists first.
    _Variable("FI_PROVIDER", NAME, "another provider is no NI"),
)
_PREFERRED = {
    # MPICH 5.0.2 takes the address of a probed message's sender from nowhere when its type has gaps
    # and it lets the provider fill these. The provider gathers them in a buffer as MPICH does.
    "mpich": {"MPIR_CVAR_CH4_OFI_ENABLE_PT2PT_NOPACK": "0"},
    "openmpi": {},
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
    for each in (*_FOR_ALL, *_VARIABLES[mpi.kind], *_REFUSED[mpi.kind]):
        for name in _spellings(each.name):
            given = environ.get(name, "").strip()
            if given and given not in (each.value, *each.others):
                raise ConfigError(
                    f"{name}={given} in the environment: {each.reason}; unset it "
                    f"(run.transport = 'fabric' needs {each.value})"
                )


def check_program(program: Program, mpi: Mpi) -> None:
    """Refuse a native program of another MPI: each of its ranks would be alone."""
    if program.kind != "native":
        return
    linked = _linked_mpi(shutil.which(program.target) or program.target)
    if linked and linked != mpi.kind:
        remedy = "--mpi openmpi" if linked == "openmpi" else "--mpi mpich"
        raise ConfigError(
            f"command '{program.target}' is linked with {LIBRARIES[linked]} of {TITLES[linked]}, "
            f"and run.mpi is {mpi.title}: add {remedy}"
        )


def environment(environ: Mapping[str, str], mpi: Mpi) -> dict[str, str]:
    """The environment with all that leads the program's messages to the NI; it must have been
    checked."""
    result = dict(environ)
    for each in (*_FOR_ALL, *_VARIABLES[mpi.kind]):
        if result.get(each.name, "").strip() not in each.others:
            result[each.name] = each.value
    for name, value in _PREFERRED[mpi.kind].items():
        if not any(each in environ for each in _spellings(name)):
            result[name] = value
    here = folder()
    result["FI_PROVIDER_PATH"] = _joined(str(here), environ.get("FI_PROVIDER_PATH", ""))
    # The user's first: a sanitizer's library must be.
    result["LD_PRELOAD"] = _joined(*environ.get("LD_PRELOAD", "").split(), str(here / _marks(mpi)))
    if mpi.library_folder:
        found = environ.get("LD_LIBRARY_PATH", "")
        result["LD_LIBRARY_PATH"] = _joined(mpi.library_folder, found)
    return {**result, **mpi.variables()}


def _marks(mpi: Mpi) -> str:
    """Name of the marking library for an MPI. Where its library lies is not known of the system's;
    those have no large counts."""
    if mpi.kind != "openmpi":
        return MARKS
    library = pathlib.Path(mpi.library_folder, LIBRARIES[mpi.kind])
    has_large_counts = mpi.library_folder and _names(str(library), _OF_LARGE_COUNTS)
    return MARKS if has_large_counts else MARKS_OPENMPI


def libfabric(mpi: Mpi) -> str:
    """Version and path of the libfabric that an MPI brings, as text."""
    root = pathlib.Path(mpi.library_folder or "/nonexistent")
    for path in (root / "mpich" / "libfabric.so.1", root / "openmpi" / "libfabric.so.1"):
        if path.exists():
            try:
                version = ctypes.CDLL(str(path)).fi_version()
            except (OSError, AttributeError) as error:
                return f"cannot be loaded: {error}"
            return f"{version >> 16 & 0xFFFF}.{version & 0xFFFF} ({path})"
    return "not beside the MPI; the system's, if there is one"


def _spellings(name: str) -> list[str]:
    """MPICH reads its variables under three prefixes."""
    rest = name.removeprefix("MPIR_CVAR_")
    if rest == name:
        return [name]
    return [f"{prefix}{rest}" for prefix in ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_")]


def _joined(*paths: str) -> str:
    """Paths as the loader takes them, each once."""
    return ":".join(dict.fromkeys(each for path in paths for each in path.split(":") if each))


def _linked_mpi(path: str) -> str:
    """The MPI whose library an executable names; empty for scripts and whatever names none."""
    named = [kind for kind, name in LIBRARIES.items() if _names(path, name)]
    return named[0] if len(named) == 1 else ""


def _names(path: str, name: str) -> bool:
    """Whether an executable or a library has a name in a table of strings."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            return content[:4] == b"\x7fELF" and content.find(b"\0" + name.encode() + b"\0") >= 0
    except (OSError, ValueError):
        return False
