#include "transport/fabric/counter.h"
#include <stdlib.h>

#include "transport/fabric/absent.h"
#include "transport/fabric/process.h"

static pw_fi_counter *counter_of(struct fid_cntr *fid) { return (pw_fi_counter *)(void *)fid; }

static void look(pw_fi_counter *counter, uint64_t *value, uint64_t *errors)
{
    pw_fi_process *process = counter->domain->process;
    bool moved = false;
    pw_fi_enter(process);
    if (!pw_fi_turn(process, &moved)) {
        const bool delivered = pw_fi_deliver(process, pw_fi_is_waiting());
        pw_fi_note_look(delivered);
        if (moved || delivered) pw_node_busy(process->node);
        else pw_node_idle(process->node);
    }
    *value = counter->value;
    *errors = counter->errors;
    pw_fi_leave(process);
}

static uint64_t counter_read(struct fid_cntr *fid)
{
    uint64_t value, errors;
    look(counter_of(fid), &value, &errors);
    return value;
}

static uint64_t counter_readerr(struct fid_cntr *fid)
{
    uint64_t value, errors;
    look(counter_of(fid), &value, &errors);
    return errors;
}

static int change(struct fid_cntr *fid, uint64_t by, uint64_t to, bool is_error, bool is_set)
{
    pw_fi_counter *counter = counter_of(fid);
    uint64_t *changed = is_error ? &counter->errors : &counter->value;
    pw_fi_enter(counter->domain->process);
    *changed = is_set ? to : *changed + by;
    pw_fi_leave(counter->domain->process);
    return 0;
}

static int counter_add(struct fid_cntr *fid, uint64_t value)
{
    return change(fid, value, 0, false, false);
}

static int counter_adderr(struct fid_cntr *fid, uint64_t value)
{
    return change(fid, value, 0, true, false);
}

static int counter_set(struct fid_cntr *fid, uint64_t value)
{
    return change(fid, 0, value, false, true);
}

static int counter_seterr(struct fid_cntr *fid, uint64_t value)
{
    return change(fid, 0, value, true, true);
}

static int counter_wait(struct fid_cntr *fid, uint64_t threshold, int timeout_ms)
{
    pw_fi_counter *counter = counter_of(fid);
    const int64_t begun_ns = pw_clock_wall_ns(), limit_ns = (int64_t)timeout_ms * 1000000;
    const uint64_t errors_before = counter->errors;
    for (;;) {
        uint64_t value, errors;
        look(counter, &value, &errors);
        if (value >= threshold) return 0;
        if (errors != errors_before) return -FI_EAVAIL;
        if (counter->domain->process->has_failed) return -FI_EIO;
        if (timeout_ms >= 0 && pw_clock_wall_ns() - begun_ns >= limit_ns) return -FI_ETIMEDOUT;
    }
}

static int counter_close(struct fid *fid)
{
    pw_fi_counter *counter = (pw_fi_counter *)(void *)fid;
    if (counter->num_users) return -FI_EBUSY;
    counter->domain->num_users--;
    free(counter);
    return 0;
}

static struct fi_ops fid_ops = PW_FI_ONLY_CLOSE(counter_close);
static struct fi_ops_cntr counter_ops = {
    .size = sizeof(struct fi_ops_cntr),
    .read = counter_read,
    .readerr = counter_readerr,
    .add = counter_add,
    .set = counter_set,
    .wait = counter_wait,
    .adderr = counter_adderr,
    .seterr = counter_seterr,
};

int pw_fi_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out,
                       void *context)
{
    const bool has_wait = attr && attr->wait_obj != FI_WAIT_NONE &&
                          attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_YIELD;
    if (has_wait) return -FI_ENOSYS; /* nothing wakes a file: progress is manual */
    if (attr && attr->events != FI_CNTR_EVENTS_COMP) return -FI_ENOSYS;
    pw_fi_counter *counter = calloc(1, sizeof *counter);
    if (!counter) return -FI_ENOMEM;
    counter->domain = (pw_fi_domain *)(void *)domain;
    counter->domain->num_users++;
    counter->fid.fid = (struct fid){.fclass = FI_CLASS_CNTR, .context = context, .ops = &fid_ops};
    counter->fid.ops = &counter_ops;
    *out = &counter->fid;
    return 0;
}
