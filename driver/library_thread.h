/* Thread of the user-space library that gets the driver's Netlink messages: touches pages
 * (Touch-A-Page) and sends ERRs, one for each (source node, PDID, transaction, sequence number)
 * [PSI 3.2, PART 4.4].
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
#include "driver/faulting_blocks.h"
#include "driver/netlink.h"
#include "native/costs.h"
#include "native/counters.h"
#include "native/cpu.h"
#include "native/memory.h"
#include "native/settings.h"
#include "native/trace.h"
#include "smmu/presence.h"

typedef struct {
    pw_time at_ns; /* the ERR leaves the node */
    uint64_t identity;
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
    bool is_lost; /* an impairment took it */
} pw_err_order;

/* A message that was sent, and what the thread does for it. */
typedef struct {
    pw_cpu_instant sent;
    pw_faulting_block *block; /* of its ERR; NULL when it gets none, or has been sent */
    uint64_t page;
    pw_time touch_ns;           /* the touch takes; 0: none */
    pw_time touched_ns, err_ns; /* as things were at the wake-up's version */
    uint64_t record;            /* number of the touch's record, whose time still moves */
    pw_time record_ns;
    uint32_t err_ordinal; /* of the wake-up's ERRs: 1 is the first */
    bool has_record;
    bool notes_presence; /* the page is present when it is touched */
    bool is_permission;
    bool is_lost;
} pw_library_message;

/* From a wake-up until the thread sleeps again. */
typedef struct pw_wakeup {
    struct pw_wakeup *next;
    uint32_t first_span, last_span;    /* tasklet runs that sent its messages */
    uint32_t oldest_span, newest_span; /* a fault that comes late belongs to an earlier run */
    pw_time since_ns;                  /* the fault that led to it */
    pw_time work_ns;
    pw_time asleep_ns; /* as things were at that version */
    uint64_t version;
    bool is_noted;  /* the presence of all that was touched, at least once */
    bool was_noted; /* of some of it: those times may have moved */
    uint64_t noted_version;
    uint32_t first_unsent; /* messages before this one have no ERR to send */
    pw_library_message *messages;
    uint32_t num_messages, capacity;
    uint32_t num_errs, num_errs_ordered; /* ERRs not sent yet, and all of them */
} pw_wakeup;

typedef struct {
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_trace *trace;
    pw_memory *memory;
    pw_presence *presence;
    pw_faulting_blocks *blocks;
    pw_cpu *cpu;
    pw_wakeup *first, *last, *free_wakeups;
    uint64_t version; /* counts changes of the tasklet's runs */
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
int pw_library_thread_take(pw_library_thread *thread, const pw_netlink_message *message,
                           pw_cpu_instant sent, pw_time since_ns, pw_faulting_block *block,
                           bool touch, bool wants_err, pw_touch *out);
/* The trace begins anew: its records of touches are gone. */
void pw_library_thread_forget_records(pw_library_thread *thread);
/* The tasklet's runs have changed. */
void pw_library_thread_update(pw_library_thread *thread);
/* An access at at_ns is about to ask which pages are present. */
void pw_library_thread_catch_up(pw_library_thread *thread, pw_time at_ns);
/* The block's ERR leaves then as things are now; PW_NEVER when it has none to send. */
pw_time pw_library_thread_err_ns(pw_library_thread *thread, const pw_faulting_block *block);
/* The next ERR that nothing can move any more, of those before known_ns, the latest bound that has
 * changed. False: none. */
bool pw_library_thread_next_err(pw_library_thread *thread, pw_time known_ns, pw_err_order *out);
/* An impairment takes the block's ERR. */
void pw_library_thread_lose_err(const pw_faulting_block *block);
/* No block of the transfer that the bound is of arrives any more: its ERRs are final. */
void pw_library_thread_release(pw_library_thread *thread, const pw_time *bound_ns);
/* One ERR of the transfer that is not sent, and a time before which none of them leaves. False:
 * none. */
bool pw_library_thread_earliest_err(const pw_library_thread *thread, const pw_time *bound_ns,
                                    pw_err_order *out);
/* The earliest run on which something depends that is not settled; 0: none. Forgets wake-ups that
 * are over for a fault at since_ns; last_span: of the last run. */
uint32_t pw_library_thread_first_span(pw_library_thread *thread, pw_time since_ns,
                                      uint32_t last_span);
#endif
