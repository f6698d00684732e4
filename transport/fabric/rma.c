#include "transport/fabric/provider.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const struct iovec *iov;
    size_t num_parts;
    fi_addr_t peer;
    const struct fi_rma_iov *remote;
    size_t num_remote;
    uint64_t data;
    void *context;
    uint64_t flags;
    bool is_read, is_silent;
} transfer;

static pw_descriptor describe(const pw_fi_operation *operation)
{
    const bool is_read = operation->base.kind == PW_FI_READ;
    const uint64_t address = operation->base.lease.ni_address;
    return (pw_descriptor){
        .source_address = is_read ? operation->remote_address : address,
        .destination_address = is_read ? address : operation->remote_address,
        .transfer_bytes = (uint32_t)operation->base.num_bytes,
    };
}

/* PW_ERR_FULL: every write channel is taken. */
static int start(pw_fi_process *process, pw_fi_operation *operation)
{
    const pw_descriptor descriptor = describe(operation);
    const int64_t now_ns = process->clock->now_ns;
    uint64_t id;
    const int64_t posted_ns =
        operation->base.kind == PW_FI_READ
            ? pw_ni_read(process->ni, PW_FI_PDID, operation->base.peer, &descriptor,
                         operation->remote_key, now_ns, &id)
            : pw_ni_write_descriptor(process->ni, PW_FI_PDID, operation->base.peer, &descriptor,
                                     now_ns, &id);
    if (posted_ns < 0) return (int)posted_ns;
    process->clock->now_ns = posted_ns;
    const int code =
        pw_node_started(process->node, id, operation->base.peer, &operation->base.handle);
    if (code < 0) return code;
    operation->base.handle->owner = operation;
    operation->base.handle->num_bytes = operation->base.num_bytes;
    operation->base.handle->is_fetch = operation->base.kind == PW_FI_READ;
    operation->base.handle->has_lease = operation->base.has_lease;
    operation->base.handle->lease = operation->base.lease;
    operation->base.has_lease = false;
    return PW_OK;
}

/* What was refused before it began, such as an address that wraps, is the operation's own error. */
static int refuse(pw_fi_process *process, pw_fi_operation *operation, int code)
{
    (void)pw_operation_release(&process->messages, &operation->base);
    operation->error = pw_fi_error_of(code);
    operation->base.complete_ns = process->clock->now_ns;
    return pw_fi_end(process, operation);
}

int pw_fi_resume_writes(pw_fi_process *process)
{
    for (pw_fi_operation *first; (first = pw_fi_operation_of(process->waiting_writes.head));) {
        int code = start(process, first);
        if (code == PW_ERR_FULL) return PW_OK;
        pw_operation_unlink(&first->base);
        if (code < 0) code = refuse(process, first, code);
        if (code < 0) return code;
    }
    return PW_OK;
}

static int begin(pw_fi_process *process, pw_fi_operation *operation)
{
    if (operation->base.num_bytes == 0) {
        operation->base.complete_ns = process->clock->now_ns;
        return pw_fi_end_rma(process, operation);
    }
    const bool is_read = operation->base.kind == PW_FI_READ;
    const pw_span span = {operation->base.address, operation->base.num_bytes};
    int code = pw_node_acquire(process->node, span, is_read ? PW_ACCESS_WRITE : PW_ACCESS_READ,
                               &operation->base.lease);
    if (code < 0) return refuse(process, operation, code);
    operation->base.has_lease = true;
    const bool must_wait = !is_read && process->waiting_writes.head;
    code = must_wait ? PW_ERR_FULL : start(process, operation);
    if (code == PW_ERR_FULL && !is_read) {
        pw_operation_append(&process->waiting_writes, &operation->base);
        return PW_OK;
    }
    return code < 0 ? refuse(process, operation, code) : PW_OK;
}

int pw_fi_end_rma(pw_fi_process *process, pw_fi_operation *operation)
{
    int code = PW_OK;
    if (operation->base.kind == PW_FI_READ && operation->num_parts > 1 && !operation->error)
        pw_fi_scatter(operation->iov, operation->num_parts, operation->base.memory,
                      operation->base.num_bytes);
    if (operation->has_remote_data && !operation->error)
        code = pw_fi_send_plain(process, operation->endpoint->number, operation->base.peer,
                                operation->base.source, PW_FI_MESSAGE_DATA, NULL, 0,
                                operation->base.complete_ns, operation->base.data);
    const int ended = pw_fi_end(process, operation);
    return code < 0 ? code : ended;
}

/* One buffer for the NI: the user's own, unless there are several or it is to be used again at
 * once. */
static int give_buffer(pw_fi_operation *operation, const transfer *wanted)
{
    const bool is_copied = wanted->flags & FI_INJECT && !wanted->is_read;
    operation->base.num_bytes = pw_fi_total_bytes(wanted->iov, wanted->num_parts);
    if (wanted->num_parts == 1) operation->base.address = (uintptr_t)wanted->iov[0].iov_base;
    if ((wanted->num_parts <= 1 && !is_copied) || operation->base.num_bytes == 0) return PW_OK;
    operation->base.memory = malloc(operation->base.num_bytes);
    if (!operation->base.memory) return PW_ERR_NOMEM;
    operation->base.address = (uintptr_t)operation->base.memory;
    operation->num_parts = (uint32_t)wanted->num_parts;
    memcpy(operation->iov, wanted->iov, wanted->num_parts * sizeof *wanted->iov);
    if (!wanted->is_read) pw_fi_gather(operation->base.memory, wanted->iov, wanted->num_parts);
    return PW_OK;
}

static int post(pw_fi_endpoint *endpoint, const pw_fi_peer *peer, const transfer *wanted)
{
    pw_fi_process *process = endpoint->process;
    const pw_fi_sink *sink = wanted->is_read ? &endpoint->read : &endpoint->write;
    pw_fi_operation *operation = pw_fi_take(process, wanted->is_read ? PW_FI_READ : PW_FI_WRITE);
    if (!operation) return PW_ERR_NOMEM;
    operation->endpoint = endpoint;
    operation->sink = sink;
    operation->is_silent = wanted->is_silent;
    operation->wants_entry = pw_fi_wants_entry(sink, wanted->flags);
    operation->context = wanted->context;
    operation->flags = FI_RMA | (wanted->is_read ? FI_READ : FI_WRITE);
    operation->base.peer = peer->node;
    operation->base.source = peer->endpoint;
    operation->remote_address = wanted->remote[0].addr;
    operation->remote_key = wanted->remote[0].key;
    operation->has_remote_data = (wanted->flags & FI_REMOTE_CQ_DATA) != 0;
    operation->base.data = wanted->data;
    int code = give_buffer(operation, wanted);
    if (code < 0) {
        pw_fi_give(process, operation);
        return code;
    }
    pw_fi_count_bytes(process, operation->base.num_bytes);
    return begin(process, operation);
}

static ssize_t move(struct fid_ep *fid, const transfer *wanted)
{
    pw_fi_endpoint *endpoint = pw_fi_endpoint_of(fid);
    pw_fi_process *process = endpoint->process;
    if (!endpoint->is_enabled) return -FI_EOPBADSTATE;
    const uint64_t num_bytes = pw_fi_total_bytes(wanted->iov, wanted->num_parts);
    if (num_bytes > PW_FI_MESSAGE_MAX_BYTES) return -FI_EMSGSIZE;
    if (wanted->flags & FI_INJECT && !wanted->is_read && num_bytes > pw_fi_inject_bytes())
        return -FI_EMSGSIZE;
    if (wanted->num_parts > PW_FI_IOV_MAX || wanted->num_remote != 1 ||
        wanted->remote[0].len != num_bytes)
        return -FI_EINVAL;
    pw_fi_enter(process);
    const pw_fi_peer *peer = pw_fi_av_at(endpoint->av, wanted->peer);
    ssize_t result = process->has_failed ? -FI_EIO : -FI_EINVAL;
    if (peer && !process->has_failed) {
        const int code = post(endpoint, peer, wanted);
        result = code < 0 ? -pw_fi_error_of(code) : 0;
    }
    pw_fi_leave(process);
    return result;
}

static ssize_t move_one(struct fid_ep *fid, const void *buffer, size_t num_bytes, fi_addr_t peer,
                        uint64_t address, uint64_t key, transfer wanted)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    const struct fi_rma_iov remote = {address, num_bytes, key};
    wanted.iov = &iov;
    wanted.num_parts = wanted.num_remote = 1;
    wanted.peer = peer;
    wanted.remote = &remote;
    return move(fid, &wanted);
}

static ssize_t move_parts(struct fid_ep *fid, const struct iovec *iov, size_t count, fi_addr_t peer,
                          uint64_t address, uint64_t key, void *context, bool is_read)
{
    const struct fi_rma_iov remote = {address, pw_fi_total_bytes(iov, count), key};
    return move(fid, &(transfer){.iov = iov,
                                 .num_parts = count,
                                 .peer = peer,
                                 .remote = &remote,
                                 .num_remote = 1,
                                 .context = context,
                                 .flags = pw_fi_transmit_flags(fid),
                                 .is_read = is_read});
}

static ssize_t move_message(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags,
                            bool is_read)
{
    return move(fid, &(transfer){.iov = message->msg_iov,
                                 .num_parts = message->iov_count,
                                 .peer = message->addr,
                                 .remote = message->rma_iov,
                                 .num_remote = message->rma_iov_count,
                                 .data = message->data,
                                 .context = message->context,
                                 .flags = flags,
                                 .is_read = is_read});
}

static ssize_t rma_read(struct fid_ep *fid, void *buffer, size_t num_bytes, void *descriptor,
                        fi_addr_t peer, uint64_t address, uint64_t key, void *context)
{
    (void)descriptor;
    return move_one(
        fid, buffer, num_bytes, peer, address, key,
        (transfer){.context = context, .flags = pw_fi_transmit_flags(fid), .is_read = true});
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                         size_t count, fi_addr_t peer, uint64_t address, uint64_t key,
                         void *context)
{
    (void)descriptors;
    return move_parts(fid, iov, count, peer, address, key, context, true);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    return move_message(fid, message, flags, true);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buffer, size_t num_bytes, void *descriptor,
                         fi_addr_t peer, uint64_t address, uint64_t key, void *context)
{
    (void)descriptor;
    return move_one(fid, buffer, num_bytes, peer, address, key,
                    (transfer){.context = context, .flags = pw_fi_transmit_flags(fid)});
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                          size_t count, fi_addr_t peer, uint64_t address, uint64_t key,
                          void *context)
{
    (void)descriptors;
    return move_parts(fid, iov, count, peer, address, key, context, false);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    return move_message(fid, message, flags, false);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buffer, size_t num_bytes, fi_addr_t peer,
                          uint64_t address, uint64_t key)
{
    return move_one(fid, buffer, num_bytes, peer, address, key,
                    (transfer){.flags = FI_INJECT, .is_silent = true});
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                             void *descriptor, uint64_t data, fi_addr_t peer, uint64_t address,
                             uint64_t key, void *context)
{
    (void)descriptor;
    return move_one(fid, buffer, num_bytes, peer, address, key,
                    (transfer){.data = data,
                               .context = context,
                               .flags = pw_fi_transmit_flags(fid) | FI_REMOTE_CQ_DATA});
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                              uint64_t data, fi_addr_t peer, uint64_t address, uint64_t key)
{
    return move_one(
        fid, buffer, num_bytes, peer, address, key,
        (transfer){.data = data, .flags = FI_INJECT | FI_REMOTE_CQ_DATA, .is_silent = true});
}

struct fi_ops_rma pw_fi_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};
