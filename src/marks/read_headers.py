"""Read the functions of MPI out of the headers of its implementations, for the table from which
the marking library's wrappers are made (transport/marks/mpi_functions.txt).

read_headers.py TABLE INCLUDE_FOLDER...: writes the union of what the folders' mpi.h declare. A
wrapper passes machine words on and returns an int, so a marked function must take nothing but
integers of at most 8 bytes and pointers; one that does not, or that two MPIs declare with a
different number of arguments, ends the reading with its name.
"""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from call_kinds import kind_of

HEADERS = (("mpi.h",), ("mpi_abi.h",), ("mpi.h", "mpi-ext.h"))
"""What a program includes; those of an include folder that has them."""

TITLE = """\
# The functions of MPI-1 to MPI-5 that MPICH, its standard ABI and Open MPI declare. Written by
# src/marks/read_headers.py; the kinds come from src/marks/call_kinds.py.
# name, number of arguments, how many are text (Fortran passes a hidden length for each), kind,
# whether Open MPI declares it
"""

_OF_OPENMPI = "mpi-ext.h"
"""A header that Open MPI alone has."""

_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)")
_PROTOTYPE = re.compile(r"([A-Za-z_][\w\s*]*?[\s*])(MPIX?_\w+)\s*\(((?:[^();{}]|\(\s*\*)*)\)\s*;")
_OF_NAME = re.compile(r"typedef\s+([\w\s]+?)\s+(\w+)\s*;")
_OF_POINTER = re.compile(r"typedef\s+(?:struct\s+)?\w+\s*\*\s*(\w+)\s*;")
_OF_FUNCTION = re.compile(r"typedef\s+[\w\s*]+?\(\s*\*?\s*(\w+)\s*\)\s*\(")
_INTEGER = {"char", "short", "int", "long", "signed", "unsigned"}


@dataclass(frozen=True, slots=True)
class Function:
    """A row of the table."""

    name: str
    num_arguments: int
    num_texts: int
    """Arguments that are text, or arrays of it."""
    kind: str
    in_openmpi: bool = False
    """Whether Open MPI declares it."""

    def row(self) -> str:
        place = "openmpi" if self.in_openmpi else "-"
        return f"{self.name} {self.num_arguments} {self.num_texts} {self.kind} {place}"


def _preprocessed(folder: pathlib.Path, headers: Iterable[str]) -> str:
    """The headers as the compiler sees them, without attributes."""
    compiler = os.environ.get("CC", "cc").split()
    run = subprocess.run(
        [*compiler, "-E", "-P", "-I", str(folder), "-x", "c", "-"],
        input="".join(f"#include <{header}>\n" for header in headers),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise SystemExit(f"read_headers.py: {compiler[0]} cannot read {folder}: {run.stderr}")
    return _ATTRIBUTE.sub(" ", run.stdout)


def _words(text: str) -> set[str]:
    """Names of types of which an argument is one integer or pointer."""
    found = set(_OF_POINTER.findall(text)) | set(_OF_FUNCTION.findall(text))
    names = _OF_NAME.findall(text)
    while True:
        more = {name for base, name in names if _is_word(base, found)} - found
        if not more:
            return found
        found |= more


def _is_word(kind: str, words: set[str]) -> bool:
    """Whether a type, or a parameter with its name, is one machine word in a call.

    Parameters of the type of a function are pointers to it. No integer of C that has these names
    is longer than 8 bytes; __int128 has another.
    """
    if "*" in kind or "[" in kind:
        return True
    named = [word for word in kind.split() if word not in ("const", "volatile")]
    return bool(named) and (named[0] in words or named[0] in _INTEGER)


def _prototypes(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Returned type, name and parameters of each MPI function."""
    for returned, name, parameters in _PROTOTYPE.findall(text):
        listed = [" ".join(each.split()) for each in parameters.split(",")]
        if "typedef" not in returned.split():
            yield (
                returned.removeprefix("extern").strip(),
                name,
                listed if listed != ["void"] else [],
            )


def _refuse(function: str, reason: str) -> None:
    raise SystemExit(
        f"read_headers.py: {function} {reason}; a wrapper of transport/marks passes integers and "
        "pointers on and returns an int: make it local in src/marks/call_kinds.py"
    )


def read_folder(folder: pathlib.Path) -> dict[str, Function]:
    """By name what an MPI's headers declare; empty where there is no mpi.h."""
    found: dict[str, Function] = {}
    for headers in HEADERS:
        if not all((folder / header).is_file() for header in headers):
            continue
        text = _preprocessed(folder, headers)
        words = _words(text)
        for returned, name, parameters in _prototypes(text):
            function = _function(returned, name, parameters, words)
            _add(found, replace(function, in_openmpi=(folder / _OF_OPENMPI).is_file()))
    return found


def _function(returned: str, name: str, parameters: list[str], words: set[str]) -> Function:
    try:
        kind = kind_of(name)
    except ValueError as error:
        raise SystemExit(f"read_headers.py: {error}") from None
    if kind != "local":
        if returned != "int":
            _refuse(name, f"returns {returned}")
        for parameter in parameters:
            if not _is_word(parameter, words):
                _refuse(name, f"takes '{parameter}'")
    num_texts = sum(bool(re.search(r"\bchar\b", each)) for each in parameters)
    return Function(name, len(parameters), num_texts, kind)


def _add(found: dict[str, Function], function: Function) -> None:
    known = found.setdefault(function.name, function)
    if known.num_arguments != function.num_arguments and function.kind != "local":
        _refuse(function.name, f"has {known.num_arguments} and {function.num_arguments} arguments")
    found[function.name] = replace(
        known,
        num_texts=max(known.num_texts, function.num_texts),
        in_openmpi=known.in_openmpi or function.in_openmpi,
    )


def read_table(table: pathlib.Path) -> dict[str, Function]:
    """The rows of the table by name."""
    rows = (line.split() for line in table.read_text(encoding="utf-8").splitlines())
    found = (
        Function(row[0], int(row[1]), int(row[2]), row[3], row[4] == "openmpi")
        for row in rows
        if row and row[0] != "#"
    )
    return {function.name: function for function in found}


def main(table: str, folders: Iterable[str]) -> None:
    found: dict[str, Function] = {}
    for folder in folders:
        functions = read_folder(pathlib.Path(folder))
        if not functions:
            raise SystemExit(f"read_headers.py: {folder} has no mpi.h")
        for function in functions.values():
            _add(found, function)
    rows = "".join(f"{found[name].row()}\n" for name in sorted(found))
    pathlib.Path(table).write_text(TITLE + rows, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
