"""What is asked of a timeline before the run, and timelines of several runs in one file."""

import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pagewire.native.output import replacing
from pagewire.native.settings import ConfigError
from pagewire.run.settings.config import load


class Group(NamedTuple):
    """A run in a file that may hold several."""

    number: int = 0
    label: str = ""


TRACE_VARIABLE = "PAGEWIRE_RUN_TRACE"
"""Of run.trace."""

ALONE = Group()
"""The only run of its file."""


def check_none(environ: Mapping[str, str], command: str) -> None:
    """Refuse run.trace and run.html for a command whose runs would all write that file."""
    run = load(environ=environ).run
    for name, path, remedy in (
        ("run.trace", run.trace, "trace one of them by launch, compare or experiment"),
        ("run.html", run.html, "have the page of one of them by launch or compare"),
    ):
        if path:
            raise ConfigError(
                f"{name} = '{path}': {command} makes many runs, which would overwrite it one after "
                f"the other; take it away, or {remedy}"
            )


def join(parts: Sequence[pathlib.Path], path: str) -> None:
    """Make one timeline of those of several groups: Perfetto takes them one behind the other.

    Raises OutputError.
    """
    with replacing(path) as file:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, file)


class Parts:
    """The timelines of a command that launches several runs, in a folder until they are joined."""

    def __init__(self, folder: str) -> None:
        self._folder = pathlib.Path(folder)
        self._num_parts = 0

    def begin(self, environ: dict[str, str], label: str) -> Group:
        """Give the next run of this environment a part of its own."""
        group = Group(self._num_parts, label)
        environ[TRACE_VARIABLE] = str(self._folder / f"{self._num_parts:05}.pftrace")
        self._num_parts += 1
        return group

    def join(self, path: str) -> bool:
        """Write those that there are as one; False: no run left any. Raises OutputError."""
        parts = sorted(self._folder.glob("*.pftrace"))
        if parts:
            join(parts, path)
        return bool(parts)
