"""Programs of Debian's packages, unpacked in a folder of their own: nothing is installed."""

import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

import pytest

LIBRARIES = "usr/lib/x86_64-linux-gnu"
DOWNLOAD_S = 300.0


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Goes away with this process."""
    return tempfile.TemporaryDirectory(prefix="pagewire-debian-")


def _apt(*words: str, folder: pathlib.Path | str = "/", tool: str = "apt-get") -> str:
    done = subprocess.run(
        [tool, "-q", *words], cwd=folder, env={**os.environ, "LC_ALL": "C"},
        capture_output=True, text=True, timeout=DOWNLOAD_S, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no packages at hand: {tool} {words[0]}: {done.stderr.strip()[-200:]}")
    return done.stdout


def _needed(packages: Sequence[str]) -> set[str]:
    """What they depend on that is not installed; of an MPI, which belongs in one place, what is."""
    planned = _apt("install", "--simulate", "--no-install-recommends", *packages)
    alone = ("--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces")
    named = _apt("depends", "--recurse", *alone, *packages, tool="apt-cache").splitlines()
    known = pathlib.Path("/var/lib/dpkg/info").glob("*.list")
    installed = {path.stem.split(":")[0] for path in known}
    return {line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")} | {
        each for each in installed.intersection(named) if "mpi" in each
    }


def unpacked(name: str, *packages: str, alone: bool = False) -> pathlib.Path:
    """A root with these packages and what they depend on that is not installed, or is of an MPI.

    alone: without what they depend on. Skips the test where there is no registry.
    """
    root = pathlib.Path(_folder().name, name)
    if root.exists():
        return root
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("needs apt-get and dpkg-deb")
    wanted = set(packages) if alone else _needed(packages) | set(packages)
    with tempfile.TemporaryDirectory(dir=_folder().name) as folder:
        _apt("download", *sorted(wanted), folder=folder)
        for path in pathlib.Path(folder).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", path, root], check=True, timeout=DOWNLOAD_S)
    return root


def environment(root: pathlib.Path) -> dict[str, str]:
    """What its programs need, as they are not where their package expects them."""
    libraries = root / LIBRARIES
    folders = [libraries, libraries / "blas", libraries / "lapack"]
    return {
        "LD_LIBRARY_PATH": ":".join(map(str, folders)),
        "OPAL_PREFIX": str(root / "usr"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
