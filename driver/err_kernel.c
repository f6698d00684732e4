/* driver.err_by = kernel: the tasklet sends the ERR itself, without message and wake-up [PSI 5.2
 * (1); PART, footnote 3]. After a page or a block this is work of its run, before the next page-in
 * (assumed: it costs what the library's thread takes for an ERR). */
#include "driver/err_parts.h"

static int pages_are_in(pw_driver *driver, const pw_tasklet_job *job)
{
    job->block->message_span = job->run->span;
    if (job->block->err_ordered) return PW_OK;
    const bool waits = job->err.after == PW_ERRS_AFTER_RUN;
    pw_cpu_instant sent = waits ? pw_cpu_end(&driver->core->cpu, job->run->span)
                                : pw_driver_work(driver, job, driver->costs->err_send_ns);
    return pw_library_thread_order(&driver->user, waits ? PW_SENDER_RUN_END : PW_SENDER_IN_RUN,
                                   sent, job->logged_ns, job->block);
}

const pw_err_ops pw_err_by_kernel = {.pages_are_in = pages_are_in};
