"""Program of a rank of a soak: messages around, each compared with what it must be.

Every rank sends a burst of messages to the rank `shift` behind it and receives one from the rank
`shift` before it, by Isend and Irecv; the shift goes round. Now and then it also writes to and
reads from a window (Put, Get). Sizes and places are drawn from tables that all ranks have, so the
receiver knows what must come. Before a burst pages of the destination are taken away.
"""

import faulthandler
import json
import mmap
import os
import random
import sys
import time
from typing import Any

import numpy as np

from pagewire.cli.soak.resources import sample

BURST_MAX = 64
MAX_BYTES = 40_000
SLOT_BYTES = 49152
PATTERN_BYTES = 1 << 20
PAGE_BYTES = mmap.PAGESIZE
NUM_DRAWN = 8191
"""Sizes in the table; a prime, so that bursts meet it at ever other places."""
BURSTS_A_WINDOW = 8
WINDOW_BYTES = 8192
FRESH_DRAWS = 1 << 16
HANG_S = 600.0
"""Wall time that a burst may take before a rank shows where it stands, and ends; much, since ranks
that wait for each other on a busy host are slow."""


class Soak:
    """One rank's part."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from pagewire.transport import MPI

        self.mpi = MPI
        self.comm = MPI.COMM_WORLD
        self.rank, self.num_ranks = self.comm.Get_rank(), self.comm.Get_size()
        draw = random.Random(spec["seed"])
        self.pattern = np.frombuffer(draw.randbytes(PATTERN_BYTES + MAX_BYTES), np.uint8).copy()
        # Small ones are the most, as in programs; every length of the last packet occurs.
        self.sizes = [int(2 ** draw.uniform(0, 15.28)) for _ in range(NUM_DRAWN)]
        self.places = [draw.randrange(PATTERN_BYTES) for _ in range(NUM_DRAWN)]
        self.num_messages = int(spec["burst"])
        self.pages = mmap.mmap(-1, BURST_MAX * SLOT_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.arena = np.frombuffer(self.pages, np.uint8)
        self.fault_fraction = spec["fault_fraction"]
        # Which pages are taken away: drawn once for many bursts.
        self.absent = np.random.default_rng(spec["seed"] + self.rank).random(FRESH_DRAWS)
        self.num_dropped = self.num_wrong = self.num_transfers = 0
        self.window_memory = np.zeros(self.num_ranks * WINDOW_BYTES, np.uint8)
        self.window = MPI.Win.Create(self.window_memory, 1, comm=self.comm)
        self.back = np.zeros(WINDOW_BYTES, np.uint8)
        self.slots = [
            self.arena[slot * SLOT_BYTES : slot * SLOT_BYTES + MAX_BYTES]
            for slot in range(self.num_messages)
        ]

    def message(self, source: int, burst: int, slot: int) -> np.ndarray:
        """What a rank sends in a burst."""
        at = (burst * BURST_MAX + slot) * 5 + source * 1031
        place = self.places[(at * 7) % NUM_DRAWN]
        return self.pattern[place : place + self.sizes[at % NUM_DRAWN]]

    def drop_pages(self, burst: int, lengths: list[int]) -> None:
        """Take pages of the destination away, each with the same probability."""
        at = burst * 61
        for slot, length in enumerate(lengths):
            for page in range(-(-length // PAGE_BYTES)):
                at += 1
                if self.absent[at % FRESH_DRAWS] < self.fault_fraction:
                    first = slot * SLOT_BYTES + page * PAGE_BYTES
                    self.pages.madvise(mmap.MADV_DONTNEED, first, PAGE_BYTES)
                    self.num_dropped += 1

    def burst(self, number: int) -> None:
        """One burst to a peer and one from another."""
        shift = 1 + number % (self.num_ranks - 1)
        source, peer = (self.rank - shift) % self.num_ranks, (self.rank + shift) % self.num_ranks
        due = [self.message(source, number, slot) for slot in range(self.num_messages)]
        if self.fault_fraction:
            self.drop_pages(number, [each.size for each in due])
        slots = [slot[: each.size] for slot, each in zip(self.slots, due, strict=True)]
        receive, send = self.comm.Irecv, self.comm.Isend
        requests = [receive(slot, source, tag) for tag, slot in enumerate(slots)]
        requests += [
            send(self.message(self.rank, number, slot), peer, slot)
            for slot in range(self.num_messages)
        ]
        self.mpi.Request.Waitall(requests)
        for slot, each in zip(slots, due, strict=True):
            self.num_wrong += not np.array_equal(slot, each)
            slot[0] = ~slot[0]  # what is not written next time must not look right
        self.num_transfers += self.num_messages

    def use_window(self, number: int) -> None:
        """Write to a peer's window and read it back."""
        peer = (self.rank + 1 + number % (self.num_ranks - 1)) % self.num_ranks
        due = self.message(self.rank, number, 0)[:WINDOW_BYTES]
        back = self.back[: due.size]
        target = (self.rank * WINDOW_BYTES, due.size, self.mpi.BYTE)
        self.window.Lock(peer, self.mpi.LOCK_SHARED)
        self.window.Put([due, self.mpi.BYTE], peer, target)
        self.window.Flush(peer)
        self.window.Get([back, self.mpi.BYTE], peer, target)
        self.window.Unlock(peer)
        self.num_wrong += not np.array_equal(back, due)
        back[:] = 0
        self.num_transfers += 2

    def run(self, num_transfers: int, num_samples: int, limit_s: float) -> dict[str, Any]:
        """So many transfers on this rank, or as many as the time allows: all ranks the same."""
        start_s = time.monotonic()
        num_bursts = -(-num_transfers // self.num_messages)
        a_sample = max(1, num_bursts // num_samples)
        samples = []
        number = 0
        while self.num_transfers < num_transfers:
            self.burst(number)
            if number % BURSTS_A_WINDOW == 0:
                self.use_window(number)
            number += 1
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            if number % a_sample == 0:
                samples.append({"transfers": self.num_transfers, **sample()})
                is_late = time.monotonic() - start_s > limit_s
                if self.comm.allreduce(is_late, self.mpi.LOR):
                    break
        self.window.Free()
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
