"""Whole runs through the command line: the app on the emulated NI beside plain mpi4py."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from json_schemas import check as check_schema

BIN = pathlib.Path(sys.prefix, "bin")
SMALL = ["--size", "6", "--steps", "30", "--thermo", "10"]


def command(
    *words: str, environ: dict[str, str] | None = None, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run `pagewire` with these words, away from the source tree."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "pagewire", *words],
        env={**os.environ, **(environ or {})},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def plain(num_ranks: int, *words: str) -> None:
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    subprocess.run(
        [BIN / "mpiexec", "-n", str(num_ranks),
         sys.executable, "-P", "-m", "pagewire.apps.lammps", "--plain", *words],
        env=environ, cwd="/", capture_output=True, timeout=120, check=True,
    )  # fmt: skip


def same_state(one: pathlib.Path, other: pathlib.Path) -> bool:
    with np.load(one) as a, np.load(other) as b:
        return set(a.files) == set(b.files) and all(
            a[name].tobytes() == b[name].tobytes() for name in a.files
        )


@pytest.fixture(scope="module")
def plain_state(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "state.npz"
    plain(4, *SMALL, "--dump-state", str(path))
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--memory", "part", "--policy", "page"],
        ["--memory", "part", "--policy", "all", "--timeout", "20us"],
        ["--memory", "pretouch"],
        ["--memory", "ideal"],
        ["--memory", "pin"],
    ],
    ids=lambda options: "-".join(word.strip("-") for word in options),
)
def test_lammps_on_the_ni_gives_the_bits_of_plain_mpi(options, plain_state, tmp_path):
    state, report = tmp_path / "state.npz", tmp_path / "report.json"
    done = command("launch", "-n", "4", *options, "--json", str(report), "--quiet", "lammps",
                   *SMALL, "--fresh-buffers", "--dump-state", str(state))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert same_state(plain_state, state)
    summary = json.loads(report.read_text())["summary"]
    assert summary["blocks"] > 0 and summary["mpi_bytes"] > 0
    faults = summary["translation_faults"]
    assert faults > 0 if "part" in options else faults == 0


def test_model_backend_faults_at_random_and_the_bits_stay(plain_state, tmp_path):
    state, report = tmp_path / "state.npz", tmp_path / "report.json"
    done = command("launch", "-n", "4", "--set", "memory_backend.backend=model", "--set",
                   "memory_backend.fault_fraction=0.3", "--json", str(report), "--quiet", "lammps",
                   *SMALL, "--dump-state", str(state))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert same_state(plain_state, state)
    assert json.loads(report.read_text())["summary"]["translation_faults"] > 0


def test_compare_replays_compute_and_reports_every_key(tmp_path):
    path = tmp_path / "compare.json"
    done = command(
        "compare",
        "-n",
        "4",
        "--memory",
        "pretouch,part",
        "--json",
        str(path),
        "--quiet-app",
        "lammps",
        *SMALL,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    check_schema("compare", document)
    pretouch, part = document["entries"]
    keys = {
        "memory", "policy", "ranks", "virtual_time_s", "wall_time_s", "mpi_sends", "mpi_bytes",
        "blocks", "translation_faults", "fault_interrupts", "err_messages", "nacks", "timeouts",
        "retransmitted_blocks", "pages_paged_in",
    }  # fmt: skip
    assert keys <= set(pretouch) and keys <= set(part)
    assert (pretouch["memory"], part["memory"]) == ("pretouch", "part")
    assert pretouch["mpi_sends"] == part["mpi_sends"] and pretouch["mpi_bytes"] == part["mpi_bytes"]
    assert pretouch["translation_faults"] == 0 < part["translation_faults"]
    assert part["nacks"] <= part["retransmitted_blocks"]


def test_sixteen_ranks_on_few_cores_finish():
    done = command(
        "launch", "-n", "16", "--quiet", "lammps", "--size", "8", "--steps", "10", timeout_s=240
    )
    assert done.returncode == 0, done.stderr
    assert "on 16 procs" in done.stdout


def test_two_runs_without_compute_give_the_same_virtual_time(tmp_path):
    """One flow at a time: nothing that the order of arrival could change."""
    program = tmp_path / "chain.py"
    program.write_text(
        "from mpi4py import MPI\nimport mmap, numpy as np\n"
        "comm = MPI.COMM_WORLD\n"
        "sizes = (8, 3000, 70000, 1 << 20)\n"
        "maps = [np.frombuffer(mmap.mmap(-1, num_bytes + (1 << 21)), 'u1') for num_bytes in "
        "sizes]\n"
        "starts = [-whole.ctypes.data % (1 << 21) for whole in maps]\n"  # page tables end at 2 MB
        "for whole, start, num_bytes in zip(maps, starts, sizes):\n"
        "    buffer = whole[start : start + num_bytes]\n"
        "    for peer in range(1, comm.size):\n"
        "        if comm.rank == 0:\n"
        "            comm.Send(buffer, peer)\n            comm.Recv(buffer, peer)\n"
        "        elif comm.rank == peer:\n"
        "            comm.Recv(buffer, 0)\n            comm.Send(buffer, 0)\n"
    )
    times = set()
    for run in range(3):
        path = tmp_path / f"{run}.json"
        done = command(
            "launch", "-n", "3", "--compute", "none", "--quiet", "--json", str(path), str(program)
        )
        assert done.returncode == 0, done.stderr
        times.add(tuple(rank["virtual_time_ns"] for rank in json.loads(path.read_text())["ranks"]))
    assert len(times) == 1


@pytest.mark.parametrize(
    "sites",
    [
        {"packet_loss": "1:100:7"},
        {"packet_corruption": "1:200:7", "duplication": "1:20:7", "delay": "1:20:7"},
        {"lost_ack": "1:10:7", "lost_nack": "1:10:7", "lost_err": "1:10:7", "fifo_full": "1:10:7"},
    ],
    ids=" ".join,
)
def test_lammps_with_impairments_keeps_its_trajectory(sites, plain_state, tmp_path):
    state, report = tmp_path / "state.npz", tmp_path / "report.json"
    options = [
        word for name, text in sites.items() for word in ("--set", f"impairments.{name}={text}")
    ]
    words = ["lammps", *SMALL, "--fresh-buffers", "--dump-state", str(state)]
    done = command(
        "launch", "-n", "4", "--timeout", "100us", *options, "--json", str(report), *words
    )
    assert done.returncode == 0, done.stderr
    assert same_state(plain_state, state)
    whole = json.loads(report.read_text())
    for name in sites:
        counts = whole["totals"]["impairments"][name]
        assert 0 < counts["injected"] < counts["eligible"]
        assert f"{name.replace('_', ' ')}, injected" in done.stdout
        assert whole["summary"][f"{name}_injected"] == counts["injected"]
        assert (
            sum(rank["impairments"][name]["injected"] for rank in whole["ranks"])
            == counts["injected"]
        )
    assert whole["summary"]["timeouts"] + whole["summary"]["nacks"] > 0


def test_impairment_planner_of_the_users_own_module_plans_each_rank(tmp_path):
    (tmp_path / "cables.py").write_text(
        "import dataclasses\nfrom pagewire.run.settings.impairment_planners import "
        "ImpairmentPlanner\n\nclass Bad(ImpairmentPlanner):\n    def plan(self, *, rank, "
        "num_ranks, configured):\n        return dataclasses.replace(configured, lost_ack='1:2:7') "
        "if rank == 1 else configured\n"
    )
    report = tmp_path / "report.json"
    done = command("launch", "-n", "2", "--quiet", "--set", "impairments.planner=cables:Bad",
                   "--json", str(report), "lammps", *SMALL,
                   environ={"PYTHONPATH": str(tmp_path)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    ranks = json.loads(report.read_text())["ranks"]
    assert ranks[0]["impairments"] == {} and ranks[1]["impairments"]["lost_ack"]["injected"] > 0


def test_unknown_impairment_planner_ends_the_run_with_its_name(tmp_path):
    done = command("launch", "-n", "2", "--set", "impairments.planner=unifrom", "lammps", *SMALL)
    assert done.returncode != 0
    assert (
        "impairments.planner = 'unifrom'" in done.stderr and "did you mean 'uniform'" in done.stderr
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("transport", ["facade", "fabric"])
def test_last_words_of_ranks_that_end_together_arrive(transport, tmp_path):
    """hydra drops what it has not read when a rank aborts."""
    program = tmp_path / "words.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "for line in range(3000):\n    print(f'rank {world.rank} says {line}', file=sys.stderr)\n"
        "world.Barrier()\nprint(f'rank {world.rank} says goodbye', file=sys.stderr)\n"
        "world.Barrier()\nworld.Abort(3)\n"
    )
    done = command("launch", "-n", "2", "--transport", transport, str(program))
    assert done.returncode != 0
    said = sorted(line for line in done.stderr.splitlines() if " says " in line)
    words = [*map(str, range(3000)), "goodbye"]
    assert said == sorted(f"rank {rank} says {word}" for rank in range(2) for word in words)
