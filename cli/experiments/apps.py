"""What the application tables know of an app: how it is started, what its output says.

Here are the bundled apps; real_apps.py has the programs that the paper ran.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import ClassVar

from pagewire.cli.kit.app_output import read_hpcg, read_hpl, read_lammps
from pagewire.cli.kit.result import Options
from pagewire.cli.launch import program
from pagewire.cli.launch.program import Program
from pagewire.native.settings import ConfigError


@dataclasses.dataclass(frozen=True, slots=True)
class App:
    """A bundled app as the tables run it."""

    name: str
    sizes: tuple[str, str, str]
    """Words that make the sizes of --quick, of none, and of --full."""
    size_note: str
    rate_unit: str
    read: Callable[[str], tuple[float, float]]
    """Time in s and rate out of its output; raises ValueError."""

    declares_work: ClassVar[bool] = True
    """compute = model works: it tells the platform's flops and bytes between its MPI calls"""
    settings: ClassVar[tuple[str, ...]] = ()
    """`section.name=value` that its runs need"""

    def arguments(self, chosen: Options) -> tuple[str, ...]:
        """What makes the chosen size."""
        return tuple(chosen.pick(*self.sizes).split())

    def title(self, words: tuple[str, ...]) -> str:
        """Name and size."""
        return " ".join((self.name, *words))

    def check(self, chosen: Options) -> None:
        """Raise ConfigError when it cannot be run."""
        if self.name not in program.apps():
            raise ConfigError(
                f"this experiment needs the app '{self.name}', which is not installed"
            )

    def program(self, chosen: Options, num_ranks: int, folder: pathlib.Path) -> Program:
        """What the ranks run; the folder is this run's own."""
        return program.parse([self.name, *self.arguments(chosen)])

    def text(self, folder: pathlib.Path, output: pathlib.Path) -> str:
        """What it said."""
        return output.read_text(encoding="utf-8")


APPS: Mapping[str, App] = {
    app.name: app
    for app in (
        App(
            "lammps",
            ("--size 6 --steps 10", "--size 12 --steps 60", "--size 40 --steps 100"),
            "one melt for all ranks (4 atoms a cell, 6912 by default); the paper does "
            "not give its size, --full takes 256000 atoms.",
            "timesteps/s",
            read_lammps,
        ),
        App(
            "hpl",
            ("--N 192 --NB 32", "--N 2048 --NB 128", "--N 16384 --NB 128"),
            "one system for all ranks; --full is the paper's N = 16384.",
            "GFLOP/s",
            read_hpl,
        ),
        App(
            "hpcg",
            ("--size 8 --iterations 3", "--size 16 --iterations 20", "--size 128 --iterations 50"),
            "points of each rank in x, y and z; --full is the paper's 128^3 a rank.",
            "GFLOP/s",
            read_hpcg,
        ),
    )
}
