"""The commands of `pagewire`: the modules of commands, test, and error lines."""

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from pagewire.cli.commands import (  # noqa: F401  fill app
    check_commands,
    replay_options,
    run_commands,
    sockets,
    trace,
)
from pagewire.cli.commands.application import app
from pagewire.cli.kit.interrupts import Interrupted, ending_signals_raise
from pagewire.cli.launch import options
from pagewire.native.settings import ConfigError

__all__ = ["app", "main"]


# It is here for the list of commands; main() hands its words on unread.
@app.command(add_help_option=False)
def test() -> int:
    """Run the tests: C, Python, and MPI at 1, 2 and 4 ranks; or those of a --policy
    module:Class."""
    return 0


def main(words: Sequence[str]) -> int:
    """Run one command; bad input raises ConfigError."""
    rest = list(words)
    if rest[:1] == ["test"]:
        from pagewire.cli.checks import testing

        return _interruptible(lambda: testing.main(rest[1:]))
    command = typer.main.get_command(_application(rest[0] if rest else ""))
    if rest and rest[0] in ("launch", "record", "compare", "sockets", "env"):
        with_value = options_with_value(command, rest[0])
        rest = [rest[0], *options.separate_program(rest[1:], with_value)]
    return _interruptible(lambda: _typer(command, rest))


def _application(name: str) -> typer.Typer:
    """The application with the command of this name alone: a start pays for each that is made."""
    named = [each for each in app.registered_commands if name == command_name(each)]
    if not named:
        return app
    alone = copy.copy(app)
    alone.registered_commands, alone.registered_groups = named, []
    return alone


def command_name(command: Any) -> str:
    """What a command that is registered is called."""
    return str(command.name or command.callback.__name__)


def options_with_value(application: Any, name: str) -> frozenset[str]:
    """The options of a command that a value follows."""
    parameters = application.commands[name].params
    return frozenset(
        word
        for each in parameters
        for word in each.opts
        if each.param_type_name == "option" and not each.is_flag
    )


def _interruptible(command: Callable[[], int]) -> int:
    try:
        with ending_signals_raise():
            return command()
    except Interrupted as interrupt:
        print(f"pagewire: {interrupt.sentence}; every rank was ended", file=sys.stderr)
        return interrupt.exit_code


def _typer(command: Any, words: list[str]) -> int:
    """Run the typer application; its usage errors become ConfigError, for one line each."""
    try:
        return int(command(words, standalone_mode=False) or 0)
    except Exception as error:
        # Typer has its errors from click or from a copy of it, depending on its version.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text = str(message()).strip()
        if not text:  # no arguments: the help has been printed
            return 2
        context: Any = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "pagewire"
        raise ConfigError(f"{' '.join(text.split())} (`{path} --help` shows the usage)") from None
