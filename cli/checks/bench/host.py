"""How much of this host other programs take while the bench measures.

The load average will not do: it holds the bench's own ranks, and forgets slowly.
"""

import os
import pathlib

_IDLE_FIELDS = (3, 4)
"""idle and iowait of /proc/stat's `cpu` line: user nice system idle iowait irq softirq steal ..."""
_NUM_FIELDS = 8
"""What follows is guests' time, which is in user time too."""


def num_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


Spent = tuple[float, float, float]
"""In s: time of all cores, their time with something to do, that of this process and its ended
children."""


def share_of_others(before: Spent, after: Spent) -> float:
    """What of all cores' time others have taken, 0 to 1. The bench's processes count when they have
    ended, so ask between runs."""
    all_s, busy_s, own_s = (now - then for then, now in zip(before, after, strict=True))
    return min(1.0, max(0.0, (busy_s - own_s) / all_s)) if all_s > 0 else 0.0


def spent_s() -> Spent:
    """Until now."""
    line = pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    ticks = [int(word) for word in line.split()[1 : 1 + _NUM_FIELDS]]
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    idle = sum(ticks[i] for i in _IDLE_FIELDS)
    return sum(ticks) / ticks_per_s, (sum(ticks) - idle) / ticks_per_s, sum(os.times()[:4])
