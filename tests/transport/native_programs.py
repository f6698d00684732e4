"""Builds the C programs of tests/c/transport/mpi, and runs them on plain MPICH or the provider."""

import functools
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
from cli_runs import BIN, command, reported, started

from pagewire.cli.launch import fabric

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "c" / "transport" / "mpi"

needs_mpicc = pytest.mark.skipif(
    not (BIN / "mpicc").exists(), reason="needs mpicc beside this Python (pip install mpich)"
)
needs_provider = pytest.mark.skipif(
    bool(fabric.missing()), reason="needs the libfabric provider (apt-get install libfabric-dev)"
)

on_bad_networks = pytest.mark.parametrize(
    "sites",
    [
        {"packet_loss": "1:100:7"},
        {"packet_corruption": "1:200:7", "duplication": "1:20:7", "delay": "1:20:7"},
        {"lost_ack": "1:10:7", "lost_nack": "1:10:7", "lost_err": "1:10:7", "fifo_full": "1:10:7"},
    ],
    ids=" ".join,
)

FLAGS = ["-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"]


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Of the executables; goes away with this process."""
    return tempfile.TemporaryDirectory(prefix="pagewire-programs-")


def _compile(name: str, command: list[str]) -> str:
    path = os.path.join(_folder().name, name)
    started([*command, "-o", path], code=0)
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


def plain(num_ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    """On MPICH alone, its shared memory and libfabric's tcp."""
    environ = {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    return started([str(BIN / "mpiexec"), "-n", str(num_ranks), *words], environ=environ)


def launch(
    num_ranks: int, *words: str, options: tuple[str, ...] = (), **how
) -> subprocess.CompletedProcess[str]:
    """Over the provider; words: the command and its arguments. how: as `started` has it."""
    return command("launch", "-n", str(num_ranks), *options, "--", *words, **how)


def launch_with_report(
    folder: pathlib.Path, num_ranks: int, *words: str, options: tuple[str, ...] = ()
) -> tuple[list[str], dict]:
    """Lines of a run that ended well, and its report."""
    environ = {"MPI_PROGRAMS_FOLDER": str(folder)}
    words = (*options, "--quiet", "--", *words)
    printed, document = reported(folder, num_ranks, *words, environ=environ)
    return printed.splitlines(), document
