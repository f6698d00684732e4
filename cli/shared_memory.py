"""What MPI leaves in /dev/shm when its ranks are killed: nothing but the next boot takes it away.

MPICH keeps `mpich_shm_*` for as long as a run lasts, and libfabric and Open MPI have files of their
own. Their names do not tell whose they are, so those are left over that this user's processes have
made since the launch began and that no process has open.
"""

import contextlib
import os
import pathlib
import re
import stat

_FOLDER = "/dev/shm"
_MPICH = re.compile(r"mpich_(shm|vci)_[0-9a-f]+_\d+|sm_segment\..+")
_LIBFABRIC = re.compile(r"(\d+):\d+:\d+")
"""The process, the user, and the endpoint that it was."""

_CLOCK_S = 0.1
"""Times of files may lag behind the clock by a tick."""


def remove_left(since_s: float) -> None:
    """Remove what is left since a time of time.time()."""
    left = {entry.path for entry in _entries() if _is_left(entry, since_s - _CLOCK_S)}
    if left:
        # After the list: what was made since then is not on it.
        left -= _in_use()
    for path in left:
        with contextlib.suppress(OSError):
            os.unlink(path)


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


def _in_use() -> set[str]:
    """Files in shared memory that a process has open or mapped.

    Of each process the open files come first: a file that is open and not yet mapped would
    otherwise be missed when it is mapped and closed in between.
    """
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        process = pathlib.Path("/proc", entry)
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(process / "fd"):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(process / "fd" / descriptor))
        with contextlib.suppress(OSError):
            for line in process.joinpath("maps").read_text(errors="replace").splitlines():
                if _FOLDER in line:
                    found.add(line[line.index(_FOLDER) :])
    return found
