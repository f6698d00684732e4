#include "ni/control_frames.h"
#include "ni/state.h"

int pw_error_of_nack(uint32_t code)
{
    switch (code) {
    case PW_NACK_NONE: return PW_OK;
    case PW_NACK_DECODE: return PW_ERR_ADDRESS;
    case PW_NACK_NO_CONTEXT: return PW_ERR_CONTEXT;
    case PW_NACK_PROTECTION: return PW_ERR_PROTECTION;
    default: return PW_ERR_UNRECOVERABLE;
    }
}

uint32_t pw_nack_of_error(int code)
{
    switch (code) {
    case PW_ERR_ADDRESS: return PW_NACK_DECODE;
    case PW_ERR_CONTEXT: return PW_NACK_NO_CONTEXT;
    case PW_ERR_FULL: /* no room to pin or register: not what the peer may use */
    case PW_ERR_PROTECTION: return PW_NACK_PROTECTION;
    default: return PW_UNRECOVERABLE;
    }
}

void pw_engine_send_control(pw_ni *ni, uint32_t peer, const pw_control_frame *frame)
{
    pw_control_frame *own = pw_burst_append(ni->bursts, peer, sizeof *own);
    if (!own) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        return;
    }
    if (frame->header.kind == PW_FRAME_ACK) pw_memory_progress(ni->memory);
    *own = *frame;
    own->header.magic = PW_FRAME_MAGIC;
    own->header.frame_bytes = sizeof *own;
    own->header.source_node = ni->node;
    pw_frame_seal(&own->header, sizeof *own);
}

void pw_control_send_plain(pw_ni *ni, enum pw_frame_kind kind, uint32_t peer, uint32_t stream,
                           uint32_t code, pw_time at_ns)
{
    pw_control_frame frame = {.header = {.kind = (uint8_t)kind,
                                         .stream = stream,
                                         .time_ns = at_ns + ni->paths[peer].latency_ns},
                              .code = code};
    pw_engine_send_control(ni, peer, &frame);
}

bool pw_control_is_foreign(pw_ni *ni, const pw_frame_header *header)
{
    const pw_control_frame *frame = (const pw_control_frame *)header;
    const pw_transaction *transaction =
        pw_transactions_find(&ni->firmware.transactions, frame->transaction_id);
    if (!transaction || transaction->block_idx != frame->block_idx) return false;
    const pw_transfer *transfer = &ni->firmware.transfers[transaction->channel];
    if (transfer->stream != header->stream ||
        (transfer->peer == header->source_node && transfer->pdid == header->pdid))
        return false;
    ni->counters.answers_refused++;
    return true;
}
