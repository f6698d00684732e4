/* Two blocks of a transfer that their source sent together, with ni.interleave = packet. Blocks are
 * sent and timed one after the other, which makes no difference while no page is absent. Where one
 * is, the packets of both are timed as they take turns on the link, and reported in that order: the
 * NI FIFO compares with its last entry only. */
#include "ni/passage.h"
#include "ni/state.h"

static bool starts_first_time(const pw_action *action)
{
    return action->kind == PW_ACTION_START_BLOCK &&
           action->transaction->state != PW_TRANSACTION_FREE && action->transaction->sequence == 0;
}

void pw_pair_expect(pw_ni *ni, const pw_action *action, const pw_action *next)
{
    if (action->kind == PW_ACTION_START_BLOCK && action->transaction == ni->pairing.second) return;
    ni->pairing = (pw_pairing){0};
    bool is_pair = !ni->impairments.any && next && starts_first_time(action) &&
                   starts_first_time(next) && next->channel == action->channel &&
                   next->transaction->block_idx == action->transaction->block_idx + 1;
    if (!is_pair) return;
    /* in one burst, whenever the host takes the bursts */
    pw_burst_reserve(ni->bursts, pw_transfer_on(&ni->firmware, action->channel)->peer,
                     2 * (uint32_t)PW_BLOCK_FRAME_MAX);
    ni->pairing = (pw_pairing){.first = action->transaction, .second = next->transaction};
}

pw_time pw_pair_join(pw_ni *ni, const pw_transaction *transaction, pw_block_frame *frame)
{
    pw_pairing *pairing = &ni->pairing;
    pw_block_frame *first = pairing->frame;
    if (transaction == pairing->first) pairing->frame = frame;
    if (transaction != pairing->second || !first) return frame->last_packet_ns;
    *pairing = (pw_pairing){0};
    bool is_behind = (const uint8_t *)frame == (const uint8_t *)first + first->header.frame_bytes &&
                     frame->header.time_ns > first->header.time_ns;
    if (!is_behind || pw_pair_head(first, frame) == first->num_packets)
        return frame->last_packet_ns;
    first->header.flags |= PW_FLAG_PAIR;
    pw_ni_seal(ni, pw_transfer_on(&ni->firmware, transaction->channel)->peer, &first->header,
               pw_block_covered_bytes(ni, first->num_packets));
    pw_time end_ns = pw_pair_second_end_ns(first, frame);
    return end_ns < frame->last_packet_ns ? end_ns : frame->last_packet_ns;
}

bool pw_pair_is_sane(const pw_ni *ni, const pw_block_frame *first, const pw_block_frame *second)
{
    const pw_block_frame *blocks[] = {first, second};
    for (int i = 0; i < 2; i++) {
        uint64_t all = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - blocks[i]->num_packets);
        if (blocks[i]->packet_mask != all || blocks[i]->held_ns ||
            (blocks[i]->header.flags & PW_FLAG_COPY))
            return false;
    }
    return !ni->settings->stall && !pw_asks_host(ni->settings) &&
           second->header.stream == first->header.stream &&
           second->header.pdid == first->header.pdid && second->block_idx == first->block_idx + 1 &&
           second->transfer_address == first->transfer_address &&
           second->transfer_bytes == first->transfer_bytes &&
           second->packet_interval_ps == first->packet_interval_ps &&
           second->header.time_ns > first->header.time_ns &&
           pw_pair_head(first, second) < first->num_packets;
}

/* Is a page of the block not there when the pair begins to arrive? Looks only: books nothing. */
static bool lacks_page(pw_ni *ni, const pw_passage *way, pw_time at_ns)
{
    const pw_block_frame *block = way->arrival.block;
    pw_access access = {.end_page =
                            pw_page_of(block->transfer_address + block->transfer_bytes - 1) + 1,
                        .at_ns = at_ns,
                        .pdid = block->header.pdid,
                        .is_translated = true};
    uint64_t last_page = pw_page_of(block->destination_address + block->block_bytes - 1);
    for (access.page = pw_page_of(block->destination_address); access.page <= last_page;
         access.page++) {
        pw_access_result result;
        pw_translate(ni->translation, &way->arrival.inbound->walk, &access, &result);
        if (result.outcome == PW_ACCESS_FAULT) return true;
        access.is_further = true;
    }
    return false;
}

/* With HUPCF = 0: does an active fault terminate a packet of either? Their slots are the same,
 * interleaved or not. */
static bool meets_fault(const pw_ni *ni, const pw_passage ways[2])
{
    const pw_block_frame *block = ways[0].arrival.block;
    uint64_t num_slots = (uint64_t)block->num_packets + ways[1].arrival.block->num_packets;
    if (ni->settings->hupcf) return false;
    for (uint64_t slot = 0; slot < num_slots; slot++)
        if (pw_smmu_is_blocked(&ni->smmu, ways[0].bank,
                               ways[0].start_ns +
                                   (pw_time)(slot * block->packet_interval_ps / 1000)))
            return true;
    return false;
}

/* Where the packets of both stand. Each block ends with its last packet; the pair ends when it
 * would have, one block after the other. */
static void interleave(pw_ni *ni, pw_passage ways[2])
{
    const pw_block_frame *first = ways[0].arrival.block, *second = ways[1].arrival.block;
    uint32_t head = pw_pair_head(first, second);
    pw_time latency_ns = pw_ni_path(ni, first->header.source_node)->latency_ns;
    ways[0].lane = (pw_lane){.head = head, .num_others = second->num_packets};
    ways[1].lane = (pw_lane){.is_second = true, .head = head, .num_others = first->num_packets};
    ways[1].start_ns = ways[0].start_ns;
    for (int i = 0; i < 2; i++) {
        pw_arrival *arrival = &ways[i].arrival;
        uint32_t last = arrival->block->num_packets - 1;
        pw_time last_ns = pw_passage_packet_ns(&ways[i], last);
        bool is_early = i == 1 && pw_lane_slot(&ways[1].lane, last) + 1 <
                                      first->num_packets + second->num_packets;
        arrival->end_ns = is_early ? last_ns : pw_later(last_ns, arrival->end_ns);
        arrival->sent_ns = arrival->end_ns - latency_ns;
    }
}

/* Every packet that is terminated, in the order of time; which of the two blocks has some. */
static void report_faults(pw_ni *ni, const pw_passage ways[2], const pw_verdict by[2],
                          bool faulted[2])
{
    uint32_t next[2], num_packets[2];
    pw_fault faults[2];
    for (int i = 0; i < 2; i++) {
        bool takes_part = by[i].kind == PW_VERDICT_PASS && !ways[i].granted;
        faults[i] = pw_passage_fault(ni, &ways[i].arrival);
        next[i] = 0;
        num_packets[i] = takes_part ? ways[i].arrival.block->num_packets : 0;
    }
    while (next[0] < num_packets[0] || next[1] < num_packets[1]) {
        int i = next[0] == num_packets[0] ||
                (next[1] < num_packets[1] &&
                 pw_passage_packet_ns(&ways[1], next[1]) < pw_passage_packet_ns(&ways[0], next[0]));
        faulted[i] |= pw_faults_report_packet(ni, &ways[i], &faults[i], next[i]++);
    }
    for (int i = 0; i < 2; i++)
        if (num_packets[i]) pw_faults_count_pages(ni, &ways[i]);
}

static void refuse(pw_ni *ni, const pw_passage *way)
{
    ni->arrival = way->arrival;
    pw_destination_refuse(ni);
}

/* The second block's bound is told behind the reports: its packets arrive before it. */
static void process_interleaved(pw_ni *ni, pw_passage ways[2])
{
    pw_verdict by[2];
    bool faulted[2] = {false, false};
    interleave(ni, ways);
    pw_passage_note(ni, &ways[0]);
    for (int i = 0; i < 2; i++) by[i] = pw_passage_translate(ni, &ways[i]);
    report_faults(ni, ways, by, faulted);
    if (faulted[0] || faulted[1]) pw_driver_service(&ni->driver, &ni->service);
    if (faulted[0]) refuse(ni, &ways[0]);
    pw_passage_note(ni, &ways[1]);
    if (faulted[1]) refuse(ni, &ways[1]);
    for (int i = 0; i < 2; i++) {
        if (faulted[i]) continue;
        if (by[i].kind == PW_VERDICT_PASS) by[i] = pw_passage_deliver(ni, &ways[i]);
        pw_verdict_answer(ni, &ways[i].arrival, by[i]);
    }
}

void pw_destination_pair(pw_ni *ni, const pw_block_frame *first, const pw_block_frame *second)
{
    pw_passage ways[2] = {pw_passage_of(ni, first), pw_passage_of(ni, second)};
    pw_verdict by[2];
    bool both_pass = true;
    for (int i = 0; i < 2; i++) {
        by[i] = pw_passage_enter(ni, &ways[i]);
        if (by[i].kind == PW_VERDICT_PASS) by[i] = pw_passage_check(ni, &ways[i]);
        both_pass = both_pass && by[i].kind == PW_VERDICT_PASS;
    }
    if (both_pass && (lacks_page(ni, &ways[0], ways[0].start_ns) ||
                      lacks_page(ni, &ways[1], ways[0].start_ns) || meets_fault(ni, ways))) {
        process_interleaved(ni, ways);
        return;
    }
    for (int i = 0; i < 2; i++) {
        pw_passage_note(ni, &ways[i]);
        if (by[i].kind == PW_VERDICT_PASS) by[i] = pw_passage_finish(ni, &ways[i]);
        pw_verdict_answer(ni, &ways[i].arrival, by[i]);
    }
}
