"""The sections of a run's page, each from the report as JSON holds it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pagewire.run.page import charts, network, warnings
from pagewire.run.page.markup import Html, element, figure, join, note, table
from pagewire.run.report.counters import (
    LABELS,
    REGION_COUNTS,
    TIME_KEYS,
    groups_of,
    longest_regions,
)

Report = Mapping[str, Any]

_PARTS = {key: TIME_KEYS[key] for key in ("compute_ns", "mpi_ns", "sleep_ns")}
"""What a rank's virtual time consists of."""
_WITHIN = ("page_in_ns", "touch_ns", "pin_ns", "copy_ns")
_MAX_ROWS = 32
_MAX_HOTTEST = 10
_MAX_MAPS = 8
_TILES = (
    "translation_faults", "pages_paged_in", "nacks", "err_messages", "timeouts",
    "retransmitted_blocks", "blocks", "mpi_bytes",
)  # fmt: skip
_OLD = "The report has no such counts: an older pagewire wrote it."


def section(name: str, title: str, *children: Any) -> Html:
    """A part of the page, found by its name."""
    return element("section", element("h2", title), *children, data_section=name)


def notices(sentences: Sequence[str]) -> Html:
    """What to know first."""
    return section("warnings", "Warnings", _listed(sentences))


def _listed(sentences: Sequence[str]) -> Html:
    items = [element("li", each) for each in sentences]
    return element("ul", *items, class_="warnings") if items else element("p", "None.")


def summary(report: Report) -> Html:
    """The main figures."""
    total, ranks = report["totals"], report["ranks"]
    tiles = [
        _tile(milliseconds(total["virtual_time_ns"]), "virtual time", total["virtual_time_ns"]),
        _tile(f"{len(ranks)}", "ranks", len(ranks)),
        *(_tile(f"{total[key]:,}", LABELS[key], total[key]) for key in _TILES),
        _tile(f"{total['wall_time_s']:.3f} s", "wall time of this host", total["wall_time_s"]),
    ]
    chosen = report["summary"]
    line = f"memory {chosen['memory']}, policy {chosen['policy']}, unit {chosen['translation']}"
    return join(element("div", *tiles, class_="tiles"), note(line))


def _tile(text: str, label: str, value: float) -> Html:
    return element("div", element("b", text, data_value=value), label, class_="tile")


def times(report: Report) -> Html:
    """Virtual time of each rank by what it went into."""
    ranks = report["ranks"]
    step = -(-len(ranks) // _MAX_ROWS) or 1
    rows = []
    for start in range(0, len(ranks), step):
        group = ranks[start : start + step]
        parts = [_mean([rank.get(key, 0) for rank in group]) for key in _PARTS]
        name = f"{start}" if step == 1 else f"{start}-{start + len(group) - 1}"
        whole = _mean([rank.get("virtual_time_ns", 0) for rank in group])
        rows.append(charts.Bar(f"rank {name}", parts, milliseconds(whole)))
    within = [
        f"{TIME_KEYS[key]} {milliseconds(report['totals'][key])}"
        for key in _WITHIN
        if report["totals"].get(key)
    ]
    text = "" if step == 1 else f"A row is the mean of up to {step} ranks. "
    if within:
        text += f"Of these, and partly beside them, at most on a rank: {', '.join(within)}."
    return join(charts.bars(rows, list(_PARTS.values())), note(text))


def regions(report: Report) -> Html | None:
    """Virtual time by the regions that the program marked, if any; mean over ranks."""
    ranks, every = report["ranks"], report["totals"].get("regions")
    if not every:
        return None
    found = longest_regions(every, _MAX_ROWS)
    text = "Mean over ranks; of nested regions the innermost has the time."
    if len(every) > len(found):
        text += f" {len(every) - len(found)} regions with less time are left out."
    rows, cells = [], []
    for region in found:
        of_ranks = [
            row
            for rank in ranks
            for row in rank.get("regions", ())
            if row["name"] == region["name"]
        ]
        parts = [sum(row.get(key, 0) for row in of_ranks) / len(ranks) for key in _PARTS]
        mean_ns = region["virtual_time_sum_ns"] / len(ranks)
        rows.append(charts.Bar(region["name"], parts, milliseconds(mean_ns)))
        values = [region["entries"], *(region.get(key, 0) for key in REGION_COUNTS)]
        cells.append([region["name"], *map(figure, values)])
    heads = ("region", "entries", *REGION_COUNTS.values())
    chart = charts.bars(rows, list(_PARTS.values()))
    return join(note(text), chart, element("div", table(heads, cells), class_="wide"))


def _mean(values: Sequence[int]) -> float:
    mean = sum(values) / len(values)
    return int(mean) if mean == int(mean) else mean


def fault_times(report: Report) -> Html:
    """Faults over virtual time, all ranks together."""
    histograms = [rank["fault_times"] for rank in report["ranks"] if "fault_times" in rank]
    if not histograms:
        return element("p", _OLD)
    end_ns = max(
        (each["bin_ns"] * (idx + 1) for each in histograms
         for idx, count in enumerate(each["bins"]) if count), default=0,
    )  # fmt: skip
    bin_ns = max(each["bin_ns"] for each in histograms)
    while bin_ns * charts.MAX_COLUMNS < end_ns:
        bin_ns *= 2  # every rank's bins are the first one's, doubled
    counts = [0] * -(-end_ns // bin_ns)
    for each in histograms:
        for idx, count in enumerate(each["bins"]):
            if count:
                counts[idx * each["bin_ns"] // bin_ns] += count
    if not counts:
        return element("p", _none(report))
    names = [
        f"{microseconds(idx * bin_ns)} to {microseconds((idx + 1) * bin_ns)}"
        for idx in range(len(counts))
    ]
    ends = ("0", microseconds(len(counts) * bin_ns))
    text = f"All ranks; a column is {microseconds(bin_ns)}."
    return join(note(text), charts.columns(counts, names, ends))


def _none(report: Report) -> str:
    faults = report["totals"]["translation_faults"] + report["totals"]["permission_faults"]
    if faults:
        return "Not recorded for the faults of this translation unit."
    return "No page faulted."


def fault_waits(report: Report) -> Html:
    """How long refused blocks waited."""
    text = (
        "From the NACK of a page fault, as the source's R5 handles it, until the block is sent "
        "again; all ranks. A column is a power of two."
    )
    none = "No block was sent again for one."
    return join(note(text), _logarithmic(report, "fault_waits_ns", microseconds, none))


def message_sizes(report: Report) -> Html:
    """Eager messages and transfers by size."""
    text = "Eager messages and RDMA transfers that left; all ranks. A column is a power of two."
    return join(note(text), _logarithmic(report, "message_sizes", size, "Nothing was sent."))


def _logarithmic(report: Report, key: str, show: Any, none: str) -> Html:
    lists = [rank[key] for rank in report["ranks"] if key in rank]
    if not lists:
        return element("p", _OLD)
    counts = [sum(column) for column in zip(*lists, strict=True)]
    used = [idx for idx, count in enumerate(counts) if count]
    if not used:
        return element("p", none)
    first, last = used[0], used[-1]
    lows = [0, *(1 << idx for idx in range(len(counts)))]
    names = [f"{show(lows[idx])} to below {show(lows[idx + 1])}" for idx in range(first, last + 1)]
    ends = (show(lows[first]), show(lows[last + 1]))
    return charts.columns(counts[first : last + 1], names, ends)


def matrix(report: Report) -> Html:
    """Who sent how many bytes to whom."""
    ranks = report["ranks"]
    if not any("peers" in rank for rank in ranks):
        return element("p", _OLD)
    values = [[0] * len(ranks) for _ in ranks]
    for rank in ranks:
        for peer, traffic in rank.get("peers", {}).items():
            values[rank["rank"]][int(peer)] += traffic["bytes"]
    cells, step = charts.matrix(values, size, "from", "to")
    text = "Bytes of eager messages and RDMA transfers."
    if step > 1:
        text += f" A row and a column are {step} ranks."
    return join(note(text), cells)


def links(report: Report) -> Html | None:
    """Of the network, shared or as if they had been."""
    own = report.get("links")
    return network.of_links(own) if own else None


def fault_pages(report: Report) -> Html:
    """Where each rank's accesses faulted."""
    found = [(rank["rank"], rank["fault_pages"]) for rank in report["ranks"]
             if "fault_pages" in rank]  # fmt: skip
    if not found:
        return element("p", _OLD)
    found = [(rank, heat) for rank, heat in found if heat["faults"]]
    if not found:
        return element("p", _none(report))
    found.sort(key=lambda each: -sum(each[1]["faults"].values()))
    made = [_heat(rank, heat) for rank, heat in found[:_MAX_MAPS]]
    if len(found) > _MAX_MAPS:
        made.append(note(f"And {len(found) - _MAX_MAPS} ranks with fewer faults."))
    return join(*made)


def _heat(rank: int, heat: Report) -> Html:
    counts = {int(address, 16): faults for address, faults in heat["faults"].items()}
    group_bytes = heat["group_pages"] * 4096
    hottest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_MAX_HOTTEST]
    rows = [(f"{address:#x}", f"{faults:,}") for address, faults in hottest]
    text = f"A cell is {size(group_bytes)}; the stronger its colour, the more faults."
    return join(
        element("h3", f"rank {rank}: {sum(counts.values()):,} faults"),
        note(text),
        charts.pages(counts, group_bytes),
        element("details", element("summary", "Most often"), table(("address", "faults"), rows)),
    )


def calls(report: Report) -> Html:
    """MPI calls by name."""
    heads = ("call", "calls", "bytes", "calls around the NI", "bytes around the NI")
    keys = ("calls", "bytes", "not_carried_calls", "not_carried_bytes")
    rows = [
        [name, *(f"{counted[key]:,}" for key in keys)]
        for name, counted in report["totals"]["mpi_calls"].items()
    ]
    return element("div", table(heads, rows), class_="wide") if rows else element("p", "None.")


def settings(report: Report) -> Html:
    """Those that are not default, and who set them."""
    changed, sources = report["settings_not_default"], report["settings_sources"]
    rows = [(name, text, sources.get(name, "")) for name, text in changed.items()]
    heads = ("setting", "value", "from")
    return table(heads, rows, class_="settings") if rows else element("p", "None.")


def counters(report: Report) -> Html:
    """Every counter that is not zero."""
    total, made = report["totals"], []
    for title, group in groups_of(report["ranks"]).items():
        rows = [
            element("tr", element("td", label.strip()),
                    element("td", f"{total[key]:,}", data_counter=key, data_value=total[key]))
            for key, label in group.items()
            if total.get(key)
        ]  # fmt: skip
        if rows:
            made.append(element("h3", title))
            made.append(element("table", *rows))
    return element("details", element("summary", "Sums over ranks, without zeros"), *made)


_SECTIONS: Sequence[tuple[str, str, Callable[[Report], Html | None]]] = (
    ("summary", "Summary", summary),
    ("warnings", "Warnings", lambda report: _listed(warnings.of_run(report))),
    ("times", "Virtual time by rank", times),
    ("regions", "Virtual time by region", regions),
    ("fault-times", "Page faults over time", fault_times),
    ("fault-waits", "How long a fault keeps a block", fault_waits),
    ("fault-pages", "Which pages fault", fault_pages),
    ("message-sizes", "Sizes of messages", message_sizes),
    ("matrix", "Who sends to whom", matrix),
    ("links", "Links of the network", links),
    ("calls", "MPI calls", calls),
    ("settings", "Settings that are not default", settings),
    ("counters", "All counters", counters),
)


def of_run(report: Report) -> Html:
    """All of them that have something to say."""
    made = ((name, title, show(report)) for name, title, show in _SECTIONS)
    return join(*(section(*each) for each in made if each[2] is not None))


def milliseconds(time_ns: float) -> str:
    """As the report's table shows times."""
    return f"{time_ns / 1e6:,.3f} ms"


def microseconds(time_ns: float) -> str:
    """A time of an axis."""
    return f"{time_ns / 1e3:,.4g} us" if time_ns < 1e6 else f"{time_ns / 1e6:,.4g} ms"


def size(num_bytes: float) -> str:
    """Bytes, short."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.4g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:,.4g} TiB"
