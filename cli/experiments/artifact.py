"""All results of one call in one page and one document: artifact.html and artifact.pdf."""

import base64
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from pagewire.cli.kit import machine
from pagewire.cli.kit.conditions import HOLDS, Line
from pagewire.cli.kit.result import Experiment, Options, Result
from pagewire.native.output import OutputError, write_file
from pagewire.run.page import page
from pagewire.run.page.markup import Html, element, join, note, table

_NAME = "artifact"
_TITLE = "pagewire: every experiment of one call"
_MARGIN_MM = 14
_BODY_PT, _SMALL_PT, _HEAD_PT = 9, 6.5, 13
_PADDING_PT = 13
"""Of a cell, both sides."""


class Chapter(NamedTuple):
    """An experiment that has run."""

    name: str
    title: str
    source: str
    numbers: str
    results: "Cells"
    notes: list[str]
    lines: list[Line]
    """What its source says, and ours."""
    took_s: float

    @classmethod
    def of(cls, experiment: Experiment, result: Result, took_s: float) -> "Chapter":
        columns = [each for each in result.columns if each.in_table]
        return cls(
            experiment.name,
            result.title or experiment.title,
            experiment.source,
            result.numbers,
            Cells(
                [each.head for each in columns],
                [[each.text(row.get(each.key)) for each in columns] for row in result.rows],
                [result.is_text(each) for each in columns],
            ),
            list(result.notes),
            experiment.lines(result.rows),
            took_s,
        )

    @property
    def held(self) -> str:
        """How many of its conditions do."""
        held = [each.holds for each in self.lines if each.holds is not None]
        return f"{sum(held)} of {len(held)}" if held else "-"

    @property
    def conditions(self) -> "Cells":
        """A row for each of its source's sentences."""
        rows = [
            [each.quantity, f"{each.condition} {each.source}", each.ours_text, HOLDS[each.holds]]
            for each in self.lines
            if each.quantity
        ]
        return Cells(["quantity", "the source", "ours", "holds"], rows, [True, True, False, True])


class Cells(NamedTuple):
    """A table."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_text: Sequence[bool]
    """Of each column; others hold numbers."""


def write(
    chapters: Sequence[Chapter], failed: Sequence[str], options: Options, folder: pathlib.Path
) -> None:
    """Both files, with the pictures that the folder has; raises OutputError."""
    about = _about(chapters, failed, options)
    path = folder / f"{_NAME}.html"
    write_file(str(path), page.whole(_TITLE, _html(chapters, about, folder)))
    try:
        _write_pdf(chapters, about, folder)
    except OSError as error:
        raise OutputError(f"'{folder / _NAME}.pdf' was not written: {error.strerror}") from None
    print(f"pagewire: {folder / _NAME}.html .pdf", file=sys.stderr, flush=True)


def _about(chapters: Sequence[Chapter], failed: Sequence[str], options: Options) -> list[str]:
    """What was run, where, and how long it took."""
    record = machine.record()
    host = ", ".join(record["host"].values())
    took_s = sum(each.took_s for each in chapters)
    changed = options.settings().not_default()
    settings = "; ".join(f"{name} = {text}" for name, text in changed.items()) or "none"
    count = f"{len(chapters)} experiment{'s' * (len(chapters) != 1)}"
    found = [
        f"{record['command']}, on {record['date']}: {count} in {took_s / 60:.1f} minutes.",
        f"Host: {host}.",
        f"Sizes: {options.size_name}; repetitions: {options.repetitions}.",
        f"Settings that are not default: {settings}.",
    ]
    return [*found, f"Did not run: {', '.join(failed)}."] if failed else found


def _contents(chapters: Sequence[Chapter]) -> Cells:
    heads = ["experiment", "what it shows", "conditions that hold", "took (s)"]
    rows = [[each.name, each.title, each.held, f"{each.took_s:,.1f}"] for each in chapters]
    return Cells(heads, rows, [True, True, True, False])


# ---- the page


def _html(chapters: Sequence[Chapter], about: Sequence[str], folder: pathlib.Path) -> Html:
    return join(
        element("h1", _TITLE),
        *(element("p", each) for each in about),
        _table(_contents(chapters), links=True),
        *(_section(each, folder) for each in chapters),
    )


def _section(chapter: Chapter, folder: pathlib.Path) -> Html:
    picture = folder / f"{chapter.name}.svg"
    shown = None
    if picture.exists():
        coded = base64.b64encode(picture.read_bytes()).decode()
        source = f"data:image/svg+xml;base64,{coded}"
        shown = element("img", src=source, alt=chapter.title, style="max-width: 100%")
    return element(
        "section",
        element("h2", f"{chapter.name}: {chapter.title}"),
        note(f"{chapter.source}. Numbers: {chapter.numbers}."),
        shown,
        _table(chapter.results),
        *(element("p", each) for each in chapter.notes),
        _table(chapter.conditions) if chapter.conditions.rows else None,
        id=chapter.name,
    )


def _table(cells: Cells, *, links: bool = False) -> Html:
    """links: the first column names chapters."""
    classes = ["text" if is_text else None for is_text in cells.is_text]
    rows = [
        [element("td", text, class_=class_) for text, class_ in zip(row, classes, strict=True)]
        for row in cells.rows
    ]
    if links:
        for made, row in zip(rows, cells.rows, strict=True):
            made[0] = element("td", element("a", row[0], href=f"#{row[0]}"))
    heads = [
        element("th", head, class_=class_)
        for head, class_ in zip(cells.heads, classes, strict=True)
    ]
    return element("div", table(heads, rows), class_="wide")


# ---- the document


def _write_pdf(chapters: Sequence[Chapter], about: Sequence[str], folder: pathlib.Path) -> None:
    """A page for the contents, then each chapter on pages of its own."""
    from reportlab.platypus import PageBreak, SimpleDocTemplate  # takes long to load

    make = _Maker()
    parts = [make.text(_TITLE, make.head)]
    parts += [make.text(each) for each in about]
    parts.append(make.table(_contents(chapters), links=True))
    for chapter in chapters:
        title = f'<a name="{chapter.name}"/>{escape(f"{chapter.name}: {chapter.title}")}'
        parts += [PageBreak(), make.marked(title, make.head)]
        parts.append(make.text(f"{chapter.source}. Numbers: {chapter.numbers}.", make.small))
        picture = folder / f"{chapter.name}.png"
        if picture.exists():
            parts.append(make.picture(picture))
        parts.append(make.table(chapter.results))
        parts += [make.text(each) for each in chapter.notes]
        if chapter.conditions.rows:
            parts.append(make.table(chapter.conditions))
    margin = make.margin
    document = SimpleDocTemplate(
        str(folder / f"{_NAME}.pdf"),
        pagesize=make.page,
        title=_TITLE,
        leftMargin=margin,
        rightMargin=margin,
        topMargin=margin,
        bottomMargin=margin,
    )
    document.build(parts)


class _Maker:
    """Parts of the document, in the letters of matplotlib's own font."""

    def __init__(self) -> None:
        import matplotlib
        from reportlab.lib.enums import TA_RIGHT
        from reportlab.lib.pagesizes import A4
        from reportlab.lib.styles import ParagraphStyle
        from reportlab.lib.units import mm
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.ttfonts import TTFont

        fonts = pathlib.Path(matplotlib.get_data_path(), "fonts", "ttf")
        for name in ("DejaVuSans", "DejaVuSans-Bold"):
            pdfmetrics.registerFont(TTFont(name, str(fonts / f"{name}.ttf")))

        def style(size: float, font: str = "DejaVuSans", **more: Any) -> Any:
            return ParagraphStyle(
                font, None, fontName=font, fontSize=size, leading=1.3 * size, **more
            )

        self.page, self.margin = A4, _MARGIN_MM * mm
        self.width, self.height = A4[0] - 2 * self.margin, A4[1] / 2
        self.body, self.small = style(_BODY_PT), style(_SMALL_PT)
        self.head = style(_HEAD_PT, "DejaVuSans-Bold")
        for each in (self.body, self.small, self.head):
            each.spaceAfter = _BODY_PT / 2
        self._text, self._number = style(_SMALL_PT), style(_SMALL_PT, alignment=TA_RIGHT)

    def marked(self, markup: str, style: Any) -> Any:
        from reportlab.platypus import Paragraph

        return Paragraph(markup, style)

    def text(self, text: str, style: Any = None) -> Any:
        return self.marked(escape(text), style or self.body)

    def picture(self, path: pathlib.Path) -> Any:
        """As wide as the page, and at most half as high."""
        from reportlab.platypus import Image

        return Image(str(path), self.width, self.height, kind="proportional")

    def table(self, cells: Cells, *, links: bool = False) -> Any:
        """links: the first column names chapters."""
        from reportlab.lib import colors
        from reportlab.platypus import Table

        styles = [self._text if is_text else self._number for is_text in cells.is_text]
        made = [
            [self.marked(escape(text), style) for text, style in zip(row, styles, strict=True)]
            for row in cells.rows
        ]
        if links:
            for line, row in zip(made, cells.rows, strict=True):
                line[0] = self.marked(f'<a href="#{row[0]}" color="blue">{row[0]}</a>', self._text)
        heads = [
            self.marked(f'<font name="DejaVuSans-Bold">{escape(head)}</font>', style)
            for head, style in zip(cells.heads, styles, strict=True)
        ]
        everywhere = (0, 0), (-1, -1)
        look = [("LINEBELOW", *everywhere, 0.25, colors.grey), ("VALIGN", *everywhere, "TOP")]
        return Table(
            [heads, *made], self._widths(cells), style=look, repeatRows=1, spaceAfter=_BODY_PT
        )

    def _widths(self, cells: Cells) -> list[float]:
        """Each column has room for its longest word; those with longer texts share the rest."""
        from reportlab.pdfbase.pdfmetrics import stringWidth

        def longest(texts: Iterable[str]) -> float:
            widths = [stringWidth(each, "DejaVuSans-Bold", _SMALL_PT) for each in texts]
            return float(max(widths, default=0)) + _PADDING_PT

        columns = [list(column) for column in zip(cells.heads, *cells.rows, strict=True)]
        least = [longest(word for text in column for word in text.split()) for column in columns]
        wanted = [longest(column) - own for column, own in zip(columns, least, strict=True)]
        rest = max(self.width - sum(least), 0) / (sum(wanted) or 1)
        return [own + rest * more for own, more in zip(least, wanted, strict=True)]
