#include "transport/fabric/cq.h"
#include <stdlib.h>
#include <string.h>

#include "transport/fabric/absent.h"
#include "transport/fabric/av.h"
#include "transport/fabric/process.h"

#define FIRST_CAPACITY 256

static pw_fi_cq *cq_of(struct fid_cq *fid) { return (pw_fi_cq *)(void *)fid; }

static bool grow(pw_fi_cq *cq)
{
    uint64_t capacity = cq->capacity ? 2 * cq->capacity : FIRST_CAPACITY;
    pw_fi_entry *grown = malloc(capacity * sizeof *grown);
    if (!grown) return false;
    for (uint64_t i = cq->head; i < cq->tail; i++)
        grown[i & (capacity - 1)] = cq->entries[i & (cq->capacity - 1)];
    free(cq->entries);
    cq->entries = grown;
    cq->capacity = capacity;
    return true;
}

void pw_fi_cq_add(pw_fi_cq *cq, const struct fi_cq_err_entry *entry, fi_addr_t source)
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

void pw_fi_cq_add_operation(pw_fi_cq *cq, const pw_fi_operation *operation)
{
    const pw_fi_av *av = operation->endpoint->av;
    const bool is_receive = operation->kind == PW_FI_RECEIVE;
    const fi_addr_t source = is_receive
                                 ? pw_fi_av_find(av, operation->node, operation->peer_endpoint)
                                 : FI_ADDR_NOTAVAIL;
    void *const buffer = operation->num_parts > 1 ? operation->iov[0].iov_base
                                                  : (void *)(uintptr_t)operation->address;
    const bool is_longer = is_receive && operation->message_bytes > operation->num_bytes;
    pw_fi_cq_add(cq,
                 &(struct fi_cq_err_entry){
                     .op_context = operation->context,
                     .flags = operation->flags | (operation->has_data ? FI_REMOTE_CQ_DATA : 0),
                     .len = operation->num_bytes,
                     .buf = is_receive ? buffer : NULL,
                     .data = operation->data,
                     .tag = operation->tag,
                     .olen = is_longer ? operation->message_bytes - operation->num_bytes : 0,
                     .err = operation->error,
                     .prov_errno = operation->error,
                 },
                 source);
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

/* What is there already is read without a turn: it cannot starve the NI, since it runs dry. */
static ssize_t read_entries(pw_fi_cq *cq, void *buffer, size_t count, fi_addr_t *sources)
{
    pw_fi_process *process = cq->domain->process;
    bool moved = false;
    if (cq->head == cq->tail) {
        const int error = pw_fi_turn(process, &moved);
        if (error) return error;
        if (pw_fi_deliver(process, pw_fi_is_waiting())) moved = true;
    }
    if (cq->head == cq->tail) {
        pw_fi_note_look(false);
        if (moved) pw_node_busy(process->node);
        else pw_node_idle(process->node);
        return -FI_EAGAIN;
    }
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
    (void)flags;
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
    (void)condition; /* a threshold is a hint: returning earlier is allowed */
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
    (void)error_data;
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

static struct fi_ops fid_ops = PW_FI_ONLY_CLOSE(cq_close);
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
    const bool has_wait = attr && attr->wait_obj != FI_WAIT_NONE &&
                          attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_YIELD;
    if (has_wait) return -FI_ENOSYS; /* nothing wakes a file: progress is manual */
    if (attr && attr->format > FI_CQ_FORMAT_TAGGED) return -FI_EINVAL;
    pw_fi_cq *cq = calloc(1, sizeof *cq);
    if (!cq) return -FI_ENOMEM;
    cq->domain = (pw_fi_domain *)(void *)domain;
    cq->domain->num_users++;
    cq->format = !attr || attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_TAGGED : attr->format;
    cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &fid_ops};
    cq->fid.ops = &cq_ops;
    *out = &cq->fid;
    return 0;
}
