"""Nodes with Unimem in one process, and threads on them that run in the order of virtual time.

Each thread has a core and a clock of its own. One of them runs at a time: the one whose clock is
the earliest, and before it every atomic service that has something to do until then. So equal
programs take equal times. `pick` chooses otherwise, as separate processes of a busy host would:
values then depend on its choices, and remain linearizable in virtual time. Not modelled: more
threads than a node has cores, and what a thread's own Python code takes (see `Gsas.compute`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pagewire.lab.engine import Engine
from pagewire.native import EngineError, check, ffi, lib
from pagewire.native.closing import Closing
from pagewire.ni.engine_view import NEVER
from pagewire.run.settings.config import Config, ConfigError, load
from pagewire.run.settings.platform import load as load_platform
from pagewire.unimem.host import Host, Program
from pagewire.unimem.thread import Thread

NODES_MAX = 64
ANSWER_LIMIT_NS = 1_000_000_000
"""More than what can stand before a request takes (assumed: D3.6 gives no limit)."""

Pick = Callable[[Sequence[str]], int]
"""Which of these goes on, by its place; "thread N" and "service N"."""


class Machine(Host, Closing):
    """Nodes whose threads share memory; a context manager."""

    def __init__(
        self,
        nodes: int = 2,
        *,
        settings: Mapping[str, Any] | Config | None = None,
        pick: Pick | None = None,
        answer_limit_ns: int = ANSWER_LIMIT_NS,
    ) -> None:
        """settings: values by dotted name; neither environment nor file is looked at.

        answer_limit_ns: virtual time after which a thread gives up a request without an answer.
        """
        if answer_limit_ns <= 0:
            raise ConfigError(f"answer_limit_ns = {answer_limit_ns}: allowed is 1 and more")
        if not isinstance(nodes, int) or not 1 <= nodes <= NODES_MAX:
            raise ConfigError(f"nodes = {nodes!r}: allowed is a whole number from 1 to {NODES_MAX}")
        config = (
            settings
            if isinstance(settings, Config)
            else load([f"{name}={value}" for name, value in (settings or {}).items()], environ={})
        )
        network = config.network
        if (network.model, network.topology, network.placement) != ("private", "qfdb", "packed"):
            raise ConfigError(
                "network.*: these nodes stand in the machine's own network, and each pair of them "
                "has a link; for other networks take pagewire.lab, or a replay"
            )
        super().__init__(range(nodes))
        platform = load_platform(config.run.platform)
        self.num_nodes = nodes
        self.costs = platform.costs.as_dict()
        self.pick = pick
        self.answer_limit_ns = answer_limit_ns
        self.threads: list[Thread] = []
        self.baton = threading.Semaphore(0)
        self.is_closing = False
        self._rest_ns = 0  # when the last run ended: the next one begins there
        self._engines = [Engine.of_config(config, platform, node, nodes) for node in range(nodes)]
        self._nodes = ffi.new("pw_unimem *[]", nodes)
        self.unimem = [self._add(engine, node) for node, engine in enumerate(self._engines)]

    def _add(self, engine: Engine, node: int) -> Any:
        host, out = ffi.new("pw_unimem_host *"), ffi.new("pw_unimem **")
        host.context, host.send = self._nodes, ffi.addressof(lib, "pw_unimem_hand_over")
        host.spawn_context, host.spawn = self.places[node], lib.pw_host_unimem_spawn
        code = lib.pw_unimem_create(
            engine.ni, engine.costs, engine.settings, node, self.num_nodes, host, out
        )
        check(code, "Unimem")
        self._nodes[node] = out[0]
        return ffi.gc(out[0], lib.pw_unimem_destroy)

    def close(self) -> None:
        """Give the nodes back; their memory goes with the last view of it."""
        self._unwind()
        self.unimem = []
        for engine in self._engines:
            engine.close()

    def run(self, *programs: tuple[Any, ...], raw: bool = False) -> list[Any]:
        """Run program(thread, *arguments) for each (node, program, *arguments), to the end of all
        of them and of what they fork; what they return. The first exception of one ends the run.

        raw: their threads drive mailbox and packetizer themselves, and have no GSAS.
        """
        started = []
        try:
            for node, program, *arguments in programs:
                if node not in range(self.num_nodes):
                    raise ConfigError(f"node {node}: this machine has 0 to {self.num_nodes - 1}")
                thread = self._new_thread(node, raw=raw)
                thread.start(self._rest_ns, program, *arguments)
                started.append(thread)
            self._schedule()
        finally:
            self._unwind()
            failed = [each.error for each in self.threads if each.error is not None]
            for each in self.threads:
                self._rest_ns = max(self._rest_ns, each.now_ns)
                lib.pw_unimem_close(self.unimem[each.node], each.interface)
            self.threads = []
        if failed:
            raise failed[0]
        return [each.result for each in started]

    def stop(self, node: int) -> None:
        """The node is dead from now on: nothing that it is sent is answered."""
        self._nodes[node] = ffi.NULL

    def counters(self, node: int) -> dict[str, int]:
        """What pw_unimem_counters holds."""
        out = ffi.new("pw_unimem_counters *")
        lib.pw_unimem_read_counters(self.unimem[node], out)
        return {
            name: int(getattr(out, name)) for name, _ in ffi.typeof("pw_unimem_counters").fields
        }

    def is_next(self, thread: Thread) -> bool:
        """May the running thread act at its clock without letting others run?"""
        if self.pick is not None or self._service()[0] <= thread.now_ns:
            return False
        return not any(
            each is not thread
            and not each.is_over
            and (at := _next_ns(each)) is not None
            and (at, each.number) < (thread.now_ns, thread.number)
            for each in self.threads
        )

    def _new_thread(self, node: int, *, raw: bool = False) -> Thread:
        thread = Thread(self, node, raw=raw)
        self.threads.append(thread)
        return thread

    def _service(self) -> tuple[int, int]:
        """When a service reads next, and whose."""
        node = ffi.new("uint32_t *")
        at_ns = int(lib.pw_unimem_first_ns(self._nodes, self.num_nodes, node))
        return at_ns, int(node[0])

    def _schedule(self) -> None:
        while True:
            self.raise_failure()
            alive = [each for each in self.threads if not each.is_over]
            if not alive or any(each.error is not None for each in self.threads):
                return
            for unimem in self.unimem:
                check(lib.pw_unimem_send_written(unimem, alive[0]._now_ns), "kernel mailbox")
            ready = [
                (at_ns, each.number) for each in alive if (at_ns := each.ready_ns()) is not None
            ]
            service_ns, service = self._service()
            if self._gives_up(alive, min(ready, default=(NEVER, 0))[0], service_ns):
                continue
            chosen = self._chosen(ready, service_ns, service)
            if chosen is None:
                check(lib.pw_unimem_serve(self.unimem[service]), "atomic service")
            else:
                self.threads[chosen].resume()

    def _gives_up(self, alive: list[Thread], ready_ns: int, service_ns: int) -> bool:
        """Does a thread stop to wait before anything else happens? In an order that is picked, when
        nothing else can."""
        next_ns = min(ready_ns, service_ns)
        if self.pick is not None and next_ns < NEVER:
            return False
        limits = [(at, each) for each in alive if (at := each.gives_up_ns) is not None]
        if limits:
            at_ns, first = min(limits, key=lambda limit: (limit[0], limit[1].number))
            if at_ns < next_ns:
                first.lose()
                return True
        if next_ns < NEVER:
            return False
        for each in alive:  # what they wait for without a limit will not come
            each.lose()
        return True

    def _chosen(self, ready: list[tuple[int, int]], service_ns: int, service: int) -> int | None:
        """The number of the thread whose turn it is; None: the service's."""
        if self.pick is not None:
            names = [f"thread {number}" for _, number in ready]
            if service_ns != NEVER:
                names.append(f"service {service}")
            place = self.pick(names)
            return ready[place][1] if place < len(ready) else None
        at_ns, number = min(ready, default=(NEVER, None))
        return None if service_ns <= at_ns else number

    def _unwind(self) -> None:
        """Threads that are not over end where they wait."""
        self.is_closing = True
        for each in self.threads:
            if not each.is_over:
                each.resume()
        self.is_closing = False

    def start_child(self, node: int, function: Program, argument: int, time_ns: int) -> int:
        try:
            thread = self._new_thread(node)
        except (ConfigError, EngineError):
            return 0
        thread.argument = argument
        thread.start(time_ns, function)
        return thread.id


def _next_ns(thread: Thread) -> int | None:
    """When it goes on, if nothing comes in between: with what it waits for, or without."""
    at_ns = thread.ready_ns()
    return thread.gives_up_ns if at_ns is None else at_ns
