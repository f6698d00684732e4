"""What `pagewire compare` shows of its runs: a table with the best values in bold, and whether the
same bytes arrived."""

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pagewire.native.settings import ConfigError, suggestion


class Column(NamedTuple):
    """One figure of an entry; the least is the best."""

    head: str
    key: str
    show: Callable[[Any], str]
    text_of: str = ""
    """What the line of omitted columns calls it, where the head does not say it."""


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
    Column("on average", "pinned_mean_bytes", _mebibytes, "pinned on average (MiB)"),
    Column("resident peak (MiB)", "resident_peak_bytes", _mebibytes),
    Column("on average", "resident_mean_bytes", _mebibytes, "resident on average (MiB)"),
    Column("copied (MiB)", "copied_bytes", _mebibytes),
    Column("buffers not ready", "strategy_misses", _count),
    Column("unit misses", "translation_misses", _count),
    Column("NIC memory (KiB)", "nic_memory_bytes", lambda value: f"{value / 1024:,.1f}"),
    Column("wall time (s)", "wall_time_s", "{:.2f}".format),
)
"""Counters are sums over ranks; NIC memory is one node's, of its translation unit's settings."""

_BOUND = "ideal"
"""No machine does what it does, so that it is never the best."""

_PLAIN_WIDTH = 180
"""Of output that is no terminal, unless COLUMNS says another."""

_WIDEST = 10_000

_NO_FIGURES = frozenset({"ranks", "slowdown"})


def chosen(names: str) -> list[Column]:
    """The columns that --columns asks for; none: those that fit. Raises ConfigError."""
    known = {each.key: each for each in COLUMNS}
    wanted = [each.strip() for each in names.split(",") if each.strip()]
    for name in wanted:
        if name not in known and wanted != ["all"]:
            raise ConfigError(
                f"--columns '{name}': allowed is all, or some of {', '.join(known)}"
                f"{suggestion(name, known)}"
            )
    return list(COLUMNS) if wanted == ["all"] else [known[name] for name in wanted]


def show(
    entries: Sequence[Mapping[str, Any]],
    title: str,
    columns: Sequence[Column] = (),
    *,
    has_bytes: bool = True,
) -> None:
    """Print the table and what is to be said below it; columns: those of `chosen`; has_bytes: of
    the bytes received too."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=_PLAIN_WIDTH)
    omitted: list[Column] = []
    if columns:
        shown = table(entries, title, columns)
        console = Console(width=max(console.width, _width(shown, console)))
    else:
        shown, omitted = _fitting(entries, title, console)
    console.print(shown)
    for line in (*_omission(omitted), *(notes(entries) if has_bytes else failures(entries))):
        console.print(line, highlight=False, markup=False)


def _fitting(
    entries: Sequence[Mapping[str, Any]], title: str, console: Console
) -> tuple[Table, list[Column]]:
    """The table that the console has room for, and the columns that it has not: first those that
    are alike in all rows go, from the right."""
    ended = [entry for entry in entries if "failure" not in entry]
    columns, omitted = list(COLUMNS), []
    while True:
        made = table(entries, title, columns)
        if not columns or _width(made, console) <= console.width:
            return made, [each for each in COLUMNS if each in omitted]
        alike = [
            each for each in columns if len({mean_of(entry, each.key) for entry in ended}) <= 1
        ]
        omitted.append((alike or columns)[-1])
        columns.remove(omitted[-1])


def _width(made: Table, console: Console) -> int:
    return Measurement.get(console, console.options.update_width(_WIDEST), made).maximum


def _omission(omitted: Sequence[Column]) -> list[str]:
    if not omitted:
        return []
    names = ", ".join(each.text_of or each.head for each in omitted)
    return [f"No room for: {names}; --columns chooses, --csv and --json have all."]


def table(
    entries: Sequence[Mapping[str, Any]], title: str, columns: Sequence[Column] = COLUMNS
) -> Table:
    """A row for each strategy and swept value; the best of each column in bold, where they
    differ."""
    ended = [entry for entry in entries if "failure" not in entry]
    names = list(entries[0]["sweep"]) if entries else []
    is_repeated = any(num_runs(entry) > 1 for entry in ended)
    heads = [TIME.head, *(["deviation"] if is_repeated else []), "slowdown"]
    first = {each.key: best(each.key, ended) for each in (TIME, *columns)}
    rows = []
    for entry in entries:
        own = [row_name(entry), entry["policy"] if has_policy(entry) else ""]
        own += [entry["sweep"][name] for name in names]
        if "failure" in entry:
            rows.append([*own, "refused or failed"])
            continue
        cells = [_cell(each, entry, first[each.key]) for each in (TIME, *columns)]
        if is_repeated:
            deviation = deviation_of(entry, TIME.key)
            cells.insert(1, "" if deviation is None else f"{deviation:.6f}")
        cells.insert(len(heads) - 1, _slowdown(entry))
        rows.append([*own, *cells])
    made = Table(title=title)
    texts = ["memory", "policy", *names]
    for idx, head in enumerate((*texts, *heads, *(each.head for each in columns))):
        widest = max((len(_plain(row[idx])) for row in rows if idx < len(row)), default=0)
        made.add_column(
            _narrow(head, widest), justify="left" if idx < len(texts) else "right", no_wrap=True
        )
    for row in rows:
        made.add_row(*row)
    return made


def _plain(cell: str) -> str:
    return Text.from_markup(cell).plain


def _narrow(head: str, widest: int) -> str:
    """A head in lines that are no wider than what stands below it, as far as its words allow."""
    return textwrap.fill(head, max(widest, *map(len, head.split())), break_on_hyphens=False)


def _slowdown(entry: Mapping[str, Any]) -> str:
    """Empty for a row that others refer to, and for one whose reference has not run."""
    if entry["slowdown"] is None or entry["baseline"] == entry["name"]:
        return ""
    return f"{entry['slowdown']:+.2%}"


def row_name(entry: Mapping[str, Any]) -> str:
    """The memory strategy; with a unit that pins by itself, the unit."""
    name: str = entry["memory"] if entry["translation"] == "smmu" else entry["translation"]
    return name


def has_policy(entry: Mapping[str, Any]) -> bool:
    """Does run.policy matter to it?"""
    return row_name(entry) == "part"


def strategy_name(entry: Mapping[str, Any]) -> str:
    """The row's name, with the policy where it matters."""
    return f"{row_name(entry)}/{entry['policy']}" if has_policy(entry) else row_name(entry)


def numbers(entry: Mapping[str, Any]) -> list[str]:
    """The names of an entry's figures."""
    return [
        key
        for key, value in entry.items()
        if isinstance(value, int | float) and key not in _NO_FIGURES
    ]


def num_runs(entry: Mapping[str, Any]) -> int:
    """Equal runs of a row."""
    return int(entry["repetitions"]["runs"]) if "repetitions" in entry else 1


def mean_of(entry: Mapping[str, Any], key: str) -> Any:
    """A figure's mean over the row's runs."""
    return entry["repetitions"]["mean"][key] if "repetitions" in entry else entry[key]


def deviation_of(entry: Mapping[str, Any], key: str) -> Any:
    """Its standard deviation; None of a single run."""
    return entry["repetitions"]["deviation"][key] if num_runs(entry) > 1 else None


def best(key: str, entries: Sequence[Mapping[str, Any]]) -> Any:
    """The least value; None when all are alike."""
    values = [mean_of(entry, key) for entry in entries if entry["memory"] != _BOUND]
    return min(values) if values and min(values) < max(values) else None


def _cell(column: Column, entry: Mapping[str, Any], least: Any) -> str:
    value = mean_of(entry, column.key)
    text = column.show(value)
    return f"[bold]{text}[/bold]" if value == least and entry["memory"] != _BOUND else text


def notes(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines below the table: did the same bytes arrive, and which run has no row and why."""
    ended = [entry for entry in entries if "failure" not in entry]
    lines = []
    if not any(any(entry["received_hashes"]) for entry in ended):
        lines.append("Received data: nothing arrived by RDMA.")
    elif all(all(entry["received_alike"]) for entry in ended):
        rows = "strategy" if not entries[0]["sweep"] else "strategy and setting"
        lines.append(f"Received data: identical on each rank under every {rows}.")
    if any(not all(entry["received_alike"]) for entry in ended):
        lines.append(
            "Received data: DIFFERENT from the first row's as listed. Times or addresses that a "
            "program sends are a reason; else it is an error."
        )
    for entry in ended:
        ranks = [idx for idx, alike in enumerate(entry["received_alike"]) if not alike]
        if ranks:
            lines.append(f"  {entry['name']}: DIFFERENT on rank {', '.join(map(str, ranks))}")
        if entry["stale_transfers"]:
            lines.append(
                f"{entry['name']}: {entry['stale_transfers']:,} transfers went through pins of "
                "mappings that had gone."
            )
    return lines + failures(entries)


def failures(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each row without figures: why."""
    return [f"{each['name']}: {each['failure']}" for each in entries if "failure" in each]


def common_settings(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Settings that every report has alike."""
    first: Mapping[str, str] = documents[0]["settings"]
    return {
        name: text
        for name, text in first.items()
        if all(document["settings"][name] == text for document in documents)
    }
