"""The report of a launched run, made of what its ranks left: for the launcher, at the run's end."""

import os
import pathlib
import subprocess
import sys
from typing import IO, Any, TextIO

from pagewire.native.output import OutputError
from pagewire.transport.node import report
from pagewire.transport.settings.config import Config


def merge(
    directory: pathlib.Path,
    num_ranks: int,
    settings: Config,
    program: str,
    stdout: IO[Any] | int | None = None,
) -> None:
    """Print the report where the ranks' output went and write its JSON, as the settings say.

    stdout: as subprocess takes it. A program that never used MPI has no report. Raises OutputError,
    and report.IncompleteError when some ranks left none.
    """
    run = settings.run
    per_rank = report.collect(directory, num_ranks)
    if not per_rank:
        return
    if run.quiet or stdout == subprocess.DEVNULL:
        report.finish(per_rank, settings, run.json, quiet=True, program=program)
        return
    try:
        if stdout is None:
            _finish(per_rank, settings, program, sys.stdout)
        else:
            descriptor = stdout if isinstance(stdout, int) else stdout.fileno()
            with open(descriptor, "w", encoding="utf-8", closefd=False) as stream:
                _finish(per_rank, settings, program, stream)
    except OutputError:
        raise
    except OSError as error:
        if stdout is None:
            _drop_rest(sys.stdout)
        raise OutputError(f"the report was not printed: {error.strerror}") from error


def _finish(per_rank: list[dict[str, Any]], settings: Config, program: str, stream: TextIO) -> None:
    report.finish(per_rank, settings, settings.run.json, program=program, stream=stream)


def _drop_rest(stream: TextIO) -> None:
    """Else what is still in the stream's buffer fails once more when the interpreter exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
