/* What the engine is told beside the costs. Each field is that of a row in
 * node/settings/setting_rows.c. Plain data. */
#ifndef PW_NATIVE_SETTINGS_H
#define PW_NATIVE_SETTINGS_H
#include "native/types.h"

/* cdef begin */
#define PW_TIMEOUT_FIXED 0
#define PW_TIMEOUT_AUTO 1
#define PW_TIMEOUT_MEASURED 2
#define PW_CONGESTION_NONE 0
#define PW_CONGESTION_DELAY 1
#define PW_TIMEOUT_ABSOLUTE 0
#define PW_TIMEOUT_TICK 1
#define PW_TIMEOUT_COUNTDOWN 2

/* The user's word on the class of a transfer. */
#define PW_HINT_NONE 0 /* by size */
#define PW_HINT_HIGH 1
#define PW_HINT_MEDIUM 2
#define PW_HINT_LOW 3

#define PW_WINDOW_MAX 64

#define PW_POLICY_PAGE 0
#define PW_POLICY_BLOCK 1
#define PW_POLICY_ALL 2
#define PW_POLICY_HOST 3 /* the host is asked by an event: see PW_HOST_DECISION */

#define PW_PAGE_IN_TOUCH_AHEAD 0  /* get_user_pages in the tasklet */
#define PW_PAGE_IN_TOUCH_A_PAGE 1 /* a Netlink message a page; a user-space thread touches it */
#define PW_TOUCH_AHEAD_PAGES_MAX 4

#define PW_DRIVER_PART 0 /* each unique page is resolved by itself [PART 4.4, 5.2] */
#define PW_DRIVER_PSI 1  /* pages brought in for the last two transactions are skipped [PSI 3.2] */

#define PW_INVALIDATE_ADDRESS 0 /* the pages that changed */
#define PW_INVALIDATE_CONTEXT 1 /* all of the process */
#define PW_INVALIDATE_ALL 2

#define PW_FSR_CLEARED_BY_HANDLER 0 /* which has read the registers */
#define PW_FSR_CLEARED_BY_TASKLET 1 /* when its run ends; until then faults only set MULTI */

#define PW_ERRS_BY_LIBRARY 0 /* whose thread a Netlink message wakes up */
#define PW_ERRS_BY_KERNEL 1  /* the tasklet itself [PSI 5.2 (1)] */
#define PW_ERRS_BY_HOST 2    /* the host is asked by an event: see PW_HOST_DECISION */

#define PW_ERRS_AFTER_RUN 0   /* nothing leaves before the tasklet is done with its entries */
#define PW_ERRS_AFTER_BLOCK 1 /* as soon as the block's pages are in */
#define PW_ERRS_AFTER_PAGE 2  /* as soon as the faulting page is in [PART 3.3] */

#define PW_LIBRARY_CORE_SAME 0  /* the library's thread runs after the tasklet */
#define PW_LIBRARY_CORE_OTHER 1 /* it runs as soon as the message is sent */

#define PW_INTERLEAVE_NONE 0   /* blocks of a transfer leave one after the other */
#define PW_INTERLEAVE_PACKET 1 /* packets of two outstanding blocks take turns on the link */

#define PW_ENGINE_FRDMA 0 /* the R5's firmware [R5] */
#define PW_ENGINE_ZDMA 1  /* the node's own DMA engine, before it [PSI 1.3.2] */

#define PW_WRITE_KEYS_UNIT 0     /* needed by units that know of buffers: mini, static */
#define PW_WRITE_KEYS_NEEDED 1   /* a remote write with key 0 is refused */
#define PW_WRITE_KEYS_OPTIONAL 2 /* it is served, by PDID alone */

#define PW_NETWORK_PRIVATE 0 /* each pair of nodes has its own link */
#define PW_NETWORK_LINKS 1   /* all share those of the topology, a block at a time */
#define PW_NETWORK_PACKETS 2 /* a packet at a time */

#define PW_TRANSLATION_SMMU 0   /* page-table walks, faults where a page is absent */
#define PW_TRANSLATION_MINI 1   /* caches on the NIC of tables in host memory */
#define PW_TRANSLATION_STATIC 2 /* miNI's base system: all tables on the NIC */
#define PW_TRANSLATION_UTLB 3   /* a cache on the NIC of the strategy utlb's table; else as SMMU */
#define PW_TRANSLATION_ODP 4    /* the NIC's own page table, filled by its faults */
#define PW_TRANSLATION_NP 5     /* a signature page for what is absent, software asks again */
#define PW_TRANSLATION_ATS 6    /* a cache on the device, page requests to the OS: PCIe ATS, PRI */
#define PW_TRANSLATION_BACKUP_RING 7 /* as ODP; what cannot be written is kept and copied later */

#define PW_PENDING_BUFFER 0 /* a block that waits for its page is kept in the NIC's memory */
#define PW_PENDING_PAUSE 1  /* in the receive engine, which takes nothing else meanwhile */
#define PW_PENDING_DROP 2   /* is dropped; the source's timer brings it again */

/* How long a miss takes: component costs, or as measured with an application [MINI 4]. */
#define PW_MISS_TIMES_PLATFORM 0
#define PW_MISS_TIMES_WATER_NSQUARED 1
#define PW_MISS_TIMES_WATER_SPATIAL 2
#define PW_MISS_TIMES_FFT 3
#define PW_MISS_TIMES_RADIX 4
#define PW_MISS_TIMES_LU 5
#define PW_MISS_TIMES_OCEAN 6
#define PW_MISS_TIMES_VOLREND 7
#define PW_MISS_TIMES_RAYTRACE 8

typedef struct {
    int64_t err_enabled;        /* the driver's library sends ERRs */
    int64_t timeout_ns;         /* per block; -1 = none */
    int64_t timeout_from;       /* PW_TIMEOUT_FIXED, _AUTO, _MEASURED */
    int64_t nack_cancels_timer; /* NTO: after NACK 1 only the ERR retransmits */
    int64_t policy;             /* PW_POLICY_* */
    int64_t page_in;            /* PW_PAGE_IN_* */
    int64_t touch_ahead_pages;  /* at most, for a fault at the source */
    int64_t driver_variant;     /* PW_DRIVER_* */
    int64_t fsr_cleared_by;     /* PW_FSR_CLEARED_BY_* */
    int64_t err_by;             /* PW_ERRS_BY_* */
    int64_t err_after;          /* PW_ERRS_AFTER_* */
    int64_t library_core;       /* PW_LIBRARY_CORE_* */
    int64_t ideal;              /* mapped pages never fault */
    int64_t memory_backend;     /* PW_MEMORY_* */
    int64_t residency_source;   /* PW_RESIDENCY_* */
    int64_t residency_check;
    int64_t model_seed;
    int64_t model_fault_millionths;
    int64_t model_frame_limit_pages;
    int64_t model_huge_pages;
    int64_t model_collapse_millionths;
    int64_t invalidate; /* PW_INVALIDATE_* */
    int64_t num_context_banks;
    int64_t l1_sets, l1_ways;
    int64_t l2_sets, l2_ways;
    int64_t tlb_line_pages;
    int64_t walk_cache_entries; /* pointers to tables of the upper levels; 0: none */
    int64_t prefetch_entries;   /* translations of next pages fetched ahead; 0: none */
    int64_t parallel_walks;
    int64_t outstanding_accesses; /* stalled ones at a time; more hold the NI's engine */
    int64_t hupcf;       /* 0: an active fault terminates, or stalls, every access of its bank */
    int64_t stall;       /* a faulting access waits for RESUME instead of being terminated */
    int64_t block_bytes; /* largest block: PW_BLOCK_BYTES or a smaller power of two */
    int64_t window_blocks;
    int64_t high_limit_bytes;
    int64_t medium_limit_bytes;
    int64_t requeue_dynamic; /* a transfer re-enters the queue that its rest asks for */
    int64_t bypass;
    int64_t strict_priority; /* a transfer that waits for its window keeps lower classes waiting */
    int64_t fast_path;
    int64_t ticket_queue;
    int64_t queue_counters;         /* 0: empty queues are read too */
    int64_t timeout_implementation; /* PW_TIMEOUT_* */
    int64_t tick_ns;
    int64_t read_mailbox_separate; /* read requests have a mailbox of their own */
    int64_t read_buffer_requests;
    int64_t read_retry_ns; /* 0: when a channel becomes free */
    int64_t mailbox_entries;
    int64_t engine;                /* PW_ENGINE_* */
    int64_t network_model;         /* PW_NETWORK_* */
    int64_t network_wait_limit_ns; /* on a link: blocks that wait longer are counted */
    int64_t network_quantum_bytes; /* of packets that move as one, without headers */
    int64_t multipath;             /* ways that blocks of a transfer take in turn */
    int64_t rate_limit_mbps;       /* of a node's blocks, headers included; 0: none */
    int64_t congestion;            /* PW_CONGESTION_* */
    int64_t receive_buffer_blocks; /* 0: a busy receive engine holds blocks at their source */
    int64_t interleave;            /* PW_INTERLEAVE_* */
    int64_t reads_without_key;     /* a remote read with key 0 is served, by PDID alone */
    int64_t write_keys;            /* PW_WRITE_KEYS_* */
    int64_t ni_fifo_depth;
    int64_t ni_fifo_remembers; /* blocks */
    int64_t tasklet_entries;
    int64_t eager_limit_bytes;
    int64_t translation; /* PW_TRANSLATION_* */
    int64_t mini_processes;
    int64_t vmh_entries, vmh_line_pages, vmh_ways; /* of the NIC's cache */
    int64_t cbh_entries, cbh_ways;
    int64_t vmh_high_pages, vmh_low_pages; /* water marks of the VMH table; high 0: none */
    int64_t vmh_check_ns;                  /* between two looks at them */
    int64_t keeps_order; /* behind a dropped block every later one of its source is dropped */
    int64_t miss_times;  /* PW_MISS_TIMES_* */
    int64_t static_pages, static_buffers; /* of the tables on the NIC of static */
    int64_t nic_memory_bytes;             /* in which all that stands on the NIC has room */
    int64_t odp_rnr_ns;                   /* pause of a transfer whose receiver is not ready */
    int64_t odp_fault_pages;              /* that a fault of that NIC brings in at most */
    int64_t odp_prefetch;                 /* its driver is advised of destinations */
    int64_t odp_backup_blocks;            /* room of the backup ring */
    int64_t ats_cache_entries;            /* of the device's translation cache */
    int64_t ats_group_pages;              /* that a page request group asks for at most */
    int64_t ats_outstanding;              /* page requests of the device at a time */
    int64_t ats_queue_entries;            /* of the IOMMU's page request queue */
    int64_t ats_handlers;                 /* threads of the OS that bring pages in */
    int64_t ats_while_pending;            /* PW_PENDING_* */
    int64_t ats_buffer_blocks;            /* of BUFFER */
    int64_t lookahead_blocks;   /* blocks of a lone transfer sent before their answers are here; 0 =
                                   none */
    int64_t hash_received;      /* of long messages, for the report */
    int64_t locked_limit_bytes; /* that memory strategies may pin; -1: the host's own limit */
    int64_t strategy_checks_mappings; /* before what a strategy keeps of a buffer is used */
    int64_t touch_below_bytes;        /* hybrid: shorter buffers are touched */
    int64_t pin_cache_limit_bytes;    /* -1: none */
    int64_t pin_cache_limit_regions;
    int64_t piece_bytes; /* of strategies that take messages in pieces; whole pages */
    int64_t bounce_buffers;
    int64_t utlb_limit_bytes;       /* -1: none */
    int64_t utlb_cache_entries;     /* on the NIC */
    int64_t utlb_fetch_entries;     /* that a miss reads, at most */
    int64_t firehose_limit_bytes;   /* of own memory, for all peers together */
    int64_t firehose_victims_bytes; /* pinned, and held by nobody */
    int64_t mailbox_fifo_words;     /* of each FIFO of the virtualised mailbox */
    int64_t mailbox_bursts;         /* PW_BURSTS_* */
    int64_t shared_memory_bytes;    /* that a node gives to Unimem; whole pages */
    int64_t dma_buffer_bytes; /* the longest buffer of the DMA library; -1: the NI's own limit */
    int64_t dma_buffers;      /* of it on a node at a time; -1: any number */
} pw_settings;
/* cdef end */

/* Is the host asked about page faults: which pages come in, or who sends the ERR? */
static inline bool pw_asks_host(const pw_settings *settings)
{
    return settings->policy == PW_POLICY_HOST || settings->err_by == PW_ERRS_BY_HOST;
}

#endif
