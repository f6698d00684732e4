"""Which MPI a native program gets when run.mpi is auto, and whether the one that was asked for can
carry it.

An MPI carries a program when the loader finds that MPI's library for it and every symbol that the
start needs, and when the library reaches libfabric. MPICH and its kin share an ABI, so the wheel
carries what any of them has linked; the other way round, what a program brings for Fortran or C++
may belong to its own MPI alone.
"""

import os
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping

from pagewire.cli.launch import fabric, mpi_choice, wanted_mpi
from pagewire.cli.launch.mpi_choice import TITLES, Mpi
from pagewire.cli.launch.program import Program
from pagewire.cli.launch.wanted_mpi import Loaded, Wanted
from pagewire.native.settings import ConfigError

_KINDS = {
    "libmpi.so.12": "mpich",
    "libmpich.so.12": "mpich",
    "libmpi_abi.so.1": "mpich",
    "libmpifort.so.12": "mpich",
    "libmpichfort.so.12": "mpich",
    "libmpicxx.so.12": "mpich",
    "libmpichcxx.so.12": "mpich",
    "libmpi.so.40": "openmpi",
    "libmpi_mpifh.so.40": "openmpi",
    "libmpi_usempif08.so.40": "openmpi",
    "libmpi_usempi_ignore_tkr.so.40": "openmpi",
    "libmpi_cxx.so.40": "openmpi",
}
"""Which MPI the library that a program asks for belongs to."""

_OF_MPICH_ABI = ("mpich", "intel")

_LINK_ANEW = "link it with MPICH or Open MPI 3 or newer"
_LINK_AS_MPICH = "load the module cray-mpich-abi and link it anew: it then asks for libmpi.so.12"
_OTHERS = (
    (r"libmpi_(cray|gnu|intel|nvidia|amd|aocc|pgi)", "Cray MPICH", _LINK_AS_MPICH),
    (r"libmpi_ibm\.", "IBM Spectrum MPI", _LINK_ANEW),
    (r"libmpi(_mt)?\.so$", "HPE MPT", _LINK_ANEW),
    (r"libmpich\.", "an MPICH older than 3.1", _LINK_ANEW),
    (r"libmpi\.so\.([0-9]|1[013-9]|[23].)$", "an Open MPI older than 3", _LINK_ANEW),
)
"""Other MPIs by what their libraries are called: title and remedy."""

_LIBFABRIC = re.compile(r"libfabric\.so\.\d+")
_OLDEST_LIBFABRIC = (1, 17)
"""As transport/fabric/library.h has it."""


def choose(program: Program, environ: Mapping[str, str]) -> tuple[str, str]:
    """run.mpi for a native program, and why, as a sentence; ConfigError when no MPI carries it."""
    _refuse_static(program)
    wanted = wanted_mpi.of_program(program, environ)
    if wanted is None:
        mpi = mpi_choice.find("auto", ask=True)
        return "auto", (
            f"{mpi.title} ({mpi.mpiexec}), the default: no MPI is seen in what "
            f"'{os.path.basename(program.target)}' loads"
        )
    reasons = [] if wanted.path else [f"it is not found{_remedy(wanted)}"]
    for choice in _candidates(wanted):
        try:
            mpi = mpi_choice.find(choice, ask=True)
            reason = _why_not(wanted, mpi, environ)
        except ConfigError as error:
            reasons.append(str(error))
            continue
        if not reason:
            chosen = "auto" if choice == "mpich" else choice
            return chosen, f"{mpi.title} ({mpi.mpiexec}), {_relation(wanted, mpi)}"
        reasons.append(f"{mpi.title} ({mpi.mpiexec}) does not carry it: {reason}")
    raise ConfigError(f"{wanted.who} loads {wanted.library}; " + "; ".join(reasons))


def _relation(wanted: Wanted, mpi: Mpi) -> str:
    is_its_own = not mpi.library_folder or wanted.path.startswith(f"{mpi.library_folder}/")
    if is_its_own or mpi.kind == "openmpi":
        return f"whose {wanted.library} {wanted.who} loads"
    return f"whose ABI {wanted.library} has, which {wanted.who} loads"


def check(program: Program, mpi: Mpi, environ: Mapping[str, str]) -> None:
    """Refuse a native program that this MPI does not carry: each rank would be alone, or its bytes
    would go around the NI."""
    _refuse_static(program)
    wanted = wanted_mpi.of_command(program, environ)
    if wanted is None:
        return
    kind = _kind_of(wanted)
    if kind != mpi.kind and not {kind, mpi.kind} <= set(_OF_MPICH_ABI):
        raise ConfigError(
            f"command {wanted.who} is linked with {wanted.library} of {TITLES[kind]}, and run.mpi "
            f"is {mpi.title}: leave --mpi out, or add --mpi {kind}"
        )
    reason = _why_not(wanted, mpi, environ)
    if reason:
        raise ConfigError(
            f"command {wanted.who}: {mpi.title} ({mpi.mpiexec}) does not carry it: {reason}"
        )


def _refuse_static(program: Program) -> None:
    if program.kind == "native" and wanted_mpi.is_static(program):
        raise ConfigError(
            f"command '{program.target}' is linked with its MPI statically, and nothing can be put "
            "below that: link it dynamically (without -static)"
        )


def _remedy(wanted: Wanted) -> str:
    if _kind_of(wanted) != "openmpi":
        return ""
    return ": apt-get install openmpi-bin brings that of Debian and Ubuntu"


def _kind_of(wanted: Wanted) -> str:
    kind = _KINDS.get(wanted.library)
    if kind:
        return kind
    for pattern, title, remedy in _OTHERS:
        if re.match(pattern, wanted.library):
            raise ConfigError(
                f"{wanted.who} is linked with {wanted.library} of {title}, which pagewire does not "
                f"carry: {remedy}"
            )
    raise ConfigError(f"{wanted.who} is linked with {wanted.library}: {_LINK_ANEW}")


def _candidates(wanted: Wanted) -> Iterator[str]:
    """Values of run.mpi, best first: the one of this environment for all of MPICH's ABI; Open MPI
    where the program finds it, since its parts fit its own version alone."""
    kind = _kind_of(wanted)
    own = mpi_choice.beside(wanted.path, _OF_MPICH_ABI if kind == "mpich" else [kind])
    if kind == "mpich":
        yield "mpich"
    if own and pathlib.Path(own.mpiexec).parents[1] != pathlib.Path(mpi_choice.openmpi_folder()):
        yield own.mpiexec
    if kind == "openmpi":
        yield "openmpi"


def _why_not(wanted: Wanted, mpi: Mpi, environ: Mapping[str, str]) -> str:
    """Why an MPI does not carry what wants one; empty when it does."""
    with tempfile.TemporaryDirectory(prefix="pagewire-") as folder:
        variables = fabric.environment(environ, mpi, folder)
        found = wanted_mpi.load(wanted.file, variables)
        path = found.libraries.get(wanted.library, "") or wanted.path
        if wanted.is_final:
            reason = _why_not_started(wanted, found, mpi)
            if reason:
                return reason
        return _why_no_libfabric(path, mpi, variables) if path else ""


def _why_not_started(wanted: Wanted, found: Loaded, mpi: Mpi) -> str:
    absent = [name for name, path in found.libraries.items() if not path]
    if absent:
        return (
            f"{', '.join(absent)} is not found: install what has it, or name its folder in "
            "LD_LIBRARY_PATH"
        )
    path = os.path.realpath(found.libraries[wanted.library])
    if mpi.library_folder and os.path.dirname(path) != os.path.realpath(mpi.library_folder):
        return f"the program takes {path} by its RPATH; link it without (or with RUNPATH)"
    if found.undefined:
        return f"{path} does not have {found.undefined[0]}, which the program's libraries need"
    doubled = sorted(name for name in found.libraries if name.startswith("libopen-pal.so"))
    if len(doubled) > 1:
        return f"the program's libraries bring parts of another version ({', '.join(doubled)})"
    return ""


def _why_no_libfabric(library: str, mpi: Mpi, environ: Mapping[str, str]) -> str:
    """library: that of the MPI."""
    if mpi.kind == "intel":
        return ""  # it loads libfabric when it starts
    libraries = dict(wanted_mpi.load(library, environ).libraries)
    if mpi.kind == "openmpi":  # which has its ways in files of their own
        for plugin in pathlib.Path(library).resolve().parent.glob("openmpi*/**/mca_mtl_ofi.so"):
            libraries.update(wanted_mpi.load(str(plugin), environ).libraries)
    path = next((at for name, at in libraries.items() if _LIBFABRIC.fullmatch(name)), None)
    if path is None:
        # Else libfabric may be a part of it.
        if mpi.kind == "mpich" and "libucp.so.0" not in libraries:
            return ""
        return f"{library} is built without libfabric; leave --mpi out"
    if mpi.library_folder and path.startswith(f"{mpi.library_folder}/"):
        return ""  # its own
    try:
        version = fabric.version_of(path)
    except (OSError, AttributeError):
        return f"its libfabric cannot be loaded ({path or 'not found'}): apt-get install libfabric1"
    if version < _OLDEST_LIBFABRIC:
        return "its libfabric is version {}.{} ({}), and the provider needs {}.{}".format(
            *version, path, *_OLDEST_LIBFABRIC
        )
    return ""
