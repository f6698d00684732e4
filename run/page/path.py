"""The critical path through a replay, by part of the machine, MPI call and buffer."""

from collections.abc import Iterable, Mapping
from typing import Any

from pagewire.run.page.markup import Html, element, note, table
from pagewire.run.page.sections import section

_ROWS = 50


def of_path(path: Mapping[str, Any]) -> Html:
    """path: `replay.path` of a result."""
    told = note(
        f"What the end of the run of {path['run_s'] * 1e3:,.3f} ms waited for, back to its "
        f"beginning: over {len(set(path['ranks']))} ranks, and from one to another "
        f"{len(path['ranks']) - 1:,} times. Each ns is counted once. A transfer's time is for the "
        "call and the buffer of the rank that waited for it."
    )
    names = [each["part"] for each in path["parts"]]
    by_part = table(
        ["part", "of the path"], ([each["part"], _cell(each)] for each in path["parts"])
    )
    calls = _cut("MPI call", names, ((each["call"], each) for each in path["calls"]))
    buffers = _cut("buffer", names, ((_buffer(each), each) for each in path["buffers"][:_ROWS]))
    left = path["buffers"][_ROWS:]
    rest = f"{len(left):,} more buffers have {_percent(sum(each['share'] for each in left))}."
    return section(
        "path",
        "The critical path",
        told,
        by_part,
        element("details", element("summary", "Each MPI call"), calls),
        element(
            "details",
            element("summary", "Each buffer"),
            note("Where it is: region and offset of the trace."),
            buffers,
            note(rest) if left else None,
        ),
    )


def _buffer(each: Mapping[str, Any]) -> str:
    place = f"rank {each['rank']}: region {each['region']} {each['offset']:+,}"
    return f"{place}, {each['num_bytes']:,} B"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _cell(each: Mapping[str, Any]) -> Html:
    return element("td", _percent(each["share"]), data_value=each["share"])


def _cut(head: str, parts: Iterable[str], entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Html:
    """A row for each entry, a column for each part."""
    names = list(parts)
    rows = (
        [name, _cell(each), *(_percent(each["parts"].get(part, 0.0)) for part in names)]
        for name, each in entries
    )
    return element("div", table([head, "all", *names], rows), class_="wide")
