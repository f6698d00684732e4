"""The report of a run as text: aligned columns, a column for each rank or for their spread."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pagewire.network import use
from pagewire.run.report.counters import (
    ALWAYS_SHOWN,
    NACK_NAMES,
    PINNED_KEYS,
    REGION_COUNTS,
    RESIDENT_KEYS,
    TIME_KEYS,
    groups_of,
    lacking_sources,
    longest_regions,
    totals,
)
from pagewire.run.settings.config import Config

MAX_LINK_LINES = 3
MAX_REGION_LINES = 32
MAX_RANK_COLUMNS = 8
"""With more ranks the table shows minimum, mean and maximum instead of a column for each."""


_MAXIMA = {
    **{key: f"  {label}" for key, label in TIME_KEYS.items()},
    "virtual_time_ns": TIME_KEYS["virtual_time_ns"],
    **PINNED_KEYS,
    **RESIDENT_KEYS,
    "wall_time_s": "wall time (s)",
    "peak_rss_bytes": "peak RSS (MiB)",
}
"""Labels of what is no sum; the times are parts of the first."""


class _Table:
    """Rows of the ranks' values, some of them titles."""

    def __init__(self, per_rank: Sequence[Mapping[str, Any]]) -> None:
        self.per_rank = per_rank
        self.total = totals(per_rank)
        self._is_spread = len(per_rank) > MAX_RANK_COLUMNS
        heads = ["min", "mean", "max"]
        if not self._is_spread:
            heads = [f"rank {rank}" for rank in range(len(per_rank))]
        self.rows: list[list[str] | str] = [["", "total", *heads]]

    def add(
        self, label: str, values: Sequence[float], whole: str, show: Callable[[float], str]
    ) -> None:
        cells = values
        if self._is_spread:
            cells = [min(values), sum(values) / len(values), max(values)]
        self.rows.append([label, whole, *(show(value) for value in cells)])

    def add_counts(self, label: str, values: Sequence[int]) -> None:
        self.add(label, values, _count(sum(values)), _count)

    def add_maxima(self, title: str, shows: Mapping[str, Callable[[float], str]]) -> None:
        """shows: by key, how its values are written."""
        if shows:
            self.add_title(f"{title}total is the maximum)")
        for key, show in shows.items():
            self.add(f"  {_MAXIMA[key]}", self.values_of(key), show(self.total[key]), show)

    def add_title(self, title: str) -> None:
        self.rows.append(title)

    def values_of(self, key: str) -> list[Any]:
        return [each.get(key, 0) for each in self.per_rank]

    def shown(self, keys: Iterable[str]) -> list[str]:
        """Keys whose lines are not left out."""
        return [key for key in keys if key in ALWAYS_SHOWN or self.total[key]]


def table(
    per_rank: Sequence[Mapping[str, Any]],
    config: Config,
    program: str = "",
    links_use: Mapping[str, Any] | None = None,
) -> str:
    """The report as text in aligned columns. links_use: see network.use."""
    made = _Table(per_rank)
    if per_rank:
        _add_groups(made)
        _add_impairments(made)
        made.add_maxima("virtual time (ms; ", dict.fromkeys(made.shown(TIME_KEYS), _milliseconds))
        made.add_maxima("pinned (MiB; ", dict.fromkeys(made.shown(PINNED_KEYS), _mebibytes))
        made.add_maxima("resident (MiB; ", dict.fromkeys(made.shown(RESIDENT_KEYS), _mebibytes))
        made.add_maxima("host (", {"wall_time_s": _seconds, "peak_rss_bytes": _mebibytes})
    over = ["over the fabric"] if config.run.transport == "fabric" else []
    title = ", ".join(filter(None, [program, f"{len(per_rank)} ranks", *over]))
    lines = [
        "",
        f"pagewire report: {title}",
        *_align(made.rows),
        "Counters that are zero on every rank are left out; --json has all.",
        *_regions(made.total["regions"]),
        *_calls(made.total),
        *_without_marks(made.total),
        *_page_sources(made.total),
        *(use.lines(links_use, MAX_LINK_LINES) if links_use else []),
    ]
    changed = [f"{name} = {text}" for name, text in config.not_default().items()]
    lines += _wrap("settings that are not default: ", changed or ["none"])
    return "\n".join(lines)


def _add_groups(made: _Table) -> None:
    for title, group in groups_of(made.per_rank).items():
        keys = made.shown(group)
        if keys:
            made.add_title(title)
        for key in keys:
            made.add_counts(f"  {group[key]}", made.values_of(key))
            if key == "nacks":
                _add_nacks(made)


def _add_nacks(made: _Table) -> None:
    for code, count in enumerate(made.total["nacks_by_code"]):
        if count:
            values = [(*each.get("nacks_by_code", ()), *[0] * 8)[code] for each in made.per_rank]
            made.add_counts(f"    {code} {NACK_NAMES[code]}", values)


def _add_impairments(made: _Table) -> None:
    sites = made.total["impairments"]
    if sites:
        made.add_title("impairments")
    for site, counted in sites.items():
        for key in counted:
            values = [
                each.get("impairments", {}).get(site, {}).get(key, 0) for each in made.per_rank
            ]
            made.add_counts(f"  {site}, {key}".replace("_", " "), values)


def _regions(regions: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the program's regions, when it has marked some."""
    if not regions:
        return []
    whole_ns = sum(region["virtual_time_sum_ns"] for region in regions) or 1
    num_all, regions = len(regions), longest_regions(regions, MAX_REGION_LINES)
    columns = {
        "  region": [f"  {region['name']}" for region in regions],
        "entries": [_count(region["entries"]) for region in regions],
        "ms": [_milliseconds(region["virtual_time_ns"]) for region in regions],
        "share": [f"{100 * region['virtual_time_sum_ns'] / whole_ns:.1f}%" for region in regions],
    }
    for heads, show in ((TIME_KEYS, _milliseconds), (REGION_COUNTS, _count)):
        for key, head in heads.items():
            if key == "virtual_time_ns":
                continue
            values = [region.get(key, 0) for region in regions]
            if any(values):
                columns[head] = [show(value) for value in values]
    title = "By region (times in virtual ms, of the rank with most; share of all ranks' time)"
    lines = [title, *_align([list(columns), *zip(*columns.values(), strict=True)])]
    if num_all > len(regions):
        lines.append(f"  and {num_all - len(regions)} with less time; --json has all")
    return lines


def _calls(total: Mapping[str, Any]) -> list[str]:
    """Lines of the MPI calls that the NI carries, and of those that went around it."""
    items = []
    for name, count in total["mpi_calls"].items():
        num_carried = count["calls"] - count["not_carried_calls"]
        if num_carried:
            sent = f" ({_count(count['bytes'])} B)" if count["bytes"] else ""
            items.append(f"{name} {_count(num_carried)}{sent}")
    lines = _wrap("MPI calls, with the bytes that they sent: ", items or ["none"])
    around = total["not_carried"]
    if around["calls"]:
        head = f"not carried by the NI: {_count(around['calls'])} calls, "
        lines.append(f"{head}{_count(around['bytes'])} bytes ({', '.join(around['names'])})")
    return lines


def _without_marks(total: Mapping[str, Any]) -> list[str]:
    """A line when the times of some ranks are not those of MPI calls."""
    ranks = total["without_marks"]
    if not ranks:
        return []
    names = ", ".join(map(str, ranks[:MAX_RANK_COLUMNS]))
    more = f" and {len(ranks) - MAX_RANK_COLUMNS} more" if len(ranks) > MAX_RANK_COLUMNS else ""
    return [
        f"MPI calls not marked on rank {names}{more}: libpagewire-mpi.so was not preloaded, so",
        "  compute is the time between the provider's calls, and MPI_Wtime is the host's.",
    ]


def _page_sources(total: Mapping[str, Any]) -> list[str]:
    """A line when this host's kernel tells less of pages than a newer one would."""
    found, lacking = total["page_sources"], lacking_sources(total)
    if not lacking:
        return []
    return [
        f"page states from {', '.join(found)}; the kernel refuses {' and '.join(lacking)}, so",
        "  pages that a write would copy, and forbidden writes, are not seen (docs/faq.md).",
    ]


def _align(rows: Sequence[Sequence[str] | str]) -> list[str]:
    cells = [row for row in rows if not isinstance(row, str)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = []
    for row in rows:
        if isinstance(row, str):
            lines.append(row)
            continue
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *numbers]).rstrip())
    return lines


def _wrap(head: str, items: Iterable[str], width: int = 100) -> list[str]:
    lines = [head]
    for idx, item in enumerate(items):
        separator = ", " if idx else ""
        if len(lines[-1]) + len(separator) + len(item) > width and lines[-1] != head:
            lines[-1] += separator.rstrip()
            lines.append("  " + item)
        else:
            lines[-1] += separator + item
    return lines


def _count(value: float) -> str:
    return f"{value:,.1f}" if isinstance(value, float) and value % 1 else f"{int(value):,}"


def _milliseconds(time_ns: float) -> str:
    return f"{time_ns / 1e6:,.3f}"


def _seconds(time_s: float) -> str:
    return f"{time_s:.3f}"


def _mebibytes(num_bytes: float) -> str:
    return f"{num_bytes / 1024**2:,.1f}"
