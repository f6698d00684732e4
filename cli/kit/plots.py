"""Panels to pictures by matplotlib, without a display; the same input gives the same bytes of SVG.

Colours of lines are Okabe and Ito's and those of stacked parts Tol's muted ones, which stay apart
for colour-blind readers; lines differ by marker as well, which are hollow once the colours run out,
and parts then by hatch.
"""

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from pagewire.cli.kit.numbers import size_text
from pagewire.cli.kit.result import Panel

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#999999")
PARTS = (
    "#332288",
    "#88CCEE",
    "#44AA99",
    "#117733",
    "#999933",
    "#DDCC77",
    "#CC6677",
    "#882255",
    "#AA4499",
    "#BBBBBB",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MEASURED = "#555555"

_MAX_COLUMNS = 2
"""Panels side by side; three share one row, with their legends below."""
_WIDTHS = {1: 8.2, 2: 12.5, 3: 13.5}
_MAX_TICKS = 10


def draw(title: str, panels: list[Panel], paths: list[pathlib.Path]) -> None:
    """One figure with all panels, written to each path by its suffix."""
    num_columns = 3 if len(panels) == 3 else min(len(panels), _MAX_COLUMNS)
    num_rows = -(-len(panels) // num_columns)
    settings: dict[Any, Any] = {"svg.hashsalt": "pagewire", "font.size": 9, "axes.titlesize": 10}
    with matplotlib.rc_context(settings):
        figure, grid = pyplot.subplots(
            num_rows,
            num_columns,
            squeeze=False,
            layout="constrained",
            figsize=(_WIDTHS[num_columns], 4.8 * num_rows),
        )
        figure.suptitle(title, fontsize=11)
        axes = [each for row in grid for each in row]
        for panel, each in zip(panels, axes, strict=False):
            _draw_panel(panel, each)
        for each in axes[len(panels) :]:
            each.set_visible(False)
        _legends(axes[: len(panels)])
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, dpi=130, metadata=metadata)
        pyplot.close(figure)


def _draw_panel(panel: Panel, axes: Any) -> None:
    if panel.cells:
        _draw_cells(panel, axes)
    elif panel.categories:
        _draw_stacks(panel, axes)
    else:
        _draw_lines(panel, axes)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title)
    axes.set_axisbelow(True)
    if not panel.cells:
        axes.grid(axis="both" if panel.series else "y", color="#dddddd", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_lines(panel: Panel, axes: Any) -> None:
    _draw_series(panel, axes)
    _scale_x(panel, axes)
    _scale_y(panel, axes)


def _draw_series(panel: Panel, axes: Any) -> None:
    for idx, series in enumerate(panel.series):
        axes.errorbar(
            series.x,
            series.y,
            yerr=list(series.deviation) or None,
            label=series.label,
            color=COLOURS[idx % len(COLOURS)],
            marker=MARKERS[idx % len(MARKERS)],
            markersize=4 if idx < len(COLOURS) else 5,
            markerfacecolor=None if idx < len(COLOURS) else "white",
            linewidth=1.4,
            linestyle="--" if series.dashed else "-",
            capsize=2,
        )


def _scale_x(panel: Panel, axes: Any) -> None:
    all_x = sorted({x for series in panel.series for x in series.x})
    if panel.log_x:
        axes.set_xscale("log", base=2 if panel.x_is_bytes else 10)
    if panel.x_is_bytes:
        step = -(-len(all_x) // _MAX_TICKS)
        _set_ticks(axes.xaxis, all_x[::step], size_text)
        for label in axes.get_xticklabels():
            label.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    elif len(all_x) <= _MAX_TICKS and panel.log_x:
        _set_ticks(axes.xaxis, all_x, "{:g}".format)


def _scale_y(panel: Panel, axes: Any) -> None:
    all_y = [y for series in panel.series for y in series.y]
    if panel.log_y and all_y and min(all_y) > 0:
        axes.set_yscale("log")
        if max(all_y) / min(all_y) < 30:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_minor_locator(NullLocator())
    elif all_y and min(all_y) < 0:
        axes.axhline(0, color="#888888", linewidth=0.8)
    elif all_y:
        axes.set_ylim(bottom=0, top=max(all_y) * 1.08 or 1)
        if all(float(y).is_integer() for y in all_y):
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))


def _set_ticks(axis: Any, places: Sequence[float], text: Callable[[float], str]) -> None:
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def _number(value: float) -> str:
    """1,000 or 0.00001: no powers."""
    return f"{value:,g}" if value == 0 or abs(value) >= 1e-3 else f"{value:.9f}".rstrip("0")


def _draw_stacks(panel: Panel, axes: Any) -> None:
    places = range(len(panel.categories))
    width = 0.38
    draw_bars = functools.partial(axes.bar, width=width, edgecolor="white", linewidth=0.4)
    bottoms = [0.0] * len(panel.categories)
    for idx, (label, values) in enumerate(panel.stacks):
        draw_bars(
            [place - width / 2 for place in places],
            values,
            bottom=bottoms,
            label=label,
            color=PARTS[idx % len(PARTS)],
            hatch="///" if idx >= len(PARTS) else None,
        )
        bottoms = [bottom + value for bottom, value in zip(bottoms, values, strict=True)]
    for label, values in panel.marks:
        draw_bars([place + width / 2 for place in places], values, label=label, color=MEASURED)
    axes.set_xticks(list(places), panel.categories)
    if len(panel.categories) == 1:
        axes.set_xlim(-1.4, 1.4)


def _draw_cells(panel: Panel, axes: Any) -> None:
    names = sorted({name for row in panel.cells for name in row})
    for row_idx, row in enumerate(panel.cells):
        for column_idx, name in enumerate(row):
            colour = COLOURS[names.index(name) % len(COLOURS)]
            axes.barh(row_idx, 0.96, 0.9, column_idx - 0.48, color=colour, alpha=0.55)
            axes.text(column_idx, row_idx, name, ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(panel.cell_columns)), panel.cell_columns)
    axes.set_yticks(range(len(panel.cell_rows)), panel.cell_rows)


def _legends(axes: list[Any]) -> None:
    """Beside or below the axes, so that no data lie below; one for all panels that have the
    same."""
    if len(axes) == 3:
        for each in axes:
            if len(each.get_legend_handles_labels()[1]) > 1:
                each.legend(
                    loc="upper center",
                    bbox_to_anchor=(0.5, -0.14),
                    ncols=2,
                    frameon=False,
                    fontsize=8,
                )
        return
    legends = [each.get_legend_handles_labels() for each in axes]
    for idx, (each, (handles, labels)) in enumerate(zip(axes, legends, strict=True)):
        last_of_row = (idx + 1) % _MAX_COLUMNS == 0 or idx + 1 == len(axes)
        same_on_the_right = not last_of_row and legends[idx + 1][1] == labels
        if len(labels) > 1 and not same_on_the_right:
            # Stacks are read from the bottom up, so their legend is too.
            is_stacked = not each.lines
            each.legend(
                handles,
                labels,
                loc="center left",
                bbox_to_anchor=(1.01, 0.5),
                frameon=False,
                reverse=is_stacked,
                fontsize=8,
            )
