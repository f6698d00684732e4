"""Commands about this installation, this host and the emulator itself: soak, info, stress, schema,
calibrate, apps, selftest."""

import os
import pathlib
from typing import Annotated

import typer

from pagewire.cli.commands import completion
from pagewire.cli.commands.application import app
from pagewire.cli.commands.run_commands import OF_THE_MACHINE, Ranks
from pagewire.cli.commands.setting_options import Given, takes_settings
from pagewire.cli.launch import launch as launcher
from pagewire.cli.launch import program
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config


@app.command()
def bench(
    only: Annotated[
        str,
        typer.Option(
            metavar="GROUP[,GROUP]",
            help="measure these groups only, as lookups,rate; a name that is none is answered "
            "with all",
            autocompletion=completion.bench_groups,
        ),
    ] = "",
    transport: Annotated[
        str,
        typer.Option(
            help="what is measured: facade, mpi4py programs; fabric, C programs over libfabric",
            autocompletion=completion.one_of("run.transport"),
        ),
    ] = "facade",
    json: Annotated[
        str, typer.Option("--json", metavar="FILE", help="write the figures to this file")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="smallest sizes and one round, to try the command")
    ] = False,
) -> int:
    """Measure the emulator beside plain MPI: latency, bandwidth, collectives, page faults, apps."""
    from pagewire.cli.checks.bench import command

    return command.main(only, transport=transport, json_path=json, quick=quick)


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
    from pagewire.cli.checks.soak import command

    transport = given.values["transport"] or ""
    wanted = command.parse(
        launcher.parse_ranks(ranks), transfers, minutes, seed, phase or [], transport
    )
    environ = given.environ(json=None)
    launcher.check_settings(environ)
    json_path = str(given.values["json"] or "")
    return command.soak(wanted, environ, json_path=json_path, plot_path=plot)


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
    unimem: Annotated[
        bool,
        typer.Option("--unimem", help="print Unimem's settings, registers, operations and limits"),
    ] = False,
    topology: Annotated[
        bool,
        typer.Option(
            "--topology", help="print the network's settings, distances, bisection and a picture"
        ),
    ] = False,
    ranks: Annotated[
        int, typer.Option(min=1, max=1 << 20, help="--topology: of so many ranks")
    ] = 16,
    *,
    given: Given,
) -> int:
    """Show settings and where they come from, platform costs, versions, and what this host can
    do."""
    from pagewire.cli.commands import info as information

    environ = given.environ()
    if as_config:
        information.print_config_file(environ)
    elif smmu:
        information.print_smmu(environ)
    elif mini:
        information.print_mini(environ)
    elif unimem:
        information.print_unimem(environ)
    elif topology:
        information.print_topology(environ, ranks)
    else:
        information.print_all(environ)
    return 0


@app.command()
@takes_settings(*OF_THE_MACHINE, "transport", "mpi")
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
    from pagewire.cli.checks.stress import command

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
    from pagewire.cli.commands import schema as schemas

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
        str, typer.Option(metavar="DIR", help="of a file whose pages are read back from its disk")
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
    from pagewire.cli.kit.lists import print_list

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
    from pagewire.cli.checks.selftest import command

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


# It is here for the list of commands; dispatch.py hands its words on unread.
@app.command(add_help_option=False)
def test() -> int:
    """Run the tests: C, Python, and MPI at 1, 2 and 4 ranks; or those of a --policy
    module:Class."""
    return 0
