/* What the emulation knows before it is physically here: bounds that source and destination of a
 * transfer exchange, and answers that are foreseen. The machine has nothing of it, and virtual
 * times are the same without it. */
#include "native/array.h"
#include "ni/state.h"
#include "r5sched/segmentation.h"
#include <stdlib.h>

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
           inbound->num_blocks > 2 && ni->num_inbounds == 1 && inbound->peer != ni->node &&
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
    pw_ni_seal(ni, &frame->header, sizeof *frame);
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
