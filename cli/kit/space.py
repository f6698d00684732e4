"""Folders that a command writes to, room on their file systems, and room for addresses: what is
missing there ends runs in odd ways."""

import os
import pathlib
import resource

from pagewire.native.output import OutputError
from pagewire.native.settings import ConfigError

_RUN_BYTES = 64 << 10
_RANK_BYTES = 32 << 10
"""A rank's records and its report are smaller, each in blocks of the file system."""

_FULL_BYTES = 8 << 10
_SHARED_MEMORY = "/dev/shm"
_ADDRESSES_BYTES = 1 << 30
"""A rank may need so many: 0.3 GiB for Python, NumPy and MPI, and what its program allocates."""


def cache_folder(name: str) -> pathlib.Path:
    """Where a command keeps what it may need again, when nothing else is said."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache, "pagewire", name)


def make(option: str, folder: pathlib.Path) -> None:
    """Make the folder that an option names, before anything runs; raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{option} '{folder}': {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{option} '{folder}': cannot be written")


def check(folder: str, num_ranks: int) -> None:
    """Refuse a folder that cannot hold what a run writes; raises OutputError."""
    needed, free = _RUN_BYTES + num_ranks * _RANK_BYTES, _free_bytes(folder)
    if free < needed:
        raise OutputError(
            f"'{os.path.dirname(folder)}' has {free // 1024} KiB free and a run on {num_ranks} "
            f"ranks may write {needed // 1024} KiB there; make room, or set TMPDIR"
        )


def explain(folder: str) -> str:
    """Why a run may have failed, to be put behind how it did: what is full; empty when nothing."""
    found = ""
    if _free_bytes(folder) < _FULL_BYTES:
        found += f"; '{os.path.dirname(folder)}' is full: make room, or set TMPDIR"
    if _free_bytes(_SHARED_MEMORY) < _FULL_BYTES:
        found += (
            f"; {_SHARED_MEMORY}, which MPI needs, is full: make room, or mount it larger "
            "(docker run --shm-size)"
        )
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < _ADDRESSES_BYTES:
        found += f"; no process may have more than {limit >> 20} MiB of addresses: raise ulimit -v"
    return found


def _free_bytes(folder: str) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 1 << 62
    # A file system that does not count (network, overlay) has no blocks at all.
    return found.f_bavail * found.f_frsize if found.f_blocks else 1 << 62
