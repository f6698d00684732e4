"""Examples of what can be built on GSAS: locks and a barrier in shared pages.

Each is made once by somebody (`create` allocates its zeroed page), who tells the others its
address; who has the address makes an object of his own. Waiting is a look at a word now and then:
`pause_ns` between two looks.
"""

from __future__ import annotations

from typing import Self

from pagewire.unimem.gsas import Gsas

PAUSE_NS = 1_000


class _Shared:
    """Something that stands in a page."""

    def __init__(self, gsas: Gsas, address: int, *, pause_ns: int = PAUSE_NS) -> None:
        self._gsas = gsas
        self.address = address
        self._pause_ns = pause_ns

    @classmethod
    def create(cls, gsas: Gsas, *, node: int | None = None) -> Self:
        return cls(gsas, gsas.alloc(node=node))


class SpinLock(_Shared):
    """One word, 1 while somebody has the lock: compare-and-swap until it was free.

    Not fair, and every waiting thread keeps the word's service busy.
    """

    def __enter__(self) -> Self:
        while not self._gsas.cas(self.address, 0, 1):
            self._gsas.compute(self._pause_ns)
        return self

    def __exit__(self, *error: object) -> None:
        self._gsas.write64(self.address, 0)


class TicketLock(_Shared):
    """Two words: the next ticket and the one whose turn it is. First come, first served."""

    def __enter__(self) -> Self:
        mine = self._gsas.faa(self.address, 1)
        while (ahead := mine - self._gsas.read64(self.address + 8)) > 0:
            self._gsas.compute(ahead * self._pause_ns)
        return self

    def __exit__(self, *error: object) -> None:
        self._gsas.faa(self.address + 8, 1)


class McsLock(_Shared):
    """Queue lock of Mellor-Crummey and Scott (1991): the shared word names the last thread of the
    queue; each thread waits at a word of its own, in a page of its own node.

    The page of a thread: address of the thread behind it, and 1 while it has to wait.
    """

    def __init__(self, gsas: Gsas, address: int, *, pause_ns: int = PAUSE_NS) -> None:
        super().__init__(gsas, address, pause_ns=pause_ns)
        self._mine = gsas.alloc()

    def close(self) -> None:
        """Give back the thread's own page; not while it has the lock or waits for it."""
        self._gsas.free(self._mine)

    def __enter__(self) -> Self:
        gsas = self._gsas
        gsas.write128(self._mine, 0, 1)
        before = gsas.swap(self.address, self._mine)
        if before:
            gsas.write64(before, self._mine)
            while gsas.read64(self._mine + 8):
                gsas.compute(self._pause_ns)
        return self

    def __exit__(self, *error: object) -> None:
        gsas = self._gsas
        behind = gsas.read64(self._mine)
        if not behind:
            if gsas.cas(self.address, self._mine, 0):
                return
            while not (behind := gsas.read64(self._mine)):  # somebody is about to say who he is
                gsas.compute(self._pause_ns)
        gsas.write64(behind + 8, 0)


class Barrier:
    """Two words: how many have come, and how often all of them have. For num_threads threads."""

    def __init__(
        self, gsas: Gsas, address: int, num_threads: int, *, pause_ns: int = PAUSE_NS
    ) -> None:
        self._gsas = gsas
        self.address = address
        self._num_threads = num_threads
        self._pause_ns = pause_ns

    @classmethod
    def create(cls, gsas: Gsas, num_threads: int, *, node: int | None = None) -> Self:
        return cls(gsas, gsas.alloc(node=node), num_threads)

    def wait(self) -> None:
        """Until all threads are here."""
        gsas = self._gsas
        round_ = gsas.read64(self.address + 8)
        if gsas.faa(self.address, 1) == self._num_threads - 1:
            gsas.write128(self.address, 0, round_ + 1)
            return
        while gsas.read64(self.address + 8) == round_:
            gsas.compute(self._pause_ns)
