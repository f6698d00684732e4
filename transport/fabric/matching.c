#include "transport/fabric/matching.h"
#include <stdlib.h>
#include <string.h>

#include "transport/fabric/av.h"
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

static bool suits(const pw_fi_operation *receive, uint64_t tag, uint32_t node,
                  uint16_t peer_endpoint)
{
    return !((receive->tag ^ tag) & ~receive->ignore) &&
           (receive->node == PW_FI_ANY ||
            (receive->node == node && receive->peer_endpoint == peer_endpoint));
}

static bool is_of_same_source(const pw_fi_operation *a, const pw_fi_operation *b)
{
    return a->node == b->node && a->peer_endpoint == b->peer_endpoint;
}

/* Is it the first of its source that suits the receive? A message that was sent later may arrive
 * earlier in virtual time, where a gap on the link was too short for the one before it. */
static bool is_first_of_source(const pw_fi_matching *matching, const pw_fi_operation *receive,
                               const pw_fi_operation *arrived)
{
    for (const pw_fi_operation *each = matching->unexpected.head; each != arrived;
         each = each->next)
        if (is_of_same_source(each, arrived) &&
            suits(receive, each->tag, each->node, each->peer_endpoint))
            return false;
    return true;
}

/* The message that a receive takes, NULL: it is not here. */
static pw_fi_operation *find_arrived(const pw_fi_matching *matching, const pw_fi_operation *receive)
{
    pw_fi_operation *best = NULL;
    for (pw_fi_operation *each = matching->unexpected.head; each; each = each->next) {
        if (!suits(receive, each->tag, each->node, each->peer_endpoint)) continue;
        if (receive->node != PW_FI_ANY) return each;
        if (!best ||
            (each->arrival_ns < best->arrival_ns && is_first_of_source(matching, receive, each)))
            best = each;
    }
    return best;
}

static int release_lease(pw_fi_process *process, pw_fi_operation *receive)
{
    if (!receive->has_lease) return PW_OK;
    receive->has_lease = false;
    return pw_node_release(process->node, &receive->lease);
}

static int acquire_lease(pw_fi_process *process, pw_fi_operation *receive)
{
    if (receive->capacity_bytes <= process->eager_limit_bytes) return PW_OK;
    const pw_span span = {receive->address, receive->capacity_bytes};
    const int code = pw_node_acquire(process->node, span, PW_ACCESS_WRITE, &receive->lease);
    receive->has_lease = code == PW_OK;
    return code;
}

/* Messages without a tag end in the order in which their sender sent them: MPICH takes its active
 * messages for ordered, and goes astray when a short one overtakes a long one. */
static int end_in_order(pw_fi_process *process, pw_fi_operation *receive)
{
    pw_fi_operation *each = receive->endpoint->in_order.head;
    int64_t complete_ns = 0;
    receive->is_over = true;
    while (!is_of_same_source(each, receive)) each = each->next;
    if (each != receive) return PW_OK; /* its turn comes */
    const uint32_t node = receive->node;
    const uint16_t peer_endpoint = receive->peer_endpoint;
    for (pw_fi_operation *next; each; each = next) {
        next = each->next;
        if (each->node != node || each->peer_endpoint != peer_endpoint) continue;
        if (!each->is_over) break;
        pw_fi_unlink(each);
        each->complete_ns = complete_ns = pw_later(complete_ns, each->complete_ns);
        const int code = pw_fi_end(process, each);
        if (code < 0) return code;
    }
    return PW_OK;
}

int pw_fi_end_receive(pw_fi_process *process, pw_fi_operation *receive)
{
    if (receive->num_parts > 1 && !receive->error)
        pw_fi_scatter(receive->iov, receive->num_parts, receive->memory, receive->num_bytes);
    if (!receive->error && receive->message_bytes > receive->capacity_bytes)
        receive->error = FI_ETRUNC;
    if (!receive->error && receive->message_bytes > receive->capacity_bytes)
        receive->error = FI_ETRUNC;
    return receive->list ? end_in_order(process, receive) : pw_fi_end(process, receive);
}

/* The message in the frame lands in the receive's buffer, or is read from the sender's. */
static int land(pw_fi_process *process, pw_fi_operation *receive, const pw_fi_header *header,
                const uint8_t *frame)
{
    pw_envelope envelope;
    memcpy(&envelope, frame, sizeof envelope);
    receive->node = envelope.source_node;
    receive->peer_endpoint = header->source_endpoint;
    receive->tag = header->tag;
    receive->data = header->data;
    receive->has_data = (header->flags & PW_FI_HEADER_DATA) != 0;
    receive->message_bytes = envelope.num_bytes;
    if (receive->flags & FI_MSG) pw_fi_append(&receive->endpoint->in_order, receive);
    receive->num_bytes =
        envelope.num_bytes < receive->capacity_bytes ? envelope.num_bytes : receive->capacity_bytes;
    if (envelope.kind == PW_MESSAGE_EAGER) {
        receive->complete_ns = pw_ni_message_land(process->ni, frame, receive->address,
                                                  receive->capacity_bytes, receive->posted_ns);
        const int code = release_lease(process, receive);
        return code < 0 ? code : pw_fi_end_receive(process, receive);
    }
    const int64_t matched_ns = pw_later(receive->posted_ns, envelope.arrival_ns);
    const int code = pw_node_fetch(process->node, envelope.source_node, envelope.address,
                                   envelope.key, receive->address, receive->num_bytes, matched_ns,
                                   receive->has_lease ? &receive->lease : NULL, &receive->handle);
    if (code == PW_ERR_ADDRESS) { /* of the program's buffer */
        receive->error = pw_fi_error_of(code);
        receive->num_bytes = 0;
        receive->complete_ns = matched_ns;
        const int released = release_lease(process, receive);
        return released < 0 ? released : pw_fi_end_receive(process, receive);
    }
    if (code < 0) return code;
    receive->has_lease = false; /* the handle's */
    receive->handle->owner = receive;
    return PW_OK;
}

/* A part of a multi-receive buffer for one message. */
static int land_in_part(pw_fi_process *process, pw_fi_operation *buffer, const pw_fi_header *header,
                        const uint8_t *frame)
{
    pw_fi_operation *part = pw_fi_take(process);
    if (!part) return PW_ERR_NOMEM;
    pw_envelope envelope;
    memcpy(&envelope, frame, sizeof envelope);
    const uint64_t taken_bytes =
        envelope.num_bytes < buffer->capacity_bytes ? envelope.num_bytes : buffer->capacity_bytes;
    part->kind = PW_FI_RECEIVE;
    part->endpoint = buffer->endpoint;
    part->sink = buffer->sink;
    part->wants_entry = buffer->wants_entry;
    part->context = buffer->context;
    part->flags = buffer->flags;
    part->posted_ns = buffer->posted_ns;
    part->address = buffer->address;
    part->capacity_bytes = taken_bytes;
    part->parent = buffer;
    buffer->num_users++;
    buffer->address += taken_bytes;
    buffer->capacity_bytes -= taken_bytes;
    int code = acquire_lease(process, part);
    if (code == PW_OK) code = land(process, part, header, frame);
    if (buffer->capacity_bytes == 0 ||
        buffer->capacity_bytes < buffer->endpoint->min_multi_receive_bytes) {
        pw_fi_unlink(buffer);
        pw_fi_release(process, buffer);
    }
    return code;
}

static int keep(pw_fi_endpoint *endpoint, pw_fi_matching *matching, const pw_envelope *envelope,
                const pw_fi_header *header, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_fi_operation *arrived = pw_fi_take(endpoint->process);
    if (!arrived) return PW_ERR_NOMEM;
    uint8_t *copy = arrived->small;
    if (frame_bytes > sizeof arrived->small) copy = arrived->memory = malloc(frame_bytes);
    if (!copy) {
        pw_fi_give(endpoint->process, arrived);
        return PW_ERR_NOMEM;
    }
    memcpy(copy, frame, frame_bytes);
    arrived->kind = PW_FI_ARRIVED;
    arrived->frame = copy;
    arrived->frame_bytes = frame_bytes;
    arrived->endpoint = endpoint;
    arrived->node = envelope->source_node;
    arrived->peer_endpoint = header->source_endpoint;
    arrived->tag = header->tag;
    arrived->message_bytes = envelope->num_bytes;
    arrived->arrival_ns = envelope->arrival_ns;
    pw_fi_append(&matching->unexpected, arrived);
    return PW_OK;
}

int pw_fi_match_message(pw_fi_endpoint *endpoint, const pw_envelope *envelope,
                        const pw_fi_header *header, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_fi_matching *matching =
        header->flags & PW_FI_HEADER_TAGGED ? &endpoint->tagged : &endpoint->plain;
    pw_fi_operation *receive = matching->posted.head;
    while (receive && !suits(receive, header->tag, envelope->source_node, header->source_endpoint))
        receive = receive->next;
    if (!receive) return keep(endpoint, matching, envelope, header, frame, frame_bytes);
    if (receive->is_multi) return land_in_part(endpoint->process, receive, header, frame);
    pw_fi_unlink(receive);
    return land(endpoint->process, receive, header, frame);
}

static pw_fi_header header_of(const pw_fi_operation *arrived)
{
    pw_fi_header header;
    memcpy(&header, arrived->frame + arrived->frame_bytes - sizeof header, sizeof header);
    return header;
}

/* The message goes to the receive, out of the list that it was in. */
static int take_arrived(pw_fi_process *process, pw_fi_operation *receive, pw_fi_operation *arrived)
{
    const pw_fi_header header = header_of(arrived);
    pw_fi_unlink(arrived);
    const int code = receive->is_multi ? land_in_part(process, receive, &header, arrived->frame)
                                       : land(process, receive, &header, arrived->frame);
    pw_fi_give(process, arrived);
    return code;
}

static int receive_from_any(pw_fi_process *process, pw_fi_operation *receive,
                            pw_fi_matching *matching)
{
    pw_fi_append(&matching->posted, receive);
    for (pw_fi_operation *arrived; receive->list && (arrived = find_arrived(matching, receive));) {
        if (!receive->is_multi) pw_fi_unlink(receive);
        const int code = take_arrived(process, receive, arrived);
        if (code < 0) return code;
        if (!receive->is_multi) break; /* it is on its way, and not ours any more */
    }
    return PW_OK;
}

/* ---- looking at messages that came early */

static void describe_arrived(pw_fi_operation *look, const pw_fi_operation *arrived)
{
    const pw_fi_header header = header_of(arrived);
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
    return take_arrived(process, sink, arrived);
}

/* FI_PEEK: is a message here, at this virtual time? With FI_CLAIM it is kept for the receive with
 * the same context, with FI_DISCARD dropped. */
static int peek(pw_fi_process *process, pw_fi_operation *look, pw_fi_matching *matching,
                uint64_t flags)
{
    pw_fi_operation *arrived = find_arrived(matching, look);
    const bool is_future = arrived && arrived->arrival_ns > process->clock->now_ns;
    look->is_uncounted = true;
    look->complete_ns = process->clock->now_ns;
    if (!arrived || (is_future && !pw_fi_is_waiting(process))) {
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
        const int code = release_lease(process, receive);
        return code < 0 ? code : pw_fi_end(process, receive);
    }
    if (!(flags & FI_DISCARD)) return take_arrived(process, receive, arrived);
    describe_arrived(receive, arrived);
    receive->is_uncounted = true;
    receive->complete_ns = process->clock->now_ns;
    int code = release_lease(process, receive);
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
    const int code = receive->is_multi ? PW_OK : acquire_lease(process, receive);
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
        int code = release_lease(process, receive);
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
