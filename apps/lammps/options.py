"""Command line of the mini-app; defaults are LAMMPS' `melt` (reduced Lennard-Jones units)."""

import argparse
import dataclasses
import math

from pagewire.apps.command import Parser, require

MAX_ATOMS = 2**31 - 1  # neighbour lists hold 32-bit indices
MAX_SEED = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one run is made of. Lengths in sigma, energies in epsilon, times in tau."""

    cells: tuple[int, int, int] = (20, 20, 20)
    """fcc cells (4 atoms each) along x, y, z"""
    num_steps: int = 100
    thermo_every: int = 10
    """steps between output lines; 0: only the first and the last"""
    density: float = 0.8442
    """atoms per sigma^3"""
    cutoff: float = 2.5
    skin: float = 0.3
    """what the neighbour lists reach beyond the cut-off"""
    temperature: float = 3.0
    timestep: float = 0.005
    seed: int = 87287
    neigh_every: int = 1
    """steps between two checks whether to rebuild"""
    neigh_delay: int = 0
    """steps without a check after a rebuild"""
    neigh_check: bool = True
    """rebuild only if some atom moved more than skin / 2"""
    newton: bool = True
    """a pair across ranks is computed once and its force sent back"""
    shift: bool = False
    """subtract the energy at the cut-off; forces stay the same"""
    fresh_buffers: bool = False
    """allocate a message's buffer for each message"""
    dump_state: str | None = None
    plain: bool = False

    def __post_init__(self) -> None:
        for name, num in zip(("NX", "NY", "NZ"), self.cells, strict=True):
            require(num >= 1, f"--cells {name}", num, "at least 1", "give 1 or more cells")
        require(
            self.num_atoms <= MAX_ATOMS, "number of atoms", self.num_atoms,
            f"at most {MAX_ATOMS}", "use fewer cells",
        )  # fmt: skip
        for flag, num, least in (
            ("--steps", self.num_steps, 0),
            ("--thermo", self.thermo_every, 0),
            ("--neigh-every", self.neigh_every, 1),
            ("--neigh-delay", self.neigh_delay, 0),
        ):
            require(num >= least, flag, num, f"at least {least}", f"give {least} or more steps")
        require(
            0 <= self.seed <= MAX_SEED, "--seed", self.seed, f"0 .. {MAX_SEED}", "give such a seed"
        )
        for flag, value in (
            ("--density", self.density),
            ("--cutoff", self.cutoff),
            ("--timestep", self.timestep),
        ):
            require(0 < value < math.inf, flag, value, "greater than 0", "give a positive number")
        for flag, value in (("--skin", self.skin), ("--temperature", self.temperature)):
            require(0 <= value < math.inf, flag, value, "at least 0", "give 0 or more")

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


def make_parser() -> Parser:
    d = Options()
    parser = Parser(
        "pagewire.apps.lammps", "Lennard-Jones melt like LAMMPS' melt example; reduced units."
    )
    add = parser.add_argument
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--cells", type=int, nargs=3, default=d.cells, metavar=("NX", "NY", "NZ"),
        help="fcc cells of 4 atoms along x, y, z",
    )  # fmt: skip
    size.add_argument(
        "--size", type=int, default=argparse.SUPPRESS, metavar="N", help="the same in x, y and z"
    )
    add("--steps", dest="num_steps", type=int, default=d.num_steps, help="time steps")
    add("--thermo", dest="thermo_every", type=int, default=d.thermo_every,
        help="steps between output lines; 0: ends only")  # fmt: skip
    add("--density", type=float, default=d.density, help="atoms per sigma^3")
    add("--cutoff", type=float, default=d.cutoff, help="of the potential, in sigma")
    add("--skin", type=float, default=d.skin, help="of the neighbour lists, in sigma")
    add("--temperature", type=float, default=d.temperature, help="at the start, in epsilon / k_B")
    add("--timestep", type=float, default=d.timestep, help="in tau")
    add("--seed", type=int, default=d.seed, help="of the velocities")
    add("--neigh-every", type=int, default=d.neigh_every, help="steps between rebuild checks")
    add("--neigh-delay", type=int, default=d.neigh_delay,
        help="steps without check after a rebuild")  # fmt: skip
    parser.add_flag("--no-neigh-check", help="rebuild each time, moved or not")
    add("--newton", choices=("on", "off"), default="on", help="compute a pair across ranks once")
    parser.add_flag("--shift", help="shift the pair energy to 0 at the cut-off")
    parser.add_shared("ids, x, v")
    return parser


def parse_options(argv: list[str] | None) -> Options:
    """Options out of the command line; raises InputError and HelpRequest."""
    given = vars(make_parser().parse_args(argv))
    nx, ny, nz = given.pop("cells")
    if "size" in given:
        nx = ny = nz = given.pop("size")
    return Options(
        cells=(nx, ny, nz),
        neigh_check=not given.pop("no_neigh_check", False),
        newton=given.pop("newton") == "on",
        **given,
    )
