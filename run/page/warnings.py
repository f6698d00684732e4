"""What a reader must know before believing a report's figures."""

from collections.abc import Mapping
from typing import Any

from pagewire.run.report.counters import lacking_sources

Report = Mapping[str, Any]


def of_run(report: Report, *, replayed: bool = False) -> list[str]:
    """Sentences; empty when there is nothing to say. replayed: the runs beside it replay its
    compute."""
    total = report["totals"]
    found = []
    around = total["not_carried"]
    if around["calls"]:
        found.append(
            f"{around['calls']:,} MPI calls with {around['bytes']:,} bytes went around the NI "
            f"({', '.join(around['names'])}): their times are not the machine's. --strict ends a "
            "run at the first one."
        )
    measured = report["settings"].get("run.compute") == "measured"
    if measured and replayed:
        found.append(
            "Compute is what this host measured in the first run, replayed in the others: these "
            "runs compare, another comparison has other times. --compute model or none repeats."
        )
    elif measured:
        found.append(
            "Compute is what this host measured (run.compute = measured): virtual times differ "
            "from run to run with its load. --compute replay, model or none repeats."
        )
    if contended(report):
        found.append(
            "Some rank was sent to by several others. Where their blocks meet, virtual times can "
            "differ slightly between equal runs; pagewire compare --runs 5 measures by how much."
        )
    if total["without_marks"]:
        ranks = ", ".join(map(str, total["without_marks"]))
        found.append(
            f"MPI calls were not marked on rank {ranks}: compute is the time between the "
            "provider's calls, and MPI_Wtime is the host's."
        )
    if lacking := lacking_sources(total):
        found.append(
            f"The kernel refuses {' and '.join(lacking)}: pages that a write would copy, and "
            "forbidden writes, are not seen."
        )
    for key, text in (
        ("stale_transfers", "transfers went through pins of mappings that had gone: wrong data."),
        ("transfers_failed", "transfers failed."),
    ):
        if total.get(key):
            found.append(f"{total[key]:,} {text}")
    return found


def contended(report: Report) -> bool:
    """Did several ranks send to one?"""
    senders: dict[str, int] = {}
    for rank in report["ranks"]:
        for peer in rank.get("peers", {}):
            senders[peer] = senders.get(peer, 0) + (peer != str(rank["rank"]))
    return any(number > 1 for number in senders.values())


def of_entry(name: str, entry: Report) -> list[str]:
    """Of a row of a comparison: what its equal runs differ in."""
    repeated = entry.get("repetitions")
    if not repeated or not repeated["differences"]:
        return []
    worst = max(repeated["differences"], key=lambda each: each["spread"])
    times = repeated["virtual_times_ns"]
    sentence = (
        f"{name}: {repeated['runs']} equal runs differ in {len(repeated['differences'])} of "
        f"{repeated['figures']:,} figures; virtual time {min(times):,} to {max(times):,} ns, at "
        f"most {worst['spread']:.2%} ({worst['name']})."
    )
    return [sentence]
