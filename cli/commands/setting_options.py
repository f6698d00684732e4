"""Options for settings that several commands share, added to a command by a decorator."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from pagewire.cli.commands import completion
from pagewire.cli.launch import options


def _for_typer(each: options.SettingOption) -> Any:
    """The annotation of a command's parameter."""
    if each.flags:
        pair = "/".join(word for word in each.flags if word.startswith("--"))
        short = [word for word in each.flags if not word.startswith("--")]
        return Annotated[bool | None, typer.Option(pair, *short, help=each.help)]
    completing = {
        "choices": completion.one_of(f"run.{each.name}"),
        "platforms": completion.platform,
    }
    option = typer.Option(
        each.option,
        metavar=each.metavar,
        help=each.help,
        autocompletion=completing.get(each.completes),
    )
    return Annotated[str | None, option]


_ALWAYS: Mapping[str, Any] = {
    "assignments": Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="any setting; may be given several times",
            autocompletion=completion.assignment,
        ),
    ],
    "config": Annotated[str | None, typer.Option(metavar="FILE", help="configuration file (TOML)")],
}


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """What the command line gives of the shared options; None: not given."""

    values: Mapping[str, Any]
    assignments: list[str]
    config_path: str

    def environ(self, **more: Any) -> dict[str, str]:
        """This process's environment with the settings in it; `more`: of the section `run` too."""
        texts = [
            f"run.{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in {**self.values, **more}.items()
            if value is not None
        ]
        environ = dict(os.environ)
        variables = options.as_environment([*texts, *self.assignments], self.config_path)
        options.apply(variables, environ)
        return environ


def takes_settings(*names: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options of these settings, --set and --config to a command, which gets them as
    `given`. A parameter `asked` of a dataclass's type stands for an option a field of it."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = inspect.signature(command).parameters
        asked = own["asked"].annotation if "asked" in own else None
        fields = _parameters_of(asked) if asked else []

        @functools.wraps(command)
        def called(**words: Any) -> int:
            values = {name: words.pop(name) for name in names}
            given = Given(values, words.pop("assignments") or [], words.pop("config") or "")
            if asked:
                words["asked"] = asked(**{each.name: words.pop(each.name) for each in fields})
            return command(given=given, **words)

        added = {**{name: _for_typer(options.OPTIONS[name]) for name in names}, **_ALWAYS}
        parameters = [each for each in own.values() if each.name not in ("given", "asked")]
        parameters += fields
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in added.items()
        ]
        # Typer reads the signature, and the types from the annotations.
        called.__dict__["__signature__"] = inspect.Signature(parameters)
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate


def _parameters_of(asked: Any) -> list[inspect.Parameter]:
    """Of a dataclass whose fields are annotated as options."""
    kinds = inspect.get_annotations(asked)
    parameters = []
    for each in dataclasses.fields(asked):
        default = each.default
        if each.default_factory is not dataclasses.MISSING:
            default = each.default_factory()
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(
            inspect.Parameter(each.name, kind, default=default, annotation=kinds[each.name])
        )
    return parameters
