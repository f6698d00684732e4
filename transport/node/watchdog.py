"""Notices that a rank has waited long without any event, so that a hang can be told from work.

Wall time, unlike all else here: silence is of the host's world. It tells once per silence and ends
nothing.
"""

from __future__ import annotations

import linecache
import sys

from pagewire.transport.node.clock import wall_ns

_LIBRARY = "pagewire.transport."
_TURNS_PER_LOOK = 64  # of a loop that yields the core: reading the clock each time would be waste


class Watchdog:
    """limit_ns: silence of wall time that is reported, None: none is."""

    def __init__(self, limit_ns: int | None) -> None:
        self.limit_ns = limit_ns
        self._turns = 0
        self._since_ns: int | None = None
        self._told = limit_ns is None

    def reset(self) -> None:
        """Something happened, or the rank begins to wait anew."""
        self._since_ns = None
        self._told = self.limit_ns is None

    def is_due(self) -> bool:
        """A turn was in vain. True once the limit has passed since the first such turn."""
        self._turns += 1
        if self._told or self._turns % _TURNS_PER_LOOK or self.limit_ns is None:
            return False
        now_ns = wall_ns()
        if self._since_ns is None:
            self._since_ns = now_ns
        self._told = now_ns - self._since_ns >= self.limit_ns
        return self._told


def call_site() -> str:
    """Where the program called MPI: the source line and its place."""
    frame, called = sys._getframe(), ""
    while frame.f_globals.get("__name__", "").startswith(_LIBRARY):
        called = frame.f_code.co_name
        if frame.f_back is None:
            return called
        frame = frame.f_back
    path, line = frame.f_code.co_filename, frame.f_lineno
    return f"{linecache.getline(path, line).strip() or called} ({path}:{line})"
