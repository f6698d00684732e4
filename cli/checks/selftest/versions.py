"""Versions of the parts that a row of the table was tried with."""

import ctypes
import importlib.metadata
import os
import platform
import subprocess
import sys

from pagewire.cli.launch import fabric, mpi_choice
from pagewire.native.settings import ConfigError

_ASKING_S = 60.0
_NAME = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(" ".join(MPI.Get_library_version().strip("\\0").splitlines()[0].split(",")[0].split()))
"""


def of_environment() -> dict[str, str]:
    """Of this Python's environment."""
    return {
        "pagewire": importlib.metadata.version("pagewire"),
        "Python": platform.python_version(),
        "MPI": _mpi(),
        "mpi4py": version_of("mpi4py"),
        "libfabric": _libfabric(),
    }


def text_of(versions: dict[str, str]) -> str:
    """As a cell of the table."""
    return ", ".join(f"{name} {text}" for name, text in versions.items() if name != "pagewire")


def version_of(name: str) -> str:
    """Of an installed package."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _chosen() -> mpi_choice.Mpi | None:
    try:
        return mpi_choice.find(os.environ.get("PAGEWIRE_RUN_MPI", "auto"), ask=True)
    except ConfigError:
        return None


def _mpi() -> str:
    """As the library tells it, in a process of its own: it would start MPI in this one."""
    mpi = _chosen()
    environ = {**os.environ, **(mpi.variables() if mpi else {})}
    try:
        asked = subprocess.run(
            [sys.executable, "-P", "-c", _NAME],
            env=environ,
            capture_output=True,
            text=True,
            timeout=_ASKING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no answer"
    return asked.stdout.strip().replace("MPICH Version:", "MPICH") or "none"


def _libfabric() -> str:
    mpi = _chosen()
    found = fabric.libfabric(mpi) if mpi else "none"
    if found[:1].isdigit():
        return found.split()[0]
    try:
        version = int(ctypes.CDLL("libfabric.so.1").fi_version())
    except (OSError, AttributeError):
        return "none"
    return f"{version >> 16}.{version & 0xFFFF} of the system"
