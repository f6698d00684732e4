#include "transport/fabric/provider.h"

#include "node/record/recorder.h"

int pw_fi_end_rma(pw_fi_process *process, pw_fi_operation *operation)
{
    int code = PW_OK;
    if (operation->base.kind == PW_OPERATION_READ && operation->num_parts > 1 && !operation->error)
        pw_fi_scatter(operation->iov, operation->num_parts, operation->base.memory,
                      operation->base.num_bytes);
    if (operation->has_remote_data && !operation->error) {
        pw_node_record_lost(process->node, "data that a write brings for the peer's queue");
        code = pw_fi_send_plain(process, operation->endpoint->number, operation->base.peer,
                                operation->base.source, PW_FI_MESSAGE_DATA, NULL, 0,
                                operation->base.complete_ns, operation->base.data);
    }
    const int ended = pw_fi_end(process, operation);
    return code < 0 ? code : ended;
}

/* One buffer for the NI: the user's own, unless there are several or it is to be used again at
 * once. */
static int give_buffer(pw_fi_operation *operation, const struct fi_msg_rma *wanted, uint64_t flags)
{
    const bool is_read = operation->base.kind == PW_OPERATION_READ;
    const bool is_copied = flags & FI_INJECT && !is_read;
    operation->base.num_bytes = pw_fi_total_bytes(wanted->msg_iov, wanted->iov_count);
    if (wanted->iov_count == 1) operation->base.address = (uintptr_t)wanted->msg_iov[0].iov_base;
    if ((wanted->iov_count <= 1 && !is_copied) || operation->base.num_bytes == 0) return PW_OK;
    const int code =
        pw_fi_own_buffer(operation, wanted->msg_iov, wanted->iov_count, operation->base.num_bytes);
    if (code == PW_OK && !is_read)
        pw_fi_gather(operation->base.memory, wanted->msg_iov, wanted->iov_count);
    return code;
}

static int post(pw_fi_endpoint *endpoint, const pw_fi_peer *peer, uint64_t kind,
                const struct fi_msg_rma *wanted, uint64_t flags)
{
    pw_fi_process *process = endpoint->process;
    pw_fi_operation *operation =
        kind == FI_READ
            ? pw_fi_new(endpoint, PW_OPERATION_READ, &endpoint->read, flags, wanted->context)
            : pw_fi_new(endpoint, PW_OPERATION_WRITE, &endpoint->write, flags, wanted->context);
    if (!operation) return PW_ERR_NOMEM;
    operation->flags = FI_RMA | kind;
    operation->base.peer = peer->node;
    operation->base.source = peer->endpoint;
    operation->base.remote_address = wanted->rma_iov[0].addr;
    operation->base.remote_key = wanted->rma_iov[0].key;
    operation->has_remote_data = (flags & FI_REMOTE_CQ_DATA) != 0;
    operation->base.data = wanted->data;
    const int code = give_buffer(operation, wanted, flags);
    if (code < 0) {
        pw_fi_give(process, operation);
        return code;
    }
    pw_fi_count_bytes(process, operation->base.num_bytes);
    if (operation->base.num_bytes)
        return pw_messages_transfer(&process->messages, &operation->base);
    operation->base.complete_ns = process->clock->now_ns;
    return pw_fi_end_rma(process, operation);
}

/* kind: FI_READ or FI_WRITE. */
static ssize_t move(struct fid_ep *fid, uint64_t kind, const struct fi_msg_rma *wanted,
                    uint64_t flags)
{
    pw_fi_endpoint *endpoint = pw_fi_endpoint_of(fid);
    pw_fi_process *process = endpoint->process;
    if (!endpoint->is_enabled) return -FI_EOPBADSTATE;
    const uint64_t num_bytes = pw_fi_total_bytes(wanted->msg_iov, wanted->iov_count);
    if (num_bytes > PW_FI_MESSAGE_MAX_BYTES) return -FI_EMSGSIZE;
    if (flags & FI_INJECT && kind == FI_WRITE && num_bytes > pw_fi_inject_bytes())
        return -FI_EMSGSIZE;
    if (wanted->iov_count > PW_FI_IOV_MAX || wanted->rma_iov_count != 1 ||
        wanted->rma_iov[0].len != num_bytes)
        return -FI_EINVAL;
    pw_fi_enter(process);
    const pw_fi_peer *peer = pw_fi_av_at(endpoint->av, wanted->addr);
    ssize_t result = process->has_failed ? -FI_EIO : -FI_EINVAL;
    if (peer && !process->has_failed) {
        const int code = post(endpoint, peer, kind, wanted, flags);
        result = code < 0 ? -pw_fi_error_of(code) : 0;
    }
    pw_fi_leave(process);
    return result;
}

/* ---- libfabric's calls */

static ssize_t move_vector(struct fid_ep *fid, uint64_t kind, const struct iovec *iov,
                           void **descriptors, size_t count, fi_addr_t peer, uint64_t address,
                           uint64_t key, void *context)
{
    const struct fi_rma_iov remote = {address, pw_fi_total_bytes(iov, count), key};
    const struct fi_msg_rma wanted = {iov, descriptors, count, peer, &remote, 1, context, 0};
    return move(fid, kind, &wanted, pw_fi_transmit_flags(fid));
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                         size_t count, fi_addr_t peer, uint64_t address, uint64_t key,
                         void *context)
{
    return move_vector(fid, FI_READ, iov, descriptors, count, peer, address, key, context);
}

static ssize_t rma_read(struct fid_ep *fid, void *buffer, size_t num_bytes, void *descriptor,
                        fi_addr_t peer, uint64_t address, uint64_t key, void *context)
{
    const struct iovec iov = {buffer, num_bytes};
    return rma_readv(fid, &iov, &descriptor, 1, peer, address, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    return move(fid, FI_READ, message, flags);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                          size_t count, fi_addr_t peer, uint64_t address, uint64_t key,
                          void *context)
{
    return move_vector(fid, FI_WRITE, iov, descriptors, count, peer, address, key, context);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buffer, size_t num_bytes, void *descriptor,
                         fi_addr_t peer, uint64_t address, uint64_t key, void *context)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    return rma_writev(fid, &iov, &descriptor, 1, peer, address, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    return move(fid, FI_WRITE, message, flags);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buffer, size_t num_bytes, fi_addr_t peer,
                          uint64_t address, uint64_t key)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    const struct fi_rma_iov remote = {address, num_bytes, key};
    const struct fi_msg_rma wanted = {&iov, NULL, 1, peer, &remote, 1, NULL, 0};
    return move(fid, FI_WRITE, &wanted, PW_FI_INJECT);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                             void *descriptor, uint64_t data, fi_addr_t peer, uint64_t address,
                             uint64_t key, void *context)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    const struct fi_rma_iov remote = {address, num_bytes, key};
    const struct fi_msg_rma wanted = {&iov, &descriptor, 1, peer, &remote, 1, context, data};
    return move(fid, FI_WRITE, &wanted, pw_fi_transmit_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                              uint64_t data, fi_addr_t peer, uint64_t address, uint64_t key)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    const struct fi_rma_iov remote = {address, num_bytes, key};
    const struct fi_msg_rma wanted = {&iov, NULL, 1, peer, &remote, 1, NULL, data};
    return move(fid, FI_WRITE, &wanted, PW_FI_INJECT | FI_REMOTE_CQ_DATA);
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
