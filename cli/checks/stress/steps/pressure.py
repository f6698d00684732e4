"""What other software does to a process's memory: drop, protect and remap pages, fork."""

import mmap
import os
import random
import threading
from typing import Any

from pagewire.cli.checks.stress.steps.kit import Area, Place

_MAX_ACTS = 10
"""Of a thread beside a transfer."""


def fork() -> None:
    """A child that ends at once: until then all private pages are shared, and write-protected."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def churn(num_bytes: int = 1 << 20) -> None:
    """Map, touch and unmap memory, so that addresses come back."""
    other = Area(num_bytes, 0, "anonymous")
    other.bytes[:: mmap.PAGESIZE] = 1
    other.protect(False)
    other.protect(True)
    other.remap()


def before_receive(acts: Any, area: Area) -> None:
    """Acts on a receive buffer that has no data yet."""
    for act in acts:
        if act == "touch":
            area.bytes[:: mmap.PAGESIZE] = area.guard
        elif act == "drop":
            area.drop()
        elif act == "remap":
            area.remap()
        elif act == "fork":
            fork()
        elif act == "churn":
            churn()


def before_send(acts: Any, area: Area) -> None:
    """Acts on a send buffer that has its data."""
    if "drop" in acts and area.memory in ("shared", "file"):
        area.drop()
    if "protect" in acts:
        area.protect(False)


def after_send(acts: Any, area: Area | None) -> None:
    """The buffer may be used again."""
    if area and "protect" in acts:
        area.protect(True)


class During:
    """A thread that goes on while a transfer is under way; it harms no data.

    acts: drop (shared areas), fork, churn.
    """

    def __init__(self, place: Place, acts: Any, areas: list[Area]) -> None:
        self._acts = [act for act in acts if act in ("drop", "fork", "churn")]
        self._areas = [area for area in areas if area.memory == "shared"]
        self._random = random.Random(place.run.seed + place.number)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)
        if self._acts and areas:
            self._thread.start()

    def _go_on(self) -> None:
        for _ in range(_MAX_ACTS):
            if self._is_over.is_set():
                return
            act = self._random.choice(self._acts)
            if act == "fork":
                fork()
            elif act == "churn":
                churn()
            else:
                for area in self._areas:
                    area.drop()
            os.sched_yield()  # a sleep could be virtual

    def end(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
