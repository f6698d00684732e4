"""The report of a launched run, made of what its ranks left: for the launcher, at the run's end."""

import contextlib
import os
import pathlib
import subprocess
import sys
from typing import IO, Any, TextIO

from pagewire.cli.kit import progress
from pagewire.native.output import OutputError
from pagewire.run.report import report
from pagewire.run.settings.config import Config
from pagewire.run.timeline.request import ALONE, Group

_PROVIDER = "pagewire"
_CARRIED = ("message_packets", "transfers")
"""Counters of what a rank gave its NI."""


def merge(
    directory: pathlib.Path,
    num_ranks: int,
    settings: Config,
    program: str,
    stdout: IO[Any] | int | None = None,
    group: Group = ALONE,
) -> None:
    """Print the report where the ranks' output went and write its JSON, as the settings say.

    stdout: as subprocess takes it. A Python program that never used MPI has no report. Raises
    OutputError, and report.IncompleteError when some ranks left none, or when a run over the fabric
    has not been carried by it.
    """
    run = settings.run
    per_rank = report.collect(directory, num_ranks)
    if run.transport == "fabric":
        _check_carried(directory, per_rank, program)
    if not per_rank:
        return
    progress.add_virtual(max(int(each["virtual_time_ns"]) for each in per_rank))
    if run.trace:
        _write_timeline(directory, settings, group)
    if run.html:
        from pagewire.run.page import page  # its parts take long to load

        page.write(run.html, report.document(per_rank, settings, program))
    if run.quiet or stdout == subprocess.DEVNULL:
        report.finish(per_rank, settings, run.json, quiet=True, program=program)
        return
    try:
        with contextlib.ExitStack() as stack:
            stream: TextIO = sys.stdout
            if stdout is not None:
                descriptor = stdout if isinstance(stdout, int) else stdout.fileno()
                stream = stack.enter_context(open(descriptor, "w", encoding="utf-8", closefd=False))
            report.finish(per_rank, settings, run.json, program=program, stream=stream)
    except OutputError:
        raise
    except OSError as error:
        if stdout is None:
            _drop_rest(sys.stdout)
        raise OutputError(f"the report was not printed: {error.strerror}") from error


def _write_timeline(directory: pathlib.Path, settings: Config, group: Group) -> None:
    from pagewire.run.timeline import timeline

    records = {int(path.stem): str(path) for path in directory.glob("*.trace")}
    timeline.write(settings.run.trace, records, settings, group)


def _check_carried(directory: pathlib.Path, per_rank: list[dict[str, Any]], program: str) -> None:
    """Refuse a run whose messages took another way than the NI."""
    if not per_rank and not any(directory.glob("*.mpi")):
        raise report.IncompleteError(
            f"'{program}' used no MPI, or one that cannot be preloaded (linked statically, or the "
            "program drops LD_PRELOAD), so nothing ran on the NI"
        )
    if not per_rank:
        raise report.IncompleteError(
            f"'{program}' used MPI, but not the provider '{_PROVIDER}': its MPI has no libfabric, "
            "or chose another way (the program or a wrapper changes FI_PROVIDER, FI_PROVIDER_PATH, "
            "MPIR_CVAR_CH4_NETMOD or OMPI_MCA_pml); its bytes went around the NI"
        )
    carried = sum(counted.get(key, 0) for counted in per_rank for key in _CARRIED)
    if len(per_rank) > 1 and not carried:
        raise report.IncompleteError(
            f"'{program}' ran on {len(per_rank)} ranks and no message passed the NI: it sends none "
            "at all, or its MPI uses shared memory (the program or a wrapper changes "
            "MPIR_CVAR_NOLOCAL or OMPI_MCA_btl), or each rank is alone (it is of another MPI than "
            "the mpiexec of run.mpi)"
        )


def _drop_rest(stream: TextIO) -> None:
    """Else what is still in the stream's buffer fails once more when the interpreter exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
