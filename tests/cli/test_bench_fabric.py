"""`pagewire bench --transport fabric`: C program, tables against JSON, goals, what it refuses."""

import io
import json
import os
import pathlib
import subprocess
import sys

import pytest
from json_schemas import check as check_schema
from rich.console import Console
from test_runs import command

from pagewire.cli.checks.bench import apps, c_program, collectives, ping_pong
from pagewire.cli.checks.bench import command as bench
from pagewire.cli.checks.bench.group import BenchError, Conditions
from pagewire.cli.launch import fabric
from pagewire.native.settings import ConfigError

MPIEXEC = pathlib.Path(sys.prefix, "bin", "mpiexec")

needs_provider = pytest.mark.skipif(
    bool(fabric.missing()), reason="pagewire was built without libfabric's headers"
)


@pytest.fixture(scope="module")
def program():
    with c_program._compiled() as path:
        yield str(path)


def on_plain_mpich(num_ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    return subprocess.run(
        [MPIEXEC, "-n", str(num_ranks), *words],
        env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("num_ranks", "operations"),
    [(2, ("ping-pong", "rate")), (3, ("Allreduce", "Bcast", "Alltoall"))],
)
def test_program_writes_a_line_for_each_operation(program, tmp_path, num_ranks, operations):
    words = [word for operation in operations for word in (operation, "4096")]
    done = on_plain_mpich(num_ranks, program, str(tmp_path / "rows"), "2", "0.001", *words)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in (tmp_path / "rows").read_text().splitlines()]
    assert [(name, size) for name, size, *_ in lines] == [(name, "4096") for name in operations]
    for *_, wall_s, virtual_s in lines:
        # On plain MPICH both clocks are this host's, and wall time is read around the other.
        assert 1e-8 < float(virtual_s) <= 1.01 * float(wall_s) + 1e-8
        assert float(wall_s) < 1


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
        done = on_plain_mpich(num_ranks, program, str(tmp_path / "rows"), "1", "0.001", *words)
        assert done.returncode != 0
        if reason in done.stderr:
            break
    assert reason in done.stderr


@needs_provider
def test_rows_are_in_tables_and_json(tmp_path):
    path = tmp_path / "figures.json"
    words = ("--transport", "fabric", "--quick", "--json", str(path))
    done = command("bench", *words)
    assert done.returncode == 0, done.stderr
    figures = json.loads(path.read_text())
    check_schema("bench", figures)
    assert figures["transport"] == "fabric"
    groups = list(bench.TRANSPORTS["fabric"].values())
    assert [row["num_bytes"] for row in figures["ping_pong"]] == [8, 65536]
    assert {row["operation"] for row in figures["collectives"]} == {
        "Allreduce", "Bcast", "Alltoall",
    }  # fmt: skip
    for row in figures["ping_pong"]:
        assert row["latency_ratio"] == row["fabric_s"] / row["plain_s"]
        assert row["bandwidth_ratio"] * row["latency_ratio"] == pytest.approx(1)
        assert row["wall_per_virtual"] == row["fabric_s"] / row["virtual_s"]
        assert min(row["plain_s"], row["fabric_s"], row["virtual_s"]) > 0
    for row in figures["collectives"] + figures["apps"]:
        assert row["ratio"] == row["fabric_s"] / row["plain_s"] > 0
    [rate] = figures["rate"]
    assert rate["ratio"] == pytest.approx(rate["fabric_per_s"] / rate["plain_per_s"])
    stream = io.StringIO()
    bench.show(groups, figures, Console(file=stream, width=200))
    assert stream.getvalue() == done.stdout


@needs_provider
def test_virtual_time_is_the_machines_and_not_this_hosts():
    """On the emulated link 64 KiB take more than what its 1.83 GB/s allow, at any host's speed."""
    conditions = Conditions(
        "fabric", True, {**os.environ, "PAGEWIRE_RUN_TRANSPORT": "fabric"}, print
    )
    times = c_program.measure(conditions, 2, [("ping-pong", 65536)])["ping-pong", 65536]
    assert 65536 / 1.9e9 < times.virtual_s < 65536 / 1.0e9


def test_goals_of_a_full_run_are_those_of_the_project():
    ones = {"latency_ratio": 1.0, "bandwidth_ratio": 1.0, "ratio": 1.0, "transport": "fabric"}
    of_groups = {
        ping_pong: [{"num_bytes": size, **ones} for size in (8, 64, 65536, 4 << 20)],
        collectives: [
            {"operation": name, "num_ranks": ranks, "num_bytes": size, **ones}
            for name in ("Allreduce", "Bcast")
            for ranks in (2, 4)
            for size in (8, 65536)
        ],
        apps: [
            {"app": "LAMMPS melt", "num_ranks": ranks, "num_atoms": 32000, **ones}
            for ranks in (4, 16)
        ],
    }
    goals = [goal for module, rows in of_groups.items() for goal in module.GROUP.goals(rows)]
    assert [(goal.limit, goal.at_least) for goal in goals] == [
        (4, False), (0.5, True), (4, False), (1.3, False), (1.5, False),
    ]  # fmt: skip
    assert all(goal.reached for goal in goals)


def test_each_transport_has_its_groups():
    names = [group.name for group in bench.choose("", "fabric")]
    assert names == ["ping-pong", "collectives", "rate", "apps"]
    with pytest.raises(ConfigError, match="unknown group 'faults'.* ping-pong, collectives"):
        bench.choose("faults", "fabric")


def test_missing_compiler_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(c_program.launch, "find_mpiexec", lambda: str(tmp_path / "mpiexec"))
    with pytest.raises(BenchError, match="no compiler of MPI programs.*pip install"):
        c_program.find_compiler()


def test_compiler_that_fails_is_a_sentence(monkeypatch, tmp_path):
    compiler = tmp_path / "mpicc"
    compiler.write_text("#!/bin/sh\necho 'cc: not found' >&2\nexit 127\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(c_program, "find_compiler", lambda: str(compiler))
    with (
        pytest.raises(BenchError, match=r"cannot compile.*\(cc: not found\).*apt-get install"),
        c_program._compiled(),
    ):
        pass
