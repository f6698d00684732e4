"""The program's own sleeps and clocks, while MPI.Wtime() is virtual.

`time.sleep` and a `select.select` of no files let virtual time pass and return at once: the rank's
NI moves up to the new clock, nothing waits in reality. The clocks of module `time` are this host's,
plus what was slept, so that a program that waits on any of them ends after as many sleeps as it
would elsewhere. Sleeps of other threads, and those of the standard library for its own purposes
(`subprocess`, `asyncio`), are real; so are waits for files. `datetime.now()` is not looked after.
"""

import functools
import operator
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from pagewire.transport.facade import clock  # noqa: F401  must bind the host's clocks first
from pagewire.transport.facade.progress import make_progress
from pagewire.transport.facade.rank import here

_LONGEST_NS = 2**62
_CLOCKS = ("time", "monotonic", "perf_counter")

_real_sleep = time.sleep
_real_select = select.select


class ProgramTime:
    """Virtual from `start` to `stop`; before and after, what is replaced is as it ever was."""

    def __init__(self) -> None:
        self.slept_ns = 0
        self._thread = 0

    def start(self) -> None:
        """The rank is there: its thread's sleeps are virtual from now on."""
        replace_clocks()
        self._thread = threading.get_ident()

    def stop(self) -> None:
        """The rank is no more."""
        self._thread = 0

    def is_virtual_for(self, caller: str) -> bool:
        """Whether a sleep called by module `caller` in this thread is virtual."""
        own = threading.get_ident() == self._thread and here.is_open
        return own and caller.partition(".")[0] not in sys.stdlib_module_names

    def sleep(self, seconds: Any) -> None:
        """Let virtual time pass; raises what time.sleep raises."""
        exact = seconds if isinstance(seconds, float) else operator.index(seconds)
        duration_ns = round(exact * 1e9)  # ValueError and OverflowError of NaN and infinity
        if duration_ns < 0:
            raise ValueError("sleep length must be non-negative")
        here.clock.enter_rdma()
        try:
            if here.clock.now_ns + duration_ns > _LONGEST_NS:
                raise OverflowError(f"sleep of {exact} s: virtual time ends at {_LONGEST_NS} ns")
            here.clock.sleep(duration_ns)
            self.slept_ns += duration_ns
            make_progress(False)
        finally:
            here.clock.leave()
        os.sched_yield()  # whom the program waits for may need the core


program_time = ProgramTime()


def _caller() -> str:
    """Module of whoever called the function that asks."""
    name: str = sys._getframe(2).f_globals.get("__name__", "")
    return name


@functools.wraps(_real_sleep)
def _sleep(seconds: Any, /) -> None:
    if program_time.is_virtual_for(_caller()):
        program_time.sleep(seconds)
    else:
        _real_sleep(seconds)


@functools.wraps(_real_select)
def _select(rlist: Any, wlist: Any, xlist: Any, timeout: Any = None, /) -> Any:
    no_files = not (rlist or wlist or xlist) and timeout is not None
    if no_files and program_time.is_virtual_for(_caller()):
        program_time.sleep(timeout)
        return [], [], []
    return _real_select(rlist, wlist, xlist, timeout)


def _shifted(name: str) -> Callable[[], float]:
    original = getattr(time, name)
    units = 1 if name.endswith("_ns") else 1e-9

    @functools.wraps(original)
    def read() -> float:
        now: float = original() + program_time.slept_ns * units
        return now

    return read


def replace_clocks() -> None:
    """Put the replacements in place, the second time nothing; before the program binds the
    names."""
    if time.sleep is _sleep:
        return
    time.sleep = _sleep
    select.select = _select
    for name in _CLOCKS:
        for each in (name, f"{name}_ns"):
            setattr(time, each, _shifted(each))
