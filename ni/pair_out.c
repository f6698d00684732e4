#include "ni/interleaving.h"
#include "ni/pair.h"

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
    pw_burst_reserve(ni->bursts, ni->firmware.transfers[action->channel].peer,
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
    pw_frame_seal(&first->header, (uint32_t)sizeof *first + ((first->num_packets * 4u + 7u) & ~7u));
    pw_time end_ns = pw_pair_second_end_ns(first, frame);
    return end_ns < frame->last_packet_ns ? end_ns : frame->last_packet_ns;
}
