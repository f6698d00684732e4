"""LAMMPS itself over the provider: every digit of its thermo output, and the bundled app's
energies."""

import functools
import pathlib
import re
import subprocess
import sys

import pytest
from cli_runs import ran

from pagewire.cli.kit import lammps
from pagewire.cli.launch import fabric, launch
from pagewire.native.settings import ConfigError

try:
    LAMMPS = lammps.find()
except ConfigError as error:
    pytest.skip(str(error), allow_module_level=True)
if fabric.missing():
    pytest.skip("pagewire was built without libfabric's headers", allow_module_level=True)

NUM_CELLS, NUM_STEPS = 8, 30

EAM = f"""\
# Copper by the embedded-atom potential that comes with LAMMPS
units           metal
atom_style      atomic
lattice         fcc 3.615
region          box block 0 6 0 6 0 6
create_box      1 box
create_atoms    1 box
pair_style      eam
pair_coeff      1 1 Cu_u3.eam
velocity        all create 1600.0 376847 loop geom
neighbor        1.0 bin
neigh_modify    every 1 delay 5 check yes
fix             1 all nve
timestep        0.005
thermo          10
run             {NUM_STEPS}
"""


def words_of(case: str, folder: pathlib.Path) -> tuple[str, ...]:
    if case == "melt":
        return lammps.melt_words(folder, NUM_CELLS, NUM_STEPS)
    if case == "water":
        return lammps.water_words(folder, 6, NUM_STEPS)
    path = folder / "eam.in"
    path.write_text(EAM)
    return ("-in", str(path), "-log", "none")


def thermo(output: str) -> list[str]:
    """The lines between the head of the table and the loop's time."""
    found = re.search(r"^ *Step .*?(?=^Loop time)", output, flags=re.MULTILINE | re.DOTALL)
    assert found, output
    return found.group().splitlines()


@functools.cache
def plain(case: str, num_ranks: int, folder: pathlib.Path) -> list[str]:
    library_path = {"LD_LIBRARY_PATH": str(pathlib.Path(sys.prefix, "lib"))}
    potentials = {"LAMMPS_POTENTIALS": str(pathlib.Path(LAMMPS).parent / "share/lammps/potentials")}
    done = subprocess.run(
        [launch.find_mpiexec(), "-n", str(num_ranks), LAMMPS, *words_of(case, folder)],
        env=launch.rank_environment({**library_path, **potentials}),
        capture_output=True, text=True, timeout=120, check=False, restore_signals=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return thermo(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("lammps")


@functools.cache
def over_the_provider(
    case: str, num_ranks: int, folder: pathlib.Path, *options: str
) -> subprocess.CompletedProcess[str]:
    potentials = str(pathlib.Path(LAMMPS).parent / "share/lammps/potentials")
    words = ("launch", "-n", str(num_ranks), *options, "--", LAMMPS, *words_of(case, folder))
    return ran(*words, environ={"LAMMPS_POTENTIALS": potentials})


@pytest.mark.parametrize(
    ("case", "num_ranks", "memory"),
    [("melt", 2, "part"), ("eam", 4, "pretouch"), ("water", 2, "part")],
)
def test_thermo_output_is_the_plain_runs_digit_for_digit(case, num_ranks, memory, folder):
    done = over_the_provider(case, num_ranks, folder, "--quiet", "--memory", memory)
    lines = thermo(done.stdout)
    assert len(lines) == 1 + 1 + NUM_STEPS // 10
    assert lines == plain(case, num_ranks, folder)


def test_energies_are_the_bundled_apps(folder):
    """Lattice, temperature and potential are the same, random velocities are not: the first line
    agrees to the digits that both print, the total energy afterwards as far as the step conserves
    it."""
    words = ("--size", str(NUM_CELLS), "--steps", str(NUM_STEPS))
    done = ran("launch", "-n", "2", "--quiet", "lammps", *words)
    of_app = [[float(word) for word in line.split()] for line in thermo(done.stdout)[1:]]
    head, *lines = thermo(
        over_the_provider("melt", 2, folder, "--quiet", "--memory", "part").stdout
    )
    columns = [head.split().index(name) for name in ("Step", "Temp", "E_pair", "TotEng", "Press")]
    of_lammps = [[float(line.split()[i]) for i in columns] for line in lines]
    assert of_lammps[0] == pytest.approx(of_app[0], abs=1e-7)
    assert [row[0] for row in of_lammps] == [row[0] for row in of_app]
    for theirs, ours in zip(of_lammps, of_app, strict=True):
        assert theirs[3] == pytest.approx(ours[3], abs=2e-3)


def test_water_is_rigid_and_its_electrostatics_are_long_range(folder):
    done = over_the_provider("water", 2, folder, "--quiet", "--memory", "part")
    assert "216 = # of frozen angles" in done.stdout
    assert re.search(r"^PPPM\S* initialization", done.stdout, flags=re.MULTILINE)
    assert f"2 MPI tasks x {lammps.NUM_THREADS} OpenMP threads" in done.stdout
    energies = [float(line.split()[4]) for line in thermo(done.stdout)[1:]]
    assert all(-130 < energy / 648 < 0 for energy in energies), "kcal/mol an atom"


def test_the_launchers_own_command_of_the_wheel_runs_too(folder):
    """bin/lmp is a Python program that starts the real one as its child."""
    script = pathlib.Path(sys.prefix, "bin", "lmp")
    words = words_of("melt", folder)
    done = ran("launch", "-n", "2", "--quiet", "--", str(script), *words)
    assert thermo(done.stdout) == plain("melt", 2, folder)
