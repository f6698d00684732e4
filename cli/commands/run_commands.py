"""Commands that run programs and show what came of it: launch, compare, experiment, env, report."""

import dataclasses
import os
import pathlib
import sys
from typing import Annotated

import typer

from pagewire.cli.commands import completion
from pagewire.cli.commands.application import app
from pagewire.cli.commands.compare_options import Wanted
from pagewire.cli.commands.setting_options import Given, takes_settings
from pagewire.cli.kit import progress
from pagewire.cli.launch import launch as launcher
from pagewire.cli.launch import program
from pagewire.native.settings import ConfigError

Ranks = Annotated[str, typer.Option("-n", "--ranks", metavar="RANKS", help="number of MPI ranks")]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROGRAM [ARGS]...", show_default=False, autocompletion=completion.app),
]

OF_THE_MACHINE = ("memory", "policy", "timeout", "err", "eager_limit", "platform")
_OF_A_RECORD = (*OF_THE_MACHINE, "compute", "strict", "quiet", "json", "html", "trace", "transport")
_OF_A_RANK = (*_OF_A_RECORD, "record")
_OF_MPIEXEC = ("mpi", "hosts", "mpiexec_options")


@app.command()
@takes_settings(*_OF_A_RANK, *_OF_MPIEXEC)
def launch(ranks: Ranks, words: Words = None, *, given: Given) -> int:
    """Run PROGRAM (an app, a .py file, -m module, or behind -- any command that uses MPI) on RANKS
    ranks."""
    return _launch(ranks, words, given.environ())


def _launch(ranks: str, words: list[str] | None, environ: dict[str, str]) -> int:
    num_ranks = launcher.parse_ranks(ranks)
    chosen = program.parse(words or [])
    launcher.choose_transport(environ, chosen)
    said = launcher.choose_mpi(environ, chosen)
    launcher.check_settings(environ, chosen)
    if said:
        progress.say(said)
    outcome = launcher.launch(num_ranks, chosen, environ)
    if outcome.failure:
        rest = "" if outcome.is_past else "; every rank was ended"
        print(f"pagewire: {outcome.failure}{rest}", file=sys.stderr)
    return outcome.exit_code


@app.command()
@takes_settings(*_OF_A_RECORD, *_OF_MPIEXEC)
def record(
    ranks: Ranks,
    words: Words = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE.pwt", help="the trace")
    ] = "",
    *,
    given: Given,
) -> int:
    """Run PROGRAM as launch does, and record what it does into a trace for `pagewire replay`."""
    if not output:
        raise ConfigError("record needs -o FILE.pwt, the trace to write")
    return _launch(ranks, words, given.environ(record=output))


# It is here for its help and for completion: main.py runs it without a command-line library.
@app.command()
@takes_settings(*_OF_A_RANK)
def run(words: Words = None, *, given: Given) -> int:
    """Run PROGRAM (an app, a .py file, or -m module) as one rank, under any mpiexec: mpiexec -n 4
    pagewire run PROGRAM."""
    raise ConfigError(f"run comes first: pagewire run {' '.join(words or [])}")


@app.command()
@takes_settings(
    "timeout", "err", "eager_limit", "platform", "strict", "trace", "transport", *_OF_MPIEXEC
)
def compare(ranks: Ranks, words: Words = None, *, asked: Wanted, given: Given) -> int:
    """Run PROGRAM with each memory strategy, and each value of swept settings, and print a table
    of the differences."""
    from pagewire.cli.commands import compare as comparison

    num_ranks = launcher.parse_ranks(ranks)
    chosen = program.parse(words or [])
    environ = given.environ(quiet=None if asked.reports else True)
    return comparison.compare(num_ranks, chosen, environ, asked)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks of experiments."""

    show_list: Annotated[bool, typer.Option("--list", help="list the experiments")] = False
    output: Annotated[
        str, typer.Option(metavar="DIR", help="folder for NAME.json, .csv, .png and .svg")
    ] = "results"
    repetitions: Annotated[int, typer.Option(help="measurements of each point")] = 5
    full: Annotated[
        bool, typer.Option("--full", help="the papers' sizes, where the default is smaller")
    ] = False
    quick: Annotated[bool, typer.Option("--quick", help="smallest sizes, to try an experiment")] = (
        False
    )
    app: Annotated[
        str,
        typer.Option(
            help="what the application tables run: mini, the bundled apps; real, the programs of "
            "the paper, over libfabric"
        ),
    ] = "mini"
    hpl: Annotated[str, typer.Option(metavar="PATH", help="program of HPL for --app real")] = ""
    hpcg: Annotated[str, typer.Option(metavar="PATH", help="program of HPCG for --app real")] = ""
    draw: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="absent pages of part-fig14: exact, so many of each transfer; independent, each "
            "by chance; clustered:K, as many as exact, in runs of K",
        ),
    ] = "exact"
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="results that stay: date, host and command in each, and part-tables.md, the "
            "application tables beside the paper's",
        ),
    ] = False
    artifact: Annotated[
        bool,
        typer.Option(
            "--artifact",
            help="also artifact.html and artifact.pdf: all tables, pictures and conditions of the "
            "call, and how long each took",
        ),
    ] = False
    resume: Annotated[
        bool, typer.Option("--resume", help="go on where the same call was stopped")
    ] = False
    cache: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="folder of finished points (~/.cache/pagewire/experiments)"
        ),
    ] = ""
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show no progress")] = False


@app.command()
@takes_settings("platform", "trace")
def experiment(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...|all", show_default=False, autocompletion=completion.experiment
        ),
    ] = None,
    *,
    asked: Asked,
    given: Given,
) -> int:
    """Run experiments of the papers: a table on the terminal, files and a plot in DIR."""
    from pagewire.cli.experiments import run as experiments
    from pagewire.cli.kit.result import Options

    if asked.show_list:
        return experiments.list_all()
    options = Options(
        environ=given.environ(),
        repetitions=asked.repetitions,
        full=asked.full,
        quick=asked.quick,
        app=asked.app,
        hpl=asked.hpl,
        hpcg=asked.hpcg,
        draw=asked.draw,
        record=asked.record,
        say=progress.say,
    )
    return experiments.run(
        names or [],
        options,
        pathlib.Path(asked.output),
        makes_artifact=asked.artifact,
        resumes=asked.resume,
        cache=asked.cache,
        quiet=asked.quiet,
    )


@app.command("env")
@takes_settings(*OF_THE_MACHINE, "compute", "quiet", *_OF_MPIEXEC)
def environment(
    ranks: Ranks,
    words: Words = None,
    directory: Annotated[
        str, typer.Option(metavar="DIR", help="folder for the node file and the ranks' reports")
    ] = "pagewire-run",
    *,
    given: Given,
) -> int:
    """Print the variables with which any mpiexec or batch script runs PROGRAM over the fabric. With
    it they are those of the MPI that it loads."""
    from pagewire.cli.commands import own_launcher

    num_ranks = launcher.parse_ranks(ranks)
    chosen = program.parse(words) if words else None
    own_launcher.print_environment(num_ranks, given.environ(), directory, chosen)
    return 0


@app.command()
def report(
    source: Annotated[
        str, typer.Argument(metavar="DIR|FILE.json", show_default=False)
    ] = "pagewire-run",
    program_name: Annotated[
        str, typer.Option("--program", metavar="NAME", help="what the report calls the program")
    ] = "",
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="write the report to this file")
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="write it as a page for a browser")
    ] = None,
) -> int:
    """Print the report of a run that `pagewire env` prepared in DIR (pagewire-run); or make the
    page of FILE.json, which --json has written."""
    from pagewire.cli.commands import own_launcher

    if os.path.isfile(source):
        if json or program_name or not html:
            raise ConfigError(f"'{source}' is a file: of a saved report --html makes a page, alone")
        return own_launcher.make_page(source, html)
    return own_launcher.report(
        source, json=json or "", html=html or "", program=program_name or "program"
    )
