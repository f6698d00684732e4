/* What the driver's files use of each other: driver.c (handler, FIFO, stall, get_user_pages),
 * tasklet.c (runs), policies.c. */
#ifndef PW_DRIVER_DRIVER_PARTS_H
#define PW_DRIVER_DRIVER_PARTS_H
#include "driver/driver.h"

/* driver.c */
/* Does an impairment hit this page of the block? */
bool pw_driver_is_impaired(pw_driver *driver, enum pw_impairment_id site, const pw_fault *fault,
                           uint64_t page, pw_time at_ns);
/* Add a record of the trace whose time is an instant of a run. */
void pw_driver_mark(pw_driver *driver, pw_cpu_instant instant, enum pw_trace_kind kind, uint64_t a,
                    uint64_t b);

/* tasklet.c */
/* The tasklet comes to a fault logged at logged_ns: the job's run, opened if it must be.
 * PW_ERR_NOMEM. */
int pw_tasklet_begin(pw_driver *driver, pw_tasklet_job *job);
/* CPU time of the tasklet at the end of the job's run. Returns when it is done. */
pw_cpu_instant pw_tasklet_work(pw_driver *driver, const pw_tasklet_job *job, pw_time work_ns);
/* The run has brought the page in. PW_ERR_NOMEM. */
int pw_tasklet_note_page(pw_tasklet_run *run, uint64_t page);
/* First page behind the range that is brought in when the host is not asked. */
uint64_t pw_tasklet_end_page(const pw_driver *driver, const pw_tasklet_job *job);

/* policies.c */
struct pw_page_in_policy {
    /* A page of the fault's transfer is absent: the first page behind those brought in for it. */
    uint64_t (*end_page)(const pw_fault *fault, uint64_t page);
};
/* NULL: PW_POLICY_HOST. */
const pw_page_in_policy *pw_page_in_policy_of(int64_t policy);

/* driver.c: page-in */
/* Touch-Ahead, get_user_pages on [page, end_page). Negative: no page-in can help. */
int pw_page_in(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, uint64_t end_page);
/* A page is in, as of that instant of the run; by a touch of the library's thread when by_touch. */
int pw_page_in_note(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, uint8_t effect,
                    pw_cpu_instant present, bool by_touch);
/* [*first_page, *end_page), cut to the mapped run around page. */
void pw_page_in_cut_to_mapped(pw_driver *driver, uint64_t page, uint64_t *first_page,
                              uint64_t *end_page);
#endif
