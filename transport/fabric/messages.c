#include "transport/fabric/messages.h"
#include <stdlib.h>
#include <string.h>

#include "transport/fabric/av.h"
#include "transport/fabric/receives.h"
#include "transport/fabric/process.h"

uint64_t pw_fi_total_bytes(const struct iovec *iov, size_t num_parts)
{
    uint64_t total = 0;
    for (size_t i = 0; i < num_parts; i++) {
        if (iov[i].iov_len > UINT64_MAX - total) return UINT64_MAX;
        total += iov[i].iov_len;
    }
    return total;
}

void pw_fi_gather(void *buffer, const struct iovec *iov, size_t num_parts)
{
    char *at = buffer;
    for (size_t i = 0; i < num_parts; at += iov[i++].iov_len)
        if (iov[i].iov_len) memcpy(at, iov[i].iov_base, iov[i].iov_len);
}

void pw_fi_scatter(const struct iovec *iov, size_t num_parts, const void *buffer,
                   uint64_t num_bytes)
{
    const char *at = buffer;
    for (size_t i = 0; i < num_parts && num_bytes; i++) {
        const uint64_t part_bytes = iov[i].iov_len < num_bytes ? iov[i].iov_len : num_bytes;
        if (part_bytes) memcpy(iov[i].iov_base, at, part_bytes);
        at += part_bytes;
        num_bytes -= part_bytes;
    }
}

/* The frame stands but for its header: off it goes. */
static int post_frame(pw_fi_process *process, uint32_t node, uint8_t *frame, uint32_t num_bytes,
                      const pw_fi_header *header)
{
    memcpy(frame + num_bytes, header, sizeof *header);
    return pw_node_send_frame(process->node, node, frame, num_bytes + (uint32_t)sizeof *header);
}

int pw_fi_send_plain(pw_fi_process *process, uint16_t endpoint, uint32_t node,
                     uint16_t peer_endpoint, uint8_t kind, const void *payload,
                     uint32_t payload_bytes, int64_t at_ns, uint64_t data)
{
    uint8_t *frame = pw_node_take_frame(process->node);
    if (!frame) return PW_ERR_NOMEM;
    const pw_fi_header header = {
        .data = data, .source_endpoint = endpoint, .destination_endpoint = peer_endpoint};
    (void)pw_ni_message_write(process->ni, node, kind, (uintptr_t)payload, payload_bytes, 0,
                              payload_bytes, at_ns, frame);
    return post_frame(process, node, frame, PW_ENVELOPE_BYTES + payload_bytes, &header);
}

static pw_fi_header header_of(const pw_fi_endpoint *endpoint, const pw_fi_peer *peer,
                              const pw_fi_outgoing *outgoing)
{
    const bool has_data = (outgoing->flags & FI_REMOTE_CQ_DATA) != 0;
    return (pw_fi_header){
        .tag = outgoing->tag,
        .data = outgoing->data,
        .source_endpoint = endpoint->number,
        .destination_endpoint = peer->endpoint,
        .flags = (uint8_t)((outgoing->is_tagged ? PW_FI_HEADER_TAGGED : 0) |
                           (has_data ? PW_FI_HEADER_DATA : 0)),
    };
}

static pw_fi_operation *new_send(pw_fi_endpoint *endpoint, const pw_fi_peer *peer,
                                 const pw_fi_outgoing *outgoing)
{
    pw_fi_operation *operation = pw_fi_take(endpoint->process);
    if (!operation) return NULL;
    const pw_fi_sink *sink = &endpoint->send;
    operation->kind = PW_FI_SEND;
    operation->endpoint = endpoint;
    operation->sink = outgoing->is_silent && !sink->counter ? NULL : sink;
    operation->is_silent = outgoing->is_silent;
    operation->wants_entry = pw_fi_wants_entry(sink, outgoing->flags);
    operation->context = outgoing->context;
    operation->flags = FI_SEND | (outgoing->is_tagged ? FI_TAGGED : FI_MSG);
    operation->node = peer->node;
    operation->peer_endpoint = peer->endpoint;
    return operation;
}

/* The message as one piece: where it stands, or gathered to `room`. */
static const void *in_one_piece(const pw_fi_outgoing *outgoing, void *room)
{
    if (outgoing->num_parts == 0) return room;
    if (outgoing->num_parts == 1) return outgoing->iov[0].iov_base;
    pw_fi_gather(room, outgoing->iov, outgoing->num_parts);
    return room;
}

static int send_eager(pw_fi_endpoint *endpoint, const pw_fi_peer *peer,
                      const pw_fi_outgoing *outgoing, uint64_t num_bytes)
{
    pw_fi_process *process = endpoint->process;
    const pw_fi_header header = header_of(endpoint, peer, outgoing);
    const bool is_told =
        endpoint->send.counter ||
        (!outgoing->is_silent && pw_fi_wants_entry(&endpoint->send, outgoing->flags));
    pw_fi_operation *operation = is_told ? new_send(endpoint, peer, outgoing) : NULL;
    if (is_told && !operation) return PW_ERR_NOMEM;
    uint8_t *frame = pw_node_take_frame(process->node);
    if (!frame) {
        if (operation) pw_fi_give(process, operation);
        return PW_ERR_NOMEM;
    }
    const void *piece = in_one_piece(outgoing, process->scratch);
    const uint32_t frame_bytes = pw_node_write_message(process->node, peer->node, PW_MESSAGE_EAGER,
                                                       (uintptr_t)piece, num_bytes, 0, frame);
    const int code = post_frame(process, peer->node, frame, frame_bytes, &header);
    if (!operation) return code;
    if (code < 0) {
        pw_fi_give(process, operation);
        return code;
    }
    operation->num_bytes = num_bytes;
    operation->complete_ns = process->clock->now_ns;
    return pw_fi_end(process, operation);
}

/* The buffer that the peer shall read. */
static int expose(pw_fi_process *process, pw_fi_operation *operation,
                  const pw_fi_outgoing *outgoing)
{
    operation->address = (uintptr_t)outgoing->iov[0].iov_base;
    if (outgoing->num_parts != 1) {
        operation->memory = malloc(operation->num_bytes);
        if (!operation->memory) return PW_ERR_NOMEM;
        pw_fi_gather(operation->memory, outgoing->iov, outgoing->num_parts);
        operation->address = (uintptr_t)operation->memory;
    }
    return pw_node_expose(process->node, operation->node, operation->address, operation->num_bytes,
                          &operation->handle);
}

static int send_exposed(pw_fi_endpoint *endpoint, const pw_fi_peer *peer,
                        const pw_fi_outgoing *outgoing, uint64_t num_bytes)
{
    pw_fi_process *process = endpoint->process;
    const pw_fi_header header = header_of(endpoint, peer, outgoing);
    pw_fi_operation *operation = new_send(endpoint, peer, outgoing);
    if (!operation) return PW_ERR_NOMEM;
    operation->num_bytes = num_bytes;
    const int code = expose(process, operation, outgoing);
    if (code < 0) {
        pw_fi_give(process, operation);
        return code;
    }
    operation->handle->owner = operation; /* and ends it, whatever follows */
    uint8_t *frame = pw_node_take_frame(process->node);
    if (!frame) return PW_ERR_NOMEM;
    const uint32_t frame_bytes =
        pw_node_write_message(process->node, peer->node, PW_MESSAGE_RENDEZVOUS,
                              operation->handle->address, num_bytes, operation->handle->key, frame);
    return post_frame(process, peer->node, frame, frame_bytes, &header);
}

/* Errors of the machine end the run: a message would be lost without a word. */
static ssize_t result_of(pw_fi_process *process, int code)
{
    if (code >= 0) return 0;
    pw_fi_process_fail(process, "a message cannot be sent: %s", pw_node_reason(process->node));
    return -pw_fi_error_of(code);
}

static ssize_t send_message(struct fid_ep *fid, const pw_fi_outgoing *outgoing)
{
    pw_fi_endpoint *endpoint = pw_fi_endpoint_of(fid);
    pw_fi_process *process = endpoint->process;
    if (!endpoint->is_enabled) return -FI_EOPBADSTATE;
    if (outgoing->num_parts > PW_FI_IOV_MAX) return -FI_EINVAL;
    const uint64_t num_bytes = pw_fi_total_bytes(outgoing->iov, outgoing->num_parts);
    if (num_bytes > PW_FI_MESSAGE_MAX_BYTES) return -FI_EMSGSIZE;
    if (outgoing->flags & FI_INJECT && num_bytes > pw_fi_inject_bytes()) return -FI_EMSGSIZE;
    pw_fi_enter(process);
    const pw_fi_peer *peer = pw_fi_av_at(endpoint->av, outgoing->to);
    ssize_t result = -FI_EINVAL;
    if (process->has_failed) result = -FI_EIO;
    else if (peer) {
        pw_fi_count_bytes(process, num_bytes);
        result = result_of(process, num_bytes <= process->eager_limit_bytes
                                        ? send_eager(endpoint, peer, outgoing, num_bytes)
                                        : send_exposed(endpoint, peer, outgoing, num_bytes));
    }
    pw_fi_leave(process);
    return result;
}

static uint64_t flags_of(struct fid_ep *fid) { return pw_fi_endpoint_of(fid)->transmit_flags; }

/* ---- messages without tags */

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                         size_t count, fi_addr_t to, void *context)
{
    (void)descriptors;
    return send_message(
        fid,
        &(pw_fi_outgoing){
            .iov = iov, .num_parts = count, .to = to, .context = context, .flags = flags_of(fid)});
}

static ssize_t msg_send(struct fid_ep *fid, const void *buffer, size_t num_bytes, void *descriptor,
                        fi_addr_t to, void *context)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    return msg_sendv(fid, &iov, &descriptor, 1, to, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags)
{
    return send_message(fid, &(pw_fi_outgoing){.iov = message->msg_iov,
                                               .num_parts = message->iov_count,
                                               .to = message->addr,
                                               .data = message->data,
                                               .context = message->context,
                                               .flags = flags});
}

static ssize_t inject(struct fid_ep *fid, const void *buffer, size_t num_bytes, fi_addr_t to,
                      uint64_t data, uint64_t tag, uint64_t flags, bool is_tagged)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    return send_message(fid, &(pw_fi_outgoing){.iov = &iov,
                                               .num_parts = 1,
                                               .to = to,
                                               .tag = tag,
                                               .data = data,
                                               .flags = FI_INJECT | flags,
                                               .is_tagged = is_tagged,
                                               .is_silent = true});
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buffer, size_t num_bytes, fi_addr_t to)
{
    return inject(fid, buffer, num_bytes, to, 0, 0, 0, false);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                            void *descriptor, uint64_t data, fi_addr_t to, void *context)
{
    (void)descriptor;
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    return send_message(fid, &(pw_fi_outgoing){.iov = &iov,
                                               .num_parts = 1,
                                               .to = to,
                                               .data = data,
                                               .context = context,
                                               .flags = flags_of(fid) | FI_REMOTE_CQ_DATA});
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                              uint64_t data, fi_addr_t to)
{
    return inject(fid, buffer, num_bytes, to, data, 0, FI_REMOTE_CQ_DATA, false);
}

struct fi_ops_msg pw_fi_message_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = pw_fi_recv,
    .recvv = pw_fi_recvv,
    .recvmsg = pw_fi_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

/* ---- tagged messages */

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                            size_t count, fi_addr_t to, uint64_t tag, void *context)
{
    (void)descriptors;
    return send_message(fid, &(pw_fi_outgoing){.iov = iov,
                                               .num_parts = count,
                                               .to = to,
                                               .tag = tag,
                                               .context = context,
                                               .flags = flags_of(fid),
                                               .is_tagged = true});
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                           void *descriptor, fi_addr_t to, uint64_t tag, void *context)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    return tagged_sendv(fid, &iov, &descriptor, 1, to, tag, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *message,
                              uint64_t flags)
{
    return send_message(fid, &(pw_fi_outgoing){.iov = message->msg_iov,
                                               .num_parts = message->iov_count,
                                               .to = message->addr,
                                               .tag = message->tag,
                                               .data = message->data,
                                               .context = message->context,
                                               .flags = flags,
                                               .is_tagged = true});
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buffer, size_t num_bytes, fi_addr_t to,
                             uint64_t tag)
{
    return inject(fid, buffer, num_bytes, to, 0, tag, 0, true);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                               void *descriptor, uint64_t data, fi_addr_t to, uint64_t tag,
                               void *context)
{
    (void)descriptor;
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    return send_message(fid, &(pw_fi_outgoing){.iov = &iov,
                                               .num_parts = 1,
                                               .to = to,
                                               .tag = tag,
                                               .data = data,
                                               .context = context,
                                               .flags = flags_of(fid) | FI_REMOTE_CQ_DATA,
                                               .is_tagged = true});
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                                 uint64_t data, fi_addr_t to, uint64_t tag)
{
    return inject(fid, buffer, num_bytes, to, data, tag, FI_REMOTE_CQ_DATA, true);
}

struct fi_ops_tagged pw_fi_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = pw_fi_trecv,
    .recvv = pw_fi_trecvv,
    .recvmsg = pw_fi_trecvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};
