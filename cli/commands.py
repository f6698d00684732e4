"""The commands of `pagewire` other than `run`: options, help, and error lines."""

import importlib.metadata
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from pagewire.cli import completion, options, program, progress
from pagewire.cli import launch as launcher
from pagewire.cli.interrupts import Interrupted, ending_signals_raise
from pagewire.cli.setting_options import Given, takes_settings
from pagewire.native.settings import ConfigError
from pagewire.transport.settings import config

app = typer.Typer(
    name="pagewire",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    epilog="Exit codes: 0 done; 1 it failed, or a check did; 2 the words or a setting cannot be "
    "used; 128 + N ended by signal N; a run has that of the rank that failed first. Colors: "
    "NO_COLOR=1 for none.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"pagewire {importlib.metadata.version('pagewire')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="print the version", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Run MPI programs on an emulated RDMA network interface with page-fault handling."""


Ranks = Annotated[str, typer.Option("-n", "--ranks", metavar="RANKS", help="number of MPI ranks")]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROGRAM [ARGS]...", show_default=False, autocompletion=completion.app),
]


@app.command()
@takes_settings(
    "memory",
    "policy",
    "timeout",
    "err",
    "eager_limit",
    "platform",
    "compute",
    "strict",
    "quiet",
    "json",
    "html",
    "trace",
    "transport",
    "mpi",
    "hosts",
    "mpiexec_options",
)
def launch(ranks: Ranks, words: Words = None, *, given: Given) -> int:
    """Run PROGRAM (an app, a .py file, -m module, or behind -- any command that uses MPI) on RANKS
    ranks."""
    num_ranks = launcher.parse_ranks(ranks)
    chosen = program.parse(words or [])
    environ = given.environ()
    launcher.choose_transport(environ, chosen)
    launcher.check_settings(environ, chosen)
    outcome = launcher.launch(num_ranks, chosen, environ)
    if outcome.failure:
        rest = "" if outcome.is_past else "; every rank was ended"
        print(f"pagewire: {outcome.failure}{rest}", file=sys.stderr)
    return outcome.exit_code


@app.command()
@takes_settings(
    "timeout",
    "err",
    "eager_limit",
    "platform",
    "strict",
    "trace",
    "transport",
    "mpi",
    "hosts",
    "mpiexec_options",
)
def compare(
    ranks: Ranks,
    memory: Annotated[
        str | None,
        typer.Option(
            help="memory strategies to compare, separated by commas, units mini and static too; "
            "or all (pretouch,part; with --sweep that of the settings)",
            autocompletion=completion.one_of("run.memory"),
        ),
    ] = None,
    words: Words = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="page-in policies to compare under part, separated by commas (run.policy)",
            autocompletion=completion.one_of("run.policy"),
        ),
    ] = None,
    sweeps: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="NAME=V1,V2,...",
            help="values of a setting to compare; of several, and of --memory, the product",
            autocompletion=completion.assignment,
        ),
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="ROW",
            help="what ratios refer to: pretouch, run.timeout=1ms, or several (the first row)",
        ),
    ] = "",
    compute: Annotated[
        str,
        typer.Option(
            help="replay: measure in the first run, replay in the others; or measured, model, none"
        ),
    ] = "replay",
    reports: Annotated[bool, typer.Option("--reports", help="print each run's report")] = False,
    quiet_app: Annotated[bool, typer.Option("--quiet-app", help="hide PROGRAM's output")] = False,
    runs: Annotated[
        int, typer.Option(help="runs with each strategy: which figures of equal runs differ?")
    ] = 1,
    noise: Annotated[
        bool, typer.Option("--noise", help="load this host meanwhile: cores, memory, forks, files")
    ] = False,
    equal: Annotated[
        bool, typer.Option("--equal", help="exit code 1 when equal runs differ in a figure")
    ] = False,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="write the results to this file")
    ] = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="write the table to this file")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="draw the times to this .png, .svg or .pdf"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show no progress")] = False,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="write the results as a page for a browser"),
    ] = None,
    *,
    given: Given,
) -> int:
    """Run PROGRAM with each memory strategy, and each value of swept settings, and print a table
    of the differences."""
    from pagewire.cli import compare as comparison

    num_ranks = launcher.parse_ranks(ranks)
    chosen = program.parse(words or [])
    wanted = comparison.Wanted(
        memory=memory,
        policy=policy,
        sweeps=sweeps or [],
        baseline=baseline,
        compute=compute,
        num_runs=runs,
        quiet_app=quiet_app,
        quiet=quiet,
        with_noise=noise,
        must_be_equal=equal,
        json_path=json or "",
        csv_path=csv or "",
        plot_path=plot or "",
        html_path=html or "",
    )
    environ = given.environ(quiet=None if reports else True)
    return comparison.compare(num_ranks, chosen, environ, wanted)


@app.command()
@takes_settings("platform", "trace")
def experiment(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...|all", show_default=False, autocompletion=completion.experiment
        ),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="list the experiments")] = False,
    output: Annotated[
        str, typer.Option(metavar="DIR", help="folder for NAME.json, .csv, .png and .svg")
    ] = "results",
    repetitions: Annotated[int, typer.Option(help="measurements of each point")] = 5,
    full: Annotated[
        bool, typer.Option("--full", help="the papers' sizes, where the default is smaller")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="smallest sizes, to try an experiment")
    ] = False,
    app: Annotated[
        str,
        typer.Option(
            help="what the application tables run: mini, the bundled apps; real, the programs of "
            "the paper, over libfabric"
        ),
    ] = "mini",
    hpl: Annotated[str, typer.Option(metavar="PATH", help="program of HPL for --app real")] = "",
    hpcg: Annotated[str, typer.Option(metavar="PATH", help="program of HPCG for --app real")] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="go on where the same call was stopped")
    ] = False,
    cache: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="folder of finished points (~/.cache/pagewire/experiments)"
        ),
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show no progress")] = False,
    *,
    given: Given,
) -> int:
    """Run experiments of the papers: a table on the terminal, files and a plot in DIR."""
    from pagewire.cli.experiments import run as experiments
    from pagewire.cli.experiments.result import Options

    if show_list:
        return experiments.list_all()
    options_given = Options(
        environ=given.environ(),
        repetitions=repetitions,
        full=full,
        quick=quick,
        app=app,
        hpl=hpl,
        hpcg=hpcg,
        say=progress.say,
    )
    return experiments.run(
        names or [],
        options_given,
        pathlib.Path(output),
        resumes=resume,
        cache=cache,
        quiet=quiet,
    )


@app.command()
@takes_settings("transport", "mpi", "json")
def soak(
    ranks: Ranks = "4",
    transfers: Annotated[
        str, typer.Option(metavar="NUMBER", help="transfers of all ranks in the first phase")
    ] = "1e6",
    minutes: Annotated[
        float, typer.Option(help="a phase ends after so long, if it has not before")
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="of sizes, places and absent pages")] = 1,
    phase: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="only this phase; may be given several times"),
    ] = None,
    plot: Annotated[
        str, typer.Option(metavar="FILE", help="draw each rank's memory to this .png or .svg")
    ] = "",
    *,
    given: Given,
) -> int:
    """Run many transfers under losses, page faults and short timeouts; does anything go wrong, or
    grow?"""
    from pagewire.cli.soak import command

    transport = given.values["transport"] or ""
    wanted = command.parse(
        launcher.parse_ranks(ranks), transfers, minutes, seed, phase or [], transport
    )
    environ = given.environ(json=None)
    launcher.check_settings(environ)
    json_path = str(given.values["json"] or "")
    return command.soak(wanted, environ, json_path=json_path, plot_path=plot)


@app.command("env")
@takes_settings(
    "memory",
    "policy",
    "timeout",
    "err",
    "eager_limit",
    "platform",
    "compute",
    "quiet",
    "mpi",
    "hosts",
    "mpiexec_options",
)
def environment(
    ranks: Ranks,
    directory: Annotated[
        str, typer.Option(metavar="DIR", help="folder for the node file and the ranks' reports")
    ] = "pagewire-run",
    *,
    given: Given,
) -> int:
    """Print the variables with which any mpiexec or batch script runs a program over the fabric."""
    from pagewire.cli import own_launcher

    num_ranks = launcher.parse_ranks(ranks)
    own_launcher.print_environment(num_ranks, given.environ(), directory)
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
        str | None,
        typer.Option("--html", metavar="FILE", help="write it as a page for a browser"),
    ] = None,
) -> int:
    """Print the report of a run that `pagewire env` prepared in DIR (pagewire-run); or make the
    page of FILE.json, which --json has written."""
    from pagewire.cli import own_launcher

    if os.path.isfile(source):
        if json or program_name or not html:
            raise ConfigError(f"'{source}' is a file: of a saved report --html makes a page, alone")
        return own_launcher.make_page(source, html)
    return own_launcher.report(
        source, json=json or "", html=html or "", program=program_name or "program"
    )


@app.command()
@takes_settings("platform")
def info(
    as_config: Annotated[
        bool, typer.Option("-c", "--as-config", help="print the settings as a configuration file")
    ] = False,
    smmu: Annotated[
        bool, typer.Option("--smmu", help="print the SMMU's settings and its registers' layout")
    ] = False,
    mini: Annotated[
        bool, typer.Option("--mini", help="print miNI's settings and what stands on the NIC")
    ] = False,
    *,
    given: Given,
) -> int:
    """Show settings and where they come from, platform costs, versions, and what this host can
    do."""
    from pagewire.cli import info as information

    environ = given.environ()
    if as_config:
        information.print_config_file(environ)
    elif smmu:
        information.print_smmu(environ)
    elif mini:
        information.print_mini(environ)
    else:
        information.print_all(environ)
    return 0


@app.command()
@takes_settings("memory", "policy", "timeout", "err", "eager_limit", "platform", "transport", "mpi")
def stress(
    ranks: Ranks,
    minutes: Annotated[float, typer.Option(help="how long, e.g. 0.5")] = 5.0,
    seed: Annotated[
        str,
        typer.Option(
            metavar="SEED[:LAUNCH]", help="draw the same programs and settings; from LAUNCH on"
        ),
    ] = "",
    output: Annotated[
        str, typer.Option(metavar="FILE", help="where a failing program is written")
    ] = "stress-failure.py",
    time_limit: Annotated[int, typer.Option(help="seconds after which a step hangs")] = 60,
    shrink_minutes: Annotated[
        float, typer.Option(help="how long a failing program is made shorter; 0: not at all")
    ] = 5.0,
    *,
    given: Given,
) -> int:
    """Run random MPI programs under random settings, check every byte, and shrink what fails.

    A setting that is given is not drawn.
    """
    from pagewire.cli.stress import command

    first_seed, first_launch = command.parse_seed(seed)
    asked = command.Options(
        num_ranks=launcher.parse_ranks(ranks),
        minutes=minutes,
        seed=first_seed,
        first_launch=first_launch,
        limit_s=time_limit,
        output=pathlib.Path(output),
        shrink_minutes=shrink_minutes,
    )
    return command.main(asked, given.environ())


@app.command()
def schema(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", show_default=False, autocompletion=completion.json_schema),
    ] = "",
) -> int:
    """Print the JSON Schema of what a command writes, or list the schemas."""
    from pagewire.cli import schema as schemas

    return schemas.show(name)


@app.command()
@takes_settings("memory", "policy", "timeout", "err", "platform")
def calibrate(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE.toml", help="write a platform file")
    ] = "",
    against: Annotated[
        str,
        typer.Option(
            metavar="FILE.csv",
            help="fit the costs of a machine to this table: size_bytes, latency_us, and more",
        ),
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="try the command; too short to mean anything")
    ] = False,
    folder: Annotated[
        str,
        typer.Option(metavar="DIR", help="of a file whose pages are read back from its disk"),
    ] = "",
    *,
    given: Given,
) -> int:
    """Measure what memory and wake-ups cost on this host, or fit the costs of a machine to a table
    of latencies; print them, and write them as a platform file."""
    settings = config.load(environ=given.environ())
    if against:
        from pagewire.cli.calibrate import fitting

        if quick or folder:
            raise ConfigError("--quick and --folder are for measuring; --against measures nothing")
        return fitting.fit(settings, against, output)
    from pagewire.cli.calibrate import measuring

    return measuring.measure(settings.run.platform, output, is_quick=quick, folder=folder)


@app.command()
def apps() -> int:
    """List the bundled apps."""
    from pagewire.cli.lists import print_list

    print_list(program.apps())
    return 0


@app.command()
@takes_settings("mpi")
def selftest(
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="every MPI, Python and kind of kernel that is here, each in an environment of its "
            "own; minutes, and with the source tree its tests too",
        ),
    ] = False,
    markdown: Annotated[
        str, typer.Option(metavar="FILE", help="write the table of --all to this file")
    ] = "",
    cache: Annotated[
        str, typer.Option(metavar="DIR", help="folder for the environments of --all")
    ] = "",
    only: Annotated[
        str, typer.Option(metavar="NAMES", help="of --all, these alone, separated by commas")
    ] = "",
    json: Annotated[
        str, typer.Option("--json", metavar="FILE", help="write what was found to this file")
    ] = "",
    *,
    given: Given,
) -> int:
    """Does this installation work here? Page states, pins, shared memory, a run on both transports;
    seconds."""
    from pagewire.cli.selftest import command

    config.load(environ=given.environ())  # a setting that is wrong is an error of the user's
    os.environ.update(given.environ())
    if every:
        if json:
            raise ConfigError("--json is for the self test of this installation; --markdown here")
        return command.every_platform(cache, only, markdown)
    for name, value in (("--markdown", markdown), ("--only", only), ("--cache", cache)):
        if value:
            raise ConfigError(f"{name} needs --all")
    return command.this_installation(json)


# run, bench and test are here for the list of commands; main() hands their words on unread.
@app.command(add_help_option=False)
def run() -> int:
    """Run PROGRAM as one rank, under any mpiexec: mpiexec -n 4 pagewire run PROGRAM."""
    return 0


@app.command(add_help_option=False)
def bench() -> int:
    """Measure the emulator beside plain MPI: latency, bandwidth, collectives, page faults, apps."""
    return 0


@app.command(add_help_option=False)
def test() -> int:
    """Run the tests: C, Python, and MPI at 1, 2 and 4 ranks; or those of a --policy
    module:Class."""
    return 0


def _bench(words: list[str]) -> int:
    from pagewire.cli.bench.command import main as bench_main

    return int(bench_main(words) or 0)


def _test(words: list[str]) -> int:
    from pagewire.cli import testing

    return testing.main(words)


_HANDED_ON: dict[str, Callable[[list[str]], int]] = {"bench": _bench, "test": _test}


def main(words: Sequence[str]) -> int:
    """Run one command; bad input raises ConfigError."""
    rest = list(words)
    if rest and rest[0] in _HANDED_ON:
        return _interruptible(lambda: _HANDED_ON[rest[0]](rest[1:]))
    if rest and rest[0] in ("launch", "compare"):
        rest = [rest[0], *options.separate_program(rest[1:])]
    return _interruptible(lambda: _typer(rest))


def _interruptible(command: Callable[[], int]) -> int:
    try:
        with ending_signals_raise():
            return command()
    except Interrupted as interrupt:
        print(f"pagewire: {interrupt.sentence}; every rank was ended", file=sys.stderr)
        return interrupt.exit_code


def _typer(words: list[str]) -> int:
    """Run the typer application; its usage errors become ConfigError, for one line each."""
    try:
        return int(app(words, standalone_mode=False) or 0)
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
