/* Thread of the user-space library that gets the driver's Netlink messages: touches pages
 * (Touch-A-Page) and sends ERRs, one for each (source node, PDID, transaction, sequence number)
 * [PSI 3.2, PART 4.4]. ERRs that the tasklet sends itself are kept here too, until they are final:
 * at the end of its run, as a thread that need not wake up, or at an instant of it.
 *
 * A message wakes it up; it runs behind the tasklet that sent it, or on another core at once
 * (driver.library_core). It handles what waits in batches: first it touches the pages of all
 * messages that wait, in order, then it sends an ERR for each block; a message that comes while it
 * is awake needs no second wake-up. When it does what depends on the tasklet's end, which can still
 * move; an ERR is sent for good when no block of its transfer can arrive before it any more.
 * Touching a page that is not mapped any more is a segmentation fault, which it survives. Not
 * thread-safe. */
#ifndef PW_DRIVER_LIBRARY_THREAD_H
#define PW_DRIVER_LIBRARY_THREAD_H
#include "native/types.h"
#include "native/costs.h"
#include "native/counters.h"
#include "native/cpu.h"
#include "native/memory.h"
#include "native/pool.h"
#include "native/settings.h"
#include "native/trace.h"
#include "smmu/presence.h"

/* What an entry of the NI FIFO does not carry: bounds of the block and of its transfer, for page-in
 * policies, and who is asked to send it again. Kept from a block's first faulting packet until its
 * entries are read and its ERR is sent, by (source node, PDID, transaction, sequence number).
 * A chained hash. */

/* A block that met a page fault, at the end at which it did. */
typedef struct {
    uint64_t
        identity; /* stream << 32 | block: for impairments and ERRs, the driver does not know it */
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
    bool at_destination;
    bool is_permission; /* the page is there, the access is not allowed (yet) */
    uint64_t block_first_page, block_end_page; /* end: first page behind the block */
    uint64_t transfer_first_page, transfer_end_page;
    const pw_time
        *bound_ns; /* no further block of its transfer arrives before; NULL: none ever does */
} pw_fault;

/* Who sends a block's ERR, and when. */
typedef struct {
    uint8_t by, after; /* PW_ERRS_BY_*, PW_ERRS_AFTER_* */
} pw_err_plan;

typedef struct pw_faulting_block {
    struct pw_faulting_block *next; /* hash chain, or free list */
    pw_fault fault;
    uint32_t num_entries;         /* in the FIFO, not read yet */
    uint32_t message_span;        /* the tasklet run that last sent a message about it */
    pw_err_plan err_plan;         /* of the entry that was resolved last */
    bool err_planned;             /* there was one */
    bool err_waits;               /* for the last of its entries in the FIFO */
    struct pw_wakeup *err_wakeup; /* of the library thread, in which the ERR is sent */
    uint32_t err_message;         /* the message of that wake-up which orders it */
    bool err_ordered;             /* it has its ERR, sent or not yet */
    bool err_pending;             /* ordered, and not sent yet */
    bool err_drawn;               /* whether an impairment takes it has been drawn */
    bool err_lost;                /* and one does */
} pw_faulting_block;

/* Zero is an empty one. */
typedef struct {
    pw_faulting_block **buckets; /* of chains, the newest first */
    uint32_t num_buckets;        /* a power of two, or 0 before the first */
    uint32_t num_blocks;
    pw_pool pool;
} pw_faulting_blocks;

void pw_faulting_blocks_destroy(pw_faulting_blocks *table);
/* The block that an entry names, of which only the numbers are known: source node, PDID,
 * transaction, sequence. Ids are reused: of two with the same the older has the entries that are
 * read first. */
pw_faulting_block *pw_faulting_blocks_of_entry(const pw_faulting_blocks *table,
                                               const pw_fault *numbers);
/* The record of the fault's block and attempt; NULL: none. */
pw_faulting_block *pw_faulting_blocks_find(const pw_faulting_blocks *table, const pw_fault *fault);
/* The block's record, a new one when it has none; NULL when the host has no memory. */
pw_faulting_block *pw_faulting_blocks_note(pw_faulting_blocks *table, const pw_fault *fault);
/* Forget the block when none of its entries waits and no ERR is to be sent. */
void pw_faulting_blocks_release(pw_faulting_blocks *table, pw_faulting_block *block);

/* Netlink message from the fault driver's tasklet to the user-space library: hex digits, most
 * significant first, fields one behind the other [PSI 3.2]: source node 22 bits in 6
 * digits, transaction id 14 in 4, sequence number 14 in 4, page number, PDID 16 in 4, R/W 1 in 1.
 * The thesis gives the page 32 bits in 8 digits (27-bit page numbers of 39-bit addresses); hosts
 * with 48-bit addresses have 36-bit page numbers, so it has 9 digits here. Functions only. */

#define PW_NETLINK_DIGITS 28
#define PW_NETLINK_PAGE_BITS (PW_USER_BITS - PW_PAGE_SHIFT)
_Static_assert(PW_NETLINK_PAGE_BITS == 36, "9 digits hold a page number");

typedef struct {
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
    uint64_t page;
    bool is_write; /* as FSYNR0.WNR: 1 = fault at the destination */
} pw_netlink_fields;

typedef struct {
    char digits[PW_NETLINK_DIGITS]; /* no NUL */
} pw_netlink_message;

/* PW_OK, or PW_ERR_INVALID when a field is wider than the format. */
int pw_netlink_pack(const pw_netlink_fields *fields, pw_netlink_message *out);
/* PW_OK, or PW_ERR_MALFORMED when a digit is none or a field wider than its bits. */
int pw_netlink_unpack(const pw_netlink_message *message, pw_netlink_fields *out);

typedef struct {
    pw_time at_ns; /* the ERR leaves the node */
    uint64_t identity;
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
    bool is_lost; /* an impairment took it */
} pw_err_order;

/* A process that the thread works for: its NI's counters and trace, and what it has by itself. */
typedef struct {
    struct pw_library_thread *thread;
    pw_counters *counters;
    pw_trace *trace;
    pw_memory *memory;
    pw_presence *presence;
    pw_faulting_blocks *blocks;
} pw_library_user;

/* A message that was sent, and what the thread does for it. */
typedef struct {
    const pw_library_user *user;
    pw_cpu_instant sent;
    pw_faulting_block *block; /* of its ERR; NULL when it gets none, or has been sent */
    uint64_t page;
    pw_time touch_ns;           /* the touch takes; 0: none */
    pw_time touched_ns, err_ns; /* of one of the wake-up's num_handled */
    pw_time handled_ns;         /* the sender is done with it */
    uint64_t record;            /* number of the touch's record, whose time still moves */
    pw_time record_ns;
    uint32_t err_ordinal; /* of the wake-up's ERRs: 1 is the first */
    uint32_t next_unsent; /* message whose ERR is not sent */
    bool has_record;
    bool notes_presence; /* the page is present when it is touched */
    bool is_permission;
    bool is_lost;
} pw_library_message;

/* Where an ERR is sent. */
enum pw_err_sender {
    PW_SENDER_THREAD,  /* the library's, which a message wakes up */
    PW_SENDER_RUN_END, /* the tasklet, when it is done */
    PW_SENDER_IN_RUN,  /* the tasklet, between two page-ins */
    PW_NUM_SENDERS
};

#define PW_NO_MESSAGE UINT32_MAX

/* From a wake-up until the thread sleeps again; or the ERRs that the tasklet sends in a row. */
typedef struct pw_wakeup {
    struct pw_wakeup *next;
    enum pw_err_sender sender;
    uint32_t first_span, last_span;    /* tasklet runs that sent its messages */
    uint32_t oldest_span, newest_span; /* a fault that comes late belongs to an earlier run */
    pw_time since_ns;                  /* the fault that led to it */
    pw_time work_ns;
    bool is_noted;  /* the presence of all that was touched, at least once */
    bool was_noted; /* of some of it: those times may have moved */
    uint64_t noted_version;
    uint32_t first_unsent, last_unsent; /* PW_NO_MESSAGE: all ERRs are sent */
    pw_library_message *messages;
    uint32_t num_messages, capacity;
    uint32_t num_handled; /* the first ones, whose times are known as things are */
    bool has_touches;
    uint32_t num_errs, num_errs_ordered; /* ERRs not sent yet, and all of them */
} pw_wakeup;

/* What bringing a page in takes more, by what was there before: the device is waited for, or the
 * page has a new frame. */
static inline pw_time pw_effect_ns(const pw_costs *costs, uint8_t effect)
{
    switch (effect) {
    case PW_EFFECT_SWAPPED: return costs->major_fault_ns;
    case PW_EFFECT_COPIED: return costs->tlb_invalidate_ns;
    default: return 0;
    }
}

typedef struct pw_library_thread {
    const pw_costs *costs;
    const pw_settings *settings;
    pw_cpu *cpu;
    pw_wakeup *first, *last, *free_wakeups;
    pw_wakeup *last_of[PW_NUM_SENDERS]; /* which may still be joined */
    uint64_t version;                   /* counts changes of the tasklet's runs */
    pw_time latest_bound_ns;            /* of all that were told */
    bool
        touches_are_stale; /* the runs have changed since the presence of touched pages was noted */
} pw_library_thread;

typedef struct {
    bool touched;
    uint8_t effect; /* PW_EFFECT_*: what the touch did to the page */
    int code;       /* why the page can never come, for all that it is mapped; else PW_OK */
} pw_touch;

void pw_library_thread_destroy(pw_library_thread *thread);
/* The tasklet has sent a message at that instant of its run, which began to be asked for at
 * since_ns. touch: the thread touches the page; *out tells how that ends. wants_err: with an ERR
 * for the block, when it has none yet and the touch went well. Negative: PW_ERR_NOMEM. */
int pw_library_thread_take(const pw_library_user *user, const pw_netlink_message *message,
                           pw_cpu_instant sent, pw_time since_ns, pw_faulting_block *block,
                           bool touch, bool wants_err, pw_touch *out);
/* The tasklet sends the ERR of a block that has none yet itself, which was asked for at since_ns:
 * in the run, at that instant, or at its end. PW_ERR_NOMEM, or PW_OK. */
int pw_library_thread_order(const pw_library_user *user, enum pw_err_sender sender,
                            pw_cpu_instant sent, pw_time since_ns, pw_faulting_block *block);
/* The user's trace begins anew: its records of touches are gone. */
void pw_library_thread_forget_records(const pw_library_user *user);
/* The tasklet's runs have changed. */
void pw_library_thread_update(pw_library_thread *thread);
/* An access at at_ns is about to ask which pages are present. */
void pw_library_thread_catch_up(pw_library_thread *thread, pw_time at_ns);
/* The block's ERR leaves then as things are now; PW_NEVER when it has none to send. */
pw_time pw_library_thread_err_ns(pw_library_thread *thread, const pw_faulting_block *block);
/* The user's next ERR that nothing can move any more, of those before known_ns, the latest bound
 * that has changed. False: none. */
bool pw_library_thread_next_err(const pw_library_user *user, pw_time known_ns, pw_err_order *out);
/* None of the user's ERRs leaves before, as things are now; PW_NEVER: it has none to send. */
pw_time pw_library_thread_next_err_ns(const pw_library_user *user);
/* An impairment takes the block's ERR. */
void pw_library_thread_lose_err(const pw_faulting_block *block);
/* No block of the transfer that the bound is of arrives any more: its ERRs are final. */
void pw_library_thread_release(pw_library_thread *thread, const pw_time *bound_ns);
/* One ERR of the transfer that is not sent, and a time before which none of them leaves. False:
 * none. */
bool pw_library_thread_earliest_err(pw_library_thread *thread, const pw_time *bound_ns,
                                    pw_err_order *out);
/* The earliest run on which something depends that is not settled; 0: none. Forgets wake-ups that
 * are over for a fault at since_ns; last_span: of the last run. */
uint32_t pw_library_thread_first_span(pw_library_thread *thread, pw_time since_ns,
                                      uint32_t last_span);

#endif
