"""Temperature, energies and pressure of all atoms together, as LAMMPS' `thermo_style one`."""

import dataclasses

import numpy as np

from pagewire.apps.command import AppError
from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.lammps.options import Options
from pagewire.apps.team import Team
from pagewire.apps.timing import phase

HEADER = f"{'Step':>10} {'Temp':>14} {'E_pair':>14} {'TotEng':>14} {'Press':>14}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ThermoRow:
    """One output line; energies per atom."""

    step: int
    temperature: float
    pair_energy: float
    total_energy: float
    pressure: float

    def __str__(self) -> str:
        return (
            f"{self.step:10d} {self.temperature:14.7f} {self.pair_energy:14.7f} "
            f"{self.total_energy:14.7f} {self.pressure:14.7f}"
        )


@phase("thermo")
def measure(
    options: Options, team: Team, atoms: Atoms, *, step: int, energy: float, virial: float
) -> ThermoRow:
    """Sum over the ranks in rank order; collective. Degrees of freedom are 3 N - 3, as the total
    momentum is zero. Raises AppError on all ranks when one is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        velocities = atoms.velocities[: atoms.num_local]
        speed_squares = float((velocities * velocities).sum())
        total = team.sum_in_order([speed_squares, energy, virial])
    if not np.isfinite(total).all():
        raise AppError(
            f"sums of v^2, pair energy, virial at step {step} are {total.tolist()}; allowed: "
            f"finite. Remedy: a smaller --timestep, --temperature or --density."
        )
    v_squares, pair, virial_sum = (float(t) for t in total)
    num_atoms = options.num_atoms
    volume = float(np.prod(options.box_lengths))
    return ThermoRow(
        step=step,
        temperature=v_squares / (3 * num_atoms - 3),
        pair_energy=pair / num_atoms,
        total_energy=(pair + v_squares / 2) / num_atoms,
        pressure=(v_squares + virial_sum) / (3 * volume),
    )
