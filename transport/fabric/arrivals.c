#include "transport/fabric/provider.h"

#include <inttypes.h>
#include <string.h>

#include "native/status.h"

static bool is_sound(const pw_arrival *arrival)
{
    const pw_message_header *header = &arrival->header;
    return header->source < PW_FI_ENDPOINTS_MAX &&
           header->context < pw_fi_context(PW_FI_ENDPOINTS_MAX, false) &&
           (header->context & 1 || !header->tag) &&
           arrival->envelope.num_bytes <= PW_FI_MESSAGE_MAX_BYTES;
}

/* ---- matched messages */

/* A part of a multi-receive buffer for one message. */
static pw_fi_operation *new_part(pw_fi_process *process, pw_fi_operation *buffer,
                                 uint64_t message_bytes)
{
    pw_fi_operation *part = pw_fi_take(process, PW_OPERATION_RECEIVE);
    if (!part) return NULL;
    pw_operation *whole = &buffer->base;
    pw_operation_cut(whole, &part->base, message_bytes);
    part->endpoint = buffer->endpoint;
    part->sink = buffer->sink;
    part->wants_entry = buffer->wants_entry;
    part->context = buffer->context;
    part->flags = buffer->flags;
    part->parent = buffer;
    buffer->num_users++;
    if (whole->capacity_bytes == 0 ||
        whole->capacity_bytes < buffer->endpoint->min_multi_receive_bytes) {
        pw_operation_unlink(whole);
        pw_fi_release(process, buffer);
    }
    return part;
}

pw_operation *pw_fi_matched(void *context, pw_operation *base, uint64_t message_bytes)
{
    pw_fi_process *process = context;
    pw_fi_operation *receive = pw_fi_operation_of(base);
    if (base->is_multi) {
        receive = new_part(process, receive, message_bytes);
        if (!receive || pw_operation_acquire(&process->messages, &receive->base) < 0) return NULL;
    }
    if (receive->base.is_in_order)
        pw_operation_append(&receive->endpoint->in_order, &receive->base);
    return &receive->base;
}

/* Messages without a tag end in the order in which their sender sent them: MPICH takes its active
 * messages for ordered, and goes astray when a short one overtakes a long one. */
static int end_in_order(pw_fi_process *process, const pw_fi_operation *receive)
{
    const pw_operation over = receive->base; /* which is given back */
    pw_fi_endpoint *endpoint = receive->endpoint;
    int code = PW_OK;
    for (pw_operation *each; code >= 0 && (each = pw_operation_next_in_order(
                                               &endpoint->in_order, over.context, over.peer,
                                               over.source, &endpoint->in_order_ns[over.peer]));)
        code = pw_fi_end(process, pw_fi_operation_of(each));
    return code;
}

int pw_fi_over(void *context, pw_operation *base)
{
    pw_fi_process *process = context;
    pw_fi_operation *operation = pw_fi_operation_of(base);
    if (base->error) operation->error = pw_fi_error_of(base->error);
    if (base->kind == PW_OPERATION_READ || base->kind == PW_OPERATION_WRITE)
        return pw_fi_end_rma(process, operation);
    if (!base->error && pw_operation_is_truncated(base)) operation->error = FI_ETRUNC;
    if (base->kind == PW_OPERATION_RECEIVE && operation->num_parts > 1 && !base->error)
        pw_fi_scatter(operation->iov, operation->num_parts, base->memory, base->num_bytes);
    return base->list ? end_in_order(process, operation) : pw_fi_end(process, operation);
}

/* ---- other arrivals */

/* A write has arrived that brings data for the completion queue. */
static int take_data(pw_fi_endpoint *endpoint, const pw_arrival *arrival)
{
    pw_fi_process *process = endpoint->process;
    pw_fi_operation *operation =
        pw_fi_new(endpoint, PW_OPERATION_RECEIVE, &endpoint->receive, FI_COMPLETION, NULL);
    if (!operation) return PW_ERR_NOMEM;
    operation->flags = FI_RMA | FI_REMOTE_WRITE;
    operation->is_uncounted = true;
    operation->base.data = arrival->header.data;
    operation->base.has_data = true;
    operation->base.peer = arrival->envelope.source_node;
    operation->base.source = arrival->header.source;
    operation->base.complete_ns = arrival->envelope.arrival_ns;
    return pw_fi_end(process, operation);
}

static int dispatch(pw_fi_process *process, const pw_arrival *arrival)
{
    const uint8_t kind = arrival->envelope.kind;
    if (kind == PW_MESSAGE_ANSWER) return pw_fi_take_answer(process, arrival);
    if (!is_sound(arrival)) return PW_ERR_MALFORMED;
    if (kind == PW_MESSAGE_ATOMIC) return pw_fi_serve_atomic(process, arrival);
    pw_fi_endpoint *endpoint = process->endpoints[pw_fi_endpoint_number(arrival->header.context)];
    if (!endpoint) return PW_ERR_MALFORMED; /* it is closed, or never was */
    switch (kind) {
    case PW_MESSAGE_EAGER:
    case PW_MESSAGE_RENDEZVOUS: return pw_messages_match(&process->messages, arrival);
    case PW_FI_MESSAGE_DATA: return take_data(endpoint, arrival);
    default: return PW_ERR_MALFORMED;
    }
}

/* What makes no sense is counted and dropped: a peer must not be able to end this process. */
int pw_fi_message_arrived(void *context, uint32_t source, const uint8_t *frame,
                          uint32_t frame_bytes)
{
    pw_fi_process *process = context;
    pw_arrival arrival;
    if (pw_messages_read(&process->messages, source, frame, frame_bytes, &arrival) < 0)
        return PW_OK;
    const int code = dispatch(process, &arrival);
    if (code != PW_ERR_MALFORMED) return code;
    pw_ni_message_refuse(process->ni);
    return PW_OK;
}

/* MPI libraries end the run with words of their own that do not tell what happened. */
static void say_failure(const pw_fi_operation *operation, const pw_handle *handle)
{
    (void)pw_fi_refuse(FI_EIO,
                       "a transfer of %" PRIu64 " bytes with node %" PRIu32
                       ", own buffer at %#" PRIx64
                       ": %s; was a buffer unmapped while it was in use?",
                       operation->base.num_bytes, handle->peer, operation->base.address,
                       pw_status_text(handle->error));
}

int pw_fi_handle_finished(void *context, pw_handle *handle)
{
    pw_fi_process *process = context;
    pw_fi_operation *operation = handle->owner;
    if (handle->error < 0 && operation->sink) say_failure(operation, handle);
    return pw_messages_finish(&process->messages, handle);
}
