"""A real MPI over `pagewire sockets`: each rank on a node of its own, its messages by RDMA."""

import os
import pathlib
import sys

import pytest
import sockets_runs
from cli_runs import BIN
from sockets_runs import counted

from pagewire.cli.launch import mpi_choice

OPENMPI = pathlib.Path(mpi_choice.openmpi_folder())

MIB = 1 << 20
SIZES = [0, 1, 1000, 70_000, MIB]
PROGRAM = f"""
import os, random
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
for num_bytes in {SIZES}:
    sent = random.Random(num_bytes).randbytes(num_bytes)
    got = bytearray(num_bytes)
    if rank == 0:
        world.Send(sent, 1)
        world.Recv(got, 1)
    elif rank == 1:
        world.Recv(got, 0)
        world.Send(got, 0)
    assert rank > 1 or got == sent, num_bytes
ones, sums = memoryview(bytearray(8 * 5000)).cast("d"), memoryview(bytearray(8 * 5000)).cast("d")
for idx in range(5000):
    ones[idx] = idx * (rank + 1)
world.Allreduce(ones, sums)
assert all(sums[idx] == idx * size * (size + 1) / 2 for idx in range(5000))
os.write(1, b"rank %d of %d is right\\n" % (rank, size))
"""
needs_mpich = pytest.mark.skipif(
    not (BIN / "mpiexec").exists(), reason="needs mpiexec beside this Python (pip install mpich)"
)


@needs_mpich
@pytest.mark.parametrize(("num_nodes", "per_node"), [(2, 1), (3, 1), (2, 2)])
def test_mpich_when_each_node_has_ranks_sends_all_bytes_over_the_ni(num_nodes, per_node):
    hosts = ",".join(f"10.77.0.{idx + 1}" for idx in range(num_nodes))
    num_ranks = num_nodes * per_node
    counts = ["-hosts", hosts, "-ppn", str(per_node), "-n", str(num_ranks)]
    command = [str(BIN / "mpiexec"), *counts, sys.executable, "-c", PROGRAM]
    ran = sockets_runs.run(*[["true"]] * (num_nodes - 1), command)
    assert sorted(ran.stdout.splitlines()) == [
        f"rank {rank} of {num_ranks} is right" for rank in range(num_ranks)
    ]
    # Two ranks of a node exchange by memory of their host, also the two that play ping-pong.
    least = sum(SIZES) if per_node == 1 else 40_000
    assert counted(ran, 0, "in;") > least and counted(ran, 1, "in;") > least
    assert counted(ran, 0, "RDMA writes") > least // 65536
    assert counted(ran, 0, "page faults") > 0


@pytest.mark.skipif(
    not (OPENMPI / "bin/mpirun").exists(), reason="needs Open MPI; ./mpirun.sh test brings it"
)
@pytest.mark.parametrize("num_nodes", [2, 3])
def test_open_mpi_when_each_node_has_a_rank_sends_all_bytes_over_the_ni(num_nodes):
    hosts = ",".join(f"10.77.0.{idx + 1}" for idx in range(num_nodes))
    words = ["--allow-run-as-root", "--host", hosts, "-n", str(num_nodes)]
    command = [str(OPENMPI / "bin/mpirun"), *words, sys.executable, "-c", PROGRAM]
    environ = {**os.environ, "MPI4PY_LIBMPI": str(OPENMPI / "lib/libmpi.so.40")}
    ran = sockets_runs.run(*[["true"]] * (num_nodes - 1), command, env=environ)
    assert sorted(ran.stdout.splitlines()) == [
        f"rank {rank} of {num_nodes} is right" for rank in range(num_nodes)
    ]
    assert counted(ran, 0, "in;") > sum(SIZES) and counted(ran, 1, "in;") > sum(SIZES)
    assert counted(ran, 0, "RDMA writes") > sum(SIZES) // 65536


def test_command_when_a_launcher_sends_it_to_no_node_is_refused():
    enter = 'exec "$HYDRA_LAUNCHER_EXEC" -x "$@"'
    for place, code, said in [
        ("localhost", 255, "localhost is no address of a node"),
        ("10.77.0.3", 255, "the run has no node 2, but 2 nodes"),
        ("10.77.0.1", 7, ""),
    ]:
        words = ["-n", "2", "--", "true", ":", "sh", "-c", enter, "sh", place, "exit 7"]
        ran = sockets_runs.sockets(*words, exit_code=code)
        assert said in ran.stderr, ran.stderr
