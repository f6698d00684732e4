"""Pictures made of elements: bars, columns, matrix and heat map. Every figure is in the markup as
it was counted (data-value), beside what it is shown as."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pagewire.run.page.markup import Html, element, join

MAX_CELLS = 32
"""Rows and columns of a matrix; with more ranks neighbours share one."""
MAX_COLUMNS = 64
_STRONG = 0.7
"""From this share on text on a cell needs the other colour."""


class Bar(NamedTuple):
    """A row of bars: its name, its parts, and what stands behind it."""

    name: str
    parts: Sequence[float]
    text: str


def bars(rows: Sequence[Bar], labels: Sequence[str] = ()) -> Html:
    """Rows on one scale, of parts side by side; labels name the parts."""
    longest = max((sum(row.parts) for row in rows), default=0) or 1
    made = []
    for row in rows:
        parts = [
            element(
                "span",
                class_=f"c{idx % 4}",
                style=f"width:{100 * value / longest:.3f}%",
                title=f"{labels[idx]}: {value:,}" if labels else None,
                data_value=value,
            )
            for idx, value in enumerate(row.parts)
        ]
        made += [
            element("span", row.name, class_="name"),
            element("div", *parts, class_="track"),
            element("span", row.text),
        ]
    keys = [
        element("span", element("i", class_=f"c{idx % 4}"), label, class_="key")
        for idx, label in enumerate(labels)
    ]
    return join(element("p", *keys) if keys else None, element("div", *made, class_="bars"))


def columns(counts: Sequence[int], names: Sequence[str], ends: tuple[str, str]) -> Html:
    """A histogram: a column for each count, with the names of the first and the last below."""
    highest = max(counts, default=0) or 1
    made = [
        element(
            "span",
            element(
                "i",
                class_="some" if count else None,
                style=f"height:{100 * count / highest:.2f}%",
            ),
            title=f"{name}: {count:,}",
            data_value=count,
        )
        for name, count in zip(names, counts, strict=True)
    ]
    below = element("div", *(element("span", end) for end in ends), class_="ends")
    return element(
        "figure",
        element("div", *made, class_="columns"),
        below,
        element("figcaption", f"Highest column: {max(counts, default=0):,}"),
    )


def matrix(
    values: Sequence[Sequence[int]], show: Any, rows: str, columns_name: str
) -> tuple[Html, int]:
    """A table of cells, of stronger colour with more; and how many ranks share a row."""
    num_ranks = len(values)
    step = -(-num_ranks // MAX_CELLS) or 1
    starts = range(0, num_ranks, step)
    cells = [
        [sum(sum(line[left : left + step]) for line in values[top : top + step]) for left in starts]
        for top in starts
    ]
    most = max((cell for line in cells for cell in line), default=0) or 1
    names = [
        f"{start}" if step == 1 else f"{start}-{min(start + step, num_ranks) - 1}"
        for start in starts
    ]
    head = element(
        "tr", element("th", f"{rows} \\ {columns_name}"), *(element("th", n) for n in names)
    )
    body = [
        element("tr", element("th", name), *(_cell(cell, most, show) for cell in line))
        for name, line in zip(names, cells, strict=True)
    ]
    return element("div", element("table", head, *body, class_="heat"), class_="wide"), step


def _cell(value: int, most: int, show: Any) -> Html:
    share = value / most
    return element(
        "td",
        show(value) if value else "",
        class_="strong" if share >= _STRONG else None,
        style=f"--share:{share:.3f}",
        data_value=value,
    )


def pages(counts: Mapping[int, int], group_bytes: int) -> Html:
    """A cell for each group of pages, in the order of addresses; where they do not adjoin a new
    line begins with its first address."""
    most = max(counts.values(), default=0) or 1
    made = []
    expected = -1
    for address, count in sorted(counts.items()):
        if address != expected:
            made.append(element("b", f"{address:#x}"))
        expected = address + group_bytes
        made.append(
            element(
                "i",
                style=f"--share:{0.15 + 0.85 * count / most:.3f}",
                title=f"{address:#x}: {count:,}",
                data_value=count,
            )
        )
    return element("div", *made, class_="pages")
