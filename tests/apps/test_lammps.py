"""The Lennard-Jones melt: against published numbers, a brute-force sum, and itself.

MPI runs are tiny: with more ranks than cores plain MPICH spins. What energy conservation is tested
with is said in each test, because the plain cut-off (LAMMPS' default, and ours) does not conserve
the energy to 1e-4 and the time step's own O(dt^2) error is larger than that during the melting.
"""

import pathlib
import re

import numpy as np
import pytest
from app_runs import assert_same_bits, run_mpi, run_to_state
from hypothesis import given, settings
from hypothesis import strategies as st

MPI = pytest.importorskip("mpi4py.MPI")
pytest.importorskip("pagewire._kernels")

from pagewire.apps.command import InputError
from pagewire.apps.kernels import KernelError
from pagewire.apps.lammps import kernels
from pagewire.apps.lammps.domain import Domain
from pagewire.apps.lammps.lattice import create_lattice, create_velocities
from pagewire.apps.lammps.options import Options, parse_options
from pagewire.apps.lammps.simulation import Simulation
from pagewire.apps.lammps.thermo import ThermoRow
from pagewire.apps.team import Team

FCC_PAIR_ENERGY = -6.7733681  # LAMMPS' logs of examples/melt and bench/in.lj, step 0


def run_serial(command_line: str) -> tuple[Simulation, list[ThermoRow]]:
    options = parse_options(command_line.split())
    simulation = Simulation(options, Team(MPI, MPI.COMM_SELF))
    rows: list[ThermoRow] = []
    simulation.run(rows.append)
    return simulation, rows


def brute_force(
    positions: np.ndarray, length: float, cutoff: float, shift: float = 0.0
) -> tuple[np.ndarray, float, float]:
    """Forces, energy, virial over all pairs and images, without lists or bins."""
    reach = int(np.ceil(cutoff / length))
    images = np.array(list(np.ndindex(*(2 * reach + 1,) * 3))) - reach
    forces, energy, virial = np.zeros_like(positions), 0.0, 0.0
    for image in images:
        delta = positions[:, None] - positions[None] - image * length
        r2 = (delta**2).sum(axis=2)
        if not image.any():
            np.fill_diagonal(r2, np.inf)
        near = r2 < cutoff**2
        inverse6 = np.where(near, r2, np.inf) ** -3
        pull = 48 * inverse6 * (inverse6 - 0.5) / r2
        forces += (pull[:, :, None] * delta).sum(axis=1)
        energy += (4 * inverse6 * (inverse6 - 1) - shift * near).sum() / 2
        virial += (np.where(near, r2, 0.0) * pull).sum() / 2
    return forces, energy, virial


# Options


@pytest.mark.parametrize(
    ("command_line", "value"),
    [
        ("--size 0", "0"),
        ("--cells 4 -1 4", "-1"),
        ("--size 100000", "4000000000000000"),
        ("--steps -5", "-5"),
        ("--cutoff 0", "0.0"),
        ("--cutoff nan", "nan"),
        ("--density -1", "-1.0"),
        ("--skin -0.1", "-0.1"),
        ("--timestep inf", "inf"),
        ("--neigh-every 0", "0"),
        ("--seed -1", "-1"),
    ],
)
def test_bad_option_is_an_error_with_value_limit_remedy(command_line: str, value: str) -> None:
    with pytest.raises(InputError, match=rf" is {re.escape(value)}; allowed: .* Remedy: "):
        parse_options(command_line.split())


def test_cutoff_far_beyond_the_box_is_refused() -> None:
    with pytest.raises(InputError, match="sigma wide in x .*allowed: at least .*Remedy: "):
        run_serial("--size 1 --cutoff 50 --steps 0")


def test_defaults_are_the_melt() -> None:
    options = parse_options([])
    assert options == Options()
    assert options.num_atoms == 32000


# Start


def domains(options: Options, grid: tuple[int, int, int]) -> list[Domain]:
    return [
        Domain(options.box_lengths, grid, (x, y, z), options.list_cutoff)
        for x, y, z in np.ndindex(*grid)
    ]


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (3, 2, 1), (2, 2, 2), (5, 3, 7)])
def test_each_lattice_site_has_one_owner(grid: tuple[int, int, int]) -> None:
    options = Options(cells=(4, 5, 6))
    parts = [create_lattice(options, domain) for domain in domains(options, grid)]
    ids = np.concatenate([part[0] for part in parts])
    assert sorted(ids) == list(range(options.num_atoms))
    positions = np.concatenate([part[1] for part in parts])[np.argsort(ids)]
    whole = create_lattice(options, domains(options, (1, 1, 1))[0])
    assert positions.tobytes() == whole[1].tobytes()


def test_velocities_have_no_momentum_and_the_temperature() -> None:
    options = Options(cells=(5, 5, 5), temperature=1.44)
    velocities = create_velocities(options, Team(MPI, MPI.COMM_SELF), np.arange(500))
    assert np.abs(velocities.sum(axis=0)).max() < 1e-11
    assert (velocities**2).sum() / (3 * 500 - 3) == pytest.approx(1.44, rel=1e-14)
    assert len(np.unique(velocities)) == 1500


def test_velocities_do_not_depend_on_the_order_of_ids() -> None:
    options, team = Options(cells=(3, 3, 3)), Team(MPI, MPI.COMM_SELF)
    order = np.random.default_rng(1).permutation(options.num_atoms)
    ascending = create_velocities(options, team, np.arange(options.num_atoms))
    assert create_velocities(options, team, order).tobytes() == ascending[order].tobytes()


# Forces


@pytest.mark.parametrize("cells", ["2 2 2", "4 4 4", "4 5 6", "10 10 10"])
def test_first_pair_energy_is_that_of_lammps(cells: str) -> None:
    _, rows = run_serial(f"--cells {cells} --steps 0")
    assert f"{rows[0].pair_energy:.7f}" == str(FCC_PAIR_ENERGY)
    assert rows[0].temperature == pytest.approx(3.0, rel=1e-14)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--size 10", "-2.2744931 -3.7033504"),  # examples/melt
        ("--size 20 --temperature 1.44", "-4.6134356 -5.0197073"),  # bench/in.lj
    ],
)
def test_first_line_is_that_of_lammps(options: str, line: str) -> None:
    _, rows = run_serial(f"{options} --steps 0")
    assert f"{rows[0].total_energy:.7f} {rows[0].pressure:.7f}" == line


@pytest.mark.parametrize("newton", ["on", "off"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_melted_forces_equal_the_brute_force_sum(size: int, newton: str) -> None:
    simulation, _ = run_serial(f"--size {size} --steps 40 --newton {newton} --shift")
    n = simulation.atoms.num_local
    length = simulation.options.box_lengths[0]
    forces, energy, virial = brute_force(
        simulation.atoms.positions[:n], length, 2.5, simulation.pair.energy_shift
    )
    assert simulation.atoms.forces[:n] == pytest.approx(forces, rel=1e-10, abs=1e-9)
    assert simulation.pair.energy == pytest.approx(energy, rel=1e-12)
    assert simulation.pair.virial == pytest.approx(virial, rel=1e-10, abs=1e-9)
    assert simulation.trigger.num_rebuilds > 0


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_local=st.integers(0, 30),
    num_ghost=st.integers(0, 30),
    num_bins=st.tuples(*[st.integers(1, 5)] * 3),
    cutoff=st.floats(0.05, 3.0),
    newton=st.booleans(),
)
def test_lists_hold_the_near_pairs(
    seed: int,
    num_local: int,
    num_ghost: int,
    num_bins: tuple[int, int, int],
    cutoff: float,
    newton: bool,
) -> None:
    num_all = num_local + num_ghost
    generator = np.random.default_rng(seed)
    positions = generator.uniform(-0.5, 2.5, (num_all, 3))  # some outside the binned [0, 2)
    ids = generator.permutation(num_all).astype(np.int64)
    width = tuple(2.0 / n for n in num_bins)
    grid = kernels.grid(
        low=(0.0, 0.0, 0.0), bin_width=width, num_bins=num_bins, list_cutoff=cutoff, newton=newton
    )
    first = np.zeros(num_local + 1, dtype=np.int64)
    neighbors = np.zeros(0, dtype=np.int32)
    for _ in range(2):
        needed = kernels.build_lists(grid, positions, ids, first=first, neighbors=neighbors)
        if needed > len(neighbors):
            neighbors = np.zeros(needed, dtype=np.int32)
    found = [(i, j) for i in range(num_local) for j in neighbors[first[i] : first[i + 1]]]
    near = ((positions[:, None] - positions[None]) ** 2).sum(axis=2) <= cutoff**2
    expected = {(i, j) for i in range(num_local) for j in range(i + 1, num_local) if near[i, j]}
    across = {(i, j) for i in range(num_local) for j in range(num_local, num_all) if near[i, j]}
    assert len(found) == len(set(found))
    assert {pair for pair in found if pair[1] < num_local} == expected
    found_across = {pair for pair in found if pair[1] >= num_local}
    assert found_across <= across if newton else found_across == across


def test_kernel_refuses_a_list_that_names_no_atom() -> None:
    with pytest.raises(KernelError, match="bad index"):
        kernels.compute_lj(
            np.zeros((2, 3)), np.zeros((2, 3)), first=np.array([0, 1, 1]),
            neighbors=np.array([2], dtype=np.int32), cutoff=2.5, energy_shift=0.0, newton=True,
            with_energy=True,
        )  # fmt: skip


# Time


def test_shift_changes_the_energy_but_not_the_motion() -> None:
    plain, plain_rows = run_serial("--size 4 --steps 60")
    shifted, shifted_rows = run_serial("--size 4 --steps 60 --shift")
    n = plain.atoms.num_local
    assert plain.atoms.ids[:n].tobytes() == shifted.atoms.ids[:n].tobytes()
    assert plain.atoms.positions[:n].tobytes() == shifted.atoms.positions[:n].tobytes()
    assert shifted_rows[-1].pair_energy > plain_rows[-1].pair_energy


@pytest.mark.parametrize("condition", ["--temperature 1.44", "--timestep 0.001"])
def test_shifted_energy_after_1000_steps_is_that_of_the_start(condition: str) -> None:
    """--shift: at LAMMPS' benchmark temperature with dt 0.005, at the melt's 3.0 with dt 0.001."""
    _, rows = run_serial(f"--size 5 --steps 1000 --shift {condition}")
    assert abs(rows[-1].total_energy / rows[0].total_energy - 1) < 1e-4


def test_shifted_energy_of_the_melt_does_not_drift() -> None:
    """--shift, temperature 3.0, dt 0.005: the energy swings by 2e-4 about a mean; that mean, by a
    straight line through 5,000 steps after the melting, moves less than 1e-4 in 1000 steps."""
    _, rows = run_serial("--size 4 --steps 5200 --thermo 20 --shift")
    late = [row for row in rows if row.step >= 200]
    slope = np.polyfit([row.step for row in late], [row.total_energy for row in late], 1)[0]
    assert abs(slope * 1000 / rows[0].total_energy) < 1e-4


def test_energy_error_falls_with_the_square_of_the_time_step() -> None:
    """--shift, temperature 0.5 (a solid, few pairs cross the cut-off): a velocity Verlet mark."""
    spread = []
    for timestep, steps in ((0.008, 100), (0.004, 200), (0.002, 400)):
        _, rows = run_serial(
            f"--size 4 --temperature 0.5 --shift --thermo 1 --steps {steps} --timestep {timestep}"
        )
        spread.append(max(abs(row.total_energy - rows[0].total_energy) for row in rows))
    assert spread[0] / spread[1] == pytest.approx(4, rel=0.2)
    assert spread[1] / spread[2] == pytest.approx(4, rel=0.2)


def test_momentum_stays_zero() -> None:
    simulation, _ = run_serial("--size 4 --steps 200")
    n = simulation.atoms.num_local
    assert np.abs(simulation.atoms.velocities[:n].sum(axis=0)).max() < 1e-10


@pytest.mark.parametrize(
    ("options", "num_rebuilds"), [("--neigh-every 5", 8), ("--neigh-every 10 --neigh-delay 20", 2)]
)
def test_without_check_lists_are_rebuilt_on_the_clock(options: str, num_rebuilds: int) -> None:
    simulation, _ = run_serial(f"--size 4 --steps 40 --temperature 0.1 --no-neigh-check {options}")
    assert simulation.trigger.num_rebuilds == num_rebuilds


# Ranks


@pytest.mark.parametrize(("newton", "rank_counts"), [("on", (3, 8)), ("off", (2, 4))])
def test_rank_counts_agree(
    tmp_path: pathlib.Path, newton: str, rank_counts: tuple[int, ...]
) -> None:
    """Early on, before chaos lifts rounding: 25 steps, with rebuilds and migration."""
    command_line = ["--size", "4", "--steps", "25", "--newton", newton]
    alone = run_to_state("lammps", 1, tmp_path / "1.npz", *command_line)
    assert alone["ids"].tolist() == list(range(256))
    length = Options(cells=(4, 4, 4)).box_lengths[0]
    for num_ranks in rank_counts:
        many = run_to_state("lammps", num_ranks, tmp_path / f"{num_ranks}.npz", *command_line)
        assert many["ids"].tolist() == alone["ids"].tolist()
        moved = many["positions"] - alone["positions"]
        moved -= length * np.round(moved / length)
        assert np.abs(moved).max() < 1e-12
        assert np.abs(many["velocities"] - alone["velocities"]).max() < 1e-11


def test_start_does_not_depend_on_the_rank_count(tmp_path: pathlib.Path) -> None:
    command_line = ["--cells", "4", "5", "6", "--steps", "0"]
    alone = run_to_state("lammps", 1, tmp_path / "1.npz", *command_line)
    assert_same_bits(alone, run_to_state("lammps", 4, tmp_path / "n.npz", *command_line))


def test_repeats_and_fresh_buffers_give_the_same_bits(tmp_path: pathlib.Path) -> None:
    command_line = ["--size", "4", "--steps", "60"]
    reused = run_to_state("lammps", 4, tmp_path / "a.npz", *command_line)
    fresh = run_to_state("lammps", 4, tmp_path / "b.npz", *command_line, "--fresh-buffers")
    assert_same_bits(reused, fresh)


def test_sub_domains_thinner_than_the_cutoff_work(tmp_path: pathlib.Path) -> None:
    """4 ranks in a box of 2 cells: each ghost shell is two sub-domains deep, and holds images."""
    command_line = ["--size", "2", "--steps", "20"]
    alone = run_to_state("lammps", 1, tmp_path / "1.npz", *command_line)
    many = run_to_state("lammps", 4, tmp_path / "4.npz", *command_line)
    assert np.abs(many["velocities"] - alone["velocities"]).max() < 1e-11


def test_log_has_energy_loop_time_and_breakdown() -> None:
    done = run_mpi("lammps", 2, "--size", "4", "--steps", "10")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +0 +3\.0000000 +-6\.7733681 ", done.stdout, re.MULTILINE)
    assert re.search(
        r"^Loop time of \S+ on 2 procs for 10 steps with 256 atoms$", done.stdout, re.MULTILINE
    )
    for section in ("Pair", "Neigh", "Comm", "Output", "Modify", "Other"):
        assert re.search(
            rf"^{section} +\|( +\S+ +\|){{3}} +\d+\.\d\d$", done.stdout, re.MULTILINE
        ), section
