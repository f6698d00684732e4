"""Points of experiments: a stopped one shows its part and goes on where it stopped."""

import json
import os
import pathlib
import signal

import json_schemas
import pytest

from pagewire.cli.experiments import registry
from pagewire.cli.kit import points
from pagewire.cli.kit.interrupts import Interrupted
from pagewire.cli.kit.result import Column, Experiment, Options, Panel, Result, Series
from pagewire.cli.main import main

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
    "words", [["--quick"], ["--repetitions", "3"], ["--platform", "exanest-10g"]]
)
def test_points_of_other_settings_are_not_taken(half, words):
    assert run("--resume", *words) == 0
    assert half.measured == [0, 1, 2, 3]


def test_points_of_other_sources_are_not_taken(half, monkeypatch):
    monkeypatch.setattr(points, "sources", lambda: "another version")
    assert run("--resume") == 0
    assert half.measured == [0, 1, 2, 3]


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
    assert run("--resume", "--platform", "own.toml") == 0
    assert half.measured == ([2, 3] if platform == "same" else [0, 1, 2, 3])


@pytest.mark.parametrize("damage", ["cut", "value", "list"])
def test_damaged_point_is_said_and_run_again(half, capsys, damage):
    path = kept()[0]
    text = path.read_text()
    damaged = {"cut": text[:40], "value": text.replace('"y": 0.', '"y": 1.'), "list": "[]"}
    path.write_text(damaged[damage])
    assert damaged[damage] != text
    assert run("--resume") == 0
    assert len(half.measured) == 3
    err = capsys.readouterr().err
    assert f"{path}' is damaged: its point is run again" in err


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
    assert points.Store(tmp_path, {}).read("one") == 1
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
        def _keep(self, label: str, value: object) -> None:
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
