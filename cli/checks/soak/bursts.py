"""What a process of a soak does: bursts of transfers, and samples of what it holds meanwhile."""

import abc
import ctypes
import itertools
import mmap
import os
import time
from typing import Any


class _Mallinfo2(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


_mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)  # glibc has it since 2.33
if _mallinfo2 is not None:
    _mallinfo2.restype = _Mallinfo2


def sample() -> dict[str, int]:
    """By name: resident bytes, bytes that malloc has given out, open files."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        resident_pages = int(statm.read().split()[1])
    found = {
        "resident_bytes": resident_pages * mmap.PAGESIZE,
        "files": len(os.listdir("/proc/self/fd")) - 1,  # listing opens one
    }
    if _mallinfo2 is not None:
        heap = _mallinfo2()
        found["heap_bytes"] = heap.uordblks + heap.hblkhd
    return found


class Bursts(abc.ABC):
    """One process of a soak, and what it has counted."""

    num_wrong = num_dropped = num_transfers = 0

    def __init__(self, num_a_burst: int) -> None:
        """num_a_burst: transfers."""
        self.num_a_burst = num_a_burst

    @abc.abstractmethod
    def burst(self, number: int) -> None:
        """Do so many transfers, check what arrived, and count."""

    @abc.abstractmethod
    def pools(self) -> dict[str, int]:
        """By name, how full the pools of this process's nodes are."""

    def is_over(self, is_late: bool) -> bool:
        """Asked at each sample. is_late: the time is over."""
        return is_late

    def run(self, num_transfers: int, num_samples: int, limit_s: float) -> dict[str, Any]:
        """So many transfers in this process, or as many as the time allows."""
        start_s = time.monotonic()
        num_bursts = -(-num_transfers // self.num_a_burst)
        a_sample = max(1, num_bursts // num_samples)
        samples = []
        for number in itertools.count():
            if self.num_transfers >= num_transfers:
                break
            self.burst(number)
            if (number + 1) % a_sample == 0:
                samples.append({"transfers": self.num_transfers, **sample(), **self.pools()})
                if self.is_over(time.monotonic() - start_s > limit_s):
                    break
        return {
            "transfers": self.num_transfers,
            "wrong": self.num_wrong,
            "dropped_pages": self.num_dropped,
            "wall_s": time.monotonic() - start_s,
            "samples": samples,
        }
