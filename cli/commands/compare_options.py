"""The options of `pagewire compare` besides the settings that are alike in all of its runs;
`pagewire replay` has some of them too."""

import dataclasses
from typing import Annotated, Any

import typer

from pagewire.cli.commands import completion

COMPUTE = ("replay", "measured", "model", "none")


def memory_option(default: str) -> Any:
    """--memory of a command that runs under each of several strategies."""
    return typer.Option(
        help="memory strategies to compare, separated by commas, units mini and static too; or all "
        f"({default})",
        autocompletion=completion.one_of("run.memory"),
    )


def policy_option(default: str) -> Any:
    """--policy of the same."""
    return typer.Option(
        help=f"page-in policies to compare under part, separated by commas ({default})",
        autocompletion=completion.one_of("run.policy"),
    )


def sweep_option() -> Any:
    """--sweep of the same."""
    return typer.Option(
        "--sweep",
        metavar="NAME=V1,V2,...",
        help="values of a setting to compare; of several, and of --memory, the product",
        autocompletion=completion.assignment,
    )


def columns_option() -> Any:
    """--columns of the same."""
    return typer.Option(
        metavar="all|NAME,...",
        help="figures that the table shows, by their names in --json (those that fit)",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks of a comparison."""

    memory: Annotated[
        str | None, memory_option("pretouch,part; with --sweep that of the settings")
    ] = None
    policy: Annotated[str | None, policy_option("run.policy")] = None
    sweeps: Annotated[list[str] | None, sweep_option()] = None
    baseline: Annotated[
        str,
        typer.Option(
            metavar="ROW",
            help="what ratios refer to: pretouch, run.timeout=1ms, or several (the first row)",
        ),
    ] = ""
    columns: Annotated[str, columns_option()] = ""
    compute: Annotated[
        str,
        typer.Option(
            help="replay: measure in the first run, replay in the others; or measured, model, none"
        ),
    ] = "replay"
    reports: Annotated[bool, typer.Option("--reports", help="print each run's report")] = False
    quiet_app: Annotated[bool, typer.Option("--quiet-app", help="hide PROGRAM's output")] = False
    num_runs: Annotated[
        int,
        typer.Option("--runs", help="runs with each strategy: which figures of equal runs differ?"),
    ] = 1
    with_noise: Annotated[
        bool, typer.Option("--noise", help="load this host meanwhile: cores, memory, forks, files")
    ] = False
    must_be_equal: Annotated[
        bool, typer.Option("--equal", help="exit code 1 when equal runs differ in a figure")
    ] = False
    json_path: Annotated[
        str, typer.Option("--json", metavar="FILE", help="write the results to this file")
    ] = ""
    csv_path: Annotated[
        str, typer.Option("--csv", metavar="FILE", help="write the table to this file")
    ] = ""
    plot_path: Annotated[
        str,
        typer.Option("--plot", metavar="FILE", help="draw the times to this .png, .svg or .pdf"),
    ] = ""
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show no progress")] = False
    html_path: Annotated[
        str,
        typer.Option("--html", metavar="FILE", help="write the results as a page for a browser"),
    ] = ""
