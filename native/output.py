"""Files that a run leaves: a regular file appears whole or not at all, anything else is written to.

How is said in node/report/output_file.h.
"""

import contextlib
import fcntl
import os
import stat
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from typing import BinaryIO

from pagewire.native import ffi, lib

__all__ = ["OutputError", "is_writable", "let_be_read", "replacing", "write_file"]

_PATIENCE_S, _LOOK_S = 2.0, 0.01


class OutputError(OSError):
    """An output that could not be written; the text names the file and says why."""


def write_file(path: str, content: bytes | bytearray | str) -> None:
    """Make `content` what is in the file, or write it to the device or pipe; raises OutputError."""
    data = content.encode() if isinstance(content, str) else content
    code = lib.pw_output_write(os.fsencode(path), ffi.from_buffer(data), len(data))
    if code < 0:
        why = os.strerror(ffi.errno) if code == lib.PW_ERR_HOST else "the path is too long"
        raise OutputError(f"'{path}' was not written: {why}")


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A file that is written piece by piece; it takes the path's place when the block has ended
    well. Raises OutputError."""
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            yield file
        os.replace(partial, path)
    except OSError as error:
        raise OutputError(f"'{path}' was not written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(partial)


def is_writable(path: str) -> bool:
    """Whether this user may write there, as far as that can be told before doing it."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    try:
        is_kept = not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        is_kept = False
    except OSError:
        return False
    if is_kept or folder == "/dev" or folder.startswith("/proc/"):
        return not os.path.isdir(path) and os.access(path, os.W_OK)
    return os.access(os.path.dirname(os.path.realpath(path)), os.W_OK)


def let_be_read() -> None:
    """Before this process ends all ranks: flush, and wait until mpiexec has read what was printed.
    What is still in a pipe when a run is aborted is lost."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # it is closed
            stream.flush()
            _wait_until_read(stream.fileno())


def _wait_until_read(descriptor: int) -> None:
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return
    for _ in range(round(_PATIENCE_S / _LOOK_S)):
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
        if not struct.unpack("i", answer)[0]:
            return
        threading.Event().wait(_LOOK_S)  # sleep and select may be the virtual clock's
