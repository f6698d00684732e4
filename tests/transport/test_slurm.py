"""The batch scripts of docs/cluster.md, as they stand there: Slurm's in a cluster of its own, that
of PBS with the variables of a job."""

import json
import pathlib
import re
import subprocess

import pytest
from cli_runs import BIN, started
from native_programs import needs_mpicc, needs_provider
from slurm_place import Slurm, slurm

from pagewire.cli.launch import allocation

pytestmark = [needs_mpicc, needs_provider]

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cluster.md"

PROGRAM = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define NUM_BYTES (1 << 20)
int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *data = calloc(NUM_BYTES, 1);
    MPI_Bcast(data, NUM_BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const char *node = getenv("SLURM_NODEID");
    printf("rank %d of %d, sum %d, node %s\\n", rank, size, sum, node ? node : "-");
    MPI_Finalize();
    return 0;
}
"""


def scripts(kind: str) -> list[str]:
    """Of the page, those of a batch system."""
    written = re.compile(r"^```\w+\n(#!/bin/sh\n.*?)^```", re.MULTILINE | re.DOTALL)
    blocks = written.findall(PAGE.read_text(encoding="utf-8"))
    return [block for block in blocks if f"#{kind}" in block]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    yield from slurm(tmp_path_factory.mktemp("slurm"))


@pytest.fixture
def home(tmp_path) -> pathlib.Path:
    """A user's home, with pagewire and a program in it."""
    own = tmp_path / "pagewire" / ".venv"
    own.mkdir(parents=True)
    own.joinpath("bin").symlink_to(BIN)
    tmp_path.joinpath("program.c").write_text(PROGRAM)
    command = [BIN / "mpicc", "-O1", "-o", tmp_path / "a.out", tmp_path / "program.c"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return tmp_path


def submitted(cluster: Slurm, home: pathlib.Path, script: str) -> str:
    """What a job has printed that ended well."""
    home.joinpath("job.sh").write_text(script)
    words = ["sbatch", "--wait", "--output", "job.out", "job.sh"]
    environ = {**cluster.environ, "HOME": str(home)}
    done = started(words, cwd=home, environ=environ)
    said = home.joinpath("job.out").read_text()
    assert done.returncode == 0, done.stderr + said
    return said


def check_ranks(said: str, nodes: set[str]) -> None:
    found = re.findall(r"^rank (\d) of 4, sum 6, node (\S+)$", said, flags=re.MULTILINE)
    assert sorted(rank for rank, _ in found) == ["0", "1", "2", "3"], said
    assert {node for _, node in found} == nodes
    assert "4 ranks, over the fabric" in said


@pytest.mark.parametrize("number", [0, 1])
def test_script_of_slurm_runs_on_two_nodes(cluster, home, number):
    said = submitted(cluster, home, scripts("SBATCH")[number])
    check_ranks(said, {"0", "1"})
    report = json.loads(home.joinpath("ab"[number] + ".json").read_text())
    assert report["totals"]["rdma_bytes"] >= 3 << 20
    assert not list(home.glob("pagewire-*"))


def test_srun_without_a_process_manager_is_told_what_to_add(cluster, home):
    script = scripts("SBATCH")[0].replace("--mpi=pmi2 ", "--mpi=none ")
    home.joinpath("job.sh").write_text(script)
    words = ["sbatch", "--wait", "--output", "job.out", "job.sh"]
    started(words, cwd=home, environ={**cluster.environ, "HOME": str(home)})
    said = home.joinpath("job.out").read_text()
    assert "have the launcher number the ranks (as srun --mpi=pmi2" in said


def test_script_of_pbs_runs_on_a_node(home):
    home.joinpath("nodes").write_text("localhost\n" * 4)
    environ = {"HOME": str(home), "PBS_O_WORKDIR": str(home), "PBS_NODEFILE": f"{home}/nodes"}
    (script,) = scripts("PBS")
    check_ranks(started(["sh", "-c", script], environ=environ, code=0).stdout, {"-"})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, 1),
        ({"SLURM_JOB_NUM_NODES": "3"}, 3),
        ({"SLURM_JOB_NUM_NODES": "what"}, 1),
        ({"FLUX_JOB_NNODES": "2"}, 2),
        ({"PBS_NODEFILE": "/none"}, 1),
        ({"PBS_NODEFILE": "nodes"}, 2),
    ],
)
def test_hosts_of_a_job_are_counted(environ, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("nodes").write_text("a\na\nb\n")
    assert allocation.num_hosts(environ) == expected
