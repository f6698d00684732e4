"""Runs over the fabric under an mpiexec or batch system of the user's own: `pagewire env` writes
the node file and prints the variables, `pagewire report` merges what the ranks left.

Both know one folder: it holds node.conf, and after the run RANK.report for each rank. So what the
ranks read and write must lie on a file system that all hosts of the run see.
"""

import os
import pathlib
import shlex
import sys
from collections.abc import Mapping

from pagewire.cli.launch import fabric, launch, merging, mpi_choice, options
from pagewire.cli.launch.program import Program
from pagewire.native.output import OutputError
from pagewire.native.settings import ConfigError
from pagewire.run.page import page
from pagewire.run.report.report import IncompleteError
from pagewire.run.settings import node_file, platform

NODE_FILE = "node.conf"

_LEFT_BY_RANKS = ("report", "mpi", "start", "end", "note", "leave", "node")


def print_environment(
    num_ranks: int, environ: Mapping[str, str], folder: str, chosen: Program | None = None
) -> None:
    """Write the node file of a run into the folder, and print `export` lines for a shell.

    What an earlier run has left in the folder is taken away. chosen: the program, for the choice of
    its MPI.
    """
    launch.check_ranks(num_ranks)
    wanted = dict(environ)
    options.apply(options.as_environment(["run.transport=fabric"]), wanted)
    said = launch.choose_mpi(wanted, chosen) if chosen else ""
    settings = launch.check_settings(wanted, chosen)
    mpi = mpi_choice.find(settings.run.mpi, ask=True)
    machine = platform.load(settings.run.platform)
    node_file.check_network(settings, machine, num_ranks)
    directory = pathlib.Path(folder).absolute()
    _clear(directory)
    node_file.write(str(directory / NODE_FILE), settings, machine, num_ranks=num_ranks)
    variables = fabric.environment(wanted, mpi, str(directory))
    variables["PAGEWIRE_LAUNCH_DIR"] = str(directory)
    variables["PAGEWIRE_NODE_FILE"] = str(directory / NODE_FILE)
    for name, value in sorted(variables.items()):
        if os.environ.get(name) != value:
            print(f"export {name}={shlex.quote(value)}")
    run = settings.run
    command = shlex.join(mpi.command(num_ranks, run.hosts, run.mpiexec_options, variables))
    program = chosen.command_text if chosen else "PROGRAM"
    plugin = "pmix" if mpi.kind == "openmpi" else "pmi2"
    if said:
        print(f"# {said}")
    print(f"# In Slurm: srun --mpi={plugin} -n {num_ranks} {program}")
    print(f"# {command} {program}; then: pagewire report {shlex.quote(folder)}")


def make_page(source: str, html: str) -> int:
    """Make the page of a saved report; returns an exit code."""
    launch.check_writable("--html", html)
    page.convert(source, html)
    return 0


def report(folder: str, *, json: str, program: str, html: str = "") -> int:
    """Print the report of the run whose ranks left theirs in the folder; returns an exit code."""
    directory = pathlib.Path(folder)
    path = directory / NODE_FILE
    if not path.is_file():
        raise ConfigError(f"'{folder}' has no {NODE_FILE}: it is no folder of `pagewire env`")
    changed = []
    for name, given in (("json", json), ("html", html)):
        launch.check_writable(f"--{name}", given)
        if given:
            changed.append(f"run.{name}={os.path.abspath(given)}")
    settings, num_ranks = node_file.read_settings(str(path), changed)
    try:
        merging.merge(directory, num_ranks, settings, program)
    except IncompleteError as error:
        print(f"pagewire: {error}", file=sys.stderr)
        return 1
    return 0


def _clear(directory: pathlib.Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for kind in _LEFT_BY_RANKS:
            for path in directory.glob(f"[0-9]*.{kind}"):
                path.unlink()
    except OSError as error:
        raise OutputError(f"'{directory}': {error.strerror}") from None
