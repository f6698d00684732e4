"""Runs a kernel's page-level stream on four engines: who waits for whom, and what was counted.

Every node has the whole shared range at addresses of its own, registered once. A fetch reads from
the home's range into one's own, a diff writes the other way. A node has one access on its way at a
time, as a processor that waits for its page fault; a barrier ends each phase.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pagewire.cli.experiments.mini_streams import FETCH, NUM_NODES, PAGE_BYTES, Access, Kernel
from pagewire.lab.buffer import Buffer
from pagewire.lab.nodes import Nodes
from pagewire.native import EngineError, check, lib
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import load as load_platform


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One kernel on one configuration."""

    time_ns: int
    counters: dict[str, int]
    """sums over the nodes"""
    alone_ns: int
    """all of the work on one node: nothing is fetched"""

    @property
    def speedup(self) -> float:
        """Against one node."""
        return self.alone_ns / self.time_ns

    def misses(self, which: str) -> int:
        return self.counters[f"vmh_{which}"]

    @property
    def lookups(self) -> int:
        return self.counters["vmh_lookups_send"] + self.counters["vmh_lookups_receive"]


class _Machine:
    """Four nodes with the shared range of a kernel."""

    def __init__(self, config: Config, kernel: Kernel) -> None:
        self.kernel = kernel
        self.platform = load_platform(config.run.platform)
        self.nodes = Nodes(config, self.platform, NUM_NODES)
        self.ranges = [Buffer(kernel.num_pages * PAGE_BYTES) for _ in range(NUM_NODES)]
        self.keys = []
        for node, each in enumerate(self.ranges):
            each.touch()
            each.fill(bytes([node + 1]) * each.num_bytes)
            self.keys.append(self.nodes.register(node, each.address, each.num_bytes))
        self.barrier_ns = 2 * self._word_ns()

    def _word_ns(self) -> int:
        """One word to another node by programmed I/O: a barrier is one there and one back."""
        costs = self.platform.costs
        posted = costs.packetizer_writes * costs.core_register_write_ns
        return int(
            posted + costs.ni_send_ns + costs.hop_ns + costs.ni_receive_ns + costs.mailbox_read_ns
        )

    def post(self, node: int, access: Access, at_ns: int) -> None:
        home = self.kernel.home(access.page)
        offset = access.page * PAGE_BYTES
        mine, theirs = self.ranges[node].address + offset, self.ranges[home].address + offset
        ends, num_bytes = (node, home), access.num_bytes
        if access.kind == FETCH:
            self.nodes.fetch(ends, theirs, self.keys[home], mine, num_bytes, at_ns)
        else:
            self.nodes.post_write(ends, mine, theirs, num_bytes, at_ns, self.keys[home])

    def phase(self, accesses: list[list[Access]], start_ns: int) -> int:
        """Every node's accesses one after the other; when the last one is over."""
        waiting = [iter(each) for each in accesses]
        end_ns = start_ns

        def handle(node: int, event: Any) -> None:
            nonlocal end_ns
            check(event.error, "access")
            if event.kind not in (lib.PW_HOST_FETCH_DONE, lib.PW_HOST_WRITE_DONE):
                return
            end_ns = max(end_ns, event.time_ns)
            following = next(waiting[node], None)
            if following is not None:
                self.post(node, following, event.time_ns)

        for node in range(NUM_NODES):
            first = next(waiting[node], None)
            if first is not None:
                self.post(node, first, start_ns)
        self.nodes.watch(handle)
        return end_ns

    def check_bytes(self) -> None:
        """A page that was fetched and never sent back holds its home's bytes."""
        phases = self.kernel.phases
        sent = {each.page for phase in phases for of in phase.accesses for each in of
                if each.kind != FETCH}  # fmt: skip
        for node, accesses in enumerate(phases[0].accesses):
            for page in {each.page for each in accesses} - sent:
                at = page * PAGE_BYTES
                expected = bytes([self.kernel.home(page) + 1]) * PAGE_BYTES
                if self.ranges[node].read()[at : at + PAGE_BYTES] != expected:
                    raise EngineError(int(lib.PW_ERR_HOST), f"{self.kernel.name}: wrong data")
                break  # one a node: a copy of the range is long


def run(config: Config, kernel: Kernel) -> Run:
    """The kernel from its first phase to its last barrier."""
    machine = _Machine(config, kernel)
    rates = machine.platform.rates
    now_ns = 0
    for phase in kernel.phases:
        now_ns = machine.phase(phase.accesses, now_ns) + machine.barrier_ns
        now_ns += rates.duration_ns(phase.flops, 0)
    machine.check_bytes()
    if any(engine.num_transactions for engine in machine.nodes.engines):
        raise EngineError(int(lib.PW_ERR_HOST), f"{kernel.name}: not over")
    return Run(
        time_ns=now_ns,
        counters=machine.nodes.counters(),
        alone_ns=rates.duration_ns(kernel.flops, 0),
    )
