"""Files that a run leaves: a regular file appears whole or not at all, anything else is written to.

A regular file, or one that is not there yet, is written under a second name and renamed, so that a
reader never sees half of it. A symbolic link is followed and stays. Devices, pipes, and what lies
in /dev or /proc (such as /dev/stdout) are opened and written, never replaced.
"""

import contextlib
import os
import stat

__all__ = ["OutputError", "is_writable", "write_file"]


class OutputError(OSError):
    """An output that could not be written; the text names the file and says why."""


def write_file(path: str, content: bytes | str) -> None:
    """Make `content` what is in the file, or write it to the device or pipe; raises OutputError."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if _is_replaced(path):
            _replace(os.path.realpath(path), data)
        else:
            _write_through(path, data)
    except OSError as error:
        raise OutputError(f"'{path}' was not written: {error.strerror}") from error


def is_writable(path: str) -> bool:
    """Whether this user may write there, as far as that can be told before doing it."""
    try:
        if not _is_replaced(path):
            return not os.path.isdir(path) and os.access(path, os.W_OK)
        return os.access(os.path.dirname(os.path.realpath(path)), os.W_OK)
    except OSError:
        return False


def _is_replaced(path: str) -> bool:
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    if folder == "/dev" or folder.startswith("/proc/"):
        return False  # a name of something that is open elsewhere
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def _write_through(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    with open(descriptor, "wb") as file:
        file.write(data)


def _replace(target: str, data: bytes) -> None:
    partial = f"{target}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(target).st_mode))
            file.write(data)
        os.rename(partial, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise
