/* Faults of the network that the source of a block acts out: its send engine knows the plan, so a block
 * that the network loses, damages, doubles or keeps is made that way as it leaves. Copies are whole
 * frames with times of their own. A block that the network keeps for longer than its timeout leaves
 * physically with the next attempt, so that both are seen in the order of their arrival. */
#include "native/engine_state.h"
#include <stdlib.h>
#include <string.h>

static void injected(pw_ni *ni, enum pw_fault_site_id site, uint16_t transaction_id, pw_time at_ns)
{
    pw_trace_add(&ni->trace, at_ns, PW_TRACE_INJECTED, (uint64_t)site, transaction_id);
}

int pw_ni_plan_fault(pw_ni *ni, uint32_t site, const pw_fault_site *plan)
{
    if (site == PW_FAULT_DELAY && plan->num && !ni->held_blocks) {
        ni->held_blocks = calloc(PW_TRANSACTIONS, sizeof *ni->held_blocks);
        if (!ni->held_blocks) return PW_ERR_NOMEM;
    }
    return pw_faults_plan(&ni->faults, ni->node, site, plan);
}

int pw_ni_read_fault(const pw_ni *ni, uint32_t site, pw_fault_site *out)
{
    if (site >= PW_FAULT_SITES) return PW_ERR_INVALID;
    *out = ni->faults.sites[site];
    return PW_OK;
}

bool pw_answer_is_lost(pw_ni *ni, enum pw_fault_site_id site, const pw_block_frame *block, uint32_t part, pw_time at_ns)
{
    uint32_t copy = block->header.flags & PW_FLAG_COPY ? 1u << 16 : 0;
    uint64_t key = pw_fault_key(block->header.source_node, pw_identity(block->header.stream, block->block_idx),
                                block->sequence, part | copy);
    if (!pw_fault_draw(&ni->faults, site, key)) return false;
    injected(ni, site, block->transaction_id, at_ns);
    return true;
}

uint64_t pw_network_lose(pw_ni *ni, uint32_t peer, pw_transaction *transaction, uint64_t identity, uint64_t mask, pw_time at_ns)
{
    uint64_t kept = mask;
    for (uint64_t left = mask; left; left &= left - 1) {
        uint32_t packet = (uint32_t)__builtin_ctzll(left);
        if (!pw_fault_draw(&ni->faults, PW_FAULT_PACKET_LOSS, pw_fault_key(peer, identity, transaction->sequence, packet)))
            continue;
        kept &= ~(UINT64_C(1) << packet);
        injected(ni, PW_FAULT_PACKET_LOSS, transaction->id, at_ns);
    }
    transaction->spoiled |= kept != mask;
    return kept;
}

bool pw_network_keep(pw_ni *ni, uint32_t peer, const pw_transaction *transaction, uint64_t identity,
                     pw_time *first_ns, pw_time *last_ns, pw_time *held_ns)
{
    *held_ns = 0;
    if (!pw_fault_draw(&ni->faults, PW_FAULT_DELAY, pw_fault_key(peer, identity, transaction->sequence, 0))) return false;
    injected(ni, PW_FAULT_DELAY, transaction->id, transaction->sending_until_ns);
    *held_ns = ni->faults.sites[PW_FAULT_DELAY].amount_ns;
    *first_ns += *held_ns;
    *last_ns += *held_ns;
    pw_time deadline_ns = transaction->deadline_ns;
    if (transaction->sending_until_ns > deadline_ns)            /* it will be set again then */
        deadline_ns = transaction->sending_until_ns + ni->settings.timeout_ns;
    if (*last_ns + ni->paths[peer].latency_ns <= deadline_ns) return false;
    ni->held_blocks[transaction->id % PW_TRANSACTIONS] = (pw_held_block){
        .identity = identity, .first_ns = *first_ns, .last_ns = *last_ns, .sequence = transaction->sequence, .held = true};
    return true;
}

/* Append a copy of the frame. */
static pw_block_frame *copy_frame(pw_ni *ni, uint32_t peer, const pw_block_frame *frame)
{
    pw_block_frame *copy = pw_burst_append(ni->bursts, peer, frame->header.frame_bytes);
    if (!copy) abort();             /* the host has no memory left */
    memcpy(copy, frame, frame->header.frame_bytes);
    return copy;
}

static void release_held(pw_ni *ni, uint32_t peer, pw_block_frame *frame, uint64_t identity, uint32_t covered_bytes)
{
    pw_held_block *held = &ni->held_blocks[frame->transaction_id % PW_TRANSACTIONS];
    if (!held->held || held->identity != identity) return;
    held->held = false;
    pw_block_frame *copy = copy_frame(ni, peer, frame);
    pw_block_frame *late = held->last_ns < frame->last_packet_ns ? frame : copy;    /* physically first what comes first */
    late->sequence = held->sequence;
    late->header.flags |= PW_FLAG_COPY;
    late->header.time_ns = held->first_ns;
    late->last_packet_ns = held->last_ns;
    late->held_ns = ni->faults.sites[PW_FAULT_DELAY].amount_ns;
    pw_frame_seal(&late->header, covered_bytes);
}

void pw_network_alter(pw_ni *ni, uint32_t peer, pw_block_frame *frame, uint32_t covered_bytes)
{
    uint64_t identity = pw_identity(frame->header.stream, frame->block_idx);
    uint8_t *payload = (uint8_t *)frame + covered_bytes;
    for (uint64_t left = frame->packet_mask; left; left &= left - 1) {
        uint32_t packet = (uint32_t)__builtin_ctzll(left);
        uint64_t key = pw_fault_key(peer, identity, frame->sequence, packet);
        if (!pw_fault_draw(&ni->faults, PW_FAULT_PACKET_CORRUPTION, key)) continue;
        uint32_t from = packet * PW_PACKET_BYTES;
        uint32_t num_bytes = frame->block_bytes - from < PW_PACKET_BYTES ? frame->block_bytes - from : PW_PACKET_BYTES;
        uint64_t bit = pw_fault_mix(key) % (8 * num_bytes);
        payload[from + bit / 8] ^= (uint8_t)(1u << bit % 8);
        injected(ni, PW_FAULT_PACKET_CORRUPTION, frame->transaction_id, frame->header.time_ns);
    }
    if (pw_fault_draw(&ni->faults, PW_FAULT_DUPLICATION, pw_fault_key(peer, identity, frame->sequence, 0))) {
        pw_time later_ns = ni->faults.sites[PW_FAULT_DUPLICATION].amount_ns;
        pw_block_frame *copy = copy_frame(ni, peer, frame);
        copy->header.flags |= PW_FLAG_COPY;
        copy->header.time_ns += later_ns;
        copy->last_packet_ns += later_ns;
        copy->held_ns += later_ns;
        pw_frame_seal(&copy->header, covered_bytes);
        injected(ni, PW_FAULT_DUPLICATION, frame->transaction_id, frame->header.time_ns);
    }
    if (ni->held_blocks) release_held(ni, peer, frame, identity, covered_bytes);
}
