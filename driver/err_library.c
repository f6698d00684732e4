/* driver.err_by = library: a Netlink message for each page or range that the tasklet has brought
 * in, and the thread that it wakes up sends the ERR [PART 4.4, PSI 3.2]. */
#include "driver/err_parts.h"

/* Behind a message of the same run the reader is awake; on another core it may sleep again. */
static pw_time message_ns(const pw_driver *driver, const pw_tasklet_job *job)
{
    const bool is_psi = driver->settings->driver_variant == PW_DRIVER_PSI;
    const bool waits_for_run = driver->settings->library_core == PW_LIBRARY_CORE_SAME;
    return is_psi && waits_for_run && job->run->has_sent ? driver->costs->netlink_queued_ns
                                                         : driver->costs->netlink_ns;
}

int pw_err_send_message(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, bool touch,
                        bool wants_err, pw_touch *out)
{
    const pw_fault *fault = &job->fault;
    pw_netlink_fields fields = {.source_node = fault->source_node,
                                .transaction_id = fault->transaction_id,
                                .sequence = fault->sequence,
                                .pdid = fault->pdid,
                                .page = page,
                                .is_write = fault->at_destination};
    pw_netlink_message message;
    int code = pw_netlink_pack(&fields, &message);
    if (code < 0) return code;
    pw_cpu_instant sent = pw_driver_work(driver, job, message_ns(driver, job));
    job->run->has_sent = true;
    driver->counters->netlink_messages++;
    pw_driver_mark(driver, sent, PW_TRACE_NETLINK_SENT, page, fault->transaction_id);
    if (job->block) job->block->message_span = job->run->span;
    return pw_library_thread_take(&driver->user, &message, sent, job->logged_ns, job->block, touch,
                                  wants_err && driver->settings->err_enabled, out);
}

static int pages_are_in(pw_driver *driver, const pw_tasklet_job *job)
{
    pw_touch none;
    return pw_err_send_message(driver, job, job->page, false, true, &none);
}

const pw_err_ops pw_err_by_library = {.pages_are_in = pages_are_in};
