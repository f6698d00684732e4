"""Folders that a command writes to, and room on their file systems: what is missing there ends runs
in odd ways."""

import os
import pathlib

from pagewire.native.output import OutputError
from pagewire.native.settings import ConfigError

_RUN_BYTES = 64 << 10
_RANK_BYTES = 32 << 10
"""A rank's records and its report are smaller, each in blocks of the file system."""

_FULL_BYTES = 8 << 10
_SHARED_MEMORY = "/dev/shm"


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
    return found


def _free_bytes(folder: str) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 1 << 62
    # A file system that does not count (network, overlay) has no blocks at all.
    return found.f_bavail * found.f_frsize if found.f_blocks else 1 << 62
