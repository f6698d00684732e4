"""`pagewire bench`: small runs of every group over both transports, tables against JSON, goals, the
C program, and what is refused."""

import contextlib
import io
import json
import os
import subprocess
import sys
import time

import pytest
from cli_runs import ran
from json_schemas import check as check_schema
from native_programs import needs_provider, plain
from refusals import refused
from rich.console import Console

from pagewire.cli.checks.bench import apps, c_program, engines, host, messages, network, replays
from pagewire.cli.checks.bench import command as bench
from pagewire.cli.checks.bench.group import BenchError, Column, Conditions, Goal, measure_on_ranks
from pagewire.native import lib
from pagewire.native.settings import ConfigError

TRANSPORTS = ["facade", pytest.param("fabric", marks=needs_provider)]


def conditions(begun: list[str], transport: str = "facade") -> Conditions:
    environ = {**os.environ, "PAGEWIRE_RUN_TRANSPORT": transport}
    return Conditions(transport, True, environ, begun.append)


@pytest.fixture(scope="module", params=TRANSPORTS)
def quick(request, tmp_path_factory) -> tuple[str, str, dict]:
    """The transport, what a run of all its groups printed, and the run's JSON."""
    path = tmp_path_factory.mktemp("bench") / "figures.json"
    words = ["--transport", request.param, "--quick", "--json", str(path)]
    done = ran("bench", *words, timeout_s=280)  # a busy host
    assert done.stderr == ""
    figures = json.loads(path.read_text())
    check_schema("bench", figures)
    return request.param, done.stdout, figures


def test_every_group_has_rows_of_positive_figures(quick):
    transport, _, figures = quick
    for group in bench.TRANSPORTS[transport].values():
        rows = figures[group.key]
        assert rows or (group.name, transport) == ("apps", "fabric")  # LAMMPS is not installed
        for row in rows:
            for layout in group.layouts:
                of_all = [each for each in layout.columns if each.only in ("", transport)]
                assert {column.of(transport).key for column in of_all} <= set(row)
            for key, value in row.items():
                may_be_0 = key.endswith(("blocks_per_s", "packets_per_s", "_calls", "_switches"))
                if isinstance(value, int | float) and not may_be_0:
                    assert value > 0, f"{group.name}: {key}"
    assert figures["quick"] and figures["host"]["cores"] >= 1
    assert figures["transport"] == transport
    for key in ("took_s", "share_of_others"):
        keys = {group.key for group in bench.TRANSPORTS[transport].values()}
        assert set(figures["host"][key]) == keys


def test_tables_hold_what_json_holds(quick):
    transport, printed, figures = quick
    stream = io.StringIO()
    groups = list(bench.TRANSPORTS[transport].values())
    bench.show(groups, figures, Console(file=stream, width=200))
    assert stream.getvalue() == printed


def test_ratios_are_of_the_times_beside_them(quick):
    transport, _, figures = quick
    on_ni = f"{transport}_s"
    assert [row["num_bytes"] for row in figures["ping_pong"]] == [8, 65536]
    for row in figures["ping_pong"]:
        assert row["latency_ratio"] == row[on_ni] / row["plain_s"]
        assert row["bandwidth_ratio"] * row["latency_ratio"] == pytest.approx(1)
        assert row["wall_per_virtual"] == row[on_ni] / row["virtual_s"]
    operations = {row["operation"] for row in figures["collectives"]}
    assert operations == {"Allreduce", "Bcast", "Alltoall"}
    for row in figures["collectives"] + figures["apps"]:
        assert row["ratio"] == row[on_ni] / row["plain_s"]
    for name in ("ping_pong", "collectives", "rate", "apps"):
        assert {row["transport"] for row in figures[name]} <= {transport}
    for row in figures["rate"]:
        assert row["ratio"] == pytest.approx(row[f"{transport}_per_s"] / row["plain_per_s"])
    if transport == "fabric":
        return
    for row in figures["apps"]:
        assert row["cpu_ratio"] == row["facade_cpu_s"] / row["plain_cpu_s"]
    for row in figures["one_sided"]:
        assert row["ratio"] == row["rdma_s"] / row["plain_s"]
    for row in figures["faults"] + figures["engine"]:
        assert row["wall_per_virtual"] == row["wall_s"] / row["virtual_s"]


@pytest.mark.parametrize("quick", ["facade"], indirect=True)  # a program in C counts none
def test_packets_are_those_of_the_bytes(quick):
    """A transfer of 64 KiB has 256 packets of 256 B, and a few more where a block is cut."""
    _, _, figures = quick
    row = next(row for row in figures["ping_pong"] if row["num_bytes"] == 65536)
    assert 256 <= row["packets_per_s"] * row["facade_s"] < 264
    [row] = figures["engine"]
    assert row["packets_per_s"] * row["wall_s"] == pytest.approx(row["num_bytes"] / 256)


def test_only_the_chosen_groups_are_measured_and_settings_that_are_not_default_are_named(tmp_path):
    path = tmp_path / "figures.json"
    done = ran("bench", "--quick", "--only", "engine,lookups", "--json", str(path),
                   environ={"PAGEWIRE_RUN_MEMORY": "pretouch"})  # fmt: skip
    figures = json.loads(path.read_text())
    assert {"lookups", "engine"} == {group.key for group in bench.GROUPS.values()} & set(figures)
    goals = [row["goal"].partition(",")[0] for row in figures["goals"]]
    assert goals == ["L2-hit lookup", "million packets/s"]
    assert "collectives" not in done.stdout
    assert "settings that are not default: run.memory = pretouch" in done.stdout


def test_groups_come_in_the_order_of_the_tables():
    names = [group.name for group in bench.choose("apps,rate,ping-pong")]
    assert names == ["ping-pong", "rate", "apps"]
    assert bench.choose("") == list(bench.GROUPS.values())
    names = [group.name for group in bench.choose("", "fabric")]
    assert names == ["ping-pong", "sweep", "collectives", "rate", "apps"]


@pytest.mark.parametrize(
    ("text", "transport", "allowed"),
    [(text, "facade", "ping-pong") for text in ("colectives", "rate,", "rate apps", ",")]
    + [("faults", "fabric", "ping-pong, sweep, collectives")],
)
def test_unknown_group_is_named_with_those_there_are(text, transport, allowed):
    with pytest.raises(ConfigError, match=f"unknown group .* {allowed}"):
        bench.choose(text, transport)


@pytest.mark.parametrize(
    ("words", "memory", "said"),
    [
        (["--json", "/nowhere/figures.json"], "part", "/nowhere"),
        (["--quick"], "partt", "did you mean 'part'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(words, memory, said):
    assert said in refused("bench", *words, env={"PAGEWIRE_RUN_MEMORY": memory})


@pytest.mark.parametrize(
    "group",
    [engines.ENGINE, engines.FAULTS, replays.GROUP, network.GROUP],
    ids=lambda group: group.name,
)
def test_as_many_steps_as_announced(group):
    begun: list[str] = []
    group.measure(conditions(begun))
    assert len(begun) == group.num_steps(True, "facade")


@pytest.mark.parametrize(
    ("num_ranks", "spec", "said"),
    [
        (2, {}, "pairs: rank . raised KeyError: 'works'"),
        (1, {"works": [("ping-pong", 8)]}, "needs 2 ranks"),
        (1, {"works": [("rate", 8)]}, "needs 2 ranks"),
    ],
)
def test_failing_ranks_are_an_error_that_says_why(num_ranks, spec, said):
    spec = {"num_rounds": 1, "round_s": 0.001, **spec}
    with pytest.raises(BenchError, match=said):
        measure_on_ranks(conditions([]), num_ranks, "pairs", spec)


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
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
    times = json.loads(path.read_text())
    assert set(times) == {"wall_s", "cpu_s"} and min(times.values()) > 0


ONES = {"latency_ratio": 1.0, "bandwidth_ratio": 1.0, "wall_per_virtual": 0.3, "ratio": 1.0}
LATENCIES = [1.1, 2.5, 2.5, 1.5, 1.5]
SIZES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
COLLECTIVES = [
    {"operation": name, "num_ranks": ranks, "num_bytes": size}
    for name in ("Allreduce", "Bcast", "Alltoall")
    for ranks in (2, 4, 8)
    for size in (8, 65536, 1 << 20)
]


@pytest.mark.parametrize(
    ("transport", "of_groups", "limits"),
    [
        (
            "facade",
            {
                messages.PING_PONG: [{"num_bytes": size, "packets_per_s": 25e6} for size in SIZES],
                messages.RATE: [{"num_bytes": size} for size in (8, 4096)],
                messages.COLLECTIVES: COLLECTIVES,
                messages.ONE_SIDED: [
                    {"operation": "write", "num_bytes": size} for size in (8, 65536, 4 << 20)
                ],
                engines.FAULTS: [
                    {"policy": policy, "num_bytes": size << 20}
                    for policy in ("page", "all")
                    for size in (1, 4, 16, 256)
                ],
                apps.GROUP: [
                    {"app": name, "num_ranks": ranks}
                    for name, ranks in (("lammps", 4), ("lammps", 16), ("hpcg", 4), ("hpl", 4))
                ],
            },
            [*LATENCIES, 1, 0.95, 25, 0.6, 0.5, 4, 2, 3, 1, 0.4, 0.3, 0.3, 0.8, 0.8]
            + [1.05, 1.2, 1.15, 1.15],
        ),
        (
            "fabric",
            {
                messages.PING_PONG: [{"num_bytes": size} for size in SIZES],
                messages.COLLECTIVES: COLLECTIVES,
                apps.GROUP: [
                    {"app": "LAMMPS melt", "num_ranks": ranks, "num_atoms": 32000}
                    for ranks in (4, 16)
                ],
            },
            [*LATENCIES, 1, 0.95, 4, 2, 3, 1.05, 1.2],
        ),
    ],
    ids=["facade", "fabric"],
)
def test_goals_of_a_full_run_are_those_of_the_project(transport, of_groups, limits):
    """Rows as a full run has them, each figure at 1, wall over virtual time at 0.3."""
    goals = [
        goal
        for group, rows in of_groups.items()
        for goal in group.goals([{**ONES, "transport": transport, **row} for row in rows])
    ]
    assert [goal.limit for goal in goals] == limits
    assert all(goal.at_least == (goal.limit in (0.5, 0.6, 0.95, 25)) for goal in goals)
    assert all(goal.reached for goal in goals)
    assert len({goal.what for goal in goals}) == len(goals)


def test_slowest_size_decides_about_wall_over_virtual_time():
    rows = [
        {**ONES, "transport": "facade", "num_bytes": size, "wall_per_virtual": ratio}
        for size, ratio in ((8, 0.9), (65536, 0.5), (262144, 1.5))
    ]
    [goal] = [goal for goal in messages.PING_PONG.goals(rows) if "virtual" in goal.what]
    assert goal.measured == 1.5 and not goal.reached


def test_limits_are_reached_from_their_side():
    assert Goal("time", 2.0, 2.0).reached and not Goal("time", 2.0, 2.1).reached
    assert Goal("rate", 2.0, 2.0, at_least=True).reached
    assert not Goal("rate", 2.0, 1.9, at_least=True).reached
    assert Goal("rate", 2.0, 1.9, at_least=True).row == {
        "goal": "rate", "bound": "at least", "limit": 2.0, "measured": 1.9, "reached": "no",
    }  # fmt: skip


def test_system_calls_are_counted_without_privileges():
    """Each close of no descriptor is one; what libc does without the kernel is none."""
    if lib.pw_bench_begin_counting() != lib.PW_OK:
        pytest.skip("this kernel does not hand system calls back")
    for _ in range(100):
        with contextlib.suppress(OSError):
            os.close(-1)
        time.monotonic()
    assert lib.pw_bench_end_counting() == 100
    os.getppid()  # and is counted no longer
    assert lib.pw_bench_begin_counting() == lib.PW_OK
    assert lib.pw_bench_end_counting() == 0


def test_host_that_does_not_tell_is_no_figure():
    assert Column("system_calls", "").text({"system_calls": None}) == "not measurable"


def test_share_of_others_leaves_out_this_process_and_its_children():
    """Of 40 s of all cores' time others took 10 s, this process 6 s, its children 4 s."""
    assert host.share_of_others((100.0, 50.0, 5.0), (140.0, 70.0, 15.0)) == 0.25


def test_spent_times_are_those_of_the_kernel():
    before = host.spent_s()
    until_s = time.process_time() + 0.1
    while time.process_time() < until_s:
        pass
    all_s, busy_s, own_s = (b - a for a, b in zip(before, host.spent_s(), strict=True))
    assert 0 < own_s <= busy_s + 0.05 and busy_s <= all_s + 0.05


@pytest.fixture(scope="module")
def program():
    with c_program._compiled() as path:
        yield str(path)


@pytest.mark.parametrize(
    ("num_ranks", "operations"),
    [(2, ("ping-pong", "rate")), (3, ("Allreduce", "Bcast", "Alltoall", "Bcast"))],
)
def test_program_writes_a_line_for_each_operation(program, tmp_path, num_ranks, operations):
    words = [word for operation in operations for word in (operation, "4096")]
    done = plain(num_ranks, program, str(tmp_path / "rows"), "2", "0.001", *words)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in (tmp_path / "rows").read_text().splitlines()]
    assert [(name, size) for name, size, *_ in lines] == [(name, "4096") for name in operations]
    for _, _, wall_s, virtual_s, switches, calls in lines:
        # On plain MPICH both clocks are this host's, and wall time is read around the other.
        assert 1e-8 < float(virtual_s) <= 1.01 * float(wall_s) + 1e-8
        assert float(wall_s) < 1
        assert float(switches) >= 0 and float(calls) >= -1


@pytest.mark.parametrize(
    ("num_ranks", "words", "reason"),
    [
        (1, ("ping-pong", "8"), "a pair is 2 ranks"),
        (2, ("pingpong", "8"), "unknown OPERATION"),
        (2, ("ping-pong", "0"), "no NUM_BYTES"),
        (2, ("ping-pong",), "FILE NUM_ROUNDS"),
    ],
)
def test_program_refuses_what_it_cannot_measure(program, tmp_path, num_ranks, words, reason):
    for _ in range(5):  # mpiexec drops what a rank says when another one ends in the same moment
        done = plain(num_ranks, program, str(tmp_path / "rows"), "1", "0.001", *words)
        assert done.returncode != 0
        if reason in done.stderr:
            break
    assert reason in done.stderr


@needs_provider
def test_virtual_time_is_the_machines_and_not_this_hosts():
    """On the emulated link 64 KiB take more than what its 1.83 GB/s allow, at any host's speed."""
    works = [("ping-pong", 65536)]
    (times,) = c_program.measure(conditions([], "fabric"), 2, works).values()
    assert 65536 / 1.9e9 < times.virtual_s < 65536 / 1.0e9


def test_missing_compiler_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(c_program.launch, "find_mpiexec", lambda: str(tmp_path / "mpiexec"))
    with pytest.raises(BenchError, match="no compiler of MPI programs.*pip install"):
        c_program.find_compiler()


def test_compiler_that_fails_is_a_sentence(monkeypatch, tmp_path):
    compiler = tmp_path / "mpicc"
    compiler.write_text("#!/bin/sh\necho 'cc: not found' >&2\nexit 127\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(c_program, "find_compiler", lambda: str(compiler))
    said = r"cannot compile.*\(cc: not found\).*apt-get install"
    with pytest.raises(BenchError, match=said), c_program._compiled():
        pass
