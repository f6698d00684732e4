"""What `pagewire replay` is told: its work, whose parts take long to load, is replay.py's."""

import dataclasses
from typing import Annotated

import typer

from pagewire.cli.commands.application import app
from pagewire.cli.commands.compare_options import (
    columns_option,
    memory_option,
    policy_option,
    sweep_option,
)
from pagewire.cli.commands.setting_options import Given, takes_settings


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks of a replay besides settings."""

    memory: Annotated[str | None, memory_option("the recorded one")] = None
    policy: Annotated[str | None, policy_option("the recorded one")] = None
    sweeps: Annotated[list[str] | None, sweep_option()] = None
    baseline: Annotated[
        str,
        typer.Option(metavar="ROW", help="what ratios refer to, as in compare (the first row)"),
    ] = ""
    columns: Annotated[str, columns_option()] = ""
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="replay with the recorded settings: exit code 1, and the first difference, unless "
            "every recorded virtual time comes out exactly",
        ),
    ] = False
    matching: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="receives from any source take what they took (recorded) or what is there (free)",
        ),
    ] = "recorded"
    touch: Annotated[
        str,
        typer.Option(
            metavar="start|spread|end",
            help="when pages are touched within a compute interval; prints the time of each way "
            "where it matters (start)",
        ),
    ] = ""
    num_processes: Annotated[
        int, typer.Option("-j", "--processes", help="replay so many rows at a time")
    ] = 1
    split: Annotated[
        bool,
        typer.Option(
            "--split",
            help="divide the nodes of each replay over the ranks of the mpiexec that started this",
        ),
    ] = False
    costs: Annotated[
        str,
        typer.Option(
            metavar="all|NAME,...",
            help="cut the run's time by cost, and find what each cost may grow to, by replays",
        ),
    ] = ""
    loss: Annotated[
        float, typer.Option(metavar="PERCENT", help="--costs: what the run may lose")
    ] = 1.0
    path: Annotated[
        bool,
        typer.Option(
            "--path",
            help="cut the critical path through the run by part of the machine, MPI call and "
            "buffer, by one more replay",
        ),
    ] = False
    trace_path: Annotated[
        str,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="write a timeline for ui.perfetto.dev, with the hottest links, by one more replay",
        ),
    ] = ""
    keep: Annotated[
        str,
        typer.Option(
            metavar="FOLDER",
            help="keep what comes of each replay there, and take from there what was done before",
        ),
    ] = ""
    json_path: Annotated[
        str, typer.Option("--json", metavar="FILE", help="write the results to this file")
    ] = ""
    html_path: Annotated[
        str,
        typer.Option("--html", metavar="FILE", help="write the results as a page for a browser"),
    ] = ""
    csv_path: Annotated[
        str, typer.Option("--csv", metavar="FILE", help="write the table to this file")
    ] = ""
    backend: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="engine, or loggops: what the usual model says, which knows no pages and no "
            "contention; FILE may be GOAL then",
        ),
    ] = "engine"
    latency_ns: Annotated[int, typer.Option("-L", help="loggops: latency in ns")] = 2500
    overhead_ns: Annotated[int, typer.Option("-o", help="loggops: CPU for a message, ns")] = 1500
    gap_ns: Annotated[int, typer.Option("-g", help="loggops: between messages, ns")] = 1000
    gap_per_byte_ns: Annotated[float, typer.Option("-G", help="loggops: for a byte, ns")] = 6.0
    overhead_per_byte_ns: Annotated[
        float, typer.Option("-O", help="loggops: CPU for a byte, ns")
    ] = 0.0
    eager_bytes: Annotated[
        int, typer.Option("-S", help="loggops: longest message that does not wait, bytes")
    ] = 65535


@app.command()
@takes_settings("timeout", "err", "eager_limit", "platform")
def replay(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE.pwt...",
            show_default=False,
            help="a recorded run, or several that are jobs of one machine, side by side",
        ),
    ],
    *,
    asked: Asked,
    given: Given,
) -> int:
    """Run a recorded program again, on as many nodes as it had ranks, without MPI: under the
    recorded settings, or others that --set, --memory and --policy name."""
    from pagewire.cli.commands import replay as work

    return work.replay(files, asked, given)
