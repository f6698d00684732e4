"""The commands of `pagewire`: the modules of commands, test, and error lines."""

import copy
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from pagewire.cli.commands.application import app
from pagewire.cli.kit.interrupts import Interrupted, ending_signals_raise
from pagewire.cli.launch import options
from pagewire.native.settings import ConfigError

MODULES: Mapping[str, tuple[str, ...]] = {
    "application": ("--version", "-V"),
    "run_commands": ("launch", "record", "run", "compare", "experiment", "env", "report"),
    "check_commands": (
        "bench", "soak", "info", "stress", "schema", "calibrate", "apps", "selftest", "test",
    ),
    "replay_options": ("replay",),
    "sockets": ("sockets",),
    "trace": ("trace",),
}  # fmt: skip
"""The modules of commands, and the first words that are for each."""


def main(words: Sequence[str]) -> int:
    """Run one command; bad input raises ConfigError."""
    rest = list(words)
    if rest[:1] == ["test"]:
        from pagewire.cli.checks import testing

        return _interruptible(lambda: testing.main(rest[1:]))
    command = typer.main.get_command(application(rest[0] if rest else ""))
    if rest and rest[0] in ("launch", "record", "compare", "sockets", "env"):
        with_value = options_with_value(command, rest[0])
        rest = [rest[0], *options.separate_program(rest[1:], with_value)]
    return _interruptible(lambda: _typer(command, rest))


def application(name: str = "") -> typer.Typer:
    """The application with the command of this name alone, since a start pays for each that is
    loaded and made; with all of them where there is none."""
    modules = [module for module, names in MODULES.items() if name in names] or MODULES
    for module in modules:
        importlib.import_module(f"pagewire.cli.commands.{module}")
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
