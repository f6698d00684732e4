"""What `pagewire compare` shows of its runs: a table with the best values in bold, whether the same
bytes arrived, and a bar chart."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from pagewire.native.settings import ConfigError

SUFFIXES = (".png", ".svg", ".pdf")


class Column(NamedTuple):
    """One figure of an entry; the least is the best."""

    head: str
    key: str
    show: Callable[[Any], str]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _mebibytes(num_bytes: float) -> str:
    return f"{num_bytes / 1024**2:,.3f}"


TIME = Column("virtual time (s)", "virtual_time_s", "{:.6f}".format)
COLUMNS = (
    Column("faults", "translation_faults", _count),
    Column("ERRs", "err_messages", _count),
    Column("timeouts", "timeouts", _count),
    Column("pages paged in", "pages_paged_in", _count),
    Column("pinned peak (MiB)", "pinned_peak_bytes", _mebibytes),
    Column("on average", "pinned_mean_bytes", _mebibytes),
    Column("copied (MiB)", "copied_bytes", _mebibytes),
    Column("buffers not ready", "strategy_misses", _count),
    Column("unit misses", "translation_misses", _count),
    Column("NIC memory (KiB)", "nic_memory_bytes", lambda value: f"{value / 1024:,.1f}"),
    Column("wall time (s)", "wall_time_s", "{:.2f}".format),
)
"""Counters are sums over ranks; NIC memory is one node's, of its translation unit's settings."""

_BOUND = "ideal"
"""No machine does what it does, so that it is never the best."""


def show(entries: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the table and what is to be said below it."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=180)
    console.print(table(entries, title))
    for line in notes(entries):
        console.print(line, highlight=False, markup=False)


def table(entries: Sequence[Mapping[str, Any]], title: str) -> Table:
    """A row for each run; the best of each column in bold, where they differ."""
    ended = [entry for entry in entries if "failure" not in entry]
    made = Table(title=title)
    made.add_column("memory")
    made.add_column("policy")
    for head in (TIME.head, "slowdown", *(each.head for each in COLUMNS)):
        made.add_column(head, justify="right")
    best = {each.key: _best(each.key, ended) for each in (TIME, *COLUMNS)}
    for entry in entries:
        name, policy = row_name(entry), entry["policy"] if has_policy(entry) else ""
        if "failure" in entry:
            made.add_row(name, policy, "refused or failed")
            continue
        slowdown = "" if entry is entries[0] else f"{entry['slowdown']:+.2%}"
        cells = [_cell(each, entry, best[each.key]) for each in (TIME, *COLUMNS)]
        made.add_row(name, policy, cells[0], slowdown, *cells[1:])
    return made


def row_name(entry: Mapping[str, Any]) -> str:
    """The memory strategy; with a unit that pins by itself, the unit."""
    name: str = entry["memory"] if entry["translation"] == "smmu" else entry["translation"]
    return name


def has_policy(entry: Mapping[str, Any]) -> bool:
    """Does run.policy matter to it?"""
    return row_name(entry) == "part"


def _best(key: str, entries: Sequence[Mapping[str, Any]]) -> Any:
    """The least value; None when all are alike."""
    values = [entry[key] for entry in entries if entry["memory"] != _BOUND]
    return min(values) if values and min(values) < max(values) else None


def _cell(column: Column, entry: Mapping[str, Any], best: Any) -> str:
    text = column.show(entry[column.key])
    is_best = entry[column.key] == best and entry["memory"] != _BOUND
    return f"[bold]{text}[/bold]" if is_best else text


def notes(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines below the table: did the same bytes arrive, and which run has no row and why."""
    ended = [entry for entry in entries if "failure" not in entry]
    lines = []
    if not any(any(entry["received_hashes"]) for entry in ended):
        lines.append("Received data: nothing arrived by RDMA.")
    elif all(all(entry["received_alike"]) for entry in ended):
        lines.append("Received data: identical on each rank under every strategy.")
    if any(not all(entry["received_alike"]) for entry in ended):
        lines.append(
            "Received data: DIFFERENT from the first row's as listed. Times or addresses that a "
            "program sends are a reason; else it is an error."
        )
    for entry in ended:
        ranks = [idx for idx, alike in enumerate(entry["received_alike"]) if not alike]
        if ranks:
            lines.append(f"  {row_name(entry)}: DIFFERENT on rank {', '.join(map(str, ranks))}")
        if entry["stale_transfers"]:
            lines.append(
                f"{row_name(entry)}: {entry['stale_transfers']:,} transfers went through pins of "
                "mappings that had gone."
            )
    lines += [f"{row_name(each)}: {each['failure']}" for each in entries if "failure" in each]
    return lines


def check_picture(path: str) -> None:
    """Refuse a file that is no picture, before anything runs."""
    if pathlib.Path(path).suffix not in SUFFIXES:
        raise ConfigError(f"--plot '{path}': the name must end in one of {', '.join(SUFFIXES)}")


def draw(entries: Sequence[Mapping[str, Any]], title: str, path: str) -> None:
    """A bar of virtual time for each run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ended = [entry for entry in entries if "failure" not in entry]
    names = [
        f"{row_name(entry)}/{entry['policy']}" if has_policy(entry) else row_name(entry)
        for entry in ended
    ]
    times_ms = [entry["virtual_time_s"] * 1e3 for entry in ended]
    best = _best(TIME.key, ended)
    colours = ["#0072B2" if entry[TIME.key] == best else "#999999" for entry in ended]
    with matplotlib.rc_context({"svg.hashsalt": "pagewire", "font.size": 9}):
        figure, axes = pyplot.subplots(figsize=(8.2, 0.9 + 0.34 * len(names)), layout="constrained")
        bars = axes.barh(names, times_ms, color=colours)
        axes.bar_label(bars, [f"{time_ms:,.3f}" for time_ms in times_ms], padding=3)
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.set_xlabel("virtual time (ms)")
        axes.set_title(title, fontsize=10)
        figure.savefig(path)
        pyplot.close(figure)
