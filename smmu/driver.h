/* Fault driver: interrupt handler, tasklet with the built-in page-in policies, Netlink message and the
 * user-space library's ERR [PART 4.4, 5.2; PSI 3.2]. Works block by block: the faulting packets of one
 * block are reported in time order, then pw_driver_service runs the tasklet on what they logged and
 * says which ERRs leave when. The tasklet is a serial server; handler invocations interrupt it.
 * An interrupt of a block that is physically later does not lengthen work already timed, and a fault from
 * before the latest stretch of work does not wait for that (the two may overlap). Two ways to page in:
 * Touch-Ahead (get_user_pages in the tasklet) and Touch-A-Page (a message a page, touched by the library's
 * thread, user_thread.h). With PW_POLICY_HOST the tasklet stops before each page-in until pw_driver_decide says
 * which pages; not in stall mode. Not thread-safe. */
#ifndef PW_SMMU_DRIVER_H
#define PW_SMMU_DRIVER_H
#include "native/calendar.h"
#include "native/fault_injection.h"
#include "native/memory.h"
#include "native/ni_fifo.h"
#include "native/time_histogram.h"
#include "native/trace.h"
#include "smmu/page_in.h"
#include "smmu/smmu.h"
#include "smmu/user_thread.h"

#define PW_HANDLERS_KEPT 64     /* a block can raise one interrupt a packet */

/* What the kernel and the library can know of the block that faulted. */
typedef struct {
    uint64_t identity;          /* stream << 32 | block: for injected faults, the driver does not know it */
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
    bool at_destination;
    bool is_permission;         /* the page is there, the access is not allowed (yet) */
    uint64_t block_first_page, block_end_page;          /* end: first page behind the block */
    uint64_t transfer_first_page, transfer_end_page;
} pw_fault;

typedef struct {
    pw_err_order errs[PW_BLOCK_PAGES + 1];
    uint32_t num_errs;
    int code;                   /* PW_OK, or why a page can never come: PW_ERR_ADDRESS, _PROTECTION, _HOST */
} pw_service;

typedef struct {
    pw_fault fault;
    uint64_t page;
    pw_time logged_ns;
    pw_time handler_end_ns;     /* of the handler that will find it */
} pw_pending_fault;

typedef struct {
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_trace *trace;
    pw_memory *memory;
    pw_smmu *smmu;
    pw_faults *faults;
    pw_ni_fifo fifo;
    pw_page_in page_in;
    struct { pw_time start_ns, end_ns; } handlers[PW_HANDLERS_KEPT];    /* ring, newest at next_handler - 1 */
    uint32_t next_handler;
    pw_time_histogram interrupt_times;  /* when handlers began */
    pw_calendar handler_cpu;
    pw_user_thread thread;
    pw_time last_handler_end_ns;
    pw_time tasklet_since_ns, tasklet_free_ns;  /* its latest stretch of work without a pause */
    uint32_t run_entries;
    pw_fifo_entry recent[2];    /* the last two entries handled */
    pw_pending_fault pending[PW_BLOCK_PACKETS];
    uint32_t num_pending, next_pending;
    pw_time entry_ns, page_in_ns;       /* the tasklet got to the entry under way; it begins to page in */
} pw_driver;

int pw_driver_init(pw_driver *driver, const pw_costs *costs, const pw_settings *settings, pw_counters *counters,
                   pw_trace *trace, pw_memory *memory, pw_smmu *smmu, pw_faults *faults);
void pw_driver_destroy(pw_driver *driver);
/* One packet's access to the page was terminated at at_ns. */
void pw_driver_packet_fault(pw_driver *driver, pw_context_bank *bank, const pw_fault *fault, uint64_t page, pw_time at_ns);
/* Stall: the access to the page waits since at_ns, with no other fault of the bank active. Handler, tasklet and
 * page-in; returns when RESUME is written: retry, or terminate with *code < 0 when the page can never come. */
pw_time pw_driver_stall(pw_driver *driver, pw_context_bank *bank, const pw_fault *fault, uint64_t page, pw_time at_ns, int *code);
/* Run the tasklet on everything logged since the last call. False when it stopped for a decision: nothing
 * may be reported to the driver until pw_driver_decide, with the same out, returns true. */
bool pw_driver_service(pw_driver *driver, pw_service *out);
/* The entry that waits for a decision. */
static inline const pw_pending_fault *pw_driver_undecided(const pw_driver *driver) { return &driver->pending[driver->next_pending]; }
/* Page in [first_page, end_page) for that entry, which holds its page, and go on; result as pw_driver_service. */
bool pw_driver_decide(pw_driver *driver, uint64_t first_page, uint64_t end_page, pw_service *out);
#endif
