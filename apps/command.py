"""How a mini-app reads its command line, starts and ends. `mpi4py.MPI` is imported here only, so
that a launcher can put another implementation under it first."""

import argparse
import dataclasses
import math
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


def option(default: Any, flag: str, text: str, **more: Any) -> Any:
    """A field of an app's options: its word on the command line, and what the help says of it.

    more: least, most and above, what a number must be; else for argparse.
    """
    limits = {name: more.pop(name) for name in ("least", "most", "above") if name in more}
    given = {"type": type(default), "default": default, "help": text, **more}
    return dataclasses.field(
        default=default, metadata={"flag": flag, "given": given, "limits": limits}
    )


def flag(word: str, text: str) -> Any:
    """A field that is true when the word is given."""
    given = {"action": "store_true", "default": argparse.SUPPRESS, "help": text}
    return dataclasses.field(default=False, metadata={"flag": word, "given": given, "limits": {}})


def check_limits(options: Any) -> None:
    """Refuse what is out of its field's limits; None, where it may be, has none."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        limits = field.metadata.get("limits")
        if limits and value is not None:
            _check(field.metadata["flag"], value, **limits)


def _check(
    flag: str, value: float, least: float = -math.inf, most: float = math.inf, above: Any = None
) -> None:
    if above is not None:
        holds, limit, remedy = value > above, f"greater than {above}", "give a greater number"
    elif most < math.inf:
        holds, limit = least <= value <= most, f"{least} .. {most}"
        remedy = "give a number in that range"
    else:
        holds, limit, remedy = value >= least, f"at least {least}", f"give {least} or more"
    require(holds and value < math.inf, flag, value, limit, remedy)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """What the apps after real programs have in common."""

    fresh_buffers: bool = flag("--fresh-buffers", "allocate new message buffers for each use")
    dump_state: str | None = None
    plain: bool = flag("--plain", "run without pagewire (read by its launcher)")


class Parser(argparse.ArgumentParser):
    """Raises InputError and HelpRequest instead of printing, as only rank 0 may print."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )

    def add_options(self, options: Any, state: str = "") -> None:
        """The fields of a dataclass, its own first. state: what --dump-state writes."""
        fields = dataclasses.fields(options)
        shared = {each.name for each in dataclasses.fields(SharedOptions)}
        for each in sorted(fields, key=lambda field: field.name in shared):
            if "flag" in each.metadata:
                self.add_argument(each.metadata["flag"], dest=each.name, **each.metadata["given"])
            elif each.name == "dump_state":
                self.add_argument(
                    "--dump-state",
                    default=argparse.SUPPRESS,
                    metavar="FILE",
                    help=f"write {state} at the end as .npz",
                )

    def print_help(self, file: Any = None) -> NoReturn:
        raise HelpRequest(self.format_help())

    def error(self, message: str) -> NoReturn:
        ours = "; options of pagewire stand before the program" if "unrecognized" in message else ""
        raise InputError(f"{message}. Remedy: see --help{ours}.")


def run_mini_app(
    name: str, parse: Callable[[list[str] | None], Options], run: Callable[[Any, Options, Say], int]
) -> int:
    """Call `run(MPI, parse(None), say)` on all ranks of COMM_WORLD and return its exit code.

    An AppError, which all ranks raise together, is printed once and gives its exit code on all of
    them. A fault of the program itself aborts all ranks.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD

    def say(text: object, *, file: IO[str] | None = None) -> None:
        if world.Get_rank() == 0:
            print(text, file=file, flush=True)

    try:
        return run(MPI, parse(None), say)
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
