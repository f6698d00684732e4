"""The virtual clock of a rank's CPU, which is the node's (clock.h), seen from Python; and where its
compute time comes from.
"""

from __future__ import annotations

import os
import time
from typing import Any

from pagewire.native import EngineError, ffi, lib
from pagewire.native.output import OutputError
from pagewire.run.settings.config import ConfigError, RunConfig

wall_ns = time.perf_counter_ns
"""The host's clock, as the node's C reads it."""


def replayed_durations(config: RunConfig, rank: int) -> tuple[Any, int]:
    """Durations in ns between calls that an earlier run has recorded (int64_t *), and how many;
    NULL and 0 in other modes."""
    if config.compute != "replay":
        return ffi.NULL, 0
    made, count, reason = ffi.new("int64_t **"), ffi.new("uint64_t *"), _reason()
    if lib.pw_durations_read(os.fsencode(config.compute_replay), rank, made, count, reason):
        raise ConfigError(ffi.string(reason).decode(errors="replace"))
    return ffi.gc(made[0], lib.pw_durations_free), int(count[0])


def _reason() -> Any:
    return ffi.new("char[]", int(lib.PW_CONFIG_REASON_BYTES))


class CpuClock:
    """`now_ns` is the CPU's time, which all threads of a rank share. The methods may be called by
    any of them, and in what the node asks of its host."""

    __slots__ = ("_c", "_node", "_rank", "_record_to", "poll_ns")

    def __init__(self, node: Any, config: RunConfig, rank: int) -> None:
        """node: a pw_node."""
        self._node = node
        self._c = c = lib.pw_node_clock(node)
        self._record_to = config.compute_record
        self._rank = rank
        self.poll_ns = int(c.poll_ns)
        """What a look for a completion costs the CPU."""

    @property
    def now_ns(self) -> int:
        return int(self._c.now_ns)

    @property
    def compute_ns(self) -> int:
        """Time between calls."""
        return int(self._c.compute_ns)

    @property
    def mpi_ns(self) -> int:
        """Time in calls, but for sleeps."""
        return int(self._c.mpi_ns)

    @property
    def sleep_ns(self) -> int:
        """Time that the program slept."""
        return int(self._c.sleep_ns)

    def enter(self) -> None:
        """At an entry of MPI that is not counted among the program's calls."""
        lib.pw_node_clock_enter(self._node, True)

    def enter_rdma(self) -> None:
        """At every entry of the RDMA library: the compute since the last leave has passed."""
        lib.pw_node_clock_enter(self._node, False)

    def leave(self) -> None:
        """At every public exit."""
        lib.pw_node_clock_leave(self._node)

    def wtime_s(self) -> float:
        """Virtual time now, in s. The reading costs some: a program that waits on it ends."""
        return float(lib.pw_node_clock_read(self._node) * 1e-9)

    def sleep(self, duration_ns: int) -> None:
        """The program lets time pass, between `enter_rdma` and `leave`."""
        lib.pw_node_clock_sleep(self._node, duration_ns)

    def declare_compute(self, duration_ns: int) -> None:
        """The program says what its work takes on the emulated node (compute = model)."""
        lib.pw_node_clock_declare(self._node, duration_ns)

    def completed(self, complete_ns: int) -> None:
        """The CPU learns of a completion."""
        lib.pw_node_clock_completed(self._node, complete_ns)

    def reach(self, time_ns: int) -> None:
        """It is at least that late."""
        lib.pw_node_clock_reach(self._node, time_ns)

    def work(self, duration_ns: int) -> None:
        """The CPU works for so long, within a call."""
        lib.pw_node_clock_pass(self._node, duration_ns)

    def failed_test(self, is_future: bool, poll_ns: int) -> None:
        """A look found nothing: see pw_node_failed_test."""
        lib.pw_node_clock_failed_test(self._node, is_future, poll_ns)

    def close(self) -> None:
        """Write the compute durations, where they are recorded; raises OutputError."""
        if not self._record_to:
            return
        if self._c.recording_error:
            raise EngineError(
                self._c.recording_error,
                f"run.compute_record: no memory for the durations of '{self._record_to}'",
            )
        count, reason = ffi.new("uint64_t *"), _reason()
        durations = lib.pw_clock_recorded(self._c, count)
        path = os.fsencode(self._record_to)
        if lib.pw_durations_write(path, self._rank, durations, count[0], reason):
            raise OutputError(ffi.string(reason).decode(errors="replace"))
