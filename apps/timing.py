"""Where a rank's time goes, by `MPI.Wtime`, which is virtual time under pagewire; phases for its
report; and work declared to the emulated node, for `--compute model`."""

import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

_LOADER = "pagewire.transport.facade.loader"
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class Stopwatch:
    """Each `stamp` books the time since the last one to a section."""

    def __init__(self, wtime: Callable[[], float], sections: Sequence[str]) -> None:
        self._wtime = wtime
        self._last = 0.0
        self._begin = 0.0
        self.loop_seconds = 0.0
        self.section_seconds = dict.fromkeys(sections, 0.0)

    def start(self) -> None:
        """Begin the timed loop with all sections at 0."""
        self.section_seconds = dict.fromkeys(self.section_seconds, 0.0)
        self._begin = self._last = self._wtime()

    def skip(self) -> None:
        """Book what passed since the last stamp to no section."""
        self._last = self._wtime()

    def stamp(self, section: str) -> None:
        """Book what passed since the last stamp to `section`."""
        now = self._wtime()
        self.section_seconds[section] += now - self._last
        self._last = now

    def stop(self) -> None:
        """End the timed loop."""
        self.loop_seconds = self._wtime() - self._begin


def declare(*, flops: float = 0.0, num_bytes: float = 0.0) -> None:
    """This rank has just done so many floating-point operations and memory accesses in bytes.

    Belongs after the kernel and before the next MPI call, which books it. Does nothing on plain
    MPI.
    """
    compute = _loaded("compute")
    if compute is not None:
        compute(flops=flops, num_bytes=num_bytes)


def phase(name: str) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """A call of the function is a region of the report. Does nothing on plain MPI."""

    def decorate(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @functools.wraps(function)
        def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
            region = _region()
            if region is None:
                return function(*args, **kwargs)
            with region(name):
                return function(*args, **kwargs)

        return call

    return decorate


def _region() -> Any:
    """pagewire.transport.region; None on plain MPI."""
    if _LOADER not in sys.modules and "PAGEWIRE_NODE_FILE" in os.environ:
        return importlib.import_module("pagewire.transport").region  # the NI is below MPI's library
    return _loaded("region")


def _loaded(name: str) -> Any:
    """Of pagewire.transport. Not imported: on plain MPI it stays unloaded, and without its loader
    nobody emulates."""
    is_emulated = _LOADER in sys.modules
    return getattr(sys.modules["pagewire.transport"], name, None) if is_emulated else None
