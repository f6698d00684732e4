/* Destination side of the NI: the receive engine writes a block's packets through the SMMU,
 * acknowledges, or logs faults, NACKs and lets the driver page in. Runs as soon as the frame is
 * physically here; what it answers carries the virtual time at which it happens. A block goes
 * through stages, each of which may end its way with a verdict; one place answers. A block's bytes
 * are written only when the whole block is fine, and only once. */
#include "ni/passage.h"
#include "ni/state.h"
#include "native/crc32c.h"
#include "r5sched/segmentation.h"

/* What a destination answers: ACK, NACK, or why there is none. */

static void count_refused(pw_counters *counters, uint32_t code)
{
    counters->blocks_refused_address += code == PW_NACK_DECODE;
    counters->blocks_refused_context += code == PW_NACK_NO_CONTEXT;
    counters->blocks_refused_protection += code == PW_NACK_PROTECTION;
}

/* sent_ns: a receive engine that is busy holds the block in the source's NI until then (flow
 * control of the links), and there the timeout must not run. */
static void answer_send(pw_ni *ni, const pw_block_frame *block, pw_time sent_ns, pw_reply out)
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
    pw_control_frame frame = pw_control_of_block(block, out.kind, out.flags,
                                                 out.at_ns + pw_ni_path(ni, peer)->latency_ns);
    frame.code = out.code;
    frame.argument0 = (uint64_t)out.err_ns;
    frame.argument1 = (uint64_t)sent_ns;
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
    answer_send(ni, arrival->block, arrival->sent_ns,
                (pw_reply){.kind = frames[by.kind],
                           .code = by.code,
                           .flags = by.kind == PW_VERDICT_BEHIND ? PW_FLAG_BEHIND : 0,
                           .part = PW_BLOCK_PACKETS,
                           .at_ns = arrival->end_ns});
}

void pw_destination_answered(pw_ni *ni, const pw_block_frame *block)
{
    if (!(block->header.flags & PW_FLAG_COPY)) return;
    const pw_control_frame frame =
        pw_control_of_block(block, PW_FRAME_NO_ANSWER, PW_FLAG_COPY, block->last_packet_ns);
    pw_engine_send_control(ni, block->header.source_node, &frame);
}

/* A block meets absent pages at the destination: its packets are reported to the driver, it is
 * refused when the driver has run. */

/* First and last byte of a packet. */
static void passage_packet_range(const pw_block_frame *block, uint32_t packet, uint64_t *first,
                                 uint64_t *last)
{
    *first = block->destination_address + (uint64_t)packet * PW_PACKET_BYTES;
    *last = packet + 1 == block->num_packets ? block->destination_address + block->block_bytes - 1
                                             : *first + PW_PACKET_BYTES - 1;
}

pw_fault pw_passage_fault(const pw_ni *ni, const pw_arrival *arrival)
{
    const pw_block_frame *block = arrival->block;
    return (pw_fault){
        .identity = pw_identity(block->header.stream, block->block_idx),
        .source_node = block->header.source_node,
        .transaction_id = block->transaction_id,
        .sequence = block->sequence,
        .pdid = block->header.pdid,
        .at_destination = true,
        .block_first_page = pw_page_of(block->destination_address),
        .block_end_page = pw_page_of(block->destination_address + block->block_bytes - 1) + 1,
        .transfer_first_page = pw_page_of(block->transfer_address),
        .transfer_end_page = pw_page_of(block->transfer_address + block->transfer_bytes - 1) + 1,
        .bound_ns = ni->firmware.is_in_order ? &ni->bounds.known_ns : &arrival->inbound->bound_ns,
    };
}

/* Does an active fault terminate a packet of the block, its page present or not? */
static bool is_blocked(const pw_ni *ni, const pw_passage *way)
{
    if (ni->settings->stall || ni->settings->hupcf) return false;
    for (uint32_t packet = 0; packet < way->arrival.block->num_packets; packet++)
        if ((way->arrival.block->packet_mask >> packet & 1) &&
            pw_smmu_is_blocked(&ni->smmu, way->bank, pw_passage_packet_ns(way, packet)))
            return true;
    return false;
}

static void faults_tell(pw_ni *ni, const pw_passage *way, const pw_fault *fault, uint64_t page,
                        pw_time at_ns)
{
    pw_trace_add_of(&ni->trace, at_ns, PW_TRACE_FAULT_DESTINATION, fault->source_node, page,
                    fault->transaction_id);
    if (pw_driver_packet_fault(&ni->driver, way->bank, fault, page, at_ns) < 0)
        pw_ni_latch(ni, PW_ERR_NOMEM);
}

bool pw_faults_report_packet(pw_ni *ni, const pw_passage *way, pw_fault *fault, uint32_t packet)
{
    const pw_block_frame *block = way->arrival.block;
    if (!(block->packet_mask >> packet & 1)) return false;
    uint64_t first, last;
    passage_packet_range(block, packet, &first, &last);
    pw_time at_ns = pw_passage_packet_ns(way, packet);
    bool blocked = pw_smmu_is_blocked(&ni->smmu, way->bank, at_ns);
    uint64_t page_idx = pw_page_of(first) - way->first_page;
    if (way->present[page_idx] && !blocked) page_idx = pw_page_of(last) - way->first_page;
    if (way->present[page_idx] && !blocked) return false;
    ni->counters.accesses_blocked += blocked;
    fault->is_permission = !way->present[page_idx] && way->is_permission[page_idx];
    faults_tell(ni, way, fault, way->first_page + page_idx, at_ns);
    return true;
}

void pw_faults_count_pages(pw_ni *ni, const pw_passage *way)
{
    for (uint32_t i = 0; i < way->num_pages; i++)
        if (!way->present[i])
            pw_ni_count_page_fault(ni, true, way->is_permission[i], way->first_page + i,
                                   pw_passage_packet_ns(way, 0));
}

static void report_faults(pw_ni *ni, const pw_passage *way)
{
    pw_fault fault = pw_passage_fault(ni, &way->arrival);
    for (uint32_t packet = 0; packet < way->arrival.block->num_packets; packet++)
        pw_faults_report_packet(ni, way, &fault, packet);
    pw_faults_count_pages(ni, way);
}

/* The ERR of the block as things are now, PW_NEVER: none will come. One that is lost comes never.
 */
static pw_time err_ns(pw_ni *ni, const pw_arrival *arrival, const pw_fault *fault)
{
    pw_time at_ns = pw_driver_err_ns(&ni->driver, fault);
    bool lost = ni->impairments.any && pw_driver_draws_loss(&ni->driver, fault) &&
                pw_answer_is_lost(ni, PW_IMPAIRMENT_LOST_ERR, arrival->block, 0, at_ns);
    if (!lost && ni->service.code == PW_OK) return at_ns;
    pw_driver_lose_err(&ni->driver, fault);
    return PW_NEVER;
}

void pw_destination_refuse(pw_ni *ni)
{
    const pw_arrival *arrival = &ni->arrival;
    const pw_service *service = &ni->service;
    pw_fault fault = pw_passage_fault(ni, arrival);
    bool has_err = pw_driver_err_ns(&ni->driver, &fault) != PW_NEVER;
    pw_time leaves_ns = err_ns(ni, arrival, &fault);
    bool follows = leaves_ns != PW_NEVER;
    bool fifo_full =
        ni->impairments.sites[PW_IMPAIRMENT_FIFO_FULL].injected != arrival->num_fifo_full;
    bool is_fault = service->code == PW_OK;
    uint32_t peer = arrival->block->header.source_node;
    pw_residency_forget(&arrival->inbound->walk);
    arrival->inbound->has_page_ins = true;
    pw_reply out = {.kind = PW_FRAME_NACK,
                    .code = is_fault                          ? PW_NACK_PAGE_FAULT
                            : service->code == PW_ERR_ADDRESS ? PW_NACK_DECODE
                                                              : PW_NACK_PROTECTION,
                    .flags = follows ? PW_FLAG_ERR_FOLLOWS : 0,
                    .part = PW_BLOCK_PACKETS,
                    .err_ns = follows ? leaves_ns + pw_ni_path(ni, peer)->latency_ns : 0,
                    .at_ns = arrival->end_ns};
    if ((is_fault && has_err && !follows) || fifo_full) out.flags |= PW_FLAG_IMPAIRED;
    if (is_fault && !arrival->whole) { /* a block that lacks packets never ends: no NACK */
        out.kind = follows ? PW_FRAME_ERR_LATER : PW_FRAME_NO_ANSWER;
        out.code = 0;
    }
    answer_send(ni, arrival->block, arrival->sent_ns, out);
    pw_bounds_refused(ni, arrival->inbound);
}

static pw_verdict faults_refuse_or_ask(pw_ni *ni, const pw_passage *way)
{
    ni->arrival = way->arrival;
    if (pw_driver_service(&ni->driver, &ni->service)) pw_destination_refuse(ni);
    else pw_engine_ask(ni);
    return (pw_verdict){PW_VERDICT_ANSWERED, 0};
}

/* The stage behind translation. */
static pw_verdict faults_meet(pw_ni *ni, pw_passage *way)
{
    if (!way->num_absent && !(!way->granted && is_blocked(ni, way)))
        return way->arrival.whole ? pw_pass : (pw_verdict){PW_VERDICT_NO_ANSWER, 0};
    way->arrival.num_fifo_full = ni->impairments.sites[PW_IMPAIRMENT_FIFO_FULL].injected;
    report_faults(ni, way);
    return faults_refuse_or_ask(ni, way);
}

/* --- admit: room, receive engine, context, transfer, CRC --- */

/* Do as many blocks as the receive buffer holds wait for the receive engine already? Without a
 * buffer flow control holds the block at its source instead. */
static bool buffer_is_full(const pw_ni *ni, const pw_block_frame *block, pw_time engine_ns)
{
    if (!ni->settings->receive_buffer_blocks) return false;
    pw_time waits_ns = pw_calendar_peek(&ni->engines->receive, block->header.time_ns, engine_ns) -
                       block->header.time_ns;
    pw_time full_block_ns = (pw_time)(PW_BLOCK_BYTES * ni->engine_byte_ps_1000 / 1000000);
    return waits_ns > ni->settings->receive_buffer_blocks * full_block_ns;
}

/* Packets of several blocks come in turns, and the engine writes each as it comes: a block has what
 * the others leave, from its first packet on. */
static void write_packets(pw_ni *ni, pw_passage *way, pw_time engine_ns)
{
    const pw_block_frame *block = way->arrival.block;
    const pw_time arrives_ns = block->header.time_ns;
    const pw_time written_ns = pw_calendar_spend(&ni->engines->receive, arrives_ns, engine_ns);
    const pw_time first_ns = (pw_time)(PW_PACKET_BYTES * ni->engine_byte_ps_1000 / 1000000);
    way->start_ns = arrives_ns;
    way->arrival.end_ns = pw_later(block->last_packet_ns, written_ns - first_ns);
}

static pw_verdict take_engine(pw_ni *ni, pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    const pw_path *path = pw_ni_path(ni, block->header.source_node);
    pw_time latency_ns = path->latency_ns;
    pw_time engine_ns = (pw_time)(block->block_bytes * ni->engine_byte_ps_1000 / 1000000);
    if (buffer_is_full(ni, block, engine_ns)) {
        ni->counters.buffer_full++;
        way->arrival.end_ns = block->last_packet_ns;
        way->arrival.sent_ns = block->last_packet_ns - latency_ns;
        return (pw_verdict){PW_VERDICT_NACK, PW_NACK_BUFFER_FULL};
    }
    pw_time arrives_ns = block->header.time_ns;
    if (ni->links && !path->stays) write_packets(ni, way, engine_ns);
    else {
        way->start_ns = pw_calendar_book(&ni->engines->receive, arrives_ns, engine_ns);
        way->arrival.end_ns =
            pw_later(block->last_packet_ns + (way->start_ns - arrives_ns), way->start_ns);
    }
    way->arrival.sent_ns = way->arrival.end_ns - latency_ns - block->held_ns;
    way->has_engine = true;
    return pw_pass;
}

static pw_verdict find_transfer(pw_ni *ni, pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    const pw_frame_header *header = &block->header;
    if (!pw_translation_is_open(ni->translation, header->pdid))
        return (pw_verdict){PW_VERDICT_NACK, PW_NACK_NO_CONTEXT};
    way->bank = pw_smmu_bank(&ni->smmu, header->pdid);
    pw_inbound *inbound = pw_inbound_find(ni, header->source_node, header->stream);
    if (!inbound && !(header->stream & PW_STREAM_READ)) {
        if (!pw_senders_admit(ni, header->source_node, header->stream))
            return (pw_verdict){PW_VERDICT_NACK, PW_NACK_PROTECTION};
        inbound =
            pw_inbound_create(ni, header->source_node, header->stream, block->transfer_address,
                              block->transfer_bytes, &block->notification);
        if (inbound) {
            inbound->pdid = header->pdid;
            pw_ni_begin_transfer(ni, header->pdid, block->transfer_address, block->transfer_bytes);
        }
    }
    bool is_its_own = inbound && inbound->pdid == header->pdid &&
                      inbound->destination_address == block->transfer_address &&
                      inbound->num_bytes == block->transfer_bytes &&
                      inbound->notification.address == block->notification.address;
    if (!is_its_own) { /* a read that was never asked for; another domain or range than asked for */
        ni->counters.stale_frames++;
        return (pw_verdict){PW_VERDICT_NACK, PW_NACK_PROTECTION};
    }
    way->arrival.inbound = inbound;
    return pw_pass;
}

/* Dropped without a word: the source's timer brings it again. What is behind it waits for it,
 * unless it was here already: then it is none that is missing. */
static pw_verdict lose_block(pw_ni *ni, const pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    const pw_inbound *inbound = way->arrival.inbound;
    pw_path *path = pw_ni_path(ni, block->header.source_node);
    bool is_here = inbound->delivered[block->block_idx >> 6] >> (block->block_idx & 63) & 1;
    if (ni->translation->receiver.keeps_order && !path->lost.is_set && !is_here) {
        path->lost.is_set = true;
        path->lost.stream = block->header.stream;
        path->lost.block_idx = block->block_idx;
        path->lost.at_ns = block->header.time_ns;
    }
    return (pw_verdict){PW_VERDICT_NO_ANSWER, 0};
}

static uint64_t damaged_packets(const pw_ni *ni, const pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    uint32_t computed[PW_BLOCK_PACKETS];
    uint64_t damaged = 0;
    if (ni->has_no_bytes) return *pw_block_damaged((pw_block_frame *)block);
    if (block->is_unsealed) return 0;
    pw_crc32c_packets(NULL, way->payload, block->block_bytes, computed);
    for (uint32_t packet = 0; packet < block->num_packets; packet++)
        damaged |= (uint64_t)(computed[packet] != way->crcs[packet]) << packet;
    return damaged;
}

/* A NACK for each damaged packet: up to 64 for one block [R5 3.4], of which the source heeds the
 * first. */
static pw_verdict check_crcs(pw_ni *ni, pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    uint64_t corrupt = damaged_packets(ni, way) & block->packet_mask;
    if (!corrupt) return pw_pass;
    if (ni->translation->receiver.is_silent) {
        ni->counters.crc_errors += (uint64_t)__builtin_popcountll(corrupt);
        return lose_block(ni, way);
    }
    for (; corrupt; corrupt &= corrupt - 1) {
        ni->counters.crc_errors++;
        answer_send(ni, block, way->arrival.sent_ns,
                    (pw_reply){.kind = PW_FRAME_NACK,
                               .code = PW_NACK_CORRUPT,
                               .part = (uint32_t)__builtin_ctzll(corrupt),
                               .at_ns = way->arrival.end_ns});
    }
    return (pw_verdict){PW_VERDICT_ANSWERED, 0};
}

/* --- translate --- */

/* Stall mode: write the packets, each as soon as its page is there. Moves the block's end to when
 * the last one is written, or returns why an access was terminated. Packets that find no room among
 * the outstanding accesses hold the receive engine. */
static int write_stalling(pw_ni *ni, pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    pw_residency *walk = &way->arrival.inbound->walk;
    pw_fault fault = pw_passage_fault(ni, &way->arrival);
    pw_time end_ns = way->arrival.end_ns, admitted_ns = INT64_MIN;
    int code = PW_OK;
    for (uint32_t packet = 0; packet < block->num_packets && code == PW_OK; packet++) {
        if (!(block->packet_mask >> packet & 1)) continue;
        uint64_t first, last;
        passage_packet_range(block, packet, &first, &last);
        admitted_ns =
            pw_smmu_admit(&ni->smmu, pw_later(pw_passage_packet_ns(way, packet), admitted_ns));
        pw_time done_ns = pw_stall_access(ni, walk, &fault, pw_page_of(first), admitted_ns, &code);
        if (code == PW_OK && pw_page_of(last) != pw_page_of(first))
            done_ns = pw_stall_access(ni, walk, &fault, pw_page_of(last), done_ns, &code);
        if (done_ns > admitted_ns) pw_smmu_hold(&ni->smmu, admitted_ns, done_ns);
        way->arrival.end_ns = pw_later(way->arrival.end_ns, done_ns);
    }
    way->arrival.inbound->has_page_ins = true;
    pw_calendar_fill(&ni->engines->receive, end_ns, admitted_ns);
    return code;
}

static pw_verdict refused(int code)
{
    uint32_t nack = pw_nack_of_error(code);
    /* the host's own failure has no code on the wire */
    return (pw_verdict){PW_VERDICT_NACK,
                        nack == PW_UNRECOVERABLE ? (uint32_t)PW_NACK_DECODE : nack};
}

/* Written already: an early timeout sent it twice. Acknowledge, do not write again; not before the
 * pages are there that the first one waits for. */
static pw_verdict know_duplicate(pw_ni *ni, pw_passage *way)
{
    const pw_arrival *arrival = &way->arrival;
    uint32_t block_idx = arrival->block->block_idx;
    if (!(arrival->inbound->delivered[block_idx >> 6] >> (block_idx & 63) & 1)) return pw_pass;
    ni->counters.duplicate_blocks++;
    if (ni->settings->stall) write_stalling(ni, way);
    else if (ni->translation->receiver.keeps) {
        pw_verdict by = pw_passage_translate(ni, way);
        if (by.kind != PW_VERDICT_PASS) return by;
    }
    return (pw_verdict){arrival->whole ? PW_VERDICT_ACK : PW_VERDICT_NO_ANSWER, 0};
}

/* What was written is not where it should be: the other end's software hears of it, and when it can
 * send the block again. A block that lacks packets has no end. */
static pw_verdict tell_missed(pw_ni *ni, const pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    if (!way->arrival.whole) return (pw_verdict){PW_VERDICT_NO_ANSWER, 0};
    pw_time ready_ns = pw_later(way->ready_ns, way->arrival.end_ns);
    answer_send(
        ni, block, way->arrival.sent_ns,
        (pw_reply){.kind = PW_FRAME_NACK,
                   .code = PW_NACK_MISSED,
                   .part = PW_BLOCK_PACKETS,
                   .err_ns = ready_ns + pw_ni_path(ni, block->header.source_node)->latency_ns,
                   .at_ns = way->arrival.end_ns});
    return (pw_verdict){PW_VERDICT_ANSWERED, 0};
}

/* The block waits here for its pages, and for software that copies there what is for them; false:
 * the buffer is full. */
static bool keep_block(pw_ni *ni, pw_passage *way)
{
    const pw_receiver_rules *rules = &ni->translation->receiver;
    pw_time since_ns = way->arrival.end_ns, next_ns;
    pw_time until_ns = pw_later(way->ready_ns, since_ns);
    bool has_room =
        rules->pauses || pw_occupancy_count(&ni->kept, since_ns, &next_ns) < rules->buffer_blocks;
    if (!has_room) return false;
    pw_time copy_ns = rules->copy_page_ns * way->num_missing;
    if (copy_ns) until_ns = pw_calendar_book(&ni->copier, until_ns, copy_ns) + copy_ns;
    if (rules->pauses) pw_calendar_fill(&ni->engines->receive, since_ns, until_ns);
    else pw_occupancy_take(&ni->kept, 1, since_ns, until_ns);
    ni->counters.blocks_kept++;
    ni->counters.blocks_kept_ns += until_ns - since_ns;
    way->arrival.end_ns = until_ns;
    return true;
}

/* A page has no translation yet: the block is kept, or the source's timer brings it again, or the
 * source is told. */
static pw_verdict drop_block(pw_ni *ni, pw_passage *way)
{
    if (ni->translation->receiver.keeps && keep_block(ni, way)) return pw_pass;
    ni->counters.blocks_dropped++;
    if (ni->translation->receiver.retries_two_sided) return tell_missed(ni, way);
    if (ni->translation->receiver.goes_back) {
        way->arrival.inbound->refused = true;
        return (pw_verdict){PW_VERDICT_NACK, PW_NACK_NOT_READY};
    }
    return lose_block(ni, way);
}

/* Is a packet missing before one that came? */
static bool has_gap(const pw_block_frame *block)
{
    return (block->packet_mask & (block->packet_mask + 1)) != 0;
}

/* The receiver takes the blocks of a transfer in their order. It tells once that one is missing,
 * or that it was not ready for one; until that comes again it drops what comes behind in silence.
 */
static pw_verdict keep_sequence(pw_ni *ni, const pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    pw_inbound *inbound = way->arrival.inbound;
    bool is_next = block->block_idx == inbound->num_delivered;
    if (is_next && !has_gap(block)) {
        inbound->refused &= !way->arrival.whole;
        return pw_pass;
    }
    ni->counters.blocks_behind += !is_next;
    if (inbound->refused)
        return (pw_verdict){is_next ? PW_VERDICT_NO_ANSWER : PW_VERDICT_BEHIND, 0};
    inbound->refused = true;
    return (pw_verdict){PW_VERDICT_NACK, PW_NACK_SEQUENCE};
}

/* The receiver buffers nothing: behind a block that it dropped, or that lacks packets, it drops all
 * that the same node sends until that one has come [MINI 1.2]. An attempt of it that was late
 * physically alone is one too. */
static pw_verdict keep_order(pw_ni *ni, pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    pw_path *path = pw_ni_path(ni, block->header.source_node);
    if (ni->translation->receiver.goes_back) return keep_sequence(ni, way);
    bool is_it = path->lost.is_set && path->lost.stream == block->header.stream &&
                 path->lost.block_idx == block->block_idx;
    if (is_it) path->lost.is_set = false; /* set again if it is dropped again */
    if (path->lost.is_set && block->header.time_ns >= path->lost.at_ns) {
        ni->counters.blocks_behind++;
        return (pw_verdict){PW_VERDICT_NO_ANSWER, 0};
    }
    if (ni->translation->receiver.is_silent && !way->arrival.whole) return lose_block(ni, way);
    return pw_pass;
}

bool pw_ni_writes_need_key(const pw_ni *ni)
{
    if (ni->settings->write_keys != PW_WRITE_KEYS_UNIT)
        return ni->settings->write_keys == PW_WRITE_KEYS_NEEDED;
    return ni->translation->ops->find_buffer != NULL;
}

/* Every write names a buffer and its key, which the owner alone checks [MINI 3.4]: with a unit that
 * knows of buffers before a page is looked up, since the buffer's entry tells its address. One that
 * misses is dropped like one whose page misses; a buffer that is not registered is refused when its
 * entry says so. A key that is given counts whatever the unit; without one the PDID guards. */
static pw_verdict check_key(pw_ni *ni, pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    const pw_translation_unit *unit = ni->translation;
    if (block->header.stream & PW_STREAM_READ) return pw_pass; /* its own request asked for it */
    const pw_region *region = pw_regions_find(&ni->regions, block->key);
    if (block->key && unit->ops->find_buffer) {
        pw_time at_ns = way->start_ns;
        way->ready_ns =
            unit->ops->find_buffer(ni->translation, block->header.pdid,
                                   pw_regions_id(&ni->regions, block->key), region != NULL, at_ns);
        way->start_ns += unit->find_buffer_ns;
        way->arrival.end_ns += unit->find_buffer_ns;
        if (way->ready_ns > at_ns) return drop_block(ni, way);
    }
    bool is_allowed = region ? pw_region_admits(region, PW_REMOTE_WRITE, block->header.source_node,
                                                block->transfer_address, block->transfer_bytes)
                             : block->key == 0 && !pw_ni_writes_need_key(ni);
    return is_allowed ? pw_pass : (pw_verdict){PW_VERDICT_NACK, PW_NACK_PROTECTION};
}

/* Translate each page at its first packet. PW_OK, or why one can never be written. */
static int look_at_pages(pw_ni *ni, pw_passage *way, pw_time *delay_ns)
{
    const pw_block_frame *block = way->arrival.block;
    uint64_t address = block->destination_address;
    way->first_page = pw_page_of(address);
    way->num_pages = (uint32_t)(pw_page_of(address + block->block_bytes - 1) - way->first_page + 1);
    for (uint32_t i = 0; i < way->num_pages; i++) {
        uint64_t page = way->first_page + i;
        uint64_t first_byte = i == 0 ? 0 : (page << PW_PAGE_SHIFT) - address;
        pw_access_result result;
        pw_access access = {
            .page = page,
            .end_page = pw_page_of(block->transfer_address + block->transfer_bytes - 1) + 1,
            .at_ns = pw_passage_packet_ns(way, (uint32_t)(first_byte / PW_PACKET_BYTES)),
            .pdid = block->header.pdid,
            .is_further = i > 0};
        access.use_ns = pw_later(way->arrival.end_ns - access.at_ns, 0);
        pw_translate(ni->translation, &way->arrival.inbound->walk, &access, &result);
        if (result.num_paged_in)
            pw_ni_note_unit_fault(ni, PW_TRACE_FAULT_DESTINATION, block->header.source_node,
                                  block->transaction_id, &access, &result);
        if (i == 0) *delay_ns = result.delay_ns; /* later walks run beside the packets */
        if (result.outcome == PW_ACCESS_REFUSED) return result.code;
        way->num_missing += result.outcome == PW_ACCESS_DROPPED;
        way->ready_ns = pw_later(way->ready_ns, result.ready_ns);
        way->present[i] = result.outcome != PW_ACCESS_FAULT;
        way->is_permission[i] = result.is_permission;
        way->num_absent += !way->present[i];
    }
    return PW_OK;
}

pw_verdict pw_passage_translate(pw_ni *ni, pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    pw_inbound *inbound = way->arrival.inbound;
    pw_time delay_ns = 0;
    int code = PW_OK;
    pw_library_thread_catch_up(&ni->driver.core->thread, way->arrival.end_ns);
    way->granted = pw_lookahead_holds(ni, inbound, block);
    if (way->granted)
        delay_ns = pw_translation_latency_ns(
            ni->translation, inbound->translations[block->block_idx % (2 * PW_GRANT_BLOCKS)]);
    else code = look_at_pages(ni, way, &delay_ns);
    if (way->granted)
        pw_trace_detail(&ni->trace, way->start_ns, PW_TRACE_HELD, block->header.source_node,
                        (uint64_t)delay_ns, block->transaction_id);
    way->start_ns += delay_ns;
    way->arrival.end_ns += delay_ns;
    if (ni->settings->stall && !way->granted && !(ni->settings->ideal && code < 0)) {
        code = write_stalling(ni, way);
        way->num_absent = 0;
    }
    if (code < 0) return refused(code);
    return way->num_missing ? drop_block(ni, way) : pw_pass;
}

/* The last block brings its transfer's notification: can that be written? If not, its page faults
 * like one of the block. */
static pw_verdict check_notification(pw_ni *ni, pw_passage *way)
{
    pw_inbound *inbound = way->arrival.inbound;
    bool is_last = way->arrival.block->block_idx + 1 == inbound->num_blocks;
    if (!is_last || !inbound->notification.address) return pw_pass;
    pw_time end_ns = way->arrival.end_ns;
    uint64_t page = pw_page_of(inbound->notification.address);
    pw_residency walk = {.for_write = true};
    pw_fault fault = pw_passage_fault(ni, &way->arrival);
    fault.block_first_page = fault.transfer_first_page = page;
    fault.block_end_page = fault.transfer_end_page = page + 1;
    if (ni->settings->stall) { /* the access waits, the block does not */
        int code = PW_OK;
        inbound->notification_ns = pw_stall_access(ni, &walk, &fault, page, end_ns, &code);
        inbound->has_page_ins = true;
        if (code == PW_OK) return pw_pass;
        way->arrival.end_ns = inbound->notification_ns;
        return refused(code);
    }
    pw_access_result result;
    pw_access access = {.page = page,
                        .end_page = page + 1,
                        .at_ns = end_ns,
                        .pdid = way->arrival.block->header.pdid,
                        .is_translated = true}; /* paid for when it is written */
    pw_translate(ni->translation, &walk, &access, &result);
    if (result.outcome == PW_ACCESS_REFUSED) return refused(result.code);
    if (result.outcome == PW_ACCESS_PRESENT) return pw_pass;
    if (result.outcome == PW_ACCESS_DROPPED) {
        access.is_translated = false;
        pw_translate(ni->translation, &walk, &access, &result);
        if (result.num_paged_in)
            pw_ni_note_unit_fault(ni, PW_TRACE_FAULT_DESTINATION,
                                  way->arrival.block->header.source_node,
                                  way->arrival.block->transaction_id, &access, &result);
        way->ready_ns = result.ready_ns;
        way->num_missing = 1;
        return result.outcome == PW_ACCESS_REFUSED ? refused(result.code) : drop_block(ni, way);
    }
    way->arrival.num_fifo_full = ni->impairments.sites[PW_IMPAIRMENT_FIFO_FULL].injected;
    if (result.outcome == PW_ACCESS_BLOCKED) ni->counters.accesses_blocked++;
    else {
        access.is_translated = false;
        pw_translate(ni->translation, &walk, &access, &result);
        pw_ni_count_page_fault(ni, true, false, page, end_ns);
    }
    faults_tell(ni, way, &fault, page, end_ns);
    return faults_refuse_or_ask(ni, way);
}

/* --- deliver --- */

static pw_verdict deliver(pw_ni *ni, pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    pw_inbound *inbound = way->arrival.inbound;
    int code = ni->has_no_bytes ? PW_OK
                                : pw_copy_block_out(&inbound->walk, block->destination_address,
                                                    way->payload, block->block_bytes);
    if (code < 0) return refused(code);
    inbound->delivered[block->block_idx >> 6] |= UINT64_C(1) << (block->block_idx & 63);
    inbound->num_delivered++;
    if (inbound->granted_end &&
        inbound->num_delivered + PW_GRANT_BLOCKS / 2 == inbound->granted_end)
        pw_lookahead_grant(ni, inbound);
    inbound->last_delivery_ns = pw_later(inbound->last_delivery_ns, way->arrival.end_ns);
    pw_verdict_answer(ni, &way->arrival, (pw_verdict){PW_VERDICT_ACK, 0});
    if (block->header.flags & PW_FLAG_NOTIFY) pw_inbound_notified(ni, inbound, way->arrival.end_ns);
    else pw_inbound_complete_when_whole(ni, inbound);
    return (pw_verdict){PW_VERDICT_ANSWERED, 0};
}

/* --- the way --- */

pw_passage pw_passage_of(const pw_ni *ni, const pw_block_frame *block)
{
    uint64_t all = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - block->num_packets);
    pw_passage way = {.arrival = {.block = block, .whole = block->packet_mask == all},
                      .crcs = (const uint32_t *)(block + 1)};
    way.payload = (const uint8_t *)block + pw_block_covered_bytes(ni, block->num_packets);
    return way;
}

typedef pw_verdict stage(pw_ni *, pw_passage *);

static pw_verdict go_through(pw_ni *ni, pw_passage *way, stage *const stages[], size_t num_stages)
{
    pw_verdict by = pw_pass;
    for (size_t i = 0; by.kind == PW_VERDICT_PASS && i < num_stages; i++) by = stages[i](ni, way);
    return by;
}

pw_verdict pw_passage_enter(pw_ni *ni, pw_passage *way)
{
    static stage *const stages[] = {take_engine, find_transfer};
    return go_through(ni, way, stages, sizeof stages / sizeof *stages);
}

void pw_passage_note(pw_ni *ni, const pw_passage *way)
{
    const pw_block_frame *block = way->arrival.block;
    if (!way->has_engine) return;
    pw_trace_detail(&ni->trace, way->start_ns, PW_TRACE_RECEIVE_ENGINE, block->header.source_node,
                    (uint64_t)(way->arrival.end_ns - way->start_ns),
                    PW_TRACE_BLOCK(block->transaction_id, block->sequence,
                                   (unsigned)__builtin_popcountll(block->packet_mask)));
    pw_trace_add(&ni->trace, pw_passage_packet_ns(way, 0), PW_TRACE_BLOCK_FIRST_PACKET,
                 block->transaction_id, block->sequence);
    pw_trace_add(&ni->trace, way->arrival.end_ns, PW_TRACE_BLOCK_LAST_PACKET, block->transaction_id,
                 block->sequence);
    if (way->arrival.inbound) pw_bounds_note(ni, way->arrival.inbound, block->header.time_ns);
}

pw_verdict pw_passage_check(pw_ni *ni, pw_passage *way)
{
    static stage *const stages[] = {check_crcs, know_duplicate, keep_order, check_key};
    return go_through(ni, way, stages, sizeof stages / sizeof *stages);
}

pw_verdict pw_passage_deliver(pw_ni *ni, pw_passage *way)
{
    static stage *const stages[] = {check_notification, deliver};
    return go_through(ni, way, stages, sizeof stages / sizeof *stages);
}

pw_verdict pw_passage_finish(pw_ni *ni, pw_passage *way)
{
    static stage *const stages[] = {pw_passage_translate, faults_meet, pw_passage_deliver};
    return go_through(ni, way, stages, sizeof stages / sizeof *stages);
}

void pw_destination_block(pw_ni *ni, const pw_block_frame *block)
{
    pw_passage way = pw_passage_of(ni, block);
    pw_verdict by = pw_passage_enter(ni, &way);
    pw_passage_note(ni, &way);
    if (by.kind == PW_VERDICT_PASS) by = pw_passage_check(ni, &way);
    if (by.kind == PW_VERDICT_PASS) by = pw_passage_finish(ni, &way);
    pw_verdict_answer(ni, &way.arrival, by);
}
