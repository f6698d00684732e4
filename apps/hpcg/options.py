"""Command line of the mini-app."""

import argparse
import dataclasses
import math

from pagewire.apps.command import InputError, Parser, SharedOptions, check_limits, option, require
from pagewire.apps.hpcg.multigrid import MAX_LEVELS

MAX_SHELL_POINTS = 2**31 - 1  # columns are 32-bit indices


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options(SharedOptions):
    """What one run is made of."""

    num_points: tuple[int, int, int] = (32, 32, 32)
    """local grid of each rank along x, y, z"""
    num_sets: int = option(2, "--sets", "how often to solve", metavar="N", least=1)
    """the checks compare them"""
    num_iterations: int = option(50, "--iterations", "CG iterations of a set", metavar="N", least=1)
    num_levels: int = option(
        MAX_LEVELS,
        "--levels",
        "multigrid levels; L of them need multiples of 2^(L-1) points",
        metavar="N",
        least=1,
        most=MAX_LEVELS,
    )
    """the finest included"""

    def __post_init__(self) -> None:
        check_limits(self)
        divisor = 2 ** (self.num_levels - 1)
        for flag, num in zip(("--nx", "--ny", "--nz"), self.num_points, strict=True):
            require(num >= 1, flag, num, "at least 1", "give a positive number")
            fitting = _num_levels(num)
            require(
                num % divisor == 0, flag, num,
                f"multiples of {divisor}, as {self.num_levels} multigrid levels halve it "
                f"{self.num_levels - 1} times",
                f"give {math.ceil(num / divisor) * divisor}, or --levels {fitting}",
            )  # fmt: skip
        num_shell = math.prod(n + 2 for n in self.num_points)
        require(
            num_shell <= MAX_SHELL_POINTS, "number of points and ghosts of a rank", num_shell,
            f"at most {MAX_SHELL_POINTS}", "use a smaller local grid and more ranks",
        )  # fmt: skip


def _num_levels(num: int) -> int:
    """Most levels that a grid with so many points in one direction has."""
    levels = 1
    while levels < MAX_LEVELS and num % 2**levels == 0:
        levels += 1
    return levels


def _parser() -> Parser:
    parser = Parser(
        "pagewire.apps.hpcg", "Conjugate gradients with a multigrid preconditioner, like HPCG."
    )
    add = parser.add_argument
    for axis, num in zip("xyz", Options().num_points, strict=True):
        add(f"--n{axis}", type=int, metavar="N", default=argparse.SUPPRESS,
            help=f"points of a rank along {axis}, a multiple of 8 (default: {num})")  # fmt: skip
    add("--size", type=int, metavar="N", default=argparse.SUPPRESS, help="the same in x, y and z")
    parser.add_options(Options, "residuals and x")
    return parser


def parse_options(argv: list[str] | None) -> Options:
    """Options out of the command line; raises InputError and HelpRequest."""
    given = vars(_parser().parse_args(argv))
    single = {axis: given.pop(f"n{axis}") for axis in "xyz" if f"n{axis}" in given}
    if "size" in given:
        size = given.pop("size")
        if single:
            raise InputError(
                f"--size is {size} and --n{min(single)} is given too; allowed: one of the two. "
                f"Remedy: leave one out."
            )
        single = dict.fromkeys("xyz", size)
    x, y, z = Options().num_points
    points = single.get("x", x), single.get("y", y), single.get("z", z)
    return Options(num_points=points, **given)
