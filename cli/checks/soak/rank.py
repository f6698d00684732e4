"""Program of a rank of a soak: steps of stress over and over, and what the process holds.

Every rank sends a burst of messages to the rank `shift` behind it and receives one from the rank
`shift` before it; the shift goes round. Now and then it also writes to and reads from a window. All
ranks draw the same sizes; stress makes the bytes and compares them. Pages of the buffers that
messages arrive in are absent.
"""

import ctypes
import faulthandler
import itertools
import json
import mmap
import os
import random
import sys
import time
from typing import Any

from mpi4py import MPI

from pagewire.cli.checks.stress.steps import kit, messages, windows

BURSTS_A_WINDOW = 8
WINDOW_BYTES = 8192
HANG_S = 600.0
"""Wall time that a burst may take before a rank shows where it stands, and ends; much, since ranks
that wait for each other on a busy host are slow."""


class _Mallinfo2(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


_mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)  # glibc has it since 2.33
if _mallinfo2 is not None:
    _mallinfo2.restype = _Mallinfo2


def sample() -> dict[str, int]:
    """By name: resident bytes, bytes that malloc has given out, open files, entries of pools."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        resident_pages = int(statm.read().split()[1])
    found = {
        "resident_bytes": resident_pages * mmap.PAGESIZE,
        "files": len(os.listdir("/proc/self/fd")) - 1,  # listing opens one
    }
    if _mallinfo2 is not None:
        heap = _mallinfo2()
        found["heap_bytes"] = heap.uordblks + heap.hblkhd
    return {**found, **_pools()}


def _pools() -> dict[str, int]:
    """Of the node that Python has; over the fabric the provider has it."""
    from pagewire.native import ffi, lib
    from pagewire.transport.facade import here

    if not here.is_open:
        return {}
    pools = ffi.new("pw_ni_pools *")
    lib.pw_ni_read_pools(lib.pw_node_ni(here.node.c), pools)
    return {f"pool_{name}": int(getattr(pools, name)) for name in dir(pools)}


class Soak:
    """One rank's part."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.comm = MPI.COMM_WORLD
        self.rank, self.num_ranks = self.comm.Get_rank(), self.comm.Get_size()
        self.seed = int(spec["seed"])
        self.num_messages = int(spec["burst"])
        self.absent_part = float(spec["fault_fraction"])
        self.num_wrong = self.num_dropped = self.num_transfers = 0

    def burst(self, number: int) -> None:
        """One burst to a peer and one from another."""
        rng = random.Random(f"{self.seed}:{number}")
        shift = 1 + number % (self.num_ranks - 1)
        # Small ones are the most, as in programs; every length of the last packet occurs.
        drawn = [
            [source, (source + shift) % self.num_ranks, int(2 ** rng.uniform(0, 15.28)), 0]
            for source in range(self.num_ranks)
            for _ in range(self.num_messages)
        ]
        arguments: dict[str, Any] = {"messages": drawn, "send": "Isend", "finish": "Waitall"}
        if self.absent_part:
            arguments["absent_part"] = self.absent_part
        try:
            self.take(number, messages.burst, arguments)
        except kit.WrongError as error:  # all requests have been completed: the soak goes on
            print(f"[rank {self.rank}] {error}", file=sys.stderr)
            self.num_wrong += 1
        self.num_transfers += self.num_messages

    def use_window(self, number: int) -> None:
        """Write to a peer's window, and read what it holds elsewhere."""
        shift = 1 + number % (self.num_ranks - 1)
        own = [rank * WINDOW_BYTES for rank in range(self.num_ranks)]
        length = 1 + random.Random(number).randrange(WINDOW_BYTES)
        operations = []
        for rank, first in enumerate(own):
            peer = (rank + shift) % self.num_ranks
            operations.append(["Put", rank, peer, first, length])
            operations.append(["Get", rank, peer, self.num_ranks * WINDOW_BYTES + first, length])
        arguments = {
            "make": "create",
            "sync": "lock",
            "num_bytes": 2 * self.num_ranks * WINDOW_BYTES,
            "num_rounds": 1,
            "operations": operations,
        }
        self.take(number, windows.window, arguments)
        self.num_transfers += 2

    def take(self, number: int, work: Any, arguments: dict[str, Any]) -> None:
        """A step of stress, as a program of its own."""
        run = kit.Run(self.comm, self.seed + number)
        kit.execute(run, [(1, 0, ["world"], work, arguments)])
        self.num_dropped += run.absent_pages

    def run(self, num_transfers: int, num_samples: int, limit_s: float) -> dict[str, Any]:
        """So many transfers on this rank, or as many as the time allows: all ranks the same."""
        start_s = time.monotonic()
        num_bursts = -(-num_transfers // self.num_messages)
        a_sample = max(1, num_bursts // num_samples)
        samples = []
        for number in itertools.count():
            if self.num_transfers >= num_transfers:
                break
            self.burst(number)
            if number % BURSTS_A_WINDOW == 0:
                self.use_window(number)
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            if (number + 1) % a_sample == 0:
                samples.append({"transfers": self.num_transfers, **sample()})
                is_late = time.monotonic() - start_s > limit_s
                if self.comm.allreduce(is_late, MPI.LOR):
                    break
        return {
            "transfers": self.num_transfers,
            "wrong": self.num_wrong,
            "dropped_pages": self.num_dropped,
            "wall_s": time.monotonic() - start_s,
            "samples": samples,
        }


def main(words: list[str]) -> int:
    """Words: folder for the figures of each rank, and what to do as JSON."""
    spec = json.loads(words[1])
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    soak = Soak(spec)
    found = soak.run(
        -(-spec["transfers"] // soak.num_ranks), spec["samples"], spec["minutes"] * 60.0
    )
    faulthandler.cancel_dump_traceback_later()
    with open(os.path.join(words[0], f"{soak.rank}.json"), "w", encoding="utf-8") as stream:
        json.dump(found, stream)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
