"""Command line of the mini-app."""

import dataclasses

from pagewire.apps.command import Parser, SharedOptions, check_limits, option

MAX_N = 2**20  # 8 TB
MAX_NB = 4096
MAX_SEED = 2**63 - 1
BROADCASTS = ("ring", "binomial")
DEPTHS = (0, 1)
WORKSPACES = ("kept", "fresh")
_NEAR = "; None: a nearly square grid of all ranks"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options(SharedOptions):
    """What one run is made of."""

    n: int = option(1000, "--N", "order of the matrix", metavar="N", least=1, most=MAX_N)
    nb: int = option(128, "--NB", "rows and columns of a block", metavar="NB", least=1, most=MAX_NB)
    p: int | None = option(
        None, "--P", f"rows of the process grid{_NEAR}", type=int, metavar="P", least=1
    )
    q: int | None = option(
        None, "--Q", f"columns of the process grid{_NEAR}", type=int, metavar="Q", least=1
    )
    seed: int = option(42, "--seed", "of the matrix", least=0, most=MAX_SEED)
    bcast: str = option("ring", "--bcast", "how panels go along the rows", choices=BROADCASTS)
    depth: int = option(1, "--depth", "panels factored ahead", choices=DEPTHS)
    workspace: str = option(
        "kept",
        "--workspace",
        "memory of panels and swaps: kept, or fresh for each panel",
        choices=WORKSPACES,
    )

    def __post_init__(self) -> None:
        check_limits(self)


def parse_options(argv: list[str] | None) -> Options:
    """Options out of the command line; raises InputError and HelpRequest."""
    parser = Parser("pagewire.apps.hpl", "LU solve of a dense random system like HPL.")
    parser.add_options(Options, "x")
    return Options(**vars(parser.parse_args(argv)))
