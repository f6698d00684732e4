"""Equal runs give nearly equal times: without contention virtual times agree to 0.01 %, and mostly
every figure of the machine does, however busy this host is.

PAGEWIRE_TEST_RUNS: runs of each case that are held against each other (2). The program lies in
a folder that nobody writes to: a folder that changes makes Python's import system read it again.
"""

import ast
import json
import os
import pathlib

import pytest
from cli_runs import command
from native_programs import needs_provider

from pagewire.cli.commands import repetitions
from pagewire.cli.launch.mpi_choice import Mpi

PROGRAM = pathlib.Path(__file__).with_name("one_flow_at_a_time.py")
NUM_RUNS = int(os.environ.get("PAGEWIRE_TEST_RUNS", "2"))

LOSSES = [
    "impairments.packet_loss=1:50:7", "impairments.duplication=1:20:8", "impairments.delay=1:20:9",
    "impairments.lost_ack=1:20:10", "impairments.lost_err=1:5:11",
]  # fmt: skip
MODEL = ["memory_backend.backend=model", "memory_backend.fault_fraction=0.3"]
CASES = {
    "part": (1, "part", "page", "none", []),
    "impaired": (2, "part", "block", "none", LOSSES),
    "stalling": (3, "part", "all", "none", ["smmu.mode=stall"]),
    "model": (4, "part", "page", "model", MODEL),
    "replay": (5, "pretouch", "page", "replay", []),
    "pin": (6, "pin", "page", "none", []),
}
"""By name: seed, memory strategy, page-in policy, compute, settings."""

OFTEN = {"facade": ("part", "model"), "fabric": ("impaired", "stalling")}
"""What every run of the tests takes; the others are run with PAGEWIRE_TEST_RUNS."""


def cases() -> list[object]:
    return [
        pytest.param(
            transport, name,
            id=f"{transport}-{name}", marks=[needs_provider] if transport == "fabric" else [],
        )
        for transport, often in OFTEN.items()
        for name in CASES
        if name in often or "PAGEWIRE_TEST_RUNS" in os.environ
    ]  # fmt: skip


def compare(folder: pathlib.Path, *words: str, timeout_s: float = 120) -> tuple[int, str, list]:
    """Exit code, standard error, and the entries of the JSON when there is one."""
    path = folder / "compare.json"
    done = command("compare", "--json", str(path), *words, cwd=folder, timeout_s=timeout_s)
    entries = json.loads(path.read_text(encoding="utf-8"))["entries"] if path.exists() else []
    return done.returncode, done.stdout + done.stderr, entries


MOST_SPREAD = 1e-4
"""Of the virtual time. Most sets of runs are equal in every figure; some differ by tens of ns."""


def unlike(texts: list[str], most_ns: float) -> list[tuple[tuple[object, ...], ...]]:
    """The steps of which the runs' logs tell other things, or times more than most_ns apart.

    First in a line: when. Last: where the buffer lay, which is no part of what must be equal.
    """
    runs = [[ast.literal_eval(line) for line in text.splitlines()] for text in texts]
    return [
        lines
        for lines in zip(*runs, strict=True)
        if len({line[1:-1] for line in lines}) > 1
        or max(line[0] for line in lines) - min(line[0] for line in lines) > most_ns
    ]


@pytest.mark.timeout(120 + 60 * NUM_RUNS)
@pytest.mark.parametrize(("transport", "name"), cases())
def test_one_flow_at_a_time_takes_as_long_in_every_run(tmp_path, transport, name):
    seed, memory, policy, compute, settings = CASES[name]
    logs = tmp_path / "logs"
    logs.mkdir()
    code, said, entries = compare(
        tmp_path, "-n", "3", "--transport", transport, "--memory", memory, "--policy", policy,
        "--compute", compute, *(word for each in settings for word in ("--set", each)),
        "--runs", str(NUM_RUNS), "--noise", "--equal", str(PROGRAM), str(seed), str(logs),
        timeout_s=60 + 60 * NUM_RUNS,
    )  # fmt: skip
    assert entries, said
    repeated = entries[0]["repetitions"]
    assert repeated["runs"] == NUM_RUNS
    times_ns = repeated["virtual_times_ns"]
    assert max(times_ns) - min(times_ns) <= MOST_SPREAD * max(times_ns), said
    assert code == (1 if repeated["differences"] else 0), said
    recorded = 1 if compute == "replay" else 0
    for rank in range(3):
        texts = [path.read_text() for path in sorted(logs.glob(f"{rank}.*"))]
        assert len(texts) == NUM_RUNS + recorded
        if not recorded and not repeated["differences"]:
            assert unlike(texts, MOST_SPREAD * max(times_ns)) == []


def test_runs_with_measured_compute_differ_and_are_an_error(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("from mpi4py import MPI\nsum(range(100000))\nMPI.COMM_WORLD.Barrier()\n")
    code, said, entries = compare(
        tmp_path, "-n", "2", "--memory", "part", "--compute", "measured", "--runs", "2", "--equal",
        str(program),
    )  # fmt: skip
    assert code == 1, said
    assert "equal runs differ" in said
    assert entries[0]["repetitions"]["differences"][0]["name"] == "virtual_time_ns"


def test_differences_are_found_by_rank_and_by_place_in_a_list():
    def report(*ranks: dict) -> dict:
        return {"ranks": [{"rank": idx, **each} for idx, each in enumerate(ranks)]}

    same = {"wall_time_s": 1.0, "sleeps": 3, "blocks": 5, "bins": [0, 2], "calls": {"Send": 1}}
    first = report(same, {**same, "virtual_time_ns": 10})
    second = report({**same, "wall_time_s": 2.0, "sleeps": 9}, {**same, "virtual_time_ns": 8})
    third = report({**same, "bins": [0, 4]}, {**same, "virtual_time_ns": 10, "blocks": 6})
    runs = [repetitions.figures(each) for each in (first, second, third)]
    found = {each.name: each for each in repetitions.differences(runs)}
    assert list(found) == ["virtual_time_ns", "blocks", "bins[1]"]
    time = found["virtual_time_ns"]
    assert (time.smallest, time.largest, time.num_ranks, time.num_runs) == (8, 10, 1, 1)
    assert time.spread == pytest.approx(0.2)
    assert (found["blocks"].smallest, found["blocks"].largest) == (10, 11)
    assert repetitions.differences(runs[:1] * 3) == []


def test_mpich_with_libfabric_starts_without_ucx_on_one_host(tmp_path):
    without = Mpi("mpiexec", str(tmp_path), "mpich")
    assert without.defaults(is_spread=False) == {}
    (tmp_path / "mpich" / "libfabric").mkdir(parents=True)
    assert without.defaults(is_spread=False) == {"MPIR_CVAR_CH4_NETMOD": "ofi"}
    assert without.defaults(is_spread=True) == {}
    assert Mpi("mpiexec", str(tmp_path), "openmpi").defaults(is_spread=False) == {}
