/* The operating system's side of a page fault: handler, tasklet, page-in, library thread.
 *
 * Fault driver of one node: interrupt handler, tasklet with the built-in page-in policies, Netlink
 * message, and the user-space library's thread with its ERRs [PART 4.4, 5.2; PSI 3.2].
 *
 * The handler reads and clears the SMMU's fault registers and schedules the tasklet. The tasklet
 * reads the NI FIFO's entries one after the other, those too that arrive while it runs, and
 * resolves each; what an entry does not carry comes from the table of faulting blocks. A fault at
 * the source leaves nothing but FAR, of which the handler passes on the page. When the tasklet's
 * run is over the library's thread wakes up and sends the ERRs (library_thread.h).
 *
 * Whatever is known is worked off at once; the times of a run still move while faults of the same
 * transfer may arrive during it (native/cpu.h). ERRs come out (library_thread.h) when they are
 * final.
 *
 * Two variants (driver.variant): PART's resolves each unique page by itself. PSI's skips pages that
 * it has brought in for one of the last two transactions, and pays for looking, for being scheduled
 * again, and less for a message whose reader is awake. Who sends ERRs, and when, is
 * driver.err_by and driver.err_after (err_parts.h). Where the host is asked (pw_asks_host) the
 * tasklet stops before a page-in until pw_driver_decide says which pages; not in stall mode. Not
 * thread-safe.
 */
#ifndef PW_DRIVER_DRIVER_H
#define PW_DRIVER_DRIVER_H
#include "driver/library_thread.h"
#include "native/cpu.h"
#include "native/costs.h"
#include "native/counters.h"
#include "native/impairments.h"
#include "native/settings.h"
#include "native/memory.h"
#include "native/ni_fifo.h"
#include "native/tallies.h"
#include "native/trace.h"
#include "smmu/presence.h"
#include "smmu/smmu.h"

#define PW_RECENT_RANGES 16
#define PW_TELL_AT_ONCE 64

typedef struct {
    pw_presence *presence; /* of the process that it is for */
    uint64_t page;
} pw_run_page;

/* One run of the tasklet, from the handler's end until the FIFO is empty. */
typedef struct pw_tasklet_run {
    struct pw_tasklet_run *next;
    uint32_t span;
    uint32_t num_entries;    /* since it was scheduled last: limited */
    uint32_t num_interrupts; /* counted so far */
    bool has_sent;           /* a Netlink message: its reader wakes up */
    pw_run_page *pages;      /* that it brought in */
    uint32_t num_pages, capacity;
} pw_tasklet_run;

/* What the tasklet works on. */
typedef struct {
    pw_fault fault;
    pw_faulting_block *block; /* NULL: a fault at the source or a stalled access */
    pw_tasklet_run *run;
    uint64_t page;
    pw_err_plan err; /* of the block; the host may change it before it decides */
    pw_time logged_ns;
    pw_cpu_instant began;
} pw_tasklet_job;

/* Pages that were brought in: [first_page, end_page). */
typedef struct {
    uint64_t first_page, end_page;
} pw_page_range;

/* PSI: one of the last two transactions seen. */
typedef struct {
    uint32_t source_node;
    uint16_t pdid, transaction_id;
    const pw_memory *memory; /* that its pages are of, */
    uint64_t generation;     /* and of that when they were noted */
    uint32_t num_ranges;
    pw_page_range ranges[PW_RECENT_RANGES];
} pw_recent_transaction;

/* A record of the trace whose time can still move. */
typedef struct {
    pw_trace *trace;
    uint64_t record; /* its number */
    pw_time time_ns;
    pw_cpu_instant instant;
} pw_trace_mark;

typedef struct pw_driver pw_driver;

/* What a node has once, for the faults of all its NIs. */
typedef struct {
    pw_ni_fifo fifo;
    pw_cpu cpu;
    pw_library_thread thread;
    pw_time handled_ns; /* the latest handler's end */
    pw_tasklet_run *first_run, *last_run, *free_runs;
    pw_fifo_entry recent[2]; /* PART: the last two entries handled */
    pw_recent_transaction transactions[2];
    pw_trace_mark *marks;
    uint32_t num_marks, marks_capacity;
    pw_driver *drivers; /* of its NIs */
} pw_driver_core;

struct pw_driver {
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_trace *trace;
    pw_memory *memory;
    pw_smmu *smmu;
    pw_impairments *impairments;
    pw_driver_core own_core, *core; /* the latter of one driver of the node */
    pw_driver *next_of_core;
    pw_library_user user;
    pw_faulting_blocks blocks;
    pw_presence presence;
    pw_time_histogram *interrupt_times; /* when handlers began; NULL: none did */
    pw_tasklet_job job;                 /* under way, or the fault at the source that waits */
    bool job_waits;
    struct { /* what get_user_pages has just brought in: not asked for again in one run */
        pw_known_pages pages;
        uint32_t span;
        bool for_write; /* a page brought in for a read may still refuse a write */
    } brought;
};

/* What the tasklet found out. */
typedef struct {
    pw_time page_in_ns; /* a decision is wanted for a get_user_pages at this time */
    int code; /* PW_OK, or why a page can never come: PW_ERR_ADDRESS, _PROTECTION, _HOST, _NOMEM */
} pw_service;

/* settings are within the NI's limits (ni/limits.c). */
void pw_driver_init(pw_driver *driver, const pw_costs *costs, const pw_settings *settings,
                    pw_counters *counters, pw_trace *trace, pw_memory *memory, pw_smmu *smmu,
                    pw_impairments *impairments);
void pw_driver_destroy(pw_driver *driver);
/* Both NIs are of one node: FIFO, tasklet, core and library thread are those of `with`, which must
 * live as long as this driver works. Before the first fault. */
void pw_driver_share(pw_driver *driver, pw_driver *with);
/* Bring in pages that a transfer will write, asked for at at_ns; each is there from its time on.
 * What cannot come in is left to the transfer. PW_ERR_NOMEM, PW_ERR_HOST. */
int pw_driver_advise(pw_driver *driver, uint16_t pdid, uint64_t first_page, uint64_t num_pages,
                     pw_time at_ns);
/* One packet's access to the page was terminated at at_ns. PW_ERR_NOMEM, or PW_OK. */
int pw_driver_packet_fault(pw_driver *driver, pw_context_bank *bank, const pw_fault *fault,
                           uint64_t page, pw_time at_ns);
/* Stall: the access to the page waits since at_ns, with no other fault of the bank active. Handler,
 * tasklet and page-in; returns when RESUME is written: retry, or terminate with *code < 0 when the
 * page can never come. */
pw_time pw_driver_stall(pw_driver *driver, pw_context_bank *bank, const pw_fault *fault,
                        uint64_t page, pw_time at_ns, int *code);
/* Run the tasklet on everything logged since the last call. False when it stopped for a decision:
 * nothing may be reported to the driver until pw_driver_decide, with the same out, returns true. */
bool pw_driver_service(pw_driver *driver, pw_service *out);
/* First page behind the range, from its page on, that the engine's own policy brings in. */
uint64_t pw_driver_end_page(const pw_driver *driver, const pw_tasklet_job *job);
/* Page in [first_page, end_page) for the fault of driver->job, which holds its page, and go on; as
 * pw_driver_service. */
bool pw_driver_decide(pw_driver *driver, uint64_t first_page, uint64_t end_page, pw_service *out);
/* The ERR of the block leaves then as things are now; PW_NEVER when none is to come. */
pw_time pw_driver_err_ns(pw_driver *driver, const pw_fault *fault);
/* Is it still open whether an impairment takes the block's ERR? Once. */
bool pw_driver_draws_loss(pw_driver *driver, const pw_fault *fault);
/* An impairment takes it. */
void pw_driver_lose_err(pw_driver *driver, const pw_fault *fault);
/* The trace begins anew: its records are gone. */
void pw_driver_forget_records(pw_driver *driver);
/* Few ERRs wait: it pays to tell at once of those that have moved, and not only when asked. */
static inline bool pw_driver_is_brief(const pw_driver *driver)
{
    const pw_wakeup *last = driver->core->thread.last;
    return !last || last->num_messages <= PW_TELL_AT_ONCE;
}
#endif
