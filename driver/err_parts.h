/* How a block's ERR comes about: a table of functions for each driver.err_by. Private to the room;
 * a new one is a file, a line in driver.c and a choice of the setting. */
#ifndef PW_DRIVER_ERR_PARTS_H
#define PW_DRIVER_ERR_PARTS_H
#include "driver/driver.h"

typedef struct {
    /* The pages are in that the ERR of the job's block waits for (job->err.after), at the end of
     * the job's run as it is now. Negative: PW_ERR_*. */
    int (*pages_are_in)(pw_driver *driver, const pw_tasklet_job *job);
} pw_err_ops;

extern const pw_err_ops pw_err_by_library, pw_err_by_kernel;

/* Pack and send one Netlink message about the page. touch: the library's thread touches it.
 * wants_err: it sends the block's ERR then. Negative: PW_ERR_*. */
int pw_err_send_message(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, bool touch,
                        bool wants_err, pw_touch *out);

/* CPU time of the tasklet at the end of the job's run. Returns when it is done. */
pw_cpu_instant pw_driver_work(pw_driver *driver, const pw_tasklet_job *job, pw_time work_ns);
/* Add a record of the trace whose time is an instant of a run. */
void pw_driver_mark(pw_driver *driver, pw_cpu_instant instant, enum pw_trace_kind kind, uint64_t a,
                    uint64_t b);
#endif
