#include "transport/fabric/arrivals.h"
#include <inttypes.h>
#include <string.h>

#include "native/status.h"
#include "transport/fabric/atomics.h"
#include "transport/fabric/environment.h"
#include "transport/fabric/landing.h"
#include "transport/fabric/matching.h"
#include "transport/fabric/process.h"
#include "transport/fabric/rma.h"
#include "transport/node/sentence.h"

static bool is_whole(const pw_envelope *envelope, uint32_t source, uint32_t frame_bytes)
{
    const uint64_t wanted_bytes =
        (uint64_t)PW_ENVELOPE_BYTES + envelope->payload_bytes + sizeof(pw_fi_header);
    const bool rides_along = envelope->kind == PW_MESSAGE_EAGER;
    return envelope->source_node == source && frame_bytes == wanted_bytes &&
           (!rides_along || envelope->payload_bytes == envelope->num_bytes) &&
           (envelope->kind != PW_MESSAGE_RENDEZVOUS ||
            (envelope->payload_bytes == 0 && envelope->num_bytes <= PW_FI_MESSAGE_MAX_BYTES &&
             envelope->num_bytes <= UINT64_MAX - envelope->address));
}

static bool is_sound(const pw_fi_header *header)
{
    return header->source_endpoint < PW_FI_ENDPOINTS_MAX &&
           header->destination_endpoint < PW_FI_ENDPOINTS_MAX &&
           (header->flags & PW_FI_HEADER_TAGGED || !header->tag);
}

/* A write has arrived that brings data for the completion queue. */
static int take_data(pw_fi_endpoint *endpoint, const pw_envelope *envelope,
                     const pw_fi_header *header)
{
    pw_fi_process *process = endpoint->process;
    pw_fi_operation *operation = pw_fi_take(process);
    if (!operation) return PW_ERR_NOMEM;
    operation->kind = PW_FI_RECEIVE;
    operation->endpoint = endpoint;
    operation->sink = &endpoint->receive;
    operation->wants_entry = true;
    operation->flags = FI_RMA | FI_REMOTE_WRITE;
    operation->is_uncounted = true;
    operation->data = header->data;
    operation->has_data = true;
    operation->node = envelope->source_node;
    operation->peer_endpoint = header->source_endpoint;
    operation->complete_ns = envelope->arrival_ns;
    return pw_fi_end(process, operation);
}

static int dispatch(pw_fi_process *process, const pw_envelope *envelope, const uint8_t *frame,
                    uint32_t frame_bytes)
{
    pw_fi_header header;
    memcpy(&header, frame + frame_bytes - sizeof header, sizeof header);
    if (envelope->kind == PW_FI_MESSAGE_ANSWER) return pw_fi_take_answer(process, envelope, frame);
    if (!is_sound(&header)) return PW_ERR_MALFORMED;
    if (envelope->kind == PW_FI_MESSAGE_ATOMIC)
        return pw_fi_serve_atomic(process, envelope, &header, frame);
    pw_fi_endpoint *endpoint = process->endpoints[header.destination_endpoint];
    if (!endpoint) return PW_ERR_MALFORMED; /* it is closed, or never was */
    switch (envelope->kind) {
    case PW_MESSAGE_EAGER:
    case PW_MESSAGE_RENDEZVOUS:
        return pw_fi_match_message(endpoint, envelope, &header, frame, frame_bytes);
    case PW_FI_MESSAGE_DATA: return take_data(endpoint, envelope, &header);
    default: return PW_ERR_MALFORMED;
    }
}

/* What makes no sense is counted and dropped: a peer must not be able to end this process. */
int pw_fi_message_arrived(void *context, uint32_t source, const uint8_t *frame,
                          uint32_t frame_bytes)
{
    pw_fi_process *process = context;
    pw_envelope envelope;
    int code = pw_ni_message_check(process->ni, frame, frame_bytes);
    if (code < 0) return PW_OK;
    memcpy(&envelope, frame, sizeof envelope);
    code = is_whole(&envelope, source, frame_bytes)
               ? dispatch(process, &envelope, frame, frame_bytes)
               : PW_ERR_MALFORMED;
    if (code != PW_ERR_MALFORMED) return code;
    pw_ni_message_refuse(process->ni);
    return PW_OK;
}

/* MPI libraries end the run with words of their own that do not tell what happened. */
static void say_failure(const pw_fi_operation *operation, const pw_handle *handle)
{
    pw_sentence sentence;
    pw_sentence_clear(&sentence);
    pw_sentence_add(&sentence,
                    "a transfer of %" PRIu64 " bytes with node %" PRIu32 ", own buffer at %#" PRIx64
                    ": %s; was a buffer unmapped while it was in use?",
                    operation->num_bytes, handle->peer, operation->address,
                    pw_status_text(handle->error));
    pw_fi_say(sentence.text);
    pw_fi_leave_note(sentence.text);
}

int pw_fi_handle_finished(void *context, pw_handle *handle)
{
    pw_fi_process *process = context;
    pw_fi_operation *operation = handle->owner;
    operation->handle = NULL;
    operation->complete_ns = handle->complete_ns;
    if (handle->error < 0) {
        operation->error = pw_fi_error_of(handle->error);
        if (operation->sink) say_failure(operation, handle);
    }
    pw_node_free_handle(process->node, handle);
    switch (operation->kind) {
    case PW_FI_RECEIVE: return pw_fi_end_receive(process, operation);
    case PW_FI_READ: return pw_fi_end_rma(process, operation);
    case PW_FI_WRITE: {
        const int code = pw_fi_end_rma(process, operation);
        const int resumed = pw_fi_resume_writes(process);
        return code < 0 ? code : resumed;
    }
    default: return pw_fi_end(process, operation);
    }
}
