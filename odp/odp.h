/* On-demand paging of InfiniBand NICs (ODP). A translation unit whose page table is the NIC's own:
 * the driver fills it when the NIC faults, and takes entries out when the OS takes pages away. A
 * fault is slow, since the NIC's firmware reports it and takes the answer. An access to send waits
 * for it. An access to receive cannot wait: the block is dropped, its source is told that the
 * receiver is not ready, and pauses (ni/destination.c, r5sched/go_back.c). Hits and walks of the
 * table take what the SMMU's take (assumed).
 *
 * Can: faults of one page or of a range, invalidation, prefetch. Cannot: answers foreseen, a limit
 * of the table, an invalidation's cost to the program that unmaps. One NI, one thread at a time.
 */
#ifndef PW_ODP_ODP_H
#define PW_ODP_ODP_H
#include "native/calendar.h"
#include "native/costs.h"
#include "native/counters.h"
#include "native/settings.h"
#include "odp/page_table.h"
#include "smmu/smmu.h"
#include "translation/unit.h"

#define PW_ODP_FAULT_PAGES_MAX 1024

typedef struct {
    pw_translation_unit base;
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_smmu *smmu; /* translation caches, and processes */
    pw_odp_table table;
    pw_calendar worker; /* firmware, or software: handles one fault after the other */
} pw_odp;

static inline pw_odp *pw_odp_of(pw_translation_unit *base) { return (pw_odp *)(void *)base; }
/* What the kernel allows of a page, by a walk of its state; PW_OK or why no access can be done. */
int pw_odp_allows(int state);

/* settings->translation says which of the two NICs it is: see np.h for the other. */
void pw_odp_init(pw_odp *odp, pw_smmu *smmu, const pw_costs *costs, const pw_settings *settings,
                 pw_counters *counters, pw_memory *memory);
void pw_odp_destroy(pw_odp *odp);
#endif
