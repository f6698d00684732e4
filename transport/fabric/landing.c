#include "transport/fabric/landing.h"
#include <string.h>

#include "transport/fabric/process.h"

int pw_fi_release_buffer(pw_fi_process *process, pw_fi_operation *receive)
{
    if (!receive->has_lease) return PW_OK;
    receive->has_lease = false;
    return pw_node_release(process->node, &receive->lease);
}

int pw_fi_acquire_buffer(pw_fi_process *process, pw_fi_operation *receive)
{
    if (receive->capacity_bytes <= process->eager_limit_bytes) return PW_OK;
    const pw_span span = {receive->address, receive->capacity_bytes};
    const int code =
        pw_node_acquire(process->node, span, PW_ACCESS_WRITE | PW_ACCESS_MESSAGE, &receive->lease);
    receive->has_lease = code == PW_OK;
    return code;
}

/* Messages without a tag end in the order in which their sender sent them: MPICH takes its active
 * messages for ordered, and goes astray when a short one overtakes a long one. */
static int end_in_order(pw_fi_process *process, pw_fi_operation *receive)
{
    pw_fi_operation *each = receive->endpoint->in_order.head;
    int64_t *complete_ns = &receive->endpoint->in_order_ns[receive->node];
    receive->is_over = true;
    while (!pw_fi_is_of_same_source(each, receive)) each = each->next;
    if (each != receive) return PW_OK; /* its turn comes */
    const uint32_t node = receive->node;
    const uint16_t peer_endpoint = receive->peer_endpoint;
    for (pw_fi_operation *next; each; each = next) {
        next = each->next;
        if (each->node != node || each->peer_endpoint != peer_endpoint) continue;
        if (!each->is_over) break;
        pw_fi_unlink(each);
        each->complete_ns = *complete_ns = pw_later(*complete_ns, each->complete_ns);
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
    return receive->list ? end_in_order(process, receive) : pw_fi_end(process, receive);
}

/* The message in the frame lands in the receive's buffer, or is read from the sender's. */
int pw_fi_land(pw_fi_process *process, pw_fi_operation *receive, const pw_fi_header *header,
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
        const int code = pw_fi_release_buffer(process, receive);
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
        const int released = pw_fi_release_buffer(process, receive);
        return released < 0 ? released : pw_fi_end_receive(process, receive);
    }
    if (code < 0) return code;
    receive->has_lease = false; /* the handle's */
    receive->handle->owner = receive;
    return PW_OK;
}

/* A part of a multi-receive buffer for one message. */
int pw_fi_land_in_part(pw_fi_process *process, pw_fi_operation *buffer, const pw_fi_header *header,
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
    int code = pw_fi_acquire_buffer(process, part);
    if (code == PW_OK) code = pw_fi_land(process, part, header, frame);
    if (buffer->capacity_bytes == 0 ||
        buffer->capacity_bytes < buffer->endpoint->min_multi_receive_bytes) {
        pw_fi_unlink(buffer);
        pw_fi_release(process, buffer);
    }
    return code;
}

pw_fi_header pw_fi_header_of(const pw_fi_operation *arrived)
{
    pw_fi_header header;
    memcpy(&header, arrived->frame + arrived->frame_bytes - sizeof header, sizeof header);
    return header;
}

/* The message goes to the receive, out of the list that it was in. */
int pw_fi_take_arrived(pw_fi_process *process, pw_fi_operation *receive, pw_fi_operation *arrived)
{
    const pw_fi_header header = pw_fi_header_of(arrived);
    pw_fi_unlink(arrived);
    const int code = receive->is_multi
                         ? pw_fi_land_in_part(process, receive, &header, arrived->frame)
                         : pw_fi_land(process, receive, &header, arrived->frame);
    pw_fi_give(process, arrived);
    return code;
}
