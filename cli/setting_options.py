"""Options for settings that several commands share, added to a command by a decorator."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from pagewire.cli import completion, options

OPTIONS: Mapping[str, Any] = {
    "memory": Annotated[
        str | None,
        typer.Option(
            help="memory strategy (run.memory)", autocompletion=completion.one_of("run.memory")
        ),
    ],
    "policy": Annotated[
        str | None,
        typer.Option(
            help="page-in policy (run.policy)", autocompletion=completion.one_of("run.policy")
        ),
    ],
    "timeout": Annotated[
        str | None, typer.Option(help="retransmission timeout, or none (run.timeout)")
    ],
    "err": Annotated[
        bool | None,
        typer.Option(
            "--err/--no-err", help="request faulted blocks again when their pages are in (run.err)"
        ),
    ],
    "eager_limit": Annotated[
        str | None, typer.Option(help="longest message that travels without RDMA (run.eager_limit)")
    ],
    "platform": Annotated[
        str | None,
        typer.Option(help="name or path of the platform file", autocompletion=completion.platform),
    ],
    "compute": Annotated[
        str | None,
        typer.Option(
            help="measured, replay, model or none (run.compute)",
            autocompletion=completion.one_of("run.compute"),
        ),
    ],
    "strict": Annotated[
        bool | None,
        typer.Option("--strict", help="end at the first call around the NI (run.strict)"),
    ],
    "quiet": Annotated[
        bool | None, typer.Option("--quiet", "-q", help="print no report (run.quiet)")
    ],
    "transport": Annotated[
        str | None,
        typer.Option(
            help="facade or fabric: what puts the NI under PROGRAM (run.transport)",
            autocompletion=completion.one_of("run.transport"),
        ),
    ],
    "mpi": Annotated[
        str | None, typer.Option(help="mpich, openmpi, or the path of an mpiexec (run.mpi)")
    ],
    "hosts": Annotated[
        str | None,
        typer.Option(metavar="H1,H2,...", help="hosts that the ranks are spread over (run.hosts)"),
    ],
    "mpiexec_options": Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="further options of mpiexec (run.mpiexec_options)"),
    ],
    "json": Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="write the results to this file")
    ],
    "trace": Annotated[
        str | None,
        typer.Option(
            "--trace", metavar="FILE", help="write a timeline for ui.perfetto.dev (run.trace)"
        ),
    ],
    "html": Annotated[
        str | None,
        typer.Option(
            "--html", metavar="FILE", help="write the report as a page for a browser (run.html)"
        ),
    ],
}
"""Options that give a setting of the section `run`: its name, and the option."""

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
    """Add these OPTIONS, --set and --config to a command, which gets them as `given`."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def called(**words: Any) -> int:
            values = {name: words.pop(name) for name in names}
            given = Given(values, words.pop("assignments") or [], words.pop("config") or "")
            return command(given=given, **words)

        added = {**{name: OPTIONS[name] for name in names}, **_ALWAYS}
        own = inspect.signature(command).parameters.values()
        parameters = [each for each in own if each.name != "given"]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in added.items()
        ]
        # Typer reads the signature, and the types from the annotations.
        called.__dict__["__signature__"] = inspect.Signature(parameters)
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate
