"""One Python program over the facade and over the fabric: the NI does the same, so messages from
one to another take the same virtual time, and count the same."""

import pathlib

import pytest
from cli_runs import reported
from native_programs import needs_provider

pytestmark = needs_provider

# Buffers lie at multiples of 2 MB, as blocks and page tables do: where an allocator puts them
# differs, and so would the times of what is met first.
PROGRAM = """
import mmap
from mpi4py import MPI
import numpy as np

world = MPI.COMM_WORLD

def mapped(num_bytes):
    whole = np.frombuffer(mmap.mmap(-1, num_bytes + (2 << 20)), "u1")
    begin = -whole.ctypes.data % (2 << 20)
    return whole[begin : begin + num_bytes]

for num_bytes in (0, 8, 64, 65, 4096, 65536, 1 << 20):
    out, back = mapped(num_bytes), mapped(num_bytes)
    for turn in range(4):
        began = MPI.Wtime()
        if world.rank == 0:
            world.Send([out, MPI.BYTE], 1, 1)
            world.Recv([back, MPI.BYTE], 1, 2)
            print(num_bytes, turn, round((MPI.Wtime() - began) * 1e9), flush=True)
        else:
            world.Recv([back, MPI.BYTE], 0, 1)
            world.Send([out, MPI.BYTE], 0, 2)
"""

TRANSPORTS = ("facade", "fabric")
OF_DATA = ("rdma_messages", "rdma_bytes", "transfers", "blocks", "packets", "pages_paged_in")


def launch(folder: pathlib.Path, transport: str, memory: str, *words: str) -> tuple[str, dict]:
    """What the program printed, and the report."""
    chosen = ("--transport", transport, "--compute", "none", "--memory", memory, "--quiet")
    return reported(folder, 2, *chosen, *words, cwd=folder)


@pytest.mark.parametrize("memory", ["part", "pin"])
def test_point_to_point_takes_the_same_virtual_time(tmp_path, memory):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    times: dict[str, list[int]] = {}
    totals: dict[str, dict] = {}
    for transport in TRANSPORTS:
        said, report = launch(tmp_path, transport, memory, str(program))
        times[transport] = [int(line.split()[2]) for line in said.splitlines()]
        totals[transport] = report["totals"]
    assert len(times["facade"]) == 7 * 4
    assert times["fabric"] == pytest.approx(times["facade"], rel=0.03)
    # One block at a time: no order to differ in.
    one_block = 5 * 4
    assert times["fabric"][:one_block] == times["facade"][:one_block]
    for name in OF_DATA:
        assert totals["fabric"][name] == totals["facade"][name], name


@pytest.mark.parametrize(
    "words",
    [
        ("lammps", "--size", "4", "--steps", "10"),
        ("hpl", "--N", "128", "--NB", "16"),
        ("hpcg", "--nx", "8", "--ny", "8", "--nz", "8"),
    ],
)
def test_mini_app_runs_over_both_and_moves_the_same_data(tmp_path, words):
    by_transport = {each: launch(tmp_path, each, "part", *words)[1] for each in TRANSPORTS}
    facade, fabric = (by_transport[each]["totals"] for each in TRANSPORTS)
    # Collectives are made of other messages; those between neighbours are most of the bytes.
    assert fabric["mpi_bytes"] == pytest.approx(facade["mpi_bytes"], rel=0.1)
    assert fabric["virtual_time_ns"] == pytest.approx(facade["virtual_time_ns"], rel=0.25)
