"""Reads that are foreseen: physically quicker, and no virtual time changes. One flow at a time: the
times of several depend on which comes first (test_equal_times.py)."""

import pathlib
import random

import pytest
from cli_runs import reported
from native_programs import needs_provider

PROGRAM = """
import mmap, random, sys
from mpi4py import MPI
import numpy as np

world = MPI.COMM_WORLD
draw = random.Random(int(sys.argv[1]))
area = mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
whole = np.frombuffer(area, "u1")
base = -whole.ctypes.data % (1 << 20)
mine, theirs = whole[base : base + (1 << 20)], whole[base + (1 << 20) : base + (2 << 20)]
for step in range(400):
    num_bytes = draw.choice((100, 512, 1000, 4096, 5000, 12000, 16384, 16385, 50000))
    out, back = (draw.randrange(0, 1 << 18, draw.choice((1, 64, 4096, 16384))) for _ in range(2))
    kind = draw.choice(("ping-pong",) * 4 + ("late", "change"))
    if kind == "change":  # pages that are there no more, here or there
        area.madvise(mmap.MADV_DONTNEED, (base + draw.choice((0, 1 << 20))) & -4096, 1 << 19)
    mine[out : out + num_bytes] = np.arange(num_bytes) * (step + world.rank + 3) % 251
    sent = [mine[out : out + num_bytes], MPI.BYTE]
    got = [theirs[back : back + num_bytes], MPI.BYTE]
    peer = 1 - world.rank
    if kind == "late" and world.rank == 0:
        world.Ssend([np.zeros(1, "u1"), MPI.BYTE], peer, 1)
        world.Send(sent, peer)
        world.Recv(got, peer)
    elif kind == "late":
        send = world.Isend(sent, peer)
        world.Recv([np.zeros(1, "u1"), MPI.BYTE], peer, 1)
        world.Recv(got, peer)
        send.Wait()
    else:
        for rank in (0, 1):
            if rank == world.rank:
                world.Send(sent, peer)
            else:
                world.Recv(got, peer)
    expected = np.arange(num_bytes) * (step + peer + 3) % 251
    assert (theirs[back : back + num_bytes] == expected.astype("u1")).all(), (step, kind)
    print(step, kind, num_bytes, round(MPI.Wtime() * 1e9), flush=True)
"""


def run(folder: pathlib.Path, transport: str, lookahead_blocks: int, seed: int, memory: str):
    path = folder / "program.py"
    path.write_text(PROGRAM)
    words = ["--transport", transport, "--compute", "none", "--memory", memory, "--quiet"]
    words += ["--set", f"ni.lookahead_blocks={lookahead_blocks}"]
    said, report = reported(folder, 2, *words, str(path), str(seed), cwd=folder)
    return sorted(said.splitlines()), report


@pytest.mark.parametrize("memory", ["part", "pin"])
@pytest.mark.parametrize("transport", ["facade", pytest.param("fabric", marks=needs_provider)])
def test_times_are_those_without(tmp_path, transport, memory):
    seed = random.Random(transport + memory).randrange(1000)
    slow, plain = run(tmp_path, transport, 0, seed, memory)
    quick, report = run(tmp_path, transport, 128, seed, memory)
    assert plain["totals"]["lookahead_reads"] == 0
    assert report["totals"]["lookahead_reads"] > 0  # how many is this host's
    assert [lines for lines in zip(quick, slow, strict=True) if lines[0] != lines[1]] == []
    for mine, other in zip(report["ranks"], plain["ranks"], strict=True):
        for name in ("virtual_time_ns", "blocks", "packets", "walks", "l1_hits", "pages_paged_in"):
            assert mine[name] == other[name], name
