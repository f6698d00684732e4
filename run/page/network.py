"""The links of the network on a page: the hottest by name, and a picture of all by place."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from pagewire.run.page.markup import Html, element, join, note, table

COLOURS = 16
"""Steps of the scale: classes h0 to h15 of the style sheet."""
_SQUARE, _GAP = 12, 10
"""Sides of a square, and from one to the next, in units of the picture."""
_LANE, _EDGE = 4, 1
"""Width of a link beside the one that comes back; what is free around it."""
_PANEL_WIDTH, _UNIT_MAX = 260, 2.5
"""Of a grid with few squares, in px, and how much larger than its units it may become."""
_STRIP, _STRIP_WIDTH = 14, 640
_ROWS = 32
"""Of the table beside a picture."""


class _Spot(NamedTuple):
    """A place of a picture: where it is, and how busy."""

    x: int
    y: int
    width: int
    height: int
    share: float
    name: str


def of_links(own: Mapping[str, Any]) -> Html:
    """own: `links` of a report."""
    is_shared = own["model"] != "private"
    if not is_shared and not own["shared"]:
        return note(
            "Each pair of ranks had links of its own (network.model = private), and no two pairs "
            f"would have met on one of the {own['links']:,} of {own['topology']}: shared, they "
            "would have been as busy."
        )
    if is_shared:
        told = (
            f"Of {own['topology']}: {own['used']:,} of {own['links']:,} links used, "
            f"{own['mean_busy']:.1%} busy on average; {own['long_waits']:,} waits of blocks "
            "above network.wait_limit."
        )
    else:
        told = (
            "Each pair of ranks had links of its own (network.model = private). Had all shared the "
            f"{own['links']:,} links of {own['topology']}, several pairs would have met on "
            f"{own['shared']:,}. Shares are what these were asked for, at the times of this run; "
            "above 100% blocks would have waited."
        )
    return join(note(told), _hottest(own, is_shared), _picture(own["picture"]))


def _hottest(own: Mapping[str, Any], is_shared: bool) -> Html | None:
    if not own["hottest"]:
        return None
    rows = []
    for each in own["hottest"]:
        row = [each["name"], _share(each["busy"]), _share(each["busiest"])]
        row.append(f"{each['busiest_at_s'] * 1e3:,.0f}")
        row.append(f"{each['blocks']:,}")
        row += (
            [f"{each['mean_wait_s'] * 1e6:,.1f}", f"{each['longest_wait_s'] * 1e6:,.1f}"]
            if is_shared
            else [f"{each['pairs']:,}"]
        )
        rows.append(row)
    heads = [
        "link",
        "of the run",
        "busiest ms" if is_shared else "at most in a ms",
        "from (ms)",
        "blocks",
    ]
    heads += ["mean wait (us)", "longest (us)"] if is_shared else ["pairs of ranks"]
    return element("div", table(heads, rows, class_="links"), class_="wide")


def _share(share: float) -> Html:
    return element("td", f"{share:.0%}", data_value=share)


# -- pictures


def _picture(own: Mapping[str, Any]) -> Html | None:
    panels, told = _DRAWN[own["kind"]](own)
    spots = [spot for _, spots in panels for spot in spots]
    most = max((spot.share for spot in spots), default=0.0)
    if not most:
        return None
    drawn = [
        element("figure", element("figcaption", name) if name else None, _svg(found, most, name))
        for name, found in panels
    ]
    hottest = sorted((spot for spot in spots if spot.share), key=lambda spot: -spot.share)
    rows = [[spot.name, _share(spot.share)] for spot in hottest[:_ROWS]]
    summary = "As a table" if len(hottest) <= _ROWS else f"As a table: the {_ROWS} busiest"
    return join(
        element("h3", "All links, by place"),
        note(told),
        _legend(most),
        element("div", *drawn, class_=f"network {own['kind']}"),
        element("details", element("summary", summary), table(["where", "of the run"], rows)),
    )


def _legend(most: float) -> Html:
    steps = [element("i", class_=f"h{idx}") for idx in range(COLOURS)]
    return element(
        "p", "0% ", element("span", *steps, class_="scale"), f" {most:.0%} of the run", class_="dim"
    )


def _svg(spots: Sequence[_Spot], most: float, name: str) -> Html:
    """Rectangles, those of a colour in one path."""
    left, top = min(spot.x for spot in spots), min(spot.y for spot in spots)
    width = max(spot.x + spot.width for spot in spots) - left
    height = max(spot.y + spot.height for spot in spots) - top
    paths: dict[str, list[str]] = {}
    for spot in spots:
        step = min(int(spot.share / most * COLOURS), COLOURS - 1)
        at = f"M{spot.x} {spot.y}h{spot.width}v{spot.height}h{-spot.width}z"
        paths.setdefault(f"h{step}" if spot.share else "none", []).append(at)
    hottest = max(spots, key=lambda spot: spot.share)
    label = f"{name}: " if name else ""
    label += f"busiest {hottest.name}, {hottest.share:.0%}" if hottest.share else "not used"
    return element(
        "svg",
        *(element("path", class_=colour, d="".join(found)) for colour, found in paths.items()),
        viewBox=f"{left} {top} {width} {height}",
        width=round(width * min(max(_PANEL_WIDTH / width, 1), _UNIT_MAX)),
        role="img",
        aria_label=label,
    )


_Panels = list[tuple[str, list[_Spot]]]


def _grid(own: Mapping[str, Any]) -> tuple[_Panels, str]:
    sides, steps, of = own["sides"], own["step"], own["of"]
    counts = [-(-side // step) for side, step in zip(sides, steps, strict=True)]
    wide, high = (*counts, 1)[:2]
    panels: _Panels = []
    for panel in range(prod(counts[2:])):
        first = panel * wide * high
        at = _coordinates(panel, counts[2:])
        name = ", ".join(
            f"{_dimension(2 + idx)} {_range(place, steps[2 + idx], sides[2 + idx])}"
            for idx, place in enumerate(at)
        )
        spots = [
            spot
            for number in range(first, first + wide * high)
            for spot in _around(own, number, (number - first) % wide, (number - first) // wide)
        ]
        panels.append((name, spots))
    told = [f"A square is {_box(steps, of)}; its colour is that of the busiest link"]
    told.append(" in it" if of == "QFDB" or prod(steps) > 1 else "")
    if len(sides) > 2:
        told.append(" or" if told[-1] else "")
        told.append(" in dimensions beyond two")
    if not told[-1]:
        told[0] = f"A square is {_box(steps, of)}"
    told.append(
        ". Between two squares stand both directions, each leaving its square on its right."
    )
    return panels, "".join(told)


def _around(own: Mapping[str, Any], number: int, column: int, row: int) -> Iterator[_Spot]:
    """A square and the links that leave it."""
    x, y = column * (_SQUARE + _GAP), row * (_SQUARE + _GAP)
    near, far, long = _EDGE, _SQUARE - _LANE - _EDGE, _GAP - 2 * _EDGE
    places = {
        "inside": (0, 0, _SQUARE, _SQUARE),
        "right": (_SQUARE + _EDGE, far, long, _LANE),
        "left": (_EDGE - _GAP, near, long, _LANE),
        "down": (near, _SQUARE + _EDGE, _LANE, long),
        "up": (far, _EDGE - _GAP, _LANE, long),
    }
    where = _place(number, own["sides"], own["step"], own["of"])
    for key, (dx, dy, width, height) in places.items():
        share = own[key][number]
        if share or key == "inside":
            name = where if key == "inside" else f"{where}, {key}"
            yield _Spot(x + dx, y + dy, width, height, share, name)


def _coordinates(number: int, counts: Iterable[int]) -> list[int]:
    at = []
    for count in counts:
        at.append(number % count)
        number //= count
    return at


def _place(number: int, sides: Sequence[int], steps: Sequence[int], of: str) -> str:
    counts = [-(-side // step) for side, step in zip(sides, steps, strict=True)]
    at = _coordinates(number, counts)
    words = [_range(*each) for each in zip(at, steps, sides, strict=True)]
    name = f"{of} {number}" if prod(steps) == 1 else f"{of}s"
    return f"{name} at ({', '.join(words)})"


def _range(place: int, step: int, side: int) -> str:
    first = place * step
    return f"{first}" if step == 1 else f"{first}-{min(first + step, side) - 1}"


def _dimension(dim: int) -> str:
    return "xyzuvwst"[dim]


def _box(steps: Sequence[int], of: str) -> str:
    return f"a {of}" if prod(steps) == 1 else f"{' x '.join(map(str, steps))} {of}s"


def _levels(own: Mapping[str, Any]) -> tuple[_Panels, str]:
    """The highest level on top."""
    panels: _Panels = []
    for row in reversed(own["rows"]):
        shares = row["busy"]
        edges = [idx * _STRIP_WIDTH // len(shares) for idx in range(len(shares) + 1)]
        spots = [
            _Spot(left, 0, right - left - 1, _STRIP, share, f"{row['name']}, {_cell(row, idx)}")
            for idx, (share, (left, right)) in enumerate(zip(shares, pairwise(edges), strict=True))
        ]
        panels.append((row["name"], spots))
    steps = max(row["step"] for row in own["rows"])
    text = "A cell is the busiest link between a lower end and its parents."
    return panels, text if steps == 1 else f"{text} Up to {steps} neighbours share a cell."


def _cell(row: Mapping[str, Any], idx: int) -> str:
    """Numbers of its lower ends; of the last cell there may be fewer."""
    first = idx * row["step"]
    return f"{first}" if row["step"] == 1 else f"{first}-{first + row['step'] - 1}"


def _matrix(own: Mapping[str, Any]) -> tuple[_Panels, str]:
    names, side = own["names"], _SQUARE + 1
    shares = {(row, column): share for row, column, share in own["cells"]}
    spots = [
        _Spot(column * side, row * side, _SQUARE, _SQUARE, shares.get((row, column), 0.0),
              f"{names[int(row)]} to {names[int(column)]}")
        for row in range(len(names))
        for column in range(len(names))
    ]  # fmt: skip
    told = f"From each row's router to each column's; {names[0]} is on top and at the left, "
    told += f"{names[-1]} last."
    return [("", spots)], told


_DRAWN: Mapping[str, Callable[[Mapping[str, Any]], tuple[_Panels, str]]] = {
    "grid": _grid,
    "levels": _levels,
    "matrix": _matrix,
}
