"""Programs of Debian's packages over the provider, by the MPI that pagewire chooses for each: what
they compute is what they compute without it."""

import gzip
import pathlib
import re
import sys

import pytest
from cli_runs import BIN, command, ran, reported, started
from debian import LIBRARIES, environment, unpacked
from native_programs import needs_provider

from pagewire.cli.launch import mpi_choice

pytestmark = [
    needs_provider,
    pytest.mark.skipif(not (BIN / "mpiexec").exists(), reason="needs the wheel `mpich`"),
]

WATER = """
start water
geometry
 O 0.0 0.0 0.1197
 H 0.0 0.7616 -0.4786
 H 0.0 -0.7616 -0.4786
end
basis
 * library 6-31g
end
task scf gradient
"""

SILICON = """
&control
 calculation='scf', pseudo_dir='.', outdir='./out', tprnfor=.true.
/
&system
 ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=12.0
/
&electrons
 conv_thr=1.0d-6
/
ATOMIC_SPECIES
 Si 28.086 Si.UPF
ATOMIC_POSITIONS alat
 Si 0.0 0.0 0.0
 Si 0.26 0.25 0.25
K_POINTS automatic
 1 1 1 1 1 1
"""


def distribution() -> pathlib.Path:
    """All their packages, so that what several depend on is unpacked once."""
    programs = ("scalapack-mpi-test", "nwchem-mpich", "quantum-espresso")
    return unpacked("programs", *programs, "libmpich12", "openmpi-bin", "libgfortran5")


def of_mpich(root: pathlib.Path) -> dict[str, str]:
    """So that MPICH of this Python runs Debian's programs without the provider."""
    links = root / "links"
    links.mkdir(exist_ok=True)
    link = links / "libmpich.so.12"
    if not link.exists():
        link.symlink_to(pathlib.Path(sys.prefix, "lib", "libmpi.so.12"))
    own = environment(root)
    folders = f"{links}:{sys.prefix}/lib/mpich:{own['LD_LIBRARY_PATH']}"
    return {**own, "LD_LIBRARY_PATH": folders, "MPIR_CVAR_CH4_NETMOD": "ofi"}


def test_netpipe_of_debians_mpich_runs_where_that_mpich_is_not(tmp_path):
    program = str(unpacked("netpipe", "netpipe-mpich2", alone=True) / "usr/bin/NPmpich2")
    words = ["--", program, "-u", "4096", "-n", "5"]
    done = ran("launch", "-n", "2", "--json", str(tmp_path / "report"), *words, cwd=tmp_path)
    why = "whose ABI libmpich.so.12 has, which 'NPmpich2' loads"
    assert f"pagewire: MPI: MPICH ({BIN}/mpiexec), {why}\n" in done.stderr
    assert re.search(r"MPI calls, .*Recv [1-9],?\d+", done.stdout)


@pytest.mark.parametrize("kind", ["mpich", "openmpi"])
def test_tests_of_scalapack_pass(kind, tmp_path):
    """In Fortran, by the Fortran library of the distribution's MPI. Without the estimate of the
    condition: PDLACON of 2.2.1 compares with a variable that its callers do not set, so ranks may
    part there by what lies on their stacks (mended in 2.2.3)."""
    root = distribution()
    mpiexec = {"mpich": BIN / "mpiexec", "openmpi": root / "usr/bin/mpiexec.openmpi"}[kind]
    folder = root / LIBRARIES / "scalapack" / f"{kind}-tests"
    given = (folder / "LU.dat").read_text()
    with_estimate = re.compile(r"^T(?=\s.*Cond\. Est\.)", flags=re.MULTILINE)
    assert len(with_estimate.findall(given)) == 1
    (tmp_path / "LU.dat").write_text(with_estimate.sub("F", given))
    program = str(folder / "xdlu")
    done = ran("launch", "-n", "4", "--", program, cwd=tmp_path, environ=environment(root))
    assert f"{mpi_choice.TITLES[kind]} ({mpiexec}), " in done.stderr
    assert re.search(r"[1-9]\d* tests completed and passed residual checks", done.stdout)
    assert " 0 tests completed and failed residual checks" in done.stdout


def numbers_apart(text: str) -> tuple[list[str], list[float]]:
    """Its words, and its decimal numbers."""
    number = r"-?\d+\.\d+"
    return re.sub(number, "#", text).split(), [float(each) for each in re.findall(number, text)]


def assert_same(pattern: str, plain: str, said: str, within: float) -> str:
    """The same words, and numbers of which the last digit printed may differ, as the sign of a zero
    may: sums depend on the order in which ranks took their tasks. Returns the plain run's text."""
    left, right = (
        "\n".join(re.findall(pattern, text, flags=re.MULTILINE)) for text in (plain, said)
    )
    (words, numbers), (other_words, others) = numbers_apart(left), numbers_apart(right)
    same = words == other_words and numbers == pytest.approx(others, rel=0, abs=within)
    assert numbers and same, f"plain:\n{left or plain}\nover the NI:\n{right or said}"
    return left


def test_nwchem_has_the_energy_and_the_gradients_that_it_has_without_the_ni(tmp_path):
    """In Fortran, with windows. It is compared with MPICH of this Python, as Debian's, which is
    built for UCX, does not converge on every host."""
    root = distribution()
    words = [str(root / "usr/bin/nwchem.mpich"), "water.nw"]
    basis = {"NWCHEM_BASIS_LIBRARY": f"{root}/usr/share/nwchem/libraries/"}
    plain_folder, folder = (tmp_path / name for name in ("plain", "ni"))
    for each in (plain_folder, folder):
        each.mkdir()
        (each / "water.nw").write_text(WATER)
    mpiexec = [str(BIN / "mpiexec"), "-n", "2"]
    environ = {**of_mpich(root), **basis}
    plain = started([*mpiexec, *words], cwd=plain_folder, environ=environ, code=0).stdout
    environ = {**environment(root), **basis}
    said, document = reported(folder, 2, "--", *words, cwd=folder, environ=environ)
    assert document["totals"]["rdma_bytes"] > 1 << 20
    energy = assert_same(r"Total SCF energy = .*", plain, said, 1.5e-12)
    assert "-75.98330132897" in energy
    # Of three atoms: number, element, coordinates and gradients.
    gradients = assert_same(r"^ +[123] [OH] {3}(?: +-?\d+\.\d{6}){6}$", plain, said, 1.5e-6)
    assert len(gradients.splitlines()) == 3


def test_quantum_espresso_has_the_energy_that_it_has_without_the_ni(tmp_path):
    """In Fortran, by Debian's Open MPI: the wheel's has no place for its Fortran library."""
    root = distribution()
    data = unpacked("espresso-data", "quantum-espresso-data", alone=True)
    (atom,) = data.rglob("EPW/sic/pp/Si.pz-vbc.UPF.gz")
    (tmp_path / "Si.UPF").write_bytes(gzip.decompress(atom.read_bytes()))
    (tmp_path / "si.in").write_text(SILICON)
    mpiexec = str(root / "usr/bin/mpiexec.openmpi")
    words = [str(root / "usr/bin/pw.x"), "-in", "si.in"]
    how = {"cwd": tmp_path, "environ": environment(root)}
    plain = started([mpiexec, "--oversubscribe", "-n", "2", *words], code=0, **how).stdout
    said, document = reported(tmp_path, 2, "--", *words, **how)
    assert_same(r"^!.*Ry$", plain, said, 1.5e-8)
    assert_same(r"Total force = .*", plain, said, 1.5e-6)
    assert document["totals"]["rdma_bytes"] > 1 << 20
    assert document["settings"]["run.mpi"] == mpiexec
    done = command("launch", "-n", "2", "--mpi", "openmpi", "--", *words, code=2, **how)
    assert "does not carry it: " in done.stderr or "there is no Open MPI" in done.stderr
