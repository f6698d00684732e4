"""Global shared address space: what a thread can do with pages of any node [D3.6 2].

An address has 64 bits: the node in the upper 16, 48 of that node below. Every operation is a
request to the atomic service of the node that owns the page, and its response. `Gsas` is the
interface; a thread of a `Machine` is one.
"""

from __future__ import annotations

import abc
import enum
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.native import ffi, lib
from pagewire.unimem.host import Host, Program, name_of
from pagewire.unimem.kernel_mailbox import KernelMailbox

PAGE_BYTES = int(lib.PW_PAGE_BYTES)
NODE_SHIFT = int(lib.PW_UNIMEM_NODE_SHIFT)
PAGES_MAX = 65535
NO_ARGUMENT = 0xCAFEFEBEBEADBEFF
"""What a thread without a parent has as its argument."""
_NAME_OFFSET = int(lib.PW_FORK_NAME_OFFSET)
_WORD = 2**64


class Deny(enum.IntFlag):
    """Rights to a page that others than the thread that allocated it do not have."""

    NOTHING = 0
    OTHERS_READ = int(lib.UNIMEM_DENY_OTHERS_READ)
    """of threads on other nodes"""
    OTHERS_WRITE = int(lib.UNIMEM_DENY_OTHERS_WRITE)
    NODE_READ = int(lib.UNIMEM_DENY_NODE_READ)
    """of other threads on the allocating thread's node"""
    NODE_WRITE = int(lib.UNIMEM_DENY_NODE_WRITE)


class Refusal(enum.IntEnum):
    """Why an atomic service has refused a request; NO_ANSWER: nobody has answered it."""

    NO_ANSWER = 0
    BAD_OPCODE = int(lib.PW_UNIMEM_BAD_OPCODE)
    NO_PAGE = int(lib.PW_UNIMEM_NO_PAGE)
    DENIED = int(lib.PW_UNIMEM_DENIED)
    NO_MEMORY = int(lib.PW_UNIMEM_NO_MEMORY)
    BAD_ARGUMENT = int(lib.PW_UNIMEM_BAD_ARGUMENT)
    NO_FORK = int(lib.PW_UNIMEM_NO_FORK)
    NO_FILE = int(lib.PW_UNIMEM_NO_FILE)
    NOT_EXECUTABLE = int(lib.PW_UNIMEM_NOT_EXECUTABLE)


_REASONS = {
    Refusal.NO_ANSWER: "the node does not answer; is it stopped, or was the request lost?",
    Refusal.BAD_OPCODE: "the service does not know the operation",
    Refusal.NO_PAGE: "there is no such page; it was not allocated, or freed",
    Refusal.DENIED: "the page's rights forbid it; see the deny argument of alloc",
    Refusal.NO_MEMORY: "the node has no shared memory left; free pages or raise unimem.memory",
    Refusal.BAD_ARGUMENT: f"an argument is out of its range: 1 to {PAGES_MAX} pages, the first "
    "page of an allocation to free",
    Refusal.NO_FORK: "the node cannot start it: no such function, or no interface free",
    Refusal.NO_FILE: "there is no such file at the node; name it from its process's folder, or "
    "from /",
    Refusal.NOT_EXECUTABLE: "it is no file that may be executed; see chmod +x",
}


class NoAnswerError(Exception):
    """Nobody has answered a request; `Gsas` tells which one."""


class GsasError(RuntimeError):
    """A request was refused by the owner of its page, or not answered."""

    def __init__(self, refusal: Refusal, what: str) -> None:
        super().__init__(f"{what}: {_REASONS[refusal]}")
        self.refusal = refusal


class Gsas(abc.ABC):
    """A thread's operations; each returns when its response is here, and the thread's clock with
    it."""

    host: Host
    num_nodes: int
    """Nodes of the system (getNumberBoards)."""
    node: int
    """The one that this thread runs on (getBoardPid)."""
    id: int
    """Unique in the system; the hardware puts it into every packet."""
    argument: int = NO_ARGUMENT
    """readThreadArgument: what the parent gave; NO_ARGUMENT when there is none."""
    _unimem: Any
    """The pw_unimem of its node."""

    @property
    @abc.abstractmethod
    def now_ns(self) -> int:
        """Virtual time."""

    def compute(self, duration_ns: int) -> None:
        """The thread works, or waits, for so long."""
        if duration_ns < 0:
            raise ValueError(f"compute for {duration_ns} ns: allowed is 0 and more")
        self.spend(duration_ns)

    @abc.abstractmethod
    def in_order(self) -> None:
        """Let everything come first that is earlier than this thread's clock."""

    @abc.abstractmethod
    def spend(self, duration_ns: int, *, until_ns: int = 0) -> None:
        """The clock goes on, and is not before until_ns."""

    @abc.abstractmethod
    def wait_for(self, ready: Callable[[], int | None]) -> None:
        """Others run until ready() says from which time on this thread goes on."""

    @abc.abstractmethod
    def _ask(
        self, owner: int, opcode: int, address: int, first: int, second: int
    ) -> tuple[int, int]:
        """Error and result of a request's response; NoAnswerError when there is none."""

    @abc.abstractmethod
    def _page(self) -> Any:
        """What the last READ4K has brought, in C."""

    @abc.abstractmethod
    def _look(self, address: int, num_bytes: Any) -> Any:
        """pw_unimem_view of its node's memory, which stays as long as the pointer."""

    @property
    def messages(self) -> KernelMailbox:
        """The 64-bit messages of this node."""
        return KernelMailbox(self, self._unimem)

    def alloc(
        self, num_pages: int = 1, *, node: int | None = None, deny: Deny = Deny.NOTHING
    ) -> int:
        """Address of so many zeroed pages in a row, at the node, by default this one.

        deny: rights that other threads do not get; everybody has all of them by default.
        """
        owner = self.node if node is None else node
        self._check_node(owner)
        if not 1 <= num_pages <= PAGES_MAX:
            raise ValueError(f"alloc of {num_pages} pages: allowed is 1 to {PAGES_MAX}")
        what = f"alloc of {num_pages} pages at node {owner}"
        return self._request(what, owner, lib.PW_UNIMEM_ALLOC, 0, num_pages, int(deny))

    def free(self, address: int) -> None:
        """Give back the allocation that begins in this page."""
        self._operate("free", lib.PW_UNIMEM_FREE, address)

    def read8(self, address: int) -> int:
        return self._operate("read8", lib.PW_UNIMEM_READ8, address)

    def read32(self, address: int) -> int:
        return self._operate("read32", lib.PW_UNIMEM_READ32, address)

    def read64(self, address: int) -> int:
        return self._operate("read64", lib.PW_UNIMEM_READ64, address)

    def read4k(self, address: int) -> bytes:
        """The page of the address."""
        self._operate("read4k", lib.PW_UNIMEM_READ4K, address)
        return bytes(ffi.buffer(self._page(), PAGE_BYTES))

    def read_array(self, address: int, num_pages: int = 1) -> NDArray[np.uint8]:
        """A copy of so many pages from this one on, one READ4K each: not atomic as a whole."""
        pages = (self.read4k(address + idx * PAGE_BYTES) for idx in range(num_pages))
        return np.frombuffer(b"".join(pages), np.uint8)

    def write8(self, address: int, value: int) -> None:
        self._operate("write8", lib.PW_UNIMEM_WRITE8, address, value)

    def write32(self, address: int, value: int) -> None:
        self._operate("write32", lib.PW_UNIMEM_WRITE32, address, value)

    def write64(self, address: int, value: int) -> None:
        self._operate("write64", lib.PW_UNIMEM_WRITE64, address, value)

    def write128(self, address: int, low: int, high: int) -> None:
        """Two words at once."""
        self._operate("write128", lib.PW_UNIMEM_WRITE128, address, low, high)

    def cas(self, address: int, expected: int, wanted: int) -> bool:
        """If the word is `expected`, it becomes `wanted`; whether it was."""
        return bool(self._operate("cas", lib.PW_UNIMEM_CAS, address, expected, wanted))

    def faa(self, address: int, value: int) -> int:
        """Add to the word, modulo 2^64; what it was before."""
        return self._operate("faa", lib.PW_UNIMEM_FAD, address, value)

    def swap(self, address: int, value: int) -> int:
        """Exchange the word; what it was before."""
        return self._operate("swap", lib.PW_UNIMEM_SWAP, address, value)

    def view(self, address: int) -> NDArray[np.uint8]:
        """This node's own shared memory from the address to the end of its allocation, live and
        read-only; reading it is no operation and takes no time."""
        num_bytes = ffi.new("uint64_t *")
        memory = self._look(address, num_bytes)
        if memory == ffi.NULL:
            raise GsasError(Refusal.NO_PAGE, f"view of {address:#018x} from node {self.node}")
        array = np.frombuffer(ffi.buffer(memory, num_bytes[0]), np.uint8)
        array.flags.writeable = False
        return array

    def fork(
        self,
        program: Program | str | os.PathLike[str],
        argument: int = 0,
        *,
        node: int | None = None,
    ) -> int:
        """Run function(thread) on the node, with `argument` in its thread; the child's id. In
        another process the function is found by its name: it stands at the top of a module, the
        program's own or one that can be imported.

        Or an executable file of the node's host, by its path: a program in C with atomic.h or
        unimem.h, whose output goes to `exec-ID-stdout.log`."""
        if isinstance(program, str | os.PathLike):
            name = os.fspath(program)
        else:
            name = name_of(program)
            self.host.functions[name] = program
        return self._fork(name, argument, self.node if node is None else node)

    def do_for_program(self, request: Any, answer: Any) -> Any:
        """What a program that runs as this thread asks for (unimem/program.h); the page of a read
        of 4 KB, else NULL."""
        answer.code, answer.error, answer.result = lib.PW_ERR_INVALID, 0, 0
        if request.owner >= self.num_nodes or request.opcode >= lib.PW_UNIMEM_OPCODES:
            return ffi.NULL
        asked = (request.owner, request.opcode, request.address, *request.argument)
        try:
            answer.error, answer.result = self._ask(*asked)
            answer.code = 1
        except NoAnswerError:
            answer.code = 0
        has_page = request.opcode == lib.PW_UNIMEM_READ4K and answer.code == 1 and not answer.error
        return self._page() if has_page else ffi.NULL

    def _fork(self, name: str, argument: int, node: int) -> int:
        """Start what `name` says at the node, by a page there with the description."""
        self._check_node(node)
        text = name.encode() + b"\0"
        if len(text) > PAGE_BYTES - _NAME_OFFSET:
            raise ValueError(f"fork of a name of {len(text)} bytes: a page holds its description")
        page = self.alloc(node=node)
        self.write64(page, argument)
        text += bytes(-len(text) % 8)
        for offset in range(0, len(text), 8):
            word = int.from_bytes(text[offset : offset + 8], "little")
            self.write64(page + _NAME_OFFSET + offset, word)
        try:
            what = f"fork of {name} at node {node}"
            return self._request(what, node, lib.PW_UNIMEM_FORK, 0, page, 0)
        finally:
            self.free(page)

    def _operate(
        self, name: str, opcode: int, address: int, first: int = 0, second: int = 0
    ) -> int:
        owner = address >> NODE_SHIFT
        self._check_node(owner)
        what = f"{name} at {address:#018x}"
        for value in (first, second):
            if not -_WORD // 2 <= value < _WORD:
                raise ValueError(f"{what}: {value} is no value of 64 bits")
        return self._request(what, owner, opcode, address, first % _WORD, second % _WORD)

    def _request(
        self, what: str, owner: int, opcode: int, address: int, first: int, second: int
    ) -> int:
        try:
            error, result = self._ask(owner, opcode, address, first, second)
        except NoAnswerError as lost:
            raise GsasError(Refusal.NO_ANSWER, f"{what} of node {owner}{lost}") from None
        if error:
            raise GsasError(Refusal(error), what)
        return result

    def _check_node(self, node: int) -> None:
        if not 0 <= node < self.num_nodes:
            raise ValueError(f"node {node}: there are nodes 0 to {self.num_nodes - 1}")
