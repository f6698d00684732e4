"""What every step of a random program stands on: payloads, buffers between guards, checks.

The modules of this folder run in the ranks, and what a failing program needs of them is copied into
the file that is written for it. So they import nothing of pagewire but each other.
"""

import collections
import ctypes
import faulthandler
import mmap
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

GUARD_BYTES = 96
"""Before and behind each buffer."""

Step = tuple[int, int, Sequence[Any], Callable[..., Iterator[None]], dict[str, Any]]
"""Number, how many further steps it stays open for, communicator, what it does, with what."""


class WrongError(Exception):
    """MPI gave something else than it must."""


class Run:
    """One program on one rank: its seed, and the communicators that its steps have asked for.

    num_steps, checked: steps in which this rank was first, and bytes compared, by kind of step.
    absent_pages: of receives' buffers, left untouched on purpose.
    """

    def __init__(self, world: Any, seed: int) -> None:
        self.world = world
        self.seed = seed
        self.num_steps: collections.Counter[str] = collections.Counter()
        self.checked: collections.Counter[str] = collections.Counter()
        self.absent_pages = 0
        self._made: dict[str, Any] = {}

    def communicator(self, on: Sequence[Any]) -> Any:
        """Collective over the program's ranks; COMM_NULL for those that are not members."""
        how, *rest = on
        if how == "world":
            return self.world
        if repr(on) not in self._made:
            self._made[repr(on)] = _make(self.world, how, *rest)
        return self._made[repr(on)]

    def close(self) -> None:
        """Free the communicators, on which nothing may be left."""
        for comm in [self.world, *self._made.values()]:
            if comm == MPI.COMM_NULL:
                continue
            comm.Barrier()
            status = MPI.Status()
            if comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
                raise WrongError(
                    f"a message of rank {status.source} with tag {status.tag} was left over"
                )
        for comm in self._made.values():
            if comm != MPI.COMM_NULL:
                comm.Free()


def _make(world: Any, how: str, *rest: Any) -> Any:
    """rest: for dup and idup a name, else the members' ranks in their new order."""
    if how == "dup":
        return world.Dup()
    if how == "idup":
        comm, request = world.Idup()
        request.Wait()
        return comm
    (members,) = rest
    if how == "split":
        is_member = world.rank in members
        key = members.index(world.rank) if is_member else 0
        return world.Split(0 if is_member else MPI.UNDEFINED, key)
    group = world.group.Incl(members)
    if how == "create":
        comm = world.Create(group)
    elif world.rank in members:
        comm = world.Create_group(group)
    else:
        comm = MPI.COMM_NULL
    group.Free()
    return comm


class Place:
    """Where a step runs: its program, its number and its communicator."""

    def __init__(self, run: Run, number: int, comm: Any, kind: str) -> None:
        self.run = run
        self.number = number
        self.kind = kind
        self.comm = comm
        self.rank: int = comm.rank
        self.size: int = comm.size
        self.tag = 4 * number

    def payload(self, sender: int, num_bytes: int, turn: int = 0) -> Any:
        """The bytes that this rank of the communicator sends in this step."""
        rng = np.random.default_rng([self.run.seed, self.number, sender, turn])
        return np.frombuffer(bytearray(rng.bytes(num_bytes)), np.uint8)

    def check(self, got: Any, expected: Any, what: str) -> None:
        """Compare arrays of bytes."""
        got, expected = np.asarray(got).view(np.uint8), np.asarray(expected).view(np.uint8)
        if got.shape != expected.shape:
            raise WrongError(f"{what}: {got.size} bytes instead of {expected.size}")
        self.run.checked[self.kind] += got.size
        if np.array_equal(got, expected):
            return
        wrong = np.flatnonzero(got != expected)
        first = int(wrong[0])
        raise WrongError(
            f"{what}: {wrong.size} of {got.size} bytes are wrong, from {first} to {wrong[-1]}; the "
            f"first is {got[first]} instead of {expected[first]}"
        )

    def equal(self, got: Any, expected: Any, what: str) -> None:
        """Compare values."""
        if got != expected:
            raise WrongError(f"{what}: {_short(got)} instead of {_short(expected)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}... ({len(text)} characters)"


class Area:
    """Bytes of one buffer between guards, at an offset from the begin of a page.

    memory: heap (numpy's, present), anonymous (private pages, absent until touched), shared (pages
    that can be dropped at any time, as their content is elsewhere), file (private pages of a file).
    The guards of mapped memory are zero, so that they need not be touched.
    """

    def __init__(self, num_bytes: int, offset: int = 0, memory: str = "heap") -> None:
        self.first = GUARD_BYTES + offset
        self.memory = memory
        self.guard = 0
        self._file = -1
        total = self.first + num_bytes + GUARD_BYTES
        if memory == "heap":
            self.guard = 0xA5
            self.whole: Any = np.full(total, self.guard, np.uint8)
        else:
            kind = mmap.MAP_SHARED if memory == "shared" else mmap.MAP_PRIVATE
            if memory == "file":
                self._file = os.memfd_create("stress")
                os.ftruncate(self._file, total)
                self._map = mmap.mmap(self._file, total, kind)
            else:
                self._map = mmap.mmap(-1, total, kind | mmap.MAP_ANONYMOUS)
            self.whole = np.frombuffer(self._map, np.uint8)
        self.bytes: Any = self.whole[self.first : self.first + num_bytes]

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    def fill(self, content: Any, positions: Any = None) -> None:
        """Put content at the buffer's begin, or at positions in it."""
        into = self.bytes
        if self.memory == "file":  # written there, so that the mapping's pages stay absent
            into = np.zeros(self.bytes.size, np.uint8)
        if positions is not None:
            into[positions] = content
        else:
            into[: len(content)] = content
        if self.memory == "file":
            os.pwrite(self._file, into.tobytes(), self.first)

    def check(self, place: Place, content: Any, what: str, positions: Any = None) -> None:
        """Compare the buffer, and what lies around and between it."""
        expected = np.full(self.whole.size, self.guard, np.uint8)
        inner = expected[self.first : self.first + self.bytes.size]
        if positions is not None:
            inner[positions] = content
        else:
            inner[: len(content)] = content
        place.check(self.whole, expected, f"{what} (byte 0 of the buffer is {self.first})")

    def drop(self) -> None:
        """Give the pages back: for shared memory at any time, for private before there is data."""
        if self.memory == "heap":
            return
        try:
            self._map.madvise(mmap.MADV_DONTNEED)
        except OSError:  # pinned
            return

    def touch_some(self, absent_part: float, rng: Any) -> int:
        """Have pages but for so many of them, drawn at random; how many stay absent."""
        firsts = np.arange(0, self.whole.size, mmap.PAGESIZE)
        is_absent = rng.random(firsts.size) < absent_part
        self.whole[firsts[~is_absent]] = self.guard
        return int(is_absent.sum())

    def remap(self) -> None:
        """Map new pages in the place of the old ones; private, before there is data.

        In one call: between munmap and mmap another thread's memory could get the place.
        """
        if self.memory == "anonymous":
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
            call(_libc.mmap, self.whole.ctypes.data, len(self._map), 3, flags, -1, 0)

    def protect(self, is_writable: bool) -> None:
        """Make the pages of a source read-only, and writable again."""
        if self.memory != "heap":
            call(_libc.mprotect, self.whole.ctypes.data, len(self._map), 3 if is_writable else 1)


_MAP_FIXED = 0x10
_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def call(function: Any, *arguments: Any) -> None:
    """Call the C library."""
    result = function(*arguments)
    if result is not None and result in (-1, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def complete(requests: list[Any], how: str) -> list[Any]:
    """Complete all requests by one of MPI's ways; their statuses."""
    statuses = [MPI.Status() for _ in requests]
    if how in ("Wait", "Test"):
        for request, status in zip(requests, statuses, strict=True):
            while not getattr(request, how)(status):
                os.sched_yield()
    elif how in ("Waitall", "Testall"):
        while not getattr(MPI.Request, how)(requests, statuses):
            os.sched_yield()
    else:
        _complete_in_parts(requests, how, statuses)
    return statuses


def _complete_in_parts(requests: list[Any], how: str, statuses: list[Any]) -> None:
    left = set(range(len(requests)))
    while left:
        given = [MPI.Status() for _ in requests]
        if how == "Waitany":
            done = [MPI.Request.Waitany(requests, given[0])]
        elif how == "Testany":
            idx, is_over = MPI.Request.Testany(requests, given[0])
            done = [idx] if is_over else []
        else:
            done = list(getattr(MPI.Request, how)(requests, given) or [])
        if not done:
            os.sched_yield()
        for idx, status in zip(done, given, strict=False):
            if idx not in left:
                raise WrongError(f"{how} gave request {idx} of {len(requests)}, left are {left}")
            left.remove(idx)
            statuses[idx] = status


BUFFERED_BYTES = 32 << 20
"""What is attached for buffered sends."""

_attached: list[Any] = []


def run_program(seed: int, steps: Sequence[Step], limit_s: int) -> Run:
    """One program on all ranks. One whose step takes longer than the limit prints where it is, and
    is killed."""
    if not _attached:
        _attached.append(bytearray(BUFFERED_BYTES))
        MPI.Attach_buffer(_attached[0])
    faulthandler.enable()

    def begin_to_count() -> None:
        faulthandler.dump_traceback_later(limit_s)
        signal.alarm(limit_s + 3)

    run = Run(MPI.COMM_WORLD, seed)
    execute(run, steps, begin_to_count)
    begin_to_count()
    run.close()
    signal.alarm(0)
    faulthandler.cancel_dump_traceback_later()
    return run


def execute(run: Run, steps: Sequence[Step], note: Callable[[], None] = lambda: None) -> None:
    """Take each step, and end it `hold` steps later; all ranks in the same order. note: called
    before each."""
    under_way: list[tuple[int, Place, Iterator[None]]] = []
    for idx, (number, hold, on, work, arguments) in enumerate(steps):
        note()
        comm = run.communicator(on)
        if comm != MPI.COMM_NULL:
            place = Place(run, number, comm, work.__name__)
            run.num_steps[place.kind] += comm.rank == 0
            under_way.append((idx + hold, place, work(place, **arguments)))
            _go_on(*under_way[-1][1:], is_last=False)
        due = [each for each in under_way if each[0] <= idx]
        under_way = [each for each in under_way if each[0] > idx]
        for _, place, step in due:
            note()
            _go_on(place, step, is_last=True)
    for _, place, step in under_way:
        note()
        _go_on(place, step, is_last=True)


def _go_on(place: Place, step: Iterator[None], *, is_last: bool) -> None:
    """To the step's next yield, or to its end."""
    try:
        while True:
            next(step)
            if not is_last:
                return
    except StopIteration:
        return
    except Exception as error:
        error.add_note(f"step {place.number} ({place.kind}), rank {MPI.COMM_WORLD.rank}")
        raise
