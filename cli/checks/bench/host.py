"""How much of this host other programs take while the bench measures.

The load average will not do: it holds the bench's own ranks, and forgets slowly.
"""

import os
import pathlib
from typing import Self

_IDLE_FIELDS = (3, 4)
"""idle and iowait of /proc/stat's `cpu` line: user nice system idle iowait irq softirq steal ..."""
_NUM_FIELDS = 8
"""What follows is guests' time, which is in user time too."""


def num_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


class Share:
    """What of all cores' time others have taken since `start`, 0 to 1."""

    def __init__(self, all_s: float, busy_s: float, own_s: float) -> None:
        self._all_s = all_s
        self._busy_s = busy_s
        self._own_s = own_s

    @classmethod
    def start(cls) -> Self:
        """From now on."""
        return cls(*_spent_s())

    def of_others(self) -> float:
        """Until now. The bench's processes count when they have ended, so ask between runs."""
        all_s, busy_s, own_s = _spent_s()
        passed_s = all_s - self._all_s
        others_s = busy_s - self._busy_s - (own_s - self._own_s)
        return min(1.0, max(0.0, others_s / passed_s)) if passed_s > 0 else 0.0


def _spent_s() -> tuple[float, float, float]:
    """Time of all cores, their time with something to do, that of this process and its ended
    children."""
    line = pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    ticks = [int(word) for word in line.split()[1 : 1 + _NUM_FIELDS]]
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    idle = sum(ticks[i] for i in _IDLE_FIELDS)
    return sum(ticks) / ticks_per_s, (sum(ticks) - idle) / ticks_per_s, sum(os.times()[:4])
