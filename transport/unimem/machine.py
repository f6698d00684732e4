"""Nodes with Unimem in one process, and threads on them that run in the order of virtual time.

Each thread has a core and a clock of its own. One of them runs at a time: the one whose clock is
the earliest, and before it every atomic service that has something to do until then. So equal
programs take equal times. `pick` chooses otherwise, as separate processes of a busy host would:
values then depend on its choices, and remain linearizable in virtual time. Not modelled: more
threads than a node has cores, and what a thread's own Python code takes (see `Gsas.compute`).
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pagewire.native import EngineError, check, ffi, lib
from pagewire.transport.node.engine import NEVER, Engine
from pagewire.transport.settings.config import Config, ConfigError, load
from pagewire.transport.settings.platform import load as load_platform
from pagewire.transport.unimem.gsas import (
    NO_ARGUMENT,
    PAGE_BYTES,
    Gsas,
    GsasError,
    Program,
    Refusal,
)
from pagewire.transport.unimem.kernel_mailbox import KernelMailbox

NODES_MAX = 64
THREADS_MAX = int(lib.PW_PIFS) - 1
"""Of a node: interface 0 is the atomic service's."""

Pick = Callable[[Sequence[str]], int]
"""Which of these goes on, by its place; "thread N" and "service N"."""


class _StoppedError(BaseException):
    """The run is over; the thread unwinds."""


class Thread(Gsas):
    """A thread of a `Machine`: GSAS operations, raw mailbox and packetizer when it asked for them,
    kernel mailbox."""

    def __init__(self, machine: Machine, node: int, program: Program, *, raw: bool = False) -> None:
        self._machine = machine
        self._node = node
        self._unimem = machine.unimem[node]
        code = lib.pw_unimem_open(self._unimem, raw)
        if code == lib.PW_ERR_FULL:
            raise ConfigError(f"a thread more on node {node}: it has {THREADS_MAX} interfaces")
        check(code, "interface")
        self.interface = int(code)
        self.id = int(lib.pw_unimem_id(self._unimem, self.interface))
        """Unique in the system; the hardware puts it into every packet."""
        self.argument = NO_ARGUMENT
        """readThreadArgument: what the parent gave; NO_ARGUMENT when there is none."""
        self.result: Any = None
        self._now_ns = 0
        self._number = len(machine.threads)
        self._ready: Callable[[], int | None] | None = None
        self._wake = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._lost = False
        self._is_over = False
        self._program = program
        self._arguments: tuple[Any, ...] = ()
        self._runner = threading.Thread(target=self._run, daemon=True)

    # ---- the interface

    @property
    def num_nodes(self) -> int:
        return self._machine.num_nodes

    @property
    def node(self) -> int:
        return self._node

    @property
    def now_ns(self) -> int:
        return self._now_ns

    def compute(self, duration_ns: int) -> None:
        if duration_ns < 0:
            raise ValueError(f"compute for {duration_ns} ns: allowed is 0 and more")
        self._now_ns += duration_ns

    def fork(self, function: Program, argument: int = 0, *, node: int | None = None) -> int:
        """Run function(thread) on the node, with `argument` in its thread; the child's id."""
        name = f"{function.__module__}:{function.__qualname__}"
        self._machine.functions[name] = function
        return self._fork(name, argument, self.node if node is None else node)

    def view(self, address: int) -> NDArray[np.uint8]:
        """This node's own shared memory from the address to the end of its allocation, live and
        read-only; reading it is no operation and takes no time."""
        self._in_order()
        num_bytes = ffi.new("uint64_t *")
        memory = lib.pw_unimem_view(self._unimem, self.id, address, num_bytes)
        if memory == ffi.NULL:
            raise GsasError(Refusal.NO_PAGE, f"view of {address:#018x} from node {self._node}")
        kept = self._machine.kept_by(memory)
        array = np.frombuffer(ffi.buffer(kept, num_bytes[0]), np.uint8)
        array.flags.writeable = False
        return array

    @property
    def place(self) -> Any:
        """What C gives back in a callback of this node."""
        return self._machine.place(self._node)

    @property
    def messages(self) -> KernelMailbox:
        """The 64-bit messages of this node."""
        return KernelMailbox(self, self._unimem)

    # ---- raw interfaces

    def write_packetizer(self, offset: int, low: int, high: int = 0) -> None:
        """Write 128 bits to a register of this thread's packetizer page."""
        self._in_order()
        value = ffi.new("pw_mailbox_word *", (low, high))
        args = (self._unimem, self.interface, offset, value, self._now_ns)
        self._now_ns = self._posted(lib.pw_unimem_write_packetizer(*args), "packetizer")

    def status(self) -> int:
        """The status register of its packetizer page."""
        self._in_order()
        value = int(lib.pw_unimem_status(self._unimem, self.interface, self._now_ns))
        self._now_ns += self._machine.costs["core_register_read_ns"]
        return value

    def write_mailbox(self, node: int, fifo: int, words: Sequence[tuple[int, int]]) -> bool:
        """A burst of words of 128 bits, (low, high), to a FIFO of a node; its answer: positive or
        not."""
        self._in_order()
        burst = ffi.new("pw_mailbox_word[]", list(words))
        code = lib.pw_unimem_write_mailbox(
            self._unimem, self.interface, node, fifo, burst, len(words), self._now_ns
        )
        self._now_ns = self._posted(code, f"write of {len(words)} words to FIFO {fifo}")

        def answered() -> int | None:
            there = lib.pw_unimem_write_answer(self._unimem, self.interface, NEVER - 1)
            return None if there == lib.PW_ERR_FULL else self._now_ns

        self.wait_for(answered)
        # Looked at again and again until the answer is here.
        while (
            code := lib.pw_unimem_write_answer(self._unimem, self.interface, self._now_ns)
        ) == lib.PW_ERR_FULL:
            self._now_ns += self._machine.costs["poll_ns"]
        return bool(check(code, "answer of a mailbox"))

    def read_mailbox(self, num_words: int = 1) -> list[tuple[int, int]]:
        """A burst read of this thread's own FIFO: words of 128 bits; the pattern where none is."""
        self._in_order()
        words = ffi.new("pw_mailbox_word[]", num_words)
        lib.pw_unimem_read_mailbox(self._unimem, self.interface, words, num_words, self._now_ns)
        self._now_ns += num_words * self._machine.costs["mailbox_read_ns"]
        return [(int(each.low), int(each.high)) for each in words]

    # ---- what the machine runs

    def start(self, arguments: tuple[Any, ...], at_ns: int = 0) -> None:
        self._arguments = arguments
        self._now_ns = at_ns
        self._runner.start()

    def wait_for(self, ready: Callable[[], int | None]) -> None:
        """Others run until ready() says from which time on this thread goes on."""
        self._ready = ready
        self._switch()
        if self._lost:
            self._lost = False
            raise GsasError(Refusal.NO_ANSWER, f"thread {self._number} of node {self._node} waits")

    def in_order(self) -> None:
        """Let everything come first that is earlier than this thread's clock."""
        self._in_order()

    def spend(self, duration_ns: int, *, until_ns: int = 0) -> None:
        """The clock goes on, and is not before until_ns."""
        self._now_ns = max(self._now_ns + duration_ns, until_ns)

    def _ask(
        self, owner: int, opcode: int, address: int, first: int, second: int
    ) -> tuple[int, int]:
        self._in_order()
        args = (self._unimem, self.interface, owner, opcode, address, first, second, self._now_ns)
        code = lib.pw_unimem_post(*args)
        if code == lib.PW_ERR_FULL:  # the answer to its last packet is not here yet
            self._now_ns += self._machine.costs["core_register_read_ns"]
            return self._ask(owner, opcode, address, first, second)
        self._now_ns = self._posted(code, "request")
        try:
            return self._wait_for_answer()
        except GsasError:
            lib.pw_unimem_forget(self._unimem, self.interface)
            self.interface = int(check(lib.pw_unimem_open(self._unimem, False), "interface"))
            self.id = int(lib.pw_unimem_id(self._unimem, self.interface))
            raise

    def _wait_for_answer(self) -> tuple[int, int]:
        answer = ffi.new("pw_unimem_answer *")
        code = 0

        def answered() -> int | None:
            nonlocal code
            code = check(lib.pw_unimem_test(self._unimem, self.interface, answer), "response")
            return int(answer.complete_ns) if code else None

        while True:
            self.wait_for(answered)
            if code == 1:
                return int(answer.error), int(answer.result)
            code = lib.pw_unimem_post_again(self._unimem, self.interface, self._now_ns)
            self._now_ns = self._posted(code, "request")

    def _page(self) -> bytes:
        page = lib.pw_unimem_page(self._unimem, self.interface)
        return bytes(ffi.buffer(page, PAGE_BYTES))

    def _posted(self, code: int, what: str) -> int:
        return int(check(code, what))

    def _in_order(self) -> None:
        if not self._machine.is_next(self):
            self._ready = lambda: self._now_ns
            self._switch()

    def _switch(self) -> None:
        self._machine.baton.release()
        self._wake.acquire()
        if self._machine.is_closing:
            raise _StoppedError

    def _run(self) -> None:
        self._wake.acquire()
        try:
            if not self._machine.is_closing:
                self.result = self._program(self, *self._arguments)
        except _StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the machine's run
            self._error = error
        finally:
            self._is_over = True
            self._machine.baton.release()


class Machine:
    """Nodes whose threads share memory; a context manager."""

    def __init__(
        self,
        nodes: int = 2,
        *,
        settings: Mapping[str, Any] | Config | None = None,
        pick: Pick | None = None,
    ) -> None:
        """settings: values by dotted name; neither environment nor file is looked at."""
        if not isinstance(nodes, int) or not 1 <= nodes <= NODES_MAX:
            raise ConfigError(f"nodes = {nodes!r}: allowed is a whole number from 1 to {NODES_MAX}")
        config = (
            settings
            if isinstance(settings, Config)
            else load([f"{name}={value}" for name, value in (settings or {}).items()], environ={})
        )
        platform = load_platform(config.run.platform)
        self.num_nodes = nodes
        self.costs = platform.costs.as_dict()
        self.pick = pick
        self.threads: list[Thread] = []
        self.functions: dict[str, Program] = {}
        """What remote forks have named."""
        self.callbacks: dict[tuple[int, int], Callable[[int, int, int], None]] = {}
        """Of kernel mailboxes, by node and opcode."""
        self.baton = threading.Semaphore(0)
        self.is_closing = False
        self._chosen = 0
        self._failure: BaseException | None = None
        self._rest_ns = 0  # when the last run ended: the next one begins there
        self._places = [ffi.new_handle((self, node)) for node in range(nodes)]
        self._engines = [Engine.of_config(config, platform, node, nodes) for node in range(nodes)]
        made = ffi.new("pw_unimem_network **")
        check(lib.pw_unimem_network_create(nodes, made), "network")
        self._network = ffi.gc(made[0], lib.pw_unimem_network_destroy)
        self.unimem = [self._add(engine, node) for node, engine in enumerate(self._engines)]

    def _add(self, engine: Engine, node: int) -> Any:
        out = ffi.new("pw_unimem **")
        code = lib.pw_unimem_network_add(
            self._network, engine.ni, engine.costs, engine.settings, node,
            lib.pw_host_unimem_spawn, self._places[node], out,
        )  # fmt: skip
        check(code, "Unimem")
        return out[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the nodes back; their memory goes with the last view of it."""
        self._unwind()
        self._network = None
        for engine in self._engines:
            engine.close()

    def run(self, *programs: tuple[Any, ...], raw: bool = False) -> list[Any]:
        """Run program(thread, *arguments) for each (node, program, *arguments), to the end of all
        of them and of what they fork; what they return. The first exception of one ends the run.

        raw: their threads drive mailbox and packetizer themselves, and have no GSAS.
        """
        started = []
        for node, program, *arguments in programs:
            if node not in range(self.num_nodes):
                raise ConfigError(f"node {node}: this machine has 0 to {self.num_nodes - 1}")
            thread = self._new_thread(node, program, raw=raw)
            thread.start(tuple(arguments), self._rest_ns)
            started.append(thread)
        try:
            self._schedule()
        finally:
            self._unwind()
            failed = [each._error for each in self.threads if each._error is not None]
            for each in self.threads:
                self._rest_ns = max(self._rest_ns, each._now_ns)
                lib.pw_unimem_close(self.unimem[each.node], each.interface)
            self.threads = []
        if failed:
            raise failed[0]
        return [each.result for each in started]

    def stop(self, node: int) -> None:
        """The node is dead from now on: nothing that it is sent is answered."""
        lib.pw_unimem_network_stop(self._network, node)

    def counters(self, node: int) -> dict[str, int]:
        """What pw_unimem_counters holds."""
        out = ffi.new("pw_unimem_counters *")
        lib.pw_unimem_read_counters(self.unimem[node], out)
        return {
            name: int(getattr(out, name)) for name, _ in ffi.typeof("pw_unimem_counters").fields
        }

    def kept_by(self, memory: Any) -> Any:
        """The pointer, with which the nodes' memory stays."""
        held = [self._network]
        return ffi.gc(memory, lambda _: held.clear())

    def place(self, node: int) -> Any:
        """What C gives back in a callback of a node."""
        return self._places[node]

    def is_next(self, thread: Thread) -> bool:
        """May the running thread act at its clock without letting others run?"""
        if self.pick is not None:
            return False
        if self._service()[0] <= thread._now_ns:
            return False
        return not any(
            each is not thread
            and not each._is_over
            and (at := self._ready_ns(each)) is not None
            and (at, each._number) < (thread._now_ns, thread._number)
            for each in self.threads
        )

    def _new_thread(self, node: int, program: Program, *, raw: bool = False) -> Thread:
        thread = Thread(self, node, program, raw=raw)
        thread._ready = lambda: thread._now_ns
        self.threads.append(thread)
        return thread

    def _service(self) -> tuple[int, int]:
        """When a service reads next, and whose."""
        node = ffi.new("uint32_t *")
        at_ns = int(lib.pw_unimem_network_next_ns(self._network, node))
        return at_ns, int(node[0])

    def _ready_ns(self, thread: Thread) -> int | None:
        if thread._ready is None:
            return None
        at_ns = thread._ready()
        if at_ns is not None:
            thread._now_ns = max(thread._now_ns, at_ns)
            thread._ready = lambda: thread._now_ns
            return thread._now_ns
        return None

    def _schedule(self) -> None:
        while True:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            alive = [each for each in self.threads if not each._is_over]
            if not alive or any(each._error is not None for each in self.threads):
                return
            for unimem in self.unimem:
                check(lib.pw_unimem_send_written(unimem, alive[0]._now_ns), "kernel mailbox")
            ready = [
                (at_ns, each._number)
                for each in alive
                if (at_ns := self._ready_ns(each)) is not None
            ]
            service_ns, service = self._service()
            if not ready and service_ns == NEVER:
                for each in alive:  # nothing can happen any more: what they wait for was lost
                    each._lost = True
                    each._ready = self._at_clock(each)
                continue
            if self._takes_service(ready, service_ns, service):
                check(lib.pw_unimem_serve(self.unimem[service]), "atomic service")
            else:
                self._resume(self.threads[self._chosen])

    @staticmethod
    def _at_clock(thread: Thread) -> Callable[[], int]:
        return lambda: thread._now_ns

    def _takes_service(self, ready: list[tuple[int, int]], service_ns: int, service: int) -> bool:
        """Is it the service's turn? Else `_chosen` is the thread's number."""
        if self.pick is not None:
            names = [f"thread {number}" for _, number in ready]
            if service_ns != NEVER:
                names.append(f"service {service}")
            place = self.pick(names)
            if place == len(ready):
                return True
            self._chosen = ready[place][1]
            return False
        if not ready or service_ns <= min(ready)[0]:
            return True
        self._chosen = min(ready)[1]
        return False

    def _resume(self, thread: Thread) -> None:
        thread._ready = None
        thread._wake.release()
        self.baton.acquire()

    def _unwind(self) -> None:
        """Threads that are not over end where they wait."""
        self.is_closing = True
        for each in self.threads:
            if not each._is_over:
                each._wake.release()
                self.baton.acquire()
        self.is_closing = False

    def fail(self, error: BaseException) -> None:
        """Something that C has called has failed: the run ends with it."""
        self._failure = self._failure or error

    def spawn(self, node: int, wanted: Any) -> int:
        """A remote fork: the child's id, 0 when it cannot be."""
        name = ffi.string(wanted.name).decode(errors="replace")
        function = self.functions.get(name) or _find(name)
        if function is None:
            return 0
        try:
            thread = self._new_thread(node, function)
        except (ConfigError, EngineError):
            return 0
        thread.argument = int(wanted.argument)
        thread.start((), int(wanted.at_ns))
        return thread.id


def _find(name: str) -> Program | None:
    """The function that "module:name" says, None: there is none."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        return None
    return found if callable(found) else None


@ffi.def_extern(error=0)  # type: ignore[untyped-decorator]
def pw_host_unimem_spawn(context: Any, wanted: Any) -> int:
    """A thread or process starts on a node."""
    machine, node = ffi.from_handle(context)
    try:
        return int(machine.spawn(node, wanted))
    except BaseException as error:  # noqa: BLE001 - raised again by the machine's run
        machine.fail(error)
        return 0
