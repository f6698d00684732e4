"""Builds the C programs of tests/c/transport/mpi, and runs them on plain MPICH or the provider."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from pagewire.cli.launch import fabric

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "c" / "transport" / "mpi"
BIN = pathlib.Path(sys.prefix, "bin")

needs_mpicc = pytest.mark.skipif(
    not (BIN / "mpicc").exists(), reason="needs mpicc beside this Python (pip install mpich)"
)
needs_provider = pytest.mark.skipif(
    bool(fabric.missing()), reason="needs the libfabric provider (apt-get install libfabric-dev)"
)


FLAGS = ["-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"]


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Of the executables; goes away with this process."""
    return tempfile.TemporaryDirectory(prefix="pagewire-programs-")


def _compile(name: str, command: list[str]) -> str:
    path = os.path.join(_folder().name, name)
    done = subprocess.run(
        [*command, "-o", path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return path


def _c(name: str, *words: str) -> str:
    """Compiled from files of the sources' folder that match, with these flags."""
    sources = [str(path) for word in words for path in sorted(SOURCES.glob(word))]
    flags = [word for word in words if word.startswith("-")]
    return _compile(name, [str(BIN / "mpicc"), *FLAGS, *sources, *flags])


@functools.cache
def programs() -> str:
    """The executable of all self-checking programs."""
    return _c("mpi_programs", "*.c", "-pthread")


@functools.cache
def ends() -> str:
    """The executable of programs that end badly."""
    return _c("mpi_ends", "ends/mpi_ends.c")


@functools.cache
def loops() -> str:
    """The executable of a program that does one thing for ever."""
    return _c("mpi_loops", "ends/mpi_loops.c")


@functools.cache
def old_libfabric() -> str:
    """A library that looks like a libfabric too old."""
    return _c("libold.so", "ends/old_libfabric.c", "-shared", "-fPIC", "-ldl")


@functools.cache
def fortran(compiler: str) -> str:
    """The Fortran program, which binds MPI's C functions itself."""
    prefix = pathlib.Path(sys.prefix)
    link = [f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}", "-lmpi"]
    flags = ["-O1", "-Wall", "-Werror", f"-J{_folder().name}"]
    return _compile("fortran", [compiler, *flags, str(SOURCES / "mpi_programs.f90"), *link])


def clean_environment() -> dict[str, str]:
    """Without what a user's shell may choose."""
    chosen = ("PAGEWIRE_", "FI_", "MPIR_", "MPICH_", "OMPI_", "LD_PRELOAD")
    return {name: text for name, text in os.environ.items() if not name.startswith(chosen)}


def _run(
    command: list[str], environ: dict[str, str], timeout_s: float, cwd: str | pathlib.Path = "/"
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, env=environ, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode() + (error.stderr or b"").decode()
        raise AssertionError(f"still running after {timeout_s} s; it said: {said}") from None


def plain(num_ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    """On MPICH alone, its shared memory and libfabric's tcp."""
    environ = {**clean_environment(), "MPIR_CVAR_CH4_NETMOD": "ofi",
               "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}  # fmt: skip
    return _run([str(BIN / "mpiexec"), "-n", str(num_ranks), *words], environ, 120)


def pagewire(
    *words: str, cwd: str | pathlib.Path = "/", timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """The command with these words."""
    command = [sys.executable, "-P", "-m", "pagewire", *words]
    return _run(command, clean_environment(), timeout_s, cwd)


def launch(
    num_ranks: int,
    *words: str,
    options: tuple[str, ...] = (),
    environ: dict[str, str] | None = None,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Over the provider; words: the command and its arguments."""
    command = [sys.executable, "-P", "-m", "pagewire", "launch", "-n", str(num_ranks), *options]
    return _run([*command, "--", *words], {**clean_environment(), **(environ or {})}, timeout_s)


def launch_with_report(
    folder: pathlib.Path, num_ranks: int, *words: str, options: tuple[str, ...] = ()
) -> tuple[list[str], dict]:
    """Lines of a run that ended well, and its report."""
    path = folder / "report.json"
    done = launch(num_ranks, *words, options=(*options, "--quiet", "--json", str(path)),
                  environ={"MPI_PROGRAMS_FOLDER": str(folder)})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines(), json.loads(path.read_text(encoding="utf-8"))
