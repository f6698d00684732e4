"""Runs a kernel's page-level stream on four engines: who waits for whom, and what was counted.

Every node has the whole shared range at addresses of its own, registered once. A fetch reads from
the home's range into one's own, a diff writes the other way. A processor has one access on its way
at a time, since it waits for its page fault; a node has two of them; a barrier ends each phase.

A processor leaves a barrier up to the time of a word after the first one (assumed, drawn, alike in
each run). If all left in the same ns, the order of equal requests would be that of the nodes'
numbers, at every page anew: two homes then answer the same node at once, and its link takes one.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from pagewire.cli.experiments.mini_streams import (
    FETCH,
    NUM_NODES,
    NUM_PROCESSORS,
    PAGE_BYTES,
    Access,
    Kernel,
    Phase,
)
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
    """all of the work on one processor: nothing is fetched"""

    @property
    def speedup(self) -> float:
        """Against one processor."""
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
        self.word_ns = self._word_ns()
        self._draw = random.Random(1)

    def _word_ns(self) -> int:
        """One word to another node by programmed I/O: a barrier is one there and one back."""
        costs = self.platform.costs
        posted = costs.packetizer_writes * costs.core_register_write_ns
        return int(
            posted + costs.ni_send_ns + costs.hop_ns + costs.ni_receive_ns + costs.mailbox_read_ns
        )

    def post(self, node: int, access: Access, at_ns: int) -> int:
        """Its id in the events of the node."""
        home = self.kernel.home(access.page)
        offset = access.page * PAGE_BYTES
        mine, theirs = self.ranges[node].address + offset, self.ranges[home].address + offset
        ends, num_bytes = (node, home), access.num_bytes
        if access.kind == FETCH:
            return self.nodes.fetch(ends, theirs, self.keys[home], mine, num_bytes, at_ns)
        return self.nodes.post_write(ends, mine, theirs, num_bytes, at_ns, self.keys[home])

    def phase(self, phase: Phase, start_ns: int) -> int:
        """Every processor's accesses one after the other; when the last one is over."""
        processors = range(NUM_NODES * NUM_PROCESSORS)
        waiting = [iter(phase.of_processor(each)) for each in processors]
        under_way: dict[tuple[int, int], int] = {}
        end_ns = start_ns

        def start_next(processor: int, at_ns: int) -> None:
            following = next(waiting[processor], None)
            if following is not None:
                node = processor // NUM_PROCESSORS
                under_way[node, self.post(node, following, at_ns)] = processor

        def handle(node: int, event: Any) -> None:
            nonlocal end_ns
            check(event.error, "access")
            if event.kind not in (lib.PW_HOST_FETCH_DONE, lib.PW_HOST_WRITE_DONE):
                return
            end_ns = max(end_ns, event.time_ns)
            start_next(under_way.pop((node, event.id)), event.time_ns)

        for processor in processors:
            start_next(processor, start_ns + self._draw.randrange(self.word_ns))
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
        now_ns = machine.phase(phase, now_ns) + 2 * machine.word_ns
        now_ns += rates.duration_ns(phase.flops / NUM_PROCESSORS, 0)
    machine.check_bytes()
    if any(engine.num_transactions for engine in machine.nodes.engines):
        raise EngineError(int(lib.PW_ERR_HOST), f"{kernel.name}: not over")
    return Run(
        time_ns=now_ns,
        counters=machine.nodes.counters(),
        alone_ns=rates.duration_ns(kernel.flops, 0),
    )
