"""Report of a run: what each rank counted, summed, printed at Finalize and written as JSON.

The node gathers one flat dict a rank to rank 0 and calls `finish` there. The keys expected are
those of COUNTER_GROUPS and TIME_KEYS, and besides:

- mpi_calls: dict, MPI calls by name
- nacks_by_code: list of 8, index = NACK code of MECHANISMS 3
- faults: dict, eligible and injected events by fault site, of the sites that are on; late_after_end of those
  that keep blocks
- interrupt_times: dict, fault-handler invocations over virtual time: bin_ns, and bins, a list of counts
- virtual_time_ns: the rank's clock at Finalize; compute_ns, mpi_ns, page_in_ns, touch_ns, pin_ns: parts
- wall_time_s: float; peak_rss_bytes: int

A missing key counts as zero; a key not known here is summed when it is a number and goes into the
JSON and under "other" in the table. The table leaves out lines that are zero on every rank, the JSON
has all. Plain text and no table library: this runs in the ranks.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from pagewire.native.faults import total as total_faults
from pagewire.transport.config import Config

COUNTER_GROUPS: Mapping[str, Mapping[str, str]] = {
    "messages": {
        "mpi_sends": "MPI sends",
        "mpi_bytes": "bytes sent by MPI",
        "eager_messages": "eager messages",
        "eager_bytes": "eager bytes",
        "rdma_messages": "RDMA messages",
        "rdma_bytes": "RDMA bytes",
        "message_packets": "packetizer messages",
    },
    "network interface": {
        "transfers": "transfers",
        "transfers_failed": "failed transfers",
        "reads_refused": "refused reads",
        "blocks": "blocks",
        "packets": "packets",
        "acks": "ACKs",
        "nacks": "NACKs",
        "err_messages": "ERRs",
        "errs_refused": "ERRs of another domain",
        "timeouts": "timeouts",
        "retransmitted_blocks": "retransmitted blocks",
        "duplicate_blocks": "blocks that arrived again",
        "crc_errors": "damaged packets found",
        "buffer_full": "blocks that found the receive buffer full",
        "stale_frames": "frames of no transfer",
        "malformed_frames": "malformed frames",
    },
    "R5 firmware": {
        "fast_path_hits": "seen in the scratchpad word",
        "mailbox_duplicates": "duplicates in the mailbox",
        "scheduler_bypasses": "queues bypassed",
        "requeues_high": "re-queued high",
        "requeues_medium": "re-queued medium",
        "requeues_low": "re-queued low",
        "reads_served": "reads served",
        "reads_queued": "reads buffered",
        "reads_held": "reads left in the mailbox",
        "read_retries": "looks for a free read channel",
        "mailbox_full": "mailbox full",
        "table_full": "transaction table full",
        "stale_answers": "answers to older attempts",
        "empty_queue_reads": "reads of empty queues",
        "countdown_decrements": "countdown decrements",
    },
    "page faults": {
        "translation_faults": "translation faults",
        "translation_faults_source": "  at the source",
        "translation_faults_destination": "  at the destination",
        "permission_faults": "permission faults",
        "permission_faults_source": "  at the source",
        "permission_faults_destination": "  at the destination",
        "faults_multi": "faults while one is active (MULTI)",
        "accesses_blocked": "accesses blocked by an active fault",
        "accesses_stalled": "stalled accesses",
        "stalled_ns": "  sum of their waits (ns)",
        "outstanding_full": "  accesses held, too many outstanding",
        "resumes_retry": "RESUME, retry",
        "resumes_terminate": "RESUME, terminate",
        "fault_interrupts": "fault-handler invocations",
        "interrupts_in_tasklet": "  that preempted the tasklet",
        "fifo_pushed": "NI FIFO entries",
        "fifo_filtered": "  not logged, equal to the last one",
        "fifo_lost": "  lost, NI FIFO full",
        "fifo_duplicates": "  dropped by the driver, seen before",
        "tasklet_runs": "tasklet runs",
        "tasklet_entries": "entries handled by the tasklet",
        "pages_paged_in": "pages paged in",
        "pages_copied": "  of these write-protected (zero page, fork)",
        "major_faults": "  of these from swap (major faults)",
        "pages_along": "  of these along with a huge page",
        "page_ins_present": "page-ins, page present",
        "page_ins_failed": "page-ins failed",
        "netlink_messages": "Netlink messages",
        "pages_touched": "pages touched by the user-space thread",
        "touch_segfaults": "  segmentation faults of a touch",
        "errs_sent": "ERRs sent",
    },
    "SMMU": {
        "l1_hits": "L1 TLB hits",
        "l1_misses": "L1 TLB misses",
        "l2_hits": "L2 TLB hits",
        "l2_misses": "L2 TLB misses",
        "prefetch_hits": "prefetch-buffer hits",
        "prefetches": "prefetches",
        "walks": "page-table walks",
        "walk_accesses": "  their memory accesses",
        "walks_delayed": "  that waited for a walker",
        "shootdowns_address": "shootdowns by address",
        "shootdowns_context": "shootdowns by context",
        "shootdowns_all": "shootdowns of all",
        "translations_dropped": "  translations dropped by them",
        "stale_translations": "stale translations",
    },
    "emulator": {
        "lookahead_blocks": "answers foreseen",
        "lookahead_misses": "  that came at another time",
        "bursts_sent": "bursts sent",
        "bursts_received": "bursts received",
        "burst_bytes_sent": "bytes of bursts sent",
    },
}
"""Counters that are summed over ranks, with the label of their line."""

ALWAYS_SHOWN = frozenset(
    {
        "mpi_sends",
        "mpi_bytes",
        "transfers",
        "blocks",
        "packets",
        "acks",
        "nacks",
        "err_messages",
        "timeouts",
        "retransmitted_blocks",
        "translation_faults",
        "fault_interrupts",
        "pages_paged_in",
        "virtual_time_ns",
        "compute_ns",
        "mpi_ns",
    }
)
"""Lines of the table that are there when they are zero; others are left out then."""

TIME_KEYS: Mapping[str, str] = {
    "virtual_time_ns": "virtual time",
    "compute_ns": "compute",
    "mpi_ns": "MPI",
    "page_in_ns": "page-in",
    "touch_ns": "touch",
    "pin_ns": "pin",
}
"""Virtual times of a rank, in ns."""

NACK_NAMES = (
    "",
    "page fault",
    "bad address",
    "no context",
    "corrupted packet",
    "domain mismatch",
    "reserved",
    "destination full",
)
"""NACK codes of MECHANISMS 3, by index."""

MAX_RANK_COLUMNS = 8
"""With more ranks the table shows minimum, mean and maximum instead of a column for each."""

_MAXIMUM_KEYS = (*TIME_KEYS, "wall_time_s", "peak_rss_bytes")
_NOT_COUNTERS = frozenset((*_MAXIMUM_KEYS, "mpi_calls", "nacks_by_code", "rank", "host", "pid"))


def finish(
    per_rank: Sequence[Mapping[str, Any]],
    config: Config,
    path: str = "",
    quiet: bool = False,
    *,
    program: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Print the report of a run and write it as JSON when there is a path; on rank 0 only.

    A path that cannot be written is reported on standard error: a run's end is too late to fail.
    """
    program = os.environ.get("PAGEWIRE_PROGRAM", "") if program is None else program
    if path:
        try:
            write_json(path, document(per_rank, config, program))
        except OSError as error:
            print(f"pagewire: report not written to '{path}': {error.strerror}", file=sys.stderr)
    if not quiet:
        print(table(per_rank, config, program), file=stream or sys.stdout, flush=True)


def document(per_rank: Sequence[Mapping[str, Any]], config: Config, program: str) -> dict[str, Any]:
    """The whole report as what JSON holds."""
    return {
        "program": program,
        "summary": summary(per_rank, config),
        "totals": totals(per_rank),
        "ranks": [{"rank": rank, **counted} for rank, counted in enumerate(per_rank)],
        "settings": {each.name: each.text for each in config.settings()},
        "settings_not_default": config.not_default(),
        "settings_sources": dict(config.sources),
    }


def write_json(path: str, value: Any) -> None:
    """Write through a second name, so that a reader never sees half a file."""
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, default=_plain)
            file.write("\n")
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def totals(per_rank: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counters summed over ranks; times and memory as the maximum over ranks."""
    keys = [key for group in COUNTER_GROUPS.values() for key in group]
    keys += [key for key in _other_keys(per_rank) if key not in keys]
    result: dict[str, Any] = {key: sum(each.get(key, 0) for each in per_rank) for key in keys}
    for key in _MAXIMUM_KEYS:
        result[key] = max((each.get(key, 0) for each in per_rank), default=0)
    calls: dict[str, int] = {}
    codes = [0] * len(NACK_NAMES)
    for each in per_rank:
        for name, count in each.get("mpi_calls", {}).items():
            calls[name] = calls.get(name, 0) + count
        for code, count in enumerate(each.get("nacks_by_code", ())):
            codes[code] += count
    result["mpi_calls"] = dict(sorted(calls.items()))
    result["nacks_by_code"] = codes
    result["faults"] = total_faults([each.get("faults", {}) for each in per_rank])
    return result


def summary(per_rank: Sequence[Mapping[str, Any]], config: Config) -> dict[str, Any]:
    """One flat entry for comparisons: the run's choices, its times and its main counters."""
    total = totals(per_rank)
    entry: dict[str, Any] = {
        "memory": config.run.memory,
        "policy": config.run.policy,
        "ranks": len(per_rank),
        "virtual_time_s": total["virtual_time_ns"] / 1e9,
        "wall_time_s": total["wall_time_s"],
    }
    for group in COUNTER_GROUPS.values():
        entry.update({key: total[key] for key in group})
    entry.update({key: total[key] for key in TIME_KEYS if key != "virtual_time_ns"})
    entry["peak_rss_bytes"] = total["peak_rss_bytes"]
    for site, counted in total["faults"].items():
        entry.update({f"{site}_{key}": count for key, count in counted.items()})
    return entry


def table(per_rank: Sequence[Mapping[str, Any]], config: Config, program: str = "") -> str:
    """The report as text in aligned columns."""
    total = totals(per_rank)
    many = len(per_rank) > MAX_RANK_COLUMNS
    heads = ["min", "mean", "max"] if many else [f"rank {r}" for r in range(len(per_rank))]
    rows: list[list[str] | str] = [["", "total", *heads]]

    def add(label: str, values: Sequence[float], whole: str, show: Any) -> None:
        cells = [min(values), sum(values) / len(values), max(values)] if many else values
        rows.append([label, whole, *(show(value) for value in cells)])

    def add_count(label: str, values: Sequence[int]) -> None:
        add(label, values, _count(sum(values)), _count)

    def shown(keys: Iterable[str]) -> list[str]:
        return [key for key in keys if key in ALWAYS_SHOWN or total[key]]

    if per_rank:
        for title, group in COUNTER_GROUPS.items():
            keys = shown(group)
            rows += [title] if keys else []
            for key in keys:
                add_count(f"  {group[key]}", [each.get(key, 0) for each in per_rank])
                if key == "nacks":
                    _add_nacks(per_rank, total["nacks_by_code"], add_count)
        other = shown(key for key in _other_keys(per_rank) if not _grouped(key))
        rows += ["other"] if other else []
        for key in other:
            add_count(f"  {key}", [each.get(key, 0) for each in per_rank])
        rows += ["injected faults"] if total["faults"] else []
        for site, counted in total["faults"].items():
            for key in counted:
                label = f"  {site}, {key}".replace("_", " ")
                add_count(
                    label, [each.get("faults", {}).get(site, {}).get(key, 0) for each in per_rank]
                )
        rows.append("virtual time (ms; total is the maximum)")
        for key in shown(TIME_KEYS):
            label = f"  {TIME_KEYS[key]}" if key == "virtual_time_ns" else f"    {TIME_KEYS[key]}"
            times = [each.get(key, 0) for each in per_rank]
            add(label, times, _milliseconds(total[key]), _milliseconds)
        rows.append("host (total is the maximum)")
        walls = [each.get("wall_time_s", 0.0) for each in per_rank]
        add("  wall time (s)", walls, f"{total['wall_time_s']:.3f}", lambda value: f"{value:.3f}")
        sizes = [each.get("peak_rss_bytes", 0) for each in per_rank]
        add("  peak RSS (MiB)", sizes, _mebibytes(total["peak_rss_bytes"]), _mebibytes)
    title = f"pagewire report: {program + ', ' if program else ''}{len(per_rank)} ranks"
    lines = [
        "",
        title,
        *_align(rows),
        "Counters that are zero on every rank are left out; --json has all.",
    ]
    calls = [f"{name} {_count(count)}" for name, count in total["mpi_calls"].items()]
    lines += _wrap("MPI calls: ", calls or ["none"])
    changed = [f"{name} = {text}" for name, text in config.not_default().items()]
    lines += _wrap("settings that are not default: ", changed or ["none"])
    return "\n".join(lines)


def _add_nacks(per_rank: Sequence[Mapping[str, Any]], codes: Sequence[int], add_count: Any) -> None:
    for code, count in enumerate(codes):
        if count:
            values = [(*each.get("nacks_by_code", ()), *[0] * 8)[code] for each in per_rank]
            add_count(f"    {code} {NACK_NAMES[code]}", values)


def _other_keys(per_rank: Iterable[Mapping[str, Any]]) -> list[str]:
    """Numeric keys that are no time and no maximum, in the order they appear."""
    found: dict[str, None] = {}
    for each in per_rank:
        for key, value in each.items():
            if key not in _NOT_COUNTERS and isinstance(value, int | float):
                found[key] = None
    return list(found)


def _grouped(key: str) -> bool:
    return any(key in group for group in COUNTER_GROUPS.values())


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


def _mebibytes(num_bytes: float) -> str:
    return f"{num_bytes / 1024**2:,.1f}"


def _plain(value: Any) -> Any:
    """numpy scalars and the like, which json does not know."""
    for method in ("item", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    return str(value)
