/* How the application learns that operations are over: they wait on the timeline until the CPU may
 * know, then a completion queue has an entry, and a counter counts. A queue grows as it must, so
 * that nothing is lost. */
#include "transport/fabric/provider.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ENTRIES 256
#define FIRST_EVENTS 256

/* ---- entries of a queue */

static pw_fi_cq *cq_of(struct fid_cq *fid) { return (pw_fi_cq *)(void *)fid; }

static bool grow(pw_fi_cq *cq)
{
    uint64_t capacity = cq->capacity ? 2 * cq->capacity : FIRST_ENTRIES;
    pw_fi_entry *grown = malloc(capacity * sizeof *grown);
    if (!grown) return false;
    for (uint64_t i = cq->head; i < cq->tail; i++)
        grown[i & (capacity - 1)] = cq->entries[i & (cq->capacity - 1)];
    free(cq->entries);
    cq->entries = grown;
    cq->capacity = capacity;
    return true;
}

/* Without memory for it the run ends. */
static void add_entry(pw_fi_cq *cq, const struct fi_cq_err_entry *entry, fi_addr_t source)
{
    if (cq->tail - cq->head == cq->capacity && !grow(cq)) {
        pw_fi_process_fail(cq->domain->process, "no memory for %llu entries of a completion queue",
                           (unsigned long long)cq->capacity);
        return;
    }
    pw_fi_entry *added = &cq->entries[cq->tail++ & (cq->capacity - 1)];
    added->entry = *entry;
    added->source = source;
}

/* An entry of an operation that is over. */
static void add_operation(pw_fi_cq *cq, const pw_fi_operation *operation)
{
    const pw_fi_av *av = operation->endpoint->av;
    const bool is_receive = operation->base.kind == PW_OPERATION_RECEIVE;
    const fi_addr_t source = is_receive
                                 ? pw_fi_av_find(av, operation->base.peer, operation->base.source)
                                 : FI_ADDR_NOTAVAIL;
    void *const buffer = operation->num_parts > 1 ? operation->iov[0].iov_base
                                                  : (void *)(uintptr_t)operation->base.address;
    const bool is_longer = is_receive && operation->base.message_bytes > operation->base.num_bytes;
    add_entry(cq,
              &(struct fi_cq_err_entry){
                  .op_context = operation->context,
                  .flags = operation->flags | (operation->base.has_data ? FI_REMOTE_CQ_DATA : 0),
                  .len = operation->base.num_bytes,
                  .buf = is_receive ? buffer : NULL,
                  .data = operation->base.data,
                  .tag = operation->base.tag,
                  .olen = is_longer ? operation->base.message_bytes - operation->base.num_bytes : 0,
                  .err = operation->error,
                  .prov_errno = operation->error,
              },
              source);
}

/* ---- the timeline */

static pw_fi_operation *operation_of(const pw_event *event)
{
    return (pw_fi_operation *)(uintptr_t)event->subject;
}

/* complete_ns is set; the operation is in no list. PW_ERR_NOMEM. */
static int timeline_add(pw_fi_timeline *timeline, pw_fi_operation *operation)
{
    const pw_event over = {.time_ns = operation->base.complete_ns,
                           .subject = (uint64_t)(uintptr_t)operation};
    if (!timeline->over && pw_event_queue_create(FIRST_EVENTS, &timeline->over) < 0)
        return PW_ERR_NOMEM;
    return pw_event_queue_push(timeline->over, &over);
}

pw_fi_operation *pw_fi_timeline_first(const pw_fi_timeline *timeline)
{
    const pw_event *first = timeline->over ? pw_event_queue_first(timeline->over) : NULL;
    return first ? operation_of(first) : NULL;
}

pw_fi_operation *pw_fi_timeline_take(pw_fi_timeline *timeline)
{
    pw_event first;
    return pw_event_queue_pop(timeline->over, &first) ? operation_of(&first) : NULL;
}

typedef struct {
    const pw_fi_endpoint *endpoint;
    pw_operation_list *out;
} dropping;

static bool is_dropped(void *context, const pw_event *event)
{
    const dropping *all = context;
    pw_fi_operation *operation = operation_of(event);
    if (operation->endpoint != all->endpoint) return false;
    pw_operation_append(all->out, &operation->base);
    return true;
}

void pw_fi_timeline_drop(pw_fi_timeline *timeline, const pw_fi_endpoint *endpoint,
                         pw_operation_list *out)
{
    dropping all = {endpoint, out};
    if (timeline->over) pw_event_queue_remove(timeline->over, is_dropped, &all);
}

int pw_fi_end(pw_fi_process *process, pw_fi_operation *operation)
{
    if (operation->sink) return timeline_add(&process->timeline, operation);
    pw_fi_give(process, operation);
    return PW_OK;
}

void pw_fi_release(pw_fi_process *process, pw_fi_operation *buffer)
{
    if (--buffer->num_users) return;
    const pw_fi_sink *sink = buffer->sink;
    if (sink && sink->counter && buffer->error) sink->counter->errors++;
    if (sink && sink->cq)
        add_entry(sink->cq,
                  &(struct fi_cq_err_entry){.op_context = buffer->context,
                                            .flags = FI_MULTI_RECV,
                                            .err = buffer->error,
                                            .prov_errno = buffer->error},
                  FI_ADDR_NOTAVAIL);
    pw_fi_give(process, buffer);
}

/* The multi-receive buffer that it is a part of. */
static const pw_operation *whole_of(const pw_fi_operation *operation)
{
    return operation->parent ? &operation->parent->base : NULL;
}

static void tell(pw_fi_process *process, pw_fi_operation *operation)
{
    pw_messages_told(&process->messages, &operation->base, whole_of(operation));
    const pw_fi_sink *sink = operation->sink;
    if (sink->counter && !operation->is_uncounted) {
        if (operation->error) sink->counter->errors++;
        else sink->counter->value++;
    }
    if (sink->cq && (operation->error || operation->wants_entry))
        add_operation(sink->cq, operation);
    if (operation->parent) pw_fi_release(process, operation->parent);
    pw_fi_give(process, operation);
}

bool pw_fi_deliver(pw_fi_process *process, bool is_waiting)
{
    pw_fi_timeline *timeline = &process->timeline;
    pw_fi_operation *first = pw_fi_timeline_first(timeline);
    if (!first) return false;
    pw_clock *clock = process->clock;
    if (first->base.complete_ns > clock->now_ns && !is_waiting) return false;
    if (first->error != FI_ENOMSG)
        pw_messages_completed(&process->messages, &first->base, whole_of(first));
    while ((first = pw_fi_timeline_first(timeline)) && first->base.complete_ns <= clock->now_ns)
        tell(process, pw_fi_timeline_take(timeline));
    return true;
}

/* ---- completion queues */

/* To wait for with poll: nothing wakes a file, progress is manual. */
static bool wants_file(enum fi_wait_obj waiting)
{
    return waiting != FI_WAIT_NONE && waiting != FI_WAIT_UNSPEC && waiting != FI_WAIT_YIELD;
}

static size_t entry_bytes(enum fi_cq_format format)
{
    switch (format) {
    case FI_CQ_FORMAT_CONTEXT: return sizeof(struct fi_cq_entry);
    case FI_CQ_FORMAT_MSG: return sizeof(struct fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA: return sizeof(struct fi_cq_data_entry);
    default: return sizeof(struct fi_cq_tagged_entry);
    }
}

/* The formats are beginnings of the longest one. */
static size_t take(pw_fi_cq *cq, void *buffer, size_t count, fi_addr_t *sources)
{
    const size_t bytes = entry_bytes(cq->format);
    size_t taken = 0;
    for (; taken < count && cq->head < cq->tail; taken++, cq->head++) {
        const pw_fi_entry *each = &cq->entries[cq->head & (cq->capacity - 1)];
        if (each->entry.err) break;
        const struct fi_cq_tagged_entry entry = {each->entry.op_context, each->entry.flags,
                                                 each->entry.len,        each->entry.buf,
                                                 each->entry.data,       each->entry.tag};
        memcpy((char *)buffer + taken * bytes, &entry, bytes);
        if (sources) sources[taken] = each->source;
    }
    return taken;
}

/* Looks of a wait, before the MPI library hears that nothing is here: its own progress takes longer
 * than a look, and it gives the core away behind. */
#define LOOKS_OF_A_WAIT 64

/* Until something is here, or the core was given away. */
static int look_for_entries(pw_fi_cq *cq)
{
    pw_fi_process *process = cq->domain->process;
    const bool is_waiting = pw_fi_is_waiting();
    bool looks_on = true, moved;
    for (uint32_t i = 0; i < LOOKS_OF_A_WAIT && looks_on; i++) {
        const int error = pw_fi_turn(process, &moved);
        if (error) return error;
        if (pw_fi_deliver(process, is_waiting)) moved = true;
        if (cq->head != cq->tail) return 0;
        looks_on = is_waiting;
        if (moved) pw_node_busy(process->node);
        else looks_on &= pw_node_idle(process->node);
    }
    pw_fi_note_look(false);
    return -FI_EAGAIN;
}

/* What is there already is read without a turn: it cannot starve the NI, since it runs dry. */
static ssize_t read_entries(pw_fi_cq *cq, void *buffer, size_t count, fi_addr_t *sources)
{
    pw_fi_process *process = cq->domain->process;
    const int error = cq->head == cq->tail ? look_for_entries(cq) : 0;
    if (error) return error;
    const int first = cq->entries[cq->head & (cq->capacity - 1)].entry.err;
    if (first == FI_ENOMSG) pw_node_idle(process->node); /* of a program that polls by peeks */
    else pw_node_busy(process->node);
    if (cq->head == cq->tail) return -FI_EAGAIN; /* another thread was let in and took it */
    if (cq->entries[cq->head & (cq->capacity - 1)].entry.err) return -FI_EAVAIL;
    pw_fi_note_look(true);
    return (ssize_t)take(cq, buffer, count, sources);
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buffer, size_t count, fi_addr_t *sources)
{
    pw_fi_cq *cq = cq_of(fid);
    pw_fi_enter(cq->domain->process);
    const ssize_t result = read_entries(cq, buffer, count, sources);
    pw_fi_leave(cq->domain->process);
    return result;
}

static ssize_t cq_read(struct fid_cq *fid, void *buffer, size_t count)
{
    return cq_readfrom(fid, buffer, count, NULL);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
    pw_fi_cq *cq = cq_of(fid);
    ssize_t result = -FI_EAGAIN;
    pw_fi_enter(cq->domain->process);
    const pw_fi_entry *first =
        cq->head < cq->tail ? &cq->entries[cq->head & (cq->capacity - 1)] : NULL;
    if (first && first->entry.err) {
        /* What later versions of libfabric added to the entry stays as it is. */
        memcpy(out, &first->entry, offsetof(struct fi_cq_err_entry, err_data));
        out->err_data_size = 0;
        cq->head++;
        pw_fi_note_look(first->entry.err != FI_ENOMSG); /* a peek that found nothing is vain */
        result = 1;
    }
    pw_fi_leave(cq->domain->process);
    return result;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buffer, size_t count, fi_addr_t *sources,
                            const void *condition, int timeout_ms)
{
    /* the condition's threshold is a hint: returning earlier is allowed */
    pw_fi_cq *cq = cq_of(fid);
    const int64_t begun_ns = pw_clock_wall_ns(), limit_ns = (int64_t)timeout_ms * 1000000;
    for (;;) {
        const ssize_t result = cq_readfrom(fid, buffer, count, sources);
        if (result != -FI_EAGAIN) return result;
        if (__atomic_exchange_n(&cq->was_signalled, false, __ATOMIC_ACQ_REL)) return -FI_EAGAIN;
        if (timeout_ms >= 0 && pw_clock_wall_ns() - begun_ns >= limit_ns) return -FI_EAGAIN;
    }
}

static ssize_t cq_sread(struct fid_cq *fid, void *buffer, size_t count, const void *condition,
                        int timeout_ms)
{
    return cq_sreadfrom(fid, buffer, count, NULL, condition, timeout_ms);
}

static int cq_signal(struct fid_cq *fid)
{
    __atomic_store_n(&cq_of(fid)->was_signalled, true, __ATOMIC_RELEASE);
    return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int provider_errno, const void *error_data,
                               char *buffer, size_t num_bytes)
{
    const char *text = cq_of(fid)->domain->process->library->strerror(provider_errno);
    if (buffer && num_bytes) {
        strncpy(buffer, text, num_bytes - 1);
        buffer[num_bytes - 1] = '\0';
    }
    return text;
}

static int cq_close(struct fid *fid)
{
    pw_fi_cq *cq = (pw_fi_cq *)(void *)fid;
    if (cq->num_users) return -FI_EBUSY;
    cq->domain->num_users--;
    free(cq->entries);
    free(cq);
    return 0;
}

static struct fi_ops cq_fid_ops = PW_FI_ONLY_CLOSE(cq_close);
static struct fi_ops_cq cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

int pw_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out,
                  void *context)
{
    if (attr && wants_file(attr->wait_obj)) return -FI_ENOSYS;
    if (attr && attr->format > FI_CQ_FORMAT_TAGGED) return -FI_EINVAL;
    pw_fi_cq *cq = calloc(1, sizeof *cq);
    if (!cq) return -FI_ENOMEM;
    cq->domain = (pw_fi_domain *)(void *)domain;
    cq->domain->num_users++;
    cq->format = !attr || attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_TAGGED : attr->format;
    cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fid_ops};
    cq->fid.ops = &cq_ops;
    *out = &cq->fid;
    return 0;
}

/* ---- counters */

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

static struct fi_ops counter_fid_ops = PW_FI_ONLY_CLOSE(counter_close);
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
    if (attr && wants_file(attr->wait_obj)) return -FI_ENOSYS;
    if (attr && attr->events != FI_CNTR_EVENTS_COMP) return -FI_ENOSYS;
    pw_fi_counter *counter = calloc(1, sizeof *counter);
    if (!counter) return -FI_ENOMEM;
    counter->domain = (pw_fi_domain *)(void *)domain;
    counter->domain->num_users++;
    counter->fid.fid =
        (struct fid){.fclass = FI_CLASS_CNTR, .context = context, .ops = &counter_fid_ops};
    counter->fid.ops = &counter_ops;
    *out = &counter->fid;
    return 0;
}
