#include "transport/fabric/receives.h"
#include <stdlib.h>
#include <string.h>

#include "transport/fabric/av.h"
#include "transport/fabric/landing.h"
#include "transport/fabric/matching.h"
#include "transport/fabric/process.h"

/* What a call asks to be received. */
typedef struct {
    const struct iovec *iov;
    size_t num_parts;
    fi_addr_t from;
    uint64_t tag, ignore;
    void *context;
    uint64_t flags;
    bool is_tagged;
} incoming;

static int receive_from_any(pw_fi_process *process, pw_fi_operation *receive,
                            pw_fi_matching *matching)
{
    pw_fi_append(&matching->posted, receive);
    for (pw_fi_operation *arrived;
         receive->list && (arrived = pw_fi_find_arrived(matching, receive));) {
        if (!receive->is_multi) pw_fi_unlink(receive);
        const int code = pw_fi_take_arrived(process, receive, arrived);
        if (code < 0) return code;
        if (!receive->is_multi) break; /* it is on its way, and not ours any more */
    }
    return PW_OK;
}

/* ---- looking at messages that came early */

static void describe_arrived(pw_fi_operation *look, const pw_fi_operation *arrived)
{
    const pw_fi_header header = pw_fi_header_of(arrived);
    look->node = arrived->node;
    look->peer_endpoint = arrived->peer_endpoint;
    look->tag = header.tag;
    look->data = header.data;
    look->has_data = (header.flags & PW_FI_HEADER_DATA) != 0;
    look->num_bytes = look->message_bytes = look->capacity_bytes = arrived->message_bytes;
}

/* The sender of a message that nobody wants must not wait for ever: read it into nothing. */
static int discard(pw_fi_process *process, pw_fi_operation *arrived)
{
    pw_fi_operation *sink = pw_fi_take(process);
    if (!sink) return PW_ERR_NOMEM;
    sink->kind = PW_FI_RECEIVE;
    sink->endpoint = arrived->endpoint;
    sink->posted_ns = process->clock->now_ns;
    return pw_fi_take_arrived(process, sink, arrived);
}

/* FI_PEEK: is a message here, at this virtual time? With FI_CLAIM it is kept for the receive with
 * the same context, with FI_DISCARD dropped. */
static int peek(pw_fi_process *process, pw_fi_operation *look, pw_fi_matching *matching,
                uint64_t flags)
{
    pw_fi_operation *arrived = pw_fi_find_arrived(matching, look);
    const bool is_future = arrived && arrived->arrival_ns > process->clock->now_ns;
    look->is_uncounted = true;
    look->complete_ns = process->clock->now_ns;
    if (!arrived || (is_future && !pw_fi_is_waiting())) {
        process->has_future |= is_future;
        look->error = FI_ENOMSG;
        return pw_fi_end(process, look);
    }
    look->complete_ns = pw_later(look->complete_ns, arrived->arrival_ns);
    describe_arrived(look, arrived);
    if (flags & FI_CLAIM) {
        pw_fi_unlink(arrived);
        arrived->context = look->context;
        pw_fi_append(&process->claimed, arrived);
    } else if (flags & FI_DISCARD) {
        const int code = discard(process, arrived);
        if (code < 0) return code;
    }
    return pw_fi_end(process, look);
}

/* FI_CLAIM: the receive, or the end, of a message that an earlier look has kept. */
static int take_claimed(pw_fi_process *process, pw_fi_operation *receive, uint64_t flags)
{
    pw_fi_operation *arrived = process->claimed.head;
    while (arrived &&
           (arrived->context != receive->context || arrived->endpoint != receive->endpoint))
        arrived = arrived->next;
    if (!arrived) {
        receive->error = FI_ENOMSG;
        receive->complete_ns = process->clock->now_ns;
        const int code = pw_fi_release_buffer(process, receive);
        return code < 0 ? code : pw_fi_end(process, receive);
    }
    if (!(flags & FI_DISCARD)) return pw_fi_take_arrived(process, receive, arrived);
    describe_arrived(receive, arrived);
    receive->is_uncounted = true;
    receive->complete_ns = process->clock->now_ns;
    int code = pw_fi_release_buffer(process, receive);
    if (code == PW_OK) code = discard(process, arrived);
    return code < 0 ? code : pw_fi_end(process, receive);
}

/* ---- posting */

static pw_fi_operation *new_receive(pw_fi_endpoint *endpoint, const incoming *wanted)
{
    pw_fi_operation *receive = pw_fi_take(endpoint->process);
    if (!receive) return NULL;
    receive->kind = PW_FI_RECEIVE;
    receive->endpoint = endpoint;
    receive->sink = &endpoint->receive;
    receive->wants_entry = pw_fi_wants_entry(&endpoint->receive, wanted->flags);
    receive->context = wanted->context;
    receive->flags = FI_RECV | (wanted->is_tagged ? FI_TAGGED : FI_MSG);
    receive->tag = wanted->tag;
    receive->ignore = wanted->ignore;
    receive->is_multi = (wanted->flags & FI_MULTI_RECV) != 0;
    receive->num_users = 1;
    receive->node = PW_FI_ANY;
    receive->posted_ns = endpoint->process->clock->now_ns;
    return receive;
}

/* Where the message shall land. */
static int give_buffer(pw_fi_operation *receive, const incoming *wanted)
{
    receive->capacity_bytes = pw_fi_total_bytes(wanted->iov, wanted->num_parts);
    if (wanted->num_parts == 1) receive->address = (uintptr_t)wanted->iov[0].iov_base;
    if (wanted->num_parts <= 1) return PW_OK;
    receive->memory = malloc(receive->capacity_bytes);
    if (!receive->memory) return PW_ERR_NOMEM;
    receive->address = (uintptr_t)receive->memory;
    receive->num_parts = (uint32_t)wanted->num_parts;
    memcpy(receive->iov, wanted->iov, wanted->num_parts * sizeof *wanted->iov);
    return PW_OK;
}

static int post(pw_fi_endpoint *endpoint, pw_fi_operation *receive, const incoming *wanted)
{
    pw_fi_process *process = endpoint->process;
    pw_fi_matching *matching = wanted->is_tagged ? &endpoint->tagged : &endpoint->plain;
    if (wanted->flags & FI_PEEK) return peek(process, receive, matching, wanted->flags);
    const int code = receive->is_multi ? PW_OK : pw_fi_acquire_buffer(process, receive);
    if (code < 0) return code;
    receive->posted_ns = process->clock->now_ns;
    if (wanted->flags & FI_CLAIM) return take_claimed(process, receive, wanted->flags);
    return receive_from_any(process, receive, matching);
}

static ssize_t receive_message(struct fid_ep *fid, const incoming *wanted)
{
    pw_fi_endpoint *endpoint = pw_fi_endpoint_of(fid);
    pw_fi_process *process = endpoint->process;
    if (!endpoint->is_enabled) return -FI_EOPBADSTATE;
    if (wanted->num_parts > PW_FI_IOV_MAX ||
        (wanted->flags & FI_MULTI_RECV && wanted->num_parts != 1))
        return -FI_EINVAL;
    if (wanted->num_parts > 1 &&
        pw_fi_total_bytes(wanted->iov, wanted->num_parts) > PW_FI_MESSAGE_MAX_BYTES)
        return -FI_EMSGSIZE;
    pw_fi_enter(process);
    pw_fi_operation *receive = process->has_failed ? NULL : new_receive(endpoint, wanted);
    int code = receive ? PW_OK : process->has_failed ? PW_ERR_HOST : PW_ERR_NOMEM;
    if (receive && !(wanted->flags & FI_PEEK)) code = give_buffer(receive, wanted);
    if (code == PW_OK && wanted->from != FI_ADDR_UNSPEC && endpoint->caps & FI_DIRECTED_RECV) {
        const pw_fi_peer *peer = pw_fi_av_at(endpoint->av, wanted->from);
        receive->node = peer ? peer->node : PW_FI_ANY;
        receive->peer_endpoint = peer ? peer->endpoint : 0;
        if (!peer) code = PW_ERR_INVALID;
    }
    if (code < 0) {
        if (receive) pw_fi_give(process, receive);
    } else if ((code = post(endpoint, receive, wanted)) < 0) {
        pw_fi_process_fail(process, "a receive cannot be posted: %s",
                           pw_node_reason(process->node));
    }
    pw_fi_leave(process);
    return code < 0 ? -pw_fi_error_of(code) : 0;
}

int pw_fi_cancel_receive(pw_fi_endpoint *endpoint, const void *context)
{
    pw_fi_process *process = endpoint->process;
    pw_fi_list *lists[] = {&endpoint->tagged.posted, &endpoint->plain.posted};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        pw_fi_operation *receive = lists[i]->head;
        while (receive && receive->context != context) receive = receive->next;
        if (!receive) continue;
        pw_fi_unlink(receive);
        receive->error = FI_ECANCELED;
        if (receive->is_multi) { /* told behind the messages that land in it */
            pw_fi_release(process, receive);
            return 0;
        }
        receive->complete_ns = process->clock->now_ns;
        int code = pw_fi_release_buffer(process, receive);
        if (code == PW_OK) code = pw_fi_end(process, receive);
        return code < 0 ? -pw_fi_error_of(code) : 0;
    }
    return -FI_ENOENT;
}

ssize_t pw_fi_recvv(struct fid_ep *fid, const struct iovec *iov, void **descriptors, size_t count,
                    fi_addr_t from, void *context)
{
    (void)descriptors;
    return receive_message(fid, &(incoming){.iov = iov,
                                            .num_parts = count,
                                            .from = from,
                                            .context = context,
                                            .flags = pw_fi_endpoint_of(fid)->receive_flags});
}

ssize_t pw_fi_recv(struct fid_ep *fid, void *buffer, size_t num_bytes, void *descriptor,
                   fi_addr_t from, void *context)
{
    const struct iovec iov = {buffer, num_bytes};
    return pw_fi_recvv(fid, &iov, &descriptor, 1, from, context);
}

ssize_t pw_fi_recvmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags)
{
    return receive_message(fid, &(incoming){.iov = message->msg_iov,
                                            .num_parts = message->iov_count,
                                            .from = message->addr,
                                            .context = message->context,
                                            .flags = flags});
}

ssize_t pw_fi_trecvv(struct fid_ep *fid, const struct iovec *iov, void **descriptors, size_t count,
                     fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
    (void)descriptors;
    return receive_message(
        fid, &(incoming){.iov = iov,
                         .num_parts = count,
                         .from = from,
                         .tag = tag,
                         .ignore = ignore,
                         .context = context,
                         .flags = pw_fi_endpoint_of(fid)->receive_flags & ~FI_MULTI_RECV,
                         .is_tagged = true});
}

ssize_t pw_fi_trecv(struct fid_ep *fid, void *buffer, size_t num_bytes, void *descriptor,
                    fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
    const struct iovec iov = {buffer, num_bytes};
    return pw_fi_trecvv(fid, &iov, &descriptor, 1, from, tag, ignore, context);
}

ssize_t pw_fi_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *message, uint64_t flags)
{
    return receive_message(fid, &(incoming){.iov = message->msg_iov,
                                            .num_parts = message->iov_count,
                                            .from = message->addr,
                                            .tag = message->tag,
                                            .ignore = message->ignore,
                                            .context = message->context,
                                            .flags = flags & ~FI_MULTI_RECV,
                                            .is_tagged = true});
}
