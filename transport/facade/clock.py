"""The virtual clock of a rank's CPU, which is the node's (clock.h), seen from Python; and where its
compute time comes from.
"""

from __future__ import annotations

import os
import time
from functools import partial
from operator import attrgetter
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
    """`now_ns` is the CPU's time, which all threads of a rank share. The functions may be called by
    any of them, and in what the node asks of its host."""

    now_ns = property(attrgetter("_c.now_ns"))
    compute_ns = property(attrgetter("_c.compute_ns"))
    """Time between calls."""
    mpi_ns = property(attrgetter("_c.mpi_ns"))
    """Time in calls, but for sleeps."""
    sleep_ns = property(attrgetter("_c.sleep_ns"))
    """Time that the program slept."""
    poll_ns = property(attrgetter("_c.poll_ns"))
    """What a look for a completion costs the CPU."""

    def __init__(self, node: Any, config: RunConfig, rank: int) -> None:
        """node: a pw_node."""
        self._c = lib.pw_node_clock(node)
        self._node = node
        self._record_to = config.compute_record
        self._rank = rank

        self.enter = partial(lib.pw_node_clock_enter, node, True)
        """At an entry of MPI that is not counted among the program's calls."""
        self.enter_rdma = partial(lib.pw_node_clock_enter, node, False)
        """At every entry of the RDMA library: the compute since the last leave has passed."""
        self.leave = partial(lib.pw_node_clock_leave, node)
        """At every public exit."""
        self.sleep = partial(lib.pw_node_clock_sleep, node)
        """The program lets so many ns pass, between `enter_rdma` and `leave`."""
        self.declare_compute = partial(lib.pw_node_clock_declare, node)
        """The program says what ns its work takes on the emulated node (compute = model)."""
        self.completed = partial(lib.pw_node_clock_completed, node)
        """The CPU learns of a completion at that time."""
        self.reach = partial(lib.pw_node_clock_reach, node)
        """It is at least that late."""
        self.meet = partial(lib.pw_node_clock_meet, node)
        """It is that of the latest of a group, whose number and members follow."""
        self.work = partial(lib.pw_node_clock_pass, node)
        """The CPU works for so many ns, within a call."""
        self.failed_test = partial(lib.pw_node_clock_failed_test, node)
        """A look, whether for something in the future and what it costs in ns, found nothing: see
        pw_node_failed_test."""

    def wtime_s(self) -> float:
        """Virtual time now, in s. The reading costs some: a program that waits on it ends."""
        return float(lib.pw_node_clock_read(self._node) * 1e-9)

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
