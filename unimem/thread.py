"""A thread of a `Machine`: GSAS operations, raw mailbox and packetizer, kernel mailbox.

It runs as a thread of Python, one of all at a time: it gives the baton back wherever others may
come first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pagewire.native import check, ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.ni.engine_view import NEVER
from pagewire.unimem.gsas import Gsas, GsasError, NoAnswerError, Refusal
from pagewire.unimem.host import Program

if TYPE_CHECKING:
    from pagewire.unimem.machine import Machine

THREADS_MAX = int(lib.PW_PIFS) - 1
"""Of a node: interface 0 is the atomic service's."""


class _StoppedError(BaseException):
    """The run is over; the thread unwinds."""


class Thread(Gsas):
    """A thread of a `Machine`: GSAS operations, raw mailbox and packetizer when it asked for them,
    kernel mailbox."""

    def __init__(self, machine: Machine, node: int, *, raw: bool = False) -> None:
        self.host = self._machine = machine
        self.num_nodes, self.node = machine.num_nodes, node
        self._unimem = machine.unimem[node]
        code = lib.pw_unimem_open(self._unimem, raw)
        if code == lib.PW_ERR_FULL:
            raise ConfigError(f"a thread more on node {node}: it has {THREADS_MAX} interfaces")
        check(code, "interface")
        self.interface = int(code)
        self.id = int(lib.pw_unimem_id(self._unimem, self.interface))
        self.result: Any = None
        self._now_ns = 0
        self.number = len(machine.threads)
        self._ready: Callable[[], int | None] | None = None
        self._wake = threading.Semaphore(0)
        self.error: BaseException | None = None
        self._lost = False
        self._limit_ns: int | None = None
        self.is_over = False

    # ---- the interface

    @property
    def now_ns(self) -> int:
        return self._now_ns

    def _look(self, address: int, num_bytes: Any) -> Any:
        self.in_order()
        memory = lib.pw_unimem_view(self._unimem, self.id, address, num_bytes)
        held = [self._unimem]  # as long as the pointer
        return memory and ffi.gc(memory, lambda _: held.clear())

    # ---- raw interfaces

    def write_packetizer(self, offset: int, low: int, high: int = 0) -> None:
        """Write 128 bits to a register of this thread's packetizer page."""
        self.in_order()
        value = ffi.new("pw_mailbox_word *", (low, high))
        args = (self._unimem, self.interface, offset, value, self._now_ns)
        self._now_ns = check(lib.pw_unimem_write_packetizer(*args), "packetizer")

    def status(self) -> int:
        """The status register of its packetizer page."""
        self.in_order()
        value = int(lib.pw_unimem_status(self._unimem, self.interface, self._now_ns))
        self._now_ns += self._machine.costs["core_register_read_ns"]
        return value

    def write_mailbox(self, node: int, fifo: int, words: Sequence[tuple[int, int]]) -> bool:
        """A burst of words of 128 bits, (low, high), to a FIFO of a node; its answer: positive or
        not."""
        self.in_order()
        burst = ffi.new("pw_mailbox_word[]", list(words))
        code = lib.pw_unimem_write_mailbox(
            self._unimem, self.interface, node, fifo, burst, len(words), self._now_ns
        )
        self._now_ns = check(code, f"write of {len(words)} words to FIFO {fifo}")

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
        self.in_order()
        words = ffi.new("pw_mailbox_word[]", num_words)
        lib.pw_unimem_read_mailbox(self._unimem, self.interface, words, num_words, self._now_ns)
        self._now_ns += num_words * self._machine.costs["mailbox_read_ns"]
        return [(int(each.low), int(each.high)) for each in words]

    # ---- what the machine runs

    def start(self, at_ns: int, program: Program, *arguments: Any) -> None:
        self._now_ns = at_ns
        self.be_ready()
        threading.Thread(target=self._run, args=(program, arguments), daemon=True).start()

    def ready_ns(self) -> int | None:
        """From when on it can go on, None: it waits, or runs."""
        at_ns = self._ready() if self._ready is not None else None
        if at_ns is None:
            return None
        self._now_ns = max(self._now_ns, at_ns)
        self.be_ready()
        return self._now_ns

    def be_ready(self) -> None:
        """It can go on at its clock."""
        self._ready = lambda: self._now_ns

    @property
    def gives_up_ns(self) -> int | None:
        """When it stops to wait for an answer; None: it does not wait, or for ever."""
        return None if self._ready is None else self._limit_ns

    def lose(self) -> None:
        """What it waits for has not come, or will not."""
        self._lost = True
        self._now_ns = max(self._now_ns, self._limit_ns or 0)
        self.be_ready()

    def resume(self) -> None:
        """It runs until it gives the baton back."""
        self._ready = None
        self._wake.release()
        self._machine.baton.acquire()

    def wait_for(self, ready: Callable[[], int | None]) -> None:
        if not self._is_there(ready):
            raise GsasError(Refusal.NO_ANSWER, f"thread {self.number} of node {self.node} waits")

    def _is_there(self, ready: Callable[[], int | None], limit_ns: int | None = None) -> bool:
        """The same; False: it has waited until limit_ns, or nothing can happen any more."""
        self._ready, self._limit_ns = ready, limit_ns
        self._switch()
        is_lost, self._lost, self._limit_ns = self._lost, False, None
        return not is_lost

    def in_order(self) -> None:
        if not self._machine.is_next(self):
            self.be_ready()
            self._switch()

    def spend(self, duration_ns: int, *, until_ns: int = 0) -> None:
        self._now_ns = max(self._now_ns + duration_ns, until_ns)

    def _ask(
        self, owner: int, opcode: int, address: int, first: int, second: int
    ) -> tuple[int, int]:
        self.in_order()
        args = (self._unimem, self.interface, owner, opcode, address, first, second, self._now_ns)
        code = lib.pw_unimem_post(*args)
        if code == lib.PW_ERR_FULL:  # the answer to its last packet is not here yet
            self._now_ns += self._machine.costs["core_register_read_ns"]
            return self._ask(owner, opcode, address, first, second)
        self._now_ns = check(code, "request")
        try:
            return self._wait_for_answer()
        except NoAnswerError:
            lib.pw_unimem_close(self._unimem, self.interface)
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

        limit_ns = self._now_ns + self._machine.answer_limit_ns
        while True:
            if not self._is_there(answered, limit_ns):
                raise NoAnswerError
            if code == 1:
                return int(answer.error), int(answer.result)
            code = lib.pw_unimem_post_again(self._unimem, self.interface, self._now_ns)
            self._now_ns = check(code, "request")

    def _page(self) -> Any:
        return lib.pw_unimem_page(self._unimem, self.interface)

    def _switch(self) -> None:
        self._machine.baton.release()
        self._wake.acquire()
        if self._machine.is_closing:
            raise _StoppedError

    def _run(self, program: Program, arguments: Sequence[Any]) -> None:
        self._wake.acquire()
        try:
            if not self._machine.is_closing:
                self.result = program(self, *arguments)
        except _StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the machine's run
            self.error = error
        finally:
            self.is_over = True
            self._machine.baton.release()
