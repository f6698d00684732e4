/* What the emulation knows before it is physically here: bounds that source and destination of a
 * transfer exchange, answers and whole reads that are foreseen. The machine has nothing of it, and
 * virtual times are the same without it. */
#include "native/array.h"
#include "ni/state.h"
#include "r5sched/segmentation.h"
#include <stdlib.h>
#include <string.h>

/* --- source --- */

static int channel_of(const pw_ni *ni, const pw_control_frame *answer)
{
    const pw_transaction *transaction =
        pw_transactions_find((pw_transactions *)&ni->firmware.transactions, answer->transaction_id);
    uint32_t stream = answer->header.stream, peer = answer->header.source_node;
    if (transaction) {
        const pw_transfer *its = pw_transfer_on(&ni->firmware, transaction->channel);
        if (its->stream == stream && its->peer == peer) return (int)transaction->channel;
    }
    for (uint32_t channel = 0; channel < PW_NUM_CHANNELS; channel++) {
        const pw_virtual_channel *made = pw_firmware_channel(&ni->firmware, channel);
        if (made && made->transfer.active && made->transfer.stream == stream &&
            made->transfer.peer == peer)
            return (int)channel;
    }
    return -1;
}

void pw_bounds_want(pw_ni *ni, const pw_control_frame *answer)
{
    if (ni->firmware.is_in_order) return;
    int channel = channel_of(ni, answer);
    if (channel < 0) return; /* over: its CLOSE or ABORT says more than a bound */
    pw_bounds *bounds = &ni->bounds;
    pw_time latency_ns = pw_ni_path(ni, answer->header.source_node)->latency_ns;
    const pw_wanted_bound asked = {.leaves_ns = (pw_time)answer->argument0 - 2 * latency_ns,
                                   .stream = answer->header.stream,
                                   .channel = (uint32_t)channel};
    bounds->earliest_ns =
        pw_earlier(bounds->num_wanted ? bounds->earliest_ns : PW_NEVER, asked.leaves_ns);
    for (uint32_t i = 0; i < bounds->num_wanted; i++) {
        pw_wanted_bound *wanted = &bounds->wanted[i];
        if (wanted->channel != asked.channel) continue;
        if (wanted->stream != asked.stream || asked.leaves_ns < wanted->leaves_ns) *wanted = asked;
        return;
    }
    if (PW_ARRAY_MAKE_ROOM(bounds->wanted, bounds->num_wanted, bounds->capacity, 8) < 0)
        pw_ni_latch(ni, PW_ERR_NOMEM);
    else bounds->wanted[bounds->num_wanted++] = asked;
}

static void send_bound(pw_ni *ni, const pw_transfer *transfer, pw_time at_ns)
{
    pw_control_frame frame = {.header = {.kind = PW_FRAME_BOUND,
                                         .pdid = transfer->pdid,
                                         .stream = transfer->stream,
                                         .time_ns = at_ns}};
    pw_engine_send_control(ni, transfer->peer, &frame);
}

/* Nothing happens here before the next event, nor before an answer that may come. */
static pw_time nothing_before_ns(const pw_ni *ni)
{
    pw_time at_ns = pw_event_queue_next_ns(ni->events);
    pw_time answer_ns = ni->firmware.transactions.earliest_answer_ns;
    if (answer_ns < at_ns) at_ns = answer_ns;
    return ni->copy_answer_ns < at_ns ? ni->copy_answer_ns : at_ns;
}

void pw_bounds_announce(pw_ni *ni)
{
    pw_bounds *bounds = &ni->bounds;
    if (!bounds->num_wanted || ni->decision_wanted) return;
    pw_time floor_ns = nothing_before_ns(ni), earliest_ns = PW_NEVER;
    if (floor_ns < bounds->earliest_ns) return;
    uint32_t num_kept = 0;
    for (uint32_t i = 0; i < bounds->num_wanted; i++) {
        const pw_wanted_bound wanted = bounds->wanted[i];
        const pw_transfer *transfer = pw_transfer_on(&ni->firmware, wanted.channel);
        if (!transfer->active || transfer->stream != wanted.stream) continue;
        if (floor_ns < wanted.leaves_ns) {
            earliest_ns = pw_earlier(earliest_ns, wanted.leaves_ns);
            bounds->wanted[num_kept++] = wanted;
        } else { /* until the destination asks for more */
            const pw_time latency_ns = pw_ni_path(ni, transfer->peer)->latency_ns;
            const pw_time last_ns = PW_FRAME_TIME_MAX - latency_ns;
            send_bound(ni, transfer, pw_earlier(floor_ns, last_ns) + latency_ns);
        }
    }
    bounds->num_wanted = num_kept;
    bounds->earliest_ns = earliest_ns;
}

/* --- destination --- */

/* The ERR; with ERR_LATER only the word that it does not come before. */
static void send_err(pw_ni *ni, const pw_err_order *order, enum pw_frame_kind kind)
{
    pw_time arrives_ns = order->at_ns + pw_ni_path(ni, order->source_node)->latency_ns;
    pw_control_frame frame = {
        .header = {.kind = (uint8_t)kind,
                   .pdid = order->pdid,
                   .stream = (uint32_t)(order->identity >> 32),
                   .time_ns = arrives_ns},
        .block_idx = (uint32_t)order->identity,
        .transaction_id = order->transaction_id,
        .sequence = order->sequence,
        .argument0 = kind == PW_FRAME_ERR ? pw_err_word(order->pdid, order->transaction_id,
                                                        order->sequence, order->pdid)
                                          : (uint64_t)arrives_ns,
    };
    pw_engine_send_control(ni, order->source_node, &frame);
}

/* Those that are final, of the ones before known_ns. */
static void send_errs(pw_ni *ni, pw_time known_ns)
{
    pw_err_order order;
    while (pw_library_thread_next_err(&ni->driver.user, known_ns, &order))
        if (!order.is_lost) send_err(ni, &order, PW_FRAME_ERR);
}

/* Say before when none of the transfer's ERRs comes, when one is still to come. */
static void tell_later(pw_ni *ni, const pw_inbound *inbound)
{
    pw_err_order order;
    if (pw_library_thread_earliest_err(&ni->driver.core->thread, &inbound->bound_ns, &order))
        send_err(ni, &order, PW_FRAME_ERR_LATER);
}

void pw_bounds_reach(pw_ni *ni, pw_time known_ns)
{
    pw_bounds *bounds = &ni->bounds;
    if (bounds->err_ns > known_ns) return;
    bounds->known_ns = known_ns;
    send_errs(ni, known_ns);
    bounds->err_ns = pw_later(pw_library_thread_next_err_ns(&ni->driver.user), known_ns + 1);
}

void pw_bounds_refused(pw_ni *ni, const pw_inbound *inbound)
{
    if (ni->firmware.is_in_order) {
        ni->bounds.err_ns = pw_library_thread_next_err_ns(&ni->driver.user);
        return;
    }
    send_errs(ni, inbound->bound_ns);
    if (pw_driver_is_brief(&ni->driver)) tell_later(ni, inbound);
}

void pw_bounds_note(pw_ni *ni, pw_inbound *inbound, pw_time at_ns)
{
    if (at_ns <= inbound->bound_ns) return;
    inbound->bound_ns = at_ns;
    if (inbound->has_page_ins && !ni->firmware.is_in_order) send_errs(ni, at_ns);
}

int pw_bounds_on_frame(pw_ni *ni, const pw_frame_header *frame)
{
    pw_inbound *inbound = pw_inbound_find(ni, frame->source_node, frame->stream);
    ni->counters.stale_frames += !inbound;
    if (!inbound) return PW_OK;
    pw_bounds_note(ni, inbound, frame->time_ns);
    tell_later(ni, inbound);
    return PW_OK;
}

void pw_bounds_release(pw_ni *ni, pw_inbound *inbound)
{
    if (!inbound->has_page_ins || ni->firmware.is_in_order) return;
    pw_library_thread_release(&ni->driver.core->thread, &inbound->bound_ns);
    send_errs(ni, PW_NEVER);
}

/* Nobody else on this node now, and enough blocks for it to matter. With HUPCF = 0 a present page
 * is no promise; with a single walker a walk may have to wait; a limited receive buffer may refuse
 * the block. */
static bool may_grant(const pw_ni *ni, const pw_inbound *inbound)
{
    const pw_settings *settings = ni->settings;
    bool is_certain = ni->translation->ops->is_certain && settings->hupcf &&
                      !settings->receive_buffer_blocks && !ni->impairments.any &&
                      ni->smmu.num_walkers > 1;
    return settings->lookahead_blocks > 0 && is_certain && inbound->is_read &&
           inbound->num_blocks > 2 && ni->num_arriving == 1 && inbound->peer != ni->node &&
           !ni->shares_node;
}

/* Translate the pages of a block ahead. False at the first page that would fault. */
static bool grant_block(pw_ni *ni, pw_inbound *inbound, uint32_t block_idx)
{
    uint64_t block_max = (uint64_t)ni->settings->block_bytes;
    uint32_t first_bytes =
        pw_first_block_bytes(block_max, inbound->destination_address, inbound->num_bytes);
    uint64_t address =
        inbound->destination_address + pw_block_offset(block_max, first_bytes, block_idx);
    uint64_t first_page = pw_page_of(address);
    uint64_t last_page = pw_page_of(
        address + pw_block_bytes(block_max, inbound->num_bytes, first_bytes, block_idx) - 1);
    uint64_t end_page = pw_page_of(inbound->destination_address + inbound->num_bytes - 1) + 1;
    pw_access access = {.end_page = end_page, .at_ns = PW_NEVER, .pdid = inbound->pdid};
    pw_access_result result;
    access.is_translated = true;
    for (access.page = first_page; access.page <= last_page; access.page++) {
        pw_translate(ni->translation, &inbound->walk, &access, &result);
        if (result.outcome != PW_ACCESS_PRESENT ||
            pw_presence_present_ns(&ni->driver.presence, access.page) != INT64_MIN)
            return false;
    }
    access.is_translated = false;
    if (!inbound->translations) inbound->translations = malloc(2 * PW_GRANT_BLOCKS);
    if (!inbound->translations) return false;
    for (access.page = first_page; access.page <= last_page; access.page++) {
        pw_translate(ni->translation, &inbound->walk, &access, &result);
        if (access.page == first_page)
            inbound->translations[block_idx % (2 * PW_GRANT_BLOCKS)] = (uint8_t)result.how;
    }
    return true;
}

bool pw_lookahead_holds(pw_ni *ni, pw_inbound *inbound, const pw_block_frame *block)
{
    if (block->block_idx >= inbound->granted_end || block->sequence != 0 ||
        inbound->granted_generation != pw_memory_generation(ni->memory))
        return false;
    uint64_t last_page = pw_page_of(block->destination_address + block->block_bytes - 1);
    for (uint64_t page = pw_page_of(block->destination_address); page <= last_page; page++)
        if (pw_residency_check_mapping(&inbound->walk, ni->memory, page) < 0) return false;
    return true;
}

void pw_lookahead_grant(pw_ni *ni, pw_inbound *inbound)
{
    uint32_t num_blocks =
        inbound->num_blocks -
        (inbound->notification.address != 0); /* the last one may fault for its notification */
    if (!may_grant(ni, inbound) || inbound->granted_end == num_blocks) return;
    if (inbound->granted_end && inbound->granted_generation != pw_memory_generation(ni->memory))
        return; /* no more */
    inbound->granted_generation = pw_memory_generation(ni->memory);
    uint32_t first = inbound->num_delivered,
             end =
                 inbound->granted_end; /* those under way again: the source keeps the last grant */
    while (end < num_blocks && end - first < PW_GRANT_BLOCKS && grant_block(ni, inbound, end))
        end++;
    pw_grant_frame *frame = end > inbound->granted_end
                                ? pw_burst_append(ni->bursts, inbound->peer, sizeof *frame)
                                : NULL;
    if (!frame) return;
    *frame = (pw_grant_frame){
        .header = {.magic = PW_FRAME_MAGIC,
                   .kind = PW_FRAME_GRANT,
                   .frame_bytes = sizeof *frame,
                   .source_node = ni->node,
                   .pdid = inbound->pdid,
                   .stream = inbound->stream},
        .first_block = first,
        .num_blocks = end - first,
    };
    for (uint32_t i = 0; i < end - first; i++)
        frame->translations[i / 16] |=
            (uint64_t)inbound->translations[(first + i) % (2 * PW_GRANT_BLOCKS)] << 4 * (i % 16);
    pw_ni_seal(ni, inbound->peer, &frame->header, sizeof *frame);
    inbound->granted_end = end;
}

static pw_grant_frame *grant_slot(pw_ni *ni, uint32_t peer, uint32_t stream)
{
    return &ni->grants[(peer * 31 + stream) % PW_GRANTS_KEPT];
}

int pw_lookahead_on_grant(pw_ni *ni, const pw_frame_header *frame)
{
    const pw_grant_frame *grant = (const pw_grant_frame *)frame;
    if (!ni->grants) ni->grants = calloc(PW_GRANTS_KEPT, sizeof *ni->grants);
    if (ni->grants && grant->num_blocks <= PW_GRANT_BLOCKS)
        *grant_slot(ni, frame->source_node, frame->stream) = *grant;
    return PW_OK;
}

bool pw_lookahead_foresee(pw_ni *ni, const pw_transfer *transfer, const pw_transaction *transaction,
                          const pw_block_frame *frame, pw_time *ack_ns)
{
    if (!ni->grants) return false;
    const pw_grant_frame *grant = grant_slot(ni, transfer->peer, transfer->stream);
    uint32_t i = transaction->block_idx - grant->first_block;
    if (grant->header.stream != transfer->stream || grant->header.source_node != transfer->peer ||
        i >= grant->num_blocks || transaction->sequence != 0 || ni->impairments.any ||
        !pw_firmware_may_predict(&ni->firmware, transaction->channel))
        return false;
    uint32_t how = grant->translations[i / 16] >> 4 * (i % 16) & 15;
    *ack_ns = pw_later(frame->last_packet_ns, frame->header.time_ns) +
              pw_translation_latency_ns(ni->translation, how) +
              pw_ni_path(ni, transfer->peer)->latency_ns;
    return *ack_ns <= transaction->deadline_ns;
}

/* ---- reads that are foreseen: a source that has nothing to do says so with its message, and gives
 * the bytes along. Whoever reads them now, and before anything else is asked of it, gets them so
 * much later as any such read. The reader, who has seen two of these, takes the block for arrived,
 * and says so; then the source does what it has promised. ---- */

#define KNOWN 64u     /* kinds of reads that a reader remembers */
#define SEEN_ENOUGH 2 /* of a kind, all alike */

/* A kind of read: its block, with the times behind that of its request. */
struct pw_known_read {
    pw_block_frame block;
    uint32_t num_seen; /* 0: none */
};

/* --- source --- */

/* With settings under which all that a lone read takes follows from its request. */
static bool is_certain(const pw_ni *ni)
{
    const pw_settings *settings = ni->settings;
    const pw_translation_unit *unit = ni->translation;
    return settings->lookahead_blocks > 0 && unit->ops->would_hit && unit->ops->is_certain &&
           settings->hupcf && !settings->stall && !unit->receiver.goes_back &&
           settings->engine != PW_ENGINE_ZDMA && !settings->rate_limit_mbps &&
           ni->smmu.num_walkers > 1 && !ni->smmu.tlbs->prefetch && !ni->impairments.any &&
           !ni->has_no_bytes && !ni->links && !ni->shares_node && !ni->firmware.is_in_order;
}

/* *from_ns: since when, as far as a read of the peer's can feel it. */
static bool is_at_rest(pw_ni *ni, uint32_t peer, pw_time *from_ns)
{
    if (ni->decision_wanted || ni->held.first || ni->num_copies_under_way ||
        ni->bounds.num_wanted || !pw_firmware_is_at_rest(&ni->firmware, from_ns))
        return false;
    *from_ns = pw_later(*from_ns, pw_calendar_idle_since(&ni->engines->send, PW_NEVER));
    *from_ns = pw_later(*from_ns, pw_calendar_idle_since(&pw_ni_path(ni, peer)->link, PW_NEVER));
    return true;
}

uint32_t pw_ni_promise_bytes(const pw_ni *ni, uint64_t num_bytes)
{
    if (num_bytes == 0 || num_bytes > (uint64_t)ni->settings->block_bytes) return 0;
    const uint32_t num_packets = (uint32_t)((num_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES);
    return (uint32_t)sizeof(pw_promise) + pw_block_full_bytes(num_packets, (uint32_t)num_bytes);
}

/* Will the pages be there, and how is the first one translated? */
static bool is_readable(pw_ni *ni, uint16_t pdid, uint64_t address, uint64_t num_bytes,
                        uint32_t *how)
{
    const uint64_t first_page = pw_page_of(address);
    const uint64_t end_page = pw_page_of(address + num_bytes - 1) + 1;
    if (!pw_memory_stays(ni->memory, first_page, end_page - first_page)) return false;
    for (uint64_t page = first_page; page < end_page; page++)
        if (pw_presence_present_ns(&ni->driver.presence, page) != INT64_MIN) return false;
    return ni->translation->ops->would_hit(ni->translation, pdid, first_page, how);
}

uint8_t *pw_ni_promise(pw_ni *ni, uint16_t pdid, uint32_t peer, uint64_t address,
                       uint64_t num_bytes, uint32_t offset, uint32_t bytes_behind)
{
    const uint32_t num_packets = (uint32_t)((num_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES);
    const uint32_t whole_bytes = offset + pw_ni_promise_bytes(ni, num_bytes) + bytes_behind;
    uint32_t how;
    pw_time from_ns;
    if (!is_certain(ni) || !is_at_rest(ni, peer, &from_ns) ||
        !is_readable(ni, pdid, address, num_bytes, &how))
        return NULL;
    uint8_t *frame = pw_burst_alone(ni->bursts, peer, whole_bytes, whole_bytes);
    if (!frame) return NULL;
    pw_promise *promise = (pw_promise *)(void *)(frame + offset);
    *promise = (pw_promise){.from_ns = from_ns,
                            .num_bytes = (uint32_t)num_bytes,
                            .transaction_id = pw_transactions_next_id(&ni->firmware.transactions),
                            .pdid = pdid,
                            .how = (uint16_t)how};
    uint8_t *block = (uint8_t *)(promise + 1);
    const uint32_t covered_bytes = pw_block_covered_bytes(ni, num_packets);
    memcpy(block + covered_bytes, (const void *)(uintptr_t)address, num_bytes);
    memset(block + covered_bytes + num_bytes, 0, -(covered_bytes + num_bytes) % 8);
    ni->ahead.is_promised = true;
    return frame;
}

void pw_ni_set_keeper(pw_ni *ni, void (*keep)(void *owner), void *owner)
{
    ni->ahead.keep = keep;
    ni->ahead.owner = owner;
}

void pw_ni_keep(pw_ni *ni)
{
    ni->ahead.is_promised = false;
    ni->ahead.keep(ni->ahead.owner);
}

static void was_wrong(pw_ni *ni)
{
    ni->ahead.was_wrong = true;
    pw_ni_latch(ni, PW_ERR_INVALID);
}

void pw_ni_keep_promise(pw_ni *ni, uint32_t reader, const pw_read_request_frame *request,
                        const pw_block_frame *taken)
{
    pw_ahead *ahead = &ni->ahead;
    ahead->kept = *taken;
    ahead->how = taken->header.how;
    ahead->is_kept = true;
    ahead->reader = reader;
    (void)pw_ni_rx_burst(ni, reader, (const uint8_t *)request, sizeof *request);
    pw_engine_run_kept(ni);
    ni->counters.lookahead_reads++;
    if (ahead->is_kept) was_wrong(ni);
}

bool pw_ahead_is_kept(const pw_ni *ni, const pw_transfer *transfer)
{
    const pw_ahead *ahead = &ni->ahead;
    return ahead->is_kept && ahead->reader == transfer->peer &&
           ahead->kept.header.stream == transfer->stream;
}

void pw_ahead_left(pw_ni *ni)
{
    pw_ahead *ahead = &ni->ahead;
    ahead->left.is_unsealed = 1;
    ahead->is_kept = false;
    if (memcmp(&ahead->left, &ahead->kept, sizeof ahead->left)) was_wrong(ni);
}

bool pw_ni_promise_was_wrong(const pw_ni *ni) { return ni->ahead.was_wrong; }

void pw_ahead_asked(pw_ni *ni, const pw_read_request_frame *request)
{
    pw_ahead *ahead = &ni->ahead;
    const uint32_t peer = request->header.source_node;
    uint32_t how;
    pw_time from_ns;
    ahead->is_asked = !ahead->is_kept && is_certain(ni) && request->num_bytes &&
                      is_at_rest(ni, peer, &from_ns) && from_ns <= request->header.time_ns &&
                      ni->translation->ops->would_hit(ni->translation, request->header.pdid,
                                                      pw_page_of(request->source_address), &how);
    if (!ahead->is_asked) return;
    ahead->reader = peer;
    ahead->stream = request->header.stream;
    ahead->how = (uint16_t)how;
}

bool pw_ahead_was_asked(const pw_ni *ni, const pw_transfer *transfer, pw_time delay_ns)
{
    const pw_ahead *ahead = &ni->ahead;
    return ahead->is_asked && ahead->reader == transfer->peer &&
           ahead->stream == transfer->stream && transfer->num_blocks == 1 &&
           delay_ns == pw_translation_latency_ns(ni->translation, ahead->how);
}

/* --- reader --- */

void pw_ahead_begin(pw_ni *ni)
{
    if (!ni->ahead.known) ni->ahead.known = calloc(KNOWN, sizeof *ni->ahead.known);
}

/* NULL: nothing is remembered. */
static struct pw_known_read *known_read(pw_ni *ni, uint32_t peer, uint64_t num_bytes, uint16_t how)
{
    const uint64_t kind = (uint64_t)peer << 36 ^ num_bytes << 4 ^ how;
    return ni->ahead.known ? &ni->ahead.known[kind * UINT64_C(0x9e3779b97f4a7c15) >> 58] : NULL;
}

/* What is the same for all reads of a kind. */
static pw_block_frame kind_of(const pw_block_frame *block, pw_time requested_ns)
{
    pw_block_frame kind = *block;
    kind.header.crc = 0;
    kind.header.stream = 0;
    kind.header.time_ns -= requested_ns;
    kind.last_packet_ns -= requested_ns;
    kind.transaction_id = 0;
    kind.is_unsealed = 1; /* both see the memory that it stands in */
    kind.destination_address = kind.transfer_address = 0;
    return kind;
}

void pw_ahead_learn(pw_ni *ni, const pw_block_frame *block)
{
    const pw_frame_header *header = &block->header;
    const pw_inbound *inbound = pw_inbound_find(ni, header->source_node, header->stream);
    if (!inbound || !inbound->is_read || block->sequence || block->notification.address) return;
    struct pw_known_read *known =
        known_read(ni, header->source_node, block->transfer_bytes, header->how);
    if (!known) return;
    const pw_block_frame kind = kind_of(block, inbound->requested_ns);
    const bool is_alike = known->num_seen && !memcmp(&known->block, &kind, sizeof kind);
    known->num_seen = is_alike ? known->num_seen + (known->num_seen < SEEN_ENOUGH) : 1;
    known->block = kind;
}

const pw_read_request_frame *pw_ni_foresee(pw_ni *ni, uint32_t peer, const pw_promise *promise,
                                           pw_block_frame *block)
{
    const pw_read_request_frame *request = pw_burst_only(ni->bursts, peer, sizeof *request);
    if (!request || request->header.kind != PW_FRAME_READ_REQUEST || !promise->num_bytes ||
        request->header.flags || request->notification.address ||
        request->header.pdid != promise->pdid || request->num_bytes != promise->num_bytes ||
        request->header.time_ns < promise->from_ns ||
        pw_num_blocks((uint64_t)ni->settings->block_bytes, request->destination_address,
                      request->num_bytes) != 1)
        return NULL;
    const struct pw_known_read *known = known_read(ni, peer, request->num_bytes, promise->how);
    if (!known || known->num_seen < SEEN_ENOUGH || known->block.header.source_node != peer ||
        known->block.transfer_bytes != request->num_bytes ||
        known->block.header.how != promise->how || known->block.header.pdid != request->header.pdid)
        return NULL;
    *block = known->block;
    block->header.stream = request->header.stream;
    block->header.time_ns += request->header.time_ns;
    block->last_packet_ns += request->header.time_ns;
    block->transaction_id = promise->transaction_id;
    block->destination_address = block->transfer_address = request->destination_address;
    return request;
}

void pw_ni_take_request_back(pw_ni *ni, uint32_t peer)
{
    pw_burst_take_back(ni->bursts, peer, sizeof(pw_read_request_frame));
}
