"""`pagewire replay`: rows, files, exit codes."""

import json
import pathlib
import subprocess
import sys

import json_schemas
import pytest
from programs import OPS, HandMade, halo, written

from pagewire.cli.main import main
from pagewire.driver.policy import PageFault, PageInPolicy
from pagewire.replay import records as r
from pagewire.replay.replay import Replay, Settings, replay_file

LEAVE = r.encode(r.Leave())


@pytest.fixture
def trace() -> HandMade:
    made = halo(4, [1], steps=2)
    made._meta |= {"program": ["halo", "4"], "settings": {"run.memory": "part"}}
    return made


@pytest.fixture
def file(tmp_path, trace) -> str:
    return written(tmp_path / "halo.pwt", trace)


def test_recorded_settings_make_one_row(file, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert main(["replay", file, "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "halo 4, 4 ranks, replayed" in shown
    assert "PERFORMANCE: ranks 4, records " in shown
    document = json.loads(out.read_text())
    json_schemas.check("compare", document)
    assert [each["name"] for each in document["entries"]] == ["part/page"]
    assert document["replay"]["performance"]["ranks"] == 4


def test_rows_are_those_of_compare_and_equal_over_processes(file, tmp_path, capsys):
    documents = []
    words = ["--memory", "pretouch,part", "--policy", "page,all", "--set", "run.timeout=1ms"]
    for number in ("1", "2"):
        out = tmp_path / f"{number}.json"
        assert main(["replay", file, *words, "-j", number, "--json", str(out)]) == 0
        documents.append(json.loads(out.read_text()))
    capsys.readouterr()
    one, two = (
        [(each["name"], each["virtual_time_s"]) for each in d["entries"]] for d in documents
    )
    assert one == two
    assert [name for name, _ in one] == ["pretouch", "part/page", "part/all"]
    assert documents[0]["settings"]["run.timeout"] == "1ms"
    assert documents[0]["entries"][0]["slowdown"] == 0


def windows(tmp_path) -> str:
    """Rank 0 puts to pages that rank 1 touches while it computes."""
    meet, put = r.Meet(1, 2), r.Put(1, 8192, 0, 0, 1, 0)
    touched, sent = r.Pages(1, 0, 2, 1), r.Pages(0, 0, 2, 1)
    names = [r.Name(0, "Barrier")]
    behind = [r.Compute(2_000_000), r.Call(0), r.Leave(), r.End()]
    origin = [*names, sent, r.Call(0), meet, put, r.Done(0), r.Leave(), *behind]
    owner = [r.Call(0), r.Register(8192, 1, 0), meet, r.Leave(), r.Compute(1_000_000), r.Call(0),
             touched, r.Leave(), r.End()]  # fmt: skip
    made = HandMade(origin, [*names, *owner], settings={"run.memory": "part"})
    return written(tmp_path / "windows.pwt", made)


def test_touch_says_the_time_of_each_way_where_they_differ(file, tmp_path, capsys):
    out = tmp_path / "out.json"
    words = ["--memory", "part,ideal", "--touch", "end", "--json", str(out)]
    assert main(["replay", windows(tmp_path), *words]) == 0
    document = json.loads(out.read_text())
    json_schemas.check("compare", document)
    times = document["replay"]["touch"]["virtual_time_s"]
    assert list(times) == ["part/page", "ideal"]
    ended_s = {each["name"]: each["virtual_time_s"] for each in document["entries"]}
    assert {name: each["end"] for name, each in times.items()} == ended_s
    assert times["part/page"]["start"] < times["part/page"]["end"]
    assert len(set(times["ideal"].values())) == 1
    shown = capsys.readouterr().out
    assert f"touch: part/page: start {times['part/page']['start']:.9f} s, spread " in shown
    assert "touch: ideal" not in shown
    assert main(["replay", file, "--touch", "spread"]) == 0
    assert "touch: when pages are touched changes no row's time\n" in capsys.readouterr().out
    assert main(["replay", file, "--touch", "late"]) == 2
    assert "--touch 'late': allowed is one of start, spread, end" in capsys.readouterr().err


class Broken(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        raise ZeroDivisionError("by hand")


def test_class_in_python_that_fails_ends_the_replay(file, capsys):
    assert main(["replay", file, "--policy", f"{__name__}:Broken"]) == 1
    assert "by hand" in capsys.readouterr().err


def test_every_strategy_replays_or_says_why_not(file, tmp_path, capsys):
    out = tmp_path / "all.csv"
    assert main(["replay", file, "--memory", "all", "--csv", str(out)]) == 0
    capsys.readouterr()
    assert {"ideal", "odp", "pin", "mini"} <= {line.split(",")[0] for line in out.open()}


def replayed_times(trace: HandMade) -> dict[int, list[int]]:
    """What a replay has in place of recorded times, found one difference after the other."""
    times = {
        rank: [0] * (sum(each == LEAVE for each in trace.chunks[rank, OPS]) + 1)
        for rank in range(trace.num_ranks)
    }
    while True:
        for rank, each in times.items():
            trace.add_times(rank, *each)
        with Replay(trace, Settings.of(trace.meta()), verify=True) as replay:
            found = replay.run()
        if found is None:
            return times
        times[found.rank][found.call] = found.replayed_ns


def test_verify(tmp_path, trace, capsys):
    times = replayed_times(trace)
    assert main(["replay", written(tmp_path / "same.pwt", trace), "--verify"]) == 0
    assert "verified: all 44 recorded times of 4 ranks" in capsys.readouterr().out
    times[1][-2] += 7
    trace.add_times(1, *times[1])
    assert main(["replay", written(tmp_path / "other.pwt", trace), "--verify"]) == 1
    said = capsys.readouterr().err
    assert (
        f"rank 1 differs first at the end of call {len(times[1]) - 2} (Waitall): recorded" in said
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--verify"], 2, "rank 0 has no recorded times"),
        (["--verify", "--memory", "pin"], 2, "with the recorded settings alone"),
        (["--memory", "pim"], 2, "run.memory = 'pim'"),
        (["--set", "run.timeouts=1ms"], 2, "did you mean 'run.timeout'"),
        (["-j", "0"], 2, "-j 0: allowed is 1 to 1024"),
        (["--matching", "x"], 2, "--matching 'x': allowed is one of recorded, free"),
        (["--backend", "x"], 2, "--backend 'x': allowed is one of engine, loggops"),
    ],
)
def test_what_is_refused(file, words, code, said, capsys):
    assert main(["replay", file, *words]) == code
    assert said in capsys.readouterr().err


def test_trace_that_stands_still_fails(tmp_path, trace, capsys):
    trace.chunks[2, OPS] = [*trace.chunks[2, OPS][:20], r.encode(r.End())]
    assert main(["replay", written(tmp_path / "ended.pwt", trace)]) == 1
    said = capsys.readouterr().err
    assert "nothing can go on: 2 of 4 ranks wait" in said
    assert "rank 1 in Waitall" in said


def test_trace_that_a_kill_has_cut_off_is_replayed_as_far_as_it_goes(tmp_path, trace, capsys):
    trace.chunks[2, OPS] = trace.chunks[2, OPS][:20]
    assert main(["replay", written(tmp_path / "cut.pwt", trace)]) == 0
    shown = capsys.readouterr()
    assert "PERFORMANCE" in shown.out
    assert "the recording of 1 ranks was cut, the first is rank 2" in shown.err
    assert "rank 1 in Waitall" in shown.err


def test_loggops_says_what_the_usual_model_does(tmp_path, capsys):
    goal = tmp_path / "one.goal"
    goal.write_text(
        "num_ranks 2\nrank 0 {\nl1: send 1001b to 1\n}\nrank 1 {\nl1: recv 1001b from 0\n}\n"
    )
    words = ["-L", "100", "-o", "10", "-g", "5", "-G", "2", "-O", "0", "-S", "5000"]
    assert main(["replay", str(goal), "--backend", "loggops", *words]) == 0
    # o, L, and the CPU of the receiver waits for the bytes: o + L + o + 1000 G
    assert "loggops: virtual time 0.000002 s" in capsys.readouterr().out


@pytest.fixture
def counted(monkeypatch):
    """Replays that were done."""
    done, real = [], replay_file

    def replay(path, assignments, **options):
        done.append(list(assignments))
        return real(path, assignments, **options)

    monkeypatch.setattr("pagewire.cli.commands.replay.replay_file", replay)
    return done


def figures(path) -> list[dict]:
    """Entries of a result but for what this process took."""
    here = ("wall_time_s", "peak_rss_bytes")
    entries = json.loads(path.read_text())["entries"]
    return [{key: each[key] for key in each if key not in here} for each in entries]


def test_rows_that_were_kept_are_not_replayed_again(file, tmp_path, counted):
    words = ["replay", file, "--keep", str(tmp_path / "kept"), "--json", str(tmp_path / "r.json")]
    rows = [*words, "--memory", "part,pretouch"]
    assert main(rows) == 0 and len(counted) == 2
    first = figures(tmp_path / "r.json")
    assert main(rows) == 0 and len(counted) == 2
    assert figures(tmp_path / "r.json") == first
    # another row, another cost, another trace: replayed
    assert main([*words, "--memory", "part,pin"]) == 0 and len(counted) == 3
    assert main([*words, "--memory", "part", "--set", "costs.hop=1us"]) == 0 and len(counted) == 4
    other = written(tmp_path / "other.pwt", halo(4, [1], steps=3))
    assert main(["replay", other, *words[2:], "--memory", "part"]) == 0 and len(counted) == 5
    # what is damaged as well
    for each in (tmp_path / "kept").glob("*.json"):
        each.write_text("{}")
    assert main(rows) == 0 and len(counted) == 7
    assert figures(tmp_path / "r.json") == first


class FirstOnly(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return range(fault.page, fault.page + 1)


def test_class_of_the_users_is_always_asked(file, tmp_path, counted):
    words = ["replay", file, "--memory", "part", "--keep", str(tmp_path / "kept")]
    for num_done in (1, 2):
        assert main([*words, "--policy", f"{__name__}:FirstOnly"]) == 0
        assert len(counted) == num_done


def test_folder_that_cannot_be_made_is_refused(file, capsys):
    assert main(["replay", file, "--keep", "/proc/kept"]) == 2
    assert "--keep '/proc/kept'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--costs", "compute,costs.hop"]])
def test_ranks_of_an_mpiexec_share_the_replays(file, tmp_path, words):
    """The first one prints and writes; what comes of it is what one process says."""
    rows = ["--memory", "part", *words]
    assert main(["replay", file, *rows, "--json", str(tmp_path / "one.json")]) == 0
    bin_folder = pathlib.Path(sys.executable).parent
    call = [bin_folder / "mpiexec", "-n", "3", bin_folder / "pagewire", "replay", file, *rows]
    done = subprocess.run(
        [*map(str, call), "--json", str(tmp_path / "three.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PERFORMANCE") == 1
    assert figures(tmp_path / "three.json") == figures(tmp_path / "one.json")
    if words:
        one, three = (
            json.loads((tmp_path / name).read_text())["replay"]["costs"]
            for name in ("one.json", "three.json")
        )
        assert one == three


@pytest.mark.filterwarnings("ignore:suspicious MPI execution environment")
def test_rank_whose_mpiexec_is_of_another_mpi_is_refused(file, monkeypatch, capsys):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert main(["replay", file]) == 2
    assert "mpiexec is of another MPI" in capsys.readouterr().err
