"""`pagewire trace`: look at recorded programs, cut, join and change them."""

import glob
import os
import re
from collections.abc import Sequence
from typing import Annotated

import typer

from pagewire.cli.commands import completion
from pagewire.cli.commands.application import app
from pagewire.cli.kit.progress import say
from pagewire.native.settings import ConfigError, Declaration, parse_value

trace_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Look at recorded programs, make some, cut, join and convert them.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(trace_app, name="trace")

File = Annotated[str, typer.Argument(metavar="FILE.pwt", show_default=False)]
Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE.pwt", help="the trace to write")
]


@trace_app.command()
def info(file: File) -> int:
    """Show what is in a trace: ranks, calls, messages, pages, what it lacks, bytes per call."""
    from pagewire.cli.commands import trace_show

    trace_show.show_info(file)
    return 0


@trace_app.command("print")
def print_records(
    file: File,
    rank: Annotated[int, typer.Option(help="only this one's; -1: every rank's")] = -1,
    first: Annotated[int, typer.Option("--from", help="number of the first record")] = 0,
    count: Annotated[int, typer.Option(help="so many records of a rank; -1: all")] = -1,
) -> int:
    """Print a record a line: rank, number, name, fields; at a LEAVE the virtual time."""
    from pagewire.cli.commands import trace_show

    trace_show.print_records(file, rank, first, count)
    return 0


@trace_app.command()
def check(file: File) -> int:
    """Look for what is wrong with a trace without running it; exit code 1 if something is.

    Damaged chunks, wrong numbers, messages that nobody receives or sends, operations that are never
    waited for.
    """
    from pagewire.cli.commands import trace_show

    return 1 if trace_show.show_check(file) else 0


@trace_app.command()
def cut(
    file: File,
    output: Output,
    phase: Annotated[
        str, typer.Option(metavar="NAME", help="a phase that the program has marked")
    ] = "",
    occurrence: Annotated[
        int, typer.Option(metavar="N", help="the N-th time that it is in the phase", min=1)
    ] = 1,
    calls: Annotated[
        str,
        typer.Option(metavar="A:B", help="the MPI calls A to B - 1 of each rank, counted from 0"),
    ] = "",
) -> int:
    """Make a trace of a part of one: a phase, or some calls of every rank.

    It is refused if a message, an operation or a meeting would be cut in two.
    """
    from pagewire.cli.commands.trace_show import opened
    from pagewire.replay.cut import Calls, Phase
    from pagewire.replay.cut import cut as cut_trace

    if bool(phase) == bool(calls):
        raise ConfigError("trace cut needs --phase NAME or --calls A:B, and not both")
    match = re.fullmatch(r"(\d+):(\d+)", calls)
    if calls and (not match or int(match[1]) >= int(match[2])):
        raise ConfigError(f"--calls {calls}: allowed is A:B with A below B, as 100:200")
    part = Calls(int(match[1]), int(match[2])) if match else Phase(phase, occurrence)
    with opened(file) as reader:
        cut_trace(reader, part, output)
    return 0


@trace_app.command()
def merge(
    output: Annotated[str, typer.Argument(metavar="FILE.pwt", show_default=False)],
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", show_default=False)
    ] = None,
) -> int:
    """Make one trace of what each rank has written: of the PARTs, in the order of ranks, or of
    FILE.pwt.0, FILE.pwt.1 ...; a run that was killed leaves these.
    """
    from pagewire.replay.trace import merge as merge_parts

    for sentence in merge_parts(parts or _parts_of(output), output):
        say(sentence)
    return 0


def _parts_of(path: str) -> Sequence[str]:
    """FILE.0 to FILE.N-1; a gap is an error."""
    pattern = re.compile(re.escape(path) + r"\.(\d+)")
    names = glob.glob(glob.escape(path) + ".*")
    ranks = sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))
    if not ranks:
        raise ConfigError(f"there is no '{path}.0': name the parts behind the file to write")
    missing = [rank for rank, found in enumerate(ranks) if rank != found]
    if missing:
        raise ConfigError(f"there is no '{path}.{missing[0]}', and '{path}.{ranks[-1]}' is there")
    return [f"{path}.{rank}" for rank in ranks]


@trace_app.command()
def anonymise(file: File, output: Output) -> int:
    """Make a trace that may be given away: program, names of phases and addresses go."""
    from pagewire.cli.commands.trace_show import opened
    from pagewire.replay.anonymise import anonymise as without_names

    with opened(file) as reader:
        for sentence in without_names(reader, output):
            say(sentence)
    return 0


_BYTES = Declaration("synth", "bytes", "size", 65536, "of a message", "bytes", minimum=0)
_COMPUTE = Declaration("synth", "compute_ns", "duration", 0, "in a step", "ns", minimum=0)
_FRESH = Declaration("synth", "fresh", "float", 0.0, "share", minimum=0, maximum=1)
_MOST_RANKS = 1 << 20


@trace_app.command()
def synth(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN", show_default=False, autocompletion=completion.trace_pattern
        ),
    ],
    output: Output,
    ranks: Annotated[
        int, typer.Option("-n", "--ranks", help="of the program", min=1, max=_MOST_RANKS)
    ],
    num_bytes: Annotated[
        str, typer.Option("--bytes", metavar="SIZE", help="of a message, e.g. 64KiB")
    ] = "64KiB",
    steps: Annotated[int, typer.Option(help="how often each rank does it", min=1)] = 10,
    compute: Annotated[
        str, typer.Option(metavar="TIME", help="what each rank computes in a step, e.g. 10us")
    ] = "0ns",
    fresh: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="of receives, 0 to 1, whose memory nobody has touched before"
        ),
    ] = "0",
    seed: Annotated[int, typer.Option(help="of what is drawn")] = 1,
) -> int:
    """Make the trace of a program that nobody wrote.

    PATTERN: halo3d:26, halo3d:6, sweep3d, alltoall, allreduce, allreduce:doubling,
    allreduce:halving, allreduce:ring, transpose, incast, random, or module:function, a generator
    function of yours.
    """
    from pagewire.replay import patterns

    shape = patterns.Shape(
        num_bytes=parse_value(_BYTES, num_bytes),
        steps=steps,
        compute_ns=parse_value(_COMPUTE, compute),
        fresh=parse_value(_FRESH, fresh),
        seed=seed,
    )
    num_records = patterns.synthesize(pattern, ranks, shape, output)
    say(f"{output}: {ranks:,} ranks, {num_records:,} records, {os.path.getsize(output):,} bytes")
    return 0


@trace_app.command()
def copies(
    file: File,
    output: Output,
    times: Annotated[int, typer.Option(help="how many copies", min=1, max=_MOST_RANKS)],
) -> int:
    """Make a trace of a recorded run so many times side by side; the copies exchange nothing."""
    from pagewire.cli.commands import trace_bigger

    trace_bigger.copies(file, times, output)
    return 0


@trace_app.command()
def extrapolate(
    files: Annotated[list[str], typer.Argument(metavar="FILE.pwt", show_default=False)],
    ranks: Annotated[
        int, typer.Option("-n", "--ranks", help="of the bigger run", min=0, max=_MOST_RANKS)
    ] = 0,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE.pwt", help="the trace to write")
    ] = "",
    check: Annotated[
        str,
        typer.Option(
            metavar="FILE.pwt", help="predict this recorded run, replay both, and show the error"
        ),
    ] = "",
) -> int:
    """Make the trace of a bigger run of a program from two or three recorded sizes of it.

    What was assumed is shown: of each call its peers, and how bytes and computing depend on the
    number of ranks P. What obeys no rule is refused, with rank and call.
    """
    from pagewire.cli.commands import trace_bigger

    if bool(ranks) == bool(check):
        raise ConfigError("trace extrapolate needs --ranks N or --check FILE.pwt, and not both")
    if ranks and not output:
        raise ConfigError("trace extrapolate --ranks needs -o FILE.pwt, the trace to write")
    return trace_bigger.extrapolate(files, ranks, output, check)


@trace_app.command()
def convert(
    source: Annotated[str, typer.Argument(metavar="FROM", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TO", show_default=False)],
    buffers: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="where messages lie if FROM does not say: reuse, the same memory for the same "
            "peer and tag; fresh, new memory each time; pool:K, K buffers in turn. Default: "
            "recorded for PMPI, else reuse",
        ),
    ] = "",
    skip_unsupported: Annotated[
        bool, typer.Option("--skip-unsupported", help="leave out what cannot be converted")
    ] = False,
    ns_per_flop: Annotated[
        float, typer.Option(help="time of a flop in SimGrid's traces", min=0)
    ] = 1.0,
) -> int:
    """Convert a trace from or to GOAL (.goal, .bin for its binary form) and SimGrid's TI (.ti), or
    from liballprof's PMPI, of which FROM is rank 0's file.

    What cannot be converted is listed with counts and places, and nothing is written.
    """
    from pagewire.replay.formats.convert import Conversion

    conversion = Conversion(buffers=buffers, skips=skip_unsupported, ns_per_flop=ns_per_flop)
    conversion.run(source, target)
    for sentence in conversion.problems.sentences():
        say(f"left out: {sentence}")
    for sentence in conversion.problems.notes():
        say(sentence)
    return 0
