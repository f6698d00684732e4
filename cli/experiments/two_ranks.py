"""Launches of two_ranks_program.py, whose rank 0 times messages to rank 1."""

import json
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.result import Options
from pagewire.cli.launch import launch, options, program


def run(
    chosen: Options,
    kind: str,
    memory: str,
    cases: Sequence[tuple[int, int]],
    settings: Sequence[str],
) -> tuple[str, list[Any], dict[str, Any]]:
    """Why it failed (empty: it did not), what it measured of each size and count (us, to the ns),
    and its report's totals. memory: its name in a timeline."""
    with guarded_folder(f"pagewire-{kind}-") as folder:
        times, report = pathlib.Path(folder, "times.json"), pathlib.Path(folder, "report.json")
        words = [str(times), kind, *(f"{num_bytes}:{count}" for num_bytes, count in cases)]
        command = program.parse(["-m", "pagewire.cli.experiments.two_ranks_program", *words])
        environ = dict(chosen.environ)
        texts = ["run.compute=none", "run.quiet=true", f"run.json={report}", *settings]
        options.apply(options.as_environment(texts), environ)
        group = chosen.group(environ, f"{kind}, {memory}")
        outcome = launch.launch(2, command, environ, stdout=subprocess.DEVNULL, group=group)
        if outcome.failure:
            return outcome.failure, [], {}
        totals = json.loads(report.read_text(encoding="utf-8"))["totals"]
        return "", json.loads(times.read_text(encoding="utf-8")), totals
