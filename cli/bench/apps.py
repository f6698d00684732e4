"""Wall time of the mini-apps on the NI over their wall time on plain mpi4py.

Plain ranks start under the same mpiexec in the same environment but load nothing of the facade.
Runs of both alternate, and the quickest of each counts. Start, imports and end of the ranks are in
neither. CPU time, of all ranks together, tells what is work and what is waiting; it suffers less
from other programs.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from pagewire.cli import launch
from pagewire.cli.bench.group import (
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Row,
    Rows,
    check_outcome,
    rank_environ,
)
from pagewire.cli.guard import guarded_folder
from pagewire.cli.program import Program

_MODULE = "pagewire.cli.bench.ranks.app"
_ROUNDS, _ROUNDS_QUICK = 3, 1


@dataclasses.dataclass(frozen=True, slots=True)
class _App:
    name: str
    num_ranks: int
    words: tuple[str, ...]
    """Command line; a plain run takes 1 to 3 s on two cores."""
    limit: float
    """of wall time on the NI over plain"""


_APPS = (
    _App("lammps", 4, ("--size", "20", "--steps", "100"), 1.15),
    _App("lammps", 16, ("--size", "20", "--steps", "25"), 1.5),
    _App("hpcg", 4, ("--size", "32", "--sets", "1", "--iterations", "25"), 1.2),
    _App("hpl", 4, ("--N", "2500"), 1.3),
)
_APPS_QUICK = (
    _App("lammps", 2, ("--size", "6", "--steps", "2"), 1.15),
    _App("hpcg", 2, ("--size", "8", "--sets", "1", "--iterations", "2"), 1.2),
    _App("hpl", 2, ("--N", "200"), 1.3),
)


def _chosen(quick: bool) -> tuple[Sequence[_App], int]:
    return (_APPS_QUICK, _ROUNDS_QUICK) if quick else (_APPS, _ROUNDS)


def _measure(conditions: Conditions) -> Rows:
    apps, num_rounds = _chosen(conditions.quick)
    return [_row(conditions, app, num_rounds) for app in apps]


def _row(conditions: Conditions, app: _App, num_rounds: int) -> Row:
    plain, facade = [], []
    for i in range(num_rounds):
        conditions.begin_step(f"{app.name} of {app.num_ranks} ranks, turn {i + 1}")
        plain.append(_run(conditions, app, plain=True))
        facade.append(_run(conditions, app, plain=False))
    plain_s, facade_s, plain_cpu_s, facade_cpu_s = (
        min(each[key] for each in runs) for key in ("wall_s", "cpu_s") for runs in (plain, facade)
    )
    return {
        "app": app.name,
        "num_ranks": app.num_ranks,
        "arguments": " ".join(app.words),
        "plain_s": plain_s,
        "facade_s": facade_s,
        "ratio": facade_s / plain_s,
        "plain_cpu_s": plain_cpu_s,
        "facade_cpu_s": facade_cpu_s,
        "cpu_ratio": facade_cpu_s / plain_cpu_s,
    }


def _run(conditions: Conditions, app: _App, *, plain: bool) -> dict[str, float]:
    """Times of one run in s."""
    with guarded_folder("pagewire-bench-") as directory:
        path = pathlib.Path(directory, "times.json")
        words = (str(path), app.name, *app.words)
        environ = rank_environ(conditions)
        if plain:
            command = [sys.executable, "-P", "-m", _MODULE, *words]
            outcome = launch.launch_command(
                app.num_ranks, command, environ, program=app.name, stdout=subprocess.DEVNULL
            )
        else:
            chosen = Program("module", _MODULE, words)
            outcome = launch.launch(app.num_ranks, chosen, environ, stdout=subprocess.DEVNULL)
        check_outcome(outcome, f"{app.name}, {'plain' if plain else 'on the NI'}")
        times: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return times


def _goals(rows: Rows) -> list[Goal]:
    limits = {(app.name, app.num_ranks): app.limit for app in _APPS}
    return [
        Goal(
            f"{row['app']} of {row['num_ranks']} ranks, wall / plain",
            limits[row["app"], row["num_ranks"]],
            row["ratio"],
        )
        for row in rows
        if (row["app"], row["num_ranks"]) in limits
    ]


GROUP = Group(
    "apps",
    (
        Layout(
            "apps: wall time from first to last",
            (
                Column("app", "app"),
                Column("num_ranks", "ranks", 0),
                Column("arguments", "arguments"),
                Column("plain_s", "plain\n(s)"),
                Column("facade_s", "NI\n(s)"),
                Column("ratio", "NI/\nplain"),
                Column("plain_cpu_s", "plain,\nCPU (s)"),
                Column("facade_cpu_s", "NI,\nCPU (s)"),
                Column("cpu_ratio", "NI/\nplain"),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick: len(_chosen(quick)[0]) * _chosen(quick)[1],
)
