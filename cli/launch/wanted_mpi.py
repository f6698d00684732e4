"""Which MPI a command loads, told before it starts by the system's own loader, and by the Python
that a script is for.

The loader lists what it would load, by the rules that hold for the start (RPATH, LD_LIBRARY_PATH,
its cache), and starts nothing. A program may load an MPI later (dlopen) or start others that do: of
these only mpi4py is known here.
"""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping

from pagewire.cli.launch import elf
from pagewire.cli.launch.program import Program

_ASKING_S = 20.0
_MAX_WORDS = 12
"""How many words of a command may be the program that a wrapper starts."""

_FOUND = re.compile(r"^\s*(\S+) => (/\S.*?|not found)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
_LIBRARY = re.compile(
    r"lib(?:mpi|mpich|mpi_abi|mpi_ibm|mpi_mt|mpi_(?:cray|gnu|intel|nvidia|amd|aocc|pgi)\w*)\.so"
    r"(?:\.\d+)?"
)
"""Names of libraries that hold an MPI."""
_LANGUAGE = re.compile(
    r"lib(?:mpi(?:fort|cxx)|mpich(?:fort|cxx)|mpi_(?:mpifh|usempi\w*|cxx))\.so(?:\.\d+)?"
)
"""Those for Fortran and C++, which stand upon them."""

_PYTHON = re.compile(r"python[\d.]*")
_ASK_PYTHON = """
import json
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(json.dumps(sorted({line.split(None, 5)[-1].strip() for line in open("/proc/self/maps")})))
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """What the loader finds for an executable or a library."""

    libraries: Mapping[str, str]
    """By the name that is asked for, the path; empty where it is not found."""
    undefined: tuple[str, ...] = ()
    """Symbols that the start needs, and that no library has."""

    @property
    def mpi(self) -> str:
        """Name of the library that holds an MPI, or of one that stands upon it and is not found;
        empty: none."""
        for pattern in (_LIBRARY, _LANGUAGE):
            for name in self.libraries:
                if pattern.fullmatch(name):
                    return name
        return ""


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """The MPI that a command loads."""

    who: str
    """What loads it, in a sentence."""
    file: str
    library: str
    """The name that is asked for, as libmpich.so.12."""
    path: str
    """Where it is found now; empty: nowhere."""
    is_final: bool = False
    """The command itself loads it: no wrapper comes before that could change what is found."""


def load(path: str, environ: Mapping[str, str]) -> Loaded:
    """What the loader would load; nothing for what is neither dynamic executable nor library."""
    if not elf.is_elf(path):
        return Loaded({})
    loader = elf.loader(path) or (elf.loader(sys.executable) if ".so" in path else "")
    if not loader:
        return Loaded({})
    asked = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "yes", "LC_ALL": "C"}
    said = _said([loader, path], {**environ, "LD_PRELOAD": "", **asked}, subprocess.STDOUT)
    found = {name: "" if at == "not found" else at for name, at in _FOUND.findall(said)}
    return Loaded(found, tuple(_UNDEFINED.findall(said)))


def of_command(program: Program, environ: Mapping[str, str]) -> Wanted | None:
    """The MPI that a native command loads by itself; None for scripts, and where none is seen."""
    path = shutil.which(program.target, path=environ.get("PATH"))
    if program.kind != "native" or not path:
        return None
    wanted = _of_executable(path, environ)
    return dataclasses.replace(wanted, is_final=True) if wanted else None


def of_program(program: Program, environ: Mapping[str, str]) -> Wanted | None:
    """The MPI of a native command: its own, that of mpi4py when it is Python, or that of the first
    of its words that is a program with one (as behind env or taskset)."""
    wanted = of_command(program, environ)
    if wanted or program.kind != "native":
        return wanted
    for word in (program.target, *program.arguments[:_MAX_WORDS]):
        path = shutil.which(word, path=environ.get("PATH"))
        wanted = _of_file(path, environ) if path else None
        if wanted:
            return wanted
    return None


def is_static(program: Program) -> bool:
    """Whether a native command has an MPI in itself, and no loader that puts anything before."""
    path = shutil.which(program.target) or ""
    return elf.is_elf(path) and not elf.loader(path) and elf.names(path, "MPI_Init")


def _of_executable(path: str, environ: Mapping[str, str]) -> Wanted | None:
    loaded = load(path, environ)
    if not loaded.mpi:
        return None
    return Wanted(f"'{os.path.basename(path)}'", path, loaded.mpi, loaded.libraries[loaded.mpi])


def _of_file(path: str, environ: Mapping[str, str]) -> Wanted | None:
    wanted = _of_executable(path, environ)
    if wanted:
        return wanted
    python = path if elf.is_elf(path) else _interpreter(path, environ)
    return _of_python(python, environ) if _PYTHON.fullmatch(os.path.basename(python)) else None


def _of_python(python: str, environ: Mapping[str, str]) -> Wanted | None:
    """What mpi4py of a Python loads: it chooses when it is imported."""
    try:
        mapped = json.loads(_said([python, "-c", _ASK_PYTHON], environ, subprocess.DEVNULL))
    except ValueError:
        return None
    for path in mapped:
        library = re.sub(r"(\.so\.\d+)\..*$", r"\1", os.path.basename(path))
        if _LIBRARY.fullmatch(library):
            return Wanted(f"mpi4py of {python}", path, library, path)
    return None


def _interpreter(path: str, environ: Mapping[str, str]) -> str:
    """The program that `#!` names, behind env too; empty for what is no script."""
    try:
        with open(path, "rb") as file:
            line = file.readline(512).decode("utf-8", "replace")
    except OSError:
        return ""
    words = line[2:].split() if line.startswith("#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return shutil.which(words[0], path=environ.get("PATH")) or "" if words else ""


def _said(words: list[str], environ: Mapping[str, str], stderr: int) -> str:
    """What a command prints; nothing when it cannot be asked."""
    try:
        done = subprocess.run(
            words,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            timeout=_ASKING_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
