"""Load beside a run, to see whether its virtual times notice: processes that take the cores away in
bursts, that fill and drop memory, that fork, that write and read files."""

import contextlib
import ctypes
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator

_PR_SET_PDEATHSIG = 1
_CHUNK_BYTES = 64 << 20
_PAGE_BYTES = mmap.PAGESIZE


def _take_cores() -> None:
    """Bursts of spinning, from less than a time slice to several."""
    while True:
        end_s = time.monotonic() + random.uniform(0.0002, 0.03)
        while time.monotonic() < end_s:
            pass
        time.sleep(random.uniform(0, 0.005))


def _churn_memory() -> None:
    """Pages come and go, so that the kernel has its hands full."""
    with mmap.mmap(-1, _CHUNK_BYTES) as memory:
        while True:
            for offset in range(0, _CHUNK_BYTES, _PAGE_BYTES):
                memory[offset] = 1
            memory.madvise(mmap.MADV_DONTNEED)


def _fork() -> None:
    """Processes that start and end at once, and move others from core to core."""
    while True:
        children = []
        for _ in range(8):
            child = os.fork()
            if child == 0:
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)


def _use_files() -> None:
    """Writes that fill the page cache, and reads of them."""
    block = bytes(1 << 20)
    with tempfile.TemporaryFile() as file:
        while True:
            file.seek(0)
            for _ in range(32):
                file.write(block)
            file.seek(0)
            while file.read(1 << 20):
                pass


def _compute() -> None:
    """One core, always."""
    while True:
        pass


_ALL = {"cores": _take_cores, "memory": _churn_memory, "forks": _fork, "files": _use_files}
KINDS = {**_ALL, "computing": _compute}


def beside(wanted: bool) -> contextlib.AbstractContextManager[None]:
    """One process of each kind that comes and goes, and one for each core that takes it, while the
    block runs."""
    return processes([*_ALL, *["cores"] * ((os.cpu_count() or 1) - 1)] if wanted else [])


@contextlib.contextmanager
def processes(kinds: Iterable[str]) -> Iterator[None]:
    """Of these KINDS, while the block runs."""
    command = [sys.executable, "-P", "-m", __name__]
    with contextlib.ExitStack() as stack:
        for kind in kinds:
            words = [*command, kind, str(os.getpid())]
            process = stack.enter_context(subprocess.Popen(words, stdin=subprocess.DEVNULL))
            stack.callback(process.kill)
        yield


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent is gone, however that came about."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before prctl could see it
        os._exit(1)


if __name__ == "__main__":
    _die_with(int(sys.argv[2]))
    KINDS[sys.argv[1]]()
