"""How far a command of several runs is: a bar on a terminal, else a line a run; all on standard
error.

The bar is drawn by the thread that waits for the ranks, at its own pace: a thread of its own would
not outlive the forks of the launcher. Whoever else writes to the terminal calls make_room() first.
"""

import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress

_REDRAW_S = 0.2

_SHORT_S = 60.0
"""With less left a line does not say so."""


class Display:
    """The runs of one command, or of one of its parts."""

    def __init__(self, num_runs: int, *, quiet: bool = False, title: str = "") -> None:
        """title: of the part, in front of each run's name."""
        self._num_runs = num_runs
        self._work = float(num_runs)
        self._title = title
        self._quiet = quiet
        self._begun_s = time.monotonic()
        self._run_begun_s = self._begun_s
        self._measured_s = 0.0
        self._measured_work = 0.0
        """Of runs that have ended, here or before a stop."""
        self._number = 0
        self._name = ""
        self._virtual_ns = 0
        self._bar: Progress | None = None
        self._is_hidden = False
        self._drawn_s = 0.0
        if not quiet and sys.stderr.isatty():
            self._bar = _bar()
        if self._bar is not None:
            self._task = self._bar.add_task("", total=None, run="", numbers="")

    def __enter__(self) -> Self:
        global _shown
        _shown = self
        return self

    def __exit__(self, *_: object) -> None:
        global _shown
        _shown = _NONE
        self.make_room()

    def expect(self, num_runs: int, work: float) -> None:
        """So many runs in all, and so much work, in any unit; unless said each run is 1."""
        self._num_runs = num_runs
        self._work = work

    def begin(self, name: str, *, what: str = "", is_hidden: bool = False) -> None:
        """The next run. what: in front of the name where there is room for it. is_hidden: the
        program's own output comes, so a line stands in place of the bar."""
        self._number += 1
        self._name = f"{self._title}{name}"
        self._is_hidden = is_hidden
        self._run_begun_s = time.monotonic()
        if self._bar is None or is_hidden:
            self.make_room()
            if not self._quiet:
                number = f"run {self._number} of {self._num_runs}"
                text = f"pagewire: {number}: {what}{self._name}{self._left_text}"
                print(text, file=sys.stderr, flush=True)
            return
        self._drawn_s = 0.0
        self.tick()

    def end(self, work: float = 1.0) -> float:
        """The run has ended; how long it took tells what the others will take, by their work."""
        now_s = time.monotonic()
        seconds, self._run_begun_s = now_s - self._run_begun_s, now_s
        self._measured_s += seconds
        self._measured_work += work
        self._is_hidden = False
        return seconds

    def skip(self, work: float = 1.0, seconds: float | None = None) -> None:
        """The next run is not made: it was before, and took so long; with None it falls out."""
        self._number += 1
        if seconds is None:
            self._work -= work
            return
        self._measured_s += seconds
        self._measured_work += work

    @property
    def _left_s(self) -> float | None:
        """Expected, from the beginning of the run under way; None: nobody knows."""
        if not self._measured_work:
            return None
        return (self._work - self._measured_work) * self._measured_s / self._measured_work

    @property
    def _left_text(self) -> str:
        """What is left, where it is worth a word."""
        left_s = self._left_s
        if left_s is None or left_s < _SHORT_S:
            return ""
        return f" ({_clock(time.monotonic() - self._begun_s)} gone, ~{_clock(left_s)} left)"

    def add_virtual(self, time_ns: int) -> None:
        """Virtual time that a run has taken."""
        self._virtual_ns += time_ns

    @property
    def numbers(self) -> str:
        """Elapsed, expected and virtual time."""
        passed_s = time.monotonic() - self._begun_s
        text = _clock(passed_s)
        left_s = self._left_s
        if left_s is not None:
            running_s = time.monotonic() - self._run_begun_s
            text += f" of ~{_clock(passed_s + max(0.0, left_s - running_s))}"
        return f"{text}, virtual {self._virtual_ns / 1e9:.3f} s" if self._virtual_ns else text

    def tick(self) -> None:
        """Draw it again, if it is time to."""
        now_s = time.monotonic()
        if self._bar is None or self._is_hidden or now_s < self._drawn_s + _REDRAW_S:
            return
        self._drawn_s = now_s
        description = f"run {self._number} of {self._num_runs}"
        done = max(0, self._number - 1)
        self._bar.start()
        self._bar.update(
            self._task,
            description=description,
            completed=done,
            total=max(self._num_runs, 1),
            run=self._name,
            numbers=self.numbers,
        )
        self._bar.refresh()

    def make_room(self) -> None:
        """Take the bar away until the next tick."""
        if self._bar is not None:
            self._bar.stop()


_NONE = Display(0, quiet=True)
"""Shows nothing."""

_shown = _NONE
"""The command's own, while it runs."""


def _bar() -> "Progress | None":
    """None: a terminal that cannot go back in its line."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        return None
    name = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(bar_width=8),
        TextColumn("{task.fields[numbers]}", markup=False, table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[run]}", markup=False, table_column=name),
        console=console,
        auto_refresh=False,
        transient=True,
        expand=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def tick() -> None:
    """Draw the command's bar again, if there is one."""
    _shown.tick()


def make_room() -> None:
    """Before something else is written to the terminal."""
    _shown.make_room()


def add_virtual(time_ns: int) -> None:
    """Virtual time that a run has taken."""
    _shown.add_virtual(time_ns)


def say(text: str) -> None:
    """A line on standard error."""
    make_room()
    print(f"pagewire: {text}", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
