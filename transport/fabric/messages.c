/* Messages out: short ones ride in the packetizer's message, longer ones are exposed for the
 * receiver to read. And the calls that post receives, look at messages that came early, and take
 * receives back. */
#include "transport/fabric/provider.h"

#include <stdlib.h>
#include <string.h>

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

int pw_fi_own_buffer(pw_fi_operation *operation, const struct iovec *iov, size_t num_parts,
                     uint64_t num_bytes)
{
    operation->base.memory = malloc(num_bytes);
    if (!operation->base.memory) return PW_ERR_NOMEM;
    operation->base.address = (uintptr_t)operation->base.memory;
    operation->num_parts = (uint32_t)num_parts;
    memcpy(operation->iov, iov, num_parts * sizeof *iov);
    return PW_OK;
}

int pw_fi_send_plain(pw_fi_process *process, uint16_t endpoint, uint32_t node,
                     uint32_t peer_endpoint, uint8_t kind, const void *payload,
                     uint32_t payload_bytes, int64_t at_ns, uint64_t data)
{
    const pw_message_header header = {
        .context = pw_fi_context(peer_endpoint, false), .data = data, .source = endpoint};
    return pw_messages_send_plain(&process->messages, node, kind, (uintptr_t)payload, payload_bytes,
                                  at_ns, &header);
}

/* ---- sending */

/* What a call asks to be sent. */
typedef struct {
    pw_fi_endpoint *endpoint;
    const struct fi_msg_tagged *message;
    uint64_t kind, flags; /* FI_MSG or FI_TAGGED; FI_COMPLETION, FI_INJECT, FI_REMOTE_CQ_DATA */
    uint64_t num_bytes;
    uint32_t node;
    pw_message_header header;
} outgoing_call;

static pw_fi_operation *new_send(const outgoing_call *outgoing)
{
    pw_fi_endpoint *endpoint = outgoing->endpoint;
    pw_fi_operation *operation = pw_fi_new(endpoint, PW_OPERATION_SEND, &endpoint->send,
                                           outgoing->flags, outgoing->message->context);
    if (!operation) return NULL;
    operation->flags = FI_SEND | outgoing->kind;
    operation->base.peer = outgoing->node;
    operation->base.num_bytes = outgoing->num_bytes;
    return operation;
}

/* The message as one piece: where it stands, or gathered to `room`. */
static const void *in_one_piece(const struct fi_msg_tagged *message, void *room)
{
    if (message->iov_count == 0) return room;
    if (message->iov_count == 1) return message->msg_iov[0].iov_base;
    pw_fi_gather(room, message->msg_iov, message->iov_count);
    return room;
}

static int send_eager(const outgoing_call *outgoing)
{
    pw_fi_endpoint *endpoint = outgoing->endpoint;
    pw_fi_process *process = endpoint->process;
    const bool is_told =
        endpoint->send.counter || pw_fi_wants_entry(&endpoint->send, outgoing->flags);
    pw_fi_operation *operation = is_told ? new_send(outgoing) : NULL;
    if (is_told && !operation) return PW_ERR_NOMEM;
    const void *piece = in_one_piece(outgoing->message, process->scratch);
    const int code = pw_messages_send_eager(&process->messages, outgoing->node, (uintptr_t)piece,
                                            outgoing->num_bytes, &outgoing->header);
    if (!operation) return code;
    if (code < 0) {
        pw_fi_give(process, operation);
        return code;
    }
    operation->base.complete_ns = process->clock->now_ns;
    return pw_fi_end(process, operation);
}

static int send_exposed(const outgoing_call *outgoing)
{
    pw_fi_process *process = outgoing->endpoint->process;
    const struct fi_msg_tagged *message = outgoing->message;
    pw_fi_operation *operation = new_send(outgoing);
    if (!operation) return PW_ERR_NOMEM;
    if (message->iov_count > 1 && pw_fi_own_buffer(operation, message->msg_iov, message->iov_count,
                                                   outgoing->num_bytes) < 0) {
        pw_fi_give(process, operation);
        return PW_ERR_NOMEM;
    }
    operation->base.address = (uintptr_t)in_one_piece(message, operation->base.memory);
    return pw_messages_send_exposed(&process->messages, &operation->base, &outgoing->header);
}

/* Errors of the machine end the run: a message would be lost without a word. */
static ssize_t result_of(pw_fi_process *process, int code)
{
    if (code >= 0) return 0;
    pw_fi_process_fail(process, "a message cannot be sent: %s", pw_node_reason(process->node));
    return -pw_fi_error_of(code);
}

/* kind: FI_MSG, without a tag, or FI_TAGGED. */
static ssize_t send_message(struct fid_ep *fid, uint64_t kind, const struct fi_msg_tagged *message,
                            uint64_t flags)
{
    pw_fi_endpoint *endpoint = pw_fi_endpoint_of(fid);
    pw_fi_process *process = endpoint->process;
    if (!endpoint->is_enabled) return -FI_EOPBADSTATE;
    if (message->iov_count > PW_FI_IOV_MAX) return -FI_EINVAL;
    const uint64_t num_bytes = pw_fi_total_bytes(message->msg_iov, message->iov_count);
    if (num_bytes > PW_FI_MESSAGE_MAX_BYTES) return -FI_EMSGSIZE;
    if (flags & FI_INJECT && num_bytes > pw_fi_inject_bytes()) return -FI_EMSGSIZE;
    pw_fi_enter(process);
    const pw_fi_peer *peer = pw_fi_av_at(endpoint->av, message->addr);
    ssize_t result = -FI_EINVAL;
    if (process->has_failed) result = -FI_EIO;
    else if (peer) {
        const outgoing_call outgoing = {
            .endpoint = endpoint,
            .message = message,
            .kind = kind,
            .flags = flags,
            .num_bytes = num_bytes,
            .node = peer->node,
            .header = {.context = pw_fi_context(peer->endpoint, kind == FI_TAGGED),
                       .tag = message->tag,
                       .data = message->data,
                       .source = endpoint->number,
                       .has_data = (flags & FI_REMOTE_CQ_DATA) != 0}};
        pw_fi_count_bytes(process, num_bytes);
        result = result_of(process, num_bytes <= process->messages.eager_limit_bytes
                                        ? send_eager(&outgoing)
                                        : send_exposed(&outgoing));
    }
    pw_fi_leave(process);
    return result;
}

/* ---- looking at messages that came early */

static void describe_arrived(pw_fi_operation *look, const pw_operation *arrived)
{
    pw_operation *base = &look->base;
    base->peer = arrived->peer;
    base->source = arrived->source;
    base->tag = arrived->tag;
    base->data = arrived->data;
    base->has_data = arrived->has_data;
    base->num_bytes = base->message_bytes = base->capacity_bytes = arrived->message_bytes;
}

/* The sender of a message that nobody wants must not wait for ever: read it into nothing. */
static int discard(pw_fi_process *process, pw_operation *arrived)
{
    pw_operation *into = pw_operation_new(&process->messages, PW_OPERATION_RECEIVE);
    if (!into) return PW_ERR_NOMEM;
    into->posted_ns = process->clock->now_ns;
    return pw_messages_take(&process->messages, into, arrived);
}

/* FI_PEEK: is a message here, at this virtual time? With FI_CLAIM it is kept for the receive with
 * the same context, with FI_DISCARD dropped. */
static int peek(pw_fi_process *process, pw_fi_operation *look, uint64_t flags)
{
    pw_operation *arrived = pw_messages_find(&process->messages, &look->base);
    const bool is_future = arrived && arrived->arrival_ns > process->clock->now_ns;
    look->is_uncounted = true;
    look->base.complete_ns = process->clock->now_ns;
    if (!arrived || (is_future && !pw_fi_is_waiting())) {
        process->has_future |= is_future;
        look->error = FI_ENOMSG;
        return pw_fi_end(process, look);
    }
    look->base.complete_ns = pw_later(look->base.complete_ns, arrived->arrival_ns);
    describe_arrived(look, arrived);
    const bool is_taken = (flags & (FI_CLAIM | FI_DISCARD)) != 0;
    pw_messages_announce(&process->messages, arrived, true, is_taken);
    look->base.is_announced = 1;
    if (flags & FI_CLAIM) {
        pw_fi_operation_of(arrived)->context = look->context;
        pw_fi_operation_of(arrived)->endpoint = look->endpoint;
        pw_operation_append(&process->claimed, arrived);
    } else if (flags & FI_DISCARD) {
        const int code = discard(process, arrived);
        if (code < 0) return code;
    }
    return pw_fi_end(process, look);
}

/* The receive, which is not posted, is over without a message. */
static int end_without(pw_fi_process *process, pw_fi_operation *receive)
{
    receive->base.complete_ns = process->clock->now_ns;
    const int code = pw_operation_release(&process->messages, &receive->base);
    return code < 0 ? code : pw_fi_end(process, receive);
}

/* FI_CLAIM: the receive, or the end, of a message that an earlier look has kept. */
static int take_claimed(pw_fi_process *process, pw_fi_operation *receive, uint64_t flags)
{
    pw_operation *arrived = process->claimed.head;
    while (arrived && (pw_fi_operation_of(arrived)->context != receive->context ||
                       pw_fi_operation_of(arrived)->endpoint != receive->endpoint))
        arrived = arrived->next;
    if (!arrived) {
        receive->error = FI_ENOMSG;
        return end_without(process, receive);
    }
    if (!(flags & FI_DISCARD)) return pw_messages_take(&process->messages, &receive->base, arrived);
    describe_arrived(receive, arrived);
    receive->is_uncounted = true;
    const int code = discard(process, arrived);
    const int ended = end_without(process, receive);
    return code < 0 ? code : ended;
}

/* ---- posting */

static pw_fi_operation *new_receive(pw_fi_endpoint *endpoint, uint64_t kind,
                                    const struct fi_msg_tagged *wanted, uint64_t flags)
{
    pw_fi_operation *receive =
        pw_fi_new(endpoint, PW_OPERATION_RECEIVE, &endpoint->receive, flags, wanted->context);
    if (!receive) return NULL;
    receive->flags = FI_RECV | kind;
    receive->base.context = pw_fi_context(endpoint->number, kind == FI_TAGGED);
    receive->base.tag = wanted->tag;
    receive->base.ignore = wanted->ignore;
    receive->base.is_multi = (flags & FI_MULTI_RECV) != 0;
    receive->base.is_in_order = kind == FI_MSG;
    receive->num_users = 1;
    receive->base.peer = PW_ANY_NODE;
    receive->base.posted_ns = endpoint->process->clock->now_ns;
    return receive;
}

/* Where the message shall land. */
static int give_buffer(pw_fi_operation *receive, const struct fi_msg_tagged *wanted)
{
    receive->base.capacity_bytes = pw_fi_total_bytes(wanted->msg_iov, wanted->iov_count);
    if (wanted->iov_count == 1) receive->base.address = (uintptr_t)wanted->msg_iov[0].iov_base;
    if (wanted->iov_count <= 1) return PW_OK;
    return pw_fi_own_buffer(receive, wanted->msg_iov, wanted->iov_count,
                            receive->base.capacity_bytes);
}

static int post(pw_fi_process *process, pw_fi_operation *receive, uint64_t flags)
{
    if (flags & FI_PEEK) return peek(process, receive, flags);
    if (!receive->base.is_multi) {
        const int code = pw_operation_acquire(&process->messages, &receive->base);
        if (code < 0) return code;
    }
    if (!(flags & FI_CLAIM)) return pw_messages_post(&process->messages, &receive->base);
    receive->base.posted_ns = process->clock->now_ns;
    return take_claimed(process, receive, flags);
}

static ssize_t receive_message(struct fid_ep *fid, uint64_t kind,
                               const struct fi_msg_tagged *wanted, uint64_t asked_flags)
{
    pw_fi_endpoint *endpoint = pw_fi_endpoint_of(fid);
    pw_fi_process *process = endpoint->process;
    const size_t num_parts = wanted->iov_count;
    const uint64_t flags = kind == FI_TAGGED ? asked_flags & ~FI_MULTI_RECV : asked_flags;
    if (!endpoint->is_enabled) return -FI_EOPBADSTATE;
    if (num_parts > PW_FI_IOV_MAX || (flags & FI_MULTI_RECV && num_parts != 1)) return -FI_EINVAL;
    if (num_parts > 1 && pw_fi_total_bytes(wanted->msg_iov, num_parts) > PW_FI_MESSAGE_MAX_BYTES)
        return -FI_EMSGSIZE;
    pw_fi_enter(process);
    pw_fi_operation *receive =
        process->has_failed ? NULL : new_receive(endpoint, kind, wanted, flags);
    int code = receive ? PW_OK : process->has_failed ? PW_ERR_HOST : PW_ERR_NOMEM;
    if (receive && !(flags & FI_PEEK)) code = give_buffer(receive, wanted);
    if (code == PW_OK && wanted->addr != FI_ADDR_UNSPEC && endpoint->caps & FI_DIRECTED_RECV) {
        const pw_fi_peer *peer = pw_fi_av_at(endpoint->av, wanted->addr);
        receive->base.peer = peer ? peer->node : PW_ANY_NODE;
        receive->base.source = peer ? peer->endpoint : 0;
        if (!peer) code = PW_ERR_INVALID;
    }
    if (code < 0) {
        if (receive) pw_fi_give(process, receive);
    } else if ((code = post(process, receive, flags)) < 0) {
        pw_fi_process_fail(process, "a receive cannot be posted: %s",
                           pw_node_reason(process->node));
    }
    pw_fi_leave(process);
    return code < 0 ? -pw_fi_error_of(code) : 0;
}

int pw_fi_cancel_receive(pw_fi_endpoint *endpoint, const void *context)
{
    pw_fi_process *process = endpoint->process;
    for (pw_operation *each = process->messages.posted.head; each; each = each->next) {
        pw_fi_operation *receive = pw_fi_operation_of(each);
        if (receive->context != context || receive->endpoint != endpoint) continue;
        receive->error = FI_ECANCELED;
        if (!each->is_multi) {
            const int code = pw_messages_withdraw(&process->messages, each);
            return code < 0 ? -pw_fi_error_of(code) : 0;
        }
        pw_operation_unlink(each);
        pw_fi_release(process, receive); /* told behind the messages that land in it */
        return 0;
    }
    return -FI_ENOENT;
}

/* ---- libfabric's calls */

static struct fi_msg_tagged without_tag(const struct fi_msg *message)
{
    return (struct fi_msg_tagged){.msg_iov = message->msg_iov,
                                  .iov_count = message->iov_count,
                                  .addr = message->addr,
                                  .context = message->context,
                                  .data = message->data};
}

static ssize_t inject(struct fid_ep *fid, uint64_t kind, const void *buffer, size_t num_bytes,
                      fi_addr_t to, uint64_t tag, uint64_t data, uint64_t flags)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    const struct fi_msg_tagged message = {&iov, NULL, 1, to, tag, 0, NULL, data};
    return send_message(fid, kind, &message, PW_FI_INJECT | flags);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                         size_t count, fi_addr_t from, void *context)
{
    const struct fi_msg_tagged wanted = {iov, descriptors, count, from, 0, 0, context, 0};
    return receive_message(fid, FI_MSG, &wanted, pw_fi_endpoint_of(fid)->receive_flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buffer, size_t num_bytes, void *descriptor,
                        fi_addr_t from, void *context)
{
    const struct iovec iov = {buffer, num_bytes};
    return msg_recvv(fid, &iov, &descriptor, 1, from, context);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags)
{
    const struct fi_msg_tagged wanted = without_tag(message);
    return receive_message(fid, FI_MSG, &wanted, flags);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                         size_t count, fi_addr_t to, void *context)
{
    const struct fi_msg_tagged message = {iov, descriptors, count, to, 0, 0, context, 0};
    return send_message(fid, FI_MSG, &message, pw_fi_transmit_flags(fid));
}

static ssize_t msg_send(struct fid_ep *fid, const void *buffer, size_t num_bytes, void *descriptor,
                        fi_addr_t to, void *context)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    return msg_sendv(fid, &iov, &descriptor, 1, to, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags)
{
    const struct fi_msg_tagged outgoing = without_tag(message);
    return send_message(fid, FI_MSG, &outgoing, flags);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buffer, size_t num_bytes, fi_addr_t to)
{
    return inject(fid, FI_MSG, buffer, num_bytes, to, 0, 0, 0);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                            void *descriptor, uint64_t data, fi_addr_t to, void *context)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    const struct fi_msg_tagged message = {&iov, &descriptor, 1, to, 0, 0, context, data};
    return send_message(fid, FI_MSG, &message, pw_fi_transmit_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                              uint64_t data, fi_addr_t to)
{
    return inject(fid, FI_MSG, buffer, num_bytes, to, 0, data, FI_REMOTE_CQ_DATA);
}

struct fi_ops_msg pw_fi_message_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                            size_t count, fi_addr_t from, uint64_t tag, uint64_t ignore,
                            void *context)
{
    const struct fi_msg_tagged wanted = {iov, descriptors, count, from, tag, ignore, context, 0};
    return receive_message(fid, FI_TAGGED, &wanted, pw_fi_endpoint_of(fid)->receive_flags);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buffer, size_t num_bytes, void *descriptor,
                           fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
    const struct iovec iov = {buffer, num_bytes};
    return tagged_recvv(fid, &iov, &descriptor, 1, from, tag, ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *message,
                              uint64_t flags)
{
    return receive_message(fid, FI_TAGGED, message, flags);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **descriptors,
                            size_t count, fi_addr_t to, uint64_t tag, void *context)
{
    const struct fi_msg_tagged message = {iov, descriptors, count, to, tag, 0, context, 0};
    return send_message(fid, FI_TAGGED, &message, pw_fi_transmit_flags(fid));
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
    return send_message(fid, FI_TAGGED, message, flags);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buffer, size_t num_bytes, fi_addr_t to,
                             uint64_t tag)
{
    return inject(fid, FI_TAGGED, buffer, num_bytes, to, tag, 0, 0);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                               void *descriptor, uint64_t data, fi_addr_t to, uint64_t tag,
                               void *context)
{
    const struct iovec iov = {(void *)(uintptr_t)buffer, num_bytes};
    const struct fi_msg_tagged message = {&iov, &descriptor, 1, to, tag, 0, context, data};
    return send_message(fid, FI_TAGGED, &message, pw_fi_transmit_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buffer, size_t num_bytes,
                                 uint64_t data, fi_addr_t to, uint64_t tag)
{
    return inject(fid, FI_TAGGED, buffer, num_bytes, to, tag, data, FI_REMOTE_CQ_DATA);
}

struct fi_ops_tagged pw_fi_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = tagged_recv,
    .recvv = tagged_recvv,
    .recvmsg = tagged_recvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};
