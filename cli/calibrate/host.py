"""What this host's memory and threads cost, in wall time. The loops are C
(cli/native/host_costs.c): Python's own time is in no sample.

Absent pages are anonymous ones that madvise took away, or, for `file`, pages of a file of ours that
left the page cache. Nothing here needs privileges; what this host refuses is left out, with the
reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence

from pagewire.cli.calibrate.samples import Samples, size_text
from pagewire.lab.buffer import PAGE_BYTES
from pagewire.native import EngineError, check, ffi, lib
from pagewire.native.settings import ConfigError

KIB = 1024
_PAGES = tuple(PAGE_BYTES * n for n in (1, 4, 16, 64, 256))
_QUICK_PAGES = _PAGES[:3]
_FILE_BYTES = 4 << 20
_PAUSE_NS = 100_000
"""In which a thread falls asleep."""


@dataclasses.dataclass(frozen=True, slots=True)
class Effort:
    """How long each measurement takes."""

    budget_ns: int
    num_samples: int
    is_quick: bool


NORMAL = Effort(60_000_000, 400, False)
QUICK = Effort(2_000_000, 20, True)


_BLOCKS = tuple(n * KIB for n in (4, 64, 1024, 4096))
_HUGE = (lib.PW_HOST_HUGE_BYTES,)
OPERATIONS = (
    ("clock", lib.PW_HOST_CLOCK, (0,), (0,)),
    ("touch resident", lib.PW_HOST_TOUCH_RESIDENT, _BLOCKS, _BLOCKS[:2]),
    ("touch absent", lib.PW_HOST_TOUCH_ABSENT, _PAGES, _QUICK_PAGES),
    ("touch absent huge", lib.PW_HOST_TOUCH_HUGE, _HUGE, _HUGE),
    ("pin resident", lib.PW_HOST_PIN_RESIDENT, _PAGES, _QUICK_PAGES),
    ("pin absent", lib.PW_HOST_PIN_ABSENT, _PAGES, _QUICK_PAGES),
    ("unpin", lib.PW_HOST_UNPIN, _PAGES, _QUICK_PAGES),
    ("mmap", lib.PW_HOST_MMAP, (4 * KIB, 1024 * KIB), (4 * KIB,)),
    ("munmap", lib.PW_HOST_MUNMAP, _PAGES, _QUICK_PAGES),
    ("page in", lib.PW_HOST_PAGE_IN, _PAGES, _QUICK_PAGES),
    ("copy warm", lib.PW_HOST_COPY_WARM, (8, 256, *_BLOCKS), (8, *_BLOCKS[:2])),
    # Before each 128 MiB of memory are filled.
    ("copy cold", lib.PW_HOST_COPY_COLD, (8, 256, *_BLOCKS), ()),
)
"""What tables call it, what is measured, sizes in bytes, and those of --quick."""
_WAKEUPS = {
    "eventfd": lib.PW_HOST_WAKE_EVENTFD,
    "futex": lib.PW_HOST_WAKE_FUTEX,
    "netlink": lib.PW_HOST_WAKE_NETLINK,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What was measured, in the order of the table; and what was not, with the reason."""

    samples: Sequence[Samples]
    missing: Sequence[str]
    cores: tuple[int, int]
    """of the sending and of the waiting thread"""

    def of(self, name: str) -> list[Samples]:
        """All sizes of one operation, rising."""
        return [each for each in self.samples if each.name == name]


def measure(effort: Effort, folder: str) -> Found:
    """Everything; folder: where a file is made, whose pages leave the cache."""
    if os.sysconf("SC_PAGE_SIZE") != PAGE_BYTES:
        raise ConfigError(
            f"this host has pages of {os.sysconf('SC_PAGE_SIZE')} B, and a platform of "
            f"{PAGE_BYTES} B: nothing that is measured here would be of them"
        )
    cores = _two_cores()
    samples: list[Samples] = []
    missing: list[str] = []
    for name, which, sizes, quick_sizes in OPERATIONS:
        for num_bytes in quick_sizes if effort.is_quick else sizes:
            with _noting(missing, name, num_bytes):
                samples.append(_costs(name, which, num_bytes, effort))
    with _noting(missing, "page of a file", 0), _file(folder) as file:
        for name, which in (
            ("file page, cached", lib.PW_HOST_TOUCH_FILE),
            ("file page, on disk", lib.PW_HOST_TOUCH_FILE_OUT),
        ):
            taken = _costs(name, which, _FILE_BYTES, effort, file)
            samples.append(dataclasses.replace(taken, num_bytes=PAGE_BYTES))
    for name, which in _WAKEUPS.items():
        with _noting(missing, f"wake-up by {name}", 0):
            samples += _wakeups(name, which, cores, effort)
    samples.append(_lookups(effort))
    return Found(samples, missing, cores)


@contextlib.contextmanager
def _noting(missing: list[str], name: str, num_bytes: int) -> Iterator[None]:
    """What the host refuses is no error of the command's."""
    try:
        yield
    except (EngineError, OSError) as error:
        if isinstance(error, EngineError) and error.code not in (lib.PW_ERR_HOST, lib.PW_ERR_FULL):
            raise
        what = f"{name}, {size_text(num_bytes)}" if num_bytes >= KIB else name
        full = isinstance(error, EngineError) and error.code == lib.PW_ERR_FULL
        reason = "this host keeps the pages otherwise" if full else str(error)
        missing.append(f"{what}: {reason}")


def _costs(name: str, which: int, num_bytes: int, effort: Effort, file: int = -1) -> Samples:
    taken = ffi.new("double[]", effort.num_samples)
    count = lib.pw_host_cost_samples(
        which, num_bytes, file, effort.budget_ns, effort.num_samples, taken
    )
    check(min(count, 0), "refused")
    return Samples(name, num_bytes, tuple(taken[0:count]))


def _wakeups(name: str, which: int, cores: tuple[int, int], effort: Effort) -> list[Samples]:
    sending = ffi.new("double[]", effort.num_samples)
    waking = ffi.new("double[]", effort.num_samples)
    count = lib.pw_host_wakeup_samples(
        which, *cores, _PAUSE_NS, 4 * effort.budget_ns, effort.num_samples, sending, waking
    )
    check(min(count, 0), "refused")
    return [
        Samples(f"{name}, send", 0, tuple(sending[0:count])),
        Samples(f"{name}, wake-up", 0, tuple(waking[0:count])),
    ]


def _lookups(effort: Effort) -> Samples:
    num_lookups = 2_000 if effort.is_quick else 50_000
    rounds = [lib.pw_bench_lookup_ns(lib.PW_BENCH_TREE, num_lookups) for _ in range(7)]
    check(min(int(min(rounds)), 0), "look-up in a tree")
    return Samples("look-up in a tree", 0, tuple(rounds))


@contextlib.contextmanager
def _file(folder: str) -> Iterator[int]:
    """A file without a name, on the disk and not only in the page cache."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(os.urandom(_FILE_BYTES))
        file.flush()
        os.fsync(file.fileno())
        yield file.fileno()


def _two_cores() -> tuple[int, int]:
    """Of those that we may run on; the same twice when there is one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]
