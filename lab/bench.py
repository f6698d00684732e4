"""Nodes of one configuration with real buffers; transfers follow each other at rest.

Buffers are anonymous pages; residency is the operating system's (backend `host`): absent pages are
dropped by madvise and their translations invalidated, as the OS would. The bytes are compared after
each transfer.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

from pagewire.driver.policy import PageInPolicy
from pagewire.lab.buffer import PAGE_BYTES, Buffer, buffers_of_one_gigabyte
from pagewire.lab.nodes import Event, Nodes
from pagewire.lab.outcome import Outcome
from pagewire.lab.recorder import Recorder
from pagewire.native import EngineError, lib
from pagewire.native.settings import ConfigError
from pagewire.ni.engine_view import TraceRecord
from pagewire.node.strategies import host as memory_host
from pagewire.node.strategies.pages import Pages
from pagewire.node.strategies.strategy import Access
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import Platform

GAP_NS = 20_000_000
"""Virtual rest between two transfers, so that nothing of the first meets the second."""
TRACE_RECORDS = 400_000
_UNIT = bytes((i * 7 + 1) % 251 for i in range(251))


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One transfer, checked."""

    operation: str
    num_bytes: int
    initiator: int
    target: int
    source_absent: Sequence[int] = ()
    destination_absent: Sequence[int] = ()
    at_ns: int = 0
    process: int = 0

    @property
    def is_write(self) -> bool:
        return self.operation == "write"

    @property
    def ends(self) -> tuple[int, int]:
        """Nodes of source and destination."""
        there = self.initiator, self.target
        return there if self.is_write else there[::-1]

    def __str__(self) -> str:
        how = "to" if self.is_write else "from"
        ends = f"node {self.initiator} {how} node {self.target}"
        return f"{self.operation} of {self.num_bytes} B of {ends}"


class _Place:
    """Source and destination of one transfer at a time, and which TLBs know them."""

    def __init__(self, source: Buffer, destination: Buffer, idx: int) -> None:
        """idx: places of other indices have other bytes."""
        self.source, self.destination = source, destination
        self.warm_bytes: dict[tuple[tuple[int, int], int], int] = {}
        self._shift = idx % len(_UNIT)

    def data(self, num_bytes: int) -> bytes:
        """What a source holds."""
        repeated = _UNIT * ((num_bytes + self._shift) // len(_UNIT) + 1)
        return repeated[self._shift : self._shift + num_bytes]

    def prepare(self, step: Step, nodes: Nodes) -> None:
        """Fill and touch, then take away what shall be absent."""
        self.source.fill(self.data(step.num_bytes))
        self.destination.touch()
        buffers = (self.source, step.source_absent), (self.destination, step.destination_absent)
        for node, (buffer, pages) in zip(step.ends, buffers, strict=True):
            if pages:
                buffer.drop(pages)
                nodes.engines[node].invalidate(buffer.first_page, buffer.num_pages)

    def check(self, step: Step) -> None:
        """The destination holds what the source held; absent pages of it were zeros."""
        expected = bytearray(self.data(step.num_bytes))
        for page in step.source_absent:
            at = page * PAGE_BYTES
            expected[at : at + PAGE_BYTES] = bytes(len(expected[at : at + PAGE_BYTES]))
        if self.destination.read(step.num_bytes) != expected:
            raise EngineError(int(lib.PW_ERR_HOST), f"{step}: wrong data")


class Bench:
    """The nodes, and a place for each of the transfers that go together."""

    def __init__(
        self,
        config: Config,
        platform: Platform,
        num_nodes: int,
        max_bytes: int,
        make_policy: Callable[[], PageInPolicy] | None = None,
        timeline: Recorder | None = None,
        num_processes: int = 1,
    ) -> None:
        """max_bytes: largest transfer to come. make_policy, num_processes: as Nodes. timeline: of
        transfers."""
        if config.memory_backend.backend != "host":
            raise ConfigError(
                "memory_backend.backend = 'model': a lab drops real pages; take 'host'"
            )
        self.config, self.platform = config, platform
        self.nodes = Nodes(config, platform, num_nodes, make_policy, num_processes)
        self._max_bytes = max_bytes
        self._timeline = timeline
        self._places: list[_Place] = []
        self._now_ns = 0

    def transfer(
        self, steps: Sequence[Step], *, traced: bool = False, repetition: int = 0
    ) -> list[Outcome]:
        """All of them together, with nothing else on the way; outcomes in their order."""
        if len(self._places) < len(steps):
            self._make_places(len(steps))
        placed = list(zip(steps, self._places, strict=False))
        for step, place in placed:
            knowing = step.ends, step.process
            if step.num_bytes > place.warm_bytes.get(knowing, 0):
                place.warm_bytes[knowing] = step.num_bytes  # TLBs know it from here on
                plain = dataclasses.replace(step, source_absent=(), destination_absent=(), at_ns=0)
                self._transfer([(plain, place)], "part", False, 0, is_asked=False)
        return self._transfer(placed, self.config.run.memory, traced, repetition)

    def _make_places(self, count: int) -> None:
        """New ones for all, which lie close to each other; nothing is left of the old ones."""
        for place in self._places:
            for buffer in (place.source, place.destination):
                for engine in self.nodes.engines:
                    engine.invalidate(buffer.first_page, buffer.num_pages)
        self._places = []
        made = buffers_of_one_gigabyte(2 * count, self._max_bytes)
        pairs = zip(made[::2], made[1::2], strict=True)
        self._places = [_Place(*pair, idx) for idx, pair in enumerate(pairs)]

    def _transfer(
        self,
        placed: Sequence[tuple[Step, _Place]],
        memory: str,
        traced: bool,
        repetition: int,
        *,
        is_asked: bool = True,
    ) -> list[Outcome]:
        nodes, timeline = self.nodes, self._timeline if is_asked else None
        for step, place in placed:
            place.prepare(step, nodes)
        with contextlib.ExitStack() as open_:
            leases = []
            for step, place in placed:
                engine = nodes.engines[step.ends[1]]
                pages = Pages(
                    engine.memory,
                    self.platform.tables,
                    costs=engine.costs,
                    settings=engine.settings,
                )
                preparing = open_.enter_context(
                    contextlib.closing(memory_host.create(memory, pages))
                )
                address = place.destination.address
                leases.append((preparing, preparing.acquire(address, step.num_bytes, Access.WRITE)))
            if timeline is not None:
                timeline.begin(nodes)
            elif traced:
                nodes.trace_start(TRACE_RECORDS)
            before = nodes.counters()
            posted = self._post(placed, [sum(lease.cost) for _, lease in leases])
            events = nodes.events()
            for preparing, lease in leases:
                preparing.release(lease)
        counters = {name: value - before[name] for name, value in nodes.counters().items()}
        if not nodes.is_quiet:
            raise EngineError(
                int(lib.PW_ERR_HOST),
                f"{placed[0][0]}: not over, and nothing is left to do; a block waits for an ERR or "
                "a timer that will not come: set run.timeout, or run.err = true",
            )
        for step, place in placed:
            place.check(step)
        if timeline is not None:
            timeline.keep(nodes)
        trace = nodes.trace_since(self._now_ns) if traced else ()
        outcomes = [
            self._outcome(step, id_, prepare_ns, events, repetition, trace, counters)
            for (step, _), (id_, prepare_ns) in zip(placed, posted, strict=True)
        ]
        self._now_ns = max(each.time_ns for each in events) + GAP_NS
        return outcomes

    def _post(
        self, placed: Sequence[tuple[Step, _Place]], costs_ns: Sequence[int]
    ) -> list[tuple[int, int]]:
        """In order of time; id of each, and what its preparation took."""
        posted: dict[int, tuple[int, int]] = {}
        times = [step.at_ns + cost for (step, _), cost in zip(placed, costs_ns, strict=True)]
        for idx in sorted(range(len(placed)), key=times.__getitem__):
            step, place = placed[idx]
            at_ns = self._now_ns + times[idx]
            ends = step.initiator, step.target
            what = place.source, place.destination, step.num_bytes, at_ns, ends, step.process
            post = self.nodes.write if step.is_write else self.nodes.read
            posted[idx] = post(*what), costs_ns[idx]
        return [posted[idx] for idx in range(len(placed))]

    def _outcome(
        self,
        step: Step,
        id_: int,
        prepare_ns: int,
        events: Sequence[Event],
        repetition: int,
        trace: tuple[TraceRecord, ...],
        counters: dict[str, int],
    ) -> Outcome:
        def end_ns(node: int, kind: int, peer: int) -> int:
            wanted = (node, kind, id_)
            found = [
                each.time_ns
                for each in events
                if (each.node, each.kind, each.id) == wanted and each.peer == peer
            ]
            return found[-1] - self._now_ns - step.at_ns

        here, there = step.initiator, step.target
        if step.is_write:
            done_ns = end_ns(here, lib.PW_HOST_WRITE_DONE, there)
            arrived_ns = end_ns(there, lib.PW_HOST_ARRIVED, here)
        else:
            done_ns = arrived_ns = end_ns(here, lib.PW_HOST_FETCH_DONE, there)
        return Outcome(
            operation=step.operation,
            num_bytes=step.num_bytes,
            initiator=step.initiator,
            target=step.target,
            memory=self.config.run.memory,
            policy=self.config.run.policy,
            repetition=repetition,
            absent_pages=len(step.source_absent) + len(step.destination_absent),
            latency_ns=done_ns,
            arrival_ns=arrived_ns,
            prepare_ns=prepare_ns,
            process=step.process,
            trace=trace,
            counters=counters,
        )
