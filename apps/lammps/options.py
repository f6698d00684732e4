"""Command line of the mini-app; defaults are LAMMPS' `melt` (reduced Lennard-Jones units)."""

import argparse
import dataclasses
import math

from pagewire.apps.command import Parser, SharedOptions, check_limits, flag, option, require

MAX_ATOMS = 2**31 - 1  # neighbour lists hold 32-bit indices
MAX_SEED = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options(SharedOptions):
    """What one run is made of. Lengths in sigma, energies in epsilon, times in tau."""

    cells: tuple[int, int, int] = (20, 20, 20)
    """fcc cells (4 atoms each) along x, y, z"""
    num_steps: int = option(100, "--steps", "time steps", least=0)
    thermo_every: int = option(10, "--thermo", "steps between output lines; 0: ends only", least=0)
    density: float = option(0.8442, "--density", "atoms per sigma^3", above=0)
    cutoff: float = option(2.5, "--cutoff", "of the potential, in sigma", above=0)
    skin: float = option(0.3, "--skin", "of the neighbour lists, in sigma", least=0)
    """what they reach beyond the cut-off"""
    temperature: float = option(3.0, "--temperature", "at the start, in epsilon / k_B", least=0)
    timestep: float = option(0.005, "--timestep", "in tau", above=0)
    seed: int = option(87287, "--seed", "of the velocities", least=0, most=MAX_SEED)
    neigh_every: int = option(1, "--neigh-every", "steps between rebuild checks", least=1)
    neigh_delay: int = option(0, "--neigh-delay", "steps without check after a rebuild", least=0)
    neigh_check: bool = True
    """rebuild only if some atom moved more than skin / 2"""
    newton: bool = True
    """a pair across ranks is computed once and its force sent back"""
    shift: bool = flag("--shift", "shift the pair energy to 0 at the cut-off")
    """forces stay the same"""

    def __post_init__(self) -> None:
        for name, num in zip(("NX", "NY", "NZ"), self.cells, strict=True):
            require(num >= 1, f"--cells {name}", num, "at least 1", "give 1 or more cells")
        require(
            self.num_atoms <= MAX_ATOMS, "number of atoms", self.num_atoms,
            f"at most {MAX_ATOMS}", "use fewer cells",
        )  # fmt: skip
        check_limits(self)

    @property
    def num_atoms(self) -> int:
        return 4 * math.prod(self.cells)

    @property
    def lattice_constant(self) -> float:
        """Edge of the cubic fcc cell, which holds 4 atoms."""
        return math.cbrt(4.0 / self.density)

    @property
    def list_cutoff(self) -> float:
        return self.cutoff + self.skin

    @property
    def box_lengths(self) -> tuple[float, float, float]:
        nx, ny, nz = self.cells
        a = self.lattice_constant
        return nx * a, ny * a, nz * a


def _parser() -> Parser:
    parser = Parser(
        "pagewire.apps.lammps", "Lennard-Jones melt like LAMMPS' melt example; reduced units."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--cells", type=int, nargs=3, default=Options().cells, metavar=("NX", "NY", "NZ"),
        help="fcc cells of 4 atoms along x, y, z",
    )  # fmt: skip
    size.add_argument(
        "--size", type=int, default=argparse.SUPPRESS, metavar="N", help="the same in x, y and z"
    )
    parser.add_argument(
        "--no-neigh-check", dest="neigh_check", action="store_false", default=argparse.SUPPRESS,
        help="rebuild each time, moved or not",
    )  # fmt: skip
    parser.add_argument(
        "--newton", choices=("on", "off"), default="on", help="compute a pair across ranks once"
    )
    parser.add_options(Options, "ids, x, v")
    return parser


def parse_options(argv: list[str] | None) -> Options:
    """Options out of the command line; raises InputError and HelpRequest."""
    given = vars(_parser().parse_args(argv))
    nx, ny, nz = given.pop("cells")
    if "size" in given:
        nx = ny = nz = given.pop("size")
    return Options(cells=(nx, ny, nz), newton=given.pop("newton") == "on", **given)
