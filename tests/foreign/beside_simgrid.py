"""Flows over links that nodes share, here and in SimGrid: `beside_simgrid.py [--apt]`.

Prints a table of run times and of how they differ; exits with 1 when one differs by more than is
explained (LARGEST). The same topologies, flows and payload rates; SimGrid's hop is ours. With --ti
a replay of the same trace, too. Needs python3-simgrid and libsimgrid-dev; --apt installs them.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pagewire.replay.formats.convert import Conversion
from pagewire.replay.made import Made
from pagewire.replay.patterns import Shape, Synthetic
from pagewire.replay.program import Program, Reused
from pagewire.replay.records import Record, decode
from pagewire.replay.replay import Replay, Settings, Trace
from pagewire.run.settings import platform

PYTHON = "/usr/bin/python3"
PACKAGES = ("python3-simgrid", "libsimgrid-dev")
MIB = 1 << 20
NUM_NODES = 64
PACKET_BYTES, HEADER_BYTES = 256, 32
TOPOLOGIES = {
    "torus:4x4x4": ("TORUS", "4,4,4"),
    "fat-tree:2;8,8;1,8;1,1": ("FAT_TREE", "2;8,8;1,8;1,1"),
    "fat-tree:2;8,8;1,4;1,1": ("FAT_TREE", "2;8,8;1,4;1,1"),
}
MODELS = {
    "CM02": ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0"),
    "SMPI": ("network/model:SMPI", "network/crosstraffic:0", "network/TCP-gamma:0"),
}
LARGEST = 0.03
"""Difference to CM02 that flows of a MiB and more may have, of 1."""

Rounds = list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]
"""Of a rank: in each round its sends and receives, as peers and bytes."""


class Flows(Made):
    """A trace of ranks that do rounds."""

    def __init__(self, programs: Sequence[Rounds]) -> None:
        super().__init__(len(programs))
        self._programs = programs

    def meta(self) -> dict[str, Any]:
        return {}

    def records(self, rank: int) -> Iterator[Record]:
        made: list[bytes] = []
        program = Program(rank, self.num_ranks, lambda data, _: made.append(data), Reused())
        for sends, receives in self._programs[rank]:
            started = [
                program.irecv(peer, program.landing(peer, num_bytes))
                for peer, num_bytes in receives
            ]
            started += [
                program.isend(peer, program.filled(peer, num_bytes)) for peer, num_bytes in sends
            ]
            program.waitall(started)
        program.end()
        return (record for data in made for record in decode(data))

    def numbers(self, _rank: int, _kind: int) -> Iterator[int]:
        return iter(())


def of_rounds(rounds: Sequence[Sequence[tuple[int, int]]], num_bytes: int) -> list[Rounds]:
    """Programs in which each first sends to each second; a round behind the other."""
    return [
        [
            (
                [(target, num_bytes) for source, target in pairs if source == rank],
                [(source, num_bytes) for source, target in pairs if target == rank],
            )
            for pairs in rounds
        ]
        for rank in range(NUM_NODES)
    ]


def shift(by: int) -> list[tuple[int, int]]:
    return [(rank, (rank + by) % NUM_NODES) for rank in range(NUM_NODES)]


def cases() -> dict[str, list[Rounds]]:
    drawn = list(range(NUM_NODES))
    random.Random(1).shuffle(drawn)
    permutation = [(a, b) for a, b in enumerate(drawn) if a != b]
    return {
        "one flow of 4 KiB": of_rounds([[(0, 1)]], 4096),
        "one flow": of_rounds([[(0, 42)]], MIB),
        "two flows on one link": of_rounds([[(0, 5), (1, 5)]], MIB),
        "incast of 63": of_rounds([[(rank, 0) for rank in range(1, NUM_NODES)]], MIB // 4),
        "random permutation": of_rounds([permutation], MIB),
        "shift by 9": of_rounds([shift(9)], MIB),
        "all to all, 63 shifts of 64 KiB": of_rounds(
            [shift(by) for by in range(1, NUM_NODES)], MIB // 16
        ),
    }


def payload_bytes_per_s() -> float:
    """What a link carries of the user's bytes."""
    costs = platform.load("exanest-qfdb").costs.as_dict()
    share = PACKET_BYTES / (PACKET_BYTES + HEADER_BYTES) * costs["link_coding_permille"] / 1000
    return costs["link_between_mbps"] * 1e6 / 8 * share


def machine(folder: pathlib.Path, topology: tuple[str, str]) -> str:
    """The platform file of a topology."""
    hop_ns = platform.load("exanest-qfdb").costs.as_dict()["hop_ns"]
    path = folder / "machine.xml"
    path.write_text(
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        f'<platform version="4.1"><cluster id="c" prefix="n" suffix="" radical="0-{NUM_NODES - 1}"'
        f' speed="1Gf" bw="{payload_bytes_per_s()}Bps" lat="{hop_ns}ns" topology="{topology[0]}"'
        f' topo_parameters="{topology[1]}" sharing_policy="SPLITDUPLEX"/></platform>\n',
        encoding="utf-8",
    )
    return str(path)


def ours_us(trace: Trace, *assignments: str) -> tuple[float, float]:
    """Time of the run, and wall time in s."""
    with Replay(trace, Settings.of(trace.meta(), ["run.memory=ideal", *assignments])) as replay:
        replay.run()
        performance = replay.outcome().performance
    return performance.virtual_s * 1e6, performance.wall_s


def simgrid_us(folder: pathlib.Path, path: str, programs: list[Rounds], model: str) -> float:
    written = folder / "programs.json"
    written.write_text(json.dumps(programs), encoding="utf-8")
    words = [PYTHON, str(pathlib.Path(__file__).with_name("simgrid_flows.py")), path, str(written)]
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    made = subprocess.run(
        [*words, *(f"--cfg={each}" for each in MODELS[model])],
        env=environ, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    return 1e6 * max(json.loads(made.stdout.splitlines()[-1]))


def compare_flows(folder: pathlib.Path, models: Sequence[str]) -> bool:
    """Print the table; whether each difference is explained."""
    is_well = True
    heads = ["topology", "flows", *models, *MODELS, f"{models[0]} / CM02"]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for topology, theirs in TOPOLOGIES.items():
        path = machine(folder, theirs)
        for name, programs in cases().items():
            own = [
                ours_us(Flows(programs), f"network.topology={topology}", f"network.model={each}")[0]
                for each in models
            ]
            others = [simgrid_us(folder, path, programs, model) for model in MODELS]
            ratio = own[0] / others[0]
            is_well &= abs(ratio - 1) < LARGEST or "KiB" in name
            cells = [topology, name, *(f"{each:,.1f}" for each in (*own, *others)), f"{ratio:.2f}"]
            print("| " + " | ".join(cells) + " |", flush=True)
    return is_well


def compare_replays(folder: pathlib.Path) -> None:
    """A halo exchange as TI in smpirun, and here. No two flows meet on a link of the torus."""
    trace = Synthetic("halo3d:6", NUM_NODES, Shape(num_bytes=65536, steps=20, compute_ns=100_000))
    trace.write(str(folder / "halo.pwt"))
    Conversion().run(str(folder / "halo.pwt"), str(folder / "halo.ti"))
    (folder / "list").write_text(f"{folder}/halo.ti\n", encoding="utf-8")
    (folder / "hosts").write_text("".join(f"n{rank}\n" for rank in range(NUM_NODES)))
    path = machine(folder, TOPOLOGIES["torus:4x4x4"])
    own_us, wall_s = ours_us(trace, "network.topology=torus:4x4x4")
    print(f"here: {own_us:,.1f} us, wall time {wall_s:.2f} s")
    begun_s = time.monotonic()
    made = subprocess.run(
        ["smpirun", "-np", str(NUM_NODES), "-platform", path, "-hostfile", str(folder / "hosts"),
         "-replay", str(folder / "list"), "--cfg=network/crosstraffic:0",
         "--cfg=smpi/host-speed:1Gf"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    said_s = float(made.stdout.rpartition("Simulation time")[2])
    print(f"smpirun: {said_s * 1e6:,.1f} us, wall time {time.monotonic() - begun_s:.2f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apt", action="store_true", help="install SimGrid")
    parser.add_argument("--ti", action="store_true", help="replay a trace in both, too")
    parser.add_argument("--models", default="links", help="of network.model")
    arguments = parser.parse_args()
    if arguments.apt:
        subprocess.run(["apt-get", "install", "-qy", "--no-install-recommends", *PACKAGES],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    if not shutil.which("smpirun"):
        print(f"SimGrid is not installed: apt-get install {' '.join(PACKAGES)}, or --apt")
        return 1
    with tempfile.TemporaryDirectory(prefix="simgrid-") as name:
        is_well = compare_flows(pathlib.Path(name), arguments.models.split(","))
        if arguments.ti:
            compare_replays(pathlib.Path(name))
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
