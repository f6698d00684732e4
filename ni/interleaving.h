/* Two blocks that share the link packet by packet: the first has it alone until the second is
 * ready, then they take turns, beginning with the first, until one of them is out of packets.
 * Stateless; source and destination count the same way. */
#ifndef PW_NI_INTERLEAVING_H
#define PW_NI_INTERLEAVING_H
#include "native/frames.h"

/* A block's part in the order; all zero: it has the link alone. */
typedef struct {
    bool is_second;
    uint32_t head;       /* packets of the first block before the second was ready */
    uint32_t num_others; /* packets of the other block */
} pw_lane;

static inline uint32_t pw_fewer(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* How many packets of both precede a block's packet. */
static inline uint64_t pw_lane_slot(const pw_lane *lane, uint32_t packet)
{
    if (lane->is_second) return packet + pw_fewer(lane->head + packet + 1, lane->num_others);
    if (packet < lane->head) return packet;
    return packet + pw_fewer(packet - lane->head, lane->num_others);
}

/* How many packets of the first block arrive before the second could: all of them when they do not
 * share the link. */
static inline uint32_t pw_pair_head(const pw_block_frame *first, const pw_block_frame *second)
{
    uint64_t interval_ps = first->packet_interval_ps;
    pw_time ready_ns = second->header.time_ns - (pw_time)second->waited_ns;
    if (ready_ns <= first->header.time_ns) return 0;
    uint64_t wait_ns = (uint64_t)(ready_ns - first->header.time_ns);
    if (!interval_ps || wait_ns > first->num_packets * interval_ps / 1000)
        return first->num_packets;
    return pw_fewer((uint32_t)((wait_ns * 1000 + interval_ps - 1) / interval_ps),
                    first->num_packets);
}

/* The second block's last packet, where nothing holds up the pair. */
static inline pw_time pw_pair_second_end_ns(const pw_block_frame *first,
                                            const pw_block_frame *second)
{
    const pw_lane lane = {
        .is_second = true, .head = pw_pair_head(first, second), .num_others = first->num_packets};
    uint64_t slot = pw_lane_slot(&lane, second->num_packets - 1);
    return first->header.time_ns + (pw_time)(slot * first->packet_interval_ps / 1000);
}

#endif
