"""Where a rank's time goes, by `MPI.Wtime`, which is virtual time under pagewire."""

from collections.abc import Callable

SECTIONS = ("DDOT", "DDOT Allreduce", "WAXPBY", "SpMV", "MG")
"""what HPCG reports; the global sums within DDOT are told apart"""


class Stopwatch:
    """Each `stamp` books the time since the last one to a section."""

    def __init__(self, wtime: Callable[[], float]) -> None:
        self._wtime = wtime
        self._last = 0.0
        self._begin = 0.0
        self.total_seconds = 0.0
        self.section_seconds = dict.fromkeys(SECTIONS, 0.0)

    def start(self) -> None:
        """Begin a timed part with all sections at 0."""
        self.section_seconds = dict.fromkeys(SECTIONS, 0.0)
        self._begin = self._last = self._wtime()

    def stamp(self, section: str) -> None:
        """Book what passed since the last stamp to `section`."""
        now = self._wtime()
        self.section_seconds[section] += now - self._last
        self._last = now

    def stop(self) -> None:
        """End the timed part."""
        self.total_seconds = self._wtime() - self._begin
