"""Command line of the mini-app."""

import dataclasses

from pagewire.apps.command import Parser, require

MAX_N = 2**20  # 8 TB
MAX_NB = 4096
MAX_SEED = 2**63 - 1
BROADCASTS = ("ring", "binomial")
DEPTHS = (0, 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one run is made of."""

    n: int = 1000
    """order of the matrix"""
    nb: int = 128
    """rows and columns of a block"""
    p: int | None = None
    """rows of the process grid; None: chosen with the rank count"""
    q: int | None = None
    """columns of the process grid; None: likewise"""
    seed: int = 42
    bcast: str = "ring"
    depth: int = 1
    """panels that are factored ahead of the update"""
    fresh_buffers: bool = False
    """allocate the buffers of panels and swaps for each use"""
    dump_state: str | None = None
    plain: bool = False

    def __post_init__(self) -> None:
        require(1 <= self.n <= MAX_N, "--N", self.n, f"1 .. {MAX_N}", "give an order in that range")
        require(
            1 <= self.nb <= MAX_NB, "--NB", self.nb, f"1 .. {MAX_NB}", "give a width in that range"
        )
        for flag, num in (("--P", self.p), ("--Q", self.q)):
            require(
                num is None or num >= 1, flag, num, "at least 1", "give 1 or more, or leave out"
            )
        require(
            0 <= self.seed <= MAX_SEED, "--seed", self.seed, f"0 .. {MAX_SEED}", "give such a seed"
        )


def make_parser() -> Parser:
    d = Options()
    parser = Parser("pagewire.apps.hpl", "LU solve of a dense random system like HPL.")
    add = parser.add_argument
    add("--N", dest="n", type=int, default=d.n, help="order of the matrix")
    add("--NB", dest="nb", type=int, default=d.nb, help="rows and columns of a block")
    near = "; None: a nearly square grid of all ranks"
    add("--P", dest="p", type=int, default=d.p, help=f"rows of the process grid{near}")
    add("--Q", dest="q", type=int, default=d.q, help=f"columns of the process grid{near}")
    add("--seed", type=int, default=d.seed, help="of the matrix")
    add("--bcast", choices=BROADCASTS, default=d.bcast, help="how panels go along the rows")
    add("--depth", type=int, choices=DEPTHS, default=d.depth, help="panels factored ahead")
    parser.add_shared("x")
    return parser


def parse_options(argv: list[str] | None) -> Options:
    """Options out of the command line; raises InputError and HelpRequest."""
    return Options(**vars(make_parser().parse_args(argv)))
