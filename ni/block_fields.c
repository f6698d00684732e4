#include "ni/block_fields.h"
#include "r5sched/segmentation.h"

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

static bool are_packets_sane(const pw_block_frame *block)
{
    uint32_t num_packets = (block->block_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES;
    if (num_packets == 0 || num_packets > PW_BLOCK_PACKETS || block->num_packets != num_packets)
        return false;
    uint64_t all = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - num_packets);
    uint64_t frame_bytes = sizeof *block + ((num_packets * 4u + 7u) & ~7u) + block->block_bytes;
    return block->packet_mask && !(block->packet_mask & ~all) &&
           block->header.frame_bytes == ((frame_bytes + 7) & ~UINT64_C(7));
}

static bool are_times_sane(const pw_block_frame *block)
{
    return block->waited_ns <= PW_WAITED_MAX_NS && block->last_packet_ns >= block->header.time_ns &&
           block->last_packet_ns <= PW_FRAME_TIME_MAX && block->held_ns >= 0 &&
           block->held_ns <= block->header.time_ns;
}

bool pw_block_is_sane(const pw_block_frame *block, uint64_t block_max)
{
    return is_transfer_sane(block) && is_place_sane(block, block_max) && are_packets_sane(block) &&
           are_times_sane(block);
}
