"""What an experiment is asked for and what it gives back: columns with units, rows, notes, panels.

A result holds no date and no host name unless it is made to stay (`record`): the same settings give
the same files, as far as the experiment's own notes do not say otherwise.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from pagewire.cli.kit.conditions import Condition, Line, lines_of
from pagewire.cli.kit.numbers import size_text
from pagewire.cli.kit.points import Points
from pagewire.run.settings import config, platform
from pagewire.run.timeline.request import ALONE, Group, Parts

DEFAULT_REPETITIONS = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks of every experiment."""

    environ: Mapping[str, str]
    """Environment that holds the user's settings; experiments put theirs on top."""
    repetitions: int = DEFAULT_REPETITIONS
    full: bool = False
    """the papers' sizes where the default is smaller"""
    quick: bool = False
    """the smallest sizes that still show something, for tests"""
    app: str = "mini"
    """in the application tables: the bundled apps, or `real`, the programs that the paper ran"""
    hpl: str = ""
    hpcg: str = ""
    """paths of programs for `real`"""
    draw: str = "exact"
    """how part-fig14 draws absent pages: exact, independent or clustered:K"""
    record: bool = False
    """the results are to stay: they tell date and host, and the application tables get a page"""
    say: Callable[[str], None] = lambda text: None
    """takes lines of progress"""
    timeline: Parts | None = None
    """where the runs' timelines are kept; None: none are written"""
    points: Points = dataclasses.field(default_factory=Points)
    """takes each thing that is measured, so that a stopped experiment can go on"""

    def group(self, environ: dict[str, str], label: str) -> Group:
        """Of the run that is launched next in this environment."""
        return ALONE if self.timeline is None else self.timeline.begin(environ, label)

    def settings(self, *assignments: str) -> config.Config:
        """The user's settings with `section.name=value` on top."""
        return config.load(assignments, environ=self.environ)

    def platform(self) -> platform.Platform:
        return platform.load(self.settings().run.platform)

    def pick(self, quick: Any, default: Any, full: Any = None) -> Any:
        """The value for the chosen size."""
        if self.quick:
            return quick
        return full if self.full and full is not None else default

    @property
    def size_name(self) -> str:
        return str(self.pick("quick", "default", "full"))


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One column; `decimals` is for the table on the terminal, files hold what was measured."""

    key: str
    title: str
    unit: str = ""
    decimals: int = 2
    in_table: bool = True
    """Else it is in the files alone."""

    @property
    def head(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def text(self, value: Any) -> str:
        """One cell of the terminal's table."""
        if value is None:
            return "-"
        if self.unit == "B" and isinstance(value, int):
            return size_text(value)
        if isinstance(value, float):
            return f"{value:,.{self.decimals}f}"
        return f"{value:,}" if isinstance(value, int) else str(value)


SIZE = Column("num_bytes", "size", "B")


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel; `deviation` draws bars."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    deviation: Sequence[float] = ()
    dashed: bool = False

    @classmethod
    def of(
        cls,
        label: str,
        rows: Sequence[Mapping[str, Any]],
        x: str,
        y: str,
        *,
        deviation: str = "",
        dashed: bool = False,
    ) -> Self:
        """The line through a table's columns x and y."""
        bars = [row[deviation] for row in rows] if deviation else ()
        return cls(label, [row[x] for row in rows], [row[y] for row in rows], bars, dashed)

    @classmethod
    def by(
        cls, column: str, rows: Sequence[Mapping[str, Any]], x: str, y: str, *, deviation: str = ""
    ) -> list[Self]:
        """A line for each name in a column."""
        names = dict.fromkeys(str(row[column]) for row in rows)
        return [
            cls.of(name, [row for row in rows if row[column] == name], x, y, deviation=deviation)
            for name in names
        ]

    @classmethod
    def over_sizes(
        cls, rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str], dashed: str = ""
    ) -> list[Self]:
        """A line for each titled column that the rows have, over SIZE; one of them dashed."""
        return [
            cls.of(title, rows, SIZE.key, key, dashed=key == dashed)
            for key, title in titles.items()
            if key in rows[0]
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Panel:
    """Axes with lines, or with stacked bars when there are `categories`."""

    x_label: str
    y_label: str
    series: Sequence[Series] = ()
    log_x: bool = False
    log_y: bool = False
    x_is_bytes: bool = False
    title: str = ""
    categories: Sequence[str] = ()
    stacks: Sequence[tuple[str, Sequence[float]]] = ()
    """Parts of the bars from the bottom up: label, and a value for each category."""
    cells: Sequence[Sequence[str]] = ()
    """A map: a name for each row and column, one colour a name, with their labels:"""
    cell_rows: Sequence[str] = ()
    cell_columns: Sequence[str] = ()
    marks: Sequence[tuple[str, Sequence[float]]] = ()
    """Values to be drawn as a bar of their own beside each stack."""

    @classmethod
    def over_bytes(
        cls,
        x_label: str,
        y_label: str,
        series: Sequence[Series],
        *,
        log_y: bool = True,
        title: str = "",
    ) -> Self:
        """Lines over a size, whose axis is logarithmic."""
        return cls(x_label, y_label, series, log_x=True, log_y=log_y, x_is_bytes=True, title=title)


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one experiment."""

    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    panels: Sequence[Panel]
    notes: Sequence[str] = ()
    """Or a text, whose paragraphs they are."""
    varied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Settings that the experiment itself chooses: `section.name` and its value or values."""
    numbers: str = "virtual times of the engine, from the component costs of the platform file"
    """Where the numbers come from."""
    title: str = ""
    """In place of the experiment's, when something else than usual was run."""
    missing: Sequence[str] = ()
    """Points of an experiment that was stopped."""

    def is_text(self, column: Column) -> bool:
        """Has it words in any row? Else numbers."""
        return any(isinstance(row.get(column.key), str) for row in self.rows)

    def __post_init__(self) -> None:
        if isinstance(self.notes, str):
            notes = [" ".join(each.split()) for each in self.notes.strip().split("\n\n")]
            object.__setattr__(self, "notes", notes)


@dataclasses.dataclass(frozen=True, slots=True)
class Experiment:
    """An entry of the registry."""

    name: str
    title: str
    source: str
    """figure or table that it repeats"""
    run: Callable[[Options], Result]
    repeats: bool = True
    """False: nothing is measured more than once"""
    platform: str = ""
    """the machine that the source measured, when it is not the default one"""
    panel_of: str = ""
    """the experiment that measures this panel and another one; `all` runs that alone"""
    conditions: Sequence[Condition] = ()
    """what the source says of its numbers"""
    without: str = ""
    """why it has no conditions"""
    points_of: str = ""
    """by what name its points are kept, when others measure the same ones"""

    def lines(self, rows: Sequence[Mapping[str, Any]]) -> list[Line]:
        """Of the table of conditions; rows: of the result, none if it did not run."""
        return lines_of(self.name, self.conditions, rows, self.without)

    def options(self, options: Options) -> Options:
        """The user's options, on the experiment's platform unless they choose one."""
        if not self.platform or "run.platform" in options.settings().sources:
            return options
        environ = {**options.environ, "PAGEWIRE_RUN_PLATFORM": self.platform}
        return dataclasses.replace(options, environ=environ)
