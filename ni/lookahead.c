#include "ni/lookahead.h"
#include "ni/state.h"
#include "r5sched/segmentation.h"

/* Nobody else on this node now, and enough blocks for it to matter. With HUPCF = 0 a present page
 * is no promise; with a single walker a walk may have to wait; a limited receive buffer may refuse
 * the block. */
static bool may_grant(const pw_ni *ni, const pw_inbound *inbound)
{
    const pw_settings *settings = &ni->settings;
    bool is_certain = ni->translation->ops->is_certain && settings->hupcf &&
                      !settings->receive_buffer_blocks && !ni->impairments.any &&
                      ni->smmu.num_walkers > 1;
    return settings->lookahead_blocks > 0 && is_certain && inbound->is_read &&
           inbound->num_blocks > 2 && ni->num_inbounds == 1 && inbound->peer != ni->node;
}

/* Translate the pages of a block ahead. False at the first page that would fault. */
static bool grant_block(pw_ni *ni, pw_inbound *inbound, uint32_t block_idx)
{
    uint64_t block_max = (uint64_t)ni->settings.block_bytes;
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
    pw_frame_seal(&frame->header, sizeof *frame);
    inbound->granted_end = end;
}

static pw_grant_frame *grant_slot(pw_ni *ni, uint32_t peer, uint32_t stream)
{
    return &ni->grants[(peer * 31 + stream) % PW_GRANTS_KEPT];
}

void pw_lookahead_accept(pw_ni *ni, const pw_grant_frame *grant)
{
    if (grant->num_blocks > PW_GRANT_BLOCKS) return;
    *grant_slot(ni, grant->header.source_node, grant->header.stream) = *grant;
}

bool pw_lookahead_foresee(pw_ni *ni, const pw_transfer *transfer, const pw_transaction *transaction,
                          const pw_block_frame *frame, pw_time *ack_ns)
{
    const pw_grant_frame *grant = grant_slot(ni, transfer->peer, transfer->stream);
    uint32_t i = transaction->block_idx - grant->first_block;
    if (grant->header.stream != transfer->stream || grant->header.source_node != transfer->peer ||
        i >= grant->num_blocks || transaction->sequence != 0 || ni->impairments.any ||
        !pw_firmware_may_predict(&ni->firmware, transaction->channel))
        return false;
    uint32_t how = grant->translations[i / 16] >> 4 * (i % 16) & 15;
    *ack_ns = pw_later(frame->last_packet_ns, frame->header.time_ns) +
              pw_translation_latency_ns(ni->translation, how) +
              ni->paths[transfer->peer].latency_ns;
    return *ack_ns <= transaction->deadline_ns;
}
