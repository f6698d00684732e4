/* Endpoints: several of a process share its node, and are told apart by a number in each message.
 */
#include "transport/fabric/provider.h"

#include <stdlib.h>
#include <string.h>

/* ---- what becomes of an endpoint's operations when it closes: none is told, the program's buffers
 * are its own again, and what peers still want of them finds nobody. */

/* Out of its list; nor does it count any more for the buffer that it lands in. */
static void detach(pw_fi_process *process, pw_fi_operation *operation)
{
    pw_operation_unlink(&operation->base);
    operation->sink = NULL;
    if (!operation->parent) return;
    operation->parent->sink = NULL;
    pw_fi_release(process, operation->parent);
    operation->parent = NULL;
}

static void drop(pw_fi_process *process, pw_fi_operation *operation)
{
    (void)pw_operation_release(&process->messages, &operation->base);
    detach(process, operation);
    if (!operation->base.is_multi) pw_fi_give(process, operation);
    else pw_fi_release(process, operation); /* messages may land in it still */
}

static void drop_of(pw_fi_process *process, pw_operation_list *list, const pw_fi_endpoint *endpoint)
{
    for (pw_operation *next, *each = list->head; each; each = next) {
        next = each->next;
        pw_fi_operation *operation = pw_fi_operation_of(each);
        if (operation->endpoint == endpoint) drop(process, operation);
    }
}

/* Messages that came early for it. */
static void drop_unexpected(pw_fi_process *process, const pw_fi_endpoint *endpoint)
{
    for (pw_operation *next, *each = process->messages.unexpected.head; each; each = next) {
        next = each->next;
        if (pw_fi_endpoint_number(each->context) != endpoint->number) continue;
        pw_operation_unlink(each);
        pw_operation_free(&process->messages, each);
    }
}

static pw_fi_operation *owner_of(const pw_handle *handle, const pw_fi_endpoint *endpoint)
{
    pw_fi_operation *operation = handle->owner;
    return operation && operation->endpoint == endpoint ? operation : NULL;
}

/* Is nothing moving that the endpoint began itself? A send waits for the peer's receive. */
static bool is_still(const pw_fi_process *process, const pw_fi_endpoint *endpoint)
{
    for (const pw_handle *each = pw_node_under_way(process->node); each; each = each->next) {
        const pw_fi_operation *operation = owner_of(each, endpoint);
        if (operation && operation->base.kind != PW_OPERATION_SEND) return false;
    }
    return true;
}

/* Its end is told to nobody; until then the NI has its memory. */
static void orphan(pw_fi_process *process, pw_fi_operation *operation)
{
    detach(process, operation);
    operation->endpoint = NULL;
    operation->num_parts = 0;
    operation->has_remote_data = false;
}

/* Its queues and counters are there still. Lets others in meanwhile. */
static void abandon(pw_fi_process *process, pw_fi_endpoint *endpoint)
{
    pw_operation_list over = {0};
    drop_of(process, &process->messages.writes, endpoint);
    drop_of(process, &process->messages.posted, endpoint);
    pw_fi_turn_until(process, is_still, endpoint, UINT32_MAX);
    for (const pw_handle *each = pw_node_under_way(process->node); each; each = each->next) {
        pw_fi_operation *operation = owner_of(each, endpoint);
        if (operation) orphan(process, operation);
    }
    drop_of(process, &endpoint->in_order, endpoint); /* over, but for an earlier one */
    pw_fi_timeline_drop(&process->timeline, endpoint, &over);
    drop_of(process, &over, endpoint);
    drop_of(process, &process->messages.atomics, endpoint); /* their answers find nobody */
    drop_of(process, &process->claimed, endpoint);
    drop_unexpected(process, endpoint);
}

/* ---- the calls on an endpoint */

static void forget_sink(pw_fi_sink *sink)
{
    if (sink->cq) sink->cq->num_users--;
    if (sink->counter) sink->counter->num_users--;
    *sink = (pw_fi_sink){0};
}

static int endpoint_close(struct fid *fid)
{
    pw_fi_endpoint *endpoint = (pw_fi_endpoint *)(void *)fid;
    pw_fi_process *process = endpoint->process;
    pw_fi_enter(process);
    if (process->num_endpoints == 1) pw_fi_process_rest(process);
    abandon(process, endpoint);
    forget_sink(&endpoint->send);
    forget_sink(&endpoint->receive);
    forget_sink(&endpoint->read);
    forget_sink(&endpoint->write);
    if (endpoint->av) endpoint->av->num_users--;
    endpoint->domain->num_users--;
    process->endpoints[endpoint->number] = NULL;
    process->num_endpoints--;
    pw_fi_leave(process);
    free(endpoint->in_order_ns);
    free(endpoint);
    return 0;
}

static void bind_cq(pw_fi_sink *sink, pw_fi_cq *cq, bool is_selective)
{
    if (sink->cq) sink->cq->num_users--;
    sink->cq = cq;
    sink->is_selective = is_selective;
    cq->num_users++;
}

static void bind_counter(pw_fi_sink *sink, pw_fi_counter *counter)
{
    if (sink->counter) sink->counter->num_users--;
    sink->counter = counter;
    counter->num_users++;
}

static int endpoint_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    pw_fi_endpoint *endpoint = (pw_fi_endpoint *)(void *)fid;
    const bool is_selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
    switch (other->fclass) {
    case FI_CLASS_AV:
        if (endpoint->av) return -FI_EINVAL;
        endpoint->av = (pw_fi_av *)(void *)other;
        endpoint->av->num_users++;
        return 0;
    case FI_CLASS_CQ:
        if (!(flags & (FI_TRANSMIT | FI_RECV))) return -FI_EBADFLAGS;
        if (flags & FI_TRANSMIT) {
            bind_cq(&endpoint->send, (pw_fi_cq *)(void *)other, is_selective);
            bind_cq(&endpoint->read, (pw_fi_cq *)(void *)other, is_selective);
            bind_cq(&endpoint->write, (pw_fi_cq *)(void *)other, is_selective);
        }
        if (flags & FI_RECV) bind_cq(&endpoint->receive, (pw_fi_cq *)(void *)other, is_selective);
        return 0;
    case FI_CLASS_CNTR:
        if (flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) return -FI_ENOSYS;
        if (flags & FI_SEND) bind_counter(&endpoint->send, (pw_fi_counter *)(void *)other);
        if (flags & FI_RECV) bind_counter(&endpoint->receive, (pw_fi_counter *)(void *)other);
        if (flags & FI_READ) bind_counter(&endpoint->read, (pw_fi_counter *)(void *)other);
        if (flags & FI_WRITE) bind_counter(&endpoint->write, (pw_fi_counter *)(void *)other);
        return 0;
    case FI_CLASS_EQ: return 0; /* a connectionless endpoint has no events */
    default: return -FI_EINVAL;
    }
}

static int endpoint_control(struct fid *fid, int command, void *argument)
{
    pw_fi_endpoint *endpoint = (pw_fi_endpoint *)(void *)fid;
    uint64_t *flags = argument;
    switch (command) {
    case FI_ENABLE:
        if (!endpoint->av) return -FI_ENOAV;
        if (!endpoint->send.cq && !endpoint->send.counter) return -FI_ENOCQ;
        endpoint->is_enabled = true;
        return 0;
    case FI_GETOPSFLAG:
        *flags = *flags & FI_RECV ? endpoint->receive_flags : endpoint->transmit_flags;
        return 0;
    case FI_SETOPSFLAG:
        if (*flags & FI_RECV) endpoint->receive_flags = *flags & ~FI_RECV;
        else endpoint->transmit_flags = *flags & ~FI_TRANSMIT;
        return 0;
    default: return -FI_ENOSYS;
    }
}

static int get_option(struct fid *fid, int level, int name, void *value, size_t *num_bytes)
{
    const pw_fi_endpoint *endpoint = (pw_fi_endpoint *)(void *)fid;
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    if (*num_bytes < sizeof(size_t)) return -FI_ETOOSMALL;
    memcpy(value, &endpoint->min_multi_receive_bytes, sizeof(size_t));
    *num_bytes = sizeof(size_t);
    return 0;
}

static int set_option(struct fid *fid, int level, int name, const void *value, size_t num_bytes)
{
    pw_fi_endpoint *endpoint = (pw_fi_endpoint *)(void *)fid;
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    if (num_bytes < sizeof(size_t)) return -FI_EINVAL;
    memcpy(&endpoint->min_multi_receive_bytes, value, sizeof(size_t));
    return 0;
}

static ssize_t cancel(struct fid *fid, void *context)
{
    pw_fi_endpoint *endpoint = (pw_fi_endpoint *)(void *)fid;
    pw_fi_enter(endpoint->process);
    const int result = pw_fi_cancel_receive(endpoint, context);
    pw_fi_leave(endpoint->process);
    return result;
}

static int get_name(struct fid *fid, void *name, size_t *num_bytes)
{
    const pw_fi_endpoint *endpoint = (pw_fi_endpoint *)(void *)fid;
    pw_wire_name own;
    const size_t room_bytes = *num_bytes;
    pw_wire_name_make(pw_wire_fabric_address(endpoint->process->wire), endpoint->process->card,
                      endpoint->number, &own);
    *num_bytes = sizeof own;
    if (room_bytes) memcpy(name, &own, room_bytes < sizeof own ? room_bytes : sizeof own);
    return room_bytes < sizeof own ? -FI_ETOOSMALL : 0;
}

/* What endpoints of other kinds can do: connect, be shared. */

PW_FI_ABSENT(static int, no_set_name, struct fid *fid, void *name, size_t num_bytes)
PW_FI_ABSENT(static int, no_peer, struct fid_ep *fid, void *name, size_t *num_bytes)
PW_FI_ABSENT(static int, no_connect, struct fid_ep *fid, const void *name, const void *data,
             size_t num_bytes)
PW_FI_ABSENT(static int, no_accept, struct fid_ep *fid, const void *data, size_t num_bytes)
PW_FI_ABSENT(static int, no_shutdown, struct fid_ep *fid, uint64_t flags)
PW_FI_ABSENT(static int, no_transmit_context, struct fid_ep *fid, int idx, struct fi_tx_attr *attr,
             struct fid_ep **out, void *context)
PW_FI_ABSENT(static int, no_receive_context, struct fid_ep *fid, int idx, struct fi_rx_attr *attr,
             struct fid_ep **out, void *context)
PW_FI_ABSENT(static ssize_t, no_size_left, struct fid_ep *fid)

static struct fi_ops fid_ops = {.size = sizeof(struct fi_ops),
                                .close = endpoint_close,
                                .bind = endpoint_bind,
                                .control = endpoint_control,
                                .ops_open = pw_fi_no_ops};
static struct fi_ops_ep endpoint_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = cancel,
    .getopt = get_option,
    .setopt = set_option,
    .tx_ctx = no_transmit_context,
    .rx_ctx = no_receive_context,
    .rx_size_left = no_size_left,
    .tx_size_left = no_size_left,
};
static struct fi_ops_cm cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .getname = get_name,
    .setname = no_set_name,
    .getpeer = no_peer,
    .connect = no_connect,
    .accept = no_accept,
    .shutdown = no_shutdown,
};

/* The first free number, PW_FI_ENDPOINTS_MAX: none. */
static uint16_t free_number(const pw_fi_process *process)
{
    uint16_t number = 0;
    while (number < PW_FI_ENDPOINTS_MAX && process->endpoints[number]) number++;
    return number;
}

int pw_fi_endpoint_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out,
                        void *context)
{
    pw_fi_domain *domain = (pw_fi_domain *)(void *)fid;
    pw_fi_process *process = domain->process;
    if (info->ep_attr && info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC)
        return -FI_EINVAL;
    pw_fi_endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (endpoint)
        endpoint->in_order_ns = calloc(pw_node_count(process->node), sizeof *endpoint->in_order_ns);
    if (!endpoint || !endpoint->in_order_ns) {
        free(endpoint);
        return -FI_ENOMEM;
    }
    pw_fi_enter(process);
    endpoint->number = free_number(process);
    if (endpoint->number < PW_FI_ENDPOINTS_MAX) {
        process->endpoints[endpoint->number] = endpoint;
        process->num_endpoints++;
        domain->num_users++;
    }
    pw_fi_leave(process);
    if (endpoint->number == PW_FI_ENDPOINTS_MAX) {
        free(endpoint->in_order_ns);
        free(endpoint);
        return -FI_EMFILE;
    }
    endpoint->domain = domain;
    endpoint->process = process;
    endpoint->caps = info->caps;
    endpoint->transmit_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
    endpoint->receive_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
    endpoint->fid.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &fid_ops};
    endpoint->fid.ops = &endpoint_ops;
    endpoint->fid.cm = &cm_ops;
    endpoint->fid.msg = &pw_fi_message_ops;
    endpoint->fid.tagged = &pw_fi_tagged_ops;
    endpoint->fid.rma = &pw_fi_rma_ops;
    endpoint->fid.atomic = &pw_fi_atomic_ops;
    *out = &endpoint->fid;
    return 0;
}
