"""What `pagewire trace copies` and `extrapolate` do: bigger runs, and what was assumed of them."""

import os
import sys
from collections.abc import Sequence

from pagewire.cli.commands.trace_show import opened
from pagewire.cli.kit.output import console_of, plain_table
from pagewire.cli.kit.progress import say
from pagewire.replay import extrapolate as bigger
from pagewire.replay import prediction
from pagewire.replay.made import Copies, Made


def copies(file: str, times: int, output: str) -> None:
    """Write them."""
    with opened(file) as reader:
        _write(Copies(reader, times), output)


def _write(made: Made, output: str) -> None:
    num_records = made.write(output)
    num_bytes = os.path.getsize(output)
    say(f"{output}: {made.num_ranks:,} ranks, {num_records:,} records, {num_bytes:,} bytes")


def extrapolate(files: Sequence[str], num_ranks: int, output: str, check: str) -> int:
    """Write the trace if there is an output, and compare it with a recorded one if there is one;
    num_ranks: 0 for that one's. The exit code: 1 if a replay failed."""
    runs = []
    for file in files:
        with opened(file) as reader:
            runs.append(bigger.read_run(reader))
    if not check:
        made = bigger.extrapolate(runs, num_ranks)
        _show_assumptions(made)
        _write(made, output)
        return 0
    with opened(check) as recorded:
        made = bigger.extrapolate(runs, recorded.num_ranks)
        _show_assumptions(made)
        if output:
            _write(made, output)
        try:
            errors = prediction.compare(made, recorded)
        except RuntimeError as error:  # ReplayError, EngineError, a policy's own
            say(f"of '{check}' and its prediction a replay failed: {error}")
            return 1
    _show_errors(errors, check)
    return 0


def _show_assumptions(made: bigger.Extrapolated) -> None:
    table = plain_table(
        f"{made.num_ranks:,} ranks, {made.grid}", "peers", "bytes", "compute", "off by (%)"
    )
    for each in made.assumptions():
        residual = f"{100 * each.residual:.1f}"
        table.add_row(each.call, each.peers, each.bytes, each.compute, residual)
    console_of().print(table)


def _show_errors(errors: Sequence[prediction.Error], check: str) -> None:
    table = plain_table(check, "recorded, replayed", "predicted", "error (%)")
    for each in errors:
        share = "" if each.share is None else f"{100 * each.share:+.2f}"
        table.add_row(each.name, f"{each.recorded:,}", f"{each.predicted:,}", share)
    console_of().print()
    console_of().print(table)
    sys.stdout.flush()
