"""What MPI leaves in /dev/shm when its ranks are killed: nothing but the next boot takes it away.

MPICH keeps `mpich_shm_*` for as long as a run lasts, and libfabric and Open MPI have files of their
own. Their names do not tell whose they are, so those are left over that this user's processes have
made since the launch began and that no process has open or mapped. Only the kernel knows that:
/proc shows neither the processes of other containers nor a file that is just being opened.
"""

import fcntl
import os
import re
import stat
import time

_FOLDER = "/dev/shm"
_MPICH = re.compile(r"mpich_(shm|vci)_[0-9a-f]+_\d+|sm_segment\..+")
_LIBFABRIC = re.compile(r"(\d+):\d+:\d+")
"""The process, the user, and the endpoint that it was."""

_CLOCK_S = 0.1
"""Times of files may lag behind the clock by a tick."""


_PATIENCE_S = 0.5
"""A process that was killed holds its files for a moment when it seems gone."""


def remove_left(since_s: float) -> None:
    """Remove what is left since a time of time.time(). SIGIO has to be blocked or ignored."""
    end_s = time.monotonic() + _PATIENCE_S
    left = [entry for entry in _entries() if _is_left(entry, since_s - _CLOCK_S)]
    while left := [entry for entry in left if not _is_removed(entry)]:
        if time.monotonic() > end_s:
            return
        time.sleep(0.01)


def _is_removed(entry: "os.DirEntry[str]") -> bool:
    """False: somebody has it, now."""
    try:
        _remove_unused(entry)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _entries() -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(_FOLDER) as found:
            return list(found)
    except OSError:
        return []


def _is_left(entry: "os.DirEntry[str]", since_s: float) -> bool:
    libfabric = _LIBFABRIC.fullmatch(entry.name)
    if not libfabric and not _MPICH.fullmatch(entry.name):
        return False
    if libfabric and os.path.exists(f"/proc/{libfabric[1]}"):
        return False
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return (
        stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_ctime >= since_s
    )


def _remove_unused(entry: "os.DirEntry[str]") -> None:
    """The kernel gives a lease for writing on a file that nobody else has open or mapped."""
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        found = os.fstat(descriptor)
        # An empty file may have been made by an open() that is not over. By now the name may be
        # another file's.
        if found.st_size > 0 and found.st_ino == entry.inode() == os.lstat(entry.path).st_ino:
            os.unlink(entry.path)
    finally:
        os.close(descriptor)
