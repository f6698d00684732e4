"""What each rank counts, as the report knows it: groups, labels, and sums over ranks.

The keys of a rank's flat dict are those of COUNTER_GROUPS and TIME_KEYS, and besides:

- mpi_calls: dict, by name of an MPI call: dict with the fields of call_counts.h
- nacks_by_code: list of 8, index = NACK code of docs/machine.md, "Answers"
- impairments: dict, eligible and injected events by site, of the sites that are on; late_after_end
  of those that keep blocks
- interrupt_times: dict, fault-handler invocations over virtual time: bin_ns, and bins, a list of
  counts
- message_sizes: list, eager messages and transfers that left; [i] counts those of 2^(i-1) to
  2^i - 1 bytes, [0] those of none
- peers: dict, by node that they went to: dict of messages and bytes
- demands: dict, by node that blocks went to over a link of the pair's own: dict of blocks, bytes
  with headers, span_windows, and most_bytes, a dict by span of so many windows of 1 ms: bytes of
  the busiest of them
- fault_waits_ns: list, alike, of blocks refused for a page fault: ns from the NACK, as the R5
  handled it, until the block was sent again
- fault_times: dict as interrupt_times, of the accesses that faulted; those of a block at the
  destination at its first packet's time
- fault_pages: dict, where they faulted: group_pages, and faults, a dict of counts by the first
  address of a group of so many pages
- virtual_time_ns: the rank's clock at Finalize; compute_ns, mpi_ns, sleep_ns, page_in_ns, touch_ns,
  pin_ns, copy_ns: parts
- pinned_peak_bytes, pinned_mean_bytes: memory that the strategy, or miNI or its base system, had
  pinned, at most and on average over virtual time
- resident_peak_bytes, resident_mean_bytes: memory of communication that was there, at most and on
  average over virtual time
- wall_time_s: float; peak_rss_bytes: int
- page_sources: list, what this host's kernel tells of pages; empty with the model's
- received_hash: text, with run.hash_received, of a rank that received by RDMA
- regions: list, of a program that marked some (docs/regions.md): by row a dict of its name, its
  entries, its share of the times, and of those counters in which it has one; row 0 is what lies
  outside of all regions
- without_marks: 1, of a rank over the fabric whose MPI calls nobody marked: its compute is the time
  between the provider's calls

A missing key counts as zero; a key not known here is summed when it is a number.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pagewire.native.impairments import total as total_impairments

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
        "reads_refused_address": "  a bad request or address",
        "reads_refused_context": "  no context for the domain",
        "reads_refused_protection": "  key or bounds",
        "blocks": "blocks",
        "packets": "packets",
        "acks": "ACKs",
        "nacks": "NACKs",
        "err_messages": "ERRs",
        "errs_refused": "ERRs of another domain",
        "timeouts": "timeouts",
        "rate_cuts": "rate cuts, for congestion",
        "retransmitted_blocks": "retransmitted blocks",
        "duplicate_blocks": "blocks that arrived again",
        "crc_errors": "damaged packets found",
        "buffer_full": "blocks that found the receive buffer full",
        "blocks_refused_address": "refused blocks, bad address",
        "blocks_refused_context": "refused blocks, no context for the domain",
        "blocks_refused_protection": "refused blocks, domain, transfer or mapping forbids",
        "blocks_refused_ended": "refused blocks, of a transfer that has ended",
        "transfers_refused": "refused transfers, more than channels",
        "answers_refused": "answers of a node or domain not asked",
        "stale_frames": "frames of no transfer",
        "malformed_frames": "malformed frames",
        "forged_frames": "  with the name of another node",
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
        "transaction_wraps": "transaction ids that began anew",
        "sequence_wraps": "sequence numbers that began anew",
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
    "memory strategy": {
        "strategy_hits": "buffers that were ready",
        "strategy_misses": "buffers that were not",
        "strategy_evictions": "ranges given up for a limit",
        "strategy_invalidations": "ranges whose mapping had gone",
        "strategy_major_faults": "pages brought back from swap",
        "stale_transfers": "transfers through pins of mappings that had gone",
        "copies": "copies",
        "copied_bytes": "bytes copied",
        "pool_waits": "copies that waited for a free buffer",
        "firehose_moves": "round trips to move firehoses",
        "firehose_pages": "  pages that they got hold of",
        "firehose_waits": "reads that waited for a firehose in use",
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
    "miNI": {
        "vmh_lookups_send": "look-ups of pages, send",
        "vmh_lookups_receive": "look-ups of pages, receive",
        "vmh_misses_send": "  misses, send",
        "vmh_misses_receive": "  misses, receive",
        "vmh_cold_send": "    of these cold, send",
        "vmh_cold_receive": "    of these cold, receive",
        "vmh_pending": "  of a line that is being filled",
        "vmh_set_full": "  no slot free in the set",
        "vmh_lines_replaced": "lines replaced",
        "vmh_pages_pinned": "pages pinned",
        "vmh_pages_unpinned": "pages unpinned",
        "vmh_pinned_peak": "  most pinned at a time",
        "vmh_evictions": "runs at the water mark",
        "blocks_dropped": "blocks dropped for a miss",
        "blocks_behind": "blocks dropped behind one",
        "cbh_lookups": "look-ups of buffers",
        "cbh_misses": "  misses",
        "cbh_invalid": "  of unknown buffers",
        "requests_retried": "requests sent again for a miss",
        "miss_interrupts": "interrupts for misses",
        "miss_delay_ns": "  sum of delays (ns)",
        "miss_delays_10us": "    below 10 us",
        "miss_delays_20us": "    below 20 us",
        "miss_delays_50us": "    below 50 us",
        "miss_delays_100us": "    below 100 us",
        "miss_delays_200us": "    below 200 us",
        "miss_delays_500us": "    below 500 us",
        "miss_delays_longer": "    longer",
        "miss_work_ns": "  sum of the thread's work (ns)",
        "miss_works_10us": "    below 10 us",
        "miss_works_20us": "    below 20 us",
        "miss_works_50us": "    below 50 us",
        "miss_works_100us": "    below 100 us",
        "miss_works_200us": "    below 200 us",
        "miss_works_500us": "    below 500 us",
        "miss_works_longer": "    longer",
        "static_pages": "pages entered in the static table",
        "static_refused": "pages refused, static table full",
    },
    "on-demand paging": {
        "odp_faults": "faults of the NIC",
        "odp_fault_ns": "  sum of their times (ns)",
        "odp_pages_filled": "entries made in the NIC's table",
        "odp_invalidations": "entries taken out by the OS",
        "odp_table_peak": "most entries at a time",
        "odp_pending": "accesses during the page's fault",
        "odp_invalidation_requests": "  requests of the driver for that",
        "odp_prefetches": "prefetches",
        "rnr_nacks": "receiver not ready",
        "rnr_wait_ns": "  sum of the pauses (ns)",
        "sequence_nacks": "gaps that the receiver told of",
        "blocks_gone_back": "blocks sent again behind another",
    },
    "blocks for absent pages": {
        "blocks_kept": "blocks kept until their pages were there",
        "blocks_kept_ns": "  sum of their waits (ns)",
    },
    "PCIe ATS and PRI": {
        "ats_hits": "hits in the device's cache",
        "ats_misses": "misses in it",
        "ats_requests": "translation requests",
        "ats_groups": "page request groups",
        "ats_page_requests": "  pages asked for",
        "ats_pending": "  accesses during a page's request",
        "ats_requests_held": "  waited for the device's limit",
        "ats_overflows": "  found the queue full",
        "ats_wait_ns": "  sum of the waits for pages (ns)",
        "ats_invalidations": "translations that the OS took back",
    },
    "NP-RDMA": {
        "signature_writes": "pages written to the signature page",
        "signature_reads": "pages read from it",
        "blocks_missed": "blocks that went there",
        "two_sided_retries": "  sent again when software was ready",
    },
    "UTLB": {
        "utlb_hits": "hits in the NIC's cache",
        "utlb_misses": "misses in it",
        "utlb_prefetched": "  entries read along with them",
    },
    "regions": {
        "region_leaves_unmatched": "regions left that were not open",
        "region_marks_of_threads": "marks of a second thread, not followed",
    },
    "emulator": {
        "lookahead_blocks": "answers foreseen",
        "lookahead_misses": "  that came at another time",
        "lookahead_reads": "reads foreseen",
        "bursts_sent": "bursts sent",
        "bursts_received": "bursts received",
        "burst_bytes_sent": "bytes of bursts sent",
        "bursts_short": "  short, copied into shared memory",
        "bursts_in_place": "  read where they were written",
        "bursts_copied": "  read from a copy",
        "bursts_by_message": "  by an MPI message",
        "yields": "cores given up while waiting",
        "sleeps": "naps while waiting",
    },
}
"""Counters that are summed over ranks, with the label of their line."""

LABELS: Mapping[str, str] = {
    key: label for group in COUNTER_GROUPS.values() for key, label in group.items()
}
"""The same without groups."""

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
    "sleep_ns": "sleep",
    "page_in_ns": "page-in",
    "touch_ns": "touch",
    "pin_ns": "pin",
    "copy_ns": "copy",
}
"""Virtual times of a rank, in ns."""

REGION_COUNTS: Mapping[str, str] = {
    "mpi_sends": "sends", "mpi_bytes": "bytes", "blocks": "blocks", "translation_faults": "faults",
    "nacks": "NACKs", "err_messages": "ERRs", "retransmitted_blocks": "resent",
    "pages_paged_in": "paged in",
}  # fmt: skip
"""Counters of a region that its row shows, with the heads of their columns."""

PINNED_KEYS: Mapping[str, str] = {
    "pinned_peak_bytes": "at most",
    "pinned_mean_bytes": "on average",
}
"""Memory that a rank's strategy, or its translation unit, has pinned, in bytes; the average is over
virtual time."""

RESIDENT_KEYS: Mapping[str, str] = {
    "resident_peak_bytes": "at most",
    "resident_mean_bytes": "on average",
}
"""Memory of a rank's communication that is there, as far as NI, driver and strategy have seen, in
bytes; the average is over virtual time."""

MEMORY_KEYS = (*PINNED_KEYS, *RESIDENT_KEYS)

UNIT_MISSES: Mapping[str, Sequence[str]] = {
    "smmu": ("l2_misses",),
    "mini": ("vmh_misses_send", "vmh_misses_receive", "cbh_misses"),
    "static": (),
    "utlb": ("utlb_misses",),
    "odp": ("l2_misses",),
    "np-rdma": ("l2_misses",),
    "ats": ("ats_misses",),
    "backup-ring": ("l2_misses",),
}
"""Counters of look-ups that a translation unit's own caches did not answer, by run.translation; the
tables of static hold all there is."""

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
"""NACK codes of docs/machine.md, "Answers", by index."""

_MAXIMUM_KEYS = (*TIME_KEYS, *MEMORY_KEYS, "wall_time_s", "peak_rss_bytes")
_NOT_OTHER = frozenset(
    (*LABELS, *_MAXIMUM_KEYS, "mpi_calls", "nacks_by_code", "rank", "host", "pid", "without_marks")
)


def lacking_sources(total: Mapping[str, Any]) -> list[str]:
    """What this host's kernel does not tell of pages, and a newer one would."""
    found = total["page_sources"]
    return [name for name in ("pagemap", "PROCMAP_QUERY") if found and name not in found]


def totals(per_rank: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counters summed over ranks; times and memory as the maximum over ranks."""
    keys = (key for group in groups_of(per_rank).values() for key in group)
    result: dict[str, Any] = {key: sum(each.get(key, 0) for each in per_rank) for key in keys}
    for key in _MAXIMUM_KEYS:
        result[key] = max((each.get(key, 0) for each in per_rank), default=0)
    codes = [0] * len(NACK_NAMES)
    for each in per_rank:
        for code, count in enumerate(each.get("nacks_by_code", ())):
            codes[code] += count
    result["mpi_calls"] = _total_calls(per_rank)
    result["nacks_by_code"] = codes
    result["not_carried"] = _not_carried(result["mpi_calls"])
    result["without_marks"] = [
        rank for rank, each in enumerate(per_rank) if each.get("without_marks")
    ]
    result["regions"] = total_regions(per_rank)
    result["page_sources"] = _page_sources(per_rank)
    result["impairments"] = total_impairments([each.get("impairments", {}) for each in per_rank])
    return result


def total_regions(per_rank: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By name, in the order of their first entries: entries and counters summed over ranks, times
    as the maximum over ranks; virtual_time_sum_ns: of all ranks."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for each in per_rank:
        for row in each.get("regions", ()):
            rows.setdefault(row["name"], []).append(row)
    return [{"name": name, **_total_region(found)} for name, found in rows.items()]


def longest_regions(regions: Sequence[Mapping[str, Any]], num_most: int) -> list[Mapping[str, Any]]:
    """Of `total_regions`: as many as are shown, those with most time, in their order."""
    chosen = sorted(regions, key=lambda region: -region["virtual_time_sum_ns"])[:num_most]
    names = {region["name"] for region in chosen}
    return [region for region in regions if region["name"] in names]


def _total_region(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    keys = dict.fromkeys(key for row in rows for key in row if key not in ("name", "nacks_by_code"))
    total: dict[str, Any] = {}
    for key in keys:
        values = [row.get(key, 0) for row in rows]
        total[key] = max(values) if key in _MAXIMUM_KEYS else sum(values)
    total["virtual_time_sum_ns"] = sum(row["virtual_time_ns"] for row in rows)
    total["nacks_by_code"] = [
        sum(code) for code in zip(*(r["nacks_by_code"] for r in rows), strict=True)
    ]
    return total


def _page_sources(per_rank: Sequence[Mapping[str, Any]]) -> list[str]:
    """What told every rank which of its pages are there; empty with the model's pages."""
    lists = [list(each.get("page_sources", ())) for each in per_rank]
    return [name for name in lists[0] if all(name in each for each in lists)] if lists else []


def _total_calls(per_rank: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """By name of a call, each field summed."""
    total: dict[str, dict[str, int]] = {}
    for each in per_rank:
        for name, count in each.get("mpi_calls", {}).items():
            fields = total.setdefault(name, dict.fromkeys(count, 0))
            for field, value in count.items():
                fields[field] += value
    return dict(sorted(total.items()))


def _not_carried(calls: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Number, bytes and names of the calls that went around the NI."""
    around = {name: count for name, count in calls.items() if count["not_carried_calls"]}
    return {
        "calls": sum(count["not_carried_calls"] for count in around.values()),
        "bytes": sum(count["not_carried_bytes"] for count in around.values()),
        "names": list(around),
    }


def groups_of(per_rank: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, str]]:
    """COUNTER_GROUPS, and as "other" the numeric keys that are no time and no maximum and are not
    known here, in the order they appear."""
    others: dict[str, str] = {}
    for each in per_rank:
        for key, value in each.items():
            if key not in _NOT_OTHER and isinstance(value, int | float):
                others[key] = key
    return {**COUNTER_GROUPS, "other": others}
