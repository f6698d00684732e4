"""`pagewire bench`: small runs of every group, tables against JSON, goals, and what it refuses."""

import io
import json
import os
import subprocess
import sys
import time

import pytest
from json_schemas import check as check_schema
from rich.console import Console
from test_runs import command

from pagewire.cli.checks.bench import apps, collectives, engine, faults, host, ping_pong
from pagewire.cli.checks.bench import command as bench
from pagewire.cli.checks.bench.group import BenchError, Conditions, Goal, measure_on_ranks
from pagewire.native.settings import ConfigError


def conditions(begun: list[str]) -> Conditions:
    return Conditions("facade", True, os.environ, begun.append)


@pytest.fixture(scope="module")
def quick(tmp_path_factory) -> tuple[str, dict]:
    """What a run of all groups printed, and its JSON."""
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    done = command("bench", "--quick", "--json", str(path), environ={"PAGEWIRE_RUN_MEMORY": "part"})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    figures = json.loads(path.read_text())
    check_schema("bench", figures)
    return done.stdout, figures


def test_every_group_has_rows_of_positive_figures(quick):
    _, figures = quick
    for group in bench.GROUPS.values():
        rows = figures[group.key]
        assert rows
        for row in rows:
            for layout in group.layouts:
                of_all = [each for each in layout.columns if each.only in ("", "facade")]
                assert {column.of("facade").key for column in of_all} <= set(row)
            for key, value in row.items():
                rate_of_nothing = key in ("blocks_per_s", "packets_per_s")
                if isinstance(value, int | float) and not rate_of_nothing:
                    assert value > 0, f"{group.name}: {key}"
    assert figures["quick"] and figures["host"]["cores"] >= 1
    for key in ("took_s", "share_of_others"):
        assert set(figures["host"][key]) == {group.key for group in bench.GROUPS.values()}


def test_tables_hold_what_json_holds(quick):
    printed, figures = quick
    stream = io.StringIO()
    bench.show(list(bench.GROUPS.values()), figures, Console(file=stream, width=200))
    assert stream.getvalue() == printed


def test_ratios_are_of_the_times_beside_them(quick):
    _, figures = quick
    for row in figures["ping_pong"]:
        assert row["latency_ratio"] == row["facade_s"] / row["plain_s"]
        assert row["bandwidth_ratio"] * row["latency_ratio"] == pytest.approx(1)
        assert row["wall_per_virtual"] == row["facade_s"] / row["virtual_s"]
    for row in figures["collectives"] + figures["apps"]:
        assert row["ratio"] == row["facade_s"] / row["plain_s"]
    for row in figures["apps"]:
        assert row["cpu_ratio"] == row["facade_cpu_s"] / row["plain_cpu_s"]
    for name in ("ping_pong", "collectives", "rate", "apps"):
        assert {row["transport"] for row in figures[name]} == {"facade"}
    for row in figures["rate"]:
        assert row["ratio"] == pytest.approx(row["facade_per_s"] / row["plain_per_s"])
    for row in figures["one_sided"]:
        assert row["ratio"] == row["rdma_s"] / row["plain_s"]
    for row in figures["faults"] + figures["engine"]:
        assert row["wall_per_virtual"] == row["wall_s"] / row["virtual_s"]


def test_packets_are_those_of_the_bytes(quick):
    """A transfer of 64 KiB has 256 packets of 256 B, and a few more where a block is cut."""
    _, figures = quick
    row = next(row for row in figures["ping_pong"] if row["num_bytes"] == 65536)
    assert 256 <= row["packets_per_s"] * row["facade_s"] < 264
    [row] = figures["engine"]
    assert row["packets_per_s"] * row["wall_s"] == pytest.approx(row["num_bytes"] / 256)


def test_only_the_chosen_groups_are_measured(tmp_path):
    path = tmp_path / "figures.json"
    done = command("bench", "--quick", "--only", "engine,lookups", "--json", str(path))
    assert done.returncode == 0, done.stderr
    figures = json.loads(path.read_text())
    assert {"lookups", "engine"} == {group.key for group in bench.GROUPS.values()} & set(figures)
    assert [row["goal"].partition(",")[0] for row in figures["goals"]] == [
        "L2-hit lookup",
        "million packets/s",
    ]
    assert "collectives" not in done.stdout


def test_settings_that_are_not_default_are_named():
    done = command(
        "bench", "--quick", "--only", "lookups", environ={"PAGEWIRE_RUN_MEMORY": "pretouch"}
    )
    assert "settings that are not default: run.memory = pretouch" in done.stdout


def test_groups_come_in_the_order_of_the_tables():
    assert [group.name for group in bench.choose("apps,rate,ping-pong")] == [
        "ping-pong",
        "rate",
        "apps",
    ]
    assert bench.choose("") == list(bench.GROUPS.values())


@pytest.mark.parametrize("text", ["colectives", "rate,", "rate apps", ","])
def test_unknown_group_is_named_with_those_there_are(text):
    with pytest.raises(ConfigError, match="unknown group .* ping-pong"):
        bench.choose(text)


def test_unwritable_json_is_refused_before_anything_is_measured():
    done = command("bench", "--json", "/nowhere/figures.json")
    assert done.returncode == 2
    assert done.stdout == "" and "/nowhere" in done.stderr


def test_bad_setting_is_refused_in_one_line():
    done = command("bench", "--quick", environ={"PAGEWIRE_RUN_MEMORY": "partt"})
    assert done.returncode == 2
    assert done.stdout == "" and "did you mean 'part'" in done.stderr


@pytest.mark.parametrize("group", [engine.GROUP, faults.GROUP], ids=lambda group: group.name)
def test_as_many_steps_as_announced(group):
    begun: list[str] = []
    group.measure(conditions(begun))
    assert len(begun) == group.num_steps(True, "facade")


def test_failing_ranks_are_an_error_that_says_why():
    spec = {"num_rounds": 1, "round_s": 0.001}
    with pytest.raises(BenchError, match="pairs: rank . raised KeyError: 'works'"):
        measure_on_ranks(conditions([]), 2, "pairs", spec)


@pytest.mark.parametrize("operation", ["ping-pong", "rate"])
def test_wrong_number_of_ranks_is_an_error(operation):
    spec = {"works": [(operation, 8)], "num_rounds": 1, "round_s": 0.001}
    with pytest.raises(BenchError, match="needs 2 ranks"):
        measure_on_ranks(conditions([]), 1, "pairs", spec)


def test_plain_rank_of_an_app_loads_no_facade(tmp_path):
    path = tmp_path / "times.json"
    program = (
        "import sys\n"
        f"sys.argv = ['app', {str(path)!r}, 'lammps', '--size', '4', '--steps', '1']\n"
        "from pagewire.cli.checks.bench.ranks import app\n"
        "assert app.main() == 0\n"
        "assert 'mpi4py.MPI' in sys.modules\n"
        "assert not [name for name in sys.modules if name.startswith('pagewire.transport.facade')]"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    times = json.loads(path.read_text())
    assert set(times) == {"wall_s", "cpu_s"} and min(times.values()) > 0


def test_goals_of_a_full_run_are_those_of_the_project():
    """Rows as a full run has them, each figure exactly at 1."""
    ones = {"latency_ratio": 1.0, "bandwidth_ratio": 1.0, "wall_per_virtual": 1.0, "ratio": 1.0}
    ones |= {"transport": "facade"}
    rates = {"packets_per_s": 25e6}
    sizes = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
    of_groups = {
        ping_pong: [{"num_bytes": size, **ones, **rates} for size in sizes],
        collectives: [
            {"operation": name, "num_ranks": ranks, "num_bytes": size, **ones}
            for name in ("Allreduce", "Bcast", "Alltoall")
            for ranks in (2, 4, 8)
            for size in (8, 65536, 1 << 20)
        ],
        faults: [
            {"policy": policy, "num_bytes": size << 20, **ones}
            for policy in ("page", "all")
            for size in (1, 4, 16, 256)
        ],
        apps: [
            {"app": name, "num_ranks": ranks, **ones}
            for name, ranks in (("lammps", 4), ("lammps", 16), ("hpcg", 4), ("hpl", 4))
        ],
    }
    goals = [goal for module, rows in of_groups.items() for goal in module.GROUP.goals(rows)]
    assert [goal.limit for goal in goals] == [
        2.5, 5, 5, 3, 2.5, 1, 0.6, 25,
        4, 3,
        1, 1, 1, 1,
        1.15, 1.5, 1.2, 1.3,
    ]  # fmt: skip
    assert all(goal.reached for goal in goals)
    assert len({goal.what for goal in goals}) == len(goals)


def test_slowest_size_decides_about_wall_over_virtual_time():
    rows = [
        {
            "transport": "facade",
            "num_bytes": size,
            "latency_ratio": 1.0,
            "wall_per_virtual": ratio,
        }
        for size, ratio in ((8, 9.0), (65536, 0.5), (262144, 1.5))
    ]
    [goal] = [goal for goal in ping_pong.GROUP.goals(rows) if "virtual" in goal.what]
    assert goal.measured == 1.5 and not goal.reached


def test_limits_are_reached_from_their_side():
    assert Goal("time", 2.0, 2.0).reached and not Goal("time", 2.0, 2.1).reached
    assert Goal("rate", 2.0, 2.0, at_least=True).reached
    assert not Goal("rate", 2.0, 1.9, at_least=True).reached
    assert Goal("rate", 2.0, 1.9, at_least=True).row == {
        "goal": "rate", "bound": "at least", "limit": 2.0, "measured": 1.9, "reached": "no",
    }  # fmt: skip


def test_share_of_others_leaves_out_this_process_and_its_children(monkeypatch):
    """Of 40 s of all cores' time others took 10 s, this process 6 s, its children 4 s."""
    spent = iter([(100.0, 50.0, 5.0), (140.0, 70.0, 15.0)])
    monkeypatch.setattr(host, "_spent_s", lambda: next(spent))
    assert host.Share.start().of_others() == 0.25


def test_spent_times_are_those_of_the_kernel():
    before = host._spent_s()
    until_s = time.process_time() + 0.1
    while time.process_time() < until_s:
        pass
    all_s, busy_s, own_s = (b - a for a, b in zip(before, host._spent_s(), strict=True))
    assert 0 < own_s <= busy_s + 0.05 and busy_s <= all_s + 0.05
