"""Points of experiments: a stopped one shows its part and goes on where it stopped."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile

import json_schemas
import pytest
from cli_runs import PAGEWIRE

from pagewire.cli.experiments import registry
from pagewire.cli.kit import points, progress
from pagewire.cli.kit.interrupts import Interrupted
from pagewire.cli.kit.result import Column, Experiment, Options, Panel, Result, Series
from pagewire.cli.main import main
from pagewire.native.settings import ConfigError

NUM_POINTS = 4


class Sums:
    """An experiment of four points, which a signal may stop at one of them."""

    def __init__(self) -> None:
        self.measured: list[int] = []
        self.stops_at = -1
        self.drawn: list[tuple[str, list[str]]] = []

    def measure(self, idx: int) -> dict[str, float]:
        if idx == self.stops_at:
            os.kill(os.getpid(), signal.SIGINT)
        self.measured.append(idx)
        return {"x": idx, "y": idx * 0.1}

    def run(self, options: Options) -> Result:
        places = {f"point {idx}": idx for idx in range(NUM_POINTS)}
        rows = [
            options.points.take(label, lambda label=label: self.measure(places[label]))
            for label in options.points.plan(places)
        ]
        return Result(
            columns=[Column("x", "x"), Column("y", "y")],
            rows=rows,
            panels=[Panel("x", "y", [Series.of("line", rows, "x", "y")])],
        )


@pytest.fixture
def sums(monkeypatch, tmp_path):
    made = Sums()
    # Pictures are another test's, and take a second each.
    monkeypatch.setattr(
        "pagewire.cli.kit.plots.draw",
        lambda title, panels, paths: made.drawn.append((title, [path.name for path in paths])),
    )
    experiment = Experiment("sums", "of points", "nowhere", made.run)
    monkeypatch.setitem(registry.EXPERIMENTS, "sums", experiment)
    monkeypatch.chdir(tmp_path)
    return made


def run(*words: str) -> int:
    return main(["experiment", "sums", "--cache", "kept", "--output", "out", *words])


def kept() -> list[pathlib.Path]:
    return sorted(pathlib.Path("kept").rglob("*.json"))


def test_resume_measures_what_is_missing_and_nothing_else(sums, capsys):
    sums.stops_at = 2
    assert run() == 130
    assert sums.measured == [0, 1] and len(kept()) == 2
    err = capsys.readouterr().err
    assert "sums is incomplete, 2 of 4 points; missing: point 2; point 3" in err
    assert "--resume goes on" in err
    part = json.loads(pathlib.Path("out/sums.incomplete.json").read_text())
    json_schemas.check("experiment", part)
    assert part["missing_points"] == ["point 2", "point 3"] and len(part["rows"]) == 2
    assert "# incomplete: 2 missing" in pathlib.Path("out/sums.incomplete.csv").read_text()
    names = ["sums.incomplete.png", "sums.incomplete.svg"]
    assert sums.drawn == [("sums: of points (INCOMPLETE: 2 points missing)", names)]
    assert not pathlib.Path("out/sums.json").exists()

    sums.stops_at = -1
    assert run("--resume") == 0
    assert sums.measured == [0, 1, 2, 3]
    whole = json.loads(pathlib.Path("out/sums.json").read_text())
    assert [row["y"] for row in whole["rows"]] == [idx * 0.1 for idx in range(NUM_POINTS)]
    assert "missing_points" not in whole
    assert not list(pathlib.Path("out").glob("*.incomplete.*"))
    assert kept() == [], "a complete experiment leaves nothing to go on with"
    err = capsys.readouterr().err
    assert "2 of 4 points kept" in err
    lines = [line for line in err.splitlines() if " of 4: " in line]
    assert lines == [f"pagewire: run {idx + 1} of 4: sums: point {idx}" for idx in (2, 3)]


@pytest.fixture
def half(sums, capsys):
    """It was stopped behind its second point."""
    sums.stops_at = 2
    assert run() == 130
    sums.stops_at = -1
    sums.measured.clear()
    capsys.readouterr()
    return sums


def test_without_resume_everything_is_measured(half):
    assert run() == 0
    assert half.measured == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("words", "differs"),
    [
        (["--quick"], "sizes was default and is quick"),
        (["--repetitions", "3"], "repetitions was 5 and is 3"),
        (["--platform", "exanest-10g"], "run.platform was exanest-qfdb and is exanest-10g"),
    ],
)
def test_going_on_with_other_settings_is_refused_and_says_which_differ(
    half, words, differs, capsys
):
    assert run("--resume", *words) == 2
    err = capsys.readouterr().err
    assert "the 2 points kept in 'kept/sums' are of other settings: " in err and differs in err
    assert half.measured == []
    assert run(*words) == 0, "anew"
    assert half.measured == [0, 1, 2, 3]


def test_going_on_with_other_sources_is_refused(half, monkeypatch, capsys):
    monkeypatch.setattr(points, "sources", lambda: "another version")
    assert run("--resume") == 2
    assert "settings: pagewire's own sources changed since. Make" in capsys.readouterr().err


def test_points_of_these_settings_are_found_among_others(half):
    half.stops_at = 1
    assert run("--quick") == 130
    half.stops_at = -1
    half.measured.clear()
    assert run("--resume") == 0
    assert half.measured == [2, 3]


@pytest.mark.parametrize("platform", ["changed", "same"])
def test_points_of_another_platform_file_are_not_taken(half, platform):
    own = pathlib.Path("own.toml")
    source = pathlib.Path(points.__file__).parents[2] / "run/settings/platforms"
    (text,) = [path.read_text() for path in source.glob("exanest-qfdb.toml")]
    own.write_text(text)
    half.stops_at = 2
    assert run("--platform", "own.toml") == 130
    half.stops_at = -1
    half.measured.clear()
    if platform == "changed":
        own.write_text(text + "\n# another\n")
    is_same = platform == "same"
    assert run("--resume", "--platform", "own.toml") == (0 if is_same else 2)
    assert half.measured == ([2, 3] if is_same else [])


@pytest.mark.parametrize("damage", ["cut", "value", "setting", "list"])
def test_damaged_point_ends_the_command_and_is_measured_again_when_it_is_gone(half, capsys, damage):
    path = kept()[0]
    text = path.read_text()
    damaged = {
        "cut": text[:40],
        "value": text.replace('"y": 0.', '"y": 1.'),
        "setting": text.replace('"sizes": "default"', '"sizes": "quick"'),
        "list": "[]",
    }
    path.write_text(damaged[damage])
    assert damaged[damage] != text
    assert run("--resume") == 2
    assert f"{path}' is damaged; delete it, and its point is measured" in capsys.readouterr().err
    assert half.measured == []
    path.unlink()
    assert run("--resume") == 0
    assert len(half.measured) == 3


def test_experiments_that_were_complete_when_a_later_one_was_stopped_are_not_repeated(
    sums, monkeypatch
):
    more = Sums()
    monkeypatch.setitem(
        registry.EXPERIMENTS, "more", Experiment("more", "of points", "nowhere", more.run)
    )
    more.stops_at = 1
    words = ["experiment", "sums", "more", "--cache", "kept", "--output", "out"]
    assert main(words) == 130
    more.stops_at = -1
    assert main([*words, "--resume"]) == 0
    assert sums.measured == more.measured == [0, 1, 2, 3]
    assert kept() == []


def test_experiments_that_measure_the_same_share_their_points(sums, monkeypatch):
    for name in ("sums", "again"):
        shared = Experiment(name, "of points", "nowhere", sums.run, points_of="both")
        monkeypatch.setitem(registry.EXPERIMENTS, name, shared)
    sums.stops_at = 3
    assert run() == 130
    sums.stops_at = -1
    words = ["experiment", "again", "--cache", "kept", "--output", "out", "--resume"]
    assert main(words) == 0
    assert sums.measured == [0, 1, 2, 3]


def test_estimate_goes_by_the_work_that_is_left_also_of_what_was_kept(tmp_path, monkeypatch):
    now_s = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)

    def measure(seconds: float) -> str:
        nonlocal now_s
        now_s += seconds
        return "done"

    for resumes in (False, True):
        display = progress.Display(0, quiet=True)
        taken = points.Points(points.Store(tmp_path, {}), resumes=resumes, display=display)
        taken.plan(["one", "two"], work=1.0)
        taken.plan(["sixteen"], work=8.0)
        taken.take("one", lambda: measure(30.0))
        taken.take("two", lambda: measure(50.0))
        assert display.numbers == ("0:00 of ~5:20" if resumes else "1:20 of ~6:40")
        assert now_s == 80.0


def test_files_of_a_point_are_kept_whole_or_not_at_all(tmp_path):
    def write(folder: str) -> None:
        written.append(folder)
        pathlib.Path(folder, "compute.0").write_bytes(b"durations")

    def take(*, resumes: bool) -> pathlib.Path:
        taken = points.Points(points.Store(tmp_path / "kept", {}), resumes=resumes)
        return pathlib.Path(taken.take_files("recording", write, tempfile.mkdtemp))

    written: list[str] = []
    first = take(resumes=False)
    assert (take(resumes=True) / "compute.0").read_bytes() == b"durations"
    assert len(written) == 1 and not pathlib.Path(written[0]).exists()
    (first / "compute.0").write_bytes(b"cut")
    with pytest.raises(ConfigError, match=f"'{first}' is damaged; delete it"):
        take(resumes=True)
    unkept = points.Points()
    assert pathlib.Path(unkept.take_files("recording", write, lambda: str(tmp_path))).is_dir()


def test_resume_that_cannot_keep_its_promise_is_refused(sums, capsys):
    pathlib.Path("file").touch()
    assert run("--resume", "--cache", "file") == 2
    assert "--cache" in capsys.readouterr().err
    assert run("--resume", "--trace", "out.pftrace") == 2
    assert "no timeline" in capsys.readouterr().err


def test_old_points_are_removed(tmp_path):
    store = points.Store(tmp_path, {})
    store.write("one", 1)
    (path,) = tmp_path.glob("*.json")
    assert points.Store(tmp_path, {}).read("one") == (1, 0.0)
    os.utime(path, (0, 0))
    assert points.Store(tmp_path, {}).read("one") is None


IN_PROCESS = [
    *("part-fig9", "part-fig11", "part-fig12", "part-fig13", "part-fig14", "part-fig15"),
    *("psi-fig4.2", "psi-fig4.6", "psi-fig4.7", "r5-fig5.9", "mini-fig4.1", "mini-fig4.2"),
    *("mini-table4.5", "mini-table4.6"),
]


@pytest.mark.parametrize("name", IN_PROCESS)
def test_table_is_made_of_the_first_point_alone(name):

    class First(points.Points):
        def _keep(self, label: str, value: object, seconds: float) -> None:
            if self.num_finished:
                raise Interrupted(signal.SIGINT)

    experiment = registry.EXPERIMENTS[name]
    own = experiment.options(Options(environ={}, quick=True, repetitions=1, points=First()))
    with pytest.raises(Interrupted):
        experiment.run(own)
    own.points.stop()
    result = experiment.run(own)
    assert result.rows and result.panels
    assert all(result.columns[0].key in row for row in result.rows)


def test_tables_that_are_killed_go_on_and_end_on_record(tmp_path):
    """By SIGKILL, which nobody can catch, while a run of the second table is under way."""
    words = [*PAGEWIRE, "experiment", "part-table2", "part-table3", "--quick", "--repetitions", "1"]
    words += ["--record", "--cache", "kept", "--output", "out"]
    killed = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    for line in killed.stderr:
        if "run 2 of 4: experiment 2 of 2" in line:
            killed.kill()
    killed.wait()
    num_kept = len(list((tmp_path / "kept" / "part-tables").glob("*.json")))
    # all runs of the first table and one of the second; more where this test's host held it up
    assert 5 <= num_kept < 8
    done = subprocess.run(
        [*words, "--resume"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "part-table2 took" in done.stderr and "4 of 4 points kept" in done.stderr
    assert f"{num_kept - 4} of 4 points kept" in done.stderr
    assert not list((tmp_path / "kept").rglob("*.json"))
    for name in ("part-table2", "part-table3"):
        document = json.loads((tmp_path / "out" / f"{name}.json").read_text())
        json_schemas.check("experiment", document)
        assert document["recorded"]["command"].endswith("--resume")
        assert {"name", "kernel", "CPU"} <= document["recorded"]["host"].keys()
    page = (tmp_path / "out" / "part-tables.md").read_text()
    assert page.index("## part-table2: LAMMPS") < page.index("## part-table3: HPL")
    assert document["recorded"]["date"] in page and "sizes quick, repetitions 1;" in page
