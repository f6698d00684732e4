/* Frames in and control frames out: each frame that comes is delimited, checked and given to the
 * part of the NI that its kind concerns. While the host decides about a fault, bursts are kept. */
#include "ni/state.h"
#include "r5sched/segmentation.h"
#include <stdlib.h>
#include <string.h>

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
    pw_ni_seal(ni, peer, &own->header, sizeof *own);
}

pw_control_frame pw_control_of_block(const pw_block_frame *block, enum pw_frame_kind kind,
                                     uint8_t flags, pw_time arrives_ns)
{
    return (pw_control_frame){.header = {.kind = (uint8_t)kind,
                                         .flags = flags,
                                         .pdid = block->header.pdid,
                                         .stream = block->header.stream,
                                         .time_ns = arrives_ns},
                              .block_idx = block->block_idx,
                              .transaction_id = block->transaction_id,
                              .sequence = block->sequence};
}

void pw_control_send_plain(pw_ni *ni, enum pw_frame_kind kind, uint32_t peer, uint32_t stream,
                           uint32_t code, pw_time at_ns)
{
    pw_control_frame frame = {.header = {.kind = (uint8_t)kind,
                                         .stream = stream,
                                         .time_ns = at_ns + pw_ni_path(ni, peer)->latency_ns},
                              .code = code};
    pw_engine_send_control(ni, peer, &frame);
}

/* Does a node answer for a block that was sent to another, or in another domain? Its numbers are
 * easily guessed. Counted.
 * What is about no pending block can do no harm. */
static bool control_is_foreign(pw_ni *ni, const pw_frame_header *header)
{
    const pw_control_frame *frame = (const pw_control_frame *)header;
    const pw_transaction *transaction =
        pw_transactions_find(&ni->firmware.transactions, frame->transaction_id);
    if (!transaction || transaction->block_idx != frame->block_idx) return false;
    const pw_transfer *transfer = pw_transfer_on(&ni->firmware, transaction->channel);
    if (transfer->stream != header->stream ||
        (transfer->peer == header->source_node && transfer->pdid == header->pdid))
        return false;
    ni->counters.answers_refused++;
    return true;
}

static bool is_transfer_sane(const pw_block_frame *block)
{
    return block->transfer_bytes > 0 && block->transfer_bytes <= PW_TRANSFER_MAX_BYTES &&
           !pw_range_wraps(block->transfer_address, block->transfer_bytes) &&
           block->notification.address % PW_NOTIFICATION_BYTES == 0;
}

/* The block that the transfer has at this index, and no other. */
static bool is_place_sane(const pw_block_frame *block, uint64_t block_max)
{
    uint32_t first_bytes =
        pw_first_block_bytes(block_max, block->transfer_address, block->transfer_bytes);
    return block->block_idx <
               pw_num_blocks(block_max, block->transfer_address, block->transfer_bytes) &&
           block->destination_address - block->transfer_address ==
               pw_block_offset(block_max, first_bytes, block->block_idx) &&
           block->block_bytes ==
               pw_block_bytes(block_max, block->transfer_bytes, first_bytes, block->block_idx);
}

static bool are_packets_sane(const pw_ni *ni, const pw_block_frame *block)
{
    uint32_t num_packets = (block->block_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES;
    if (num_packets == 0 || num_packets > PW_BLOCK_PACKETS || block->num_packets != num_packets)
        return false;
    uint64_t all = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - num_packets);
    return block->packet_mask && !(block->packet_mask & ~all) &&
           block->header.frame_bytes == pw_block_frame_bytes(ni, num_packets, block->block_bytes);
}

static bool are_times_sane(const pw_block_frame *block)
{
    return block->waited_ns <= PW_WAITED_MAX_NS && block->last_packet_ns >= block->header.time_ns &&
           block->last_packet_ns <= PW_FRAME_TIME_MAX && block->held_ns >= 0 &&
           block->held_ns <= block->header.time_ns;
}

/* The largest block here is one that its source must have too. */
static bool block_is_sane(const pw_ni *ni, const pw_block_frame *block)
{
    return is_transfer_sane(block) && is_place_sane(block, (uint64_t)ni->settings->block_bytes) &&
           are_packets_sane(ni, block) && are_times_sane(block);
}

static void lose_answers(pw_ni *ni, const pw_transaction *transaction)
{
    pw_firmware *firmware = &ni->firmware;
    uint64_t identity =
        pw_identity(pw_transfer_on(firmware, transaction->channel)->stream, transaction->block_idx);
    pw_answer lost = {.kind = PW_EVENT_NACK,
                      .transaction_id = transaction->id,
                      .sequence = transaction->sequence,
                      .identity = identity,
                      .sent_ns = INT64_MIN};
    if (transaction->predicted && !transaction->confirmed) { /* its ACK may never be confirmed */
        lost.code = PW_NACK_CORRUPT;
        lost.at_ns = transaction->predicted_ns;
        pw_firmware_answer(firmware, &lost);
    } else if (transaction->unanswered) {
        lost.at_ns = transaction->earliest_answer_ns;
        pw_firmware_spoiled(firmware, &lost);
        pw_firmware_no_answer(firmware, &lost);
    }
}

/* A frame between this node and the peer was dropped, at either end. Which one nobody can tell:
 * each attempt under way there is taken for lost, and its timeout decides; without one, or after as
 * many as there are sequence numbers, the transfer ends with PW_ERR_UNRECOVERABLE. A read of which
 * nothing has come ends with PW_ERR_MALFORMED. */
static void losses_note(pw_ni *ni, uint32_t peer)
{
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        const pw_transaction *transaction = pw_transactions_at(&ni->firmware.transactions, i);
        if (transaction && pw_transfer_on(&ni->firmware, transaction->channel)->peer == peer)
            lose_answers(ni, transaction);
    }
    pw_transactions *table = &ni->firmware.transactions;
    for (uint32_t i = table->num_overtaken; i-- > 0;) /* the last one moves to where one goes */
        if (table->overtaken[i].peer == peer)
            pw_transactions_overtaken_answered(table, &table->overtaken[i]);
    while (pw_network_settle(ni, peer)) continue;
    pw_inbound_fail_unserved(ni, peer);
}

static void tell_dropped(pw_ni *ni, uint32_t peer)
{
    const pw_control_frame frame = {.header = {.kind = PW_FRAME_DROPPED}};
    pw_engine_send_control(ni, peer, &frame);
}

/* A sound block of which nothing can be made: the source is told, or its transfer would hang. */
static void refuse_block(pw_ni *ni, const pw_block_frame *block)
{
    const pw_frame_header *header = &block->header;
    pw_time latency_ns = pw_ni_path(ni, header->source_node)->latency_ns;
    bool timed =
        block->last_packet_ns >= header->time_ns && block->last_packet_ns <= PW_FRAME_TIME_MAX;
    pw_time end_ns = timed ? block->last_packet_ns : header->time_ns;
    pw_control_frame frame = pw_control_of_block(block, PW_FRAME_NACK, header->flags & PW_FLAG_COPY,
                                                 end_ns + latency_ns);
    frame.code = PW_NACK_DECODE;
    frame.argument1 = (uint64_t)pw_later(end_ns - latency_ns, 0);
    ni->counters.malformed_frames++;
    ni->counters.blocks_refused_address++;
    pw_engine_send_control(ni, header->source_node, &frame);
    tell_dropped(ni, header->source_node); /* its place may be the lie: then that is no answer */
}

static int on_block(pw_ni *ni, const pw_frame_header *header)
{
    const pw_block_frame *block = (const pw_block_frame *)header;
    const bool is_sane = block_is_sane(ni, block);
    if (is_sane && header->flags & PW_FLAG_AT_REST) pw_ahead_learn(ni, block);
    if (is_sane) pw_destination_block(ni, block);
    else refuse_block(ni, block);
    if (!ni->decision_wanted) pw_destination_answered(ni, block);
    return PW_OK;
}

static bool answer_is_sane(const pw_frame_header *header)
{
    const pw_control_frame *frame = (const pw_control_frame *)header;
    if (frame->argument1 > (uint64_t)header->time_ns) return false;
    bool is_missed = header->kind == PW_FRAME_NACK && frame->code == PW_NACK_MISSED;
    bool err_follows =
        header->flags & PW_FLAG_ERR_FOLLOWS || header->kind == PW_FRAME_ERR_LATER || is_missed;
    if (err_follows && frame->argument0 > (uint64_t)PW_FRAME_TIME_MAX) return false;
    return header->kind != PW_FRAME_NACK ||
           (frame->code >= PW_NACK_PAGE_FAULT && frame->code < PW_NACK_CODES &&
            frame->code != PW_NACK_RESERVED);
}

static pw_answer answer_of(const pw_control_frame *frame, enum pw_event_kind kind)
{
    return (pw_answer){.kind = kind,
                       .transaction_id = frame->transaction_id,
                       .sequence = frame->sequence,
                       .code = kind == PW_EVENT_NACK ? frame->code : 0,
                       .identity = pw_identity(frame->header.stream, frame->block_idx),
                       .peer = frame->header.source_node,
                       .is_behind = frame->header.flags & PW_FLAG_BEHIND,
                       .err_follows = frame->header.flags & PW_FLAG_ERR_FOLLOWS,
                       .err_ns = (pw_time)frame->argument0,
                       .sent_ns = (pw_time)frame->argument1,
                       .at_ns = frame->header.time_ns};
}

static int on_answer(pw_ni *ni, const pw_frame_header *header)
{
    if (control_is_foreign(ni, header)) return PW_OK;
    const pw_control_frame *frame = (const pw_control_frame *)header;
    pw_answer answer =
        answer_of(frame, header->kind == PW_FRAME_ACK ? PW_EVENT_ACK : PW_EVENT_NACK);
    if (!pw_receiver_has_nack(&ni->translation->receiver, answer.code)) return PW_ERR_MALFORMED;
    /* Its ERR would be waited for, and nothing would ever say that it does not come. */
    if (header->flags & PW_FLAG_COPY && !pw_network_has_copy(ni, frame)) return PW_ERR_MALFORMED;
    if (answer.kind == PW_EVENT_ACK) pw_memory_progress(ni->memory);
    if (header->flags & PW_FLAG_IMPAIRED) pw_firmware_spoiled(&ni->firmware, &answer);
    if (header->flags & PW_FLAG_COPY) pw_firmware_extra_answer(&ni->firmware, &answer);
    else pw_firmware_answer(&ni->firmware, &answer);
    if (answer.err_follows) pw_bounds_want(ni, frame);
    return PW_OK;
}

static int on_err_later(pw_ni *ni, const pw_frame_header *header)
{
    const pw_control_frame *frame = (const pw_control_frame *)header;
    pw_answer answer = answer_of(frame, PW_EVENT_ERR);
    if (header->flags & PW_FLAG_COPY) return PW_OK; /* of a copy: nobody waits for it */
    if (control_is_foreign(ni, header)) return PW_OK;
    if (answer.err_follows) pw_firmware_err_later(&ni->firmware, &answer);
    else pw_firmware_errs_later(&ni->firmware, header->source_node, header->stream, answer.err_ns);
    pw_bounds_want(ni, frame);
    return PW_OK;
}

static int on_no_answer(pw_ni *ni, const pw_frame_header *header)
{
    if (control_is_foreign(ni, header)) return PW_OK;
    const pw_control_frame *frame = (const pw_control_frame *)header;
    pw_answer answer = answer_of(frame, PW_EVENT_NACK);
    if (header->flags & PW_FLAG_IMPAIRED) pw_firmware_spoiled(&ni->firmware, &answer);
    if (header->flags & PW_FLAG_COPY)
        return pw_network_settle(ni, header->source_node) ? PW_OK : PW_ERR_MALFORMED;
    pw_firmware_settle_overtaken(&ni->firmware, &answer);
    pw_firmware_no_answer(&ni->firmware, &answer);
    return PW_OK;
}

static int on_err(pw_ni *ni, const pw_frame_header *header)
{
    if (control_is_foreign(ni, header)) return PW_OK;
    const pw_control_frame *frame = (const pw_control_frame *)header;
    pw_answer answer = answer_of(frame, PW_EVENT_ERR);
    answer.sent_ns = INT64_MIN;
    answer.err_follows = false;
    if (pw_err_wired_pdid(frame->argument0) != pw_err_claimed_pdid(frame->argument0)) {
        ni->counters.errs_refused++;
        pw_firmware_settle_overtaken(&ni->firmware, &answer);
        pw_firmware_no_answer(&ni->firmware, &answer);
        return PW_OK;
    }
    pw_firmware_answer(&ni->firmware, &answer);
    return PW_OK;
}

/* Why the request cannot be served; PW_NACK_NONE when it can, with the region unless it has no key.
 */
static enum pw_nack_code examine_read(pw_ni *ni, const pw_read_request_frame *request,
                                      pw_region **region)
{
    const pw_frame_header *header = &request->header;
    bool sane = request->num_bytes <= PW_TRANSFER_MAX_BYTES && (header->stream & PW_STREAM_READ) &&
                !pw_range_wraps(request->source_address, request->num_bytes) &&
                !pw_range_wraps(request->destination_address, request->num_bytes) &&
                request->notification.address % PW_NOTIFICATION_BYTES == 0;
    if (!sane) return PW_NACK_DECODE;
    if (!pw_translation_is_open(ni->translation, header->pdid) ||
        !pw_firmware_has_page(&ni->firmware, header->pdid))
        return PW_NACK_NO_CONTEXT;
    *region = pw_regions_find(&ni->regions, request->key);
    if (!*region)
        return request->key == 0 && ni->settings->reads_without_key ? PW_NACK_NONE
                                                                    : PW_NACK_PROTECTION;
    return pw_region_admits(*region, PW_REMOTE_READ, header->source_node, request->source_address,
                            request->num_bytes)
               ? PW_NACK_NONE
               : PW_NACK_PROTECTION;
}

static void count_refused_read(pw_counters *counters, enum pw_nack_code code)
{
    counters->reads_refused++;
    counters->reads_refused_address += code == PW_NACK_DECODE;
    counters->reads_refused_context += code == PW_NACK_NO_CONTEXT;
    counters->reads_refused_protection += code == PW_NACK_PROTECTION;
}

/* When the owner has found the buffer that a request names. A request that misses is dropped, and
 * its sender's timer brings it again; what that loads the link with is not counted. The timer is
 * the sender's: it is asked of every run that it is the same here. */
static pw_time find_buffer(pw_ni *ni, const pw_read_request_frame *request, bool is_known)
{
    const pw_translation_unit *unit = ni->translation;
    const pw_frame_header *header = &request->header;
    uint64_t id = pw_regions_id(&ni->regions, request->key);
    pw_time at_ns = header->time_ns;
    while (unit->ops->find_buffer(ni->translation, header->pdid, id, is_known, at_ns) > at_ns) {
        at_ns += pw_firmware_timeout_ns(&ni->firmware, header->source_node);
        ni->counters.requests_retried++;
    }
    return at_ns + unit->find_buffer_ns;
}

static int on_read_request(pw_ni *ni, const pw_frame_header *header)
{
    const pw_read_request_frame *request = (const pw_read_request_frame *)header;
    pw_region *region = NULL;
    enum pw_nack_code refusal = examine_read(ni, request, &region);
    pw_time found_ns = header->time_ns;
    bool is_sought = request->key && refusal != PW_NACK_DECODE && refusal != PW_NACK_NO_CONTEXT;
    if (is_sought && ni->translation->ops->find_buffer)
        found_ns = find_buffer(ni, request, region != NULL);
    if (refusal) {
        count_refused_read(&ni->counters, refusal);
        pw_control_send_plain(ni, PW_FRAME_READ_REFUSED, header->source_node, header->stream,
                              refusal, found_ns);
        return PW_OK;
    }
    pw_transfer kept = {
        .source_address = request->source_address,
        .destination_address = request->destination_address,
        .num_bytes = request->num_bytes,
        .cookie = request->key,
        .peer = header->source_node,
        .stream = header->stream,
        .pdid = header->pdid,
        .notification = request->notification,
    };
    if (region) {
        pw_region_begin_read(region, !(header->flags & PW_FLAG_MORE));
        kept.hint = (uint8_t)region->scheduling.hint;
        kept.window_blocks = (uint8_t)region->scheduling.window_blocks;
    }
    pw_ahead_asked(ni, request);
    if (pw_firmware_read_request(&ni->firmware, &kept, found_ns) < 0) pw_ni_latch(ni, PW_ERR_NOMEM);
    return PW_OK;
}

/* The stream that a frame is about; counted as stale when it is not known (any more). */
static pw_inbound *inbound_of(pw_ni *ni, const pw_frame_header *header)
{
    pw_inbound *inbound = pw_inbound_find(ni, header->source_node, header->stream);
    if (!inbound) ni->counters.stale_frames++;
    return inbound;
}

static int on_failure(pw_ni *ni, const pw_frame_header *header)
{
    uint32_t code = ((const pw_control_frame *)header)->code;
    pw_inbound *inbound = inbound_of(ni, header);
    if (header->kind == PW_FRAME_ABORT) pw_senders_ended(ni, header->source_node, header->stream);
    if (inbound) pw_inbound_fail(ni, inbound, pw_error_of_nack(code), header->time_ns);
    return PW_OK;
}

static int on_completion(pw_ni *ni, const pw_frame_header *header)
{
    const pw_notification none = {0};
    pw_inbound *inbound = NULL;
    if (header->stream & PW_STREAM_READ) inbound = inbound_of(ni, header);
    else {
        inbound = pw_inbound_find(ni, header->source_node, header->stream);
        if (!inbound && !pw_senders_admit(ni, header->source_node, header->stream)) return PW_OK;
        if (!inbound) /* an empty write: no block comes before it */
            inbound = pw_inbound_create(ni, header->source_node, header->stream, 0, 0, &none);
        if (!inbound) pw_ni_latch(ni, PW_ERR_NOMEM);
    }
    if (inbound) pw_inbound_notified(ni, inbound, header->time_ns);
    return PW_OK;
}

static int on_close(pw_ni *ni, const pw_frame_header *header)
{
    pw_inbound *inbound = inbound_of(ni, header);
    pw_senders_ended(ni, header->source_node, header->stream);
    if (inbound) pw_inbound_close(ni, inbound);
    return PW_OK;
}

static int on_dropped(pw_ni *ni, const pw_frame_header *header)
{
    losses_note(ni, header->source_node);
    return PW_OK;
}

/* What there is to know of a kind of frame. A checker that says no makes the frame malformed. */
typedef struct {
    uint32_t fixed_bytes; /* all of it; of a block: what stands before the CRCs and the payload */
    bool (*is_sane)(const pw_frame_header *header);
    int (*handle)(pw_ni *ni, const pw_frame_header *header);
} frame_kind;

static const frame_kind kinds[PW_FRAME_KINDS] = {
    [PW_FRAME_BLOCK] = {sizeof(pw_block_frame), NULL, on_block},
    [PW_FRAME_ACK] = {sizeof(pw_control_frame), answer_is_sane, on_answer},
    [PW_FRAME_NACK] = {sizeof(pw_control_frame), answer_is_sane, on_answer},
    [PW_FRAME_ERR] = {sizeof(pw_control_frame), NULL, on_err},
    [PW_FRAME_NO_ANSWER] = {sizeof(pw_control_frame), answer_is_sane, on_no_answer},
    [PW_FRAME_READ_REQUEST] = {sizeof(pw_read_request_frame), NULL, on_read_request},
    [PW_FRAME_READ_REFUSED] = {sizeof(pw_control_frame), NULL, on_failure},
    [PW_FRAME_COMPLETION] = {sizeof(pw_control_frame), NULL, on_completion},
    [PW_FRAME_CLOSE] = {sizeof(pw_control_frame), NULL, on_close},
    [PW_FRAME_ABORT] = {sizeof(pw_control_frame), NULL, on_failure},
    [PW_FRAME_GRANT] = {sizeof(pw_grant_frame), NULL, pw_lookahead_on_grant},
    [PW_FRAME_ERR_LATER] = {sizeof(pw_control_frame), answer_is_sane, on_err_later},
    [PW_FRAME_BOUND] = {sizeof(pw_control_frame), NULL, pw_bounds_on_frame},
    [PW_FRAME_DROPPED] = {sizeof(pw_control_frame), NULL, on_dropped},
};

/* What the CRC of a delimited frame covers; 0 when its kind or its lengths make no sense. */
static uint32_t covered_bytes(const pw_ni *ni, const pw_frame_header *header)
{
    uint32_t fixed_bytes = header->kind < PW_FRAME_KINDS ? kinds[header->kind].fixed_bytes : 0;
    if (!fixed_bytes || header->frame_bytes < fixed_bytes) return 0;
    if (header->kind != PW_FRAME_BLOCK) return header->frame_bytes == fixed_bytes ? fixed_bytes : 0;
    uint32_t num_packets = ((const pw_block_frame *)header)->num_packets;
    if (num_packets == 0 || num_packets > PW_BLOCK_PACKETS) return 0;
    uint32_t covered = pw_block_covered_bytes(ni, num_packets);
    return covered <= header->frame_bytes ? covered : 0;
}

static bool is_sound(pw_ni *ni, const pw_frame_header *header, uint32_t source)
{
    uint32_t covered = covered_bytes(ni, header);
    return covered && header->time_ns >= 0 && header->time_ns <= PW_FRAME_TIME_MAX &&
           source < ni->num_nodes &&
           (pw_ni_is_unsealed(ni, source) || pw_frame_is_sound(header, covered));
}

/* num_bytes that source sent cannot be read. A control frame is no loss for its source, which so is
 * not told: else two nodes that do not understand each other would never come to rest. */
static void drop(pw_ni *ni, uint32_t source, uint32_t num_bytes)
{
    ni->counters.malformed_frames++;
    if (source >= ni->num_nodes) return;
    losses_note(ni, source);
    if (num_bytes <= sizeof(pw_control_frame)) return;
    tell_dropped(ni, source);
}

static bool is_delimited(const pw_frame_header *header, uint32_t num_bytes)
{
    return num_bytes >= sizeof *header && header->magic == PW_FRAME_MAGIC &&
           header->frame_bytes <= num_bytes && header->frame_bytes >= sizeof(pw_control_frame) &&
           header->frame_bytes % 8 == 0;
}

static int take_frame(pw_ni *ni, uint32_t source, const pw_frame_header *header)
{
    if (!is_sound(ni, header, source)) return PW_ERR_MALFORMED;
    if (header->source_node != source) { /* the wire knows who sends */
        ni->counters.forged_frames++;
        return PW_ERR_MALFORMED;
    }
    const frame_kind *kind = &kinds[header->kind];
    if (kind->is_sane && !kind->is_sane(header)) return PW_ERR_MALFORMED;
    return kind->handle(ni, header);
}

/* The block at the beginning of the data, when nothing is wrong with it. */
static const pw_block_frame *block_at(pw_ni *ni, uint32_t source, const uint8_t *data,
                                      uint32_t num_bytes)
{
    const pw_frame_header *header = (const pw_frame_header *)(const void *)data;
    if (!is_delimited(header, num_bytes) || header->kind != PW_FRAME_BLOCK ||
        !is_sound(ni, header, source) || header->source_node != source)
        return NULL;
    const pw_block_frame *block = (const pw_block_frame *)header;
    return block_is_sane(ni, block) ? block : NULL;
}

/* All but the end of a read. */
static bool asks(const pw_frame_header *header) { return header->kind != PW_FRAME_CLOSE; }

bool pw_ni_burst_asks(const uint8_t *data, uint32_t num_bytes)
{
    while (num_bytes) {
        const pw_frame_header *header = (const pw_frame_header *)(const void *)data;
        if (!is_delimited(header, num_bytes) || asks(header)) return true;
        data += header->frame_bytes;
        num_bytes -= header->frame_bytes;
    }
    return false;
}

/* A marked block and the next one, together. How many bytes they are, 0: each is taken alone. */
static uint32_t take_pair(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    const pw_block_frame *first = block_at(ni, source, data, num_bytes);
    if (!first) return 0;
    uint32_t first_bytes = first->header.frame_bytes;
    const pw_block_frame *second =
        block_at(ni, source, data + first_bytes, num_bytes - first_bytes);
    if (!second || !pw_pair_is_sane(ni, first, second)) return 0;
    pw_destination_pair(ni, first, second);
    return first_bytes + second->header.frame_bytes;
}

/* Handle the frames of a burst until a decision is wanted; how many bytes were taken. *result:
 * PW_ERR_MALFORMED when part was dropped. */
static uint32_t dispatch_burst(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes,
                               int *result)
{
    uint32_t total_bytes = num_bytes;
    while (num_bytes && !ni->decision_wanted) {
        const pw_frame_header *header = (const pw_frame_header *)(const void *)data;
        bool delimited = is_delimited(header, num_bytes);
        if (!delimited || asks(header)) pw_ahead_disturb(ni);
        ni->num_events++;
        if (delimited && header->kind == PW_FRAME_BLOCK && header->flags & PW_FLAG_PAIR) {
            uint32_t pair_bytes = take_pair(ni, source, data, num_bytes);
            data += pair_bytes;
            num_bytes -= pair_bytes;
            if (pair_bytes) continue;
        }
        int code = delimited ? take_frame(ni, source, header) : PW_ERR_MALFORMED;
        if (code < 0) {
            drop(ni, source, delimited ? header->frame_bytes : num_bytes);
            *result = PW_ERR_MALFORMED;
        }
        if (!delimited) return total_bytes; /* nor can the rest be */
        data += header->frame_bytes;
        num_bytes -= header->frame_bytes;
    }
    return total_bytes - num_bytes;
}

static bool is_told_before(enum pw_frame_kind kind)
{
    return kind != PW_FRAME_BLOCK && kind != PW_FRAME_READ_REQUEST &&
           kind != PW_FRAME_READ_REFUSED && kind != PW_FRAME_COMPLETION && kind != PW_FRAME_CLOSE &&
           kind != PW_FRAME_ABORT;
}

uint32_t pw_ni_arrives_first(const uint8_t *data, uint32_t num_bytes)
{
    uint32_t first_bytes = 0;
    uint16_t magic = 0;
    if (num_bytes >= PW_ENVELOPE_BYTES) memcpy(&magic, data, sizeof magic);
    if (magic == PW_ENVELOPE_MAGIC) return num_bytes;
    bool is_pair = false;
    while (first_bytes < num_bytes) {
        const pw_frame_header *header = (const pw_frame_header *)(const void *)(data + first_bytes);
        if (!is_delimited(header, num_bytes - first_bytes)) return num_bytes;
        const bool is_alone =
            !is_told_before((enum pw_frame_kind)header->kind) || header->kind == PW_FRAME_BOUND;
        if (is_alone && first_bytes && !is_pair) return first_bytes;
        first_bytes += header->frame_bytes;
        if (is_pair) return first_bytes;
        is_pair = header->kind == PW_FRAME_BLOCK && header->flags & PW_FLAG_PAIR;
        if (is_alone && !is_pair) return first_bytes;
    }
    return first_bytes;
}

int64_t pw_ni_arrival_ns(const uint8_t *data, uint32_t num_bytes, bool *keeps_order)
{
    uint16_t magic = 0;
    int64_t first_ns = PW_NEVER;
    if (num_bytes >= PW_ENVELOPE_BYTES) memcpy(&magic, data, sizeof magic);
    *keeps_order = magic == PW_ENVELOPE_MAGIC;
    if (*keeps_order) {
        pw_envelope envelope;
        memcpy(&envelope, data, sizeof envelope);
        return envelope.arrival_ns;
    }
    while (num_bytes) {
        const pw_frame_header *header = (const pw_frame_header *)(const void *)data;
        if (!is_delimited(header, num_bytes) || is_told_before((enum pw_frame_kind)header->kind))
            return INT64_MIN;
        if (header->time_ns < first_ns) first_ns = header->time_ns;
        data += header->frame_bytes;
        num_bytes -= header->frame_bytes;
    }
    return first_ns;
}

int pw_ni_rx_burst(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes)
{
    int result = PW_OK;
    ni->counters.bursts_received++;
    uint32_t handled_bytes = dispatch_burst(ni, source, data, num_bytes, &result);
    if (ni->decision_wanted) pw_engine_hold(ni, source, data, num_bytes, handled_bytes);
    return result;
}

/* The host decides which pages a fault brings in, and who sends the ERR. Until it has, the block
 * under way waits (ni->arrival), or the read (ni->source_fault), the firmware's actions behind it
 * too, and bursts are kept. */

typedef struct {
    pw_link link;
    uint32_t source, num_bytes, position;
    _Alignas(8) uint8_t data[];
} held_burst;

void pw_engine_ask(pw_ni *ni)
{
    const pw_tasklet_job *pending = &ni->driver.job;
    ni->decision_wanted = true;
    pw_engine_emit(ni, PW_HOST_DECISION, ++ni->decision_id, PW_OK, ni->service.page_in_ns, 0,
                   pending->fault.source_node);
}

/* From the frame under way on: its block is needed when it is answered. */
void pw_engine_hold(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes,
                    uint32_t position)
{
    const uint8_t *block = (const uint8_t *)ni->arrival.block;
    uint32_t begin = position ? (uint32_t)(block - data) : 0;
    held_burst *held = malloc(sizeof *held + num_bytes - begin);
    if (!held) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        return;
    }
    *held = (held_burst){
        .source = source, .num_bytes = num_bytes - begin, .position = position - begin};
    memcpy(held->data, data + begin, num_bytes - begin);
    if (position) ni->arrival.block = (const pw_block_frame *)(const void *)held->data;
    pw_queue_append(&ni->held, held);
}

void pw_engine_drop_held(pw_ni *ni)
{
    while (ni->held.first) free(pw_queue_take(&ni->held));
}

static int receive_held(pw_ni *ni)
{
    int result = PW_OK;
    while (ni->held.first && !ni->decision_wanted) {
        held_burst *held = ni->held.first;
        held->position += dispatch_burst(ni, held->source, held->data + held->position,
                                         held->num_bytes - held->position, &result);
        if (ni->decision_wanted) break; /* the block under way is in it */
        free(pw_queue_take(&ni->held));
    }
    return result;
}

int pw_ni_read_decision(const pw_ni *ni, uint64_t id, pw_decision *out)
{
    if (!ni->decision_wanted || id != ni->decision_id) return PW_ERR_INVALID;
    const pw_tasklet_job *pending = &ni->driver.job;
    const pw_fault *fault = &pending->fault;
    uint32_t bank = 0;
    while (ni->smmu.banks[bank].pdid != fault->pdid) bank++;
    *out = (pw_decision){
        .page = pending->page,
        .block_first_page = fault->block_first_page,
        .block_end_page = fault->block_end_page,
        .transfer_first_page = fault->transfer_first_page,
        .transfer_end_page = fault->transfer_end_page,
        .time_ns = ni->service.page_in_ns,
        .source_node = fault->source_node,
        .bank = bank,
        .pdid = fault->pdid,
        .transaction_id = fault->transaction_id,
        .sequence = fault->sequence,
        .at_destination = fault->at_destination,
        .own_end_page = pw_driver_end_page(&ni->driver, pending),
    };
    return PW_OK;
}

int pw_ni_decide_err(pw_ni *ni, uint64_t id, uint32_t by, uint32_t after)
{
    if (!ni->decision_wanted || id != ni->decision_id) return PW_ERR_INVALID;
    if (by > PW_ERRS_BY_KERNEL || after > PW_ERRS_AFTER_PAGE) return PW_ERR_INVALID;
    ni->driver.job.err = (pw_err_plan){.by = (uint8_t)by, .after = (uint8_t)after};
    return PW_OK;
}

int pw_ni_decide(pw_ni *ni, uint64_t id, uint64_t first_page, uint64_t num_pages)
{
    if (!ni->decision_wanted || id != ni->decision_id) return PW_ERR_INVALID;
    const pw_tasklet_job *pending = &ni->driver.job;
    bool holds_page = first_page <= pending->page && pending->page - first_page < num_pages;
    if (!holds_page || num_pages > UINT64_MAX - first_page) return PW_ERR_INVALID;
    bool at_destination = pending->fault.at_destination;
    ni->decision_wanted = false;
    pw_ni_enter(ni); /* the host's policy has run */
    if (!pw_driver_decide(&ni->driver, first_page, first_page + num_pages, &ni->service)) {
        pw_engine_ask(ni);
        return PW_OK;
    }
    if (at_destination) {
        pw_destination_refuse(ni);
        pw_destination_answered(ni, ni->arrival.block);
    } else pw_source_fault_served(ni, &ni->actions);
    pw_engine_perform(ni);
    return receive_held(ni);
}
