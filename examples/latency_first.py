"""Scheduling policy: what a peer waits for goes first, bulk gets a small window.

pagewire launch -n 4 --set firmware.scheduling=latency_first:LatencyFirst program.py    (in this
folder)
"""

from pagewire.r5sched.scheduling import Hint, PostedTransfer, Scheduling, SchedulingPolicy

SHORT_BYTES = 64 * 1024


class LatencyFirst(SchedulingPolicy):
    """Up to 64 KB as urgent as a single block; beyond, the longer a peer's transfers, the later."""

    def __init__(self) -> None:
        self._longest: dict[int, int] = {}

    def schedule(self, *, transfer: PostedTransfer) -> Scheduling:
        if transfer.num_bytes <= SHORT_BYTES:
            return Scheduling(Hint.HIGH, window_blocks=4)
        longest = self._longest.get(transfer.peer, 0)
        self._longest[transfer.peer] = max(longest, transfer.num_bytes)
        return Scheduling(Hint.MEDIUM if transfer.num_bytes < longest else Hint.LOW)
