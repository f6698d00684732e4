"""The virtual clock of a rank's CPU and the source of its compute time.

`enter` and `leave` bracket every MPI call; what lies between a leave and the next enter is compute.
It is measured (CPU time of the thread), replayed from an earlier run, declared by the program
(model), or nothing (none).
"""

from __future__ import annotations

import array
import os
import time
from collections.abc import Callable

from pagewire.transport.config import ConfigError, RunConfig

_thread_ns = time.thread_time_ns
wall_ns = time.perf_counter_ns

SHORT_NS = 5_000
"""Intervals up to here count by wall time: reading the thread's CPU time is a system call of 0.6 us,
and a thread that was away for less than this cannot have lost more than this."""


class ComputeSource:
    """Durations between MPI calls, in ns, one for each outermost call."""

    def __init__(self, config: RunConfig, rank: int) -> None:
        self.mode = config.compute
        self.declared_ns = 0
        self.missing = 0
        self._scale = config.compute_scale
        self.cpu_ns = 0  # the thread's CPU time at the last boundary
        self.boundary_ns = 0  # the wall clock's there
        self._recorded = array.array("q") if config.compute_record else None
        self._record_path = f"{config.compute_record}.{rank}"
        self._replay = array.array("q")
        self._next = 0
        if self.mode == "replay":
            path = f"{config.compute_replay}.{rank}"
            try:
                with open(path, "rb") as file:
                    self._replay.frombytes(file.read())
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"run.compute_replay: '{path}' cannot be read ({error}); record it first with "
                    "run.compute_record and the same number of ranks"
                ) from None
        choices: dict[str, Callable[[], int]] = {
            "measured": self._measured,
            "replay": self._replayed,
            "model": self._modelled,
            "none": self._nothing,
        }
        self.next_ns = choices[self.mode]
        self.is_plain = self.mode == "measured" and self._recorded is None and self._scale == 1.0
        self.needs_leave = self.mode == "measured" or self._recorded is not None
        if self._recorded is not None:
            self.next_ns = self._record

    def start(self) -> None:
        """Compute begins now."""
        self.cpu_ns = _thread_ns()
        self.boundary_ns = wall_ns()

    def leave(self) -> None:
        """An MPI call ends, compute begins."""
        now_ns = wall_ns()
        passed_ns = now_ns - self.boundary_ns
        if passed_ns < SHORT_NS:
            self.cpu_ns += passed_ns
            self.boundary_ns = now_ns
        else:
            self.start()

    def _elapsed(self) -> int:
        """CPU time of the thread since the last boundary; now is the next one."""
        now_ns = wall_ns()
        passed_ns = now_ns - self.boundary_ns
        if passed_ns < SHORT_NS:
            self.cpu_ns += passed_ns
            self.boundary_ns = now_ns
            return passed_ns
        before_ns = self.cpu_ns
        self.start()
        return max(0, self.cpu_ns - before_ns)

    def _measured(self) -> int:
        return int(self._elapsed() * self._scale)

    def _replayed(self) -> int:
        if self._next >= len(self._replay):
            self.missing += 1
            return 0
        duration_ns = self._replay[self._next]
        self._next += 1
        return int(duration_ns * self._scale)

    def _modelled(self) -> int:
        declared_ns, self.declared_ns = self.declared_ns, 0
        return int(declared_ns * self._scale)

    def _nothing(self) -> int:
        return 0

    def _record(self) -> int:
        duration_ns = self._elapsed()
        assert self._recorded is not None
        self._recorded.append(duration_ns)
        return int(duration_ns * self._scale) if self.mode == "measured" else 0

    def close(self) -> None:
        """Write what was recorded."""
        if self._recorded is not None:
            temporary = f"{self._record_path}.part"
            with open(temporary, "wb") as file:
                self._recorded.tofile(file)
            os.replace(temporary, self._record_path)

    @property
    def unused(self) -> int:
        """Durations of the replay that this run had no call for."""
        return len(self._replay) - self._next
