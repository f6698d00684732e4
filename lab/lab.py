"""`Lab`: two to n network interfaces in one process, and what can be done with them.

What it does not have: MPI, matching, other traffic, hosts' noise. Settings of MPI runs
alone (compute, eager limit, wires) change nothing here. Strategies that keep something from one
transfer to the next (caches of pins, bounce buffers) need a program's life: `pagewire compare`.
"""

import collections
import dataclasses
import inspect
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pagewire.driver.policy import PageInPolicy
from pagewire.lab.bench import Bench, Step
from pagewire.lab.nodes import Nodes
from pagewire.lab.outcome import Outcome
from pagewire.lab.recorder import Recording
from pagewire.lab.transfer import (
    OPERATIONS,
    Absent,
    Transfer,
    parse_absent,
    parse_max_size,
    parse_size,
)
from pagewire.native import lib
from pagewire.native.closing import Closing
from pagewire.native.settings import ConfigError, suggestion
from pagewire.run.settings.config import Config, load
from pagewire.run.settings.platform import Platform
from pagewire.run.settings.platform import load as load_platform

MEMORIES = (
    *("part", "pretouch", "hybrid", "pin", "kernel", "ideal", "odp", "np-rdma", "ats"),
    "backup-ring",
)
"""Strategies of which nothing is kept between two transfers."""
NODES_MAX = 65536
PROCESSES_MAX = int(lib.PW_CHANNEL_PAGES)
_OUTSTANDING_MAX = int(lib.PW_WRITE_CHANNELS)

Policy = str | PageInPolicy | type[PageInPolicy] | None
"""A name as in `run.policy`; or a class, of which each node has an object; or one object that all
nodes ask; None: what the settings say."""


class Lab(Closing):
    """NIs in one process; transfers follow each other at rest, and equal ones take equal times.

    A context manager, for who wants the memory back early. Bad input raises ConfigError; what goes
    wrong in a transfer raises EngineError, or PolicyError of the page-in policy.
    """

    def __init__(
        self,
        *,
        nodes: int = 2,
        processes: int = 1,
        policy: Policy = None,
        memory: str | None = None,
        settings: Mapping[str, Any] | Config | None = None,
        platform: Platform | None = None,
        max_size: int | str = "16MiB",
        seed: int = 1,
        trace: str = "",
    ) -> None:
        """nodes: 1 sends to itself (R5 loopback). processes: of each node, up to 16, that share its
        NI: links, R5, SMMU, FIFO and driver; each has a protection domain of its own.

        policy, memory: what transfers use that do not say otherwise. settings: values by dotted
        name, as {"run.timeout": "100us"}; neither environment nor configuration file is looked at,
        unless it is a Config that was loaded from these. platform: costs, in place of those that
        run.platform names. max_size: largest transfer. seed: of absent pages that are given as a
        fraction. trace: `close` writes the timeline of all transfers to this file, for
        ui.perfetto.dev; it calls nodes ranks.
        """
        if not isinstance(nodes, int) or not 1 <= nodes <= NODES_MAX:
            raise ConfigError(f"nodes = {nodes!r}: allowed is a whole number from 1 to {NODES_MAX}")
        if not isinstance(processes, int) or not 1 <= processes <= PROCESSES_MAX:
            raise ConfigError(
                f"processes = {processes!r}: allowed is a whole number from 1 to {PROCESSES_MAX}, "
                "the pages of the R5's scratchpad"
            )
        self._config = settings if isinstance(settings, Config) else _load(settings or {})
        self._num_nodes = nodes
        self._num_processes = processes
        self._max_bytes = parse_max_size(max_size)
        self._policy: Policy = self._config.run.policy if policy is None else policy
        self._memory = self._config.run.memory if memory is None else memory
        self._draw = random.Random(seed)
        self._trace = trace
        self._recording: Recording | None = None
        self._benches: dict[tuple[object, str], Bench] = {}
        self._objects: list[object] = []  # keeps each id in _benches that of one object
        self.platform: Platform = platform or load_platform(self._config.run.platform)
        """costs, with source and unit"""
        self._bench(None, None)

    def close(self) -> None:
        """Give back engines and buffers, write the timeline; the next transfer makes new ones.

        Raises OutputError when the timeline cannot be written.
        """
        for bench in self._benches.values():
            bench.nodes.close()
        self._benches.clear()
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.write()

    @property
    def nodes(self) -> Nodes:
        """The NIs of the lab's own policy and memory: engines, traces, registers."""
        return self._bench(None, None).nodes

    def write(
        self,
        size: int | str,
        *,
        absent: Absent = None,
        source_absent: Absent = None,
        initiator: int = 0,
        target: int | None = None,
        policy: Policy = None,
        memory: str | None = None,
        traced: bool = False,
    ) -> Outcome:
        """The initiator writes to the target, alone on all nodes.

        absent: pages of the destination that are not there at the user's call; source_absent: of
        the source. policy, memory: for this transfer; others than the lab's have NIs of their own.
        traced: keep the engine's trace.
        """
        asked = Transfer(
            size=size, absent=absent, source_absent=source_absent, initiator=initiator,
            target=target,
        )  # fmt: skip
        return self._together([asked], policy, memory, traced, 0)[0]

    def read(
        self,
        size: int | str,
        *,
        absent: Absent = None,
        source_absent: Absent = None,
        initiator: int = 0,
        target: int | None = None,
        policy: Policy = None,
        memory: str | None = None,
        traced: bool = False,
    ) -> Outcome:
        """The initiator reads from the target; the rest as `write`, the destination is here."""
        asked = Transfer(
            size=size, operation="read", absent=absent, source_absent=source_absent,
            initiator=initiator, target=target,
        )  # fmt: skip
        return self._together([asked], policy, memory, traced, 0)[0]

    def sequence(
        self,
        transfers: Iterable[Transfer],
        *,
        repetitions: int = 1,
        policy: Policy = None,
        memory: str | None = None,
        traced: bool = False,
    ) -> list[Outcome]:
        """One transfer after the other, each alone; all of them so many times."""
        if not isinstance(repetitions, int) or repetitions < 1:
            raise ConfigError(f"repetitions = {repetitions!r}: allowed is a whole number from 1 on")
        asked = list(transfers)
        return [
            self._together([each], policy, memory, traced, idx)[0]
            for idx in range(repetitions)
            for each in asked
        ]

    def together(
        self,
        transfers: Iterable[Transfer],
        *,
        policy: Policy = None,
        memory: str | None = None,
        traced: bool = False,
    ) -> list[Outcome]:
        """All of them on the way at the same time, each with buffers of its own, posted `at_us`."""
        return self._together(list(transfers), policy, memory, traced, 0)

    def _together(
        self,
        transfers: list[Transfer],
        policy: Policy,
        memory: str | None,
        traced: bool,
        repetition: int,
    ) -> list[Outcome]:
        steps = [self._step(each) for each in transfers]
        leaving = collections.Counter((step.ends[0], step.process) for step in steps)
        for (node, process), count in leaving.items():
            if count > _OUTSTANDING_MAX:
                raise ConfigError(
                    f"{count} transfers together of process {process} from node {node}: it has "
                    f"{_OUTSTANDING_MAX} channels; take fewer, or another call of `together` for "
                    "the rest"
                )
        if not steps:
            return []
        bench = self._bench(policy, memory)
        try:
            return bench.transfer(steps, traced=traced, repetition=repetition)
        except BaseException:  # these NIs are in the middle of something; the next have new ones
            self._benches = {key: each for key, each in self._benches.items() if each is not bench}
            raise

    def _step(self, asked: Transfer) -> Step:
        if asked.operation not in OPERATIONS:
            raise ConfigError(
                f"operation = {asked.operation!r}: allowed is one of {', '.join(OPERATIONS)}"
            )
        num_bytes = parse_size(asked.size)
        if num_bytes > self._max_bytes:
            raise ConfigError(
                f"size = {asked.size!r}: this lab's buffers hold {self._max_bytes} B; make it with "
                "a larger max_size"
            )
        target = min(1, self._num_nodes - 1) if asked.target is None else asked.target
        for name, node in (("initiator", asked.initiator), ("target", target)):
            if not isinstance(node, int) or node not in range(self._num_nodes):
                raise ConfigError(
                    f"{name} = {node!r}: this lab has nodes 0 to {self._num_nodes - 1}; "
                    "make it with more nodes"
                )
        if not isinstance(asked.process, int) or asked.process not in range(self._num_processes):
            raise ConfigError(
                f"process = {asked.process!r}: nodes of this lab have processes 0 to "
                f"{self._num_processes - 1}; make it with more processes"
            )
        if not 0 <= asked.at_us <= 1e9:
            raise ConfigError(f"at_us = {asked.at_us!r}: allowed is 0 to 1e9 (1000 s)")
        return Step(
            operation=asked.operation,
            num_bytes=num_bytes,
            initiator=asked.initiator,
            target=target,
            source_absent=parse_absent("source_absent", asked.source_absent, num_bytes, self._draw),
            destination_absent=parse_absent("absent", asked.absent, num_bytes, self._draw),
            at_ns=round(asked.at_us * 1e3),
            process=asked.process,
        )

    def _bench(self, policy: Policy, memory: str | None) -> Bench:
        """The NIs of this policy and memory; made at their first use."""
        chosen: Policy = self._policy if policy is None else policy
        strategy = self._memory if memory is None else memory
        if strategy not in MEMORIES:
            raise ConfigError(
                f"memory = {strategy!r}: allowed is one of {', '.join(MEMORIES)}"
                f"{suggestion(str(strategy), MEMORIES)}; strategies that keep something between "
                "transfers need a program: pagewire compare"
            )
        key = (chosen if isinstance(chosen, str) else id(chosen)), strategy
        if key not in self._benches:
            name, make_policy = _policy(chosen)
            run = dataclasses.replace(self._config.run, policy=name, memory=strategy)
            config = dataclasses.replace(self._config, run=run)
            self._objects.append(chosen)
            if self._trace and self._recording is None:
                self._recording = Recording(self._trace)
            self._benches[key] = Bench(
                config,
                self.platform,
                self._num_nodes,
                self._max_bytes,
                make_policy,
                self._recording.recorder(config) if self._recording else None,
                self._num_processes,
            )
        return self._benches[key]


def _policy(policy: Policy) -> tuple[str, Callable[[], PageInPolicy] | None]:
    """How messages call it, and what makes each node's object when it is not a name."""
    if isinstance(policy, str):
        return policy, None
    cls = policy if isinstance(policy, type) else type(policy)
    if not issubclass(cls, PageInPolicy) or inspect.isabstract(cls):
        raise ConfigError(
            f"policy = {policy!r}: allowed is a name (page, block, all, module:Class), or a class "
            "derived from pagewire.driver.policy.PageInPolicy that defines `pages`, or an object "
            "of one"
        )
    name = f"{cls.__module__}:{cls.__name__}"
    if isinstance(policy, PageInPolicy):
        return name, lambda: policy
    return name, cls


def _load(settings: Mapping[str, Any]) -> Config:
    """Settings of the lab alone: equal calls give equal times on every machine."""
    if not isinstance(settings, Mapping):
        raise ConfigError(
            f"settings = {settings!r}: allowed is a dictionary of values by dotted name, e.g. "
            '{"run.timeout": "100us"}, or a Config'
        )
    special = {True: "true", False: "false", None: "none"}
    return load(
        [
            f"{name}={special[value] if value is None or isinstance(value, bool) else value}"
            for name, value in settings.items()
        ],
        environ={},
    )
