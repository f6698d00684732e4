/* What the engine counts. Plain data. */
#ifndef PW_NATIVE_COUNTERS_H
#define PW_NATIVE_COUNTERS_H
#include "native/types.h"

/* cdef begin */
typedef struct {
    uint64_t transfers, transfers_failed, reads_served, reads_refused, reads_queued;
    uint64_t blocks, packets, retransmitted_blocks, duplicate_blocks;
    uint64_t eager_messages, eager_bytes, rdma_messages, rdma_bytes, message_packets;
    uint64_t acks, nacks[8], err_messages, timeouts; /* as seen at the source of the data */
    uint64_t fast_path_hits, mailbox_duplicates; /* new transfers seen in the scratchpad word; and
                                                    in the mailbox again */
    uint64_t scheduler_bypasses, requeues_high, requeues_medium,
        requeues_low;                  /* by the queue that was entered again */
    uint64_t reads_held, read_retries; /* requests left in the mailbox; looks at the buffer */
    uint64_t mailbox_full;             /* entries that found a mailbox full and waited before it */
    uint64_t empty_queue_reads, countdown_decrements;
    uint64_t rate_cuts;     /* of peers, for congestion */
    uint64_t buffer_full;   /* blocks refused with NACK 7 */
    uint64_t errs_refused;  /* wired and claimed PDID differ */
    uint64_t stale_answers; /* ACK/NACK/ERR of an older sequence number or another block */
    uint64_t crc_errors, malformed_frames, stale_frames;
    uint64_t forged_frames; /* of malformed_frames: say that they are from another node */
    /* Refused here for ever; a page fault or a damaged packet is no refusal. */
    uint64_t blocks_refused_address, blocks_refused_context, blocks_refused_protection;
    uint64_t blocks_refused_ended; /* of a transfer that its source has ended */
    uint64_t transfers_refused;    /* more at a time than a node has channels */
    uint64_t reads_refused_address, reads_refused_context, reads_refused_protection;
    uint64_t answers_refused; /* of a node, or a domain, that the block was not sent to */
    uint64_t transaction_wraps, sequence_wraps; /* numbers that began anew at their first */
    uint64_t translation_faults_source, translation_faults_destination;
    uint64_t permission_faults_source, permission_faults_destination;
    uint64_t faults_multi;     /* faults recorded only as MULTI */
    uint64_t accesses_blocked; /* packets terminated or stalled by an active fault of another access
                                  (HUPCF = 0) */
    uint64_t accesses_stalled; /* packets (destination) and pages (source) that waited for RESUME */
    uint64_t resumes_retry, resumes_terminate;
    int64_t stalled_ns;        /* sum of their waits */
    uint64_t outstanding_full; /* accesses that waited because too many were outstanding */
    uint64_t fault_interrupts, interrupts_in_tasklet;
    uint64_t fifo_pushed, fifo_filtered, fifo_lost, fifo_duplicates;
    uint64_t tasklet_runs, tasklet_entries;
    uint64_t pages_paged_in, page_ins_present, page_ins_failed;
    uint64_t pages_copied, major_faults,
        pages_along; /* of pages_paged_in: write protection ended, from swap, huge */
    uint64_t netlink_messages;
    uint64_t pages_touched, touch_segfaults; /* of the user-space thread (Touch-A-Page) */
    uint64_t errs_sent;
    uint64_t l1_hits, l1_misses, l2_hits, l2_misses, walks, stale_translations;
    uint64_t prefetches, prefetch_hits;
    uint64_t walk_accesses; /* to memory; a walk cache saves some */
    uint64_t walks_delayed; /* that waited for one of the parallel walkers */
    uint64_t shootdowns_address, shootdowns_context, shootdowns_all, translations_dropped;
    uint64_t vmh_lookups_send, vmh_lookups_receive, vmh_misses_send, vmh_misses_receive;
    uint64_t vmh_cold_send, vmh_cold_receive; /* of the misses: the page was never in the cache */
    uint64_t vmh_pending;  /* look-ups of a line that is reserved, not filled yet */
    uint64_t vmh_set_full; /* misses that found every slot of their set locked or reserved */
    uint64_t vmh_lines_replaced;
    uint64_t vmh_pages_pinned, vmh_pages_unpinned, vmh_pinned_peak;
    uint64_t vmh_evictions;  /* runs of the table's water mark */
    uint64_t blocks_behind;  /* dropped behind one that was: order of a node */
    uint64_t blocks_dropped; /* arrived without a translation: no answer */
    uint64_t cbh_lookups, cbh_misses, cbh_invalid, requests_retried;
    uint64_t miss_interrupts;
    int64_t miss_delay_ns, miss_work_ns; /* sums */
    uint64_t miss_delays_10us, miss_delays_20us, miss_delays_50us, miss_delays_100us,
        miss_delays_200us, miss_delays_500us, miss_delays_longer; /* by bin [MINI table 4.6] */
    uint64_t miss_works_10us, miss_works_20us, miss_works_50us, miss_works_100us, miss_works_200us,
        miss_works_500us, miss_works_longer;          /* [MINI table 4.7] */
    uint64_t utlb_hits, utlb_misses, utlb_prefetched; /* entries read beside the one that missed */
    uint64_t static_pages, static_refused; /* entered in the static table; no room in it */
    uint64_t odp_faults, odp_pending; /* of a NIC with on-demand paging; accesses to a page whose
                                         fault is being handled */
    uint64_t odp_pages_filled, odp_invalidations, odp_table_peak; /* entries of its table */
    uint64_t odp_prefetches, odp_invalidation_requests;
    int64_t odp_fault_ns;                       /* sum of its faults */
    uint64_t rnr_nacks, sequence_nacks;         /* receiver not ready; a block before is missing */
    int64_t rnr_wait_ns;                        /* sum of the pauses */
    uint64_t blocks_gone_back;                  /* sent again because one before them was */
    uint64_t signature_writes, signature_reads; /* NP-RDMA: pages met that were not there */
    uint64_t blocks_missed, two_sided_retries;  /* as seen at the source of the data */
    uint64_t blocks_kept;                       /* that waited for their pages at the destination */
    int64_t blocks_kept_ns;                     /* sum of their waits */
    uint64_t ats_hits, ats_misses, ats_requests;         /* device's cache; translation requests */
    uint64_t ats_groups, ats_page_requests, ats_pending; /* accesses to a page that was asked for */
    uint64_t ats_requests_held; /* groups that waited for the device's own limit */
    uint64_t ats_overflows;     /* groups that the queue had no room for */
    uint64_t ats_invalidations; /* translations of the device that the OS took back */
    int64_t ats_wait_ns;        /* sum, from an access to an absent page until its translation */
    uint64_t table_full;        /* times the transaction table had no free entry */
    uint64_t lookahead_blocks,
        lookahead_misses;     /* answers foreseen, and how many came at another time */
    uint64_t lookahead_reads; /* foreseen by their readers */
    uint64_t bursts_sent, bursts_received, burst_bytes_sent;
    int64_t page_in_ns; /* driver time: handler, tasklet, page-in */
} pw_counters;
/* cdef end */

#endif
