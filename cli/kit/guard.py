"""A folder for a run's files, and a guard that cleans up however the run ends.

The guard is a process of its own that waits for the end of the one that made it: also for an end
that nobody can catch (SIGKILL, a machine without memory) and for the second Ctrl-C during the first
one's cleaning. It belongs to no terminal, so that the signals that end a run do not end it. Then it
kills what still runs of the launch and takes away the folder and what MPI left in shared memory.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator

from pagewire.cli.kit import shared_memory
from pagewire.cli.kit.watch import end_marked
from pagewire.native import output

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_STANDARD_STREAMS = 3


@contextlib.contextmanager
def guarded_folder(prefix: str, *, parent: str | None = None, marker: str = "") -> Iterator[str]:
    """Path of a fresh folder, below the one for temporary files unless a parent is given.

    marker: of the launch whose processes are to end with it; empty: none. Raises OutputError.
    """
    where = parent or _temporary()
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # no folder without its guard
    try:
        folder, guard, writing = _make(prefix, where, marker)
    except output.OutputError:
        raise
    except OSError as error:
        remedy = "start in a folder that all hosts see" if parent else "set TMPDIR"
        raise output.OutputError(f"'{where}': {error.strerror}; {remedy}") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    try:
        yield folder
    finally:
        os.close(writing)
        os.waitpid(guard, 0)


def _make(prefix: str, where: str, marker: str) -> tuple[str, int, int]:
    """The folder, its guard, and the end of a pipe that the guard waits for the closing of."""
    begun_s = time.time()
    folder = tempfile.mkdtemp(prefix=prefix, dir=where)
    try:
        reading, writing = os.pipe()
        guard = os.fork()
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise output.OutputError(
            f"no process to guard the run: {error.strerror}; allow more processes (ulimit -u) or "
            "files (ulimit -n)"
        ) from None
    if guard:
        os.close(reading)
        return folder, guard, writing
    try:
        _wait_for_end(reading)
        if marker:
            end_marked(marker)
        shutil.rmtree(folder, ignore_errors=True)
        if marker:
            # Who opens a file that is looked at just then interrupts the look by SIGIO.
            signal.signal(signal.SIGIO, signal.SIG_IGN)
            shared_memory.remove_left(begun_s)
    finally:
        os._exit(0)


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise output.OutputError(
            f"no folder for temporary files: {error.strerror or error}; set TMPDIR"
        ) from None


def _wait_for_end(reading: int) -> None:
    """In the guard: until the other end of the pipe is closed, holding nothing else open that a
    reader of the run's output may wait for the end of. The signals stay blocked."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(_STANDARD_STREAMS):
        os.dup2(nowhere, descriptor)
    os.dup2(reading, _STANDARD_STREAMS)
    os.closerange(_STANDARD_STREAMS + 1, os.sysconf("SC_OPEN_MAX"))
    os.read(_STANDARD_STREAMS, 1)
