"""What the pictures share: size, colors that are read on white and on black, text that the page's
own font and color draw."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

BLUE, ORANGE, GREEN = "#3b82c4", "#d9822b", "#3a9d5d"
RED, PURPLE, GREY = "#d1495b", "#8a63d2", "#8a8f98"

INK = "#010203"
"""Stands for the page's text color until the file is written."""

_ON_ITS_OWN = (
    "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
)
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pagewire",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


@contextmanager
def paper() -> Iterator[None]:
    """Everything that is drawn within has the pictures' settings."""
    with matplotlib.rc_context(_SETTINGS):
        yield


def sheet(width: float, height: float, *, axes: bool = False) -> tuple[Figure, Axes]:
    """A figure of inches, without axes unless they are asked for."""
    figure = Figure(figsize=(width, height), layout="constrained")
    plot = figure.add_subplot()
    if not axes:
        plot.set_axis_off()
    return figure, plot


def box(
    plot: Axes, x: float, y: float, width: float, height: float, text: str, color: str = GREY
) -> None:
    """A rounded box with its text in the middle."""
    shape = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.08", facecolor=color + "30"
    )
    shape.set_edgecolor(color)
    plot.add_patch(shape)
    plot.text(x + width / 2, y + height / 2, text, ha="center", va="center")


def arrow(
    plot: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    color: str = INK,
    bend: float = 0.0,
) -> None:
    style = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0, "lw": 1.2}
    plot.annotate(
        "", xy=end, xytext=start, arrowprops={**style, "connectionstyle": f"arc3,rad={bend}"}
    )


def svg(figure: Figure) -> str:
    """The file's text: as wide as its place, in the color of the text around it."""
    with paper():
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    text = written.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"<[^>]+>", _compact, text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    text = re.sub(r"\n(?=[LCQMz/])", " ", text)  # a path is one line
    return text.replace("<defs>", _ON_ITS_OWN + "\n <defs>", 1)


def _compact(tag: re.Match[str]) -> str:
    """Tenths of a point are finer than any screen; what the picture says is in no tag."""
    return re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", tag[0])


def inline(text: str) -> str:
    """The same as a part of a page, whose colors hold."""
    return text.replace(_ON_ITS_OWN, "")


def words(text: str) -> list[str]:
    """What a picture says: its pieces of text, in order."""
    return [piece.strip() for piece in re.findall(r"<text[^>]*>([^<]*)</text>", text)]
