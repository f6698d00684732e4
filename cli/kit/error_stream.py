"""Standard error of the ranks, past mpiexec.

A process manager reads it through a pipe of its own, and what a rank says last is lost when the
manager ends all ranks at that moment (hydra 5.0.2): of all lines the one that tells why. So the
launcher keeps a named pipe in its folder, which the ranks' witnesses make their standard error.
"""

import contextlib
import os
from collections.abc import Callable

NAME = "stderr"
"""The pipe's name in the launch's folder; cli/launch/rank_starter.c has it too."""

_CHUNK_BYTES = 65536
_STANDARD_ERROR = 2


class ErrorStream:
    """Brings what the ranks write to the launcher's own standard error."""

    def __init__(self, directory: str, before_text: Callable[[], None] = lambda: None) -> None:
        """directory: the launch's folder; empty, or on a file system without named pipes, the
        ranks' standard error stays mpiexec's. before_text: called before each text."""
        self._before_text = before_text
        self.descriptor = -1
        """To be polled; -1 when there is no pipe."""
        if not directory:
            return
        with contextlib.suppress(OSError):
            os.mkfifo(f"{directory}/{NAME}", 0o600)
            # For writing too: without a writer it would poll as ended.
            self.descriptor = os.open(f"{directory}/{NAME}", os.O_RDWR | os.O_NONBLOCK)

    def forward(self) -> bool:
        """Pass on what one look finds, to nowhere when the launcher's standard error is closed;
        whether it found something."""
        try:
            text = os.read(self.descriptor, _CHUNK_BYTES) if self.descriptor >= 0 else b""
        except BlockingIOError:
            return False
        if text:
            self._before_text()
        with contextlib.suppress(OSError):
            while text:
                text = text[os.write(_STANDARD_ERROR, text) :]
        return self.descriptor >= 0

    def close(self) -> None:
        """Pass on the rest and close the pipe."""
        while self.forward():
            pass
        if self.descriptor >= 0:
            os.close(self.descriptor)
