"""Notices that a rank has waited long without any event, so that a hang can be told from work.

Wall time, unlike all else here: silence is of the host's world. It tells once per silence and ends
nothing.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any

from pagewire.native import lib
from pagewire.ni.engine_view import NEVER

_LIBRARY = ("pagewire.transport.", "pagewire.unimem.")
_NUM_SHOWN = 4  # transfers that a report names


class Watchdog:
    """Of one node (pw_node). limit_ns: silence of wall time that is reported, None: none is."""

    def __init__(self, node: Any, limit_ns: int | None) -> None:
        self.limit_ns = limit_ns
        self._node = node
        self._told_since_ns = 0

    def look(self, waits_for: Callable[[], str]) -> None:
        """A wait goes on; report it when that is due. waits_for: in words, what it waits for."""
        if self.limit_ns is None:
            return
        if lib.pw_node_silent_ns(self._node) < self.limit_ns:
            return
        # By when it began: between two silences there may be no look.
        since_ns = lib.pw_node_silent_since_ns(self._node)
        if since_ns not in (0, self._told_since_ns):
            self._report(waits_for)
            self._told_since_ns = since_ns

    def _report(self, waits_for: Callable[[], str]) -> None:
        """Say on standard error what this rank waits for and what its NI has pending."""
        node = self._node
        ni = lib.pw_node_ni(node)
        under_way = list(_under_way(node))
        shown = ", ".join(under_way[:_NUM_SHOWN]) + (", ..." if under_way[_NUM_SHOWN:] else "")
        next_ns = lib.pw_node_next_ns(node)
        next_event = "none" if next_ns == NEVER else f"at {next_ns} ns"
        lines = (
            f"no event for {(self.limit_ns or 0) / 1e9:g} s of wall time (run.watchdog); "
            + "goes on waiting",
            f"  in: {call_site()}",
            f"  waits for: {waits_for()}",
            f"  virtual time: {lib.pw_node_clock(node).now_ns} ns; the NI's next event: "
            + next_event,
            f"  pending in the NI: transfers and reads {lib.pw_ni_num_pending(ni)}, "
            + f"blocks without acknowledgement {lib.pw_ni_num_transactions(ni)}",
            f"  under way: {shown or 'nothing'}",
        )
        head = f"[rank {lib.pw_node_number(node)}] pagewire: "
        sys.stderr.write("".join(f"{head}{line}\n" for line in lines))
        sys.stderr.flush()


def _under_way(node: Any) -> Any:
    """The node's transfers in words, the oldest first."""
    handle, found = lib.pw_node_under_way(node), []
    while handle:
        what = "read of {} bytes from rank {}" if handle.is_fetch else "send of {} bytes to rank {}"
        found.append(what.format(handle.num_bytes, handle.peer))
        handle = handle.next
    return reversed(found)


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
