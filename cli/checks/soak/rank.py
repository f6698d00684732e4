"""Program of a rank of a soak: steps of stress over and over, and what the process holds.

Every rank sends a burst of messages to the rank `shift` behind it and receives one from the rank
`shift` before it; the shift goes round. Now and then it also writes to and reads from a window. All
ranks draw the same sizes; stress makes the bytes and compares them. Pages of the buffers that
messages arrive in are absent.
"""

import faulthandler
import json
import os
import random
import sys
from typing import Any

from mpi4py import MPI

from pagewire.cli.checks.soak.bursts import Bursts
from pagewire.cli.checks.stress.steps import kit, messages, windows

BURSTS_A_WINDOW = 8
WINDOW_BYTES = 8192
HANG_S = 600.0
"""Wall time that a burst may take before a rank shows where it stands, and ends; much, since ranks
that wait for each other on a busy host are slow."""


class Soak(Bursts):
    """One rank's part."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(int(spec["burst"]))
        self.comm = MPI.COMM_WORLD
        self.rank, self.num_ranks = self.comm.Get_rank(), self.comm.Get_size()
        self.seed = int(spec["seed"])
        self.absent_part = float(spec["fault_fraction"])

    def burst(self, number: int) -> None:
        """One burst to a peer and one from another, and now and then a window."""
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        self.exchange(number)
        if number % BURSTS_A_WINDOW == 0:
            self.use_window(number)

    def exchange(self, number: int) -> None:
        """Send to a peer and receive from another."""
        rng = random.Random(f"{self.seed}:{number}")
        shift = 1 + number % (self.num_ranks - 1)
        # Small ones are the most, as in programs; every length of the last packet occurs.
        drawn = [
            [source, (source + shift) % self.num_ranks, int(2 ** rng.uniform(0, 15.28)), 0]
            for source in range(self.num_ranks)
            for _ in range(self.num_a_burst)
        ]
        arguments: dict[str, Any] = {"messages": drawn, "send": "Isend", "finish": "Waitall"}
        if self.absent_part:
            arguments["absent_part"] = self.absent_part
        try:
            self.take(number, messages.burst, arguments)
        except kit.WrongError as error:  # all requests have been completed: the soak goes on
            print(f"[rank {self.rank}] {error}", file=sys.stderr)
            self.num_wrong += 1
        self.num_transfers += self.num_a_burst

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

    def is_over(self, is_late: bool) -> bool:
        """All ranks end together."""
        return bool(self.comm.allreduce(is_late, MPI.LOR))

    def pools(self) -> dict[str, int]:
        """Of the node that Python has; over the fabric the provider has it."""
        from pagewire.native import ffi, lib
        from pagewire.transport.facade import here

        if not here.is_open:
            return {}
        pools = ffi.new("pw_ni_pools *")
        lib.pw_ni_read_pools(lib.pw_node_ni(here.node.c), pools)
        return {f"pool_{name}": int(getattr(pools, name)) for name in dir(pools)}


def main(words: list[str]) -> int:
    """Words: folder for the figures of each rank, and what to do as JSON."""
    spec = json.loads(words[1])
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
