"""How a mini-app reads its command line, starts and ends. `mpi4py.MPI` is imported here only, so
that a launcher can put another implementation under it first."""

import argparse
import sys
import traceback
from collections.abc import Callable
from typing import IO, Any, NoReturn, TypeVar

Options = TypeVar("Options")
Say = Callable[[object], None]
"""Prints a line on rank 0."""


class AppError(Exception):
    """Something that all ranks know of in the same place, so none needs `MPI_Abort`; rank 0 prints
    it."""

    exit_code = 1


class InputError(AppError):
    """A bad option: the message names value, limit and remedy."""

    exit_code = 2


class HelpRequest(Exception):
    """The user asked for the text in it."""


def require(holds: bool, what: str, value: object, limit: str, remedy: str) -> None:
    """Raise InputError unless it holds."""
    if not holds:
        raise InputError(f"{what} is {value}; allowed: {limit}. Remedy: {remedy}.")


class Parser(argparse.ArgumentParser):
    """Raises InputError and HelpRequest instead of printing, as only rank 0 may print."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )

    def add_flag(self, name: str, **given: Any) -> None:
        """An option without a value; when it is not given, nothing stands for it in the result."""
        self.add_argument(name, action="store_true", default=argparse.SUPPRESS, **given)

    def add_shared(self, state: str) -> None:
        """What the MPI apps have in common; `state`: what --dump-state writes."""
        self.add_flag("--fresh-buffers", help="allocate new message buffers for each use")
        self.add_argument(
            "--dump-state",
            default=argparse.SUPPRESS,
            metavar="FILE",
            help=f"write {state} at the end as .npz",
        )
        self.add_flag("--plain", help="run without pagewire (read by its launcher)")

    def print_help(self, file: Any = None) -> NoReturn:
        raise HelpRequest(self.format_help())

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}. Remedy: see --help.")


def run_mini_app(
    name: str,
    parse: Callable[[list[str] | None], Options],
    run: Callable[[Any, Options, Say], int],
    argv: list[str] | None,
) -> int:
    """Call `run(MPI, parse(argv), say)` on all ranks of COMM_WORLD and return its exit code.

    An AppError, which all ranks raise together, is printed once and gives its exit code on all of
    them. A fault of the program itself aborts all ranks.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD

    def say(text: object, *, file: IO[str] | None = None) -> None:
        if world.Get_rank() == 0:
            print(text, file=file, flush=True)

    try:
        return run(MPI, parse(argv), say)
    except HelpRequest as request:
        say(request)
        return 0
    except AppError as error:
        say(f"{name}: error: {error}", file=sys.stderr)
        # A launcher may end all ranks as soon as one fails: not before the line is out.
        world.Barrier()
        return error.exit_code
    except Exception:
        if world.Get_size() == 1:
            raise
        # The others would wait for this rank for ever.
        traceback.print_exc()
        sys.stderr.flush()
        world.Abort(1)
        return 1
