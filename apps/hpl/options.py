"""Command line of the mini-app."""

import argparse
import dataclasses

from pagewire.apps.options import Parser, require

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


def make_parser() -> argparse.ArgumentParser:
    """The parser; on bad input it raises InputError."""
    d = Options()
    parser = Parser(
        prog="pagewire.apps.hpl", add_help=False, allow_abbrev=False,
        description="LU solve of a dense random system like HPL.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--help", "-h", action="store_true", help="print this text and stop")
    add("--N", type=int, default=d.n, help="order of the matrix")
    add("--NB", type=int, default=d.nb, help="rows and columns of a block")
    near = "; None: a nearly square grid of all ranks"
    add("--P", type=int, default=d.p, help=f"rows of the process grid{near}")
    add("--Q", type=int, default=d.q, help=f"columns of the process grid{near}")
    add("--seed", type=int, default=d.seed, help="of the matrix")
    add("--bcast", choices=BROADCASTS, default=d.bcast, help="how panels go along the rows")
    add("--depth", type=int, choices=DEPTHS, default=d.depth, help="panels factored ahead")
    add("--fresh-buffers", action="store_true", help="allocate message buffers anew for each use")
    add("--dump-state", default=None, metavar="FILE", help="write x at the end as .npz")
    add("--plain", action="store_true", help="no pagewire below (read by its launcher)")
    return parser


def parse_options(argv: list[str] | None) -> Options | None:
    """Options out of the command line; None when help is asked for. Raises InputError."""
    given = make_parser().parse_args(argv)
    if given.help:
        return None
    return Options(
        n=given.N,
        nb=given.NB,
        p=given.P,
        q=given.Q,
        seed=given.seed,
        bcast=given.bcast,
        depth=given.depth,
        fresh_buffers=given.fresh_buffers,
        dump_state=given.dump_state,
        plain=given.plain,
    )
