"""The virtual clock of a rank's CPU and the source of its compute time.

`enter` and `leave` bracket every MPI call; what lies between a leave and the next enter is compute.
It is measured (CPU time of the thread), replayed from an earlier run, declared by the program
(model), or nothing (none).
"""

from __future__ import annotations

import array
import time
from collections.abc import Callable

from pagewire.native.output import write_file
from pagewire.transport.settings.config import ConfigError, RunConfig

_thread_ns = time.thread_time_ns
wall_ns = time.perf_counter_ns

SHORT_NS = 5_000
"""Intervals up to here count by wall time: reading the thread's CPU time is a system call of 0.6
us, and a thread that was away for less than this cannot have lost more than this."""


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
        """Write what was recorded; raises OutputError."""
        if self._recorded is not None:
            write_file(self._record_path, self._recorded.tobytes())

    @property
    def unused(self) -> int:
        """Durations of the replay that this run had no call for."""
        return len(self._replay) - self._next


class CpuClock:
    """The CPU's clock of a rank, `now_ns`, and how its time divides.

    `call_ns` is what an MPI call costs the CPU, `poll_ns` a look for a completion, `read_ns` a
    reading of the clock.
    """

    def __init__(self, source: ComputeSource, *, call_ns: int, poll_ns: int, read_ns: int) -> None:
        self.source = source
        self.poll_ns = poll_ns
        self.sleep_ns = 0
        self.now_ns = 0
        self.compute_ns = 0
        self.mpi_ns = 0
        self.program_ran = True
        """The program's own code ran since the NI was last looked after, which takes this back."""
        self._call_ns = call_ns
        self._read_ns = read_ns
        self._depth = 0
        self._entered_ns = 0
        source.start()

    def enter(self) -> None:
        """At every public MPI entry: the compute since the last leave has passed."""
        self._depth += 1
        if self._depth == 1:
            source = self.source
            wall_now_ns = wall_ns()
            compute_ns = wall_now_ns - source.boundary_ns
            if source.is_plain and compute_ns < SHORT_NS:  # what next_ns does, without the calls
                source.cpu_ns += compute_ns
                source.boundary_ns = wall_now_ns
            else:
                compute_ns = source.next_ns()
            self.compute_ns += compute_ns
            self._entered_ns = entered_ns = self.now_ns + compute_ns
            self.now_ns = entered_ns + self._call_ns
            self.program_ran = True

    def enter_rdma(self) -> None:
        """At every entry of the RDMA library: as `enter`, without what an MPI call costs."""
        self.enter()
        if self._depth == 1:
            self.now_ns -= self._call_ns

    def leave(self) -> None:
        """At every public exit."""
        self._depth -= 1
        if not self._depth:
            self.mpi_ns += self.now_ns - self._entered_ns
            if self.source.needs_leave:
                self.source.leave()

    def wtime_s(self) -> float:
        """Virtual time now, in s. The reading costs some: a program that waits on it ends."""
        if not self._depth:
            compute_ns = self.source.next_ns()
            self.compute_ns += compute_ns
            self.now_ns += compute_ns
            self.source.leave()
        self.now_ns += self._read_ns
        return self.now_ns * 1e-9

    def sleep(self, duration_ns: int) -> None:
        """The program lets time pass, between `enter` and `leave`."""
        self.now_ns += duration_ns
        self._entered_ns += duration_ns  # not the library's time
        self.sleep_ns += duration_ns

    def declare_compute(self, duration_ns: int) -> None:
        """The program says what its work takes on the emulated node (compute = model)."""
        self.source.declared_ns += duration_ns

    def completed(self, complete_ns: int) -> None:
        """The CPU learns of a completion."""
        now_ns = self.now_ns
        self.now_ns = max(now_ns, complete_ns) + self.poll_ns

    def close(self) -> None:
        """Write the compute durations, where they are recorded."""
        self.source.close()

    def counters(self) -> dict[str, int]:
        """Virtual times of the CPU; with a replay, which of its durations did not fit."""
        counted = {
            "virtual_time_ns": self.now_ns,
            "compute_ns": self.compute_ns,
            "mpi_ns": self.mpi_ns,
            "sleep_ns": self.sleep_ns,
        }
        if self.source.mode == "replay":
            counted["replay_missing"] = self.source.missing
            counted["replay_unused"] = self.source.unused
        return counted
