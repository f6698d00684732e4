"""One rank's emulated node: engine, wire, clock, messages, rendezvous and progress, composed here.

Peers are ranks of COMM_WORLD, addresses ints, times ints of virtual ns. One thread a rank.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import resource
from typing import Any

from pagewire.r5sched import scheduling
from pagewire.transport.memory import host as memory_host
from pagewire.transport.memory.pages import Pages
from pagewire.transport.node import report
from pagewire.transport.node.clock import ComputeSource, CpuClock, wall_ns
from pagewire.transport.node.engine import Engine
from pagewire.transport.node.messages import Messages
from pagewire.transport.node.mpi_calls import MpiCalls
from pagewire.transport.node.notices import Notices
from pagewire.transport.node.progress import Progress
from pagewire.transport.node.rendezvous import Rendezvous
from pagewire.transport.node.watchdog import Watchdog
from pagewire.transport.node.wire import Wire
from pagewire.transport.settings import impairment_planners, platform
from pagewire.transport.settings.config import Config

_PR_SET_THP_DISABLE = 41


class Node:
    """Its making and its close are collective over COMM_WORLD."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.mpi_calls = MpiCalls(config.run.strict)
        self._started_ns = wall_ns()
        self._wire = Wire()
        if config.run.huge_pages == "never":
            _disable_huge_pages()
        self.platform = platform.load(config.run.platform)
        self.engine = Engine.of_config(
            self._planned(config), self.platform, self._wire.rank, self._wire.size
        )
        costs = self.platform.costs
        self.clock = CpuClock(
            ComputeSource(config.run, self.rank),
            call_ns=costs.mpi_call_ns,
            poll_ns=costs.poll_ns,
            read_ns=costs.clock_read_ns,
        )
        self.messages = Messages(self.engine, self.clock)
        self.rendezvous = Rendezvous(
            self.engine,
            self.clock,
            memory_host.create(config.run.memory, Pages(self.engine.memory, self.platform.tables)),
            _scheduler(config.firmware.scheduling),
        )
        self.notices = Notices()
        self.progress = Progress(
            self.engine,
            self._wire,
            self.clock,
            self.rendezvous,
            self.notices,
            Watchdog(config.run.watchdog_ns),
        )

    @property
    def rank(self) -> int:
        """This node's number."""
        return self._wire.rank

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self._wire.size

    def _planned(self, config: Config) -> Config:
        """The configuration with this rank's own impairments; refused if they do not fit it."""
        planned = impairment_planners.plan(
            rank=self.rank, num_ranks=self.size, configured=config.impairments
        )
        return dataclasses.replace(config, impairments=planned)

    def counters(self) -> dict[str, Any]:
        """What this rank counted, flat; keys as report.py wants them."""
        counted = self.engine.counters()
        counted["nacks_by_code"] = counted.pop("nacks")
        counted["nacks"] = sum(counted["nacks_by_code"])
        for kind in ("translation_faults", "permission_faults"):
            counted[kind] = counted[f"{kind}_source"] + counted[f"{kind}_destination"]
        bin_ns, bins = self.engine.interrupt_times()
        counted["interrupt_times"] = {"bin_ns": bin_ns, "bins": bins}
        counted["impairments"] = self.engine.impairment_counts()
        counted["mpi_calls"] = self.mpi_calls.as_dict()
        counted["mpi_sends"] = counted["eager_messages"] + counted["rdma_messages"]
        counted["mpi_bytes"] = counted["eager_bytes"] + counted["rdma_bytes"]
        counted |= self.clock.counters() | self.rendezvous.counters()
        counted["wall_time_s"] = (wall_ns() - self._started_ns) / 1e9
        counted["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return counted

    def close(self) -> None:
        """Report and take the node down. Before MPI is finalized.

        Raises OutputError, when everything else is done, for a file that could not be written.
        """
        directory = os.environ.get("PAGEWIRE_LAUNCH_DIR", "")
        counted = self.counters()
        per_rank = None if directory else self._wire.gather(counted)
        try:
            self.clock.close()
            if directory:
                report.leave(directory, self.rank, counted)
            elif per_rank is not None:
                report.finish(per_rank, self.config, self.config.run.json, self.config.run.quiet)
        finally:
            self.progress.reclaim()
            self._wire.close()
            self.engine.close()


def _scheduler(name: str) -> scheduling.Scheduler | None:
    own = scheduling.create(name)
    return None if own is None else scheduling.Scheduler(own, name)


def _disable_huge_pages() -> None:
    """The emulated machine pages in 4 KB steps; huge pages would hide faults behind the first."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0):
        raise OSError(
            ctypes.get_errno(),
            "run.huge_pages = 'never': the kernel refuses prctl(PR_SET_THP_DISABLE); "
            "set it to 'host'",
        )
