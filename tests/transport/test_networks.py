"""Live runs in networks of their own: ranks have the places and ways that a replay gives them."""

import json

import pytest
from cli_runs import command, ran, reported
from native_programs import needs_provider

MESSAGE = """
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
bytes_of = np.full(40_000, world.rank, np.uint8)
if world.rank == 1:
    world.Send(bytes_of, 2)
if world.rank == 2:
    world.Recv(bytes_of, 1)
    assert (bytes_of == 1).all()
"""
SPAWN = """
import sys
from mpi4py import MPI

if MPI.Comm.Get_parent() == MPI.COMM_NULL:
    MPI.COMM_WORLD.Spawn(sys.executable, [__file__], 1)
"""
ON_A_RING = ("--set", "run.compute=none", "--set", "network.topology=torus:4")


def program(folder, text):
    path = folder / "program.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("transport", ["facade", pytest.param("fabric", marks=needs_provider)])
def test_live_ranks_go_round_a_failed_link_as_replayed_ones_do(transport, tmp_path):
    trace, path = str(tmp_path / "run.pwt"), program(tmp_path, MESSAGE)
    words = ("--transport", transport, "--set", "network.failed=1 to 2", "--record", trace)
    _, live = reported(tmp_path, 4, *ON_A_RING, *words, path, cwd=tmp_path)
    assert "verified: all" in ran("replay", trace, "--verify", cwd=tmp_path).stdout
    whole = ("replay", trace, "--set", "network.failed=", "--json", str(tmp_path / "whole"))
    ran(*whole, cwd=tmp_path)
    (entry,) = json.loads((tmp_path / "whole").read_text())["entries"]
    assert entry["virtual_time_s"] < live["totals"]["virtual_time_ns"] / 1e9


@needs_provider
def test_spawned_process_without_a_place_is_refused(tmp_path):
    path = program(tmp_path, SPAWN)
    words = ("launch", "-n", "4", *ON_A_RING, "--transport", "fabric", path)
    done = command(*words, cwd=tmp_path)
    assert "'torus:4', placement 'packed': it has places for the 4 ranks" in done.stderr
    assert done.returncode
