/* Faults of the network that the source of a block acts out: its send engine knows the plan, so a
 * block that the network loses, damages, doubles or keeps is made that way as it leaves. Copies are
 * whole frames with times of their own. What arrives later than it would is put aside and leaves
 * physically when the source's clock is at its departure: the destination acts on a frame as soon
 * as it is there, so a source's frames must come in the order of their arrival. A frame whose
 * transfer is over by then is dropped: the destination has closed the transfer and would ignore it.
 */
#include "ni/state.h"
#include <stdlib.h>
#include <string.h>

static void injected(pw_ni *ni, enum pw_impairment_id site, uint16_t transaction_id, pw_time at_ns)
{
    pw_trace_add(&ni->trace, at_ns, PW_TRACE_INJECTED, (uint64_t)site, transaction_id);
}

int pw_ni_plan_impairment(pw_ni *ni, uint32_t site, const pw_impairment_site *plan)
{
    return pw_impairments_plan(&ni->impairments, ni->node, site, plan);
}

int pw_ni_read_impairment(const pw_ni *ni, uint32_t site, pw_impairment_site *out)
{
    if (site >= PW_IMPAIRMENT_SITES) return PW_ERR_INVALID;
    *out = ni->impairments.sites[site];
    return PW_OK;
}

bool pw_answer_is_lost(pw_ni *ni, enum pw_impairment_id site, const pw_block_frame *block,
                       uint32_t part, pw_time at_ns)
{
    uint32_t copy = block->header.flags & PW_FLAG_COPY ? 1u << 16 : 0;
    uint64_t key = pw_impairment_key(block->header.source_node,
                                     pw_identity(block->header.stream, block->block_idx),
                                     block->sequence, part | copy);
    if (!pw_impairment_draw(&ni->impairments, site, key)) return false;
    injected(ni, site, block->transaction_id, at_ns);
    return true;
}

uint64_t pw_network_lose(pw_ni *ni, enum pw_impairment_id site, uint64_t where, uint32_t peer,
                         pw_transaction *transaction, uint64_t identity, uint64_t mask,
                         pw_time at_ns)
{
    const uint64_t place = where ? pw_impairment_mix(where) : 0;
    uint64_t kept = mask;
    for (uint64_t left = mask; left; left &= left - 1) {
        uint32_t packet = (uint32_t)__builtin_ctzll(left);
        const uint64_t key =
            pw_impairment_key(peer, identity, transaction->sequence, packet) ^ place;
        if (!pw_impairment_draw(&ni->impairments, site, key)) continue;
        kept &= ~(UINT64_C(1) << packet);
        injected(ni, site, transaction->id, at_ns);
    }
    transaction->spoiled |= kept != mask;
    return kept;
}

bool pw_network_delay(pw_ni *ni, uint32_t peer, pw_transaction *transaction, uint64_t identity,
                      pw_time *first_ns, pw_time *last_ns, pw_time *held_ns)
{
    *held_ns = 0;
    if (!pw_impairment_draw(&ni->impairments, PW_IMPAIRMENT_DELAY,
                            pw_impairment_key(peer, identity, transaction->sequence, 0)))
        return false;
    injected(ni, PW_IMPAIRMENT_DELAY, transaction->id, transaction->sending_until_ns);
    *held_ns = ni->impairments.sites[PW_IMPAIRMENT_DELAY].amount_ns;
    if (!*held_ns) return false;
    *first_ns += *held_ns;
    *last_ns += *held_ns;
    if (*last_ns + pw_ni_path(ni, peer)->latency_ns <=
        pw_firmware_deadline(&ni->firmware, transaction))
        return false;
    transaction->spoiled = true;
    return true;
}

typedef struct pw_kept_frame {
    struct pw_kept_frame *next; /* copy that has left after this one */
    enum pw_impairment_id site;
    uint32_t peer, channel;
    pw_time answer_ns;           /* its answers are not here before */
    _Alignas(8) uint8_t frame[]; /* a whole one */
} pw_kept_frame;

pw_block_frame *pw_network_keep(pw_ni *ni, enum pw_impairment_id site, uint32_t peer,
                                uint32_t channel, uint32_t frame_bytes, pw_time arrival_ns)
{
    pw_kept_frame *kept = malloc(sizeof *kept + frame_bytes);
    if (!kept) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        return NULL;
    }
    *kept = (pw_kept_frame){.site = site, .peer = peer, .channel = channel};
    pw_event departure = {.time_ns = arrival_ns - pw_ni_path(ni, peer)->latency_ns,
                          .kind = PW_EVENT_DEPARTURE,
                          .subject = (uint64_t)(uintptr_t)kept};
    if (pw_event_queue_push(ni->events, &departure) < 0) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        free(kept);
        return NULL;
    }
    return (pw_block_frame *)(void *)kept->frame;
}

/* The transaction awaits its own answer; those to a copy are awaited here. */
static void await_answers(pw_ni *ni, pw_kept_frame *copy, pw_time answer_ns)
{
    copy->answer_ns = answer_ns;
    copy->next = NULL;
    pw_kept_frame **link = &ni->copies_under_way;
    while (*link) link = &(*link)->next;
    *link = copy;
    ni->num_copies_under_way++;
    if (answer_ns < ni->copy_answer_ns) ni->copy_answer_ns = answer_ns;
}

void pw_network_let_go(pw_ni *ni, const pw_event *event)
{
    pw_kept_frame *kept = (pw_kept_frame *)(uintptr_t)event->subject;
    const pw_block_frame *block = (const pw_block_frame *)(void *)kept->frame;
    const pw_transfer *transfer = pw_transfer_on(&ni->firmware, kept->channel);
    if (!transfer->active || transfer->stream != block->header.stream ||
        transfer->peer != kept->peer) {
        ni->impairments.sites[kept->site].late_after_end++;
        const pw_answer none = {.kind = PW_EVENT_NACK,
                                .transaction_id = block->transaction_id,
                                .sequence = block->sequence,
                                .identity = pw_identity(block->header.stream, block->block_idx),
                                .peer = kept->peer,
                                .at_ns = event->time_ns};
        if (!(block->header.flags & PW_FLAG_COPY)) pw_firmware_no_answer(&ni->firmware, &none);
        free(kept);
        return;
    }
    void *frame = pw_burst_append_part(ni->bursts, kept->peer, block->header.frame_bytes,
                                       pw_block_full_bytes(block->num_packets, block->block_bytes));
    if (!frame) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        free(kept);
        return;
    }
    memcpy(frame, block, block->header.frame_bytes);
    if (block->header.flags & PW_FLAG_COPY)
        await_answers(ni, kept, block->last_packet_ns + pw_ni_path(ni, kept->peer)->latency_ns);
    else free(kept);
}

static bool is_answer_to(const pw_control_frame *answer, const pw_kept_frame *copy)
{
    const pw_block_frame *block = (const pw_block_frame *)(const void *)copy->frame;
    return copy->peer == answer->header.source_node &&
           block->header.stream == answer->header.stream && block->block_idx == answer->block_idx &&
           block->transaction_id == answer->transaction_id && block->sequence == answer->sequence;
}

bool pw_network_has_copy(const pw_ni *ni, const pw_control_frame *answer)
{
    const pw_kept_frame *copy = ni->copies_under_way;
    while (copy && !is_answer_to(answer, copy)) copy = copy->next;
    return copy != NULL;
}

bool pw_network_settle(pw_ni *ni, uint32_t peer)
{
    pw_kept_frame **link = &ni->copies_under_way;
    while (*link && (*link)->peer != peer) link = &(*link)->next;
    pw_kept_frame *settled = *link;
    if (!settled) return false;
    *link = settled->next;
    free(settled);
    ni->num_copies_under_way--;
    ni->copy_answer_ns = PW_NEVER;
    for (const pw_kept_frame *copy = ni->copies_under_way; copy; copy = copy->next)
        if (copy->answer_ns < ni->copy_answer_ns) ni->copy_answer_ns = copy->answer_ns;
    return true;
}

void pw_network_forget(pw_ni *ni)
{
    pw_event event;
    while (ni->events && pw_event_queue_pop(ni->events, &event))
        if (event.kind == PW_EVENT_DEPARTURE) free((void *)(uintptr_t)event.subject);
    while (ni->copies_under_way) {
        pw_kept_frame *copy = ni->copies_under_way;
        ni->copies_under_way = copy->next;
        free(copy);
    }
}

void pw_network_alter(pw_ni *ni, uint32_t peer, uint32_t channel, pw_block_frame *frame)
{
    uint32_t covered_bytes = pw_block_covered_bytes(ni, frame->num_packets);
    uint64_t identity = pw_identity(frame->header.stream, frame->block_idx);
    uint8_t *payload = (uint8_t *)frame + covered_bytes;
    for (uint64_t left = frame->packet_mask; left; left &= left - 1) {
        uint32_t packet = (uint32_t)__builtin_ctzll(left);
        uint64_t key = pw_impairment_key(peer, identity, frame->sequence, packet);
        if (!pw_impairment_draw(&ni->impairments, PW_IMPAIRMENT_PACKET_CORRUPTION, key)) continue;
        uint32_t from = packet * PW_PACKET_BYTES;
        uint32_t num_bytes = frame->block_bytes - from < PW_PACKET_BYTES ? frame->block_bytes - from
                                                                         : PW_PACKET_BYTES;
        uint64_t bit = pw_impairment_mix(key) % (8 * num_bytes);
        if (ni->has_no_bytes) *pw_block_damaged(frame) |= UINT64_C(1) << packet;
        else payload[from + bit / 8] ^= (uint8_t)(1u << bit % 8);
        injected(ni, PW_IMPAIRMENT_PACKET_CORRUPTION, frame->transaction_id, frame->header.time_ns);
    }
    if (pw_impairment_draw(&ni->impairments, PW_IMPAIRMENT_DUPLICATION,
                           pw_impairment_key(peer, identity, frame->sequence, 0))) {
        pw_time later_ns = ni->impairments.sites[PW_IMPAIRMENT_DUPLICATION].amount_ns;
        pw_block_frame *copy =
            pw_network_keep(ni, PW_IMPAIRMENT_DUPLICATION, peer, channel, frame->header.frame_bytes,
                            frame->header.time_ns + later_ns);
        if (!copy) return;
        memcpy(copy, frame, frame->header.frame_bytes);
        copy->header.flags |= PW_FLAG_COPY;
        copy->header.time_ns += later_ns;
        copy->last_packet_ns += later_ns;
        copy->held_ns += later_ns;
        pw_ni_seal(ni, peer, &copy->header, covered_bytes);
        injected(ni, PW_IMPAIRMENT_DUPLICATION, frame->transaction_id, frame->header.time_ns);
    }
}
