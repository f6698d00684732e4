/* What a destination answers: ACK, NACK, or why there is none. */
#include "ni/passage.h"

static void count_refused(pw_counters *counters, uint32_t code)
{
    counters->blocks_refused_address += code == PW_NACK_DECODE;
    counters->blocks_refused_context += code == PW_NACK_NO_CONTEXT;
    counters->blocks_refused_protection += code == PW_NACK_PROTECTION;
}

void pw_answer_send(pw_ni *ni, const pw_block_frame *block, pw_time sent_ns, pw_reply out)
{
    uint32_t peer = block->header.source_node;
    if (out.kind == PW_FRAME_NACK) count_refused(&ni->counters, out.code);
    bool is_answer = out.kind == PW_FRAME_ACK || out.kind == PW_FRAME_NACK;
    enum pw_impairment_id site =
        out.kind == PW_FRAME_ACK ? PW_IMPAIRMENT_LOST_ACK : PW_IMPAIRMENT_LOST_NACK;
    if (ni->impairments.any && is_answer &&
        pw_answer_is_lost(ni, site, block, out.part, out.at_ns)) {
        bool err_follows = out.flags & PW_FLAG_ERR_FOLLOWS;
        out.kind = err_follows ? PW_FRAME_ERR_LATER : PW_FRAME_NO_ANSWER;
        out.code = 0;
        if (!err_follows) out.flags |= PW_FLAG_IMPAIRED;
    }
    if (block->header.flags & PW_FLAG_COPY) {
        if (out.kind == PW_FRAME_NO_ANSWER) return; /* said when the copy is answered */
        out.flags |= PW_FLAG_COPY;
    }
    pw_control_frame frame = {
        .header = {.kind = (uint8_t)out.kind,
                   .flags = out.flags,
                   .pdid = block->header.pdid,
                   .stream = block->header.stream,
                   .time_ns = out.at_ns + ni->paths[peer].latency_ns},
        .block_idx = block->block_idx,
        .transaction_id = block->transaction_id,
        .sequence = block->sequence,
        .code = out.code,
        .argument0 = (uint64_t)out.err_ns,
        .argument1 = (uint64_t)sent_ns,
    };
    pw_engine_send_control(ni, peer, &frame);
    if (out.kind == PW_FRAME_ACK)
        pw_trace_add_of(&ni->trace, out.at_ns, PW_TRACE_ACK_SENT, peer, block->transaction_id,
                        block->sequence);
    if (out.kind == PW_FRAME_NACK)
        pw_trace_add_of(&ni->trace, out.at_ns, PW_TRACE_NACK_SENT, peer, block->transaction_id,
                        out.code);
}

void pw_verdict_answer(pw_ni *ni, const pw_arrival *arrival, pw_verdict by)
{
    static const enum pw_frame_kind frames[] = {[PW_VERDICT_ACK] = PW_FRAME_ACK,
                                                [PW_VERDICT_NACK] = PW_FRAME_NACK,
                                                [PW_VERDICT_NO_ANSWER] = PW_FRAME_NO_ANSWER,
                                                [PW_VERDICT_BEHIND] = PW_FRAME_NO_ANSWER};
    if (by.kind == PW_VERDICT_ANSWERED) return;
    pw_answer_send(ni, arrival->block, arrival->sent_ns,
                   (pw_reply){.kind = frames[by.kind],
                              .code = by.code,
                              .flags = by.kind == PW_VERDICT_BEHIND ? PW_FLAG_BEHIND : 0,
                              .part = PW_BLOCK_PACKETS,
                              .at_ns = arrival->end_ns});
}

void pw_destination_answered(pw_ni *ni, const pw_block_frame *block)
{
    if (!(block->header.flags & PW_FLAG_COPY)) return;
    pw_control_frame frame = {
        .header = {.kind = PW_FRAME_NO_ANSWER,
                   .flags = PW_FLAG_COPY,
                   .pdid = block->header.pdid,
                   .stream = block->header.stream,
                   .time_ns = block->last_packet_ns},
        .block_idx = block->block_idx,
        .transaction_id = block->transaction_id,
        .sequence = block->sequence,
    };
    pw_engine_send_control(ni, block->header.source_node, &frame);
}
