"""What equal runs have in common: every figure of their reports, rank by rank, and those that
differ."""

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pagewire.cli.commands.compare_table import numbers
from pagewire.cli.kit.numbers import deviation
from pagewire.run.report.counters import COUNTER_GROUPS

OF_THE_HOST = frozenset({"wall_time_s", "peak_rss_bytes", *COUNTER_GROUPS["emulator"]})
"""Figures of this machine and of the emulator's speed, which nobody promises to repeat."""

ADDRESSES = "fault_pages"
"""Named by this host's addresses, which need not be those of another run."""

MAX_LINES = 12
"""Differing figures that the terminal shows of a strategy; JSON has all."""

Figures = Mapping[tuple[str, int], float]
"""By name and rank."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """A figure that not all runs agree in."""

    name: str
    smallest: float
    """Of the runs; a run's figure is its ranks' sum, of the virtual time its slowest rank's."""
    largest: float
    num_ranks: int
    """Ranks in which it differs."""
    num_runs: int
    """Runs in which it is another than in the first."""

    @property
    def spread(self) -> float:
        """The difference, relative to the largest."""
        return (self.largest - self.smallest) / self.largest if self.largest else 0.0


def figures(document: Mapping[str, Any]) -> Figures:
    """What the machine did in the run of a report, by name and rank."""
    return {
        (name, rank["rank"]): value
        for rank in document["ranks"]
        for name, value in _flat(
            "", {key: inner for key, inner in rank.items() if key != ADDRESSES}
        )
        if name not in OF_THE_HOST and name != "rank"
    }


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """The numbers in dicts and lists, each with its path as its name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list):
        for idx, inner in enumerate(value):
            yield from _flat(f"{name}[{idx}]", inner)
    elif isinstance(value, int | float):
        yield name, value


def differences(runs: Sequence[Figures]) -> list[Difference]:
    """The figures in which runs differ, the virtual time first, then in the report's order."""
    keys = dict.fromkeys(key for run in runs for key in run)
    ranks: dict[str, list[int]] = {}
    for name, rank in keys:
        ranks.setdefault(name, []).append(rank)
    found = []
    for name, of_ranks in ranks.items():
        rows = [[run.get((name, rank), 0) for rank in of_ranks] for run in runs]
        num_runs = sum(row != rows[0] for row in rows)
        if num_runs:
            values = [max(row) if name == "virtual_time_ns" else sum(row) for row in rows]
            differing = sum(len(set(column)) > 1 for column in zip(*rows, strict=True))
            found.append(Difference(name, min(values), max(values), differing, num_runs))
    return sorted(found, key=lambda each: each.name != "virtual_time_ns")


def of_reports(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the reports of equal runs have in common, and what not."""
    runs = [figures(document) for document in documents]
    summaries = [document["summary"] for document in documents]
    values = {key: [each[key] for each in summaries] for key in numbers(summaries[0])}
    return {
        "runs": len(runs),
        "mean": {key: statistics.fmean(each) for key, each in values.items()},
        "deviation": {key: deviation(each) for key, each in values.items()},
        "figures": len(runs[0]),
        "virtual_times_ns": [document["totals"]["virtual_time_ns"] for document in documents],
        "differences": [
            {**dataclasses.asdict(each), "spread": each.spread} for each in differences(runs)
        ],
    }


def show(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print it, of each strategy that ended."""
    for entry in entries:
        if "repetitions" not in entry:
            continue
        name, found = entry["name"], entry["repetitions"]
        if not found["differences"]:
            print(f"{name}: {found['runs']} runs equal in all {found['figures']} figures")
            continue
        print(f"{name}: {found['runs']} runs differ in")
        for each in found["differences"][:MAX_LINES]:
            print(
                f"  {each['name']}: {each['smallest']:,} to {each['largest']:,} "
                f"({each['spread']:.4%}), another than in the first in {each['num_runs']} runs, "
                f"on {each['num_ranks']} ranks"
            )
        if len(found["differences"]) > MAX_LINES:
            print(f"  and {len(found['differences']) - MAX_LINES} more; --json has all")
