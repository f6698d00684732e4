"""Where the time of a replay went, by cost: the shares add up to it, a cost that is hidden may grow
until it shows, and curves predict what replays give."""

import contextlib
import io
import json
import shutil
import subprocess

import pytest
from programs import BLOCK_BYTES, HandMade, call, halo, present, receive, send, written

from pagewire.cli.commands import replay as replay_command
from pagewire.cli.main import main
from pagewire.native.settings import ConfigError
from pagewire.replay import records as r
from pagewire.replay import slowed, tolerance
from pagewire.replay.replay import Replay, Settings

NAMES = [r.Name(0, "Recv"), r.Name(1, "Send")]


def asking(trace, *assignments):
    """What answers requests, and the time without any."""

    settings = Settings.of(trace.meta(), assignments)

    def ask(requests):
        return [tolerance.answered(trace, settings, each) for each in requests]

    return ask, ask([()])[0].run_ns


def shares(trace, *assignments, chosen="all", loss=0.01):
    ask, run_ns = asking(trace, *assignments)
    settings = Settings.of(trace.meta(), assignments)
    found = tolerance.shares(slowed.chosen(chosen, settings), settings, run_ns, loss, ask)
    return {each.name: each for each in found}, run_ns, ask


def hidden(compute_ns):
    """A send whose pages are absent, while another pair computes for longer."""
    away = [*call(0, receive(0, BLOCK_BYTES), r.Done(0)), r.End()]
    busy = [r.Compute(compute_ns), *call(0), r.End()]
    sends = [present(0, BLOCK_BYTES), *call(1, send(1, BLOCK_BYTES), r.Done(0)), r.End()]
    return HandMade([*NAMES, *sends], [*NAMES, *away], [*NAMES, *busy])


def test_time_of_compute_alone_is_all_its():
    trace = HandMade([*NAMES, r.Compute(1_000_000), *call(0), r.End()])
    found, run_ns, _ = shares(trace)
    assert set(found) == {"compute", "costs.mpi_call"}
    call_ns = run_ns - 1_000_000
    assert found["compute"].share == pytest.approx(1_000_000 / run_ns)
    assert found["costs.mpi_call"].share == pytest.approx(call_ns / run_ns)
    assert found["compute"].tolerated == pytest.approx(1 + 0.01 * run_ns / 1_000_000, rel=1e-3)
    limit = found["costs.mpi_call"].tolerated
    assert (limit - 1) * call_ns == pytest.approx(0.01 * run_ns, rel=0.03)


@pytest.mark.parametrize("memory", ["part", "pretouch", "bounce", "odp", "pin"])
def test_shares_are_the_whole_time(memory):
    """No time is left out: when all costs are doubled, so is the run."""
    found, _, _ = shares(halo(4, [1, 2], steps=2), f"run.memory={memory}")
    for way in ("up", "down"):
        assert sum(getattr(each, way) for each in found.values()) == pytest.approx(1, abs=2e-3)
    page_in = sum(each.share for each in found.values() if each.group == "page-in")
    assert (page_in > 0.1) == (memory in ("part", "odp", "pretouch")), page_in


def test_hidden_page_in_may_grow_until_it_shows():
    alone, end_ns, _ = shares(hidden(0), "run.memory=part", chosen="costs.page_in_page")
    weight = alone["costs.page_in_page"].share * end_ns / 3000  # pages of the critical path
    slack_ns = 300_000
    found, run_ns, _ = shares(
        hidden(end_ns + slack_ns),
        "run.memory=part",
        "run.timeout=10ms",
        chosen="costs.page_in_page",
    )
    page_in = found["costs.page_in_page"]
    assert page_in.share == 0
    may_ns = (page_in.tolerated - 1) * 3000 * weight
    assert may_ns == pytest.approx(run_ns * 1.01 - end_ns, rel=0.05)


def test_cost_that_plays_no_part_has_no_share():
    found, _, _ = shares(halo(2, [1]), "run.memory=pretouch")
    assert not {"costs.page_in_page", "costs.atomic_poll", "tables.pin_absent"} & set(found)


def test_groups_grow_as_a_whole():
    trace = halo(4, [1], steps=2)
    found, run_ns, ask = shares(trace, "run.memory=part")
    groups = tolerance.group_shares(list(found.values()), run_ns, 0.01, ask)
    for group in groups:
        own = sum(each.share for each in found.values() if each.group == group.name)
        assert group.share == pytest.approx(own)
    assert {"compute", "page-in", "wire", "R5"} <= {each.name for each in groups}


def test_curves_predict_what_replays_give():
    found, run_ns, ask = shares(halo(4, [1], steps=2), "run.memory=part")
    curves = tolerance.curves(list(found.values()), run_ns, ask)
    for group, own in curves.groups.items():
        assert own[tolerance.CURVE.index(1)] == run_ns
        for factor, time_ns in zip(tolerance.CURVE, own, strict=True):
            assert tolerance.predicted(curves.groups, run_ns, {group: factor}) == time_ns
    compute = curves.groups["compute"]
    half = {"compute": 1.5}
    assert tolerance.predicted(curves.groups, run_ns, half) == round((compute[2] + compute[3]) / 2)
    assert len(curves.checks) == 5 and curves.worst < 0.2


def test_transfer_that_is_given_up_is_a_loss():
    study = tolerance.study(1000, 0.5)
    factor = next(study)
    with pytest.raises(StopIteration) as end:
        while True:
            run_ns = round(1000 * factor) if factor < 1.3 else None
            factor = study.send(tolerance.Answer(factor, run_ns))
    assert 1.29 <= end.value.value < 1.3


@pytest.mark.parametrize(
    ("name", "factor", "made"),
    [
        ("compute", 1.5, 1.5),
        ("costs.page_in_page", 2, 2),
        ("costs.walk", 1.0001, 601 / 600),  # by a unit at least
        ("costs.walk", 0.9999, 599 / 600),
        ("costs.link", 2, 2),
        ("tables.copy", 3, 3),
        ("run.timeout", 0.0001, 0.001),  # its least is 1 us
    ],
)
def test_what_is_slowed(name, factor, made):
    settings = Settings.of({})
    other, by = slowed.slowed(settings, name, factor)
    assert by == pytest.approx(made)
    assert other != settings


def test_every_time_is_a_cost():
    names = slowed.names(Settings.of({}))
    assert {"compute", "costs.hop", "costs.link", "costs.smmu_clock", "tables.copy"} < set(names)
    assert "firmware.read_retry" not in names  # it is not set
    assert "costs.zdma_channels" not in names and "costs.tlb_l1_hit" not in names
    assert {slowed.group_of(name) for name in names} - {slowed.OTHER} == set(slowed._GROUPS)


def test_costs_are_settings_of_a_replay():
    trace = HandMade([*NAMES, *call(0), r.End()])
    for text, expected_ns in (("1us", 1000), ("750 ns", 750), ("600", 600)):
        with Replay(trace, Settings.of({}, [f"costs.mpi_call={text}"])) as replay:
            replay.run()
            assert replay.time_ns(0) == expected_ns
    assert Settings.of({}, ["costs.link=10 Gb/s"]).platform.costs.link_mbps == 10_000
    for text, said in (
        ("costs.mpi_cal=1us", "did you mean 'costs.mpi_call'"),
        ("costs.mpi_call=1km", "allowed is one of ns, us, ms, s"),
        ("costs.mpi_call=", "expected a number and a unit"),
        ("costs.link=0", "must be above 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            Settings.of({}, [text])


# -- the command


@pytest.fixture
def file(tmp_path):
    return written(tmp_path / "app.pwt", halo(4, [1], steps=2))


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """What the command prints, and the folder of what it writes."""
    folder = tmp_path_factory.mktemp("studied")
    file = written(folder / "app.pwt", halo(4, [1], steps=2))
    words = ["--memory", "part", "--costs", "all", "--loss", "2", "-j", "2"]
    files = ["--json", str(folder / "c.json"), "--html", str(folder / "c.html")]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(["replay", file, *words, *files]) == 0
    return said.getvalue(), folder


def test_command_shows_and_writes_it(studied):
    said, folder = studied
    assert "loses 2 % at" in said and "costs.page_in_page" in said
    assert max(map(len, said[said.index("\npart ") :].split("PERFORMANCE")[0].splitlines())) <= 80
    costs = json.loads((folder / "c.json").read_text())["replay"]["costs"]
    assert costs["explained"] == pytest.approx(1, abs=2e-3) and costs["loss"] == 0.02
    assert costs["replays"] > len(costs["costs"])
    page = (folder / "c.html").read_text()
    assert page.count('type="range"') == len(costs["curves"]["groups"])


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Debian's package chromium")
def test_browser_predicts_the_run_time(studied, tmp_path):
    _, folder = studied
    page = folder / "c.html"
    run_s = json.loads((folder / "c.json").read_text())["replay"]["costs"]["run_s"]
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*browser, f"--user-data-dir={tmp_path}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert f"<output>{1e3 * run_s:.3f} ms (+0.00 %)</output>" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--costs", "costs.lin"], "did you mean 'costs.link'"),
        (["--costs", "all", "--loss", "0"], "--loss 0.0: allowed is above 0 and up to 100"),
        (["--costs", "all", "--memory", "part,pin"], "studies one row, and there are 2"),
        (["--costs", "all", "--verify"], "with the recorded settings alone"),
        (["--sweep", "costs.lnk=1"], "did you mean 'costs.link'"),
    ],
)
def test_what_is_refused_before_anything_is_replayed(file, words, said, capsys, monkeypatch):
    monkeypatch.setattr(replay_command, "replay_file", lambda *_, **__: pytest.fail("replayed"))
    assert main(["replay", file, *words]) == 2
    assert said in capsys.readouterr().err


def test_costs_are_swept(file, tmp_path):
    words = ["--memory", "part", "--sweep", "costs.page_in_page=3us,300us"]
    assert main(["replay", file, *words, "--json", str(tmp_path / "c.json")]) == 0
    first, second = json.loads((tmp_path / "c.json").read_text())["entries"]
    assert second["sweep"] == {"costs.page_in_page": "300us"}
    assert second["virtual_time_s"] - first["virtual_time_s"] >= 297e-6
