"""Completion notifications of the RDMA library that have arrived in this rank's memory."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple


class Notice(NamedTuple):
    """One of them; `error` is 0 or a negative PW_ERR_*."""

    time_ns: int
    first_data: int
    last_data: int
    error: int
    rank: int


class Notices:
    """Those that somebody watches for, by the address at which they arrive."""

    def __init__(self) -> None:
        self._watched: dict[int, list[Notice]] = {}

    def watch(self, address: int) -> list[Notice]:
        """Keep the notifications that arrive at `address`, a heap by time, until `unwatch`."""
        return self._watched.setdefault(address, [])

    def unwatch(self, address: int) -> None:
        self._watched.pop(address, None)

    def arrived(self, event: Any) -> None:
        """The engine's PW_HOST_NOTIFIED."""
        notices = self._watched.get(event.id)
        if notices is not None:
            data = event.data
            notice = Notice(event.time_ns, data[0], data[1], event.error, event.peer)
            heapq.heappush(notices, notice)
