/* What the engine is told (costs of the platform, settings) and what it counts. The platform file and
 * the settings registry fill these by field name, so a field here is a key there, and a test compares
 * both. All costs are component costs; nothing here is an end-to-end figure. */
#ifndef PW_NATIVE_CONFIG_H
#define PW_NATIVE_CONFIG_H
#include "native/types.h"

/* cdef begin */
/* Component costs; value, unit and source stand in transport/platforms/NAME.toml. */
typedef struct {
    int64_t core_register_read_ns;      /* core to NI register, round trip */
    int64_t core_register_write_ns;     /* posted */
    int64_t r5_notice_transfer_ns;      /* through the scratchpad word */
    int64_t r5_mailbox_notice_ns;       /* through the mailbox */
    int64_t r5_queue_op_ns;
    int64_t r5_id_search_ns;            /* a free transaction id without ticket queue */
    int64_t r5_bypass_check_ns;         /* is the high queue empty? */
    int64_t r5_start_block_ns;
    int64_t r5_completion_message_ns;
    int64_t r5_ack_read_ns;
    int64_t r5_logic_round_trip_ns;
    int64_t r5_read_request_word_ns;
    int64_t link_mbps;                  /* inside a QFDB */
    int64_t link_between_mbps;          /* between QFDBs */
    int64_t link_coding_permille;       /* payload part of the line code */
    int64_t packet_header_bytes;
    int64_t hop_ns;
    int64_t ni_send_ns;
    int64_t ni_receive_ns;
    int64_t receive_engine_mbps;        /* memory side of either engine */
    int64_t smmu_clock_ps;
    int64_t tlb_l1_hit_clocks;
    int64_t tlb_l2_hit_clocks;
    int64_t walk_ns;
    int64_t walk_accesses;              /* to memory, of a full walk: one a level */
    int64_t handler_ns;
    int64_t tasklet_other_ns;
    int64_t page_in_fixed_ns;
    int64_t page_in_page_ns;
    int64_t major_fault_ns;             /* more for a page that comes back from swap */
    int64_t netlink_ns;
    int64_t user_wakeup_ns;
    int64_t err_send_ns;
    int64_t touch_absent_page_ns;       /* user-space thread touches a page: Touch-A-Page */
    int64_t touch_resident_page_ns;
    int64_t packetizer_writes;          /* register writes for one packet */
    int64_t packetizer_payload_bytes;
    int64_t mailbox_read_ns;
    int64_t mpi_call_ns;
    int64_t poll_ns;
    int64_t nodes_per_qfdb;
} pw_costs;

#define PW_TIMEOUT_ABSOLUTE 0
#define PW_TIMEOUT_TICK 1
#define PW_TIMEOUT_COUNTDOWN 2

/* The user's word on the class of a transfer. */
#define PW_HINT_NONE 0                  /* by size */
#define PW_HINT_HIGH 1
#define PW_HINT_MEDIUM 2
#define PW_HINT_LOW 3

#define PW_WINDOW_MAX 64

#define PW_POLICY_PAGE 0
#define PW_POLICY_BLOCK 1
#define PW_POLICY_ALL 2
#define PW_POLICY_HOST 3        /* the host is asked by an event: see PW_HOST_DECISION */

#define PW_PAGE_IN_TOUCH_AHEAD 0        /* get_user_pages in the tasklet */
#define PW_PAGE_IN_TOUCH_A_PAGE 1       /* a Netlink message a page; a user-space thread touches it */
#define PW_TOUCH_AHEAD_PAGES_MAX 4

typedef struct {
    int64_t err_enabled;                /* the driver's library sends ERRs */
    int64_t timeout_ns;                 /* per block; -1 = none */
    int64_t nack_cancels_timer;         /* NTO: after NACK 1 only the ERR retransmits */
    int64_t policy;                     /* PW_POLICY_* */
    int64_t page_in;                    /* PW_PAGE_IN_* */
    int64_t touch_ahead_pages;          /* at most, for a fault at the source */
    int64_t ideal;                      /* mapped pages never fault */
    int64_t memory_backend;             /* PW_MEMORY_* */
    int64_t model_seed;
    int64_t model_fault_millionths;
    int64_t model_frame_limit_pages;
    int64_t model_huge_pages;
    int64_t model_collapse_millionths;
    int64_t num_context_banks;
    int64_t l1_sets, l1_ways;
    int64_t l2_sets, l2_ways;
    int64_t tlb_line_pages;
    int64_t walk_cache_entries;         /* pointers to tables of the upper levels; 0: none */
    int64_t prefetch_entries;           /* translations of next pages fetched ahead; 0: none */
    int64_t parallel_walks;
    int64_t outstanding_accesses;       /* stalled ones at a time; more hold the NI's engine */
    int64_t hupcf;                      /* 0: an active fault terminates, or stalls, every access of its bank */
    int64_t stall;                      /* a faulting access waits for RESUME instead of being terminated */
    int64_t window_blocks;
    int64_t high_limit_bytes;
    int64_t medium_limit_bytes;
    int64_t requeue_dynamic;            /* a transfer re-enters the queue that its rest asks for */
    int64_t bypass;
    int64_t strict_priority;            /* a transfer that waits for its window keeps lower classes waiting */
    int64_t fast_path;
    int64_t ticket_queue;
    int64_t queue_counters;             /* 0: empty queues are read too */
    int64_t timeout_implementation;     /* PW_TIMEOUT_* */
    int64_t tick_ns;
    int64_t read_mailbox_separate;      /* read requests have a mailbox of their own */
    int64_t read_buffer_requests;
    int64_t read_retry_ns;              /* 0: when a channel becomes free */
    int64_t mailbox_entries;
    int64_t receive_buffer_blocks;      /* 0: a busy receive engine holds blocks at their source */
    int64_t ni_fifo_depth;
    int64_t tasklet_entries;
    int64_t eager_limit_bytes;
    int64_t lookahead_blocks;           /* blocks of a lone transfer sent before their answers are here; 0 = none */
} pw_settings;

typedef struct {
    uint64_t transfers, transfers_failed, reads_served, reads_refused, reads_queued;
    uint64_t blocks, packets, retransmitted_blocks, duplicate_blocks;
    uint64_t eager_messages, eager_bytes, rdma_messages, rdma_bytes, message_packets;
    uint64_t acks, nacks[8], err_messages, timeouts;    /* as seen at the source of the data */
    uint64_t fast_path_hits, mailbox_duplicates;    /* new transfers seen in the scratchpad word; and in the mailbox again */
    uint64_t scheduler_bypasses, requeues_high, requeues_medium, requeues_low;  /* by the queue that was entered again */
    uint64_t reads_held, read_retries;  /* requests left in the mailbox; looks at the buffer */
    uint64_t mailbox_full;              /* entries that found a mailbox full and waited before it */
    uint64_t empty_queue_reads, countdown_decrements;
    uint64_t buffer_full;               /* blocks refused with NACK 7 */
    uint64_t errs_refused;              /* wired and claimed PDID differ */
    uint64_t stale_answers;             /* ACK/NACK/ERR of an older sequence number or another block */
    uint64_t crc_errors, malformed_frames, stale_frames;
    uint64_t translation_faults_source, translation_faults_destination;
    uint64_t permission_faults_source, permission_faults_destination;
    uint64_t faults_multi;              /* faults recorded only as MULTI */
    uint64_t accesses_blocked;          /* packets terminated or stalled by an active fault of another access (HUPCF = 0) */
    uint64_t accesses_stalled;          /* packets (destination) and pages (source) that waited for RESUME */
    uint64_t resumes_retry, resumes_terminate;
    int64_t stalled_ns;                 /* sum of their waits */
    uint64_t outstanding_full;          /* accesses that waited because too many were outstanding */
    uint64_t fault_interrupts, interrupts_in_tasklet;
    uint64_t fifo_pushed, fifo_filtered, fifo_lost, fifo_duplicates;
    uint64_t tasklet_runs, tasklet_entries;
    uint64_t pages_paged_in, page_ins_present, page_ins_failed;
    uint64_t pages_copied, major_faults, pages_along;   /* of pages_paged_in: write protection ended, from swap, huge */
    uint64_t netlink_messages;
    uint64_t pages_touched, touch_segfaults;    /* of the user-space thread (Touch-A-Page) */
    uint64_t errs_sent;
    uint64_t l1_hits, l1_misses, l2_hits, l2_misses, walks, stale_translations;
    uint64_t prefetches, prefetch_hits;
    uint64_t walk_accesses;             /* to memory; a walk cache saves some */
    uint64_t walks_delayed;             /* that waited for one of the parallel walkers */
    uint64_t shootdowns_address, shootdowns_context, shootdowns_all, translations_dropped;
    uint64_t table_full;                /* times the transaction table had no free entry */
    uint64_t lookahead_blocks, lookahead_misses;    /* answers foreseen, and how many came at another time */
    uint64_t bursts_sent, bursts_received, burst_bytes_sent;
    int64_t page_in_ns;                 /* driver time: handler, tasklet, page-in */
} pw_counters;
/* cdef end */
#endif
